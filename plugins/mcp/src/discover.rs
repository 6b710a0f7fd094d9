//! The tool `discover`: asks the server what it offers, and makes of it what can be mounted.
//!
//! The answer depends on what the server says alone, and not on its order, so that what changed can be seen by comparing
//! two answers. What cannot be mounted stands in it with the reason.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use toolgate_sdk::serde_json::{self, Map, Value, json};
use toolgate_sdk::{Context, Error};

use crate::connection::{Connection, Params, Request, STATELESS};
use crate::describe::{self, About, Part};
use crate::document::{Protocol, TOOL_NAME_CHARS};
use crate::exchange::Server;
use crate::failure::{Failure, UNSUPPORTED_VERSION};
use crate::mirror;
use crate::schema;
use crate::text::{clean, hidden, shown};

/// Most tools of one plugin.
const TOOLS: usize = 1_000;
/// Tools that are looked at: more than can be mounted are told about by name.
const LISTED: usize = 2_000;
/// Pages of a list. A call may send 32 requests, and some are for the session.
const PAGES: usize = 24;
/// What the description of the plugin may come to, as JSON text: the daemon takes 4 MiB.
const DESCRIBED_BYTES: usize = 3_800_000;
/// Subschemas of all tools together: the daemon takes 100,000, references replaced.
const SUBSCHEMAS: usize = 90_000;
/// What a tool's name takes at most.
const LONGEST_NAME: &str = "0123456789012345678901234567890123456789012345678901234567";
/// Longest description of a tool, in characters. The first part of a long one is shown, and all of it where a tool's usage is.
const DESCRIPTION_CHARS: usize = 16_384;
/// Longest title, and the names of the server, in characters.
const TITLE_CHARS: usize = 200;
/// Longest instructions, in characters. They are for the owner to read.
const INSTRUCTIONS_CHARS: usize = 16_384;

/// What a server offers, as it can be mounted.
#[derive(Deserialize, Serialize)]
pub struct Discovered {
    pub protocol: Protocol,
    pub server: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// By name.
    pub tools: Vec<Tool>,
    /// Tools that cannot be mounted.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// What was taken away from the schemas of tools that can.
    #[serde(default)]
    pub simplified: Vec<Simplified>,
}

/// What a server calls itself.
#[derive(Deserialize, Serialize)]
pub struct Named {
    pub name: String,
    pub version: String,
}

/// A tool as the server describes it, cleaned.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
}

#[derive(Deserialize, Serialize)]
pub struct LeftOut {
    pub name: String,
    pub why: String,
}

#[derive(Deserialize, Serialize)]
pub struct Simplified {
    pub name: String,
    pub what: String,
}

/// Asks the server, and answers a [`Discovered`].
pub fn discover(part: &Part, context: &Context) -> Result<Value, Error> {
    let server = Server { url: &part.url, headers: &part.headers, context };
    let (connection, protocol, said) =
        connect(&server, part.protocol).map_err(|failure| failure.tell(server.host()))?;
    let listed = list(&connection);
    connection.end();
    let listed = listed.map_err(|failure| failure.tell(server.host()))?;
    Ok(serde_json::to_value(Sorting::new(part, protocol).sort(listed, &said))?)
}

/// The newest family that the server speaks, or the one that the owner says.
fn connect<'a>(
    server: &'a Server<'a>,
    protocol: Option<Protocol>,
) -> Result<(Connection<'a>, Protocol, Value), Failure> {
    let in_session = || Connection::initialize(server).map(|(it, said)| (it, Protocol::Session, said));
    if protocol == Some(Protocol::Session) {
        return in_session();
    }
    let connection = Connection::stateless(server);
    let request = Request { method: "server/discover", ..Request::default() };
    match connection.ask(request) {
        Ok(said) if speaks(said.get("supportedVersions")) => Ok((connection, Protocol::Stateless, said)),
        Err(failure) if protocol.is_some() || !may_be_older(&failure) => Err(failure),
        Ok(_) if protocol.is_some() => {
            Err(Failure::Unreadable(format!("it does not speak revision {STATELESS}")))
        }
        _ => in_session(),
    }
}

fn speaks(revisions: Option<&Value>) -> bool {
    revisions.and_then(Value::as_array).is_some_and(|revisions| revisions.iter().any(|one| one == STATELESS))
}

/// Whether a server that answers so may be one of the older family. All but the errors of the new one may; who wants a
/// credential wants it for either, and who cannot be reached cannot be asked again.
fn may_be_older(failure: &Failure) -> bool {
    match failure {
        Failure::Http(_) => false,
        Failure::Status(status) => status.status >= 400 && !matches!(status.status, 401 | 403 | 429),
        Failure::Told(told) if told.code == UNSUPPORTED_VERSION => !speaks(told.data.get("supported")),
        Failure::Told(told) => !told.is_of_stateless(),
        Failure::Unreadable(_) | Failure::SessionLost => true,
    }
}

/// All tools as they come, page by page.
fn list(connection: &Connection<'_>) -> Result<Vec<Value>, Failure> {
    let mut tools = Vec::new();
    let mut cursors = BTreeSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES {
        let params = Params { cursor: cursor.as_deref(), ..Params::default() };
        let request = Request { method: "tools/list", params, mirrored: Vec::new() };
        let mut page = connection.ask(request)?;
        match page.get_mut("tools").map(Value::take) {
            Some(Value::Array(more)) => tools.extend(more.into_iter().map(without_pictures)),
            _ => return Err(Failure::Unreadable("its list of tools is none".to_owned())),
        }
        if tools.len() > LISTED {
            return Err(Failure::Unreadable(format!("it lists more than {LISTED} tools")));
        }
        match page.get("nextCursor").and_then(Value::as_str) {
            None => return Ok(tools),
            Some(next) if !cursors.insert(next.to_owned()) => {
                return Err(Failure::Unreadable("its list of tools leads back to itself".to_owned()));
            }
            Some(next) => cursor = Some(next.to_owned()),
        }
    }
    Err(Failure::Unreadable(format!("its list of tools has more than {PAGES} pages")))
}

/// Icons are the larger part of some lists, and nobody sees them here.
fn without_pictures(mut tool: Value) -> Value {
    if let Some(tool) = tool.as_object_mut() {
        tool.retain(|name, _| !matches!(name.as_str(), "icons" | "_meta"));
    }
    tool
}

/// Sorts a list into what is mounted and what is not.
struct Sorting<'a> {
    part: &'a Part,
    found: Discovered,
    /// What the description of the plugin takes so far.
    bytes: usize,
    subschemas: usize,
}

impl<'a> Sorting<'a> {
    fn new(part: &'a Part, protocol: Protocol) -> Self {
        let found = Discovered {
            protocol,
            server: None,
            instructions: None,
            tools: Vec::new(),
            left_out: Vec::new(),
            simplified: Vec::new(),
        };
        Self { part, found, bytes: 0, subschemas: 0 }
    }

    fn sort(mut self, mut listed: Vec<Value>, said: &Value) -> Discovered {
        self.found.server = named(said);
        self.found.instructions = text(said.get("instructions"), INSTRUCTIONS_CHARS);
        listed.sort_by(|left, right| name(left).cmp(name(right)));
        let mut before = None;
        for tool in &listed {
            let name = name(tool);
            if self.part.only.as_ref().is_some_and(|only| !only.iter().any(|wanted| wanted == name)) {
                continue;
            }
            let sorted = match before == Some(name) {
                true => Err("the server lists it twice".to_owned()),
                false => self.take(name, tool),
            };
            before = Some(name);
            if let Err(why) = sorted {
                self.found.left_out.push(LeftOut { name: shown(name, TOOL_NAME_CHARS), why });
            }
        }
        self.note_missing(&listed);
        self.found
    }

    /// Tools that the owner wants and the server does not have.
    fn note_missing(&mut self, listed: &[Value]) {
        let names: BTreeSet<&str> = listed.iter().map(name).collect();
        let wanted = self.part.only.iter().flatten().filter(|wanted| !names.contains(wanted.as_str()));
        self.found.left_out.extend(
            wanted.map(|wanted| LeftOut {
                name: wanted.clone(),
                why: "the server does not list it".to_owned(),
            }),
        );
    }

    fn take(&mut self, name: &str, listed: &Value) -> Result<(), String> {
        check_name(name)?;
        if listed.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required") {
            return Err("it runs only as a task, which is not supported".to_owned());
        }
        let input = schema::input(listed.get("inputSchema"))?;
        if self.found.protocol == Protocol::Stateless {
            mirror::read(&input.schema)?;
        }
        let output = listed.get("outputSchema").filter(|schema| !schema.is_null()).map(schema::output);
        let mut changes = input.changes;
        let mut subschemas = input.subschemas;
        let output = match output {
            Some(Ok(sound)) => {
                changes.extend(sound.changes);
                subschemas += sound.subschemas;
                Some(sound.schema)
            }
            Some(Err(why)) => {
                changes.push(format!("the output schema is left out: {why}"));
                None
            }
            None => None,
        };
        let tool = Tool {
            name: name.to_owned(),
            title: text(listed.get("title"), TITLE_CHARS),
            description: text(listed.get("description"), DESCRIPTION_CHARS),
            input_schema: input.schema,
            output_schema: output,
            annotations: annotations(listed),
        };
        let about = About { part: self.part, provider: None, protocol: self.found.protocol };
        let described =
            describe::describe_tool(LONGEST_NAME, &tool, &about).map_err(|error| error.to_string())?;
        let bytes = described.to_string().len();
        if self.found.tools.len() == TOOLS
            || self.bytes + bytes > DESCRIBED_BYTES
            || self.subschemas + subschemas > SUBSCHEMAS
        {
            return Err("the tools before it fill the plugin: name those to mount in `tools`".to_owned());
        }
        self.bytes += bytes;
        self.subschemas += subschemas;
        let simplified = changes.into_iter().map(|what| Simplified { name: name.to_owned(), what });
        self.found.simplified.extend(simplified);
        self.found.tools.push(tool);
        Ok(())
    }
}

fn name(tool: &Value) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("it has no name".to_owned());
    }
    if name.chars().count() > TOOL_NAME_CHARS {
        return Err(format!("its name has more than {TOOL_NAME_CHARS} characters"));
    }
    match hidden(name).is_some() || name.contains(['\n', '\t']) {
        true => Err("its name holds characters that nobody sees".to_owned()),
        false => Ok(()),
    }
}

/// The hints of the server that mean something here.
fn annotations(tool: &Value) -> Option<Map<String, Value>> {
    let hints = tool.get("annotations")?.as_object()?;
    let known = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let kept = known.iter().filter_map(|name| {
        let hint = hints.get(*name).filter(|hint| hint.is_boolean())?;
        Some(((*name).to_owned(), hint.clone()))
    });
    Some(kept.collect()).filter(|kept: &Map<String, Value>| !kept.is_empty())
}

/// What the server calls itself, wherever its family says that.
fn named(said: &Value) -> Option<Named> {
    let info =
        said.get("serverInfo").or_else(|| said.get("_meta")?.get("io.modelcontextprotocol/serverInfo"))?;
    let field = |name| text(info.get(name), TITLE_CHARS).unwrap_or_default();
    Some(Named { name: field("name"), version: field("version") })
}

fn text(value: Option<&Value>, most_chars: usize) -> Option<String> {
    clean(value?.as_str()?, most_chars)
}

/// What `discover` answers, for whoever calls it.
pub fn output_schema() -> Value {
    json!({"type": "object", "required": ["protocol", "tools", "left_out"]})
}
