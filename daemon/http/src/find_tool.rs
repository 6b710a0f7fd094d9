//! Searches for tools in deferred lists (M5): a model's call of the search is answered by the broker, in the form from which
//! its provider loads the definitions. A search is no call of a tool: nothing is decided or recorded.

use serde::Deserialize;
use toolgate_api::call::Executed;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_core::call::{CallAnswer, CallOutcome, OutcomeState, RequestedCall};
use toolgate_core::sessions::Session;

use super::dialects::tools::{FIND_TOOL, Format};
use super::dialects::{Dialect, ParsedRequest};
use super::state::App;
use super::tools::find;

/// Longest query, in bytes.
const QUERY_BYTES: usize = 1000;

/// The searches of a request, each with its place among the calls.
pub(crate) struct Searches {
    format: Format,
    searches: Vec<(usize, RequestedCall)>,
}

impl Searches {
    /// Takes the searches from the calls of a request.
    pub(crate) fn take_from(request: &mut ParsedRequest) -> Self {
        let format = match request.dialect {
            Dialect::Anthropic(_) => Format::Anthropic,
            Dialect::Responses(_) => Format::OpenaiResponses,
            _ => return Self { format: Format::Toolgate, searches: Vec::new() },
        };
        let is_search = |call: &RequestedCall| *call.tool == *FIND_TOOL && call.fault.is_none();
        let mut searches = Vec::new();
        if request.calls.iter().any(is_search) {
            let calls = std::mem::take(&mut request.calls);
            for (at, call) in calls.into_iter().enumerate() {
                match is_search(&call) {
                    true => searches.push((at, call)),
                    false => request.calls.push(call),
                }
            }
        }
        Self { format, searches }
    }

    /// Adds the answers of the searches to those of the calls, in the order of the request.
    pub(crate) async fn answer(self, app: &App, session: &Session, results: &mut Vec<CallAnswer>) {
        for (at, call) in self.searches {
            let outcome = match query_of(&call) {
                Ok(query) => {
                    let found = find(app, session, self.format, &query).await;
                    CallOutcome::new(&*call.id, &call.tool, Executed::No, OutcomeState::Ok(found.tools))
                }
                Err(error) => CallOutcome::of_error(&call, error),
            };
            results.insert(at.min(results.len()), outcome.into());
        }
    }
}

fn query_of(call: &RequestedCall) -> Result<String, CallError> {
    #[derive(Deserialize)]
    struct Arguments {
        query: String,
    }
    let query = serde_json::from_str::<Arguments>(&call.arguments).map(|arguments| arguments.query);
    match query {
        Ok(query) if !query.trim().is_empty() && query.len() <= QUERY_BYTES => Ok(query),
        _ => Err(CallError::new(
            ErrorType::InvalidArguments,
            format!("`{FIND_TOOL}` takes `query`: a text of 1 to {QUERY_BYTES} bytes"),
            "describe in a few words what the tool should do",
        )),
    }
}
