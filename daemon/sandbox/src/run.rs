//! The life of one call: a store, an instance, one exported function, and everything dropped again.
//!
//! The deadline is around the whole of it, since a guest that waits in a host call burns no fuel and
//! passes no epoch check: dropping the future is what stops it. Usage is read from the store after the
//! end, whichever end it was; the store outlives the future for that reason.

use std::borrow::Cow;
use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toolgate_admission::{Admitted, Limits};
use toolgate_api::error::{CallError, Details, ErrorType};
use wasmtime::Store;

use crate::component::Component;
use crate::contract::{Failure, Outcome};
use crate::effect::{BeforeEffect, Effect, ProgressSink};
use crate::egress::{Credentials, Upstreams};
use crate::engine::Sandbox;
use crate::host_calls::HostCalls;
use crate::limiter::saturating;
use crate::outcome::{Finished, Output, Usage};
use crate::state::CallState;
use crate::trap;
use crate::turns::Turn;
use crate::workspace::Workspace;

/// Limits of `describe`: it computes a text and may do nothing else.
const DESCRIBE_LIMITS: Limits = Limits {
    fuel: 2_000_000_000,
    deadline_ms: 10_000,
    output_bytes: 4 * 1024 * 1024,
    // A definition goes in, and a description comes out.
    host_call_bytes: 8 * 1024 * 1024 + 64 * 1024,
    ..Limits::DEFAULT
};

/// Longest text of a failure that is passed on, in bytes. A message is for reading.
const FAILURE_MESSAGE_BYTES: usize = 4 * 1024;

/// Largest `details` of a failure that is passed on, in bytes.
const FAILURE_DETAILS_BYTES: usize = 16 * 1024;

/// Everything about a call that its limits and its component do not say.
pub struct CallContext {
    /// Id of the call, unique in its session.
    pub call_id: Arc<str>,
    /// For whom it is made; the calls of a session share it.
    pub made_for: Arc<MadeFor>,
    /// When the call is stopped; time in the queue counts.
    pub deadline: tokio::time::Instant,
    /// The session's files. Reached only where they are granted.
    pub workspace: Option<Workspace>,
    /// What time it is for the guest.
    pub clock: CallClock,
    /// Seed of the guest's random numbers.
    pub seed: [u8; 32],
    /// The organization's settings for the plugin, as JSON text.
    pub settings: Cow<'static, str>,
    /// How upstreams are reached, by calls that may reach any.
    pub upstreams: Option<Upstreams>,
    /// Asked for what goes into their requests.
    pub credentials: Credentials,
    /// Awaited before the call's first effect.
    pub before_effect: BeforeEffect,
    /// Told how far the call is.
    pub progress: ProgressSink,
    /// Whether its requests are kept as they were sent, with what came back: for a person who tries a tool.
    pub traced: bool,
}

/// For whom a call is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeFor {
    /// Id of the session.
    pub session: Box<str>,
    /// The orchestrator's conversation.
    pub conversation: Option<Box<str>>,
    /// The organization's name.
    pub organization: Arc<str>,
    /// The agent's name.
    pub agent: Box<str>,
    /// Whom the orchestrator says it acts for.
    pub user: Option<Box<str>>,
    /// Where the conversation takes place.
    pub channel: Option<Box<str>>,
}

/// The guest's clock, so that a call can be run again with the same time.
#[derive(Clone, Debug)]
pub enum CallClock {
    /// Runs on from a moment.
    Running {
        /// Wall time at the start of the call.
        started: SystemTime,
        /// The same moment on the machine's steady clock.
        origin: Instant,
    },
    /// Stands still: for `describe`, which must not depend on time, and for calls that are to be repeated.
    Stopped {
        /// Time since 1970.
        at: Duration,
    },
}

impl CallClock {
    /// The clock of a call that starts now.
    pub fn start(now: SystemTime) -> Self {
        Self::Running { started: now, origin: Instant::now() }
    }

    pub(crate) fn since_epoch(&self) -> Duration {
        match self {
            Self::Running { started, .. } => {
                started.duration_since(UNIX_EPOCH).unwrap_or_default() + self.elapsed()
            }
            Self::Stopped { at } => *at,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        match self {
            Self::Running { origin, .. } => origin.elapsed(),
            Self::Stopped { .. } => Duration::ZERO,
        }
    }
}

/// What an organization has a plugin made of.
pub struct Definition {
    /// As the component reads it.
    pub text: Arc<str>,
    /// Whose it is.
    pub organization: Arc<str>,
}

/// How long a call may run.
struct Until<S> {
    deadline: tokio::time::Instant,
    /// Ready when nobody wants it any more.
    stop: S,
}

impl Sandbox {
    /// Runs one admitted call. Never panics and never fails: whatever happens inside is an outcome.
    ///
    /// When `stop` is ready, the call is stopped at once; what it did and used until then is told all the same, which it is
    /// not where the future is dropped.
    pub async fn run(
        &self,
        call: &Admitted<Component>,
        context: CallContext,
        stop: impl Future<Output = ()>,
    ) -> Finished {
        let tool = call.tool().name.as_str();
        let arguments = call.arguments().raw();
        let deadline = context.deadline;
        let definition = call.tool().definition.clone();
        let (limits, reach, digest) = (call.limits(), call.access(), call.digest().as_str());
        let state = CallState::new(context, limits, reach, digest, definition, self.inner.ticks.clone());
        let until = Until { deadline, stop };
        self.enter(call.component(), limits, until, self.store(state, limits), async |plugin, store| {
            plugin.toolgate_plugin_tools().call_call(store, tool, arguments).await
        })
        .await
    }

    /// Asks a component what it is, or what the definition makes of it, in the turns of the organization whose that is
    /// and in an instance of a slot that the caller has. Without a definition it has a place of its own, and waits for it.
    /// No capability, fixed limits, a clock that stands still.
    pub async fn describe(
        &self,
        component: &Component,
        definition: Option<Definition>,
    ) -> Result<String, CallError> {
        let _place = match definition {
            // It is never closed.
            None => self.inner.describing.acquire().await.ok(),
            Some(_) => None,
        };
        let deadline = tokio::time::Instant::now() + Duration::from_millis(DESCRIBE_LIMITS.deadline_ms);
        let until = Until { deadline, stop: future::pending() };
        let mut context = CallContext::powerless("describe", deadline);
        let definition = definition.map(|Definition { text, organization }| {
            context.made_for = Arc::new(MadeFor { organization, ..MadeFor::default() });
            text
        });
        let ticks = self.inner.ticks.clone();
        let state = CallState::new(context, &DESCRIBE_LIMITS, &Arc::default(), "", definition, ticks);
        let finished = self
            .enter(
                component,
                &DESCRIBE_LIMITS,
                until,
                self.store(state, &DESCRIBE_LIMITS),
                async |plugin, store| {
                    let described = plugin.toolgate_plugin_tools().call_describe(store).await?;
                    Ok(described.map(Outcome::Output))
                },
            )
            .await;
        match finished.outcome? {
            Output::Result(json) | Output::Client(json) => Ok(json),
        }
    }

    async fn enter(
        &self,
        component: &Component,
        limits: &Limits,
        until: Until<impl Future<Output = ()>>,
        mut store: Store<CallState>,
        call: impl AsyncFnOnce(
            &crate::contract::Plugin,
            &mut Store<CallState>,
        ) -> wasmtime::Result<Result<Outcome, Failure>>,
    ) -> Finished {
        let began = Instant::now();
        let organization = Arc::clone(&store.data().context.made_for.organization);
        let turn = Turn::ended_by_ticks(&mut store, |state| state.host_calls.was_tick(), &self.inner.ticks);
        let mut executed = false;
        let ended = {
            let guest = pin!(async {
                // It may have passed while the call waited for its place; then nothing of it runs.
                if tokio::time::Instant::from_std(began) >= until.deadline {
                    return future::pending().await;
                }
                let plugin = component.plugin().instantiate_async(&mut store).await?;
                executed = true;
                call(&plugin, &mut store).await
            });
            let guest = self.inner.turns.take(&organization, until.deadline, &turn, guest);
            // In this order, since most calls end in their first poll, and waiting to be stopped takes locks.
            tokio::select! {
                biased;
                ended = tokio::time::timeout_at(until.deadline, guest) => {
                    ended.map_err(|_| trap::deadline_exceeded(limits))
                }
                () = until.stop => Err(CallError::cancelled()),
            }
        };
        let fuel = store.get_fuel().ok();
        // A component can compute while it is instantiated.
        executed |= fuel.is_some_and(|left| left < limits.fuel);
        let outcome = match ended {
            Ok(Ok(Ok(outcome))) => accept(outcome, limits),
            Ok(Ok(Err(failure))) => Err(blame(failure, &store, limits)),
            Ok(Err(error)) => {
                let calls = &mut store.data_mut().host_calls;
                calls.failed = fuel.is_some() && calls.fuel_at_return == fuel;
                Err(trap::explain(&error, store.data(), limits))
            }
            Err(stopped) => Err(stopped),
        };
        finish(store, outcome, executed, limits, began)
    }

    fn store(&self, state: CallState, limits: &Limits) -> Store<CallState> {
        let mut store = Store::new(&self.inner.engine, state);
        store.limiter(|state| {
            // Asked for nothing else than to let something grow.
            state.host_calls.was_growth();
            &mut state.limiter
        });
        store.set_hostcall_fuel(saturating(limits.host_call_bytes));
        store.set_max_component_handles(saturating(limits.component_handles));
        // Only fails where fuel is off, and then the first instruction would trap.
        if let Err(error) = HostCalls::begin(&mut store, limits.fuel) {
            tracing::error!(%error, "fuel cannot be set");
        }
        store
    }
}

fn accept(outcome: Outcome, limits: &Limits) -> Result<Output, CallError> {
    let output = match outcome {
        Outcome::Output(json) => Output::Result(json),
        Outcome::Client(json) => Output::Client(json),
    };
    let (Output::Result(json) | Output::Client(json)) = &output;
    if json.len() as u64 > limits.output_bytes {
        return Err(trap::output_too_large(limits));
    }
    Ok(output)
}

/// A plugin's own failure, unless the host itself saw why the call could not succeed.
fn blame(failure: Failure, store: &Store<CallState>, limits: &Limits) -> CallError {
    if let Some(seen) = trap::seen_by_host(store.data(), limits) {
        return seen;
    }
    let message = cut(&failure.message, FAILURE_MESSAGE_BYTES);
    let (error_type, message) = match failure.code.as_str() {
        "INVALID_ARGUMENTS" => {
            let rest = message.strip_prefix("Validation Error: ").unwrap_or(message);
            (ErrorType::InvalidArguments, format!("Validation Error: {rest}"))
        }
        // The plugin says what the host saw too: its upstream had trouble.
        _ if store.data().egress.record().upstream_is_failing() => {
            (ErrorType::ApiUnavailable, message.to_owned())
        }
        _ => (ErrorType::ToolFailed, message.to_owned()),
    };
    let details = failure.details.as_deref().filter(|json| json.len() <= FAILURE_DETAILS_BYTES);
    let details = details.and_then(|json| serde_json::from_str(json).ok()).map(Details::Other);
    let error = CallError { details, ..CallError::new(error_type, message, "").retryable(failure.retryable) };
    let hint: Cow<'_, str> = match error_type {
        ErrorType::InvalidArguments => "change the arguments as the message says and call again".into(),
        ErrorType::ApiUnavailable => way_out_of_trouble(error.retry_after_ms()).into(),
        _ if failure.retryable => "the same call can succeed later".into(),
        _ if store.data().egress.record().credential_is_refused() => {
            "whoever keeps the credential must look at it: it may be the wrong one, expired, or not allowed to do this"
                .into()
        }
        _ => "read the message; the same call will fail again".into(),
    };
    CallError { hint: hint.into_owned(), ..error }
}

/// When to call again. What a server asks to wait is rounded up: who comes too early is sent away again.
fn way_out_of_trouble(wait_ms: Option<u64>) -> String {
    let when = match wait_ms.map(|wait_ms| wait_ms.div_ceil(1_000)) {
        None => "later".to_owned(),
        Some(0 | 1) => "in 1 second".to_owned(),
        Some(seconds) => format!("in {seconds} seconds"),
    };
    format!("call again {when}; if it stays, tell the operator")
}

/// The longest prefix of at most `bytes` bytes that ends between characters.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn finish(
    mut store: Store<CallState>,
    outcome: Result<Output, CallError>,
    executed: bool,
    limits: &Limits,
    began: Instant,
) -> Finished {
    let fuel_left = store.get_fuel().unwrap_or(0);
    let state = store.data_mut();
    let mut effects = state.access.take_effects();
    let egress = state.egress.record();
    let (requests, exchanges) = egress.take();
    effects.extend(requests);
    let egress_bytes = egress.bytes();
    effects.extend(unfinished(state.access.unfinished()));
    let (log, log_lines_dropped, log_bytes) = state.log.finish();
    let output_bytes = match &outcome {
        Ok(Output::Result(json) | Output::Client(json)) => json.len() as u64,
        Err(_) => 0,
    };
    let usage = Usage {
        fuel: limits.fuel.saturating_sub(fuel_left),
        memory_bytes: state.limiter.memory_bytes(),
        duration_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        host_calls: state.host_calls.made,
        egress_bytes,
        output_bytes,
        log_bytes,
    };
    Finished { outcome, usage, executed, effects, exchanges, log, log_lines_dropped }
}

/// An operation of the file system cannot be stopped: one that outlives its call may still change a file.
fn unfinished(operations: u64) -> Option<Effect> {
    let detail = format!("{operations} operations were under way when the call ended");
    (operations > 0).then_some(Effect { kind: "file_unfinished", detail })
}

impl CallContext {
    /// A call that nobody is told of and that reaches nothing: no files, no upstreams, no credentials, no effects, and
    /// a clock that stands still. What a call may do is added to it.
    pub fn powerless(call_id: &str, deadline: tokio::time::Instant) -> Self {
        Self {
            call_id: call_id.into(),
            made_for: Arc::default(),
            deadline,
            workspace: None,
            clock: CallClock::Stopped { at: Duration::ZERO },
            seed: [0; 32],
            settings: "{}".into(),
            upstreams: None,
            credentials: Credentials::NONE,
            before_effect: BeforeEffect::refused(),
            progress: ProgressSink::NONE,
            traced: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_a_wait_is_told_in_whole_seconds_rounded_up() {
        for (wait_ms, when) in [
            (None, "later"),
            (Some(0), "in 1 second"),
            (Some(1_000), "in 1 second"),
            (Some(1_001), "in 2 seconds"),
            (Some(u64::MAX), "in 18446744073709552 seconds"),
        ] {
            let told = way_out_of_trouble(wait_ms);
            assert_eq!(told, format!("call again {when}; if it stays, tell the operator"));
        }
    }
}
