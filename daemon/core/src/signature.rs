//! Signatures of tools in the notation of TypeScript, for models that write scripts (T13).

use std::cell::Cell;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use toolgate_admission::ToolDescriptor;

/// Deepest nesting that a signature shows; deeper types are `unknown`.
const DEPTH: usize = 6;
/// Most parts of a type: a schema that refers to itself in many branches would grow by powers. Further parts are `unknown`.
const PARTS: usize = 500;
/// Longest signature in bytes. A longer one is shown without its types.
const BYTES: usize = 8 * 1024;

/// Returns the description of a tool and its signature.
pub fn description(tool: &ToolDescriptor) -> String {
    let mut text = format!("{}\n\n{}", signature(tool), tool.description);
    if tool.usage != tool.description {
        let _ = write!(text, "\n\n{}", tool.usage);
    }
    text
}

/// Returns the signature of a tool in one line: `tools.files.read({path: string, from_line?: number}): Promise<{text: string}>`.
pub fn signature(tool: &ToolDescriptor) -> String {
    let input = type_of(tool.input.source());
    let output = tool.output.as_ref().map_or_else(|| "unknown".to_owned(), |output| type_of(output.source()));
    let namespace = member(tool.id.namespace.as_str());
    let name = member(tool.id.tool.as_str());
    match input.len() + output.len() <= BYTES {
        true => format!("tools{namespace}{name}({input}): Promise<{output}>"),
        false => format!("tools{namespace}{name}(object): Promise<unknown>"),
    }
}

/// A member access: `.name`, or `["name-with-hyphen"]`.
fn member(name: &str) -> String {
    match is_identifier(name) {
        true => format!(".{name}"),
        false => format!("[{}]", Value::from(name)),
    }
}

fn is_identifier(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$';
    let mut bytes = name.bytes();
    bytes.next().is_some_and(is_letter) && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

fn type_of(schema: &Value) -> String {
    Types { root: schema, parts_left: Cell::new(PARTS) }.of(schema, DEPTH)
}

struct Types<'a> {
    root: &'a Value,
    parts_left: Cell<usize>,
}

impl Types<'_> {
    fn of(&self, schema: &Value, depth: usize) -> String {
        let (Some(depth), Some(left)) = (depth.checked_sub(1), self.parts_left.get().checked_sub(1)) else {
            return "unknown".to_owned();
        };
        self.parts_left.set(left);
        let Value::Object(keywords) = schema else {
            return if *schema == Value::Bool(false) { "never" } else { "unknown" }.to_owned();
        };
        let list = |keyword: &str| keywords.get(keyword).and_then(Value::as_array);
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map_or_else(|| "unknown".to_owned(), |target| self.of(target, depth));
        }
        if let Some(value) = keywords.get("const") {
            return value.to_string();
        }
        if let Some(values) = list("enum") {
            return union(values.iter().map(Value::to_string));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) = list(keyword).filter(|_| !keywords.contains_key("properties")) {
                return union(branches.iter().map(|branch| self.of(branch, depth)));
            }
        }
        match keywords.get("type") {
            Some(Value::Array(kinds)) => {
                union(kinds.iter().filter_map(Value::as_str).map(|kind| self.of_kind(kind, keywords, depth)))
            }
            Some(Value::String(kind)) => self.of_kind(kind, keywords, depth),
            _ if keywords.contains_key("properties") => self.of_kind("object", keywords, depth),
            _ => "unknown".to_owned(),
        }
    }

    fn of_kind(&self, kind: &str, keywords: &Map<String, Value>, depth: usize) -> String {
        match kind {
            "integer" | "number" => "number".to_owned(),
            "string" | "boolean" | "null" => kind.to_owned(),
            "array" => {
                let items =
                    keywords.get("items").map_or_else(|| "unknown".to_owned(), |items| self.of(items, depth));
                format!("Array<{items}>")
            }
            "object" => self.object(keywords, depth),
            _ => "unknown".to_owned(),
        }
    }

    fn object(&self, keywords: &Map<String, Value>, depth: usize) -> String {
        let required = keywords.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
        let properties = keywords.get("properties").and_then(Value::as_object);
        let mut fields: Vec<String> = Vec::new();
        for (name, schema) in properties.into_iter().flatten() {
            let shown =
                if is_identifier(name) { name.clone() } else { Value::from(name.as_str()).to_string() };
            let mark = if is_required(name) { "" } else { "?" };
            fields.push(format!("{shown}{mark}: {}", self.of(schema, depth)));
        }
        match (fields.is_empty(), keywords.get("additionalProperties")) {
            (true, Some(Value::Bool(false))) => "{}".to_owned(),
            (true, Some(values)) => format!("Record<string, {}>", self.of(values, depth)),
            (true, None) => "object".to_owned(),
            (false, _) => format!("{{{}}}", fields.join(", ")),
        }
    }
}

/// A union of types, each once, in order.
fn union(types: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for one in types {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct.join(" | ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn t13_a_schema_is_written_as_a_type() {
        for (schema, expected) in [
            (
                json!({"type": "object", "properties": {"path": {"type": "string"}, "from-line": {"type": "integer"}},
                "required": ["path"]}),
                r#"{"from-line"?: number, path: string}"#,
            ),
            (json!({"type": "array", "items": {"enum": ["a", 1, null]}}), r#"Array<"a" | 1 | null>"#),
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"anyOf": [{"const": true}, {"type": "boolean"}, {"type": "boolean"}]}), "true | boolean"),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "number"}}}), "number"),
            (json!({"$ref": "#"}), "unknown"),
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), "Record<string, string>"),
            (json!({"type": "object", "additionalProperties": false}), "{}"),
            (json!(false), "never"),
            (json!({}), "unknown"),
        ] {
            assert_eq!(type_of(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn t13_a_schema_that_refers_to_itself_in_many_branches_is_cut() {
        let branches: Vec<Value> = (0..100)
            .map(|number| json!({"type": "object", "properties": {format!("p{number}"): {"$ref": "#"}}}))
            .collect();
        let shown = type_of(&json!({"anyOf": branches}));
        assert!(shown.starts_with("{p0?: ") && shown.len() < 100 * PARTS, "{}", shown.len());
    }

    #[test]
    fn t13_a_name_with_a_hyphen_stands_in_brackets() {
        assert_eq!((member("files").as_str(), member("git-hub").as_str()), (".files", "[\"git-hub\"]"));
    }
}
