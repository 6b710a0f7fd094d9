//! Secrets by their form: names of members, and texts that are keys, tokens, card numbers or e-mail addresses.
//!
//! A text is split once into words, and each word is looked at once, so that the time is linear in any text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};
use toolgate_api::read::pointer;

use super::REDACTED;

/// Ends of the names of secret members, in lower case without separators.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passwords",
    "passphrase",
    "pwd",
    "secret",
    "secrets",
    "secretkey",
    "token",
    "apikey",
    "apikeys",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "cookies",
    "bearer",
];

/// Names with such an end that page through lists.
const OPEN_NAMES: &[&str] =
    &["pagetoken", "nextpagetoken", "nexttoken", "continuationtoken", "synctoken", "starttoken"];

/// Beginnings of keys and tokens, with the fewest characters that follow.
const KEY_PREFIXES: &[(&str, usize)] = &[
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("rk_test_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxe-", 10),
    ("xoxo-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("npm_", 30),
    ("pypi-", 30),
    ("tg_", 40),
];

/// Beginnings, in lower case, of what the texts and names above have. A text without them has no secret.
const HINTS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "api",
    "access",
    "private",
    "auth",
    "credential",
    "cookie",
    "bearer",
    "basic",
    "akia",
    "asia",
    "aiza",
    "sk-",
    "sk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat",
    "xox",
    "npm_",
    "pypi",
    "tg_",
    "eyj",
    "-----begin",
    "\\u",
];

/// Finds the hints in one pass, however many there are.
static HINT_SEARCH: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(HINTS).ok());

/// Digits of a card number.
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// Fewest characters of a credential after `Bearer` or `Basic`.
const BEARER_CHARS: usize = 12;

/// Fewest characters of each part of a JWT.
const JWT_PART_CHARS: usize = 8;

const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_KIND: &str = "PRIVATE KEY-----";
const KEY_END: &str = "-----END ";

/// Whether JSON text may have a secret. Most have none, and need not be parsed.
pub(super) fn may_have_secret(json: &str, emails: bool) -> bool {
    let mut digits = 0;
    let has_number = json.bytes().any(|byte| {
        match byte {
            b'0'..=b'9' => digits += 1,
            b' ' | b'-' => {}
            _ => digits = 0,
        }
        digits >= *CARD_DIGITS.start() || (byte == b'@' && emails)
    });
    has_number || HINT_SEARCH.as_ref().is_none_or(|search| search.is_match(json))
}

/// Replaces the secrets in a value, at any depth. Returns whether it has any.
pub(super) fn redact_value(value: &mut Value, emails: bool) -> bool {
    let redacted = match value {
        Value::String(text) => match redact_text(text, emails) {
            Cow::Owned(redacted) => Value::String(redacted),
            Cow::Borrowed(_) => return false,
        },
        Value::Number(number) => {
            let text = number.to_string();
            if !text.bytes().all(|byte| byte.is_ascii_digit()) || !is_card(text.as_bytes()) {
                return false;
            }
            Value::String(REDACTED.to_owned())
        }
        Value::Array(items) => {
            return items.iter_mut().fold(false, |found, item| redact_value(item, emails) | found);
        }
        Value::Object(members) => return redact_members(members, emails),
        Value::Null | Value::Bool(_) => return false,
    };
    *value = redacted;
    true
}

fn redact_members(members: &mut Map<String, Value>, emails: bool) -> bool {
    let mut found = false;
    for (name, member) in members {
        if is_secret_name(name) && !matches!(member, Value::Null | Value::Bool(_)) {
            *member = Value::String(REDACTED.to_owned());
            found = true;
        } else {
            found |= redact_value(member, emails);
        }
    }
    found
}

/// Returns the JSON pointer of the first secret below `place`, by its name or as a text. A secret of no content is none.
pub fn find_secret(value: &Value, place: &str) -> Option<String> {
    match value {
        Value::String(text) => matches!(redact_text(text, false), Cow::Owned(_)).then(|| place.to_owned()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| find_secret(item, &pointer(place, &index.to_string())))
        }
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let place = pointer(place, name);
            let is_secret = is_secret_name(name) && !member.is_boolean() && !is_empty(member);
            if is_secret { Some(place) } else { find_secret(member, &place) }
        }),
        Value::Number(_) | Value::Null | Value::Bool(_) => None,
    }
}

/// Whether the value has no content: `null`, or an empty text, list or object.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    SECRET_NAMES.iter().any(|secret| plain.ends_with(secret)) && !OPEN_NAMES.contains(&plain.as_str())
}

/// Replaces the keys, tokens and card numbers in a text, and e-mail addresses where `emails` says so.
pub(super) fn redact_text(text: &str, emails: bool) -> Cow<'_, str> {
    let mut found = private_keys(text);
    credentials(text, &mut found);
    cards(text, &mut found);
    if emails {
        addresses(text, &mut found);
    }
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|range| range.start);
    let (mut redacted, mut end) = (String::with_capacity(text.len()), 0);
    for range in found {
        if range.start >= end {
            redacted.push_str(&text[end..range.start]);
            redacted.push_str(REDACTED);
        }
        end = end.max(range.end);
    }
    redacted.push_str(&text[end..]);
    Cow::Owned(redacted)
}

/// Private keys in PEM; one without an end goes to the end of the text.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(start) = text[from..].find(KEY_BEGIN).map(|at| from + at) {
        let kind = start + KEY_BEGIN.len();
        let line_end = text[kind..].find("-----").map_or(text.len(), |at| kind + at + "-----".len());
        if !text[kind..line_end].ends_with(KEY_KIND) {
            from = kind;
            continue;
        }
        let end = match text[line_end..].find(KEY_END).map(|at| line_end + at + KEY_END.len()) {
            Some(label) => text[label..].find("-----").map_or(text.len(), |at| label + at + "-----".len()),
            None => text.len(),
        };
        found.push(start..end);
        from = end;
    }
    found
}

/// Keys and tokens with a known beginning, JWTs, and what follows `Bearer` or `Basic`.
fn credentials(text: &str, found: &mut Vec<Range<usize>>) {
    let mut scheme_end = None;
    for word in words(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')) {
        let shown = &text[word.clone()];
        let follows = scheme_end.is_some_and(|end: usize| {
            end < word.start && text[end..word.start].bytes().all(|byte| byte == b' ')
        });
        let end_of = |start: usize| {
            let end = text[start..].find(|letter: char| letter.is_whitespace() || "\"',;".contains(letter));
            end.map_or(text.len(), |at| start + at)
        };
        if follows && end_of(word.start) - word.start >= BEARER_CHARS {
            found.push(word.start..end_of(word.start));
        } else if is_key(shown) || is_jwt(shown) {
            found.push(word.clone());
        }
        let is_scheme = shown.eq_ignore_ascii_case("bearer") || shown.eq_ignore_ascii_case("basic");
        scheme_end = is_scheme.then_some(word.end);
    }
}

fn is_key(word: &str) -> bool {
    KEY_PREFIXES.iter().any(|(prefix, least)| {
        word.strip_prefix(prefix).is_some_and(|rest| rest.trim_end_matches(['.', '-']).len() >= *least)
    })
}

fn is_jwt(word: &str) -> bool {
    let mut parts = word.split('.');
    let mut is_long = || parts.next().is_some_and(|part| part.len() >= JWT_PART_CHARS);
    word.starts_with("eyJ") && is_long() && is_long()
}

/// Card numbers, also with spaces or hyphens between groups of digits.
fn cards(text: &str, found: &mut Vec<Range<usize>>) {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for group in words(text, |byte| byte.is_ascii_digit()) {
        let is_next = groups.last().is_some_and(|last| {
            last.end + 1 == group.start && matches!(text.as_bytes()[last.end], b' ' | b'-')
        });
        if !is_next {
            find_cards(text, &groups, found);
            groups.clear();
        }
        groups.push(group);
    }
    find_cards(text, &groups, found);
}

/// Looks for card numbers in groups of digits, each at most 19 digits from its first group.
fn find_cards(text: &str, groups: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    let mut first = 0;
    while first < groups.len() {
        let mut digits = Vec::new();
        let mut last = None;
        for (index, group) in groups.iter().enumerate().skip(first) {
            if digits.len() + group.len() > *CARD_DIGITS.end() {
                break;
            }
            digits.extend_from_slice(text[group.clone()].as_bytes());
            if is_card(&digits) {
                last = Some(index);
            }
        }
        match last {
            Some(last) => {
                found.push(groups[first].start..groups[last].end);
                first = last + 1;
            }
            None => first += 1,
        }
    }
}

/// Luhn's check digit, and the first digit of a payment card, so that few other numbers count.
fn is_card(digits: &[u8]) -> bool {
    if !CARD_DIGITS.contains(&digits.len()) || !matches!(digits[0], b'2'..=b'6') {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match (u32::from(digit - b'0'), index % 2) {
            (digit, 0) => digit,
            (digit, _) if digit > 4 => 2 * digit - 9,
            (digit, _) => 2 * digit,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// E-mail addresses: a word with one `@`, and a dot behind it.
fn addresses(text: &str, found: &mut Vec<Range<usize>>) {
    let is_part = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-' | b'@')
            || byte >= 0x80
    };
    for word in words(text, is_part) {
        if let Some((name, host)) = text[word.clone()].rsplit_once('@')
            && !name.is_empty()
            && host.trim_matches('.').contains('.')
        {
            found.push(word);
        }
    }
}

/// Longest runs of such bytes. `is_part` takes all bytes of a character or none, so that runs end at characters.
fn words(text: &str, is_part: impl Fn(u8) -> bool) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + bytes[at..].iter().position(|byte| is_part(*byte))?;
        at = bytes[start..].iter().position(|byte| !is_part(*byte)).map_or(bytes.len(), |end| start + end);
        Some(start..at)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn o3_keys_tokens_and_card_numbers_are_replaced_in_texts() {
        for (text, expected) in [
            ("key AKIAIOSFODNN7EXAMPLE.", "key [redacted]"),
            ("sk-abcdefghijklmnop1234, ok", "[redacted], ok"),
            ("x=ghp_abcdefghijklmnopqrst0123456789", "x=[redacted]"),
            ("Authorization: Bearer abc/def+ghi=jklmnop end", "Authorization: Bearer [redacted] end"),
            ("eyJhbGciOiJI.eyJzdWIiOiIx.sig here", "[redacted] here"),
            ("a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b", "a [redacted] b"),
            ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]"),
            ("card 4111 1111 1111 1111 12/27", "card [redacted] 12/27"),
            ("5500-0000-0000-0004 é", "[redacted] é"),
            ("378282246310005", "[redacted]"),
        ] {
            assert_eq!(redact_text(text, false), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_texts_stay() {
        for text in [
            "",
            "é",
            "task-abcdefghijklmnopqrst",
            "1795309323045",
            "4111111111111112",
            "AKIA",
            "the bearer of this letter",
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
            "call +49 170 1234567",
            "ada@example.org",
            "sk-1",
            "12345678901234567890123456789",
            "basic income",
        ] {
            assert!(matches!(redact_text(text, false), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn o3_addresses_are_replaced_where_the_policy_says_so() {
        assert_eq!(redact_text("to ada.l+x@mail.example.org!", true), "to [redacted]!");
        assert_eq!(redact_text("at @home, 5 @ 3, a@b", true), "at @home, 5 @ 3, a@b");
    }

    #[test]
    fn o3_members_with_secret_names_are_replaced_at_any_depth() {
        let mut value = json!({
            "api_key": "x", "Client-Secret": ["y"], "user": {"PASSWORD": 12, "name": "Ada"}, "next_page_token": "p",
            "max_tokens": 5, "has_token": true, "token": null, "cards": [4_111_111_111_111_111_u64], "n": 1.5,
        });
        redact_value(&mut value, false);
        let expected = json!({
            "api_key": "[redacted]", "Client-Secret": "[redacted]", "user": {"PASSWORD": "[redacted]", "name": "Ada"},
            "next_page_token": "p", "max_tokens": 5, "has_token": true, "token": null, "cards": ["[redacted]"], "n": 1.5,
        });
        assert_eq!(value, expected);
    }

    /// The search of the JSON text must find every secret: without a finding, the text is not parsed.
    #[test]
    fn the_search_of_json_text_finds_all_that_is_replaced() {
        for (prefix, least) in KEY_PREFIXES {
            assert!(
                may_have_secret(&json!(format!("{prefix}{}", "a".repeat(*least))).to_string(), false),
                "{prefix}"
            );
        }
        for name in SECRET_NAMES {
            assert!(may_have_secret(&json!({*name: "x"}).to_string(), false), "{name}");
        }
        for text in ["p\\u0061ssword", "4111 1111 1111 1111", "EYJx", "-----BEGIN EC PRIVATE KEY-----"] {
            assert!(may_have_secret(&format!("\"{text}\""), false), "{text}");
        }
        assert!(may_have_secret("\"a@b.example\"", true) && !may_have_secret("\"a@b.example\"", false));
        assert!(!may_have_secret(r#"{"city":"Paris","days":3,"path":"notes/a.txt"}"#, false));
    }

    /// A quadratic search of these would take minutes.
    #[test]
    fn long_texts_without_an_end_are_searched_in_linear_time() {
        for part in
            ["eyJ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "4 ", "4111-", "bearer ", "a@", "sk-", "."]
        {
            let text = part.repeat(300_000);
            let _ = redact_text(&text, true);
            let _ = may_have_secret(&text, true);
        }
    }
}
