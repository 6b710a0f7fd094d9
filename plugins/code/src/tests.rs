use serde_json::{Value, json};
use toolgate_sdk::testing::{self, called};
use toolgate_sdk::{CallFailure, Context, Error};

use super::*;

fn context() -> Context {
    let echo = |arguments: Value| Ok(json!({"echo": arguments}));
    let refused = |_| {
        let details = Some(json!({"rule": 3}));
        Err(CallFailure { code: "ACCESS_DENIED".into(), message: "not for you".into(), retryable: false, details })
    };
    testing::context().tool("some/echo", "Returns its arguments.", echo).tool("some/secret", "Refuses.", refused).build()
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
