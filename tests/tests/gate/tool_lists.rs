//! Tool lists against the published rules of providers (M5).

#[path = "../../../daemon/admission/src/advertise/provider_rules.rs"]
mod provider_rules;

use provider_rules::{Reader, broken_rules};
use toolgate_tests::{PluginFile, Session, Value, json};

use crate::with_fixture;

/// Each list with its query, the reader of its schemas, and the reader of the schemas that it marks as strict.
const LISTS: [(&str, Reader, Reader); 8] = [
    ("openai", Reader::OpenAi, Reader::OpenAi),
    ("openai_responses", Reader::OpenAi, Reader::OpenAi),
    ("anthropic", Reader::Anthropic, Reader::Anthropic),
    ("gemini", Reader::Gemini, Reader::Gemini),
    ("mcp", Reader::Mcp, Reader::Mcp),
    ("openai&strict=true", Reader::OpenAi, Reader::OpenAiStrict),
    ("openai_responses&strict=true", Reader::OpenAi, Reader::OpenAiStrict),
    ("anthropic&strict=true", Reader::Anthropic, Reader::AnthropicStrict),
];

fn list(session: &Session, query: &str) -> Value {
    session.client.get(&session.path(&format!("/tools?format={query}"))).expect(200).json()
}

/// The names, schemas and strictness of a list.
fn entries(list: &Value) -> Vec<(String, Value, bool)> {
    let tools = list["tools"].as_array().expect("a list");
    let declared = tools.iter().flat_map(|tool| match &tool["functionDeclarations"] {
        Value::Array(declared) => declared.clone(),
        _ => vec![tool.clone()],
    });
    let entry = |tool: Value| {
        let tool = if tool["function"].is_object() { tool["function"].clone() } else { tool };
        let schemas = ["parameters", "input_schema", "parametersJsonSchema", "inputSchema"];
        let schema = schemas.iter().find_map(|name| tool.get(name)).expect("a schema").clone();
        (tool["name"].as_str().expect("a name").to_owned(), schema, tool["strict"] == true)
    };
    declared.map(entry).collect()
}

#[test]
fn m5_the_built_in_tools_fit_every_provider() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*"}));
        let count = agent.session.client.get(&agent.session.path("/tools")).expect(200).json()["tools"]
            .as_array()
            .map(Vec::len);
        for (query, reader, strict_reader) in LISTS {
            let listed = list(&agent.session, query);
            assert_eq!(listed["left_out"], json!([]), "{query}");
            let entries = entries(&listed);
            assert_eq!(Some(entries.len()), count, "{query}");
            for (name, schema, is_strict) in &entries {
                let reader = if *is_strict { strict_reader } else { reader };
                assert_eq!(broken_rules(reader, schema), Vec::<String>::new(), "{query}: {name}: {schema}");
                // Each tool is strict, or the list says why not.
                let is_told = listed["changed"].as_array().expect("changes").iter().any(|change| {
                    change["tool"] == name.as_str()
                        && change["change"].as_str().is_some_and(|text| text.starts_with("not strict: "))
                });
                assert_eq!(query.contains("strict") && !is_strict, is_told, "{query}: {name}");
            }
            if query.contains("strict") {
                assert!(entries.iter().any(|(_, _, is_strict)| *is_strict), "{query}");
            }
        }
        // A format without a strict form ignores it.
        let gemini = |query: &str| agent.session.client.get(&agent.session.path(query)).expect(200).json();
        assert_eq!(gemini("/tools?format=gemini&strict=true"), gemini("/tools?format=gemini"));
    });
}

/// A tool as foreign servers describe them.
fn odd() -> Vec<u8> {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "$top": {"type": "integer"}, "Account Number": {"type": "string"}, "pages": {"type": "array"},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}, "none": {"enum": []},
        },
        "required": ["$top"],
    });
    let tool = json!({
        "name": "list", "description": "Lists.", "usage": "Call it.", "input_schema": schema,
        "output_schema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        "hints": {"read_only": true}, "redact": ["/Account Number"],
    });
    let description =
        json!({"name": "odd", "version": "1.0.0", "publisher": "Toolgate tests", "tools": [tool]});
    PluginFile::of(description).with_result("{}").build()
}

#[test]
fn m5_a_call_by_the_listed_names_reaches_the_tool_with_its_own() {
    with_fixture(|fixture| {
        fixture.operator.load("odd", &odd());
        let agent = fixture.agent(&json!({"enabled": ["odd/*"], "autonomy": "autonomous"}));
        for (query, reader, _) in LISTS {
            let (_, schema, _) = entries(&list(&agent.session, query)).remove(0);
            assert_eq!(broken_rules(reader, &schema), Vec::<String>::new(), "{query}: {schema}");
        }
        let mcp = list(&agent.session, "mcp");
        assert_eq!(mcp["tools"][0]["outputSchema"], json!({"type": "object"}));
        let listed = list(&agent.session, "anthropic");
        assert_eq!(listed["tools"][0]["input_schema"]["required"], json!(["top"]));
        assert!(listed["changed"].to_string().contains("renamed from `$top`"), "{listed}");

        let input = json!({"top": 3, "Account_Number": "secret"});
        let called = [
            json!({"anthropic": [{"type": "tool_use", "id": "a", "name": "call_odd_list", "input": input}]}),
            json!({"gemini": [{"functionCall": {"id": "g", "name": "call_odd_list", "args": input}}]}),
            json!({"calls": [{"id": "c", "tool": "odd/list", "arguments": input}]}),
            json!({"calls": [{"id": "o", "tool": "odd/list", "arguments": {"$top": 3, "Account Number": "secret"}}]}),
        ];
        for body in &called {
            let answer = agent.session.post(body).expect(200).json();
            let states = if body["calls"].is_array() { &answer["results"] } else { &answer["calls"] };
            assert_eq!(states[0]["status"], "ok", "{answer}");
            let call = &agent.owner.audit("kind=call&limit=1")[0]["call"];
            assert_eq!(call["arguments"], json!({"$top": 3, "Account Number": "[redacted]"}), "{call}");
        }
        // A value under the listed name is validated by the tool's own schema.
        agent.session.call("odd/list", json!({"top": "3"})).expect_error("INVALID_ARGUMENTS");
    });
}

#[test]
fn m5_a_custom_tool_with_a_refused_argument_name_is_saved_with_a_warning() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*"}));
        let saved = |name: &str, namespace: &str| {
            let definition = json!({
                "description": "Apps.", "base_url": "https://api.example.com",
                "actions": [{"name": "list", "description": "Lists.", "method": "GET", "path": "/apps",
                    "input_schema": {"type": "object", "properties": {name: {"type": "string"}}}}],
            });
            let path = format!("/v1/orgs/{}/tools/{namespace}", agent.organization);
            agent.owner.make(&path, &definition).expect(201).json()["warnings"].to_string()
        };
        let warned = saved("filter[status]", "apps");
        assert!(warned.contains("REFUSED_NAME") && warned.contains("filter[status]"), "{warned}");
        assert!(!saved("status", "plain").contains("REFUSED_NAME"));
    });
}

#[test]
fn m5_a_model_finds_deferred_tools_by_a_call_like_any_other() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*"}));
        let session = &agent.session;
        let call = |body: &Value| session.client.post(&session.path("/calls"), body).expect(200).json();

        let deferred = list(session, "anthropic&deferred=true");
        let names: Vec<_> =
            deferred["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names.first(), Some(&&json!("find_tool")));
        let blocks = json!([
            {"type": "tool_use", "id": "t1", "name": "find_tool", "input": {"query": "parse a CSV table"}},
            {"type": "tool_use", "id": "t2", "name": "call_arithmetic_evaluate", "input": {"expression": "6*7"}},
            {"type": "tool_use", "id": "t3", "name": "find_tool", "input": {"words": "csv"}},
        ]);
        let answer = call(&json!({"anthropic": blocks}));
        let [found, computed, refused] = answer["anthropic"].as_array().expect("a list").as_slice() else {
            panic!("three results: {answer}")
        };
        assert_eq!((&found["tool_use_id"], &refused["is_error"]), (&json!("t1"), &json!(true)));
        let reference = json!({"type": "tool_reference", "tool_name": "call_text_csv_parse"});
        assert!(found["content"].as_array().expect("references").contains(&reference), "{found}");
        assert!(names.contains(&&reference["tool_name"]));
        assert!(computed["content"].as_str().expect("a text").contains("42"), "{computed}");

        let deferred = list(session, "openai_responses&deferred=true");
        assert_eq!(deferred["tools"][0]["type"], "tool_search");
        assert!(!deferred["tools"].to_string().contains("call_text_csv_parse"));
        let search = json!({
            "type": "tool_search_call", "call_id": "s1", "execution": "client", "status": "completed",
            "arguments": {"query": "parse a CSV table"},
        });
        let answer = call(&json!({"openai_responses": [search]}));
        let output = &answer["openai_responses"][0];
        assert_eq!((&output["type"], &output["call_id"]), (&json!("tool_search_output"), &json!("s1")));
        let found = output["tools"].as_array().expect("tools");
        let csv = found.iter().find(|tool| tool["name"] == "call_text_csv_parse").expect("the tool");
        assert_eq!((&csv["type"], &csv["defer_loading"]), (&json!("function"), &json!(true)));
        assert!(csv["parameters"].is_object());
        // OpenAI's own search is not performed here.
        let hosted =
            json!({"type": "tool_search_call", "execution": "server", "call_id": null, "arguments": {}});
        session.client.post(&session.path("/calls"), &json!({"openai_responses": [hosted]})).expect(400);
    });
}
