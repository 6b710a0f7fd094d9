//! A call of a tool of the server.

use toolgate_api::definition::Protocol;
use toolgate_sdk::serde_json::value::RawValue;
use toolgate_sdk::serde_json::{self, Value};
use toolgate_sdk::{Context, Error};

use crate::channel::Channel;
use crate::connection::{CALL, Connection, Params, Request};
use crate::content;
use crate::describe::Part;
use crate::exchange::Server;
use crate::failure::Failure;
use crate::header_params;

/// Sessions that are opened for one call: a server may end one at any time, and says so before it did anything.
const SESSIONS: usize = 2;

/// Calls a tool by the server's name of it.
pub fn call(part: &Part, tool: &str, context: &Context, arguments: &str) -> Result<Value, Error> {
    let server = Server { url: &part.url, headers: &part.headers, context };
    let arguments: &RawValue = serde_json::from_str(arguments)?;
    let result = match part.protocol {
        _ if part.sse => Channel::open(&server)
            .and_then(|channel| Connection::initialize_by_events(&server, channel))
            .and_then(|(connection, ..)| connection.ask(request(tool, arguments))),
        Some(session) if session != Protocol::Stateless => in_session(&server, session, tool, arguments),
        _ => {
            let mirrored = mirrored_fields(part, arguments)?;
            Connection::stateless(&server).ask(Request { mirrored, ..request(tool, arguments) })
        }
    };
    content::read(tool, part.structured, result.map_err(|failure| failure.tell(server.host()))?)
}

fn in_session(
    server: &Server<'_>,
    offered: Protocol,
    tool: &str,
    arguments: &RawValue,
) -> Result<Value, Failure> {
    let mut opened = 0;
    loop {
        opened += 1;
        let result = Connection::initialize(server, offered).and_then(|(connection, ..)| {
            let result = connection.ask(request(tool, arguments));
            connection.end(result.as_ref().err());
            result
        });
        match result {
            Err(Failure::SessionLost) if opened < SESSIONS => {}
            result => return result,
        }
    }
}

fn request<'a>(tool: &'a str, arguments: &'a RawValue) -> Request<'a> {
    let params = Params { name: Some(tool), arguments: Some(arguments), ..Params::default() };
    Request { method: CALL, params, mirrored: Vec::new() }
}

/// The arguments are read only where some of them stand in header fields.
fn mirrored_fields<'a>(part: &'a Part, arguments: &RawValue) -> Result<Vec<(&'a str, String)>, Error> {
    if part.mirrored.is_empty() {
        return Ok(Vec::new());
    }
    Ok(header_params::fields(&part.mirrored, &serde_json::from_str(arguments.get())?))
}
