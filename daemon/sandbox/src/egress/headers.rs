//! Header fields of both directions. The host sets the fields about the connection, framing and content coding.

use http::Version;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use toolgate_api::header::{is_hop_by_hop, is_set_by_host};
use toolgate_api::network::Target;
use wasmtime_wasi_http::Error;

use super::decode;
use super::scan::Scanner;

/// Default `User-Agent`: some servers reject requests without one.
const USER_AGENT: HeaderValue = HeaderValue::from_static("toolgate");

/// The `Content-Length` that the guest set.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Removes hop-by-hop fields and sets those of the host. If the response will be scanned for secrets, range requests
/// are removed: a guest could otherwise fetch a secret in parts that the scanner does not recognize.
pub(super) fn clean_request(
    headers: &mut HeaderMap,
    target: &Target,
    scans_response: bool,
) -> Result<(), Error> {
    let range_fields = [header::RANGE, header::IF_RANGE];
    remove(headers, |name| is_set_by_host(name.as_str()) || scans_response && range_fields.contains(name));
    let host = HeaderValue::try_from(target.authority()).map_err(|_| Error::HttpRequestUriInvalid)?;
    headers.insert(header::HOST, host);
    // A part of encoded content cannot be decoded.
    let coding = if headers.contains_key(header::RANGE) { "identity" } else { decode::ACCEPT_ENCODING };
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(coding));
    headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    Ok(())
}

/// The header fields by which an upstream joins the trace of a call (W3C Trace Context).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`.
    pub traceparent: String,
    /// `tracestate`; empty for none.
    pub tracestate: String,
}

/// Tells the upstream the trace of the call. The guest's own fields are removed before.
pub(super) fn add_trace_context(headers: &mut HeaderMap, context: &TraceContext) {
    let fields = [("traceparent", &context.traceparent), ("tracestate", &context.tracestate)];
    for (name, text) in fields.into_iter().filter(|(_, text)| !text.is_empty()) {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
}

/// Removes hop-by-hop fields and masks secrets in a response head.
pub(super) fn clean_response(headers: &mut HeaderMap, scanner: Option<&Scanner>) {
    remove(headers, |name| is_hop_by_hop(name.as_str()));
    let Some(scanner) = scanner else { return };
    // The `http` crate converts names to lower case, also those that contain a secret.
    remove(headers, |name| scanner.is_in_name(name.as_str().as_bytes()));
    for value in headers.values_mut() {
        if let Some(cleaned) = scanner.clean(value.as_bytes()) {
            *value = HeaderValue::from_bytes(&cleaned).unwrap_or(HeaderValue::from_static("***"));
        }
    }
    let repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    let repeated: Vec<HeaderName> = headers.keys().filter(repeated).cloned().collect();
    repeated.into_iter().for_each(|name| clean_repeated(headers, name, scanner));
}

/// Masks secrets that are split over fields of one name: a recipient may join them with a comma (RFC 9110, 5.3).
fn clean_repeated(headers: &mut HeaderMap, name: HeaderName, scanner: &Scanner) {
    for separator in [&b""[..], b",", b", "] {
        let values: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
        let Some(joined) = scanner.clean(&values.join(separator)) else { continue };
        let lengths: Vec<usize> = values.iter().map(|value| value.len()).collect();
        headers.remove(&name);
        let mut at = 0;
        for length in lengths {
            let value = HeaderValue::from_bytes(joined.get(at..at + length).unwrap_or_default());
            headers.append(name.clone(), value.unwrap_or(HeaderValue::from_static("***")));
            at += length + separator.len();
        }
    }
}

fn remove(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted: Vec<HeaderName> = headers.keys().filter(|name| is_unwanted(name)).cloned().collect();
    unwanted.iter().for_each(|name| drop(headers.remove(name)));
}

/// Whether the server closes the connection after this response.
pub(super) fn closes_connection(version: Version, headers: &HeaderMap) -> bool {
    let words = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let closes = |word: &str| word.trim().eq_ignore_ascii_case("close");
    version != Version::HTTP_11 || words.flat_map(|words| words.split(',')).any(closes)
}

/// The codings of a response, as one list: those of `Content-Encoding`, and those of `Transfer-Encoding` but the last
/// `chunked`, which hyper decodes.
pub(super) fn codings(headers: &HeaderMap) -> String {
    let list = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
    let mut transfer: Vec<&str> =
        list(header::TRANSFER_ENCODING).flat_map(|codings| codings.split(',')).collect();
    transfer.pop_if(|last| last.trim().eq_ignore_ascii_case("chunked"));
    list(header::CONTENT_ENCODING).chain(transfer).collect::<Vec<_>>().join(",")
}

/// The size of the fields on the wire.
pub(super) fn wire_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum()
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(field).collect()
    }

    #[test]
    fn k4_a_request_whose_answer_may_hold_a_secret_asks_for_no_part_of_it() {
        let target = Target::parse("https", "api.example", "/", "GET").expect("a target");
        for (scans_response, coding) in [(false, "identity"), (true, decode::ACCEPT_ENCODING)] {
            let mut headers = fields(&[("range", "bytes=0-9"), ("if-range", "\"a\""), ("accept", "*/*")]);
            clean_request(&mut headers, &target, scans_response).expect("clean");
            let has = |name| headers.contains_key(name);
            assert_eq!((has("range"), has("if-range")), (!scans_response, !scans_response));
            assert!(has("accept"));
            assert_eq!(headers["accept-encoding"], coding);
        }
    }

    #[test]
    fn o5_only_the_host_places_a_request_in_a_trace() {
        let target = Target::parse("https", "api.example", "/", "GET").expect("a target");
        let mut headers = fields(&[("traceparent", "00-guest"), ("tracestate", "guest=1"), ("x-trace", "1")]);
        clean_request(&mut headers, &target, false).expect("clean");
        assert!(!headers.contains_key("traceparent") && !headers.contains_key("tracestate"));
        assert!(headers.contains_key("x-trace"));
        let context = TraceContext { traceparent: "00-host".to_owned(), tracestate: String::new() };
        add_trace_context(&mut headers, &context);
        assert_eq!(headers["traceparent"], "00-host");
        assert!(!headers.contains_key("tracestate"));
    }

    #[test]
    fn k4_the_codings_of_a_response_are_one_list() {
        for (pairs, list) in [
            (&[("content-encoding", "gzip")][..], "gzip"),
            (&[("transfer-encoding", "gzip, Chunked")], "gzip"),
            (&[("transfer-encoding", "gzip"), ("content-encoding", "br")], "br,gzip"),
            (&[("transfer-encoding", "chunked, gzip")], "chunked, gzip"),
            (&[("transfer-encoding", "chunked")], ""),
            (&[], ""),
        ] {
            assert_eq!(codings(&fields(pairs)), list);
        }
    }

    #[test]
    fn k4_a_secret_that_is_split_over_fields_of_one_name_is_masked() {
        let masked = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-echo", HeaderValue::from_static(value));
            }
            headers.insert("x-other", HeaderValue::from_static("open"));
            clean_response(
                &mut headers,
                Some(&scan::tests::scanner(&[b"first,half-second", b"token-of-acme"])),
            );
            assert_eq!(headers["x-other"], "open");
            let values = headers.get_all("x-echo").iter().map(|value| value.to_str().unwrap().to_owned());
            values.collect::<Vec<_>>()
        };
        assert_eq!(masked(&["a first", "half-second b"]), ["a *****", "*********** b"]);
        assert_eq!(masked(&["to", "ken-of", "-acme", "x"]), ["**", "******", "*****", "x"]);
        assert_eq!(masked(&["token-of-acme", "b"]), ["*************", "b"]);
        assert_eq!(masked(&["token-of", "acme"]), ["token-of", "acme"]);
    }

    #[test]
    fn a_connection_ends_where_its_server_says_so_and_with_older_versions() {
        assert!(!closes_connection(Version::HTTP_11, &fields(&[("connection", "keep-alive")])));
        assert!(!closes_connection(Version::HTTP_11, &fields(&[])));
        assert!(closes_connection(Version::HTTP_11, &fields(&[("connection", "x, Close")])));
        assert!(closes_connection(Version::HTTP_10, &fields(&[("connection", "keep-alive")])));
    }
}
