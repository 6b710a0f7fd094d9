//! Answers read strictly: what is not one byte for byte stops the test.

use serde_json::Value;

/// One final answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Its request or its status leaves it no body.
    pub is_bodiless: bool,
}

impl Answer {
    /// The one field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// The whole answers at the start of `bytes`, and where the first one that is not whole begins. `methods` are those of
/// the requests, in order.
pub fn read(bytes: &[u8], methods: &[&str]) -> (Vec<Answer>, usize) {
    let (mut answers, mut at) = (Vec::new(), 0);
    while let Some((answer, length)) = one(&bytes[at..], methods.get(answers.len()).copied()) {
        at += length;
        // Interim answers announce another one.
        if answer.status >= 200 {
            answers.push(answer);
        }
    }
    (answers, at)
}

fn one(bytes: &[u8], method: Option<&str>) -> Option<(Answer, usize)> {
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
    let is_of_head = method == Some("HEAD") && !refuses_a_head(status, &fields, &bytes[at..]);
    let is_bodiless = status < 200 || matches!(status, 204 | 304) || is_of_head;
    let length = body_bytes(&fields, is_bodiless);
    let body = bytes.get(at..at.checked_add(length)?)?.to_vec();
    Some((Answer { status, fields, body, is_bodiless }, at + length))
}

/// A `HEAD` whose head was found unsound after it was read to its end is no longer known for one: the last answer of the
/// connection then has a body all the same.
fn refuses_a_head(status: u16, fields: &[(String, String)], rest: &[u8]) -> bool {
    let is_last = fields.iter().any(|(name, value)| name == "connection" && value == "close");
    let problem = serde_json::Deserializer::from_slice(rest).into_iter::<Value>().next();
    let says_why = problem.and_then(Result::ok).is_some_and(|problem| {
        let detail = problem["detail"].as_str();
        detail.is_some_and(|detail| detail.starts_with("the head of the request cannot be read: "))
    });
    status == 400 && is_last && says_why
}

/// The daemon's answers are made whole, so each says how long it is.
fn body_bytes(fields: &[(String, String)], is_bodiless: bool) -> usize {
    assert!(fields.iter().all(|(name, _)| name != "transfer-encoding"), "an answer in chunks");
    let mut lengths = fields.iter().filter(|(name, _)| name == "content-length");
    let length = lengths.next();
    assert!(lengths.next().is_none(), "two lengths");
    match length {
        _ if is_bodiless => 0,
        Some((_, length)) => length.parse().expect("a length"),
        None => panic!("an answer of no length"),
    }
}

fn line(bytes: &[u8]) -> Option<(&str, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((str::from_utf8(&bytes[..end]).expect("an answer is text"), end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNREADABLE: &str = r#"{"detail":"the head of the request cannot be read: invalid content-length"}"#;

    /// The answer to a `HEAD`: whether it is taken for one with a body, and all of it for one answer.
    fn has_body(status: &str, connection: &str, body: &str) -> bool {
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\nconnection: {connection}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let (answers, whole) = read(text.as_bytes(), &["HEAD"]);
        let [answer] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!(whole == text.len(), !answer.is_bodiless);
        !answer.is_bodiless
    }

    #[test]
    fn of_all_answers_to_a_head_one_that_could_not_read_it_alone_has_a_body() {
        assert!(has_body("400 Bad Request", "close", UNREADABLE));
        assert!(!has_body("400 Bad Request", "keep-alive", UNREADABLE));
        assert!(!has_body("404 Not Found", "close", UNREADABLE));
        let of_a_handler = r#"{"detail":"the query parameter `cusor` is not known here"}"#;
        assert!(!has_body("400 Bad Request", "close", of_a_handler));
    }
}
