//! The tool `discover`: asks the server what it offers.
//!
//! The family of the protocol is found out as the specification says: the newest first, and the older one where the answer
//! shows no server of the newest.

use std::collections::BTreeSet;

use toolgate_api::definition::Protocol;
use toolgate_sdk::serde_json::Value;
use toolgate_sdk::{Context, Error, http};

use crate::channel::Channel;
use crate::connection::{Connection, Params, Request, STATELESS};
use crate::describe::Part;
use crate::exchange::Server;
use crate::failure::{Failure, UNSUPPORTED_VERSION};
use crate::tool_list;

/// Tools that are looked at: more than can be mounted are told about by name.
const LISTED: usize = 2_000;
/// Pages of a list. A call may send 32 requests, and some are for the session.
const PAGES: usize = 24;

const LEADS_BACK: &str = "the list leads back to a page before: it is taken as ended there";
const CURSOR_EMPTY: &str = "the cursor of the next page is empty: the list is taken as ended";
const CURSOR_REFUSED: &str =
    "the server refuses the empty cursor that it gave for the next page: the list is taken as ended";

/// Asks the server, and answers what of it can be mounted.
pub fn discover(part: &Part, context: &Context) -> Result<Value, Error> {
    let server = Server { url: &part.url, headers: &part.headers, context };
    let (connection, protocol, said) =
        connect(&server, part.protocol).map_err(|failure| failure.tell(server.host()))?;
    let (listed, is_by_events) = (list(&connection), connection.is_by_events());
    connection.end(listed.as_ref().err());
    let (listed, note) = listed.map_err(|failure| failure.tell(server.host()))?;
    let mut offer = tool_list::sort(part, protocol, listed, &said, note);
    if is_by_events {
        offer["sse"] = true.into();
    }
    Ok(offer)
}

/// The newest family that the server speaks, or the one that the owner says.
fn connect<'a>(
    server: &'a Server<'a>,
    protocol: Option<Protocol>,
) -> Result<(Connection<'a>, Protocol, Value), Failure> {
    let in_session = |offered| {
        let opened = match Connection::initialize(server, offered) {
            Err(refusal) if may_be_oldest(protocol, &refusal) => open_oldest(server, protocol, refusal),
            opened => opened,
        };
        opened.map(|(it, said, took)| (it, took, said))
    };
    if let Some(session) = protocol.filter(|protocol| *protocol != Protocol::Stateless) {
        return in_session(session);
    }
    let connection = Connection::stateless(server);
    let request = Request { method: "server/discover", ..Request::default() };
    match connection.ask(request) {
        Ok(said) if speaks(said.get("supportedVersions")) => Ok((connection, Protocol::Stateless, said)),
        Err(failure) if protocol.is_some() || !may_be_older(&failure) => Err(failure),
        Ok(_) if protocol.is_some() => {
            Err(Failure::Unreadable(format!("it does not speak revision {STATELESS}")))
        }
        _ => in_session(Protocol::Session),
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
        Failure::Explained(told) if told.code == UNSUPPORTED_VERSION => !speaks(told.data.get("supported")),
        Failure::Explained(told) => !told.is_of_stateless(),
        Failure::Unreadable(_) | Failure::SessionLost => true,
    }
}

/// Whether a server that answers `initialize` so may speak the oldest transport (2025-11-25, Transports).
fn may_be_oldest(protocol: Option<Protocol>, failure: &Failure) -> bool {
    matches!(protocol, None | Some(Protocol::Session202411))
        && matches!(failure, Failure::Status(status) if matches!(status.status, 400 | 404 | 405))
}

/// Tries the oldest transport after a refusal, which stays the reason where that fails.
fn open_oldest<'a>(
    server: &'a Server<'a>,
    protocol: Option<Protocol>,
    refusal: Failure,
) -> Result<(Connection<'a>, Value, Protocol), Failure> {
    match Channel::open(server) {
        Ok(channel) => Connection::initialize_by_events(server, channel).map_err(|_| refusal),
        // The host tells of a denied request in place of a failure, unless a later request is answered: so the one that
        // was refused is repeated. An owner who names the transport is told of the denial.
        Err(Failure::Http(http::Error::Denied { .. })) if protocol.is_none() => {
            let note = "the transport of 2024-11-05 could not be tried, since this tool may not send GET";
            Connection::initialize(server, Protocol::Session).map_err(|refusal| refusal.with_note(note))
        }
        Err(_) => Err(refusal),
    }
}

/// All tools as they come, page by page, and why the list is taken as ended where the server does not end it.
fn list(connection: &Connection<'_>) -> Result<(Vec<Value>, Option<String>), Failure> {
    let mut tools = Vec::new();
    let mut cursors = BTreeSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES {
        let is_empty = cursor.as_deref() == Some("");
        let (page, next) = match read_page(connection, cursor.as_deref()) {
            Err(failure @ Failure::Explained(_)) if is_empty && !failure.passes() => {
                return Ok((tools, Some(CURSOR_REFUSED.to_owned())));
            }
            page => page?,
        };
        // A server that ends its list by an empty cursor takes that for the beginning.
        if is_empty && !page.is_empty() && tools.starts_with(&page) {
            return Ok((tools, Some(LEADS_BACK.to_owned())));
        }
        tools.extend(page);
        if tools.len() > LISTED {
            tools.truncate(LISTED);
            let note = format!("the server lists more than {LISTED} tools: the others are not read");
            return Ok((tools, Some(note)));
        }
        let note = match next {
            None => return Ok((tools, None)),
            // The stateless revision says that an empty cursor is one; before, it ended the list.
            Some(next) if next.is_empty() && !connection.is_stateless() => CURSOR_EMPTY,
            Some(next) if !cursors.insert(next.clone()) => LEADS_BACK,
            next => {
                cursor = next;
                continue;
            }
        };
        return Ok((tools, Some(note.to_owned())));
    }
    Ok((tools, Some(format!("the list has more than {PAGES} pages: the others are not read"))))
}

/// The tools of a page, and the cursor of the next one.
fn read_page(
    connection: &Connection<'_>,
    cursor: Option<&str>,
) -> Result<(Vec<Value>, Option<String>), Failure> {
    let params = Params { cursor, ..Params::default() };
    let mut page = connection.ask(Request { method: "tools/list", params, mirrored: Vec::new() })?;
    let tools = match page.get_mut("tools").map(Value::take) {
        Some(Value::Array(tools)) => tools.into_iter().map(without_pictures).collect(),
        Some(Value::Null) => Vec::new(),
        _ => return Err(Failure::Unreadable("its list of tools is none".to_owned())),
    };
    Ok((tools, page.get("nextCursor").and_then(Value::as_str).map(str::to_owned)))
}

/// Icons are the larger part of some lists, and are not shown here.
fn without_pictures(mut tool: Value) -> Value {
    if let Some(tool) = tool.as_object_mut() {
        tool.retain(|name, _| !matches!(name.as_str(), "icons" | "_meta"));
    }
    tool
}
