//! `text/json_query` beside jaq without a sandbox.

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Ctx, Vars};
use jaq_json::{Val, read};
use serde_json::{Value, json};
use toolgate_tests::Daemon;

use super::{PROGRAM, median_of, ms};

const FILTER: &str =
    "[.[] | select(.price > 500) | {name, total: (.price * .count)}] | group_by(.total % 7) | map(length)";
const ROUNDS: usize = 7;

pub fn query() {
    // The request has the text and its quoting, less than two mebibytes.
    let daemon =
        Daemon::start(PROGRAM, "[limits]\narguments_bytes = 4_194_304\n[http]\nbody_bytes = 8_388_608\n");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["text/*"]}));
    let session = operator.open_session("acme/bot");
    let text = document();
    let arguments = json!({"filter": FILTER, "text": text});
    let reply = session.call("text/json_query", arguments.clone());
    let answer = &reply.output()["results"][0];
    assert_eq!(*answer, native(&text), "{reply:?}");
    // Serialized before the timer starts, since that is the client's work.
    let measure = |arguments: Value| {
        let body = json!({"calls": [{"tool": "text/json_query", "arguments": arguments}]}).to_string();
        median_of(ROUNDS, || operator.post_text(&session.path("/calls"), &body).expect(200))
    };
    let ours = measure(arguments);
    let with_value =
        measure(json!({"filter": FILTER, "value": serde_json::from_str::<Value>(&text).unwrap()}));
    let theirs = median_of(ROUNDS, || native(&text));
    println!(
        "jaq without a sandbox, {} KiB read, filtered, written: {:.1} ms",
        text.len() / 1024,
        ms(theirs)
    );
    println!(
        "text/json_query over HTTP, as `text`: {:.1} ms; ratio {:.2}",
        ms(ours),
        ours.div_duration_f64(theirs)
    );
    println!(
        "text/json_query over HTTP, as `value`: {:.1} ms; ratio {:.2}",
        ms(with_value),
        with_value.div_duration_f64(theirs)
    );
}

/// One mebibyte of a typical API response.
fn document() -> String {
    let rows: Vec<Value> = (0..8_400)
        .map(|at| json!({"id": at, "name": format!("item number {at}"), "price": at * 37 % 1000, "count": at % 13, "tags": ["a", "b", "c"], "stock": {"here": true, "there": null}}))
        .collect();
    Value::from(rows).to_string()
}

fn native(text: &str) -> Value {
    let arena = Arena::default();
    let modules = Loader::new(jaq_core::defs()).load(&arena, File { code: FILTER, path: () }).unwrap();
    let funs = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
    let filter = jaq_core::Compiler::default().with_funs(funs).compile(modules).unwrap();
    let input = read::parse_single(text.as_bytes()).unwrap();
    let ctx = Ctx::<jaq_core::data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let result = filter.id.run((ctx, input)).next().unwrap().ok().unwrap();
    serde_json::from_str(&result.to_string()).unwrap()
}
