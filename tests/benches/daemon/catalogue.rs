//! Search in a catalogue of ten thousand tools.

use serde_json::{Value, json};
use toolgate_tests::{Client, Daemon, PluginFile};

use super::{PROGRAM, measure, median_of, ms};

/// Plugins, and tools of each.
pub const PLUGINS: usize = 100;
const TOOLS: usize = 100;
/// Longest time that a search may take.
const MOST_MS: f64 = 5.0;

const VERBS: [&str; 10] =
    ["create", "read", "update", "delete", "send", "list", "export", "merge", "approve", "archive"];
const THINGS: [&str; 10] =
    ["invoice", "customer", "parcel", "ticket", "contract", "photo", "meeting", "payment", "report", "order"];

/// The first search after a load builds the index; later ones use it.
pub fn catalogue() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    for number in 0..PLUGINS {
        let name = format!("p{number}");
        operator.load(&name, &plugin(&name, number));
    }
    operator.make_organization("acme");
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    println!("a page of the catalogue of {} tools, over HTTP:", PLUGINS * TOOLS);
    let floor = median_of(101, || owner.get("/healthz").expect(200));
    println!("  {:32} {:6.2} ms", "an answer without work", ms(floor));
    let (_, first) = measure(|| search(&owner, "q=invoice"));
    println!("  {:32} {:6.2} ms", "the first search", ms(first));
    for (what, query) in [
        ("no words", "sort=name"),
        ("one word", "q=invoice"),
        ("three words", "q=approve%20a%20customer%20contract%2042"),
        ("a misspelt word", "q=invioce"),
        ("a word and filters", "q=parcel&category=office&kind=third_party"),
        ("the most popular", "sort=popular"),
    ] {
        let took = median_of(101, || search(&owner, query));
        let verdict = if ms(took) < MOST_MS { "" } else { "  TOO SLOW" };
        println!(
            "  {what:32} {:6.2} ms, {:4.1} times an answer without work{verdict}",
            ms(took),
            ms(took) / ms(floor)
        );
    }
}

fn search(owner: &Client, query: &str) -> usize {
    owner.get(&format!("/v1/catalogue?{query}")).expect(200).body.len()
}

/// A plugin of the catalogue.
pub fn plugin(name: &str, number: usize) -> Vec<u8> {
    let tools: Vec<Value> = (0..TOOLS).map(|tool| describe(number, tool)).collect();
    let category = ["office", "sales", "logistics"][number % 3];
    let description = json!({
        "name": name, "version": "1.0.0", "publisher": "Toolgate tests", "category": category,
        "purpose": format!("Serves the {} of an office.", THINGS[number % THINGS.len()]), "tools": tools,
    });
    PluginFile::of(description).with_result("{}").build()
}

fn describe(plugin: usize, tool: usize) -> Value {
    let (verb, thing) = (VERBS[tool % VERBS.len()], THINGS[(tool / VERBS.len() + plugin) % THINGS.len()]);
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string", "description": format!("The {thing}.")}},
        "additionalProperties": false,
    });
    json!({
        "name": format!("{verb}_{thing}_{tool}"), "description": format!("Can {verb} the {thing} {tool} of plugin {plugin}."),
        "usage": "Give the id.", "input_schema": schema, "tags": [thing, verb],
    })
}
