//! Calls that wait, as tasks (extension `io.modelcontextprotocol/tasks`).
//!
//! A client that knows the extension gets a task in place of a response that comes late. A call that waits for a person or
//! for the client's program becomes one. `tasks/get` posts the call again, so it runs once it is approved.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{CreateTaskResult, DetailedTask, GetTaskResult, Task, TaskPayload, TaskStatus};
use rmcp::service::RequestContext;
use rmcp::task_manager::current_timestamp;
use rmcp::{ErrorData, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolgate_api::call::CallStatus;
use toolgate_api::error::ErrorType;
use toolgate_core::call::{CallOutcome, RequestedCall};
use toolgate_core::sessions::Session;
use toolgate_state::clock::now_ms;

use super::answers;
use super::clients::Client;
use super::handler::{is_stateless, origin_of};

/// Tasks of a client that are remembered. The oldest gives way to a new one.
const TASKS: usize = 256;

/// How long `tasks/get` waits for a call that runs. The call goes on by itself.
const GET_WAIT: Duration = Duration::from_secs(2);

/// Interval at which a client should ask.
const POLL_INTERVAL_MS: u64 = 2_000;

/// The tasks of a client, by their ids, which are those of the calls.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<String, CallTask>>);

/// A task: a call that may be posted again, and its session.
#[derive(Clone)]
struct CallTask {
    session: Arc<Session>,
    call: RequestedCall,
    created_at: String,
    created_ms: u64,
}

/// Whether the client takes a task as the response to a call. Older revisions have another form of tasks: the Inspector declares
/// the extension in 2025-11-25, and does not read its results.
pub(super) fn takes_tasks(context: &RequestContext<RoleServer>) -> bool {
    is_stateless(context)
        && context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// The reason why a call waits.
pub(super) fn reason(outcome: &CallOutcome) -> String {
    match outcome.approval() {
        Some(approval) => format!("waiting for a person's approval `{}`", approval.id),
        None if outcome.status() == CallStatus::Running => "running".to_owned(),
        None => "waiting for the client's result".to_owned(),
    }
}

impl Tasks {
    /// The task of a call that waits.
    pub(super) fn create(
        &self,
        client: &Client,
        session: &Arc<Session>,
        call: RequestedCall,
        outcome: &CallOutcome,
    ) -> CreateTaskResult {
        let mut tasks = self.0.lock();
        if tasks.len() >= TASKS {
            let oldest = tasks.iter().min_by_key(|(_, task)| task.created_ms).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| tasks.remove(&oldest));
        }
        let task = CallTask {
            session: Arc::clone(session),
            call: RequestedCall { id_is_new: false, outlives_request: true, ..call },
            created_at: current_timestamp(),
            created_ms: now_ms(),
        };
        let described = task.describe(client).with_status_message(reason(outcome));
        tasks.insert(task.call.id.clone(), task);
        CreateTaskResult::new(described)
    }

    fn find(&self, id: &str) -> Result<CallTask, ErrorData> {
        let task = self.0.lock().get(id).cloned();
        task.ok_or_else(|| ErrorData::invalid_params("the task is unknown", None))
    }

    /// The present state of a task. Its call runs if it may do so by now.
    pub(super) async fn get(
        &self,
        client: &Client,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.find(id)?;
        task.session.touch(now_ms());
        let (dispatcher, origin) = (client.app.dispatcher(), origin_of(client, context));
        let running = dispatcher.single(&task.session, task.call.clone(), &origin);
        let answer = tokio::time::timeout(GET_WAIT, running).await.ok();
        let described = task.describe(client);
        let Some(answer) = answer else {
            let described = described.with_status_message("running");
            return Ok(GetTaskResult::new(DetailedTask::new(described, TaskPayload::Working)));
        };
        let cancelled = answer.error().is_some_and(|error| error.error_type == ErrorType::Cancelled);
        Ok(GetTaskResult::new(match answer.status() {
            CallStatus::ApprovalRequired | CallStatus::ClientRequired | CallStatus::Running => {
                DetailedTask::new(described.with_status_message(reason(&answer)), TaskPayload::Working)
            }
            _ if cancelled => DetailedTask::new(described, TaskPayload::Cancelled),
            _ => DetailedTask::new(
                described,
                match answers::result(&client.app, &task.session, &task.call.tool, &answer).await {
                    Ok(result) => TaskPayload::Completed { result: object(&result)? },
                    Err(error) => TaskPayload::Failed { error: object(&error)? },
                },
            ),
        }))
    }

    /// Acknowledges inputs for a task. A question is asked in the result of its call, so no task waits for any.
    pub(super) fn update(&self, id: &str) -> Result<(), ErrorData> {
        self.find(id).map(drop)
    }

    /// Cancels the call of a task. A call that has ended stays as it is.
    pub(super) async fn cancel(&self, client: &Client, id: &str) -> Result<(), ErrorData> {
        let task = self.find(id)?;
        let (dispatcher, origin) = (client.app.dispatcher(), client.actor().origin());
        let cancelled = dispatcher.cancel(&task.session, id, &origin).await;
        cancelled.map_err(|error| ErrorData::internal_error(error.message, None))
    }
}

impl CallTask {
    /// The task without its state. It is kept as long as its session, which each request about it prolongs.
    fn describe(&self, client: &Client) -> Task {
        let idle_ms = client.app.settings().sessions.idle_seconds.saturating_mul(1000);
        let ttl_ms = now_ms().saturating_sub(self.created_ms).saturating_add(idle_ms);
        Task::new(&self.call.id, TaskStatus::Working, &self.created_at, current_timestamp())
            .with_ttl_ms(ttl_ms)
            .with_poll_interval_ms(POLL_INTERVAL_MS)
    }
}

/// A value as the JSON object that a task carries.
fn object<T: DeserializeOwned>(value: &impl Serialize) -> Result<T, ErrorData> {
    let object = serde_json::to_value(value).and_then(serde_json::from_value);
    object.map_err(|_| ErrorData::internal_error("the result cannot be written", None))
}
