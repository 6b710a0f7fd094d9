//! The description of a tool in a list: with its prerequisites, and with its examples where the provider has no field for
//! them (T1), within the provider's limit (M5).

use std::borrow::Cow;

use serde_json::Value;
use toolgate_admission::Advertised;
use toolgate_api::descriptor::Example;

use super::{Format, Listed};

/// Longest description that OpenAI takes (<https://platform.openai.com/docs/api-reference/chat/create>), in characters.
const OPENAI_CHARS: usize = 1_024;
/// Longest description with examples for other providers, in characters, since each request carries it.
const WITH_EXAMPLES_CHARS: usize = 4_096;
/// Most examples in a list. Further ones teach a model little.
const EXAMPLES: usize = 3;

/// A description for a provider.
pub(super) struct Description<'a> {
    pub text: Cow<'a, str>,
    /// The difference from the plugin's description, if it is shorter.
    pub change: Option<String>,
}

/// Writes the description of a tool. Toolgate's own format has fields for everything.
pub(super) fn write<'a>(format: Format, tool: &Listed<'a>, input: &Advertised) -> Description<'a> {
    let (limit, is_limited) = match format {
        Format::Toolgate => return Description { text: tool.description.into(), change: None },
        Format::Openai | Format::OpenaiResponses => (OPENAI_CHARS, true),
        Format::Anthropic | Format::Gemini | Format::Mcp => (WITH_EXAMPLES_CHARS, false),
    };
    let mut parts = Vec::new();
    if !tool.details.prerequisites.is_empty() {
        parts.push(format!("Before the first call: {}", tool.details.prerequisites.join("; ")));
    }
    if anthropic_examples(tool, input).is_empty() || format != Format::Anthropic {
        parts.extend(tool.details.examples.iter().take(EXAMPLES).map(example_text));
    }
    let mut text = Cow::Borrowed(tool.description);
    let mut chars = text.chars().count();
    if is_limited && chars > limit {
        let change = format!("shortened from {chars} to {limit} characters, which the provider takes");
        return Description { text: cut(&text, limit).into(), change: Some(change) };
    }
    for part in parts {
        let added = 2 + part.chars().count();
        if chars + added <= limit {
            chars += added;
            text.to_mut().push_str("\n\n");
            text.to_mut().push_str(&part);
        }
    }
    Description { text, change: None }
}

/// The examples for Anthropic's `input_examples`. Anthropic refuses a request with one that does not fit its schema, so there
/// are none where the schema is written in another way.
pub(super) fn anthropic_examples<'a>(tool: &Listed<'a>, input: &Advertised) -> Vec<&'a Value> {
    if input.strict.is_some() || !input.changes.is_empty() {
        return Vec::new();
    }
    let fits = |example: &&Example| tool.input.validate(&example.input).is_ok();
    tool.details.examples.iter().filter(fits).take(EXAMPLES).map(|example| &example.input).collect()
}

fn example_text(example: &Example) -> String {
    let label = example.description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
    let output = example.output.as_ref().map(|output| format!(" → {output}")).unwrap_or_default();
    format!("Example{label}: {}{output}", example.input)
}

/// Cuts a text to so many characters, at the end of a word where there is one.
fn cut(text: &str, chars: usize) -> String {
    let end = text.char_indices().nth(chars - 1).map_or(text.len(), |(at, _)| at);
    let cut = &text[..end];
    let word = cut.rfind(char::is_whitespace).filter(|at| *at > end / 2).unwrap_or(end);
    format!("{}…", cut[..word].trim_end())
}
