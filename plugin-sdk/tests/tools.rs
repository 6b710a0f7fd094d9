//! Tools as authors write them: their descriptions and their calls.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_sdk::{Context, Error, Level, plugin, testing, tool};

/// An address
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Address {
    /// The street, with its number
    street: String,
    /// As the country writes it
    postcode: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Speed {
    #[default]
    Slow,
    Fast,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Payment {
    Card { number: String },
    Invoice { days: u8 },
}

#[derive(JsonSchema, Serialize)]
struct Receipt {
    /// The price, in cents
    cents: i64,
    speed: Speed,
    note: Option<String>,
    labels: BTreeMap<String, u32>,
}

/// Sends a parcel
/// to an address.
///
/// Ask for the address first:
/// - street,
/// - postcode.
///
/// Then send.
#[tool(
    name = "send",
    destructive = false,
    idempotent,
    open_world = true,
    tags("post", "parcel"),
    prerequisites("a contract with the carrier"),
    integrations("carrier"),
    examples("small": {"address": {"street": "1 Main"}, "weights": [1.0]} => {"cents": 100, "speed": "slow", "note": null, "labels": {}}),
    redact("/payment/number"),
)]
#[allow(clippy::too_many_arguments)]
fn send_parcel(
    /// The destination of the parcel
    address: Address,
    /// The weights of its parts, in grams
    weights: Vec<u32>,
    context: &Context,
    /// How fast
    #[default]
    speed: Speed,
    /// How many of them
    #[default(1)]
    #[schemars(range(max = 10))]
    count: u8,
    /// The text of the label
    #[default("fragile")]
    label: String,
    /// How it is paid
    payment: Option<Payment>,
    /// A word for the receiver
    #[serde(rename = "greeting")]
    note: Option<String>,
) -> Result<Receipt, Error> {
    if address.street.is_empty() {
        return Err(Error::invalid("the street is empty"));
    }
    let labels = match payment {
        Some(Payment::Card { number }) => BTreeMap::from([(number, 1)]),
        Some(Payment::Invoice { days }) => BTreeMap::from([("invoice".to_owned(), u32::from(days))]),
        None => BTreeMap::new(),
    };
    context.log(Level::Info, "sent", "on its way", &[("label", &label), ("parts", &weights.len())]);
    context.progress(1, Some(2), address.postcode.as_deref());
    let cents = weights.iter().map(|grams| i64::from(*grams) * 100).sum::<i64>() * i64::from(count);
    Ok(Receipt { cents, speed, note, labels })
}

/// Takes a photograph.
#[tool(mode = "client", result = String, usage = "The user is asked first.")]
fn photograph(
    /// How wide, in pixels
    #[default(640)]
    width: u32,
) -> Value {
    json!({"camera": "front", "width": width})
}

/// Tells what the call is.
#[tool(read_only)]
fn who(context: &Context) -> Result<BTreeMap<String, Value>, Error> {
    let settings: Settings = context.settings()?;
    Ok(BTreeMap::from([
        ("agent".to_owned(), json!(context.agent())),
        ("channel".to_owned(), json!(context.channel())),
        ("greeting".to_owned(), json!(settings.greeting)),
        ("seconds".to_owned(), json!(context.time_left().as_secs())),
        ("call".to_owned(), json!(context.call_id())),
    ]))
}

/// Fails as files fail.
#[tool]
fn fail() -> std::io::Result<()> {
    Err(std::io::Error::other("no such luck"))
}

/// How the plugin behaves
#[derive(Deserialize, JsonSchema)]
struct Settings {
    /// How it says hello
    greeting: String,
}

plugin! {
    "post-office",
    version = "1.2.3",
    publisher = "Example Ltd",
    category = "Post",
    purpose = "Sends parcels",
    capabilities(filesystem = workspace, network = ["GET,POST https://api.example.com:8443/v1/"], credentials = ["carrier"]),
    settings = Settings,
    limits(fuel = 1_000_000, deadline_ms = 5_000),
    send_parcel, photograph, who, fail,
}

fn context() -> Context {
    testing::context()
        .agent("acme/clerk")
        .settings(json!({"greeting": "hello"}))
        .time_left(Duration::from_secs(7))
        .build()
}

#[test]
fn t1_the_description_is_complete_and_always_the_same() {
    let description = testing::describe::<ThisPlugin>();

    insta::assert_json_snapshot!(description);
    assert_eq!(description, testing::describe::<ThisPlugin>());
}

#[test]
fn t1_the_description_fits_the_published_schema() {
    let published: Value = serde_json::from_str(include_str!("../../wit/describe.schema.json")).unwrap();
    let validator = jsonschema::options().build(&published).unwrap();

    let found: Vec<String> =
        validator.iter_errors(&testing::describe::<ThisPlugin>()).map(|error| error.to_string()).collect();

    assert_eq!(found, Vec::<String>::new());
    assert!(!validator.is_valid(&json!({"name": "post_office", "version": "1", "tools": []})));
}

#[test]
fn t2_a_tool_is_a_plain_function() {
    assert_eq!(photograph(3), json!({"camera": "front", "width": 3}));
}

#[test]
fn t2_arguments_are_parsed_into_their_types() {
    let context = context();

    let receipt = testing::call::<send_parcel>(
        &context,
        json!({
            "address": {"street": "1 Main", "postcode": "12345"},
            "weights": [2.0, 3],
            "speed": "fast",
            "count": 2.0,
            "payment": {"kind": "invoice", "days": 30.0},
            "greeting": "hi",
        }),
    );

    assert_eq!(receipt, Ok(json!({"cents": 1000, "speed": "fast", "note": "hi", "labels": {"invoice": 30}})));
    let line = &testing::logged(&context)[0];
    assert_eq!((line.level, line.event.as_str()), (Level::Info, "sent"));
    assert_eq!(
        line.fields,
        [("label".to_owned(), "fragile".to_owned()), ("parts".to_owned(), "2".to_owned())]
    );
    assert_eq!(testing::reported(&context)[0].message.as_deref(), Some("12345"));
}

#[test]
fn omitted_arguments_have_their_defaults_and_the_examples_are_correct() {
    assert_eq!(testing::wrong_examples::<send_parcel>(&context()), []);
}

#[test]
fn m5_null_for_an_optional_argument_is_absent_and_for_a_required_one_is_wrong() {
    let parcel = |address: Value| {
        let arguments =
            json!({"address": address, "weights": [1], "speed": null, "count": null, "label": null});
        testing::call::<send_parcel>(&context(), arguments)
    };
    assert_eq!(parcel(json!({"street": "1 Main"})).unwrap()["speed"], "slow");
    assert_eq!(parcel(Value::Null).unwrap_err().code(), "INVALID_ARGUMENTS");
}

#[test]
fn an_incorrect_example_is_found() {
    /// Doubles.
    #[tool(examples({"number": 2} => 5))]
    fn double(
        /// The number to double
        number: i64,
    ) -> i64 {
        number * 2
    }

    let wrong = testing::wrong_examples::<double>(&context());

    assert_eq!(wrong.len(), 1);
    assert_eq!((&wrong[0].expected, &wrong[0].found), (&json!(5), &Ok(json!(4))));
}

#[test]
fn invalid_arguments_are_a_failure() {
    for arguments in [
        json!({}),
        json!({"address": {"street": "1 Main"}, "weights": [-1]}),
        json!({"address": {"street": "1 Main"}, "weights": [1], "extra": 1}),
        json!({"address": {"street": ""}, "weights": [1]}),
        json!({"address": {"street": "1 Main"}, "weights": [1.5]}),
    ] {
        let failure = testing::call::<send_parcel>(&context(), arguments.clone()).unwrap_err();
        assert_eq!(failure.code(), "INVALID_ARGUMENTS", "{arguments}");
    }
}

#[test]
fn t5_the_context_has_the_caller() {
    let facts = testing::call::<who>(&context(), json!({})).unwrap();

    assert_eq!(
        facts,
        json!({"agent": "acme/clerk", "channel": null, "greeting": "hello", "seconds": 7, "call": "call"})
    );
}

#[test]
fn invalid_settings_are_a_failure_for_the_operator() {
    let failure = testing::call::<who>(&testing::context().build(), json!({})).unwrap_err();

    assert_eq!(
        failure.message(),
        "the settings of this plugin are not valid: missing field `greeting` at line 1 column 2; ask its operator to fix them"
    );
}

#[test]
fn any_rust_error_is_a_failure() {
    let failure = testing::call::<fail>(&context(), json!({})).unwrap_err();

    assert_eq!((failure.code(), failure.message()), ("TOOL_FAILED", "no such luck"));
}

#[test]
fn t2_an_infinite_result_is_a_failure() {
    /// Divides.
    #[tool(read_only)]
    fn divide(
        /// What
        a: f64,
        /// By what
        b: f64,
    ) -> f64 {
        a / b
    }

    let call = |a: f64, b: f64| testing::call::<divide>(&context(), json!({"a": a, "b": b}));
    assert_eq!(call(1.0, 2.0), Ok(json!(0.5)));
    for failure in [call(1.0, 0.0), call(0.0, 0.0)] {
        assert!(failure.is_err_and(|failure| failure.message().contains("infinite or undefined")));
    }
}

#[test]
fn a_plugin_calls_its_tools_by_their_names() {
    assert!(
        testing::call_by_name::<ThisPlugin>(&context(), "send", json!({}))
            .is_some_and(|result| result.is_err())
    );
    assert!(
        testing::call_by_name::<ThisPlugin>(&context(), "photograph", json!({}))
            .is_some_and(|result| result.is_ok())
    );
    assert!(testing::call_by_name::<ThisPlugin>(&context(), "send_parcel", json!({})).is_none());
}

#[cfg(feature = "async")]
#[test]
fn t2_a_tool_may_be_async() {
    /// Waits for nothing.
    #[tool]
    async fn wait(
        context: &Context,
        /// The word to return
        word: String,
    ) -> Result<String, Error> {
        std::future::ready(()).await;
        context.log(Level::Debug, "waited", "done", &[]);
        Ok(word)
    }

    assert_eq!(testing::call::<wait>(&context(), json!({"word": "now"})), Ok(json!("now")));
}
