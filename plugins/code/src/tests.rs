use serde_json::{Value, json};
use toolgate_sdk::testing::{self, called};
use toolgate_sdk::{CallFailure, Context, Error};

use super::*;

fn context() -> Context {
    let echo = |arguments: Value| Ok(json!({"echo": arguments}));
    let refused = |_| {
        let details = Some(json!({"rule": 3}));
        Err(CallFailure {
            code: "ACCESS_DENIED".into(),
            message: "not for you".into(),
            retryable: false,
            details,
        })
    };
    testing::context()
        .tool("some/echo", "Returns its arguments.", echo)
        .tool("some/secret", "Refuses.", refused)
        .build()
}

fn script(text: &str) -> Result<Value, Error> {
    testing::call::<run>(&context(), json!({"script": text}))
}

fn value(text: &str) -> Value {
    script(text).expect("a value")["value"].clone()
}

#[test]
fn t13_a_script_calls_tools_and_returns_a_value() {
    let context = context();
    let text = "const one = await tools.some.echo({n: args.n});\n\
                const rest = await Promise.all([2, 3].map(n => tools.some.echo({n})));\n\
                console.log('seen', one, [1]);\n\
                return [one, ...rest].map(result => result.echo.n)";
    let output = testing::call::<run>(&context, json!({"script": text, "args": {"n": 1}}));
    assert_eq!(output, Ok(json!({"value": [1, 2, 3], "log": "seen {\"echo\":{\"n\":1}} [1]"})));
    let made: Vec<(String, Value)> = (1..=3).map(|n| ("some/echo".to_owned(), json!({"n": n}))).collect();
    assert_eq!(called(&context), made);
    assert_eq!(script("1 + 1"), Ok(json!({"value": null})));
}

#[test]
fn t13_a_failed_call_is_an_error_that_a_script_can_catch() {
    let caught = value(
        "try { await tools.some.secret({}) } catch (error) {\n\
         return [error instanceof Error, error.code, error.message, error.retryable, error.details] }",
    );
    assert_eq!(caught, json!([true, "ACCESS_DENIED", "not for you", false, {"rule": 3}]));
    let settled =
        value("return (await Promise.allSettled([tools.some.echo(), tools.no.tool()])).map(r => r.status)");
    assert_eq!(settled, json!(["fulfilled", "rejected"]));
}

#[test]
fn t13_a_failure_names_its_place_in_the_script() {
    let thrown = |text: &str| script(text).expect_err("a failure");
    let error = thrown(
        "console.log('begun');\nconst f = async () => {\n  await tools.some.secret({});\n};\nawait f();",
    );
    assert_eq!(error.message(), "the script failed at line 3, column 26: Error: not for you");
    let details = error.details().cloned().unwrap_or_default();
    assert_eq!((&details["code"], &details["details"]), (&json!("ACCESS_DENIED"), &json!({"rule": 3})));
    assert_eq!((&details["line"], &details["log"]), (&json!(3), &json!("begun")));
    assert_eq!(details["stack"].as_array().map(Vec::len), Some(2), "{details}");

    let error = thrown("missing()");
    assert_eq!(
        error.message(),
        "the script failed at line 1, column 1: ReferenceError: missing is not defined"
    );
    assert_eq!(thrown("throw {a: 1}").message(), "the script failed: [object Object]");
    assert!(thrown("await new Promise(() => {})").message().contains("never settles"));
}

#[test]
fn t13_a_syntax_error_names_its_place_in_the_script() {
    for (text, line, column) in [("let = ;", 1, 7), ("let a = 1;\nreturn a +;", 2, 11), ("return 0b2", 1, 10)]
    {
        let error = script(text).expect_err("a syntax error");
        assert_eq!(error.code(), "INVALID_ARGUMENTS");
        assert_eq!(error.details(), Some(&json!({"line": line, "column": column})), "{text}: {error}");
    }
    let unclosed = script("if (1) {\n  return 2;\n").expect_err("a syntax error");
    assert!(script("}").expect_err("a syntax error").message().contains("a `}` too many"));
    assert!(unclosed.message().contains("is not closed"), "{unclosed}");
}

#[test]
fn t13_a_missing_await_is_told() {
    let error = script("return {a: tools.some.echo({})}").expect_err("a promise");
    assert!(error.message().contains("write `await` before it"), "{error}");
    let output = script("tools.some.secret({}); return 1").expect("a value");
    let log = "a promise that nothing awaited failed: Error: not for you";
    assert_eq!(output, json!({"value": 1, "log": log}));
}

#[test]
fn t13_values_are_json() {
    for (text, expected) in [
        ("return undefined", json!(null)),
        (
            "return [NaN, new Date(0), -0, 2 ** 53, 'é\u{1F600}']",
            json!([null, "1970-01-01T00:00:00.000Z", 0, 9007199254740992u64, "é😀"]),
        ),
        ("return new Date(0).getHours()", json!(0)),
        ("return args", json!({})),
        (r"return '😀!'.slice(1) + '\\ud800'", json!("\u{fffd}!\\ud800")),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    for text in ["return 1n", "const a = []; a.push(a); return a"] {
        assert!(script(text).is_err(), "{text}");
    }
}

#[test]
fn t13_a_script_reaches_its_tools_alone() {
    let names = "['require', 'process', 'fetch', 'setTimeout', 'WebAssembly', 'Deno'].filter(name => name in globalThis)";
    assert_eq!(value(&format!("return {names}")), json!([]));
    assert!(script("await import('fs')").is_err());
    assert_eq!(
        value("return [Object.keys(tools), Object.keys(tools.some)]"),
        json!([["some"], ["echo", "secret"]])
    );
    let described = value("return describe('some/echo')");
    assert!(described.as_str().is_some_and(|text| text.starts_with("tools.some.echo(")), "{described}");
    assert_eq!(value("return await tools.some && String(describe)").as_str().map(str::is_empty), Some(false));
}

#[test]
fn t13_endless_recursion_is_a_failure() {
    for text in [
        "const f = () => f() + 1; f()",
        "const f = n => [n].map(f); f(0)",
        "const f = () => `${{toString: f}}`; f()",
    ] {
        let error = script(text).expect_err("too deep");
        assert!(error.message().contains("recursive calls"), "{text}: {error}");
    }
}
