//! What a person who tries a tool is shown of its requests: as they were sent, without the secret, and what came back.
//!
//! Nothing of this is kept for other calls, and none of it goes into the audit. A secret that the host put in is left out
//! where it was put in, and what an upstream says of it was blanked before it is taken down here.

use http::HeaderMap;
use toolgate_admission::{NetworkDenial, NetworkRule, Permitted, Target};

use super::inject::{Injection, InjectionPlace, without};

/// As much of the content of a request or an answer is shown. A model is not shown more than a megabyte either.
const SHOWN_BYTES: usize = 256 * 1024;

/// What stands where a secret was sent.
const MASK: &str = "***";

/// One request of a traced call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// As it was sent: method, and the whole URL with `***` for a secret in the query. What is refused has only what it
    /// was refused for.
    pub request: String,
    /// The fields of its head, `***` for those that the host put a secret into.
    pub headers: Vec<(String, String)>,
    /// Its content.
    pub body: Excerpt,
    /// The rule of the grant that let it leave.
    pub rule: Option<NetworkRule>,
    /// The credential that went with it, by name.
    pub credential: Option<String>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The fields of the answer's head.
    pub answer_headers: Vec<(String, String)>,
    /// The answer's content, decoded.
    pub answer: Excerpt,
    /// Why it was not sent, or not answered whole.
    pub failed: Option<String>,
}

/// The beginning of some content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// What is kept of it.
    pub bytes: Vec<u8>,
    /// How long all of it is, as far as it was read.
    pub length: u64,
}

impl Excerpt {
    pub(super) fn add(&mut self, data: &[u8]) {
        self.length += data.len() as u64;
        let room = SHOWN_BYTES.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&data[..data.len().min(room)]);
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

    pub(super) fn refused(destination: &str, denied: &NetworkDenial) -> Self {
        Self { request: destination.to_owned(), failed: Some(denied.message.clone()), ..Self::default() }
    }

    /// Takes down the head of the request, once it is whole.
    pub(super) fn sent(&mut self, target: &Target, injection: Option<&Injection>, headers: &HeaderMap) {
        let own = target.query().unwrap_or_default();
        let query = match injection.map(Injection::place) {
            Some(InjectionPlace::Query { name }) => {
                let (mut kept, _) = without(own, name);
                let joint = if kept.is_empty() { "" } else { "&" };
                kept.extend([joint, name, "=", MASK]);
                kept
            }
            Some(InjectionPlace::Header { .. }) | None => own.to_owned(),
        };
        if !query.is_empty() {
            self.request = format!("{target}?{query}");
        }
        self.headers = fields(headers);
    }

    pub(super) fn answered(&mut self, headers: &HeaderMap) {
        self.answer_headers = fields(headers);
    }
}

fn fields(headers: &HeaderMap) -> Vec<(String, String)> {
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

    /// C3: a person who tries a tool is shown where a secret went, and not the secret.
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
            exchange.sent(&target, injection, &HeaderMap::new());
            exchange.request
        };
        assert_eq!(shown(Some(&injection)), "GET https://api.example:443/v1?q=1&key=***");
        assert_eq!(shown(None), "GET https://api.example:443/v1?q=1&key=guess");
    }
}
