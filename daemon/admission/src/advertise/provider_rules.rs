//! The published rules of providers for schemas, as a checker for tests. It shares no code with the writer.
//!
//! OpenAI: <https://developers.openai.com/api/docs/guides/function-calling> and `…/structured-outputs`. Anthropic:
//! <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>, and the errors of the messages API. Gemini:
//! <https://ai.google.dev/api/caching#FunctionDeclaration>. MCP: revision 2025-11-25, "JSON Schema Usage".

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A provider's reader of schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    OpenAi,
    OpenAiStrict,
    Anthropic,
    AnthropicStrict,
    Gemini,
    Mcp,
}

/// Returns the rules that the schema breaks, each with its place.
pub(crate) fn broken_rules(reader: Reader, schema: &Value) -> Vec<String> {
    let mut checker = Checker { reader, root: schema, broken: Vec::new() };
    if schema["type"] != "object" {
        checker.add("", "the root is no object");
    }
    if !jsonschema::draft202012::meta::is_valid(schema) {
        checker.add("", "it is not valid in JSON Schema 2020-12");
    }
    if reader != Reader::Mcp {
        for keyword in ["oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref"] {
            if schema.get(keyword).is_some() {
                checker.add("", &format!("`{keyword}` at the root"));
            }
        }
    }
    checker.root_names(schema);
    checker.schema(schema, "", 0);
    checker.broken
}

struct Checker<'a> {
    reader: Reader,
    root: &'a Value,
    broken: Vec<String>,
}

impl Checker<'_> {
    fn add(&mut self, place: &str, rule: &str) {
        self.broken.push(format!("{place}: {rule}"));
    }

    fn root_names(&mut self, schema: &Value) {
        let pattern = match self.reader {
            Reader::Anthropic | Reader::AnthropicStrict | Reader::Mcp => "^[a-zA-Z0-9_.-]{1,64}$",
            Reader::Gemini => "^[a-zA-Z_][a-zA-Z0-9_]{0,63}$",
            Reader::OpenAi | Reader::OpenAiStrict => return,
        };
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
            if !pattern.is_match(name) {
                self.add("/properties", &format!("the name `{name}`"));
            }
        }
    }

    fn schema(&mut self, schema: &Value, place: &str, level: usize) {
        let Some(schema) = schema.as_object() else { return };
        self.everywhere(schema, place);
        let types = types(schema);
        let level = level + usize::from(types.iter().any(|name| matches!(*name, "object" | "array")));
        match self.reader {
            Reader::Gemini => self.gemini(schema, &types, place, level),
            Reader::OpenAiStrict | Reader::AnthropicStrict => self.strict(schema, &types, place, level),
            _ => {}
        }
        for (keyword, value) in schema {
            let place = format!("{place}/{keyword}");
            match keyword.as_str() {
                "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        self.schema(schema, &format!("{place}/{name}"), level);
                    }
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                    for (index, schema) in value.as_array().into_iter().flatten().enumerate() {
                        // Alternatives are about the same value.
                        let own = if keyword == "prefixItems" { 0 } else { usize::from(!types.is_empty()) };
                        self.schema(schema, &format!("{place}/{index}"), level.saturating_sub(own));
                    }
                }
                "not"
                | "if"
                | "then"
                | "else"
                | "items"
                | "contains"
                | "additionalProperties"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties" => self.schema(value, &place, level),
                _ => {}
            }
        }
    }

    fn everywhere(&mut self, schema: &Map<String, Value>, place: &str) {
        for keyword in ["$schema", "$id", "definitions", "dependencies", "additionalItems"] {
            if schema.contains_key(keyword) {
                self.add(place, &format!("`{keyword}` is of another draft"));
            }
        }
        if types(schema).contains(&"array") && !schema.contains_key("items") {
            self.add(place, "array schema missing items");
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let distinct: BTreeSet<String> = values.iter().map(Value::to_string).collect();
            if values.is_empty() || distinct.len() < values.len() {
                self.add(place, "`enum` is empty or repeats a value");
            }
        }
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            if target.is_none() {
                self.add(place, "`$ref` leads nowhere");
            }
        }
    }

    fn gemini(&mut self, schema: &Map<String, Value>, types: &[&str], place: &str, level: usize) {
        const KEYWORDS: [&str; 14] = [
            "type",
            "format",
            "title",
            "description",
            "enum",
            "items",
            "prefixItems",
            "minItems",
            "minimum",
            "maximum",
            "anyOf",
            "properties",
            "additionalProperties",
            "required",
        ];
        for keyword in schema.keys().filter(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
            self.add(place, &format!("the keyword `{keyword}`"));
        }
        if level > 6 {
            self.add(place, "nested deeper than six levels");
        }
        if types.iter().filter(|name| **name != "null").count() > 1 {
            self.add(place, "several types");
        }
        if schema.contains_key("anyOf") && schema.len() > 1 {
            self.add(place, "`anyOf` with siblings");
        }
        let values = schema.get("enum").and_then(Value::as_array);
        if !values
            .is_none_or(|values| values.iter().all(Value::is_string) || values.iter().all(Value::is_number))
        {
            self.add(place, "`enum` of other values than texts or numbers");
        }
        let declared = |name: &Value| {
            schema.get("properties").is_some_and(|all| all.get(name.as_str().unwrap_or("")).is_some())
        };
        if !schema.get("required").and_then(Value::as_array).is_none_or(|names| names.iter().all(declared)) {
            self.add(place, "`required` names a property that is not defined");
        }
    }

    fn strict(&mut self, schema: &Map<String, Value>, types: &[&str], place: &str, level: usize) {
        const REFUSED: [&str; 20] = [
            "allOf",
            "oneOf",
            "not",
            "if",
            "then",
            "else",
            "dependentRequired",
            "dependentSchemas",
            "minLength",
            "maxLength",
            "patternProperties",
            "unevaluatedProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "unevaluatedItems",
            "contains",
            "uniqueItems",
            "prefixItems",
            "examples",
        ];
        for keyword in REFUSED.iter().filter(|keyword| schema.contains_key(**keyword)) {
            self.add(place, &format!("`{keyword}` is not taken"));
        }
        if types.is_empty() && !schema.contains_key("anyOf") && !schema.contains_key("$ref") {
            self.add(place, "schema must have a 'type' key");
        }
        if schema.contains_key("$ref") && schema.len() > 1 {
            self.add(place, "$ref cannot have keywords");
        }
        if types.contains(&"object") {
            if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
                self.add(place, "'additionalProperties' is required to be false");
            }
            let names =
                schema.get("properties").and_then(Value::as_object).map(|all| all.keys().cloned().collect());
            let required: BTreeSet<String> = schema["required"]
                .as_array()
                .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default();
            let names: BTreeSet<String> = names.unwrap_or_default();
            if self.reader == Reader::OpenAiStrict && names != required || !required.is_subset(&names) {
                self.add(place, "'required' is to include every key in properties");
            }
        }
        if types.contains(&"array")
            && schema.get("items").and_then(Value::as_object).is_none_or(Map::is_empty)
        {
            self.add(place, "an array of anything");
        }
        self.strict_bounds(schema, place, level);
    }

    /// The keywords of bounds, of which the two strict forms take different ones.
    fn strict_bounds(&mut self, schema: &Map<String, Value>, place: &str, level: usize) {
        if self.reader == Reader::OpenAiStrict {
            for keyword in ["default", "minContains"].iter().filter(|keyword| schema.contains_key(**keyword))
            {
                self.add(place, &format!("'{keyword}' is not permitted"));
            }
            if level > 10 {
                self.add(place, "nested deeper than ten levels");
            }
        } else {
            for keyword in
                ["minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "maxItems"]
            {
                if schema.contains_key(keyword) {
                    self.add(place, &format!("`{keyword}` is not taken"));
                }
            }
            if schema.get("minItems").and_then(Value::as_u64).is_some_and(|least| least > 1) {
                self.add(place, "`minItems` above 1");
            }
        }
    }
}

fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(only)) => vec![only],
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
