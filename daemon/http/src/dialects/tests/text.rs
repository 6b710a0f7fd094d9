//! The string form, in which a call is written as text.

use serde_json::json;

use super::{parse_valid, refusal};

/// Returns the arguments of the string form, as JSON text.
pub(super) fn arguments(text: &str) -> String {
    parse_valid(&json!({ "text": text }).to_string()).calls[0].arguments.to_string()
}

#[test]
fn text_the_call_of_the_specification_is_read() {
    let text = "[[TOOL_CALL: search_web(query='latest AI advancements', region='US')]]";
    let read = &parse_valid(&json!({ "text": text }).to_string()).calls[0];
    assert_eq!(&*read.tool, "search_web");
    assert_eq!(&*read.arguments, r#"{"query":"latest AI advancements","region":"US"}"#);
}

#[test]
fn text_arguments_are_json_literals_that_stay_as_they_were_written() {
    assert_eq!(arguments("[[TOOL_CALL:a/b()]]"), "{}");
    assert_eq!(arguments("[[TOOL_CALL: a( )]]"), "{}");
    assert_eq!(arguments("[[TOOL_CALL: a( x = -1.50e+3 ,\n y = null )]]"), r#"{"x":-1.50e+3,"y":null}"#);
    assert_eq!(arguments(r#"[[TOOL_CALL: a(x="\u00e9\"\\",y=true)]]"#), r#"{"x":"\u00e9\"\\","y":true}"#);
    assert_eq!(arguments(r#"[[TOOL_CALL: a(x='it\'s "so"')]]"#), r#"{"x":"it's \"so\""}"#);
    let nested = r#"[[TOOL_CALL: a(x={"k": ['a', {}], 'l' : []})]]"#;
    assert_eq!(arguments(nested), r#"{"x":{"k":["a",{}],"l":[]}}"#);
    let brackets = "[[TOOL_CALL: a(x=')]] [[TOOL_CALL: b(')]]";
    assert_eq!(arguments(brackets), r#"{"x":")]] [[TOOL_CALL: b("}"#);
}

#[test]
fn text_that_is_no_call_is_refused_with_its_place() {
    for (text, expected) in [
        ("", "expected `[[TOOL_CALL:` at character 1, found the end"),
        ("é [[TOOL_CALL: a()]]", "expected `[[TOOL_CALL:` at character 1, found `é`"),
        ("[[TOOL_CALL: a()]]\n", "expected the end at character 19, found `\\n`"),
        ("[[TOOL_CALL: a()]] done", "expected the end at character 19, found ` `"),
        ("[[TOOL_CALL: a()]", "expected `]]` at character 17, found `]`"),
        ("[[TOOL_CALL: a ()]]", "expected `(` at character 15, found ` `"),
        ("[[TOOL_CALL: (x=1)]]", "expected the name of a tool at character 14, found `(`"),
        ("[[TOOL_CALL: a('b')]]", "expected `)` or the name of an argument at character 16, found `'`"),
        ("[[TOOL_CALL: a(x)]]", "expected `=` at character 17, found `)`"),
        (
            "[[TOOL_CALL: a(x=)]]",
            "expected a JSON literal, with a string in single or double quotes at character 18, found `)`",
        ),
        (
            "[[TOOL_CALL: a(x=True)]]",
            "expected a JSON literal, with a string in single or double quotes at character 18, found `T`",
        ),
        ("[[TOOL_CALL: a(x=nullify)]]", "expected `,` or `)` at character 22, found `i`"),
        ("[[TOOL_CALL: a(x=1 y=2)]]", "expected `,` or `)` at character 20, found `y`"),
        ("[[TOOL_CALL: a(x=1,)]]", "expected the name of an argument at character 20, found `)`"),
        ("[[TOOL_CALL: a(x=01)]]", "expected `,` or `)` at character 19, found `1`"),
        ("[[TOOL_CALL: a(x=1.)]]", "expected a digit at character 20, found `)`"),
        ("[[TOOL_CALL: a(x='b)]]", "expected the closing quote at character 23, found the end"),
        (
            "[[TOOL_CALL: a(x='\n')]]",
            "expected an escape in place of a control character at character 19, found `\\n`",
        ),
        ("[[TOOL_CALL: a(x=\"\\'\")]]", "expected an escape that JSON has at character 19, found `\\`"),
        (
            "[[TOOL_CALL: a(x=[1,])]]",
            "expected a JSON literal, with a string in single or double quotes at character 21, found `]`",
        ),
        ("[[TOOL_CALL: a(x={b:1})]]", "expected a key in quotes at character 19, found `b`"),
        (
            "[[TOOL_CALL: a(x=1, x=2)]]",
            "expected an argument other than `x`, which is there before at character 21, found `x`",
        ),
    ] {
        assert_eq!(
            refusal(&json!({ "text": text }).to_string()),
            format!("`text` is not a tool call: {expected}"),
            "{text}"
        );
    }
}

#[test]
fn text_is_nested_only_so_deep() {
    let nested = |levels: usize| format!("[[TOOL_CALL: a(x={}{})]]", "[".repeat(levels), "]".repeat(levels));
    assert!(arguments(&nested(128)).ends_with("]}"));
    assert!(refusal(&json!({"text": nested(129)}).to_string()).contains("expected at most 128 levels"));
    assert!(refusal(&json!({"text": nested(1_000_000)}).to_string()).contains("expected at most 128 levels"));
}
