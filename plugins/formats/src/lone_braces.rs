//! Patterns with a `{` that begins no repetition, such as `fn main\(\) {`. Oniguruma (jq), PCRE and ECMAScript take it as it
//! is; the crate `regex` does not.

/// Escapes each `{` that begins no repetition, which Oniguruma, PCRE and ECMAScript take as it is; `None` if there is none.
pub fn escape_lone_braces(pattern: &str) -> Option<String> {
    let mut escaped = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '{']) {
        let (before, found) = rest.split_at(at);
        escaped.push_str(before);
        // `\x{41}`, `\p{L}` and the like keep their brace.
        let kept = match found.as_bytes() {
            [b'\\', b'x' | b'u' | b'U' | b'p' | b'P' | b'b', b'{', ..] => 3,
            [b'\\', ..] => 1 + found[1..].chars().next().map_or(0, char::len_utf8),
            _ if is_repetition(found) => 1,
            _ => {
                escaped.push('\\');
                1
            }
        };
        escaped.push_str(&found[..kept]);
        rest = &found[kept..];
    }
    escaped.push_str(rest);
    (escaped != pattern).then_some(escaped)
}

/// Whether a text begins with `{2}`, `{2,}`, `{,3}` or `{2,3}`.
fn is_repetition(text: &str) -> bool {
    let Some((bounds, _)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
        return false;
    };
    let is_bound = |bound: &str| bound.bytes().all(|byte| byte.is_ascii_digit());
    let (least, most) = bounds.split_once(',').unwrap_or((bounds, bounds));
    is_bound(least) && is_bound(most) && !(least.is_empty() && most.is_empty())
}

#[cfg(test)]
mod tests {
    use super::escape_lone_braces;

    #[test]
    fn only_a_brace_that_begins_no_repetition_is_escaped() {
        for (pattern, escaped) in [
            ("^{", Some(r"^\{")),
            (r"fn main\(\) {", Some(r"fn main\(\) \{")),
            ("a{,} b{x} c{1,2,3} d{", Some(r"a\{,} b\{x} c\{1,2,3} d\{")),
            (r"é\{a{2}b{2,}c{,3}d{1,2}\x{41}\p{L}\b{start}", None),
            (r"\\{", Some(r"\\\{")),
        ] {
            assert_eq!(escape_lone_braces(pattern).as_deref(), escaped, "{pattern}");
        }
    }
}
