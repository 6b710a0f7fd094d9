//! Answers read strictly: what is not one byte for byte stops the test.

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
    // A `HEAD` whose head was found unsound after it was read to its end is no longer known for one: the last answer
    // of the connection then has a body all the same.
    let is_of_head = method == Some("HEAD") && !(status == 400 && bytes[at..].starts_with(b"{"));
    let is_bodiless = status < 200 || matches!(status, 204 | 304) || is_of_head;
    let length = body_bytes(&fields, is_bodiless);
    let body = bytes.get(at..at.checked_add(length)?)?.to_vec();
    Some((Answer { status, fields, body, is_bodiless }, at + length))
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
