//! Questions of `user/ask`, which an MCP client shows to its user by elicitation.
//!
//! Revisions before 2026-07-28 send the question as a request of the server; the newer ones answer the call with it, and the
//! client calls again with the user's answer.

use rmcp::RoleServer;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_core::call::{CallOutcome, OutcomeState};
use toolgate_core::dispatch::ClientResult;

/// The tool whose questions are shown.
pub(super) const TOOL: &str = "call_user_ask";

/// The name of the question among the inputs that a call requires.
pub(super) const INPUT: &str = "ask";

/// The end of a question to a client that shows none.
pub(super) const NO_FORMS: &str = "this client shows its user no questions; ask in your own answer";

/// Whether the client shows forms to its user.
pub(super) fn shows_forms(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // Without either, forms are meant: the older revisions know nothing else.
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// The question of a call that waits for its answer.
pub(super) fn question(name: &str, outcome: &CallOutcome) -> Option<ElicitRequestParams> {
    #[derive(Deserialize)]
    struct Question {
        question: String,
        choices: Vec<String>,
    }
    let OutcomeState::ClientRequired { payload, .. } = &outcome.state else { return None };
    let Question { question, choices } = serde_json::from_str(payload.get()).ok().filter(|_| name == TOOL)?;
    let message = match choices.is_empty() {
        true => question,
        false => format!("{question}\n\n{}", choices.join("\n")),
    };
    // The user may answer in other words than the choices, so they are no enumeration.
    let schema = json!({
        "type": "object",
        "properties": {"answer": {"type": "string", "title": "Answer"}},
        "required": ["answer"],
    });
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    serde_json::from_value(params).ok()
}

/// The answer of the user as the result of the call.
pub(super) fn answer(result: ElicitResult) -> ClientResult {
    let said = result.content.as_ref().and_then(|content| match &content["answer"] {
        Value::String(said) => Some(said.clone()),
        said @ (Value::Number(_) | Value::Bool(_)) => Some(said.to_string()),
        _ => None,
    });
    match (result.action, said) {
        (ElicitationAction::Accept, Some(said)) => {
            ClientResult::Output(json!({"answer": said}).to_string().into())
        }
        (ElicitationAction::Accept, None) => ClientResult::Failed(
            "The user answered, but the client sent no answer that can be read.".to_owned(),
        ),
        (ElicitationAction::Cancel, _) => ClientResult::Failed("The user closed the question.".to_owned()),
        _ => ClientResult::Failed("The user did not want to answer.".to_owned()),
    }
}

/// The answer among the inputs of a repeated call.
pub(super) fn answer_of(value: &Value) -> ClientResult {
    match serde_json::from_value(value.clone()) {
        Ok(result) => answer(result),
        Err(_) => ClientResult::Failed("The client sent an answer that cannot be read.".to_owned()),
    }
}
