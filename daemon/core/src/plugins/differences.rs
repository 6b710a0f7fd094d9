//! The differences between two versions of a plugin that a person should see before the newer one serves (O2).
//!
//! Compared is what a model reads, what the gate decides from, and what calls may reach: texts, schemas, mode, hints,
//! capabilities, limits, and the publisher's key. A new version number and new code alone are no difference.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolgate_admission::{Descriptor, ToolDescriptor};
use toolgate_api::grant::Capabilities;
use toolgate_api::plugin::VersionDifference;
use toolgate_api::read::pointer;

use super::trust::Signer;

/// One of two versions to compare.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) descriptor: &'a Descriptor,
    pub(super) signer: Option<&'a Signer>,
}

/// Values of a plugin or a tool by their names in words.
type Facts = Vec<(&'static str, Value)>;

/// The differences, those of the plugin first, then by tool. Nothing is shortened: a hidden end would be agreed to unseen.
pub(super) fn differences(before: Side<'_>, after: Side<'_>) -> Vec<VersionDifference> {
    let mut found = Differences { tool: None, list: Vec::new() };
    found.compare_facts(plugin_facts(before), plugin_facts(after));
    let (old, new) = (tools(before.descriptor), tools(after.descriptor));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for name in names {
        found.tool = Some(name.to_owned());
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => found.compare_facts(tool_facts(old), tool_facts(new)),
            (None, Some(new)) => found.add_tool(new),
            (Some(old), None) => found.push("tool".to_owned(), Some(old.description.clone()), None),
            (None, None) => {}
        }
    }
    found.list
}

/// Whether both versions ask for the same capabilities and limits, so that a grant for one suits the other.
pub(super) fn asks_for_the_same(before: &Descriptor, after: &Descriptor) -> bool {
    capabilities(&before.capabilities) == capabilities(&after.capabilities) && before.limits == after.limits
}

fn tools(descriptor: &Descriptor) -> BTreeMap<&str, &ToolDescriptor> {
    descriptor.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect()
}

fn plugin_facts(side: Side<'_>) -> Facts {
    let Side { descriptor, signer } = side;
    vec![
        ("publisher", json!(descriptor.publisher)),
        (
            "publisher key",
            json!(signer.map(|signer| format!("{} (key {})", signer.publisher, signer.key.id()))),
        ),
        ("purpose", json!(descriptor.purpose)),
        ("category", json!(descriptor.category)),
        ("capabilities", capabilities(&descriptor.capabilities)),
        ("limits", value_of(&descriptor.limits)),
        ("rate limit", value_of(&descriptor.rate_limit)),
        ("settings schema", json!(descriptor.config_schema.as_ref().map(|schema| schema.source()))),
    ]
}

fn tool_facts(tool: &ToolDescriptor) -> Facts {
    vec![
        ("description", json!(tool.description)),
        ("usage", json!(tool.usage)),
        ("original name", json!(tool.original_name.as_deref())),
        ("input schema", tool.input.source().clone()),
        ("output schema", json!(tool.output.as_ref().map(|schema| schema.source()))),
        ("content blocks", json!(tool.content)),
        ("mode", json!(tool.mode.as_str())),
        ("hints", value_of(&tool.hints)),
        ("required integrations", json!(tool.required_integrations)),
        ("prerequisites", json!(tool.prerequisites)),
        ("tags", json!(tool.tags)),
        ("examples", value_of(&tool.examples)),
        ("cost", json!(tool.cost)),
        ("redacted arguments", json!(tool.redact)),
    ]
}

/// Without the imports of a language runtime, which no call gets.
fn capabilities(capabilities: &Capabilities) -> Value {
    let mut value = value_of(capabilities);
    if let Value::Object(members) = &mut value {
        members.remove("unused");
    }
    value
}

fn value_of(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

struct Differences {
    /// The tool whose facts are compared.
    tool: Option<String>,
    list: Vec<VersionDifference>,
}

impl Differences {
    fn push(&mut self, field: String, before: Option<String>, after: Option<String>) {
        self.list.push(VersionDifference { tool: self.tool.clone(), field, before, after });
    }

    /// Both lists have the same names in the same order.
    fn compare_facts(&mut self, before: Facts, after: Facts) {
        for ((field, before), (_, after)) in before.into_iter().zip(after) {
            self.compare(field, "", Some(&before), Some(&after));
        }
    }

    fn add_tool(&mut self, tool: &ToolDescriptor) {
        self.push("tool".to_owned(), None, Some(tool.description.clone()));
        for (field, value) in tool_facts(tool) {
            if !is_empty(&value) && field != "description" {
                self.push(field.to_owned(), None, text(Some(&value)));
            }
        }
    }

    /// Compares two values, member by member and item by item where both have the same kind.
    fn compare(&mut self, field: &str, place: &str, before: Option<&Value>, after: Option<&Value>) {
        if before == after {
            return;
        }
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                for name in member_names(before, after) {
                    self.compare(field, &pointer(place, name), before.get(name), after.get(name));
                }
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
                for (index, (before, after)) in before.iter().zip(after).enumerate() {
                    self.compare(field, &pointer(place, &index.to_string()), Some(before), Some(after));
                }
            }
            _ => {
                let field = if place.is_empty() { field.to_owned() } else { format!("{field} {place}") };
                self.push(field, text(before), text(after));
            }
        }
    }
}

fn member_names<'a>(before: &'a Map<String, Value>, after: &'a Map<String, Value>) -> BTreeSet<&'a str> {
    before.keys().chain(after.keys()).map(String::as_str).collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Value {
        json!({"name": "crm", "version": "1.0.0", "publisher": "acme", "purpose": "Contacts.", "tools": [
            {"name": "find", "description": "Finds.", "usage": "Call it.", "input_schema":
                {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
        ]})
    }

    /// The differences after one change, as `tool field: before -> after`.
    fn after(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut changed = description();
        change(&mut changed);
        let parse = |value: &Value| Descriptor::parse(&value.to_string()).unwrap();
        let (before, after) = (parse(&description()), parse(&changed));
        let side = |descriptor| Side { descriptor, signer: None };
        let word = |text: Option<String>| text.unwrap_or_else(|| "nothing".into());
        let line = |one: VersionDifference| {
            let VersionDifference { tool, field, before, after } = one;
            format!("{} {field}: {} -> {}", word(tool), word(before), word(after))
        };
        differences(side(&before), side(&after)).into_iter().map(line).collect()
    }

    #[test]
    fn a_version_number_is_no_difference() {
        assert_eq!(after(|changed| changed["version"] = json!("2.0.0")), [""; 0]);
    }

    #[test]
    fn each_difference_is_told_with_both_values() {
        let cases: [(&str, Value, &str); 9] = [
            ("/purpose", json!("Deals."), "nothing purpose: Contacts. -> Deals."),
            ("/limits", json!({"fuel": 5}), "nothing limits /fuel: nothing -> 5"),
            (
                "/capabilities",
                json!({"filesystem": "workspace"}),
                "nothing capabilities /filesystem: none -> workspace",
            ),
            (
                "/config_schema",
                json!({"type": "object"}),
                r#"nothing settings schema: nothing -> {"type":"object"}"#,
            ),
            ("/tools/0/description", json!("Looks."), "find description: Finds. -> Looks."),
            ("/tools/0/mode", json!("client"), "find mode: server -> client"),
            ("/tools/0/hints", json!({"read_only": true}), "find hints /read_only: false -> true"),
            (
                "/tools/0/input_schema/properties/city/type",
                json!("number"),
                "find input schema /properties/city/type: string -> number",
            ),
            ("/tools/0/input_schema/required", json!([]), r#"find input schema /required: ["city"] -> []"#),
        ];
        for (place, value, line) in cases {
            let lines = after(|changed| {
                let (parent, member) = place.rsplit_once('/').unwrap();
                changed.pointer_mut(parent).unwrap()[member] = value;
            });
            assert_eq!(lines, [line]);
        }
    }

    #[test]
    fn an_added_tool_is_shown_whole_and_a_removed_one_by_its_description() {
        let lines = after(|changed| {
            let mut tool = changed["tools"][0].clone();
            tool["name"] = json!("seek");
            changed["tools"] = json!([tool]);
        });
        assert_eq!(lines[0], "find tool: Finds. -> nothing");
        assert_eq!(lines[1], "seek tool: nothing -> Finds.");
        assert!(lines.iter().any(|line| line.starts_with("seek input schema: nothing -> {")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("seek hints: nothing -> ")), "{lines:?}");
    }

    #[test]
    fn another_key_of_the_publisher_is_a_difference() {
        let descriptor = Descriptor::parse(&description().to_string()).unwrap();
        let key =
            crate::signing::PublicKey::parse("ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=").unwrap();
        let signer = Signer { publisher: "acme".into(), key };
        let side = |signer| Side { descriptor: &descriptor, signer };
        let found = differences(side(None), side(Some(&signer)));
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].field, &found[0].before), ("publisher key", &None));
        assert!(differences(side(Some(&signer)), side(Some(&signer))).is_empty());
    }
}
