//! The host functions that act: calls of other tools, and messages.

use toolgate_api::error::{CallError, ErrorType};

use super::Failure;
use super::toolgate::plugin::{calls, messages};
use crate::services::InnerCall;
use crate::state::CallState;

/// Fuel for a tool that a list looks at, in instructions: the decision and its place in the list.
const LISTED_TOOL_FUEL: u64 = 1_000;

/// Fuel for a byte of text that the daemon writes for a guest, in instructions.
const TEXT_BYTE_FUEL: u64 = 4;

/// The daemon ended the script, and knows why.
#[derive(Debug, thiserror::Error)]
#[error("the script was ended by an inner call")]
struct ScriptEnded;

impl CallState {
    /// Charges text that was written for the guest, since a host call has a flat price.
    pub(crate) fn charge_text(&self, text: &str) {
        self.host_calls.copy_meter.add_fuel((text.len() as u64).saturating_mul(TEXT_BYTE_FUEL));
    }
}

impl calls::Host for CallState {
    fn tools(&mut self) -> String {
        let Some(tools) = &self.context.services.tools else { return "[]".to_owned() };
        let (text, looked_at) = tools.list();
        self.host_calls.copy_meter.add_fuel((looked_at as u64).saturating_mul(LISTED_TOOL_FUEL));
        self.charge_text(&text);
        text
    }

    fn describe(&mut self, tool: String) -> Result<String, Failure> {
        let tools = self.context.services.tools.as_ref().ok_or_else(|| not_lent("calls"))?;
        let described = tools.describe(&tool).map_err(to_failure)?;
        self.charge_text(&described);
        Ok(described)
    }

    async fn call(&mut self, tool: String, arguments: String) -> wasmtime::Result<Result<String, Failure>> {
        let ended = self.call_all(vec![(tool, arguments)]).await?;
        Ok(ended.into_iter().next().ok_or(ScriptEnded)?)
    }

    async fn call_all(
        &mut self,
        calls: Vec<(String, String)>,
    ) -> wasmtime::Result<Vec<Result<String, Failure>>> {
        let Some(tools) = self.context.services.tools.clone() else {
            return Ok(calls.iter().map(|_| Err(not_lent("calls"))).collect());
        };
        let ended = tools.call_all(calls, self.host_calls.fuel_at_entry).await;
        self.host_calls.copy_meter.add_fuel(ended.iter().map(|call| call.fuel).sum());
        let results = ended.into_iter().map(|InnerCall { result, .. }| match result {
            Some(result) => Ok(result.map_err(to_failure)),
            None => Err(ScriptEnded.into()),
        });
        results.collect()
    }
}

impl messages::Host for CallState {
    async fn send(&mut self, recipient: String, body: String) -> Result<String, Failure> {
        let inbox = self.context.services.messages.clone().ok_or_else(|| not_lent("messages"))?;
        let recorded = self.context.before_effect.wait().await;
        recorded.map_err(|reason| {
            to_failure(CallError::new(ErrorType::Unavailable, reason, "call again later"))
        })?;
        inbox.send(recipient, body).await.map_err(to_failure)
    }

    async fn read(&mut self, limit: u32, read: Option<String>) -> Result<String, Failure> {
        let inbox = self.context.services.messages.clone().ok_or_else(|| not_lent("messages"))?;
        let messages = inbox.read(limit, read).await.map_err(to_failure)?;
        self.charge_text(&messages);
        Ok(messages)
    }
}

/// The error of a plugin without the grant, and of one inside a script, whose calls cannot make calls.
fn not_lent(service: &str) -> Failure {
    let message = format!(
        "`{service}` does not work here: the plugin has no grant for it, or a script called this tool"
    );
    let hint =
        format!("an operator can grant `{{\"{service}\":true}}`; a script cannot start another script");
    to_failure(CallError::new(ErrorType::AccessDenied, message, hint))
}

fn to_failure(error: CallError) -> Failure {
    Failure {
        code: error.error_type.as_str().to_owned(),
        retryable: error.retryable,
        details: error.details.as_ref().and_then(|details| serde_json::to_string(details).ok()),
        message: match error.hint.as_str() {
            "" => error.message,
            hint => format!("{} ({hint})", error.message),
        },
    }
}
