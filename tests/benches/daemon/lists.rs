//! Lists of a thousand tools in each provider's form.

use serde_json::{Value, json};
use toolgate_tests::{Daemon, PluginFile};

use super::{PROGRAM, measure, median_of, ms};

/// Plugins, and tools of each.
const PLUGINS: usize = 10;
const TOOLS: usize = 100;

/// The first list after a change writes each schema for the provider; later lists find it in memory.
pub fn lists() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    for number in 0..PLUGINS {
        let name = format!("p{number}");
        operator.load(&name, &plugin(&name));
    }
    operator.make_agent("acme/bot", &json!({"enabled": "*"}));
    let session = operator.open_session("acme/bot");
    println!("a list of {} tools, over HTTP:", PLUGINS * TOOLS);
    for query in [
        "toolgate",
        "openai",
        "openai&strict=true",
        "openai_responses&deferred=true",
        "anthropic",
        "anthropic&strict=true",
        "gemini",
        "mcp",
    ] {
        let path = session.path(&format!("/tools?format={query}"));
        let (reply, first) = measure(|| session.client.get(&path).expect(200));
        let later = median_of(21, || session.client.get(&path).expect(200));
        println!(
            "  {query:32} first {:6.2} ms, later {:5.2} ms, {} KiB",
            ms(first),
            ms(later),
            reply.body.len() / 1024
        );
    }
}

fn plugin(name: &str) -> Vec<u8> {
    let tools: Vec<Value> = (0..TOOLS).map(tool).collect();
    let description =
        json!({"name": name, "version": "1.0.0", "publisher": "Toolgate tests", "tools": tools});
    PluginFile::of(description).with_result("{}").build()
}

/// A tool with the arguments of a typical service: texts, an enumeration, a list of objects, an alternative.
fn tool(number: usize) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The order.", "pattern": "^[a-z0-9-]+$", "maxLength": 64},
            "state": {"enum": ["open", "paid", "sent"], "description": "The state to look for."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}, "required": ["sku"]},
            },
            "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]},
        },
        "required": ["id"],
        "additionalProperties": false,
    });
    json!({
        "name": format!("tool_{number}"), "description": "Changes an order.", "usage": "Give the order and what to change.",
        "input_schema": schema, "hints": {"read_only": true},
    })
}
