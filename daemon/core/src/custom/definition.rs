//! The fields of a definition that the daemon itself parses. The built-in component that builds the plugin parses the
//! rest, and reports errors with their JSON pointer.

use std::borrow::Cow;

use serde_json::Value;
use toolgate_api::definition::DefinitionKind;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::json::parse_strict;
use toolgate_api::read::read;

/// Depth limit of a definition: a schema may nest 32 subschemas, at two levels each.
const DEPTH: u64 = 96;

/// Fields that identify the server and its mounted tools.
const OF_THE_SERVER: [&str; 3] = ["url", "protocol", "tools"];

/// The parsed part of a definition.
pub(super) struct ParsedDefinition<'a> {
    pub kind: DefinitionKind,
    pub text: Cow<'a, str>,
    /// Whether requests tell the service the trace of their call. The component reports another value than a Boolean.
    pub trace_context: bool,
    server: [Value; 3],
}

impl<'a> ParsedDefinition<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, CallError> {
        let value = parse_strict(text, DEPTH)
            .map_err(|error| wrong(&error.pointer, error.to_string(), "send one JSON object".to_owned()))?;
        if !value.is_object() {
            return Err(wrong("", "a definition is one JSON object".to_owned(), "send `{…}`".to_owned()));
        }
        let kind: Option<DefinitionKind> = read(value.get("kind").unwrap_or(&Value::Null))
            .map_err(|error| wrong("/kind", error.message, error.hint))?;
        let server = OF_THE_SERVER.map(|name| value.get(name).cloned().unwrap_or_default());
        let trace_context = value.get("trace_context").and_then(Value::as_bool).unwrap_or_default();
        Ok(Self { kind: kind.unwrap_or_default(), text: text.into(), trace_context, server })
    }

    pub(super) fn into_owned(self) -> ParsedDefinition<'static> {
        let Self { kind, text, trace_context, server } = self;
        ParsedDefinition { kind, text: text.into_owned().into(), trace_context, server }
    }

    /// Whether both definitions mount the same tools of the same server.
    pub(super) fn mounts_the_same_as(&self, other: &ParsedDefinition<'_>) -> bool {
        self.kind == DefinitionKind::Mcp && other.kind == DefinitionKind::Mcp && self.server == other.server
    }
}

fn wrong(pointer: &str, message: String, hint: String) -> CallError {
    CallError::new(ErrorType::InvalidPolicy, message, hint).with_pointer(pointer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> ParsedDefinition<'_> {
        ParsedDefinition::parse(text).expect("a definition")
    }

    #[test]
    fn c1_a_definition_is_of_an_api_unless_it_says_otherwise() {
        assert_eq!(parse("{}").kind, DefinitionKind::Http);
        assert_eq!(parse(r#"{"kind":null}"#).kind, DefinitionKind::Http);
        assert_eq!(parse(r#"{"kind":"http"}"#).kind, DefinitionKind::Http);
        assert_eq!(parse(r#"{"kind":"mcp"}"#).kind, DefinitionKind::Mcp);
    }

    #[test]
    fn o5_a_service_is_told_the_trace_where_the_definition_says_so() {
        assert!(!parse("{}").trace_context);
        assert!(!parse(r#"{"trace_context":null}"#).trace_context);
        assert!(parse(r#"{"trace_context":true}"#).trace_context);
    }

    #[test]
    fn c1_what_is_no_definition_is_refused_with_its_place() {
        for (text, pointer) in [
            ("[]", ""),
            ("{", ""),
            (r#"{"kind":"mpc"}"#, "/kind"),
            (r#"{"kind":5}"#, "/kind"),
            (r#"{"a":1,"a":2}"#, "/a"),
        ] {
            let error = ParsedDefinition::parse(text).err().expect("no definition");
            assert_eq!(error.error_type, ErrorType::InvalidPolicy);
            assert_eq!(error.details_json(), Some(json!({"pointer": pointer})), "{text}");
        }
    }

    #[test]
    fn m4_the_same_server_is_the_same_address_protocol_and_tools() {
        let before = parse(r#"{"kind":"mcp","url":"https://a.example/mcp","description":"a"}"#);
        for (text, same) in [
            (r#"{"kind":"mcp","url":"https://a.example/mcp","description":"b"}"#, true),
            (r#"{"kind":"mcp","url":"https://b.example/mcp","description":"a"}"#, false),
            (r#"{"kind":"mcp","url":"https://a.example/mcp","tools":["x"]}"#, false),
            (r#"{"kind":"http","url":"https://a.example/mcp"}"#, false),
        ] {
            assert_eq!(before.mounts_the_same_as(&parse(text)), same, "{text}");
        }
    }
}
