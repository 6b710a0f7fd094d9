//! What a call would do, in words after the name of its agent: "wants to write `report.md`, 2 lines".
//!
//! The words are for orientation: the arguments stand on the same page, and count.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::text::cut;

/// Longest value in a sentence, in characters.
const VALUE_CHARS: usize = 120;
/// Values that a sentence names.
const VALUES: usize = 4;

/// What a call wants. The built-in namespaces are those of the platform alone.
pub(super) fn wish(tool: &str, arguments: &str) -> Markup {
    let parsed = serde_json::from_str::<Value>(arguments).ok();
    let members = parsed.as_ref().and_then(Value::as_object);
    members.and_then(|members| of_built_in(tool, members)).unwrap_or_else(|| plain(tool, members))
}

fn of_built_in(tool: &str, members: &Map<String, Value>) -> Option<Markup> {
    let text = |name: &str| members.get(name)?.as_str();
    let named = |name: &str| Some(value(text(name)?));
    let path = || named("path");
    Some(match tool {
        "files/write" if members.contains_key("encoding") => html! { "wants to write the file " (path()?) },
        "files/write" => html! { "wants to write " (path()?) ", " (lines(text("content")?)) },
        "files/append" => html! { "wants to add " (lines(text("content")?)) " to " (path()?) },
        "files/edit" => html! {
            "wants to replace " (lines(text("old")?)) " of " (path()?) " by " (lines(text("new")?))
            @if members.get("all") == Some(&Value::Bool(true)) { ", wherever they are" }
        },
        "files/delete" => html! {
            "wants to delete " (path()?)
            @if members.get("recursive") == Some(&Value::Bool(true)) { " with all that is in it" }
        },
        "files/move" => html! { "wants to move " (named("from")?) " to " (named("to")?) },
        "files/copy" => html! { "wants to copy " (named("from")?) " to " (named("to")?) },
        "files/unpack" => html! { "wants to unpack " (named("archive")?) " into " (named("to")?) },
        "files/patch" => html! { "wants to change files by a patch of " (lines(text("diff")?)) },
        "http/fetch" => html! { "wants to fetch " (named("url")?) },
        "messages/send" => {
            html! { "wants to write to the agent " (named("to")?) ", " (lines(text("body")?)) }
        }
        "shell/run" => html! { "wants to run a shell script of " (lines(text("script")?)) },
        "code/run" => html! { "wants to run a script of " (lines(text("script")?)) },
        _ => return None,
    })
}

/// The tool, and its first arguments that are short.
fn plain(tool: &str, members: Option<&Map<String, Value>>) -> Markup {
    let all = members.map_or(0, Map::len);
    let named: Vec<_> =
        members.into_iter().flatten().filter_map(|(name, value)| Some((name, scalar(value)?))).collect();
    html! {
        "wants to call " code { (cut(tool, VALUE_CHARS)) }
        @for (at, (name, text)) in named.iter().take(VALUES).enumerate() {
            (if at == 0 { " with " } else { ", " }) (cut(name, VALUE_CHARS)) " " (value(text))
        }
        @if all > named.len().min(VALUES) { " and " (all - named.len().min(VALUES)) " more arguments" }
    }
}

/// A value that fits into a sentence.
fn scalar(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return None,
    };
    (text.chars().count() <= VALUE_CHARS && !text.contains('\n')).then_some(text)
}

fn value(text: &str) -> Markup {
    html! { code { (cut(text, VALUE_CHARS)) } }
}

fn lines(text: &str) -> String {
    match text.lines().count() {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_a_wish_is_a_sentence_with_what_the_arguments_say() {
        for (tool, arguments, expected) in [
            ("files/write", r#"{"path": "a.md", "content": "x\ny\n"}"#, "wants to write a.md, 2 lines"),
            (
                "files/edit",
                r#"{"path": "a", "old": "x", "new": "y\nz"}"#,
                "wants to replace 1 line of a by 2 lines",
            ),
            (
                "files/delete",
                r#"{"path": "a", "recursive": true}"#,
                "wants to delete a with all that is in it",
            ),
            ("pay/send", r#"{"to": "Bob", "amount": 5}"#, "wants to call pay/send with amount 5, to Bob"),
            (
                "pay/send",
                r#"{"to": ["Bob"], "amount": 5}"#,
                "wants to call pay/send with amount 5 and 1 more arguments",
            ),
            ("pay/send", "{}", "wants to call pay/send"),
            ("files/write", r#"{"path": 5}"#, "wants to call files/write with path 5"),
            ("pay/send", "no JSON", "wants to call pay/send"),
        ] {
            let shown = wish(tool, arguments).into_string().replace("<code>", "").replace("</code>", "");
            assert_eq!(shown, expected);
        }
        let shown = wish("pay/<b>", "{\"to\": \"\u{202e}<i>\"}").into_string();
        assert!(shown.contains("pay/&lt;b&gt;") && shown.contains("\\u{202e}&lt;i&gt;"), "{shown}");
    }
}
