//! The network record of one call: limits, audit effects and errors.
//!
//! A request is recorded before it is sent and updated as it proceeds, so a request that is in flight when the call
//! ends is in the record too. The record contains no query and no content.

use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_admission::{NetworkDenial, Permitted};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::{LimitName, Limits};
use toolgate_api::network::Target;
use toolgate_api::text::escape_for_display;
use wasmtime_wasi_http::Error;

use super::trace::Exchange;
use crate::effect::Effect;

/// Recorded requests and refusals of one call. Later ones are only counted: the limit on requests bounds requests that
/// are sent, and this bounds attempts.
const RECORDED_MAX: usize = 1_000;

/// Retry delay after a request found no free connection: most requests take less.
const RETRY_AFTER_MS: u64 = 1_000;

/// Fully recorded requests of a traced call: they are read by a person, and each takes up to half a megabyte.
const TRACED_MAX: usize = 32;

/// Maximum length of a destination in a record, in characters.
const DETAIL_CHARS: usize = 500;

/// The record of one call, shared by its requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EgressRecord(Arc<Mutex<RecordState>>);

#[derive(Default)]
struct RecordState {
    requests_left: u64,
    bytes_left: u64,
    bytes: u64,
    entries: Vec<Entry>,
    /// Whether requests are recorded in full.
    is_traced: bool,
    /// Status of the last response.
    last_status: Option<u16>,
    /// The last response with a `Location`, if it was the last: its status, the request and the location.
    redirect: Option<(u16, Arc<Target>, String)>,
    /// Whether the credential that the last request was refused with is renewed by the next request.
    credential_is_renewed: bool,
    exceeded_limit: Option<LimitName>,
    /// The intent of the call could not be recorded.
    unrecordable: bool,
    last_error: Option<CallError>,
}

enum Entry {
    Effect(Effect, Option<Box<Exchange>>),
    Request(Request),
}

struct Request {
    target: String,
    credential: Option<String>,
    status: Option<u16>,
    sent: u64,
    received: u64,
    failure: Option<&'static str>,
    exchange: Option<Box<Exchange>>,
}

/// Handle of a recorded request.
#[derive(Clone)]
pub(super) struct RequestHandle {
    record: EgressRecord,
    target: Arc<Target>,
    at: Option<usize>,
    is_traced: bool,
}

impl EgressRecord {
    pub(crate) fn new(limits: &Limits, is_traced: bool) -> Self {
        Self(Arc::new(Mutex::new(RecordState {
            requests_left: limits.requests,
            bytes_left: limits.egress_bytes,
            is_traced,
            ..RecordState::default()
        })))
    }

    /// Counts a request before it is decided. Returns false if none is left.
    pub(super) fn take_request(&self) -> bool {
        let mut state = self.0.lock();
        let left = state.requests_left.checked_sub(1);
        match left {
            Some(left) => state.requests_left = left,
            None => state.exceeded_limit = Some(LimitName::Requests),
        }
        left.is_some()
    }

    pub(super) fn record_denial(&self, destination: &str, denied: &NetworkDenial) {
        let detail = format!(
            "{}: {}",
            escape_for_display(destination, DETAIL_CHARS),
            escape_for_display(&denied.message, DETAIL_CHARS)
        );
        let mut state = self.0.lock();
        let mut error = CallError::from(denied);
        if let Some(way) = state.way_to(destination) {
            error.message.push_str(&way);
        }
        state.last_error = Some(error);
        let effect = Effect { kind: "network_denied", detail };
        // A request that began and was denied for its address is one exchange.
        let begun = state.entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::Request(Request { status: None, failure: None, exchange: Some(exchange), .. }) => {
                Some(exchange)
            }
            _ => None,
        });
        if let Some(begun) = begun.filter(|begun| begun.failed.is_none() && begun.request == destination) {
            begun.failed = Some(denied.message.clone());
            state.push(Entry::Effect(effect, None));
            return;
        }
        let exchange = state.can_trace().then(|| Box::new(Exchange::denial(destination, denied)));
        state.push(Entry::Effect(effect, exchange));
    }

    pub(super) fn set_credential_renewed(&self, is_renewed: bool) {
        self.0.lock().credential_is_renewed = is_renewed;
    }

    pub(super) fn set_unrecordable(&self) {
        self.0.lock().unrecordable = true;
    }

    /// Adds an effect about a request.
    pub(super) fn add_effect(&self, kind: &'static str, detail: String) {
        self.0.lock().push(Entry::Effect(Effect { kind, detail }, None));
    }

    pub(super) fn set_error(&self, error: CallError) {
        self.0.lock().last_error = Some(error);
    }

    /// Records a request that is about to be sent.
    pub(super) fn begin_request(&self, permitted: &Permitted, credential: Option<&str>) -> RequestHandle {
        let mut state = self.0.lock();
        let request = Request {
            target: escape_for_display(&permitted.target().to_string(), DETAIL_CHARS),
            credential: credential.map(|name| escape_for_display(name, 100)),
            status: None,
            sent: 0,
            received: 0,
            failure: None,
            exchange: state.can_trace().then(|| Box::new(Exchange::begin(permitted, credential))),
        };
        let is_traced = state.is_traced;
        let at = state.push(Entry::Request(request));
        RequestHandle { record: self.clone(), target: Arc::clone(permitted.target()), at, is_traced }
    }

    pub(crate) fn exceeded_limit(&self) -> Option<LimitName> {
        self.0.lock().exceeded_limit
    }

    pub(crate) fn is_unrecordable(&self) -> bool {
        self.0.lock().unrecordable
    }

    /// The last error, unless a later request got a response.
    pub(crate) fn last_error(&self) -> Option<CallError> {
        self.0.lock().last_error.clone()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }

    /// Whether the last response reports a server error or overload (RFC 9110, 15.5 and 15.6).
    pub(crate) fn upstream_is_failing(&self) -> bool {
        self.0.lock().last_status.is_some_and(|status| matches!(status, 408 | 425 | 429 | 500..=599))
    }

    /// Whether the last request carried a credential and its server refused it with 401 or 403 (RFC 9110, 15.5.2 and
    /// 15.5.4).
    pub(crate) fn credential_is_refused(&self) -> bool {
        let state = self.0.lock();
        let last = state.entries.iter().rev().find_map(|entry| match entry {
            Entry::Request(request) => Some(request),
            _ => None,
        });
        last.is_some_and(|request| request.credential.is_some() && matches!(request.status, Some(401 | 403)))
    }

    /// Whether the last request was refused with status 401 for a credential that the next request renews.
    pub(crate) fn credential_is_renewed(&self) -> bool {
        let state = self.0.lock();
        state.last_status == Some(401) && state.credential_is_renewed
    }

    /// Returns the effects, and the exchanges of a traced call.
    pub(crate) fn take(&self) -> (Vec<Effect>, Vec<Exchange>) {
        let entries = std::mem::take(&mut self.0.lock().entries);
        let mut exchanges = Vec::new();
        let effects = entries.into_iter().map(|entry| entry.into_effect(&mut exchanges)).collect();
        (effects, exchanges)
    }
}

impl RecordState {
    fn can_trace(&self) -> bool {
        self.is_traced && self.entries.len() < TRACED_MAX
    }

    /// Says which response led to a request, if the last one did.
    fn way_to(&self, destination: &str) -> Option<String> {
        let (status, from, location) = self.redirect.as_ref()?;
        let authority = destination.split("//").nth(1)?.split('/').next()?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        (location.contains(host) || !location.contains("//")).then(|| {
            let from = escape_for_display(&from.to_string(), DETAIL_CHARS);
            format!(", to which `{from}` led with status {status}")
        })
    }

    /// Counts bytes of both directions. Returns false beyond the limit.
    fn spend_bytes(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or(0);
        if left.is_none() {
            self.exceeded_limit = Some(LimitName::EgressBytes);
        }
        left.is_some()
    }

    fn request(&mut self, at: Option<usize>) -> Option<&mut Request> {
        match self.entries.get_mut(at?) {
            Some(Entry::Request(request)) => Some(request),
            _ => None,
        }
    }

    fn push(&mut self, entry: Entry) -> Option<usize> {
        let at = self.entries.len();
        (at < RECORDED_MAX).then(|| {
            self.entries.push(entry);
            at
        })
    }
}

impl RequestHandle {
    fn update(&self, change: impl FnOnce(&mut Request)) {
        if let Some(request) = self.record.0.lock().request(self.at) {
            change(request);
        }
    }

    pub(super) fn count_sent(&self, bytes: usize) -> Result<(), Error> {
        let is_within_limit = self.count(bytes, |request| &mut request.sent);
        if is_within_limit { Ok(()) } else { Err(Error::HttpRequestBodySize(None)) }
    }

    pub(super) fn count_received(&self, bytes: usize) -> Result<(), Error> {
        let is_within_limit = self.count(bytes, |request| &mut request.received);
        if is_within_limit { Ok(()) } else { Err(Error::HttpResponseBodySize(None)) }
    }

    fn count(&self, bytes: usize, counter: impl Fn(&mut Request) -> &mut u64) -> bool {
        let (mut state, bytes) = (self.record.0.lock(), bytes as u64);
        state.request(self.at).into_iter().for_each(|request| *counter(request) += bytes);
        state.spend_bytes(bytes)
    }

    /// Records the status of the response and where it leads, and clears earlier errors.
    pub(super) fn record_status(&self, status: u16, location: Option<&str>) {
        let mut state = self.record.0.lock();
        state.request(self.at).into_iter().for_each(|request| request.status = Some(status));
        state.last_error = None;
        state.last_status = Some(status);
        let location = location.filter(|_| (300..400).contains(&status));
        state.redirect = location.map(|location| (status, Arc::clone(&self.target), location.to_owned()));
    }

    /// Updates the exchange of a traced request.
    pub(super) fn trace(&self, add: impl FnOnce(&mut Exchange)) {
        if !self.is_traced {
            return;
        }
        self.update(|request| {
            if let Some(exchange) = &mut request.exchange {
                add(exchange);
            }
        });
    }

    pub(super) fn record_failure(&self, error: &Error, why: &'static str) {
        self.update(|request| request.failure = Some(why));
        self.record.set_error(unavailable_error(error, why, &self.target.host().to_string()));
    }

    /// Records that no connection slot became free: a fault of the daemon, not of the upstream.
    pub(super) fn record_no_slot(&self, why: &'static str) {
        self.update(|request| request.failure = Some(why));
        self.record.set_error(overload_error(why));
    }
}

impl Entry {
    fn into_effect(self, exchanges: &mut Vec<Exchange>) -> Effect {
        let request = match self {
            Self::Effect(effect, exchange) => {
                exchanges.extend(exchange.map(|exchange| *exchange));
                return effect;
            }
            Self::Request(request) => request,
        };
        let Request { target, credential, status, sent, received, failure, exchange } = request;
        exchanges.extend(exchange.map(|exchange| Exchange {
            status,
            failed: failure.map(str::to_owned).or(exchange.failed),
            ..*exchange
        }));
        let answer = match (status, failure) {
            (Some(status), None) => status.to_string(),
            (Some(status), Some(why)) => format!("{status}, then {why}"),
            (None, Some(why)) => why.to_owned(),
            (None, None) => "no answer".to_owned(),
        };
        let credential = credential.map(|name| format!(", credential {name}")).unwrap_or_default();
        let detail = format!("{target}: {answer}, {sent} bytes out, {received} bytes in{credential}");
        Effect { kind: "network_request", detail }
    }
}

fn unavailable_error(error: &Error, why: &str, host: &str) -> CallError {
    let is_lasting = matches!(error, Error::TlsCertificateError);
    CallError::new(
        ErrorType::ApiUnavailable,
        format!("the tool could not use `{}`: {why}", escape_for_display(host, 253)),
        match is_lasting {
            true => "tell the operator: the same call fails until the certificate is mended, or the grant trusts its authority",
            false => "call again later; if it stays, tell the operator",
        },
    )
    .retryable(!is_lasting)
}

fn overload_error(why: &str) -> CallError {
    CallError::new(
        ErrorType::Overloaded,
        format!("the request could not be sent: {why}, and none ended in time"),
        "call again in a moment; an operator can raise `egress.connections` and `egress.connections_per_organization`",
    )
    .retryable(true)
    .with_retry_after_ms(RETRY_AFTER_MS)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolgate_admission::CallAccess;
    use toolgate_api::grant::{Capabilities, Grant};

    use super::*;

    /// Sends a request to `https://a.example/x` that gets this response.
    fn response(record: &EgressRecord, status: u16, location: Option<&str>) {
        record.begin_request(&make_permitted(), Some("c")).record_status(status, location);
    }

    fn make_permitted() -> Permitted {
        let rules = r#"{"network":[{"host":"a.example"}]}"#;
        let granted = Grant::parse(rules).expect("a grant");
        let asked = Capabilities { network: granted.network.clone(), ..Capabilities::default() };
        let target = Target::parse("https", "a.example", "/x?secret=1", "GET").expect("a target");
        CallAccess::new(Arc::new(asked), Arc::new(granted)).permit(target).expect("granted")
    }

    fn denial(record: &EgressRecord, url: &str) -> String {
        let denied = NetworkDenial { message: "denied".to_owned(), ..NetworkDenial::no_network() };
        record.record_denial(&format!("GET {url}"), &denied);
        record.last_error().expect("an error").message
    }

    #[test]
    fn a_request_that_is_denied_for_its_address_is_one_exchange() {
        let record = EgressRecord::new(&Limits::DEFAULT, true);
        response(&record, 200, None);
        let permitted = make_permitted();
        record.begin_request(&permitted, Some("c"));
        let destination = permitted.target().to_string();
        for _ in 0..2 {
            record.record_denial(&destination, &NetworkDenial::no_network());
        }
        let (effects, exchanges) = record.take();
        let shown =
            exchanges.iter().map(|exchange| (exchange.credential.is_some(), exchange.failed.is_some()));
        assert_eq!(shown.collect::<Vec<_>>(), [(true, false), (true, true), (false, true)], "{exchanges:?}");
        assert_eq!(effects.len(), 4, "{effects:?}");
    }

    #[test]
    fn w02_a_denial_says_which_response_led_there() {
        let record = EgressRecord::new(&Limits::DEFAULT, false);
        let told = "denied, to which `GET https://a.example:443/x` led with status 302";
        for (location, url, expected) in [
            ("http://169.254.169.254/latest/", "http://169.254.169.254:80/latest/", told),
            ("http://[::1]:8080/", "http://[::1]:8080/", told),
            ("/admin", "https://a.example:443/admin", told),
            ("http://169.254.169.254/latest/", "https://c.example:443/", "denied"),
        ] {
            response(&record, 302, Some(location));
            assert_eq!(denial(&record, url), expected);
        }
        response(&record, 200, None);
        assert_eq!(denial(&record, "http://169.254.169.254:80/"), "denied");
    }

    #[test]
    fn k3_a_refused_credential_counts_as_renewed_only_after_a_401_that_was_taken() {
        let record = EgressRecord::new(&Limits::DEFAULT, false);
        for (status, is_renewed, expected) in [(401, true, true), (401, false, false), (403, true, false)] {
            record.set_credential_renewed(is_renewed);
            response(&record, status, None);
            assert_eq!(record.credential_is_renewed(), expected, "{status}");
        }
    }
}
