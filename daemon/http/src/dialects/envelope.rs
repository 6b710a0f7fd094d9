//! The envelope of a request: the member that carries its calls selects the dialect.

use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_api::read::Object;
use utoipa::ToSchema;

use super::items::{Items, invalid};
use super::{native, openai, s5};
use crate::body;
use crate::problem::Problem;

/// Longest turn, in bytes. The orchestrator's id of the turn is kept with the session.
const TURN_BYTES: usize = 200;

/// A request, with the one member that carries its calls.
pub(super) struct Envelope<'a> {
    pub turn: Option<String>,
    pub on_disconnect: Option<OnDisconnect>,
    pub deadline_ms: Option<u64>,
    /// The id of the call, in a dialect whose calls have no id.
    pub id: Option<String>,
    pub body: RequestBody<'a>,
}

/// The effect on running calls when the client hangs up (R6).
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnDisconnect {
    /// A call with an id of the caller's goes on, so that a repeated request gets its result; one without is cancelled.
    #[serde(alias = "continue")]
    Finish,
    /// Every call is cancelled.
    Cancel,
}

/// The unvalidated calls of a request.
pub(super) enum RequestBody<'a> {
    Native(Items<Object<native::Call<'a>>>),
    OpenAi(openai::Message<'a>),
    Responses(Items<&'a RawValue>),
    Anthropic(Items<&'a RawValue>),
    Gemini(Items<&'a RawValue>),
    Flat(s5::Call<'a>),
    Text(String),
}

/// The members of a request. `null` equals an absent member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members<'a> {
    turn: Option<String>,
    on_disconnect: Option<OnDisconnect>,
    deadline_ms: Option<u64>,
    id: Option<String>,
    #[serde(borrow)]
    calls: Option<Items<Object<native::Call<'a>>>>,
    #[serde(borrow)]
    openai: Option<Object<openai::Message<'a>>>,
    #[serde(borrow)]
    openai_responses: Option<Items<&'a RawValue>>,
    #[serde(borrow)]
    anthropic: Option<Items<&'a RawValue>>,
    #[serde(borrow)]
    gemini: Option<Items<&'a RawValue>>,
    #[serde(borrow)]
    tool_call: Option<Object<s5::Call<'a>>>,
    text: Option<String>,
}

/// Parses the envelope. An error in it fails the whole request, unlike an error in the arguments of a call.
pub(super) fn parse(body: &[u8]) -> Result<Envelope<'_>, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        invalid(format!("the body is not UTF-8 at byte {at}"), "send JSON in UTF-8")
    })?;
    let Object(mut members) = serde_json::from_str::<Object<Members<'_>>>(text).map_err(body::mismatch)?;
    let turn = members.turn.take().map(checked_turn).transpose()?;
    let (on_disconnect, deadline_ms) = (members.on_disconnect, members.deadline_ms);
    if deadline_ms == Some(0) {
        let hint = "write the milliseconds that the calls may take, or leave it out";
        return Err(invalid("`deadline_ms` is 0", hint));
    }
    let id = members.id.take();
    let body = members.only()?;
    if id.is_some() && !matches!(body, RequestBody::Flat(_) | RequestBody::Text(_)) {
        return Err(invalid(
            "`id` is not allowed beside calls that have ids of their own",
            "give each call its id; `id` is for `tool_call` and `text`, whose one call has no place for it",
        ));
    }
    Ok(Envelope { turn, on_disconnect, deadline_ms, id, body })
}

impl<'a> Members<'a> {
    /// Returns the one member that carries calls.
    fn only(self) -> Result<RequestBody<'a>, Problem> {
        let all = [
            ("calls", self.calls.map(RequestBody::Native)),
            ("openai", self.openai.map(|Object(message)| RequestBody::OpenAi(message))),
            ("openai_responses", self.openai_responses.map(RequestBody::Responses)),
            ("anthropic", self.anthropic.map(RequestBody::Anthropic)),
            ("gemini", self.gemini.map(RequestBody::Gemini)),
            ("tool_call", self.tool_call.map(|Object(call)| RequestBody::Flat(call))),
            ("text", self.text.map(RequestBody::Text)),
        ];
        let names = all.each_ref().map(|(name, _)| *name);
        let mut present = all.into_iter().filter_map(|(name, dialect)| Some((name, dialect?)));
        match (present.next(), present.next()) {
            (Some((_, dialect)), None) => Ok(dialect),
            (Some((first, _)), Some((second, _))) => Err(invalid(
                format!("the request has calls under `{first}` and under `{second}`"),
                "send calls in one form in each request",
            )),
            (None, _) => Err(invalid(
                "the request has no calls",
                format!("send them under one of `{}`", names.join("`, `")),
            )),
        }
    }
}

fn checked_turn(turn: String) -> Result<String, Problem> {
    if !turn.is_empty() && turn.len() <= TURN_BYTES && !turn.chars().any(char::is_control) {
        return Ok(turn);
    }
    Err(invalid(
        format!("`turn` is empty, longer than {TURN_BYTES} bytes, or has control characters"),
        "send a short id, or leave the field out",
    ))
}
