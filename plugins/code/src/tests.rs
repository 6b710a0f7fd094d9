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
    assert_eq!(script("1 + 1"), Ok(json!({"value": 2})));
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
    // The column is that of the script, without the `return` that it got.
    let error = thrown("1;\n2; await tools.some.secret({})");
    assert_eq!(error.message(), "the script failed at line 2, column 27: Error: not for you");
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
            "return [1, new Date(0), -0, 2 ** 53, 'é\u{1F600}']",
            json!([1, "1970-01-01T00:00:00.000Z", 0, 9007199254740992u64, "é😀"]),
        ),
        ("return new Date(0).getHours()", json!(0)),
        ("return args", json!({})),
        (r"return '😀!'.slice(1) + '\\ud800'", json!("\u{fffd}!\\ud800")),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    assert!(script("const a = []; a.push(a); return a").is_err());
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

/// Forms in which models write scripts, with the value of each.
#[test]
fn t13_the_forms_of_models_have_the_value_that_they_mean() {
    for text in SEVEN {
        assert_eq!(value(text), json!(7), "{text}");
    }
    let log = |text: &str| script(text).expect("a value")["log"].clone();
    assert!(log("if (0) 1").to_string().contains("returned nothing"));
    assert!(log("for (const n of []) n").to_string().contains("returned nothing"));
    assert_eq!(log("console.log('seen')"), json!("seen"));
}

/// Scripts whose value is 7: what REPLs, notebooks and other code modes take.
const SEVEN: &[&str] = &[
    "7",
    "7;",
    "return 7",
    "const n = 7;\nn",
    "const n = 7;\nn;\n",
    "let n = 3; n + 4",
    "const n = 7;",
    "let m = 1, n = 7;",
    "var n = 7",
    "(7)",
    "7 // seven",
    "7;\n/* done */",
    "1;\n\n  7",
    "const é = '😀'; 7",
    "async () => 7",
    "async () => {\n  return 7;\n}",
    "() => 7",
    "(async () => { return 7; })()",
    "(async () => {\n  return 7;\n})();",
    "(() => 7)()",
    "(async function () { return 7; })()",
    "(async function main() { return 7; }())",
    "await (async () => 7)()",
    "return (async () => 7)()",
    "return await Promise.resolve(7)",
    "return async () => 7",
    "async function main() { return 7; }\nmain();",
    "async function main() { return 7; }\nawait main()",
    "async function main() { return 7; }",
    "function main() { return 7; }",
    "function run() { return 7; }\nreturn run();",
    "const main = async () => { return 7; };",
    "const main = async () => { return 7; };\nmain();",
    "const main = () => 7;\nreturn main();",
    "export default async () => 7;",
    "export default async function main() { return 7; }",
    "export default 7;",
    "export const answer = 7;\nanswer",
    "export async function main() { return 7; }",
    "```js\nreturn 7\n```",
    "```javascript\nconst n = 7;\nn\n```\n",
    "```\n7\n```",
    "'use strict';\nreturn 7;",
    "if (true) { return 7; }",
    "const { echo } = await tools.some.echo({ n: 7 });\necho.n",
    "const { echo } = await tools.some.echo({ n: 7 });\nreturn echo.n;",
    "await tools.some.echo({ n: 7 }).then((r) => r.echo.n)",
    "tools.some.echo({ n: 7 }).then((r) => r.echo.n)",
    "tools['some']['echo']({ n: 7 }).then(({ echo: { n } }) => n)",
    "const all = await Promise.all([3, 4].map((n) => tools.some.echo({ n })));\nall.reduce((sum, r) => sum + r.echo.n, 0)",
    "let sum = 0;\nfor await (const r of [3, 4].map((n) => tools.some.echo({ n }))) sum += r.echo.n;\nsum",
    "try { return 7 } finally { console.log }",
    "class A { n() { return 7 } }\nnew A().n()",
    "[1, 7].at(-1)",
    "({ n: 7 }).n",
    "`${'x'.length}` === '1' ? 7 : 0",
    "const f = (x) => x * 7;\nf(1)",
    "let x = 1;\nx = 7",
    "new Map([['n', 7]]).get('n')",
    // TypeScript.
    "const n: number = 7;\nreturn n;",
    "interface A { x: string }\nreturn 7",
    "type A = {\n  n: number;\n};\nconst a: A = { n: 7 };\na.n",
    "return ({ n: 7 } as any).n",
    "const f = async (x?: number): Promise<number> => x ?? 7;\nawait f()",
    "export default async function main(): Promise<number> { return 7; }",
    "```ts\nconst all: Map<string, number> = new Map<string, number>([['n', 7]]);\nreturn all.get('n')!;\n```",
    "function first<T>(list: T[]): T { return list[0]; }\nfirst<number>([7])",
    "const { echo } = (await tools.some.echo({ n: 7 })) as { echo: { n: number } };\necho.n",
    "class A { private readonly n: number = 7; get(): number { return this.n; } }\nnew A().get()",
    "const o = { n: 7 } satisfies Record<string, number>;\no.n",
    "let n!: number;\nn = 7;\nn",
];

/// What the language of other hosts has is told with what to write instead.
#[test]
fn t13_a_form_that_fails_says_what_to_write_instead() {
    for (text, told) in [
        ("enum Color { Red }", "only the types"),
        ("class A {\n  constructor(private x: string) {}\n}", "only the types"),
        ("import fs from 'node:fs';\nreturn 1", "there are no modules"),
        ("const fs = require('fs');\nreturn fs", "there are no modules"),
        ("return await fetch('https://example.org')", "tools.http.fetch"),
        ("setTimeout(() => {}, 5)", "no timers"),
        ("await new Promise((done) => setTimeout(done, 5))", "no timers"),
        ("return process.env.HOME", "no host"),
        ("return structuredClone(args)", "JSON.parse(JSON.stringify(value))"),
        ("return new URL('https://example.org').host", "encodeURIComponent"),
        ("return Buffer.from('a')", "tools.text"),
        ("return btoa('a')", "tools.text"),
        ("return new Intl.NumberFormat('de')", "no locale data"),
        ("return new Date(0).toLocaleDateString('en-US', { month: 'short' })", "toISOString"),
        ("return (5).toLocaleString('de-DE')", "toFixed"),
        ("return await tools.some.echo({ n: 0 / 0 })", "`n` is NaN"),
    ] {
        let error = script(text).expect_err("a failure");
        assert!(error.message().contains(told), "{text}: {error}");
    }
}

#[test]
fn t13_nothing_of_a_value_is_lost_in_silence() {
    for (text, expected) in [
        ("return new Set([1, 2])", json!([1, 2])),
        ("return { by: new Map([['a', 1]]) }", json!({"by": {"a": 1}})),
        ("return new Map([[1, 'a']])", json!([[1, "a"]])),
        ("return [new Error('boom')]", json!([{"name": "Error", "message": "boom"}])),
        ("return new Uint8Array([1, 2])", json!([1, 2])),
        ("return 2n ** 64n", json!("18446744073709551616")),
        ("return [1n]", json!([1])),
        ("return (await tools.some.echo({ ids: new Set([1]) })).echo", json!({"ids": [1]})),
        ("return (1234567.891).toLocaleString('en-US')", json!("1,234,567.891")),
        ("return (5).toLocaleString('en-US', { style: 'currency', currency: 'USD' })", json!("$5.00")),
        (
            "return (-0.256).toLocaleString(undefined, { style: 'percent', maximumFractionDigits: 1 })",
            json!("-25.6%"),
        ),
        (
            "return ['z', 'ä', 'a', 'B', 'b'].sort((a, b) => a.localeCompare(b))",
            json!(["a", "ä", "b", "B", "z"]),
        ),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    let output = script("console.log(new Set([1]), [NaN]); return { avg: 0 / 0 }").expect("a value");
    let log = "[1] [\"NaN\"]\n`avg` is NaN, which JSON does not have: the value has `null`";
    assert_eq!(output, json!({"value": {"avg": null}, "log": log}));
    let caught = value("try { await tools.some.secret({}) } catch (error) { return { error } }");
    assert_eq!(
        (&caught["error"]["code"], &caught["error"]["message"]),
        (&json!("ACCESS_DENIED"), &json!("not for you"))
    );
}
