//! The life of one call: a store, an instance, one exported function, and drop.
//!
//! The deadline is around the whole call: a guest that waits in a host call burns no fuel and passes no epoch check,
//! so dropping the future is what stops it. The store outlives the future, so that usage can be read after any end.

use std::borrow::Cow;
use std::future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::SemaphorePermit;
use toolgate_admission::Admitted;
use toolgate_api::error::{CallError, Details, ErrorType};
use toolgate_api::limits::Limits;
use toolgate_macros::boxed;
use wasmtime::{Engine, Store};

use crate::component::{Component, Instance};
use crate::context::{CallClock, CallContext, CallIdentity};
use crate::contract::{Failure, Outcome};
use crate::cpu_scheduler::TimeSlice;
use crate::effect::Effect;
use crate::engine::Sandbox;
use crate::host_calls::{CopyBounds, HostCalls};
use crate::limiter::saturating_usize;
use crate::outcome::{FinishedCall, Output, Usage};
use crate::state::CallState;
use crate::trap;

/// Limits of `describe`, which only computes a text.
const DESCRIBE_LIMITS: Limits = Limits {
    fuel: 2_000_000_000,
    deadline_ms: 10_000,
    output_bytes: 4 * 1024 * 1024,
    // The definition is read and the description returned.
    host_call_bytes: 8 * 1024 * 1024 + 64 * 1024,
    ..Limits::DEFAULT
};

/// Maximum message length of a plugin failure, in bytes. Longer messages are truncated.
const FAILURE_MESSAGE_BYTES: usize = 4 * 1024;

/// Maximum size of a plugin failure's `details`, in bytes. Larger ones are dropped.
const FAILURE_DETAILS_BYTES: usize = 16 * 1024;

/// A definition of a plugin, for a component that serves many.
pub struct Definition {
    /// The text that the component reads.
    pub text: Arc<str>,
    /// The owner of the definition.
    pub organization: Arc<str>,
}

/// The conditions that stop a call.
struct StopConditions<'a> {
    deadline: tokio::time::Instant,
    /// Ready if the call was cancelled.
    stop: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
}

/// Largest result, as a multiple of `output_bytes`.
const RESULT_MULTIPLE: u64 = 16;

/// Time and seed of [`Sandbox::describe_otherwise`].
const OTHER_TIME: Duration = Duration::from_secs(1_735_689_600);
const OTHER_SEED: [u8; 32] = [1; 32];

/// Largest memory of an instance that is reset where its call ran.
const RESET_IN_PLACE_BYTES: u64 = 8 * 1024 * 1024;

#[boxed]
impl Sandbox {
    /// Runs one admitted call. Never panics: every failure is an outcome.
    ///
    /// If `stop` becomes ready, the call is stopped at once, and its effects and usage until then are still returned.
    /// Dropping the future loses them.
    pub async fn run(
        &self,
        call: &Admitted<Component>,
        context: CallContext,
        stop: Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> FinishedCall {
        #[cfg(feature = "testing")]
        if let Some(guest) = &self.fake_guest {
            return crate::testing::run(guest, context.call_id, call, stop).await;
        }
        let (tool, arguments) = (call.tool(), call.arguments());
        let deadline = context.deadline;
        let definition = call.tool().definition.clone();
        let (reach, digest) = (call.access(), call.digest().as_str());
        let limits = &context.left.narrow(call.limits());
        let state = CallState::new(context, limits, reach, digest, definition, self.inner.ticks.clone());
        let name = tool.original_name.as_deref().unwrap_or(tool.name.as_str());
        let state = match call.component().functions() {
            Some(functions) => state.with_environment(functions.program_input(name, arguments.value())),
            None => state,
        };
        let stop = StopConditions { deadline, stop };
        // Over `output_bytes`, a result goes into the workspace (R10).
        let result_bytes = limits.output_bytes.saturating_mul(RESULT_MULTIPLE).max(limits.host_call_bytes);
        let result_bytes = saturating_usize(result_bytes);
        let store = new_store(call.component().engine(), state, limits, result_bytes);
        self.enter(call.component(), limits, stop, store, async |instance, store| match instance {
            Instance::Contract(plugin) => {
                let tools = plugin.toolgate_plugin_tools();
                tools.call_call(store, tool.name.as_str(), arguments.raw()).await
            }
            Instance::Functions(instance, functions) => {
                functions.call(instance, store, name, arguments.value(), result_bytes).await
            }
        })
        .await
    }

    /// Instantiates a component under these limits, without capabilities, as each call does, and calls nothing.
    pub async fn start(&self, component: &Component, limits: &Limits) -> Result<(), CallError> {
        let _permit = self.reserved_instance().await;
        let context = describe_context();
        let stop = StopConditions { deadline: context.deadline, stop: pin!(future::pending()) };
        let state = CallState::new(context, limits, &Arc::default(), "", None, self.inner.ticks.clone());
        let store = new_store(component.engine(), state, limits, saturating_usize(limits.host_call_bytes));
        let nothing =
            async |_: &Instance<'_>, _: &mut Store<CallState>| Ok(Ok(Outcome::Output(String::new())));
        self.enter(component, limits, stop, store, nothing).await.outcome.map(drop)
    }

    /// Waits for an instance that is not of the queue's: for a call that the daemon makes itself, with the admission of any
    /// other. Hold it while the call runs.
    pub async fn reserved_instance(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.inner.describe_slots.acquire().await.ok()
    }

    /// Waits for an instance for a call that a script makes. Hold it while the call runs.
    pub async fn inner_instance(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.inner.inner_slots.acquire().await.ok()
    }

    /// Calls `describe` of a component: without capabilities, with fixed limits and a stopped clock.
    ///
    /// With a definition it runs in the instance of a slot that the caller holds, scheduled for the definition's
    /// organization. Without one it waits for an instance reserved for `describe`.
    pub async fn describe(
        &self,
        component: &Component,
        definition: Option<Definition>,
    ) -> Result<String, CallError> {
        let _permit = match definition {
            None => self.reserved_instance().await,
            Some(_) => None,
        };
        let mut context = describe_context();
        let definition = definition.map(|Definition { text, organization }| {
            context.identity = Arc::new(CallIdentity { organization, ..CallIdentity::default() });
            text
        });
        self.describe_in(component, context, definition).await
    }

    /// Like [`Sandbox::describe`] without a definition, at another time and with other random numbers. Neither may change
    /// the description.
    pub async fn describe_otherwise(&self, component: &Component) -> Result<String, CallError> {
        let _permit = self.reserved_instance().await;
        let clock = CallClock::Stopped { at: OTHER_TIME };
        let context = CallContext { clock, seed: OTHER_SEED, ..describe_context() };
        self.describe_in(component, context, None).await
    }

    async fn describe_in(
        &self,
        component: &Component,
        context: CallContext,
        definition: Option<Arc<str>>,
    ) -> Result<String, CallError> {
        let stop = StopConditions { deadline: context.deadline, stop: pin!(future::pending()) };
        let ticks = self.inner.ticks.clone();
        let state = CallState::new(context, &DESCRIBE_LIMITS, &Arc::default(), "", definition, ticks);
        let result_bytes = saturating_usize(DESCRIBE_LIMITS.host_call_bytes);
        let store = new_store(component.engine(), state, &DESCRIBE_LIMITS, result_bytes);
        let finished = self
            .enter(component, &DESCRIBE_LIMITS, stop, store, async |instance, store| match instance {
                Instance::Contract(plugin) => {
                    let described = plugin.toolgate_plugin_tools().call_describe(store).await?;
                    Ok(described.map(Outcome::Output))
                }
                Instance::Functions(..) => Err(wasmtime::format_err!("functions do not describe themselves")),
            })
            .await;
        match finished.outcome {
            Ok(Output::Result(json) | Output::Client(json))
                if json.len() as u64 > DESCRIBE_LIMITS.output_bytes =>
            {
                Err(description_too_large())
            }
            Err(error) if error.error_type == ErrorType::OutputTooLarge => Err(description_too_large()),
            outcome => outcome.map(|(Output::Result(json) | Output::Client(json))| json),
        }
    }

    async fn enter(
        &self,
        component: &Component,
        limits: &Limits,
        stop: StopConditions<'_>,
        mut store: Store<CallState>,
        call: impl AsyncFnOnce(&Instance<'_>, &mut Store<CallState>) -> wasmtime::Result<Result<Outcome, Failure>>,
    ) -> FinishedCall {
        let began = Instant::now();
        let organization = Arc::clone(&store.data().context.identity.organization);
        let slice =
            TimeSlice::on_epoch_ticks(&mut store, |state| state.host_calls.record_tick(), &self.inner.ticks);
        let (mut executed, mut instance) = (false, Duration::ZERO);
        let ended = {
            let guest = pin!(async {
                // If the deadline passed while the call waited for a processor, nothing runs.
                if tokio::time::Instant::from_std(began) >= stop.deadline {
                    return future::pending().await;
                }
                let starting = Instant::now();
                let running = component.instantiate(&mut store).await?;
                (executed, instance) = (true, starting.elapsed());
                call(&running, &mut store).await
            });
            let guest = self.inner.scheduler.run(&organization, stop.deadline, &slice, guest);
            // In this order, since most calls end in their first poll, and polling `stop` takes locks.
            tokio::select! {
                biased;
                // A guest that ends late may be seen before the deadline is.
                ended = tokio::time::timeout_at(stop.deadline, guest) => match ended {
                    Ok(ended) if tokio::time::Instant::now() < stop.deadline => Ok(ended),
                    _ => Err(trap::deadline_exceeded(limits)),
                },
                () = stop.stop => Err(CallError::cancellation()),
            }
        };
        let fuel = store.get_fuel().ok();
        // A component can compute during instantiation.
        executed |= fuel.is_some_and(|left| left < limits.fuel);
        let outcome = ended.and_then(|ended| guest_outcome(ended, fuel, &mut store, limits));
        let (finished, store) = finish(store, outcome, executed, limits, began);
        let cpu_us = u64::try_from(slice.cpu_time().as_micros()).unwrap_or(u64::MAX);
        let usage = Usage { cpu_us, ..finished.usage };
        let finished = FinishedCall { instance, usage, ..finished };
        reset(store, finished.usage.memory_bytes).await;
        finished
    }
}

/// Maps what a guest returned. `fuel` is what it left.
fn guest_outcome(
    ended: wasmtime::Result<Result<Outcome, Failure>>,
    fuel: Option<u64>,
    store: &mut Store<CallState>,
    limits: &Limits,
) -> Result<Output, CallError> {
    match ended {
        Ok(Ok(Outcome::Output(json))) => Ok(Output::Result(json)),
        Ok(Ok(Outcome::Client(json))) => Ok(Output::Client(json)),
        Ok(Err(failure)) => Err(plugin_failure(failure, store, limits)),
        Err(error) => {
            let calls = &mut store.data_mut().host_calls;
            calls.last_failed = fuel.is_some() && calls.fuel_at_return == fuel;
            Err(trap::explain(&error, store.data(), limits))
        }
    }
}

fn describe_context() -> CallContext {
    let limit = Duration::from_millis(DESCRIBE_LIMITS.deadline_ms);
    CallContext::without_capabilities("describe", tokio::time::Instant::now() + limit)
}

/// In the place of an error that is worded for a call.
fn description_too_large() -> CallError {
    let message = format!("the description is larger than {} bytes", DESCRIBE_LIMITS.output_bytes);
    CallError { message, ..trap::output_too_large(&DESCRIBE_LIMITS) }
}

fn new_store(engine: &Engine, state: CallState, limits: &Limits, result_bytes: usize) -> Store<CallState> {
    let mut store = Store::new(engine, state);
    store.limiter(|state| {
        // wasmtime asks for the limiter only when memory or a table grows.
        state.host_calls.record_growth();
        &mut state.limiter
    });
    let copied = CopyBounds { call_bytes: saturating_usize(limits.host_call_bytes), result_bytes };
    store.set_max_component_handles(saturating_usize(limits.component_handles));
    // Fails only if fuel is off, and then the first instruction traps.
    if let Err(error) = HostCalls::begin(&mut store, limits.fuel, copied, |state| &mut state.host_calls) {
        tracing::error!(%error, "fuel cannot be set");
    }
    store
}

/// Maps a failure that the plugin reported. A cause that the host saw takes precedence.
fn plugin_failure(failure: Failure, store: &Store<CallState>, limits: &Limits) -> CallError {
    if let Some(refusal) = trap::host_refusal(store.data(), limits) {
        return refusal;
    }
    let message = &failure.message[..failure.message.floor_char_boundary(FAILURE_MESSAGE_BYTES)];
    let (error_type, message) = match failure.code.as_str() {
        "INVALID_ARGUMENTS" => {
            let rest = message.strip_prefix("Validation Error: ").unwrap_or(message);
            (ErrorType::InvalidArguments, format!("Validation Error: {rest}"))
        }
        // The plugin's failure agrees with the host's view: the upstream's last response was an error.
        _ if store.data().egress.record().upstream_is_failing() => {
            (ErrorType::ApiUnavailable, message.to_owned())
        }
        _ => (ErrorType::ToolFailed, message.to_owned()),
    };
    let details = failure.details.as_deref().filter(|json| json.len() <= FAILURE_DETAILS_BYTES);
    let details = details.and_then(|json| serde_json::from_str(json).ok()).map(Details::Other);
    let is_renewed = store.data().egress.record().credential_is_renewed();
    let is_retryable = failure.retryable || error_type == ErrorType::ToolFailed && is_renewed;
    let error = CallError { details, ..CallError::new(error_type, message, "").retryable(is_retryable) };
    let hint: Cow<'_, str> = match error_type {
        ErrorType::InvalidArguments => "change the arguments as the message says and call again".into(),
        ErrorType::ApiUnavailable => retry_hint(error.retry_after_ms()).into(),
        _ if is_renewed => "call again: the credential was refused, and the next call renews it".into(),
        _ if failure.retryable => "the same call can succeed later".into(),
        _ if store.data().egress.record().credential_is_refused() => {
            "check the credential: it may be wrong, expired, or not allowed to do this".into()
        }
        _ => "read the message; the same call will fail again".into(),
    };
    CallError { hint: hint.into_owned(), ..error }
}

/// Hint with the time to wait. Rounded up to whole seconds: a server rejects a request that comes too early.
fn retry_hint(wait_ms: Option<u64>) -> String {
    let when = match wait_ms.map(|wait_ms| wait_ms.div_ceil(1_000)) {
        None => "later".to_owned(),
        Some(0 | 1) => "in 1 second".to_owned(),
        Some(seconds) => format!("in {seconds} seconds"),
    };
    format!("call again {when}; if it stays, tell the operator")
}

fn finish(
    mut store: Store<CallState>,
    outcome: Result<Output, CallError>,
    executed: bool,
    limits: &Limits,
    began: Instant,
) -> (FinishedCall, Store<CallState>) {
    let fuel_left = store.get_fuel().unwrap_or(0);
    let state = store.data_mut();
    let mut effects = state.access.take_effects();
    let egress = state.egress.record();
    let (requests, exchanges) = egress.take();
    effects.extend(requests);
    let egress_bytes = egress.bytes();
    effects.extend(unfinished_effect(state.access.unfinished_operations()));
    let (log, log_lines_dropped, log_bytes) = state.log.finish();
    let output_bytes = match &outcome {
        Ok(Output::Result(json) | Output::Client(json)) => json.len() as u64,
        Err(_) => 0,
    };
    let usage = Usage {
        fuel: limits.fuel.saturating_sub(fuel_left),
        memory_bytes: state.limiter.memory_bytes(),
        duration_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        cpu_us: 0,
        host_calls: state.host_calls.made,
        egress_bytes,
        cost: 0,
        output_bytes,
        log_bytes,
    };
    let instance = Duration::ZERO;
    (FinishedCall { outcome, usage, instance, executed, effects, exchanges, log, log_lines_dropped }, store)
}

/// Drops the instance, which resets its memory for the next one. The kernel takes about 0.1 ms for a MiB, so a large memory is
/// reset on a thread that serves no other call.
async fn reset(store: Store<CallState>, memory_bytes: u64) {
    if memory_bytes <= RESET_IN_PLACE_BYTES {
        return;
    }
    // A reset cannot be cancelled once it has begun, so an instance is not lost.
    if let Err(error) = tokio::task::spawn_blocking(move || drop(store)).await {
        tracing::error!(%error, "an instance cannot be reset");
    }
}

/// A file operation cannot be cancelled: one that outlives its call may still change a file.
fn unfinished_effect(operations: u64) -> Option<Effect> {
    (operations > 0).then(|| Effect {
        kind: "file_unfinished",
        detail: format!("{operations} operations were under way when the call ended"),
    })
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
            let told = retry_hint(wait_ms);
            assert_eq!(told, format!("call again {when}; if it stays, tell the operator"));
        }
    }
}
