//! Every form at every chunk boundary, among similar text.

use std::sync::Arc;

use super::super::inject::{Injection, InjectionPlace};
use super::super::pattern::Pattern;
use super::*;
use crate::secret::Secret;

const SECRET: &[u8] = b"sk/live \"9f+8e7d&6c5b\\4a3";

pub(in crate::egress) fn scanner(secrets: &[&[u8]]) -> Scanner {
    let mut secrets: Vec<Secret> = secrets.iter().map(|bytes| Secret::new(bytes.to_vec())).collect();
    let place = InjectionPlace::Query { name: "key".to_owned() };
    let first = secrets.remove(0);
    let injection = Injection::new("stripe@1".into(), "1".into(), place, first, secrets);
    Scanner::new(ScanSecrets::One(Arc::new(injection)))
}

fn in_chunks(secrets: &[&[u8]], text: &[u8], size: usize) -> Vec<u8> {
    let mut scanner = scanner(secrets);
    let mut passed: Vec<u8> = text.chunks(size).flat_map(|chunk| scanner.push(chunk)).collect();
    passed.extend(scanner.finish());
    passed
}

/// An independent Base64 encoder, bit by bit.
fn base64(bytes: &[u8], url_safe: bool) -> String {
    let bits: Vec<bool> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let mut letters = String::new();
    for group in bits.chunks(6) {
        let value =
            (0..6).fold(0_u8, |value, at| value << 1 | u8::from(group.get(at).copied().unwrap_or(false)));
        letters.push(match value {
            0..26 => char::from(b'A' + value),
            26..52 => char::from(b'a' + value - 26),
            52..62 => char::from(b'0' + value - 52),
            62 => {
                if url_safe {
                    '-'
                } else {
                    '+'
                }
            }
            _ => {
                if url_safe {
                    '_'
                } else {
                    '/'
                }
            }
        });
    }
    while !letters.len().is_multiple_of(4) {
        letters.push('=');
    }
    letters
}

fn spellings(secret: &[u8]) -> Vec<String> {
    let text = String::from_utf8(secret.to_vec()).expect("text");
    let percent = |upper: bool, keep: &dyn Fn(u8) -> bool| -> String {
        let escape = |byte: &u8| match (keep(*byte), upper) {
            (true, _) => char::from(*byte).to_string(),
            (false, true) => format!("%{byte:02X}"),
            (false, false) => format!("%{byte:02x}"),
        };
        secret.iter().map(escape).collect()
    };
    let json = serde_json::to_string(&text).expect("JSON");
    let json = &json[1..json.len() - 1];
    let mut spellings = vec![
        text.clone(),
        secret.iter().map(|byte| format!("{byte:02x}")).collect(),
        secret.iter().map(|byte| format!("{byte:02X}")).collect(),
        percent(true, &|byte| byte.is_ascii_alphanumeric()),
        percent(false, &|byte| byte.is_ascii_alphanumeric()),
        percent(true, &|byte| byte.is_ascii_alphanumeric()).replace("%20", "+"),
        percent(true, &|_| false),
        percent(false, &|_| false),
        json.to_owned(),
        json.replace('/', "\\/"),
        // As Gson and .NET write JSON, as Python and browsers write URLs, and nested escapes.
        json.replace('&', "\\u0026"),
        json.replace('+', "\\u002B").replace('&', "\\u0026"),
        secret.iter().map(|byte| format!("\\u{byte:04x}")).collect(),
        percent(true, &|byte| byte.is_ascii_alphanumeric() || byte == b'/'),
        percent(true, &|byte| byte.is_ascii_alphanumeric() || b"!'()*-._~;/?:@&=+$,#".contains(&byte)),
        text.replace('&', "&amp;").replace('"', "&quot;"),
        text.replace('&', "&#38;").replace('"', "&#x22;").replace('+', "&#x002b;"),
        percent(true, &|byte| byte.is_ascii_alphanumeric()).replace('%', "%25"),
        percent(true, &|byte| byte.is_ascii_alphanumeric()).replace('%', "\\u0025"),
        json.replace('\\', "\\\\").replace('"', "\\\""),
    ];
    for url_safe in [false, true] {
        spellings.push(base64(secret, url_safe));
        spellings.push(base64(secret, url_safe).trim_end_matches('=').to_owned());
    }
    spellings
}

/// K2: every form, at every chunk size.
#[test]
fn k2_a_secret_is_blanked_in_every_form_at_every_split() {
    for spelling in spellings(SECRET) {
        let text = format!("{{\"token\": \"{spelling}\", \"other\": 1}}");
        let blanked =
            text.replace(spelling.trim_end_matches('='), &"*".repeat(spelling.trim_end_matches('=').len()));
        for size in 1..text.len() + 1 {
            let passed = in_chunks(&[SECRET], text.as_bytes(), size);
            assert_eq!(String::from_utf8_lossy(&passed), blanked, "in chunks of {size}");
        }
    }
}

/// Each byte in an escape of its own, which no encoder emits and no list of forms contains.
#[test]
fn k2_a_secret_is_blanked_however_each_of_its_bytes_is_escaped() {
    let mut state = 11_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    for _ in 0..500 {
        let written: String = SECRET
            .iter()
            .map(|byte| match random(6) {
                0 => format!("%{byte:02x}"),
                1 => format!("\\u{byte:04X}"),
                2 => format!("&#{byte};"),
                3 => format!("\\x{byte:02x}"),
                _ if b"%&\\".contains(byte) => format!("%{byte:02X}"),
                _ => char::from(*byte).to_string(),
            })
            .collect();
        let text = format!("<{written}>");
        let size = random(text.len()) + 1;
        let passed = in_chunks(&[SECRET], text.as_bytes(), size);
        assert_eq!(
            String::from_utf8_lossy(&passed),
            format!("<{}>", "*".repeat(written.len())),
            "{written} in chunks of {size}"
        );
    }
}

/// Text with escapes and without secrets passes unchanged, including a truncated escape.
#[test]
fn k2_escapes_pass_unchanged() {
    let text = r#"{"a":"\u0041\n\\ & &amp; &copy; %41 %zz 100% \q \u20ac é&"#.repeat(20) + r"\u00";
    for size in [1, 2, 3, 5, 64, 4096] {
        assert_eq!(String::from_utf8_lossy(&in_chunks(&[SECRET], text.as_bytes(), size)), text, "{size}");
    }
    let mut scanner = scanner(&[SECRET]);
    assert_eq!(scanner.push(b"100% of it"), b"100% of it");
    assert_eq!(scanner.push(b"100%"), b"100", "what may be an escape waits for what follows");
    assert_eq!(scanner.push(b" of it"), b"% of it");
}

/// No three bytes of the secret can be decoded, for any adjacent bytes.
#[test]
fn k2_a_secret_inside_of_base64_is_blanked_at_every_offset() {
    for before in 0..7 {
        for after in 0..4 {
            for url_safe in [false, true] {
                let data = [&vec![b'<'; before][..], SECRET, &vec![b'>'; after]].concat();
                let text = base64(&data, url_safe);
                let passed = in_chunks(&[SECRET], text.as_bytes(), 7);
                let stars = passed.iter().filter(|byte| **byte == b'*').count();
                assert_eq!(passed.len(), text.len());
                assert!(
                    stars * 6 >= SECRET.len() * 8 - 10,
                    "{before} and {after}: {}",
                    String::from_utf8_lossy(&passed)
                );
            }
        }
    }
}

/// As MIME and PEM write it, as YAML indents it, and as a text in JSON.
#[test]
fn k2_a_secret_in_base64_with_line_breaks_is_blanked() {
    for line_break in ["\n", "\r\n", "\n  ", "\n\t", "\\n", "\\r\\n", "\\u000a"] {
        for before in 60..80 {
            let data = [&vec![b'<'; before][..], SECRET, b">>>>"].concat();
            let letters = base64(&data, false);
            let lines: Vec<&str> = letters
                .as_bytes()
                .chunks(64)
                .map(|line| std::str::from_utf8(line).expect("letters"))
                .collect();
            let text = format!("{}\n\nThe end.\n", lines.join(line_break));
            for size in [1, 2, 7, 64, text.len()] {
                let passed = in_chunks(&[SECRET], text.as_bytes(), size);
                let passed = String::from_utf8(passed).expect("text");
                // A match that holds a break masks it too.
                assert_eq!(passed.len(), text.len());
                let kept = passed.bytes().filter(|byte| *byte != b'*').count();
                let secret = SECRET.len() * 8 / 6 - 2;
                assert!(kept <= text.len() - secret, "{before}, {line_break:?}, {size}: {passed}");
                assert!(passed.starts_with(&text[..64]) || before < 64, "{passed}");
                assert!(passed.ends_with("\n\nThe end.\n"), "{passed}");
            }
        }
    }
}

#[test]
fn k2_a_secret_at_the_end_of_a_line_is_blanked_without_the_break() {
    for text in ["token-of-acme\nnext", "a\ntoken-of-acme\r\n  next\n\n", "token-of-\nacme\nnext"] {
        let blanked =
            text.replace("token-of-acme", "*************").replace("token-of-\nacme", "**************");
        for size in 1..=text.len() {
            let passed = in_chunks(&[b"token-of-acme"], text.as_bytes(), size);
            assert_eq!(String::from_utf8_lossy(&passed), blanked, "in chunks of {size}");
        }
    }
}

#[test]
fn k2_lines_without_the_secret_pass_unchanged() {
    let text = "sk/live \"9f\n8e7d&6c5b\nc2sv\r\nbGl2\n  ZSAi\n\n\r\n- a\n- b\nc2sv".repeat(20) + "\n";
    for size in [1, 2, 3, 5, 64, 4096] {
        assert_eq!(String::from_utf8_lossy(&in_chunks(&[SECRET], text.as_bytes(), size)), text, "{size}");
    }
}

#[test]
fn k2_what_is_not_the_secret_passes_unchanged_and_at_once() {
    let text = b"sk/live \"9f+8e7d&6c5b\\4a4 sk/live sk/live \"9f+8e7d".repeat(40);
    for size in [1, 2, 3, 7, 64, 4096] {
        assert_eq!(in_chunks(&[SECRET], &text, size), text, "in chunks of {size}");
    }
    let mut scanner = scanner(&[SECRET]);
    assert_eq!(scanner.push(b"data: 1\n\n"), b"data: 1\n\n", "nothing is held back without need");
    assert_eq!(scanner.push(b"data: sk/li"), b"data: ");
    assert_eq!(scanner.push(b"zard"), b"sk/lizard");
}

#[test]
fn k2_several_secrets_are_looked_for_at_once_and_may_stand_side_by_side() {
    let secrets: [&[u8]; 2] = [b"first-secret", b"secret-second"];
    let text = b"first-secretfirst-secret-second;first-secretsecret-second";
    for size in 1..=text.len() {
        let passed = in_chunks(&secrets, text, size);
        assert_eq!(String::from_utf8_lossy(&passed), format!("{};{}", "*".repeat(31), "*".repeat(25)));
    }
}

#[test]
fn a_secret_too_short_to_be_one_is_not_looked_for() {
    for short in [&b"ab"[..], b"a", b""] {
        assert!(scanner(&[short]).clean(b"about").is_none());
        assert_eq!(in_chunks(&[short], b"about ab", 3), b"about ab");
    }
}

/// A reallocation would leave an unwiped copy; a debug assertion detects it.
#[test]
fn k2_the_forms_of_no_secret_need_more_room_than_was_made() {
    for byte in 0..=255 {
        for length in [0, 1, 2, 3, 6, 31, 32, 33, 1000] {
            let secret = vec![byte; length];
            let pattern = Pattern::new([&Secret::new(secret)].into_iter());
            assert!(pattern.forms().next().is_some() || length < 3, "{length} times {byte}");
        }
    }
}

/// Compares with a naive search at every position, on text made of parts of the secret.
#[test]
fn k2_the_shifts_find_what_a_plain_search_finds() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    for _ in 0..300 {
        let secret: Vec<u8> = (0..8).map(|_| b"abAB01"[random(6)]).collect();
        let mut text = Vec::new();
        for _ in 0..40 {
            match random(3) {
                0 => text.extend(&secret[..random(9)]),
                1 => text.extend(&secret),
                _ => text.push(b"abAB01"[random(6)]),
            }
        }
        let one = scanner(&[&secret]);
        let mut expected = text.clone();
        for form in one.secrets.pattern().forms() {
            for at in 0..text.len() {
                if text[at..].starts_with(form) {
                    expected[at..at + form.len()].fill(b'*');
                }
            }
        }
        let size = random(20) + 1;
        assert_eq!(in_chunks(&[&secret], &text, size), expected, "{:?}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn k2_a_secret_that_overlaps_itself_is_passed_on_masked() {
    let secret = b"abababab";
    let mut scanner = scanner(&[secret]);
    let mut passed = Vec::new();
    for _ in 0..100 {
        passed.extend(scanner.push(&b"ab".repeat(50)));
        assert!(scanner.held.len() < scanner.secrets.pattern().longest, "{}", scanner.held.len());
    }
    let ends: [&[u8]; 3] = [b"", b"x", b"abx"];
    passed.extend(ends.iter().flat_map(|end| scanner.push(end)));
    passed.extend(scanner.finish());
    assert_eq!(String::from_utf8_lossy(&passed), "*".repeat(10_000) + "xabx");
}

#[test]
fn k2_an_indentation_without_an_end_is_not_held_back() {
    for text in [&b"token-of-\n"[..], b"token-of-\r\n"] {
        let mut scanner = scanner(&[b"token-of-acme"]);
        let mut passed = scanner.push(text);
        for _ in 0..10 {
            passed.extend(scanner.push(&[b' '; 100]));
            assert!(scanner.held.len() < 200, "{}", scanner.held.len());
        }
        passed.extend(scanner.finish());
        assert_eq!(passed, [text, &[b' '; 1000]].concat());
    }
}

/// An upstream knows the secret that it was sent, and can send its beginning over and over in single bytes.
#[test]
fn k2_many_held_bytes_are_not_searched_again_with_every_byte() {
    let secret: Vec<u8> = (0..200).map(|at| b'a' + at % 26).collect();
    let lines: Vec<String> =
        secret.iter().map(|letter| format!("{}\n{}", char::from(*letter), " ".repeat(60))).collect();
    let text = lines.concat();
    let text = text.trim_end();
    let mut scanner = scanner(&[&secret]);
    let (mut passed, mut searches) = (Vec::new(), 0);
    for byte in text.as_bytes() {
        passed.extend(scanner.push(&[*byte]));
        searches += usize::from(scanner.searched == scanner.held.len());
    }
    assert!(text.len() > 12_000 && searches < EAGER_BYTES + 100, "{searches} of {}", text.len());
    passed.extend(scanner.finish());
    assert_eq!(String::from_utf8_lossy(&passed), "*".repeat(text.len()));
}
