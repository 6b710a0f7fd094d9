//! The forms that calls come in: ours, S5's, and those of model providers (R1). What comes in is read here into
//! calls, and what became of them is written in the same form.
//!
//! A request carries its calls under one member, and which member it is says the form; nothing is guessed from
//! what is inside, and a request with two of them is refused. Fields that the provider's published types know are
//! accepted, so that a message can be posted as it came; others are refused, as everywhere. Of lists in which a
//! model's text, thoughts and calls stand beside each other, the calls are taken and the rest is passed over: it
//! is somebody else's to answer, and providers add kinds of it all the time.
//!
//! Arguments stay the bytes that they were. Nothing is decided here, and nothing is known of tools.
//!
//! The answers in a provider's form are lists that its client libraries take as they are, so nothing of ours is in
//! them. What an orchestrator's program needs beside (status, approval, payload) stands under `calls`.

mod anthropic;
mod envelope;
mod flat;
mod gemini;
mod openai;
mod ours;
mod outcome;
mod responses;
pub mod schema;
mod text;
pub mod tools;

use serde::Serialize;

use super::problem::Problem;
use crate::dispatch::RequestedCall;
pub use envelope::bounded;
use envelope::{Dialect, Envelope, Items};
use outcome::{Outcome, State};

/// What a request asks for.
#[derive(Debug)]
pub struct Asked {
    /// How its calls were written, and so how they are answered.
    pub form: Form,
    /// The model's turn that they belong to.
    pub turn: Option<String>,
    /// The calls, in the order in which they stood there.
    pub calls: Vec<RequestedCall>,
}

/// How the calls of a request were written, with what of it stands in the answer again.
#[derive(Debug)]
pub enum Form {
    /// `calls`: our own.
    Ours,
    /// `openai`: the chat completions of OpenAI.
    OpenAi,
    /// `openai_responses`: the responses of OpenAI.
    Responses(Vec<responses::Echo>),
    /// `anthropic`: content blocks.
    Anthropic,
    /// `gemini`: parts.
    Gemini(Vec<gemini::Echo>),
    /// `tool_call`: one call as S5 writes it.
    Flat(flat::Echo),
    /// `text`: one call as a string.
    Text(text::Echo),
}

/// What stands beside the results.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The session.
    pub session: &'a str,
    /// The orchestrator's conversation, where the session has one.
    pub conversation: Option<&'a str>,
    /// The turn, where the request named one.
    pub turn: Option<&'a str>,
    /// What the orchestrator does next: `model`, `client` or `approval`.
    pub next: &'a str,
}

/// Reads a request of at most `most_calls` calls.
pub fn read(body: &[u8], most_calls: u64) -> Result<Asked, Problem> {
    let Envelope { turn, id, dialect } = envelope::read(body)?;
    let mut calls = envelope::Calls::default();
    let form = match dialect {
        Dialect::Ours(Items(requested)) => ours::read(requested, &mut calls)?,
        Dialect::OpenAi(message) => openai::read(&message, &mut calls)?,
        Dialect::Responses(Items(items)) => responses::read(&items, &mut calls)?,
        Dialect::Anthropic(Items(blocks)) => anthropic::read(&blocks, &mut calls)?,
        Dialect::Gemini(Items(parts)) => gemini::read(&parts, &mut calls)?,
        Dialect::Flat(call) => flat::read(call, id, &mut calls)?,
        Dialect::Text(text) => text::read(&text, id, &mut calls)?,
    };
    Ok(Asked { form, turn, calls: calls.at_most(most_calls)? })
}

/// Writes what became of the calls in the form in which they came.
///
/// `results` are the result objects of our own form as JSON text, one a call and in the order of the request.
pub fn write(form: &Form, around: &Around<'_>, results: &[&str]) -> String {
    let length: usize = results.iter().map(|result| result.len() + 1).sum();
    let mut body = String::with_capacity(length + 256);
    body.push_str("{\"session\":");
    push(&mut body, around.session);
    for (name, value) in [("conversation", around.conversation), ("turn", around.turn)] {
        if let Some(value) = value {
            push_name(&mut body, name);
            push(&mut body, value);
        }
    }
    if matches!(form, Form::Ours) {
        push_name(&mut body, "results");
        push_side_by_side(&mut body, results);
    } else {
        let outcomes: Vec<Outcome<'_>> = results.iter().map(|result| Outcome::read(result)).collect();
        push_in_dialect(&mut body, form, &outcomes);
        push_name(&mut body, "calls");
        push(&mut body, &outcomes.iter().map(State::from).collect::<Vec<_>>());
    }
    push_name(&mut body, "next");
    push(&mut body, around.next);
    body.push('}');
    body
}

/// The member of the dialect.
fn push_in_dialect(body: &mut String, form: &Form, outcomes: &[Outcome<'_>]) {
    match form {
        Form::Ours => {}
        Form::OpenAi => push_member(body, "openai", &openai::answer(outcomes)),
        Form::Responses(echoes) => {
            push_member(body, "openai_responses", &responses::answer(echoes, outcomes))
        }
        Form::Anthropic => push_member(body, "anthropic", &anthropic::answer(outcomes)),
        Form::Gemini(echoes) => push_member(body, "gemini", &gemini::answer(echoes, outcomes)),
        Form::Flat(echo) => push_member(body, "tool_call", &flat::answer(echo, outcomes)),
        Form::Text(echo) => push_member(body, "text", &text::answer(echo, outcomes)),
    }
}

/// Results are JSON text already; they are put side by side, not parsed and written again.
fn push_side_by_side(body: &mut String, results: &[&str]) {
    for (at, result) in results.iter().enumerate() {
        body.push(if at == 0 { '[' } else { ',' });
        body.push_str(result);
    }
    body.push_str(if results.is_empty() { "[]" } else { "]" });
}

fn push_member<T: Serialize + ?Sized>(body: &mut String, name: &str, value: &T) {
    push_name(body, name);
    push(body, value);
}

fn push_name(body: &mut String, name: &str) {
    body.push_str(",\"");
    body.push_str(name);
    body.push_str("\":");
}

fn push<T: Serialize + ?Sized>(body: &mut String, value: &T) {
    // Strings, lists and JSON text: nothing of it can fail.
    body.push_str(&serde_json::to_string(value).unwrap_or_else(|_| "null".into()));
}

#[cfg(test)]
mod tests;
