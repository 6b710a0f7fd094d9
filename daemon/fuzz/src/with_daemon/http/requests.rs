//! A second parser of requests, which splits a byte stream as RFC 9112 does and stops where it would refuse.

/// The requests of one connection.
#[derive(Debug, Default)]
pub struct ParsedInput {
    /// Requests with a definite start; the body of the last one may be incomplete.
    pub requests: Vec<ParsedRequest>,
    /// Bytes follow that are not a request or whose framing is not valid; the daemon sends at most one response to them.
    pub is_ambiguous: bool,
    /// Every byte belongs to one of the requests.
    pub is_complete: bool,
}

#[derive(Debug)]
pub struct ParsedRequest {
    pub method: String,
    pub path: String,
    /// None without a `Host`, or with several.
    pub host: Option<String>,
    pub has_token: bool,
}

struct Field<'a> {
    name: &'a str,
    value: &'a str,
}

/// The end of a request's body.
enum BodyEnd {
    At(usize),
    Incomplete,
    /// The framing is not valid.
    Ambiguous,
}

pub fn parse(bytes: &[u8]) -> ParsedInput {
    let mut parsed = ParsedInput::default();
    let mut at = 0;
    loop {
        while bytes.get(at..).is_some_and(|rest| rest.starts_with(b"\r\n")) {
            at += 2;
        }
        if at == bytes.len() {
            parsed.is_complete = true;
            return parsed;
        }
        let Some((request, fields, body_at)) = head(&bytes[at..]) else {
            parsed.is_ambiguous = true;
            return parsed;
        };
        parsed.requests.push(request);
        match body_end(bytes, at + body_at, &fields) {
            BodyEnd::At(end) => at = end,
            BodyEnd::Incomplete | BodyEnd::Ambiguous => return parsed,
        }
    }
}

/// A complete, well-formed head, and the offset of its end.
fn head(bytes: &[u8]) -> Option<(ParsedRequest, Vec<Field<'_>>, usize)> {
    let (first, mut at) = line(bytes)?;
    let mut words = first.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return None;
    }
    let mut fields = Vec::new();
    loop {
        let (text, length) = line(bytes.get(at..)?)?;
        at += length;
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(':')?;
        fields.push(Field { name, value: value.trim_matches([' ', '\t']) });
    }
    let request = ParsedRequest {
        method: method.to_owned(),
        path: path_of(target).to_owned(),
        host: host(target, &fields),
        has_token: fields.iter().any(|field| field.name.eq_ignore_ascii_case("authorization")),
    };
    Some((request, fields, at))
}

/// A line without its end, and its length including the end.
fn line(bytes: &[u8]) -> Option<(&str, usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    // The daemon refuses a bare LF (RFC 9112, 2.2).
    let text = bytes.get(..end)?.strip_suffix(b"\r")?;
    // Bytes that are not ASCII end no line and name no framing field.
    Some((str::from_utf8(text).unwrap_or("\u{fffd}: "), end + 1))
}

fn path_of(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("/"),
        None => target,
    };
    path.split(['?', '#']).next().unwrap_or_default()
}

fn host(target: &str, fields: &[Field<'_>]) -> Option<String> {
    if let Some((_, rest)) = target.split_once("://") {
        return Some(rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned());
    }
    if !target.starts_with('/') && target != "*" {
        return Some(target.to_owned());
    }
    let mut hosts = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    let host = hosts.next()?;
    hosts.next().is_none().then(|| host.value.to_owned())
}

fn body_end(bytes: &[u8], at: usize, fields: &[Field<'_>]) -> BodyEnd {
    let of = |name: &str| -> Vec<&str> {
        fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value).collect()
    };
    let (lengths, codings) = (of("content-length"), of("transfer-encoding"));
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => BodyEnd::At(at),
        ([one], []) => match length(one) {
            Some(length) if at.saturating_add(length) <= bytes.len() => BodyEnd::At(at + length),
            Some(_) => BodyEnd::Incomplete,
            None => BodyEnd::Ambiguous,
        },
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => chunks(bytes, at),
        // Two framings, or a coding that the daemon does not support: the connection must end after this request.
        _ => BodyEnd::Ambiguous,
    }
}

fn length(text: &str) -> Option<usize> {
    let is_digits = !text.is_empty() && text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok())?
}

fn chunks(bytes: &[u8], mut at: usize) -> BodyEnd {
    loop {
        let Some((text, line_bytes)) = bytes.get(at..).and_then(line) else { return BodyEnd::Incomplete };
        let size = text.split(';').next().unwrap_or_default().trim_end_matches([' ', '\t']);
        let Some(size) = hexadecimal(size) else { return BodyEnd::Ambiguous };
        at += line_bytes;
        if size == 0 {
            return trailers(bytes, at);
        }
        at = at.saturating_add(size);
        match bytes.get(at..) {
            Some(rest) if rest.starts_with(b"\r\n") => at += 2,
            Some(rest) if rest.len() >= 2 => return BodyEnd::Ambiguous,
            _ => return BodyEnd::Incomplete,
        }
    }
}

fn hexadecimal(text: &str) -> Option<usize> {
    let is_digits = !text.is_empty() && text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digits.then(|| usize::from_str_radix(text, 16).ok())?
}

fn trailers(bytes: &[u8], mut at: usize) -> BodyEnd {
    loop {
        let Some((text, line_bytes)) = bytes.get(at..).and_then(line) else { return BodyEnd::Incomplete };
        at += line_bytes;
        if text.is_empty() {
            return BodyEnd::At(at);
        }
    }
}
