//! A fake of the guests, for tests of the code around [`Sandbox::run`]: no component is instantiated.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use toolgate_admission::Admitted;
use toolgate_api::error::CallError;
use toolgate_api::name::ToolId;

use crate::{Component, FinishedCall, Output, Sandbox, Usage};

/// A call that the fake gets in place of a guest: its id, tool and arguments.
#[derive(Debug)]
pub struct FakeCall {
    pub id: Arc<str>,
    pub tool: ToolId,
    pub arguments: Arc<str>,
}

type FakeOutcome = Pin<Box<dyn Future<Output = Result<Output, CallError>> + Send>>;
pub(crate) type FakeGuest = Arc<dyn Fn(FakeCall) -> FakeOutcome + Send + Sync>;

impl Sandbox {
    /// A sandbox that runs `guest` in place of components. As with them, a call that is stopped drops its future.
    pub fn with_fake<F>(&self, guest: impl Fn(FakeCall) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Output, CallError>> + Send + 'static,
    {
        Self { fake_guest: Some(Arc::new(move |call| Box::pin(guest(call)))), ..self.clone() }
    }
}

pub(crate) async fn run(
    guest: &FakeGuest,
    id: Arc<str>,
    admitted: &Admitted<Component>,
    stop: impl Future<Output = ()>,
) -> FinishedCall {
    let arguments = Arc::clone(admitted.arguments().raw_text());
    let outcome = tokio::select! {
        biased;
        outcome = guest(FakeCall { id, tool: admitted.id().clone(), arguments }) => outcome,
        () = stop => Err(CallError::cancellation()),
    };
    let (usage, effects, exchanges, log) = (Usage::default(), Vec::new(), Vec::new(), Vec::new());
    let (instance, executed, log_lines_dropped) = (Duration::ZERO, true, 0);
    FinishedCall { outcome, usage, instance, executed, effects, exchanges, log, log_lines_dropped }
}
