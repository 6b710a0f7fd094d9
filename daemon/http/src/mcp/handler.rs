//! The methods of the MCP server.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, DiscoverResult,
    ElicitRequest, ElicitRequestParams, ErrorCode, GetTaskParams, GetTaskResult, Implementation,
    InitializeRequestParams, InitializeResult, InputRequest, InputRequiredResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ProtocolVersion, ServerCapabilities,
    ServerConfig, SubscriptionFilter, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use toolgate_api::call::CallStatus;
use toolgate_api::error::CallError;
use toolgate_api::event::{Event, EventKind, EventProgress};
use toolgate_api::name::read_called_name;
use toolgate_core::call::{CallAnswer, CallOutcome, RequestedCall};
use toolgate_core::dispatch::{ClientResult, Origin, ResultRefusal};
use toolgate_core::events::{Received, Scope, Subscriber};
use toolgate_state::clock::now_ms;
use toolgate_state::identifier;

use super::clients::{CallKey, Client, Opened, call_key};
use super::lists::{Performs, ToolKey};
use super::{AmbiguousArguments, ToolsShown, answers, ask, lists, tasks};
use crate::extract::trace_of;
use crate::frame;
use crate::problem::Problem;
use crate::prompt::{self, system_prompt};

/// Tools of one page.
const PAGE_TOOLS: usize = 250;

/// How long a client may keep a list. It is told of changes.
const LIST_TTL_MS: u64 = 60_000;

/// How long a call waits for a person, unless its client says another time: shorter than the usual timeout of clients.
const WAIT_MS: u64 = 50_000;

/// Longest time that a client may say.
const LONGEST_WAIT_MS: u64 = 24 * 3600 * 1000;

/// Interval at which a waiting call says what it waits for.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

/// The difference of progress between two messages of which the second comes without more of it.
const PROGRESS_STEP: f64 = 0.001;

/// Interval at which the task of a session looks whether the session has ended.
const SESSION_LOOK: Duration = Duration::from_secs(15);

/// Members of `_meta`: how long a call may wait for a person, and whether the client performs calls itself.
const WAIT_META: &str = "toolgate/wait-ms";
const CLIENT_TOOLS_META: &str = "toolgate/client-tools";

/// The handler of every request. The client is an extension of the request.
#[derive(Clone)]
pub(super) struct Handler;

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder();
        let capabilities = capabilities.enable_tools().enable_tool_list_changed().enable_tasks().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolgate", env!("CARGO_PKG_VERSION")))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions = Some(instructions(&client_of(&context.extensions)?).await);
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        info.instructions = Some(instructions(&client_of(&context.extensions)?).await);
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), info))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let client = client_of(&context.extensions)?;
        let performs = Performs { all: performs_calls(&context), questions: ask::shows_forms(&context) };
        let mut tools = lists::list(&client, performs).await;
        // A cursor is the name of the last tool of the page before, so that a changed list neither repeats nor skips.
        let cursor = request.and_then(|request| request.cursor);
        // Clients of older revisions write an empty one for none.
        let is_none = |cursor: &String| cursor.is_empty() && !is_stateless(&context);
        if let Some(cursor) = cursor.filter(|cursor| !is_none(cursor)) {
            if read_called_name(&cursor).is_none() {
                return Err(ErrorData::invalid_params("the cursor is not one of a list", None));
            }
            tools.retain(|tool| *tool.name > *cursor);
        }
        let mut result = ListToolsResult::with_all_items(tools);
        if result.tools.len() > PAGE_TOOLS {
            result.tools.truncate(PAGE_TOOLS);
            result.next_cursor = result.tools.last().map(|tool| tool.name.to_string());
        }
        result.ttl_ms = Some(LIST_TTL_MS);
        result.cache_scope = Some(CacheScope::Private);
        Ok(result)
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = client_of(&context.extensions)?;
        let (name, arguments) = match (client.shown, &*request.name) {
            (ToolsShown::Search, lists::FIND) => {
                let found = lists::search(&client, text_argument(&request, "query")).await;
                return Ok(found.map_or_else(|problem| failure(&problem), CallToolResult::structured).into());
            }
            (ToolsShown::Search, lists::DESCRIBE) => {
                let name = text_argument(&request, "name");
                let Some(tool) = lists::describe(&client, name).await else {
                    return Ok(answers::not_found_by_search(name).into());
                };
                return Ok(CallToolResult::structured(serde_json::to_value(tool).unwrap_or_default()).into());
            }
            (ToolsShown::Search, lists::CALL) => {
                let inner = request.arguments.as_ref().and_then(|arguments| arguments.get("arguments"));
                (
                    text_argument(&request, "name").to_owned(),
                    inner.map_or_else(|| "{}".to_owned(), Value::to_string),
                )
            }
            _ => {
                let arguments = request.arguments.take().unwrap_or_default();
                (request.name.to_string(), Value::Object(arguments).to_string())
            }
        };
        let arguments = ambiguous_arguments(&context).unwrap_or(arguments);
        let opened = match client.session().await {
            Ok(opened) => opened,
            Err(problem) => return Ok(failure(&problem).into()),
        };
        let input = request.input_responses.as_ref().and_then(|inputs| inputs.get(ask::INPUT));
        let answer = input.map(ask::answer_of);
        let is_found_by_search = client.shown == ToolsShown::Search && *request.name == *lists::CALL;
        let call = Call { client: &client, opened, name: name.clone(), arguments, context: &context };
        match call.run(answer).await {
            // For the model: an error of the protocol is an exception in most clients.
            Err(error) if is_found_by_search && error.code == ErrorCode::INVALID_PARAMS => {
                Ok(answers::not_found_by_search(&name).into())
            }
            result => result,
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = client_of(&context.extensions)?;
        client.tasks().await.get(&client, &request.task_id, &context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = client_of(&context.extensions)?;
        client.tasks().await.update(&request.task_id)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = client_of(&context.extensions)?;
        client.tasks().await.cancel(&client, &request.task_id).await
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let client = client_of(&context.request_context().extensions)?;
        let mut end = std::pin::pin!(client.caller.wait_for_end());
        let stop = client.app.0.stop.clone();
        let mut list = FollowedList::new(client).await;
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = stop.cancelled() => return Ok(()),
                () = &mut end => return Ok(()),
                is_changed = list.wait_for_change() => match is_changed {
                    true if context.sink().notify_tool_list_changed().await.is_ok() => {}
                    _ => return Ok(()),
                },
            }
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(client) = client_of(&context.extensions) else { return };
        // A client may send it at any time and often.
        if !client.clients.begin_following(&client) {
            return;
        }
        let peer = context.peer;
        // A session outlives an access token, which its client renews.
        let revoked = match client.caller.expires_ms {
            Some(_) => CancellationToken::new(),
            None => client.caller.revoked.clone(),
        };
        tokio::spawn(revoked.run_until_cancelled_owned(async move {
            let mut list = FollowedList::new(client).await;
            while let Some(is_changed) = list.wait_for_change_within(SESSION_LOOK).await {
                let is_over = match is_changed {
                    true => peer.notify_tool_list_changed().await.is_err(),
                    false => peer.is_transport_closed(),
                };
                if is_over {
                    return;
                }
            }
        }));
    }
}

/// A list of which the client is told when it changes.
struct FollowedList {
    client: Client,
    changes: watch::Receiver<u64>,
    tools: Vec<ToolKey>,
}

impl FollowedList {
    async fn new(client: Client) -> Self {
        let changes = client.app.services().registry.changes();
        let tools = lists::keys(&client).await;
        Self { client, changes, tools }
    }

    /// Waits for the next change, at most this long. Returns whether there was one; none when the daemon stops.
    async fn wait_for_change_within(&mut self, longest: Duration) -> Option<bool> {
        match tokio::time::timeout(longest, self.wait_for_change()).await {
            Ok(true) => Some(true),
            Ok(false) => None,
            Err(_) => Some(false),
        }
    }

    /// Waits for the next change. Returns false when the daemon stops.
    async fn wait_for_change(&mut self) -> bool {
        loop {
            if self.changes.changed().await.is_err() {
                return false;
            }
            let now = lists::keys(&self.client).await;
            if now != self.tools {
                self.tools = now;
                return true;
            }
        }
    }
}

/// A text among the arguments; empty if there is none.
fn text_argument<'a>(request: &'a CallToolRequestParams, name: &str) -> &'a str {
    let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// The instructions: about the list that the client gets (G2).
async fn instructions(client: &Client) -> String {
    let (listed, callable) = lists::names(client).await;
    let names = listed.iter().map(String::as_str);
    match client.app.settings().mcp.strict_instructions {
        true => system_prompt(names, callable),
        false => prompt::instructions(names, callable),
    }
}

/// Whether the request is of the revision that has no sessions.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28)
}

fn client_of(extensions: &rmcp::model::Extensions) -> Result<Client, ErrorData> {
    let parts = extensions.get::<axum::http::request::Parts>();
    let client = parts.and_then(|parts| parts.extensions.get::<Client>());
    client.cloned().ok_or_else(|| ErrorData::internal_error("the daemon does not know who is calling", None))
}

/// Whether the client's program performs calls of tools of mode `client`.
fn performs_calls(context: &RequestContext<RoleServer>) -> bool {
    context.meta.get(CLIENT_TOOLS_META) == Some(&Value::Bool(true))
}

/// The arguments as they were sent, if the parsed ones may say something else: the gate refuses them with the place.
fn ambiguous_arguments(context: &RequestContext<RoleServer>) -> Option<String> {
    let parts = context.extensions.get::<axum::http::request::Parts>()?;
    let AmbiguousArguments(sent) = parts.extensions.get()?;
    sent.as_deref().map(str::to_owned)
}

/// The origin of a client's calls, with its trace: in `_meta` (SEP-414), or in the fields of the HTTP request.
pub(super) fn origin_of(client: &Client, context: &RequestContext<RoleServer>) -> Origin {
    let traces = &client.app.services().traces;
    let meta = |name: &str| context.meta.get(name).and_then(Value::as_str);
    let of_meta = traces.parent(meta("traceparent"), meta("tracestate"));
    let parts = context.extensions.get::<axum::http::request::Parts>();
    let trace = of_meta.or_else(|| trace_of(traces, &parts?.headers));
    Origin { trace, ..client.actor().origin() }
}

fn failure(Problem(error): &Problem) -> CallToolResult {
    answers::failure(error, text_of(error))
}

fn cancellation() -> ErrorData {
    ErrorData::internal_error("the call was cancelled", None)
}

fn text_of(error: &CallError) -> String {
    frame::visible(&format!("{}\n{}", error.message, error.hint))
}

/// A call, from its request to its result.
struct Call<'a> {
    client: &'a Client,
    opened: Arc<Opened>,
    name: String,
    arguments: String,
    context: &'a RequestContext<RoleServer>,
}

impl Call<'_> {
    /// Runs the call. Its cancellation, and the end of its stream, stop it.
    async fn run(self, answer: Option<ClientResult>) -> Result<CallToolResponse, ErrorData> {
        let key = call_key(&self.name, &self.arguments);
        let waiting = self.opened.waiting.lock().get(&key).cloned();
        if let (Some(answer), Some(id)) = (answer, &waiting) {
            self.opened.waiting.lock().remove(&key);
            return Ok(self.take(id, answer).await?.into());
        }
        let call = RequestedCall {
            id_is_new: waiting.is_none(),
            id: waiting.unwrap_or_else(|| identifier::fresh("c")),
            ..RequestedCall::new("", &self.name, self.arguments.as_str().into())
        };
        let (id, name) = (call.id.clone(), self.name.clone());
        // A client that gives up while its call waits finds it again by calling again.
        let answer = tokio::select! {
            answer = self.answer(call.clone(), key) => answer,
            () = self.context.ct.cancelled() => return Err(cancellation()),
        };
        if let Some(question) = ask::question(&name, &answer).filter(|_| ask::shows_forms(self.context)) {
            if is_stateless(self.context) {
                self.opened.remember(key, id);
                let question = InputRequest::Elicitation(ElicitRequest::new(question));
                let inputs = [(ask::INPUT.to_owned(), question)].into();
                return Ok(CallToolResponse::InputRequired(InputRequiredResult::from_input_requests(inputs)));
            }
            return Ok(self.ask(&id, question, &answer).await?.into());
        }
        if self.is_unanswerable(&answer) {
            self.opened.waiting.lock().remove(&key);
            return Ok(self.take(&id, ClientResult::Failed(ask::NO_FORMS.to_owned())).await?.into());
        }
        match answer.status() {
            CallStatus::ApprovalRequired | CallStatus::ClientRequired => {
                if tasks::takes_tasks(self.context) {
                    let task = self.opened.tasks.create(self.client, &self.opened.session, call, &answer);
                    return Ok(task.into());
                }
            }
            _ => drop(self.opened.waiting.lock().remove(&key)),
        }
        Ok(answers::result(&self.client.app, &self.opened.session, &name, &answer).await?.into())
    }

    /// Whether it is a question that this client shows nobody.
    fn is_unanswerable(&self, answer: &CallAnswer) -> bool {
        ask::question(&self.name, answer).is_some()
            && !ask::shows_forms(self.context)
            && !performs_calls(self.context)
    }

    /// Asks the client's user by a request, as long as the call waits for the answer. Cancelling the tool call cancels it.
    async fn ask(
        &self,
        id: &str,
        question: ElicitRequestParams,
        asking: &CallOutcome,
    ) -> Result<CallToolResult, ErrorData> {
        let left_ms = asking.expires_ms().unwrap_or_default().saturating_sub(now_ms());
        let left = Some(Duration::from_millis(left_ms));
        let answered = tokio::select! {
            answered = self.context.peer.create_elicitation_with_timeout(question, left) => answered,
            () = self.context.ct.cancelled() => {
                let (dispatcher, origin) = (self.client.app.dispatcher(), self.client.actor().origin());
                let cancelled = dispatcher.cancel(&self.opened.session, id, &origin).await;
                return Err(cancelled.err().map_or_else(cancellation, |error| ErrorData::internal_error(error.message, None)));
            }
        };
        let answer = answered.map_or_else(
            |error| ClientResult::Failed(format!("The question was not shown: {error}")),
            ask::answer,
        );
        self.take(id, answer).await
    }

    /// Gives the user's answer to the call that waits for it.
    async fn take(&self, id: &str, answer: ClientResult) -> Result<CallToolResult, ErrorData> {
        let Client { app, .. } = self.client;
        let origin = self.client.actor().origin();
        match app.dispatcher().take_result(&self.opened.session, id, answer, &origin).await {
            Ok(outcome) => answers::result(app, &self.opened.session, &self.name, &outcome).await,
            Err(ResultRefusal::Refused(error)) => Ok(answers::failure(&error, text_of(&error))),
            Err(ResultRefusal::NotForClient) => {
                Err(ErrorData::invalid_params("the call does not wait for an answer", None))
            }
        }
    }

    /// Waits for the outcome, also while a person or the client's program acts, as long as the client has time.
    async fn answer(&self, mut call: RequestedCall, key: CallKey) -> CallAnswer {
        let Client { app, organization, .. } = self.client;
        let token = self.context.meta.get_progress_token();
        // Events are written only if a subscriber listens.
        let subscribe = |_: &_| app.services().events.subscribe(Scope::Organization(organization.clone()));
        let mut events = token.as_ref().and_then(subscribe);
        let wait_ms = self.context.meta.get(WAIT_META).and_then(Value::as_u64).or(self.client.wait_ms);
        let until = Instant::now() + Duration::from_millis(wait_ms.unwrap_or(WAIT_MS).min(LONGEST_WAIT_MS));
        // After the expiry of an access token, the client calls again with a new one.
        let until = until.min(self.client.caller.expiry().unwrap_or(until));
        let mut progress = Progress { token, peer: &self.context.peer, last: None };
        let mut permit = None;
        loop {
            let origin = origin_of(self.client, self.context);
            let running = app.dispatcher().single(&self.opened.session, call.clone(), &origin);
            let answer = progress.follow(running, events.as_mut(), &self.opened, &call.id).await;
            let asks = ask::shows_forms(self.context) && ask::question(&self.name, &answer).is_some();
            let waits = matches!(answer.status(), CallStatus::ApprovalRequired | CallStatus::ClientRequired);
            if asks || !waits || self.is_unanswerable(&answer) || tasks::takes_tasks(self.context) {
                return answer;
            }
            permit = permit.or_else(|| self.opened.waits.try_acquire().ok());
            self.opened.remember(key, call.id.clone());
            if permit.is_none() || !self.wait_for_decision(&call.id, &answer, &mut progress, until).await {
                return answer;
            }
            // Posted again, the call runs once it is approved, and gives the client's result once it is there.
            call.id_is_new = false;
        }
    }

    /// Waits for the decision about a call, at most until `until`. Returns whether there is one.
    async fn wait_for_decision(
        &self,
        call: &str,
        asking: &CallOutcome,
        progress: &mut Progress<'_>,
        until: Instant,
    ) -> bool {
        let Client { app, .. } = self.client;
        let reason = tasks::reason(asking);
        let mut decision = app.dispatcher().wait_while_undecided(&self.opened.session, call);
        loop {
            progress.tell(0.0, None, Some(&reason)).await;
            let next = until.min(Instant::now() + TELL_INTERVAL);
            tokio::select! {
                () = &mut decision => return true,
                () = app.0.stop.cancelled() => return false,
                () = sleep_until(next) => {}
            }
            self.opened.session.touch(now_ms());
            if next == until {
                return false;
            }
        }
    }
}

/// Messages about a call for a client that asked for them.
struct Progress<'a> {
    token: Option<ProgressToken>,
    peer: &'a Peer<RoleServer>,
    /// The number of the newest message.
    last: Option<f64>,
}

impl Progress<'_> {
    /// Waits for a call, and passes on what its plugin says meanwhile.
    async fn follow<T>(
        &mut self,
        running: impl Future<Output = T>,
        events: Option<&mut Subscriber>,
        opened: &Opened,
        call: &str,
    ) -> T {
        let mut running = std::pin::pin!(running);
        let Some(events) = events.filter(|_| self.token.is_some()) else { return running.await };
        let is_ours = |event: &Event| *event.session == *opened.session.setup.id && *event.call == *call;
        let outcome = loop {
            tokio::select! {
                biased;
                received = events.next() => self.pass_on(received, is_ours).await,
                outcome = &mut running => break outcome,
            }
        };
        // A fast plugin tells its progress and ends before the select looks again.
        while let Some(received) = events.try_next() {
            self.pass_on(received, is_ours).await;
        }
        outcome
    }

    /// Sends the progress of a call, of the events that are its own.
    async fn pass_on(&mut self, received: Received, is_ours: impl Fn(&Event) -> bool) {
        if let Received::Event(event) = received
            && is_ours(&event)
            && event.event == EventKind::Progress
            && let Some(EventProgress { done, total, message }) = event.progress.as_ref()
        {
            self.tell(*done as f64, *total, message.as_deref()).await;
        }
    }

    /// Sends a message. Its number is the amount done, or a little more than the one before, since it must increase.
    async fn tell(&mut self, done: f64, total: Option<u64>, message: Option<&str>) {
        let Some(token) = &self.token else { return };
        let done = self.last.map_or(done, |last| done.max(last + PROGRESS_STEP));
        self.last = Some(done);
        let mut told = ProgressNotificationParam::new(token.clone(), done);
        told.total = total.map(|total| total as f64);
        told.message = message.map(frame::visible);
        let _ = self.peer.notify_progress(told).await;
    }
}
