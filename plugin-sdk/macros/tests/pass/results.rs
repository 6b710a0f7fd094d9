//! A `Result` behind any alias can fail, and a doc comment above the context is not part of the description.

use toolgate_sdk::{Context, Error, plugin, testing, tool};

type Fallible<T> = std::result::Result<T, Error>;
type Parsed = std::result::Result<u8, std::num::ParseIntError>;

/// Fails if it is told so.
#[tool]
fn fail(
    /// The call
    context: &Context,
    /// Whether
    fails: bool,
) -> Fallible<String> {
    if fails { Err(Error::invalid("as told")) } else { Ok(context.call_id()) }
}

/// Reads a number.
#[tool]
fn read(
    /// Its digits
    text: String,
) -> Parsed {
    text.parse()
}

plugin!("results", fail, read);

fn main() {
    let context = testing::context().build();
    let call = |arguments| testing::call_by_name::<ThisPlugin>(&context, "fail", arguments).unwrap();
    assert_eq!(call(toolgate_sdk::serde_json::json!({"fails": true})), Err(Error::invalid("as told")));
    assert_eq!(call(toolgate_sdk::serde_json::json!({"fails": false})), Ok("call".into()));

    let read = |text| testing::call::<read>(&context, toolgate_sdk::serde_json::json!({"text": text}));
    assert_eq!(read("7"), Ok(7.into()));
    assert_eq!(read("x").unwrap_err().code(), "TOOL_FAILED");

    let description = testing::describe::<ThisPlugin>();
    assert_eq!(description["tools"][0]["output_schema"]["type"], "string");
    assert_eq!(description["tools"][1]["output_schema"]["type"], "integer");
}
