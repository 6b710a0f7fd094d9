//! How a diff writes the names of files.
//!
//! Git puts a name in quotes, as C writes them, where it has other letters than those of ASCII, quotes or control
//! characters. In `diff --git a/NAME b/NAME` it does not say where the one name ends, since spaces need no quotes.

/// What git writes after a backslash, and what that stands for.
const ESCAPED: (&[u8], &[u8]) = (b"abtnvfr\"\\", b"\x07\x08\t\n\x0b\x0c\r\"\\");

/// The name after `---` or `+++`, without the time that may follow. None where its quotes cannot be read.
pub fn heading_name(written: &str) -> Option<String> {
    if written.starts_with('"') {
        return unquote(written).map(|(name, _)| name);
    }
    written.split('\t').next().map(|name| name.trim_end().to_owned())
}

/// The one name in `a/NAME b/NAME`, as it stands after `diff --git`. None where it has two, or cannot be read.
pub fn common_name(written: &str) -> Option<String> {
    let (old, new) = if written.starts_with('"') {
        let (old, rest) = unquote(written)?;
        let (new, rest) = unquote(rest.strip_prefix(' ')?)?;
        (old, new + rest)
    } else {
        // Both are equally long, so the space between them is the one in the middle.
        let (old, rest) = written.split_at_checked(written.len() / 2)?;
        (old.to_owned(), rest.strip_prefix(' ')?.to_owned())
    };
    let (mut old, mut new) = (Some(old), Some(new));
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
        let byte;
        (byte, left) = match left {
            [b'"', rest @ ..] => {
                return Some((String::from_utf8(name).ok()?, &written[written.len() - rest.len()..]));
            }
            [b'\\', digits @ b'0'..=b'3', rest @ ..] => {
                let octal = std::str::from_utf8(rest.get(..2)?).ok()?;
                (((digits - b'0') << 6) | u8::from_str_radix(octal, 8).ok()?, &rest[2..])
            }
            [b'\\', letter, rest @ ..] => {
                (ESCAPED.1[ESCAPED.0.iter().position(|escaped| escaped == letter)?], rest)
            }
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        name.push(byte);
    }
}
