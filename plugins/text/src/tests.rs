//! Tests of the behaviour that a model relies on.

mod formats;
mod functions;
mod pages;
mod queries;

use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::{Error, Tool, testing};

use crate::ThisPlugin;

fn call(tool: &str, arguments: Value) -> Result<Value, Error> {
    testing::call_by_name::<ThisPlugin>(&testing::context().build(), tool, arguments).unwrap()
}

fn problem(tool: &str, arguments: Value) -> String {
    call(tool, arguments).unwrap_err().message().to_owned()
}

/// By type and not by name, for only so the arguments stay in the order in which the examples write them.
macro_rules! check_examples {
    ($($tool:path),* $(,)?) => {{
        $(
            assert_eq!(testing::wrong_examples::<$tool>(&testing::context().build()), [], stringify!($tool));
        )*
        [$(<$tool as Tool>::NAME),*]
    }};
}

#[test]
fn the_examples_are_true() {
    let checked = check_examples!(
        crate::split::split,
        crate::join::join,
        crate::replace::replace,
        crate::regex_find::regex_find,
        crate::regex_replace::regex_replace,
        crate::diff::diff,
        crate::count::count,
        crate::markdown::markdown_to_text,
        crate::html::html_to_text,
        crate::html::html_to_markdown,
        crate::csv_parse::csv_parse,
        crate::csv_write::csv_write,
        crate::json_query::json_query,
        crate::yaml::yaml_to_json,
        crate::yaml::json_to_yaml,
        crate::toml_text::toml_to_json,
        crate::toml_text::json_to_toml,
    );
    let description = testing::describe::<ThisPlugin>();
    let tools = description["tools"].as_array().unwrap();

    assert!(tools.iter().map(|tool| tool["name"].as_str().unwrap()).eq(checked));
    assert!(tools.iter().all(|tool| tool["examples"][0]["output"] != Value::Null));
}

#[test]
fn what_is_told_of_the_tools_hides_nothing() {
    fn check(value: &Value) {
        match value {
            Value::String(text) => {
                assert!(
                    !text.contains(|sign: char| sign.is_control() && !matches!(sign, '\n' | '\t')),
                    "{text:?}"
                );
            }
            Value::Array(entries) => entries.iter().for_each(check),
            Value::Object(entries) => entries.values().for_each(check),
            _ => {}
        }
    }
    check(&testing::describe::<ThisPlugin>());
}

#[test]
fn t1_what_is_left_out_is_told_as_a_default() {
    let description = testing::describe::<ThisPlugin>();
    let tools = description["tools"].as_array().unwrap();
    let write = tools.iter().find(|tool| tool["name"] == "csv_write").unwrap();

    assert_eq!(write["input_schema"]["properties"]["delimiter"]["default"], "comma");
}

#[test]
fn t1_the_tools_ask_for_nothing_and_change_nothing() {
    let description = testing::describe::<ThisPlugin>();

    assert_eq!(description["capabilities"].to_string(), r#"{"filesystem":"none"}"#);
    for tool in description["tools"].as_array().unwrap() {
        assert_eq!(
            tool["hints"],
            json!({"read_only": true, "destructive": false, "idempotent": true, "open_world": false}),
            "{}",
            tool["name"]
        );
    }
}

#[test]
fn empty_texts_are_texts_too() {
    for (tool, arguments, expected) in [
        ("split", json!({"text": ""}), json!({"parts": [], "total": 0})),
        ("split", json!({"text": "", "separator": ","}), json!({"parts": [""], "total": 1})),
        ("join", json!({"parts": []}), json!("")),
        ("replace", json!({"text": "", "find": "a", "replacement": "b"}), json!({"text": "", "count": 0})),
        (
            "regex_replace",
            json!({"text": "", "pattern": "^", "replacement": "b"}),
            json!({"text": "b", "count": 1}),
        ),
        ("regex_find", json!({"text": "", "pattern": "a"}), json!({"matches": [], "total": 0})),
        ("diff", json!({"old": "", "new": ""}), json!({"diff": "", "added": 0, "removed": 0})),
        ("count", json!({"text": ""}), json!({"characters": 0, "words": 0, "lines": 0, "bytes": 0})),
        ("markdown_to_text", json!({"markdown": ""}), json!("")),
        ("html_to_text", json!({"html": ""}), json!("")),
        ("html_to_markdown", json!({"html": " \n"}), json!("")),
        ("csv_parse", json!({"text": ""}), json!({"rows": [], "total": 0, "delimiter": "comma"})),
        ("csv_write", json!({"rows": []}), json!("")),
        ("yaml_to_json", json!({"text": ""}), json!({"documents": []})),
        ("toml_to_json", json!({"text": ""}), json!({})),
        ("json_to_yaml", json!({"value": null}), json!("null\n")),
        ("json_to_toml", json!({"value": {}}), json!("")),
        ("json_query", json!({"filter": ".", "value": null}), json!({"results": [null]})),
    ] {
        assert_eq!(call(tool, arguments.clone()), Ok(expected), "{tool} {arguments}");
    }
}

#[test]
fn pages_follow_each_other_without_a_gap() {
    let text: String = (0..100_000).map(|line| format!("line {line} \u{1}\n")).collect();
    let mut parts = Vec::new();
    let mut offset = Some(0);
    while let Some(start) = offset {
        let page = call("split", json!({"text": text, "offset": start, "limit": 1_000_000})).unwrap();
        assert!(page.to_string().len() < 300 * 1024);
        parts.extend(page["parts"].as_array().unwrap().clone());
        offset = page["next_offset"].as_u64();
    }

    assert_eq!(parts.len(), 100_000);
    assert_eq!(parts[99_999], "line 99999 \u{1}");
}

#[test]
fn lines_end_at_every_kind_of_end() {
    for (text, lines) in [
        ("a\rb\r\nc\nd", vec!["a", "b", "c", "d"]),
        ("a\r\r\n\n\rb\r", vec!["a", "", "", "", "b"]),
        ("\r", vec![""]),
        ("é\r", vec!["é"]),
    ] {
        assert_eq!(call("split", json!({"text": text})).unwrap()["parts"], json!(lines), "{text:?}");
    }
}

#[test]
fn places_count_characters_and_lines() {
    let found = call("regex_find", json!({"text": "äö😀\n€x1", "pattern": "(€)(x)(2)?(?<n>1)"})).unwrap();

    assert_eq!(
        found["matches"][0],
        json!({"text": "€x1", "start": 4, "end": 7, "line": 2, "groups": [
            {"number": 1, "text": "€", "start": 4, "end": 5},
            {"number": 2, "text": "x", "start": 5, "end": 6},
            {"number": 4, "name": "n", "text": "1", "start": 6, "end": 7},
        ]})
    );
    assert_eq!(call("regex_find", json!({"text": "ab", "pattern": ""})).unwrap()["total"], 3);
}

#[test]
fn a_pattern_that_cannot_be_is_refused_with_its_reason() {
    for (pattern, reason) in [
        ("(a", "unclosed group"),
        (r"(a)\1", "backreferences are not supported"),
        ("(?=a)", "look-around"),
        ("(?:a{999}){999}", "size limit"),
        ("[z-a]", "invalid character class range"),
    ] {
        let message = problem("regex_find", json!({"text": "a", "pattern": pattern}));
        assert!(message.contains(reason) && message.contains("; "), "{message}");
    }
}

#[test]
fn a_replacement_names_groups_that_there_are() {
    let replace = |pattern: &str, replacement: &str| {
        call("regex_replace", json!({"text": "John Smith", "pattern": pattern, "replacement": replacement}))
            .map(|replaced| replaced["text"].as_str().unwrap().to_owned())
    };
    let pattern = r"(?<first>\w+) (\w+)";

    for (replacement, expected) in [
        ("$2, $first", "Smith, John"),
        ("${2}nd", "Smithnd"),
        ("$2nd", "Smithnd"),
        ("$$1 ${0}", "$1 John Smith"),
        ("", ""),
        (r"\\1", r"\1"),
        (r"\\\\1$2", r"\\1Smith"),
        (r"\\server\x", r"\\server\x"),
        (r"é\\2 \\", r"é\2 \\"),
    ] {
        assert_eq!(replace(pattern, replacement).as_deref(), Ok(expected), "{replacement}");
    }
    for (replacement, expected) in [
        ("$3", "`pattern` has no group `3`, but $0, ${first}, $2"),
        ("$last", "`pattern` has no group `last`"),
        (r"\1", r"`replacement` has `\1`: write `${1}` for what the group matched, or `\\1` for a backslash"),
        (r"a\\\2", r"`replacement` has `\2`: write `${2}`"),
        ("5 $", "names no group: write `$$`"),
        ("${1", "`${` without `}`"),
    ] {
        let message = replace(pattern, replacement).unwrap_err().message().to_owned();
        assert!(message.contains(expected), "{replacement}: {message}");
    }
    assert_eq!(replace(r"(x)?\bJ", "$1-").as_deref(), Ok("-ohn Smith"));
}

#[test]
fn what_would_not_fit_is_refused_before_it_is_made() {
    let megabyte = "a".repeat(1_000_000);
    let too_large = "the result would be larger than 960 KiB";

    for (tool, arguments) in [
        ("replace", json!({"text": megabyte, "find": "a", "replacement": "b".repeat(1_000)})),
        ("regex_replace", json!({"text": megabyte, "pattern": "a+", "replacement": "$0".repeat(100_000)})),
        ("regex_replace", json!({"text": megabyte, "pattern": "a", "replacement": "$0$0"})),
        ("join", json!({"parts": vec![""; 300_000], "separator": "1234"})),
        ("replace", json!({"text": "\u{1}".repeat(200_000), "find": "x", "replacement": ""})),
    ] {
        let message = problem(tool, arguments);
        assert!(message.starts_with(too_large), "{tool}: {message}");
    }
    for arguments in [
        json!({"filter": "[range(1000000)]", "value": null}),
        json!({"filter": "reduce range(60) as $i (1; [., .])", "value": null}),
        json!({"filter": "\"a\" * 2000000", "value": null}),
    ] {
        assert!(problem("json_query", arguments).contains("larger than 900 KiB: ask for less"));
    }
}

#[test]
fn a_diff_says_what_patch_reads() {
    let diff = |old: &str, new: &str| {
        call("diff", json!({"old": old, "new": new, "context": 1})).unwrap()["diff"]
            .as_str()
            .unwrap()
            .to_owned()
    };

    assert_eq!(diff("a", "a\n"), "--- old\n+++ new\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    assert_eq!(diff("1\n2\n3\n4\n", "1\n2\n4\n"), "--- old\n+++ new\n@@ -2,3 +2,2 @@\n 2\n-3\n 4\n");
    assert_eq!(diff("", "x\n"), "--- old\n+++ new\n@@ -0,0 +1 @@\n+x\n");
}

#[test]
fn t7_only_a_line_feed_ends_a_line_of_a_diff() {
    // As GNU diff writes it.
    for (old, new, expected) in [
        ("a\rb\nc\n", "a\rB\nc\n", "@@ -1,2 +1,2 @@\n-a\rb\n+a\rB\n c\n"),
        ("a\r\nb\r\n", "a\nb\r\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n"),
        (
            "a\r",
            "a\rb",
            "@@ -1 +1 @@\n-a\r\n\\ No newline at end of file\n+a\rb\n\\ No newline at end of file\n",
        ),
    ] {
        let found = call("diff", json!({"old": old, "new": new})).unwrap();
        assert_eq!(found["diff"], format!("--- old\n+++ new\n{expected}"), "{old:?}");
        assert_eq!([&found["added"], &found["removed"]], [1, 1]);
    }
}

#[test]
fn t7_lines_are_counted_as_they_are_split() {
    for text in ["", "a", "a\n", "a\rb\r\nc\nd", "a\r\r\n\n\rb\r", "\r", "\n\n", "é\u{2028}x"] {
        let lines = call("split", json!({"text": text})).unwrap()["total"].clone();
        assert_eq!(call("count", json!({"text": text})).unwrap()["lines"], lines, "{text:?}");
    }
}

#[test]
fn texts_with_nothing_in_common_are_compared_in_time() {
    let lines = |word: &str| {
        (0..60_000).map(|line| format!("{word}{}\n", line * 7919_u64 % 60_000)).collect::<String>()
    };
    let shuffled: String = (0..60_000).map(|line| format!("a{}\n", line * 104_729_u64 % 60_000)).collect();

    assert_eq!(
        call("diff", json!({"old": lines("a"), "new": lines("b")})).unwrap_err().code(),
        "TOOL_FAILED"
    );
    assert!(problem("diff", json!({"old": lines("a"), "new": shuffled})).contains("larger than 960 KiB"));
}
