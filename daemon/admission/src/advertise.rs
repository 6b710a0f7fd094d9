//! The schema of a tool as a provider accepts it (M5).
//!
//! A provider refuses the whole request for one schema with a keyword that it does not take, so one tool would take all
//! others away. [`advertise`] writes a schema in the form of a provider, at every level, and names each change. Arguments are
//! still validated against the enforced schema.
//!
//! The steps: `root.rs` makes one object of a root with alternatives, `normal.rs` translates to JSON Schema 2020-12 and
//! completes what every provider demands, `gemini.rs` and `strict.rs` restrict the result to the subsets that Gemini, and the
//! strict forms of OpenAI and Anthropic, take. `names.rs` renames properties, and maps the names of a call back.

mod root;
mod names;
mod normal;
mod gemini;
mod strict;
mod notes;

use std::sync::OnceLock;

use serde_json::Value;
use serde_json::value::RawValue;

pub use names::PropertyNames;
pub use notes::SchemaChange;

use names::NameRule;
use normal::Normalized;
use notes::Notes;
use strict::StrictRules;

/// Longest advertised schema as JSON text, as for enforced ones. Definitions that are written out at each use can multiply.
const ADVERTISED_BYTES: usize = 256 * 1024;

/// The form of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaForm {
    /// The enforced schema.
    Enforced,
    /// Function parameters of OpenAI.
    OpenAi,
    /// The same with `strict`, where the schema can be said in it.
    OpenAiStrict,
    /// An input schema of Anthropic.
    Anthropic,
    /// The same with `strict`, where the schema can be said in it.
    AnthropicStrict,
    /// `parametersJsonSchema` of Gemini.
    Gemini,
    /// An `inputSchema` of the Model Context Protocol.
    McpInput,
    /// An `outputSchema` of it.
    McpOutput,
}

impl SchemaForm {
    const COUNT: usize = 8;

    /// The names of properties that the provider takes. Clients of MCP give the schemas to their provider as they are.
    fn names(self) -> NameRule {
        match self {
            Self::Enforced | Self::OpenAi | Self::OpenAiStrict | Self::McpOutput => NameRule::Any,
            Self::Anthropic | Self::AnthropicStrict | Self::McpInput => NameRule::Anthropic,
            Self::Gemini => NameRule::Gemini,
        }
    }

    /// Whether the root must be one object without alternatives.
    fn has_plain_root(self) -> bool {
        !matches!(self, Self::Enforced | Self::McpInput | Self::McpOutput)
    }

    fn strict(self) -> Option<&'static StrictRules> {
        match self {
            Self::OpenAiStrict => Some(&strict::OPENAI),
            Self::AnthropicStrict => Some(&strict::ANTHROPIC),
            _ => None,
        }
    }
}

/// A schema in the form of a provider.
#[derive(Debug)]
pub struct Advertised {
    /// The schema as JSON text.
    pub json: Box<RawValue>,
    /// Its cost under `strict`, if it is in a strict form.
    pub strict: Option<StrictCost>,
    /// The differences from the enforced schema.
    pub changes: Vec<SchemaChange>,
}

/// The count of a strict schema against the limits of a request to Anthropic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrictCost {
    /// Optional properties.
    pub optional: usize,
    /// Schemas with alternatives or several types.
    pub unions: usize,
}

/// Writes a schema in the form of a provider. The error says why the tool cannot be advertised.
pub fn advertise(schema: &Value, form: SchemaForm) -> Result<Advertised, String> {
    let mut notes = Notes::default();
    if form == SchemaForm::Enforced {
        let json = serde_json::value::to_raw_value(schema).map_err(|error| error.to_string())?;
        return Ok(Advertised { json, strict: None, changes: Vec::new() });
    }
    let Normalized { schema: normal, has_plain_root } = normal::normalize(schema, form, &mut notes)?;
    let mut cost = None;
    let written = match form.strict() {
        _ if form == SchemaForm::Gemini => gemini::restrict(normal, &mut notes),
        None => normal,
        Some(rules) => {
            let mut strict_notes = notes.clone();
            match strict::restrict(&normal, has_plain_root, rules, &mut strict_notes) {
                Ok((strict, strict_cost)) => {
                    (notes, cost) = (strict_notes, Some(strict_cost));
                    strict
                }
                Err(refusal) => {
                    notes.add_first(refusal.pointer, format!("not strict: {}", refusal.reason));
                    normal
                }
            }
        }
    };
    let json = serde_json::value::to_raw_value(&written).map_err(|error| error.to_string())?;
    match json.get().len() {
        bytes if bytes > ADVERTISED_BYTES => Err(format!(
            "its schema has {bytes} bytes in this form, more than the {ADVERTISED_BYTES} allowed: describe less in it"
        )),
        _ => Ok(Advertised { json, strict: cost, changes: notes.into_changes() }),
    }
}

/// The forms of one schema, each written when it is first asked for or all are written ahead.
#[derive(Debug, Default)]
pub(crate) struct AdvertisedForms([OnceLock<Result<Advertised, String>>; SchemaForm::COUNT]);

impl AdvertisedForms {
    /// Returns the schema in the form.
    pub(crate) fn get(&self, schema: &Value, form: SchemaForm) -> Result<&Advertised, &str> {
        // `SchemaForm` has no more variants than the array has places.
        let Some(written) = self.0.get(form as usize) else { return Err("the form is not known") };
        written.get_or_init(|| advertise(schema, form)).as_ref().map_err(String::as_str)
    }
}

#[cfg(test)]
pub(crate) mod provider_rules;
#[cfg(test)]
mod tests;
