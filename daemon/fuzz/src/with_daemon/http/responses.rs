//! A strict parser of responses, which panics at the first byte that is not valid.

use serde_json::Value;

/// A final response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether it has no body because of its status or its request's method.
    pub is_bodiless: bool,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// Parses the complete responses at the start of `bytes`, and returns the offset of the first incomplete one. `methods` are
/// those of the requests, in order.
pub fn parse(bytes: &[u8], methods: &[&str]) -> (Vec<Response>, usize) {
    let (mut responses, mut at) = (Vec::new(), 0);
    while let Some((response, length)) = parse_one(&bytes[at..], methods.get(responses.len()).copied()) {
        at += length;
        // An interim response is followed by another one.
        if response.status >= 200 {
            responses.push(response);
        }
    }
    (responses, at)
}

fn parse_one(bytes: &[u8], method: Option<&str>) -> Option<(Response, usize)> {
    let (first, mut at) = line(bytes)?;
    let rest = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
    let (status, _) =
        rest.and_then(|rest| rest.split_once(' ')).unwrap_or_else(|| panic!("a status line `{first}`"));
    assert!(status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit()), "a status line `{first}`");
    let status: u16 = status.parse().expect("three digits");
    let mut fields = Vec::new();
    loop {
        let (text, length) = line(bytes.get(at..)?)?;
        at += length;
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(':').unwrap_or_else(|| panic!("a field `{text}`"));
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "a field `{text}`");
        let value = value.trim();
        assert!(
            value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | 0x80..)),
            "a field `{}`",
            text.escape_debug()
        );
        fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let is_to_head = method == Some("HEAD") && !is_unparsed_head(status, &fields, &bytes[at..]);
    let is_bodiless = status < 200 || matches!(status, 204 | 304) || is_to_head;
    let length = body_bytes(&fields, is_bodiless);
    let body = bytes.get(at..at.checked_add(length)?)?.to_vec();
    Some((Response { status, fields, body, is_bodiless }, at + length))
}

/// Whether this is the response to a `HEAD` request that could not be parsed. The daemon does not know its method, so this
/// last response of the connection has a body.
fn is_unparsed_head(status: u16, fields: &[(String, String)], rest: &[u8]) -> bool {
    let is_last = fields.iter().any(|(name, value)| name == "connection" && value == "close");
    let problem = serde_json::Deserializer::from_slice(rest).into_iter::<Value>().next();
    let says_why = problem.and_then(Result::ok).is_some_and(|problem| {
        let detail = problem["detail"].as_str();
        detail.is_some_and(|detail| detail.starts_with("the head of the request cannot be read: "))
    });
    status == 400 && is_last && says_why
}

/// Every response has a `Content-Length`, since the daemon buffers each body.
fn body_bytes(fields: &[(String, String)], is_bodiless: bool) -> usize {
    assert!(fields.iter().all(|(name, _)| name != "transfer-encoding"), "a chunked response");
    let mut lengths = fields.iter().filter(|(name, _)| name == "content-length");
    let length = lengths.next();
    assert!(lengths.next().is_none(), "two lengths");
    match length {
        _ if is_bodiless => 0,
        Some((_, length)) => length.parse().expect("a length"),
        None => panic!("a response without a length"),
    }
}

fn line(bytes: &[u8]) -> Option<(&str, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((str::from_utf8(&bytes[..end]).expect("text"), end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNREADABLE: &str = r#"{"detail":"the head of the request cannot be read: invalid content-length"}"#;

    /// Whether the response to a `HEAD` is parsed as one with a body.
    fn has_body(status: &str, connection: &str, body: &str) -> bool {
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\nconnection: {connection}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let (responses, whole) = parse(text.as_bytes(), &["HEAD"]);
        let [response] = responses.as_slice() else { panic!("{responses:?}") };
        assert_eq!(whole == text.len(), !response.is_bodiless);
        !response.is_bodiless
    }

    #[test]
    fn a_response_to_head_has_a_body_only_if_the_request_could_not_be_parsed() {
        assert!(has_body("400 Bad Request", "close", UNREADABLE));
        assert!(!has_body("400 Bad Request", "keep-alive", UNREADABLE));
        assert!(!has_body("404 Not Found", "close", UNREADABLE));
        let of_a_handler = r#"{"detail":"the query parameter `cusor` is not known here"}"#;
        assert!(!has_body("400 Bad Request", "close", of_a_handler));
    }
}
