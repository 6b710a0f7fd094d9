//! Plugins made from definitions, in native tests.

use std::marker::PhantomData;

use serde_json::{Value, json};

use crate::{Context, Defined, Error};

/// Makes a plugin from a definition, as the daemon does when it loads one.
///
/// `definition` is the complete definition that [`Defined::describe`] reads.
///
/// ```
/// use serde_json::{Value, json};
/// use toolgate_sdk::{Context, Defined, Error, testing};
///
/// struct Greetings;
///
/// impl Defined for Greetings {
///     fn describe(definition: &str) -> Result<Value, Error> {
///         let words: Vec<String> = serde_json::from_str(definition)?;
///         let tool = |word: String| json!({"name": word, "definition": word});
///         Ok(json!({"name": "greetings", "tools": words.into_iter().map(tool).collect::<Vec<_>>()}))
///     }
///
///     fn call(_tool: &str, word: &str, context: &Context, _arguments: &str) -> Result<Value, Error> {
///         Ok(json!(format!("{word}, {}!", context.user().unwrap_or_default())))
///     }
/// }
///
/// let plugin = testing::defined::<Greetings>(&json!(["hello", "bye"])).unwrap();
/// assert_eq!(plugin.description()["tools"][1]["name"], "bye");
/// let context = testing::context().user("Ada").build();
/// assert_eq!(plugin.call(&context, "hello", &json!({})), Ok(json!("\"hello\", Ada!")));
/// ```
pub fn defined<D: Defined>(definition: &Value) -> Result<DefinedPlugin<D>, Error> {
    let description = D::describe(&definition.to_string())?;
    Ok(DefinedPlugin { description, component: PhantomData })
}

/// A plugin made from a definition.
#[derive(Debug)]
pub struct DefinedPlugin<D> {
    description: Value,
    component: PhantomData<D>,
}

impl<D: Defined> DefinedPlugin<D> {
    /// Returns the result of `describe`.
    pub fn description(&self) -> &Value {
        &self.description
    }

    /// Returns the description of a tool; null if there is none of this name.
    pub fn tool(&self, name: &str) -> &Value {
        let tools = self.description["tools"].as_array();
        tools.and_then(|tools| tools.iter().find(|tool| tool["name"] == name)).unwrap_or(&Value::Null)
    }

    /// Calls a tool with the definition that `describe` attached to it.
    pub fn call(&self, context: &Context, tool: &str, arguments: &Value) -> Result<Value, Error> {
        self.call_text(context, tool, &arguments.to_string())
    }

    /// Calls a tool with arguments as JSON text.
    pub fn call_text(&self, context: &Context, tool: &str, arguments: &str) -> Result<Value, Error> {
        match self.tool(tool) {
            Value::Null => {
                Err(Error::new(format!("plugin {} has no tool `{tool}`", json!(self.description["name"]))))
            }
            tool_description => {
                D::call(tool, &tool_description["definition"].to_string(), context, arguments)
            }
        }
    }
}
