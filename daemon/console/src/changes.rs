//! A readable form of arguments that change files: the old text against the new one, a patch with its signs, and texts of
//! several lines without the escapes of JSON. The bound bytes stand beside it, and count.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::text::{block, cut, visible_text};

/// Most lines of one difference.
const LINES: usize = 400;
/// Longest name of an argument, in characters.
const NAME_CHARS: usize = 64;
/// Most arguments that are shown again.
const ARGUMENTS: usize = 16;

/// Shows the arguments that read better as text; nothing where there are none.
pub(super) fn of_files(arguments: &str) -> Markup {
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(arguments) else { return html! {} };
    let replaced = text(&members, "old").zip(text(&members, "new"));
    let is_shown = |name: &str| replaced.is_some() && matches!(name, "old" | "new");
    let texts = members.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
    let texts = texts.filter(|(name, text)| text.trim_end().contains('\n') && !is_shown(name));
    let texts: Vec<_> = texts.take(ARGUMENTS).collect();
    if replaced.is_none() && texts.is_empty() {
        return html! {};
    }
    html! {
        h3 { "The same as text" }
        @if let Some((old, new)) = replaced {
            @if let Some(path) = text(&members, "path") { p { "In the file " code { (visible_text(path)) } ":" } }
            (difference(old, new))
        }
        @for (name, text) in texts {
            p { code { (cut(name, NAME_CHARS)) } ":" }
            @if is_patch(text) { (lines(text.lines().map(|line| (line.chars().next().unwrap_or(' '), line.to_owned())))) }
            @else { (block(text)) }
        }
    }
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str()
}

/// Whether the text is a unified difference.
fn is_patch(text: &str) -> bool {
    let begins = |start: &str| text.lines().any(|line| line.starts_with(start));
    begins("--- ") && begins("+++ ") && begins("@@")
}

/// The removed lines before the added ones, between those that both texts begin and end with.
pub(super) fn difference(old: &str, new: &str) -> Markup {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let shorter = old.len().min(new.len());
    let start = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let end = end.min(shorter - start);
    let marked = |sign: char, lines: &[&str]| -> Vec<(char, String)> {
        lines.iter().map(|line| (sign, format!("{sign}{line}"))).collect()
    };
    let mut all = marked(' ', &old[..start]);
    all.extend(marked('-', &old[start..old.len() - end]));
    all.extend(marked('+', &new[start..new.len() - end]));
    all.extend(marked(' ', &old[old.len() - end..]));
    lines(all.into_iter())
}

fn lines(lines: impl Iterator<Item = (char, String)>) -> Markup {
    let mut lines = lines;
    let first: Vec<_> = lines.by_ref().take(LINES).collect();
    let more = lines.count();
    html! {
        pre .diff tabindex="0" {
            @for (sign, line) in first {
                @match sign {
                    '+' => { ins .added { (visible_text(&line)) } }
                    '-' => { del .removed { (visible_text(&line)) } }
                    _ => { span { (visible_text(&line)) } }
                }
                "\n"
            }
        }
        @if more > 0 { p .quiet { (more) " more lines: see the arguments" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_shown_as_removed_and_added_lines() {
        let shown = of_files(r#"{"path": "a.rs", "old": "a\nb\nd", "new": "a\n<c>\nd"}"#).into_string();
        let lines = "<span> a</span>\n<del class=\"removed\">-b</del>\n<ins class=\"added\">+&lt;c&gt;</ins>\n<span> d</span>\n";
        assert!(shown.contains(lines), "{shown}");
    }

    #[test]
    fn equal_texts_and_repeated_lines_are_no_error() {
        for (old, new) in [("a", "a"), ("a\na", "a"), ("a", "a\na\na"), ("", "a"), ("a", ""), ("", "")] {
            let shown = difference(old, new).into_string();
            let count = |tag: &str| shown.matches(tag).count();
            assert_eq!(count("<del") + count("<span"), old.lines().count(), "{old:?} {new:?} {shown}");
            assert_eq!(count("<ins") + count("<span"), new.lines().count(), "{old:?} {new:?} {shown}");
        }
    }

    #[test]
    fn other_arguments_are_not_shown_twice() {
        for arguments in ["{}", "[1]", "no JSON", r#"{"to": "bob"}"#, r#"{"old": 1, "new": "a"}"#] {
            assert_eq!(of_files(arguments).into_string(), "", "{arguments}");
        }
    }
}
