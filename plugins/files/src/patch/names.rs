//! How a diff writes the names of files.
//!
//! Git puts a name in quotes, as C writes them, where it has other letters than those of ASCII, quotes or control
//! characters. In `diff --git a/NAME b/NAME` it does not say where the one name ends, since spaces need no quotes.

/// The name after `---` or `+++`, without the time that may follow. None where its quotes cannot be read.
pub fn heading_name(written: &str) -> Option<String> {
    if written.starts_with('"') {
        return unquote(written).map(|(name, _)| name);
    }
    written.split('\t').next().map(|name| name.trim_end().to_owned())
}

/// The one name in `a/NAME b/NAME`, as it stands after `diff --git`. None where it has two, or cannot be read.
pub fn common_name(written: &str) -> Option<String> {
    let (mut old, mut new) = if written.starts_with('"') {
        let (old, rest) = unquote(written)?;
        let (new, rest) = unquote(rest.strip_prefix(' ')?)?;
        (Some(old), rest.is_empty().then_some(new))
    } else {
        // Both are equally long, so the space between them is the one in the middle.
        let (old, rest) = written.split_at_checked(written.len() / 2)?;
        (Some(old.to_owned()), rest.strip_prefix(' ').map(str::to_owned))
    };
    drop_prefixes(&mut old, &mut new);
    new.filter(|new| old.as_ref() == Some(new) && !new.is_empty())
}

/// Drops `a/` and `b/`, where both sides have them.
pub fn drop_prefixes(old: &mut Option<String>, new: &mut Option<String>) {
    let has = |path: &Option<String>, prefix| path.as_ref().is_none_or(|path| path.starts_with(prefix));
    if has(old, "a/") && has(new, "b/") {
        for path in [old, new].into_iter().flatten() {
            path.drain(..2);
        }
    }
}

/// The text in quotes, and what stands after them.
fn unquote(written: &str) -> Option<(String, &str)> {
    let mut left = written.as_bytes().strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        left = match left {
            [b'"', rest @ ..] => {
                let rest = &written[written.len() - rest.len()..];
                return Some((String::from_utf8(name).ok()?, rest));
            }
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', rest @ ..] => {
                name.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest
            }
            [b'\\', letter, rest @ ..] => {
                name.push(escaped(*letter)?);
                rest
            }
            [byte, rest @ ..] => {
                name.push(*byte);
                rest
            }
            [] => return None,
        };
    }
}

/// What a letter after a backslash stands for.
fn escaped(letter: u8) -> Option<u8> {
    Some(match letter {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => letter,
        _ => return None,
    })
}
