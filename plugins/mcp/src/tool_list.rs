//! The tools that a server offers, as they can be mounted: sorted, cleaned, bounded.
//!
//! The offer depends on the server's words alone, and not on their order, so that a change can be seen by comparing two
//! discoveries. Tools that cannot be mounted stand in it with the reason.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use toolgate_api::definition::{Protocol, TOOL_NAME_CHARS};
use toolgate_api::text::hidden_character;
use toolgate_sdk::serde_json::{self, Map, Value, json};

use crate::describe::Part;
use crate::header_params;
use crate::schema::{self, Sound};
use crate::text::{clean, display};

/// Most tools of one plugin.
const TOOLS: usize = 1_000;
/// Most bytes of the plugin's description, as JSON text: the daemon takes 4 MiB.
const DESCRIBED_BYTES: usize = 3_800_000;
/// Bytes around the texts and schemas of one tool in it.
const FRAME_BYTES: usize = 600;
/// Subschemas of all tools together: the daemon takes 100,000, references replaced.
const SUBSCHEMAS: usize = 90_000;
/// Longest description of a tool, in characters: what the daemon takes as its usage.
const DESCRIPTION_CHARS: usize = 16_384;
/// Longest title, and the names of the server, in characters.
const TITLE_CHARS: usize = 200;
/// Longest instructions, in characters. They are for the owner to read.
const INSTRUCTIONS_CHARS: usize = 16_384;

/// The result of a discovery, as a description needs it.
#[derive(Deserialize)]
pub struct Discovered {
    pub protocol: Protocol,
    #[serde(default)]
    pub sse: bool,
    pub tools: Vec<Tool>,
}

/// A tool as its server describes it, cleaned.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
}

/// The schema of what `discover` answers.
pub fn output_schema() -> Value {
    json!({"type": "object", "required": ["protocol", "tools", "left_out"]})
}

/// Sorts what a server listed, by name, into what can be mounted and what cannot. `note` is about the list itself.
pub fn sort(
    part: &Part,
    protocol: Protocol,
    listed: Vec<Value>,
    said: &Value,
    note: Option<String>,
) -> Value {
    let mut listed: Vec<(String, Value)> = listed.into_iter().map(|tool| (own_name(&tool), tool)).collect();
    // A name that is listed twice has the same tool in every order.
    let text = |tool: &Value| tool.to_string();
    listed.sort_by(|(left, one), (right, other)| left.cmp(right).then_with(|| text(one).cmp(&text(other))));
    let names: BTreeSet<String> = listed.iter().map(|(name, _)| name.clone()).collect();
    let is_wanted = |name: &String| part.only.as_ref().is_none_or(|only| only.contains(name));
    let wanted = names.iter().filter(|name| is_wanted(name)).map(String::as_str);
    let colliding = toolgate_api::name::name_collisions(wanted);
    let mut offer = Offer {
        part,
        protocol,
        used: UsedLimits::default(),
        tools: Vec::new(),
        left_out: Vec::new(),
        simplified: note.map(|what| Simplified { name: "tools/list".to_owned(), what }).into_iter().collect(),
    };
    let mut before = None;
    for (name, tool) in listed.into_iter().filter(|(name, _)| is_wanted(name)) {
        let taken = match (before.as_ref() == Some(&name), colliding.get(name.as_str())) {
            (true, _) => Err("the server lists it twice".to_owned()),
            (false, Some(ours)) => {
                Err(format!("it and another tool of the server would both be `{ours}` here"))
            }
            (false, None) => offer.take(&name, tool),
        };
        if let Err(why) = taken {
            offer.left_out.push(LeftOut { name: display(&name, TOOL_NAME_CHARS), why });
        }
        before = Some(name);
    }
    let missing = part.only.iter().flatten().filter(|wanted| !names.contains(*wanted));
    let why = "the server does not list it";
    offer.left_out.extend(missing.map(|name| LeftOut { name: name.clone(), why: why.to_owned() }));
    offer.into_value(said)
}

/// An offer while it is put together.
struct Offer<'a> {
    part: &'a Part,
    protocol: Protocol,
    used: UsedLimits,
    tools: Vec<Value>,
    left_out: Vec<LeftOut>,
    simplified: Vec<Simplified>,
}

/// A tool that cannot be mounted.
#[derive(Serialize)]
struct LeftOut {
    name: String,
    why: String,
}

/// The parts that were removed from a schema.
#[derive(Serialize)]
struct Simplified {
    name: String,
    what: String,
}

impl Offer<'_> {
    fn take(&mut self, name: &str, mut listed: Value) -> Result<(), String> {
        check_name(name)?;
        if listed.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required") {
            return Err("it runs only as a task, which is not supported".to_owned());
        }
        let mut field = |name: &str| listed.get_mut(name).map(Value::take).unwrap_or_default();
        let input = schema::input(field("inputSchema"))?;
        if self.protocol == Protocol::Stateless {
            header_params::read(&input.schema)?;
        }
        let mut changes = input.changes.clone();
        let output = sound_output(field("outputSchema"), &mut changes);
        let texts = [("title", TITLE_CHARS), ("description", DESCRIPTION_CHARS)]
            .map(|(name, most_chars)| (name, clean(field(name).as_str().unwrap_or_default(), most_chars)));
        let hints = hints(&field("annotations"));
        self.used.take(self.part, name, &texts, &input, output.as_ref())?;

        let mut tool =
            Map::from_iter([("name".to_owned(), name.into()), ("inputSchema".to_owned(), input.schema)]);
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
        tool.extend(texts);
        tool.extend(output.map(|output| ("outputSchema".to_owned(), output.schema)));
        tool.extend(hints.map(|hints| ("annotations".to_owned(), hints.into())));
        self.tools.push(tool.into());
        self.simplified.extend(changes.into_iter().map(|what| Simplified { name: name.to_owned(), what }));
        Ok(())
    }

    fn into_value(self, said: &Value) -> Value {
        let mut offer = json!({
            "protocol": self.protocol, "server": server(said), "left_out": self.left_out, "simplified": self.simplified,
        });
        if let Some(text) = text(said.get("instructions"), INSTRUCTIONS_CHARS) {
            offer["instructions"] = text.into();
        }
        offer["tools"] = self.tools.into();
        offer
    }
}

/// The limits of one plugin that its tools use so far.
#[derive(Default)]
struct UsedLimits {
    tools: usize,
    bytes: usize,
    subschemas: usize,
}

impl UsedLimits {
    fn take(
        &mut self,
        part: &Part,
        name: &str,
        texts: &[(&str, Option<String>)],
        input: &Sound,
        output: Option<&Sound>,
    ) -> Result<(), String> {
        let texts = texts.iter().filter_map(|(_, text)| text.as_deref());
        // A description is the usage too; a title is a tag, and may stand for it.
        let bytes = texts.map(|text| 2 * json_bytes(text)).sum::<usize>()
            + 2 * json_bytes(name)
            + json_bytes(part)
            + FRAME_BYTES
            + input.bytes
            + output.map_or(0, |output| output.bytes);
        let subschemas = input.subschemas + output.map_or(0, |output| output.subschemas);
        let next = Self {
            tools: self.tools + 1,
            bytes: self.bytes + bytes,
            subschemas: self.subschemas + subschemas,
        };
        if next.tools > TOOLS || next.bytes > DESCRIBED_BYTES || next.subschemas > SUBSCHEMAS {
            return Err("the tools before it fill the plugin: name those to mount in `tools`".to_owned());
        }
        *self = next;
        Ok(())
    }
}

fn json_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    serde_json::to_string(value).map_or(usize::MAX / 16, |text| text.len())
}

fn own_name(tool: &Value) -> String {
    tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("it has no name".to_owned());
    }
    if name.chars().count() > TOOL_NAME_CHARS {
        return Err(format!("its name has more than {TOOL_NAME_CHARS} characters"));
    }
    match hidden_character(name).is_some() || name.contains(['\n', '\t']) {
        true => Err("its name has invisible characters".to_owned()),
        false => Ok(()),
    }
}

/// A tool is as good without the schema of its result: then it gives any.
fn sound_output(schema: Value, changes: &mut Vec<String>) -> Option<Sound> {
    match schema {
        Value::Null => None,
        schema => match schema::output(schema) {
            Ok(sound) => {
                changes.extend(sound.changes.iter().cloned());
                Some(sound)
            }
            Err(why) => {
                changes.push(format!("the output schema is left out: {why}"));
                None
            }
        },
    }
}

/// The server's own word about what its tool does. It is for the owner to read: nothing here goes by it.
fn hints(annotations: &Value) -> Option<Map<String, Value>> {
    let known = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let kept = known.iter().filter_map(|name| {
        let hint = annotations.get(*name).filter(|hint| hint.is_boolean())?;
        Some(((*name).to_owned(), hint.clone()))
    });
    Some(kept.collect()).filter(|kept: &Map<String, Value>| !kept.is_empty())
}

/// The name that the server gives itself, in the place of its family.
fn server(said: &Value) -> Option<Value> {
    let info =
        said.get("serverInfo").or_else(|| said.get("_meta")?.get("io.modelcontextprotocol/serverInfo"))?;
    let field = |name| text(info.get(name), TITLE_CHARS).unwrap_or_default();
    Some(json!({"name": field("name"), "version": field("version")}))
}

fn text(value: Option<&Value>, most_chars: usize) -> Option<String> {
    clean(value?.as_str()?, most_chars)
}
