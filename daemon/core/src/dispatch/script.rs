//! The calls that a script makes (T13): each takes the way of every call, in the slot of the call that runs the script.
//!
//! An inner call has the id of its outer call and a number. Calls that a script makes at once run at once, and their answers reach it
//! in the order of the calls, so that each run of it sees the same. A script that waited for an approval runs again with the same
//! clock and the same random numbers, so it makes the same calls under the same ids, and those that have ended answer from
//! their record (R7). The same id with another tool or other arguments is a conflict, which ends the script.
//!
//! A plugin that calls tools may do nothing else, and its calls cannot make calls, so running it again repeats no effect.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use toolgate_admission::{self as admission, Admitted, Decision, Rules, Tool};
use toolgate_api::content::ContentBlock;
use toolgate_api::descriptor::Mode;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::read_called_name;
use toolgate_audit as audit;
use toolgate_audit::inner_id;
use toolgate_sandbox::{Component, InnerCall, OtherTools, Remainder};

use super::admit::may_change_files;
use super::{Attempt, Dispatcher, Origin, OuterCall, rules_of};
use crate::call::{CallAnswer, OutcomeState, RequestedCall};
use crate::sessions::Session;
use crate::signature;
use crate::traces::TraceParent;

/// Most calls that a script makes at once (`wit/plugin.wit`).
const AT_ONCE: u64 = 8;

/// A script's view of the agent's other tools.
pub(super) struct Script {
    dispatcher: Dispatcher,
    session: Arc<Session>,
    origin: Origin,
    /// The id of the call that runs the script.
    outer: String,
    deadline: Instant,
    calls: AtomicU64,
    most_calls: u64,
    /// Bytes over the network that its calls have left.
    egress_left: AtomicU64,
    /// Fuel of its calls, which their own records have.
    inner_fuel: AtomicU64,
    /// Changes of approvers to the arguments of its calls, in words.
    notes: Mutex<Vec<ContentBlock>>,
    /// Held by a call that may change files, so that no edit of a file is lost. The script itself has the session's files.
    changing_files: tokio::sync::Mutex<()>,
    end: Mutex<Option<OutcomeState>>,
}

/// A tool as a script lists it.
#[derive(Serialize)]
struct ListedTool<'a> {
    name: String,
    description: &'a str,
}

impl Script {
    pub(super) fn new(
        dispatcher: &Dispatcher,
        attempt: &Attempt<'_>,
        admitted: &Admitted<Component>,
        deadline: Instant,
    ) -> Arc<Self> {
        let trace = attempt.trace.map(|trace| trace.context());
        let trace = trace.and_then(|trace| TraceParent::parse(&trace.traceparent, &trace.tracestate));
        Arc::new(Self {
            dispatcher: dispatcher.clone(),
            session: Arc::clone(attempt.session),
            origin: Origin { trace: trace.map(Arc::new), ..attempt.origin.clone() },
            outer: attempt.call.id.clone(),
            deadline,
            calls: AtomicU64::new(0),
            most_calls: admitted.limits().inner_calls,
            egress_left: AtomicU64::new(admitted.limits().egress_bytes),
            inner_fuel: AtomicU64::new(0),
            notes: Mutex::default(),
            changing_files: tokio::sync::Mutex::default(),
            end: Mutex::new(None),
        })
    }

    /// Fuel of the calls that the script made, those of an earlier run included.
    pub(super) fn inner_fuel(&self) -> u64 {
        self.inner_fuel.load(Ordering::Relaxed)
    }

    /// The end that an inner call gave the script.
    pub(super) fn take_end(&self) -> Option<OutcomeState> {
        self.end.lock().take()
    }

    /// The notes about its calls for the model, for which a script has no place.
    pub(super) fn take_notes(&self) -> Vec<ContentBlock> {
        std::mem::take(&mut self.notes.lock())
    }

    /// The seed of the script's random numbers, the same in each of its runs. A session's id cannot be guessed.
    pub(super) fn seed(&self) -> [u8; 32] {
        audit::sha256(format!("{}\n{}", self.session.setup.id, self.outer).as_bytes()).0
    }

    fn rules(&self) -> Rules<Component> {
        rules_of(&self.dispatcher.0.registry.snapshot(), &self.session)
    }

    async fn run_all(&self, calls: Vec<(String, String)>, fuel: u64) -> Vec<InnerCall> {
        let count = calls.len() as u64;
        let first = self.calls.fetch_add(count, Ordering::Relaxed) + 1;
        let left = Remainder { fuel, egress_bytes: self.egress_left.load(Ordering::Relaxed) };
        let numbered = (first..).zip(calls).map(|(number, (tool, arguments))| {
            let found = find(&self.rules(), &tool);
            let refused = match (number > self.most_calls, number - first >= AT_ONCE) {
                (true, _) => Some(too_many(self.most_calls)),
                (_, true) => Some(too_many_at_once()),
                _ => found.as_ref().and_then(refuse_in_script),
            };
            let changes_files = found.is_some_and(|tool| may_change_files(tool.hints(), tool.access()));
            let call = RequestedCall::new(&inner_id(&self.outer, number), &tool, arguments.into());
            self.run(call, left, refused, changes_files)
        });
        let answers = join_all(numbered).await;
        // Answers from the record count as what the call used, so that each run of the script has the same left.
        answers.into_iter().map(|answer| self.result_of(answer)).collect()
    }

    async fn run(
        &self,
        call: RequestedCall,
        left: Remainder,
        refused: Option<CallError>,
        changes_files: bool,
    ) -> Result<CallAnswer, CallError> {
        // The id may be that of a call in an earlier run of the script.
        let call = RequestedCall { id_is_new: false, ..call };
        if let Some(error) = refused {
            // A script can hide the error, so the log has it.
            return Ok(self.dispatcher.refuse_unopened(&self.session, &call, &self.origin, error));
        }
        let _files = if changes_files { Some(self.changing_files.lock().await) } else { None };
        let _instance = self.dispatcher.0.sandbox.inner_instance().await;
        let outer = OuterCall { deadline: self.deadline, left };
        let (dispatcher, session, origin) =
            (self.dispatcher.clone(), Arc::clone(&self.session), self.origin.clone());
        // A task of its own, since a guest that is polled inside another one would take its turns.
        let call =
            async move { dispatcher.call_idempotent(&session, call, &origin, None, Some(outer)).await };
        let task = tokio::spawn(self.dispatcher.0.detached.track(call));
        AbortOnDropHandle::new(task).await.map_err(|_| task_failure())
    }

    /// The answer as the script gets it, or the end of the script.
    fn result_of(&self, answer: Result<CallAnswer, CallError>) -> InnerCall {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return InnerCall { result: Some(Err(error)), fuel: 0 },
        };
        let outcome = &answer.outcome;
        self.inner_fuel.fetch_add(outcome.usage.fuel, Ordering::Relaxed);
        // The guest waits for all of its calls, so nothing else writes.
        let egress_left = self.egress_left.load(Ordering::Relaxed).saturating_sub(outcome.usage.egress_bytes);
        self.egress_left.store(egress_left, Ordering::Relaxed);
        let ends = |state| {
            self.end.lock().get_or_insert(state);
            None
        };
        let (note, content) = outcome.split_content();
        self.notes.lock().extend(note.cloned());
        let result = match (&outcome.state, outcome.output()) {
            (_, Some(output)) => Some(Ok(output_for_script(output, content))),
            (OutcomeState::ApprovalRequired(approval), _) => {
                ends(OutcomeState::ApprovalRequired(approval.clone()))
            }
            (OutcomeState::Error(error) | OutcomeState::Unknown(error), _) => match error.error_type {
                ErrorType::Conflict => ends(OutcomeState::Error(other_call())),
                // The first run had an answer.
                ErrorType::Expired | ErrorType::Unknown => ends(OutcomeState::Error(error.clone())),
                _ => Some(Err(error.clone())),
            },
            _ => ends(OutcomeState::Error(other_call())),
        };
        InnerCall { result, fuel: outcome.usage.fuel }
    }
}

impl OtherTools for Script {
    fn list(&self) -> (String, usize) {
        let (rules, facts) = (self.rules(), self.session.state.facts());
        let tools = admission::callable(&rules, &facts);
        let mut listed: Vec<_> = tools
            .filter(|(tool, _)| refuse_in_script(tool).is_none())
            .map(|(tool, _)| ListedTool {
                name: tool.id().to_string(),
                description: &tool.descriptor().description,
            })
            .collect();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        (serde_json::to_string(&listed).unwrap_or_default(), rules.catalogue.tools().len())
    }

    fn describe(&self, tool: &str) -> Result<String, CallError> {
        let (rules, facts) = (self.rules(), self.session.state.facts());
        let is_callable = |found: &Tool<Component>| {
            let decision = admission::decide(&rules, &facts, &found.id().to_string());
            !matches!(decision, Decision::Refused(_))
        };
        let found = find(&rules, tool).filter(is_callable);
        let found = found.ok_or_else(|| admission::Refusal::not_given(tool).error)?;
        refuse_in_script(&found).map_or_else(|| Ok(signature::description(found.descriptor())), Err)
    }

    fn call_all(
        &self,
        calls: Vec<(String, String)>,
        fuel: u64,
    ) -> Pin<Box<dyn Future<Output = Vec<InnerCall>> + Send + '_>> {
        Box::pin(self.run_all(calls, fuel))
    }
}

/// The output as a script gets it. Content blocks in its place, which tools of MCP servers give, are a list (R11).
fn output_for_script(output: &RawValue, content: &[ContentBlock]) -> String {
    match output.get() {
        "null" if !content.is_empty() => serde_json::to_string(content).unwrap_or_default(),
        output => output.to_owned(),
    }
}

fn find(rules: &Rules<Component>, called: &str) -> Option<Tool<Component>> {
    rules.catalogue.find(&read_called_name(called)?.to_string()).cloned()
}

/// The refusal of a tool that works outside of scripts only.
pub fn refuse_in_script(tool: &Tool<Component>) -> Option<CallError> {
    let (message, hint) = if tool.access().may_call_tools() {
        ("a script cannot start another script", "write one script")
    } else if tool.descriptor().mode == Mode::Client {
        let hint = "return what the call needs, and make the call after the script";
        ("the client performs this tool, so a script cannot call it", hint)
    } else {
        return None;
    };
    Some(CallError::new(ErrorType::AccessDenied, message, hint))
}

fn too_many(allowed: u64) -> CallError {
    CallError::new(
        ErrorType::QuotaExceeded,
        format!("the script has made the {allowed} calls that it may make (`inner_calls`)"),
        "make fewer calls, or go on in another script",
    )
    .retryable(false)
}

fn too_many_at_once() -> CallError {
    let message = format!("more than {AT_ONCE} calls are made at once");
    CallError::new(ErrorType::QuotaExceeded, message, "make the rest when these have ended").retryable(false)
}

fn other_call() -> CallError {
    CallError::new(
        ErrorType::Conflict,
        "the script, run again after an approval, made another call than the first time",
        "make what the script calls depend on its arguments and on results of tools alone; use a new id to run it anew",
    )
}

fn task_failure() -> CallError {
    CallError::new(
        ErrorType::Internal,
        "the daemon failed while it carried the inner call out",
        "tell the operator; the daemon's log says more",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_a_script_gets_content_where_a_tool_has_no_output() {
        let content = [ContentBlock::Text { text: "two".to_owned() }];
        let output = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(output_for_script(&output("null"), &content), r#"[{"type":"text","text":"two"}]"#);
        assert_eq!(output_for_script(&output("null"), &[]), "null");
        assert_eq!(output_for_script(&output("[1]"), &content), "[1]");
    }
}
