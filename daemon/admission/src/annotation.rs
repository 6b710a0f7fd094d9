//! Secrets by annotation: the arguments that a schema marks as not to be shown.
//!
//! `writeOnly`, `format: password` and `x-toolgate-redact` become `redact` pointers, beside those that the plugin names. A pointer
//! leads to one place, so a secret inside of a list or a map of values marks the whole list or map.

use serde_json::Value;

/// Levels of schemas, and subschemas in all, that are searched. References are followed, so a schema can be endless.
const LEVELS: usize = 32;
const STEPS: usize = 20_000;

/// Adds the annotated places of a schema to these pointers.
pub(crate) fn with_annotated(pointers: Vec<String>, schema: &Value) -> Vec<String> {
    let mut search = AnnotationSearch { root: schema, steps: 0, found: pointers };
    search.visit(schema, "", 0);
    search.found
}

struct AnnotationSearch<'a> {
    root: &'a Value,
    steps: usize,
    found: Vec<String>,
}

impl<'a> AnnotationSearch<'a> {
    /// Searches a schema of the values at `pointer`.
    fn visit(&mut self, schema: &Value, pointer: &str, level: usize) {
        self.steps += 1;
        if level > LEVELS || self.steps > STEPS || self.found.iter().any(|found| found == pointer) {
            return;
        }
        if is_annotated(schema) {
            return self.found.push(pointer.to_owned());
        }
        if let Some(target) = self.target(schema) {
            self.visit(target, pointer, level + 1);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                self.visit(part, pointer, level + 1);
            }
        }
        for keyword in ["if", "then", "else"] {
            if let Some(part) = schema.get(keyword) {
                self.visit(part, pointer, level + 1);
            }
        }
        if inner_schemas(schema).any(|inner| self.has_annotation(inner, level + 1)) {
            return self.found.push(pointer.to_owned());
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let name = name.replace('~', "~0").replace('/', "~1");
            self.visit(property, &format!("{pointer}/{name}"), level + 1);
        }
    }

    /// Whether a schema of values without a pointer of their own has an annotation anywhere.
    fn has_annotation(&mut self, schema: &Value, level: usize) -> bool {
        let mut inner = AnnotationSearch { root: self.root, steps: self.steps, found: Vec::new() };
        inner.visit(schema, "", level);
        self.steps = inner.steps;
        !inner.found.is_empty()
    }

    fn target(&self, schema: &Value) -> Option<&'a Value> {
        let reference = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(reference).filter(|target| !std::ptr::eq(*target, self.root))
    }
}

fn is_annotated(schema: &Value) -> bool {
    let is_set = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    is_set("writeOnly")
        || is_set("x-toolgate-redact")
        || schema.get("format").and_then(Value::as_str) == Some("password")
}

/// The schemas of elements, and of members that have no name in the schema.
fn inner_schemas(schema: &Value) -> impl Iterator<Item = &Value> {
    let single = ["items", "contains", "additionalProperties", "unevaluatedProperties"];
    let single =
        single.into_iter().filter_map(|keyword| schema.get(keyword)).filter(|inner| inner.is_object());
    let listed = schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
    let named = schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
    single.chain(listed).chain(named.map(|(_, inner)| inner))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(schema: Value) -> Vec<String> {
        with_annotated(Vec::new(), &schema)
    }

    #[test]
    fn o3_annotated_arguments_are_secret() {
        let schema = json!({"properties": {
            "open": {"type": "string"},
            "pin": {"writeOnly": true},
            "login": {"properties": {"name": {}, "pass/word": {"format": "password"}}},
            "more": {"allOf": [{"properties": {"key": {"x-toolgate-redact": true}}}]},
            "list": {"items": {"properties": {"secret": {"writeOnly": true}}}},
            "map": {"additionalProperties": {"format": "password"}},
            "plain": {"items": {"type": "string"}, "writeOnly": false},
            "referred": {"$ref": "#/$defs/account"},
        }, "$defs": {"account": {"properties": {"code": {"writeOnly": true}}}}});
        let mut pointers = find(schema);
        pointers.sort();
        let expected = ["/list", "/login/pass~1word", "/map", "/more/key", "/pin", "/referred/code"];
        assert_eq!(pointers, expected);
    }

    #[test]
    fn pointers_of_the_plugin_stay_and_endless_references_end() {
        let schema = json!({"properties": {
            "a": {"writeOnly": true}, "next": {"$ref": "#/$defs/node"}, "self": {"$ref": "#"},
        }, "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}});
        assert_eq!(with_annotated(vec!["/b".to_owned(), "/a".to_owned()], &schema), ["/b", "/a"]);
        // Each part refers to all of them.
        let parts: Vec<Value> = (0..15).map(|_| json!({"$ref": "#/$defs/all"})).collect();
        let schema = json!({"$ref": "#/$defs/all", "$defs": {"all": {"allOf": parts}}});
        assert!(find(schema).is_empty());
    }
}
