//! The header fields of both directions: what is about one connection, or about how content is framed and coded, is
//! said by us.

use http::Version;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use toolgate_api::header::{is_hop_by_hop, is_set_by_host};
use toolgate_api::network::Target;
use wasmtime_wasi_http::Error;

use super::decode;
use super::scan::Scanner;

/// What a server is told where the guest says nothing: some refuse whoever says nothing.
const USER_AGENT: HeaderValue = HeaderValue::from_static("toolgate");

/// What the guest announced as the length of its content.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Makes a guest's fields those of a request. One whose answer is looked through for secrets asks for the whole: a
/// guest that could ask for parts would get a secret that comes back in pieces that nobody knows as one.
pub(super) fn clean_request(headers: &mut HeaderMap, target: &Target, hides: bool) -> Result<(), Error> {
    let of_parts = [header::RANGE, header::IF_RANGE];
    remove(headers, |name| is_set_by_host(name.as_str()) || hides && of_parts.contains(name));
    let host = HeaderValue::try_from(target.authority()).map_err(|_| Error::HttpRequestUriInvalid)?;
    headers.insert(header::HOST, host);
    // A part of something coded cannot be decoded.
    let coding = if headers.contains_key(header::RANGE) { "identity" } else { decode::ACCEPTED };
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(coding));
    headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    Ok(())
}

/// Makes an upstream's fields those of an answer: nothing about the connection, no secret.
pub(super) fn clean_answer(headers: &mut HeaderMap, scanner: Option<&Scanner>) {
    remove(headers, |name| is_hop_by_hop(name.as_str()));
    let Some(scanner) = scanner else { return };
    // HTTP writes names in lower case, whatever case the secret has.
    remove(headers, |name| scanner.is_in_name(name.as_str().as_bytes()));
    for value in headers.values_mut() {
        if let Some(cleaned) = scanner.clean(value.as_bytes()) {
            *value = HeaderValue::from_bytes(&cleaned).unwrap_or(HeaderValue::from_static("***"));
        }
    }
}

fn remove(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted: Vec<HeaderName> = headers.keys().filter(|name| is_unwanted(name)).cloned().collect();
    unwanted.iter().for_each(|name| drop(headers.remove(name)));
}

/// Whether the connection ends with this answer.
pub(super) fn is_last(version: Version, headers: &HeaderMap) -> bool {
    let words = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let closes = |word: &str| word.trim().eq_ignore_ascii_case("close");
    version != Version::HTTP_11 || words.flat_map(|words| words.split(',')).any(closes)
}

/// The coding of an answer, as one text.
pub(super) fn coding(headers: &HeaderMap) -> String {
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    values.map(|value| value.to_str().unwrap_or("?")).collect::<Vec<_>>().join(",")
}

/// What the fields take, as they are sent.
pub(super) fn bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum()
}

#[cfg(test)]
mod tests {
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
        for (hides, coding) in [(false, "identity"), (true, decode::ACCEPTED)] {
            let mut headers = fields(&[("range", "bytes=0-9"), ("if-range", "\"a\""), ("accept", "*/*")]);
            clean_request(&mut headers, &target, hides).expect("clean");
            let has = |name| headers.contains_key(name);
            assert_eq!((has("range"), has("if-range")), (!hides, !hides));
            assert!(has("accept"));
            assert_eq!(headers["accept-encoding"], coding);
        }
    }

    #[test]
    fn a_connection_ends_where_its_server_says_so_and_with_older_versions() {
        assert!(!is_last(Version::HTTP_11, &fields(&[("connection", "keep-alive")])));
        assert!(!is_last(Version::HTTP_11, &fields(&[])));
        assert!(is_last(Version::HTTP_11, &fields(&[("connection", "x, Close")])));
        assert!(is_last(Version::HTTP_10, &fields(&[("connection", "keep-alive")])));
    }
}
