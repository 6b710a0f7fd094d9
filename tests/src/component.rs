//! Plugin files made by hand, with faults that no compiler would produce.
//!
//! A [`PluginFile`] is a small, complete plugin in WebAssembly text. It returns one constant from `describe` and
//! another from `call`; a test inserts the fault as text.

use serde_json::{Value, json};

/// Builder of a plugin file.
#[derive(Clone, Debug)]
pub struct PluginFile {
    description: Value,
    answer: String,
    /// Text in front of the component: imports, further modules.
    outer: String,
    /// Text inside the core module: memories, tables, a start function.
    inner: String,
    /// Bytes of memory for arguments.
    argument_bytes: usize,
    /// Body of `call` that replaces the constant result.
    body: Option<String>,
}

impl PluginFile {
    /// Plugin with one tool, `answer`, that takes no arguments and returns `1`.
    pub fn new(namespace: &str) -> Self {
        let tool = json!({
            "name": "answer",
            "description": "Answers.",
            "usage": "Call it.",
            "input_schema": {"type": "object", "properties": {}, "additionalProperties": false},
        });
        Self::of(
            json!({"name": namespace, "version": "1.0.0", "publisher": "Toolgate tests", "purpose": "Answers.", "tools": [tool]}),
        )
    }

    /// Plugin with this descriptor, whose tools all return `1`.
    pub fn of(description: Value) -> Self {
        Self {
            description,
            answer: "1".into(),
            outer: String::new(),
            inner: String::new(),
            argument_bytes: 60 * 1024,
            body: None,
        }
    }

    /// Sets a member of the descriptor.
    pub fn with_member(mut self, member: &str, value: Value) -> Self {
        self.description[member] = value;
        self
    }

    /// Sets a member of the first tool.
    pub fn with_tool(mut self, member: &str, value: Value) -> Self {
        self.description["tools"][0][member] = value;
        self
    }

    /// Sets the result of `call`, valid JSON or not.
    pub fn with_result(mut self, answer: &str) -> Self {
        self.answer = answer.into();
        self
    }

    /// Adds text to the component.
    pub fn with_outer(mut self, text: &str) -> Self {
        self.outer += text;
        self
    }

    /// Adds text to the core module.
    pub fn with_inner(mut self, text: &str) -> Self {
        self.inner += text;
        self
    }

    /// Sets the bytes of memory for arguments.
    pub fn with_argument_bytes(mut self, bytes: usize) -> Self {
        self.argument_bytes = bytes;
        self
    }

    /// Replaces the body of `call` with instructions that leave the address of a result.
    pub fn with_call(mut self, body: &str) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Returns the component as a binary.
    pub fn build(&self) -> Vec<u8> {
        assemble(&self.text())
    }

    /// Returns the component as text.
    pub fn text(&self) -> String {
        let description = self.description.to_string();
        let answer_at = DATA_AT + description.len();
        let answers = format!(
            "(i32.store8 (i32.const 0) (i32.const 0)) (i32.store8 (i32.const 4) (i32.const 0))
             (i32.store (i32.const 8) (i32.const {answer_at})) (i32.store (i32.const 12) (i32.const {}))
             (i32.const 0)",
            self.answer.len()
        );
        let arguments_at = (answer_at + self.answer.len()).next_multiple_of(8);
        let pages = (arguments_at + self.argument_bytes) / 65_536 + 1;
        TEMPLATE
            .replace("{outer}", &self.outer)
            .replace("{inner}", &self.inner)
            .replace("{pages}", &pages.to_string())
            .replace("{describe_length}", &description.len().to_string())
            .replace("{arguments_at}", &arguments_at.to_string())
            .replace("{data_at}", &DATA_AT.to_string())
            .replace("{call}", self.body.as_deref().unwrap_or(&answers))
            .replace("{data}", &escape(&(description + &self.answer)))
    }
}

/// Assembles WebAssembly text.
pub fn assemble(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Address of the constants. Results are written below, arguments behind.
const DATA_AT: usize = 4096;

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("\\{byte:02x}")).collect()
}

const TEMPLATE: &str = r#"
(component
  {outer}
  (core module $plugin
    (memory (export "memory") {pages})
    (data (i32.const {data_at}) "{data}")
    ;; All arguments are written to the same address, since they are never read.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const {arguments_at}))
    (func (export "describe") (result i32)
      (i32.store8 (i32.const 0) (i32.const 0))
      (i32.store (i32.const 4) (i32.const {data_at}))
      (i32.store (i32.const 8) (i32.const {describe_length}))
      (i32.const 0))
    (func (export "call") (param i32 i32 i32 i32) (result i32) {call})
    {inner})
  (core instance $plugin (instantiate $plugin))
  (type $failure (record
    (field "code" string) (field "message" string) (field "retryable" bool) (field "details" (option string))))
  (type $outcome (variant (case "output" string) (case "client" string)))
  (func $describe (result (result string (error $failure)))
    (canon lift (core func $plugin "describe") (memory (core memory $plugin "memory"))
      (realloc (core func $plugin "realloc"))))
  (func $call (param "tool" string) (param "arguments" string) (result (result $outcome (error $failure)))
    (canon lift (core func $plugin "call") (memory (core memory $plugin "memory"))
      (realloc (core func $plugin "realloc"))))
  (component $tools
    (type $failure-form (record
      (field "code" string) (field "message" string) (field "retryable" bool) (field "details" (option string))))
    (import "import-failure" (type $failure (eq $failure-form)))
    (type $outcome-form (variant (case "output" string) (case "client" string)))
    (import "import-outcome" (type $outcome (eq $outcome-form)))
    (import "import-describe" (func $describe (result (result string (error $failure)))))
    (import "import-call"
      (func $call (param "tool" string) (param "arguments" string) (result (result $outcome (error $failure)))))
    (export $shown-failure "failure" (type $failure))
    (export $shown-outcome "outcome" (type $outcome))
    (export "describe" (func $describe) (func (result (result string (error $shown-failure)))))
    (export "call" (func $call)
      (func (param "tool" string) (param "arguments" string) (result (result $shown-outcome (error $shown-failure))))))
  (instance $tools (instantiate $tools
    (with "import-failure" (type $failure))
    (with "import-outcome" (type $outcome))
    (with "import-describe" (func $describe))
    (with "import-call" (func $call))))
  (export "toolgate:plugin/tools@0.1.0" (instance $tools)))
"#;
