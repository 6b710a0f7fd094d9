//! The requests and responses of a test call, as sent and received, without secrets.
//!
//! The trace is returned with this call only and not written to the audit log. An injected secret is replaced by `***`,
//! and responses are recorded after the secret scan.

use http::HeaderMap;
use toolgate_admission::{NetworkDenial, Permitted};
use toolgate_api::network::{NetworkRule, Target};

use super::inject::{Injection, InjectionPlace, remove_parameter};

/// Maximum of recorded content of a request or response. A model is shown at most a megabyte, too.
const EXCERPT_BYTES_MAX: usize = 256 * 1024;

/// Replaces a secret.
const MASK: &str = "***";

/// One request of a traced call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The method and the URL as sent, with `***` for a secret in the query. A refused request has the refused
    /// destination only.
    pub request: String,
    /// The request headers, with `***` for injected secrets.
    pub headers: Vec<(String, String)>,
    /// The request content.
    pub body: Excerpt,
    /// The rule of the grant that permits it.
    pub rule: Option<NetworkRule>,
    /// The name of the injected credential.
    pub credential: Option<String>,
    /// The status of the response.
    pub status: Option<u16>,
    /// The response headers.
    pub answer_headers: Vec<(String, String)>,
    /// The decoded response content.
    pub answer: Excerpt,
    /// Why the request was not sent or the response is incomplete.
    pub failed: Option<String>,
}

/// The beginning of some content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The recorded bytes.
    pub bytes: Vec<u8>,
    /// Length of the content as far as it was read.
    pub length: u64,
}

impl Excerpt {
    pub(super) fn add(&mut self, data: &[u8]) {
        self.length += data.len() as u64;
        let free = EXCERPT_BYTES_MAX.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&data[..data.len().min(free)]);
    }
}

impl Exchange {
    pub(super) fn begin(permitted: &Permitted, credential: Option<&str>) -> Self {
        Self {
            request: permitted.target().to_string(),
            rule: Some(permitted.rule().clone()),
            credential: credential.map(str::to_owned),
            ..Self::default()
        }
    }

    pub(super) fn denial(destination: &str, denied: &NetworkDenial) -> Self {
        Self { request: destination.to_owned(), failed: Some(denied.message.clone()), ..Self::default() }
    }

    /// Records the head of the request.
    pub(super) fn record_request(
        &mut self,
        target: &Target,
        injection: Option<&Injection>,
        headers: &HeaderMap,
    ) {
        let own = target.query().unwrap_or_default();
        let query = match injection.map(Injection::place) {
            Some(InjectionPlace::Query { name }) => {
                let (mut kept, _) = remove_parameter(own, name);
                let joint = if kept.is_empty() { "" } else { "&" };
                kept.extend([joint, name, "=", MASK]);
                kept
            }
            Some(InjectionPlace::Header { .. }) | None => own.to_owned(),
        };
        if !query.is_empty() {
            self.request = format!("{target}?{query}");
        }
        self.headers = header_list(headers);
    }

    pub(super) fn record_response(&mut self, headers: &HeaderMap) {
        self.answer_headers = header_list(headers);
    }
}

fn header_list(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = |value: &http::HeaderValue| match value.is_sensitive() {
        true => MASK.to_owned(),
        false => String::from_utf8_lossy(value.as_bytes()).into_owned(),
    };
    headers.iter().map(|(name, value)| (name.to_string(), shown(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    /// C3: a test call shows the place of a secret and not the secret.
    #[test]
    fn c3_a_secret_in_the_query_is_shown_as_stars() {
        let target = Target::parse("https", "api.example", "/v1?q=1&key=guess", "GET").expect("a target");
        let place = InjectionPlace::Query { name: "key".to_owned() };
        let injection = Injection::new(
            "stripe@1".into(),
            "1".into(),
            place,
            Secret::new(b"sk_live".to_vec()),
            Vec::new(),
        );
        let shown = |injection| {
            let mut exchange = Exchange::default();
            exchange.record_request(&target, injection, &HeaderMap::new());
            exchange.request
        };
        assert_eq!(shown(Some(&injection)), "GET https://api.example:443/v1?q=1&key=***");
        assert_eq!(shown(None), "GET https://api.example:443/v1?q=1&key=guess");
    }
}
