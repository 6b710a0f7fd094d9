//! Names of an author that could clash with generated code.

#![deny(warnings)]
#![forbid(unsafe_code)]

mod tools {
    #[allow(dead_code)]
    type Result = ();
    #[allow(dead_code)]
    type Option = ();
    #[allow(dead_code)]
    struct String;

    /// Calls itself by the words of Rust.
    #[toolgate_sdk::tool(name = "kind", tags("type"))]
    pub(crate) fn r#type(
        /// A word of Rust
        r#match: u8,
        /// Named as what the generated code uses
        context: u8,
        /// Named as what the generated code uses
        arguments: u8,
        /// The context, in the middle
        mut tool: u8,
        this: &toolgate_sdk::Context,
        /// Named as the function
        r#type: u8,
    ) -> u8 {
        let _ = this.call_id();
        tool += r#match + context + arguments;
        tool + r#type
    }

    /// Says nothing.
    #[toolgate_sdk::tool]
    pub(crate) fn call() {}
}

toolgate_sdk::plugin!("clash", tools::r#type, tools::call);

fn main() {
    let context = toolgate_sdk::testing::context().build();
    let arguments = toolgate_sdk::serde_json::json!({"match": 1, "context": 1, "arguments": 1, "tool": 1, "type": 1});
    assert_eq!(toolgate_sdk::testing::call::<tools::r#type>(&context, arguments), Ok(5.into()));
}
