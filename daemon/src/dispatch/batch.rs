//! The calls of one request: what runs at the same time, and what comes next.
//!
//! A request that brings a new id is a round of its turn. Each of its calls goes the way that `dispatch.rs` tells, by
//! itself: one that is refused or fails is an answer like any other and keeps none of the others back. Dropping a
//! batch stops its calls, which are carried to their recorded ends.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Dispatcher, Origin, RequestedCall, answer};
use crate::sessions::{Recorded, Session, Status};

/// What a request is answered with.
#[derive(Debug)]
pub struct BatchAnswer {
    /// One answer a call, in the order of the request.
    pub results: Vec<Arc<Recorded>>,
}

/// What an orchestrator does once it has its answers (T4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Waits for a person.
    Approval,
    /// Lets its client perform what was prepared.
    Client,
    /// Asks again for the calls that still run.
    Wait,
    /// Gives the results to the model.
    Model,
}

impl Next {
    /// As it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Client => "client",
            Self::Wait => "wait",
            Self::Model => "model",
        }
    }
}

impl BatchAnswer {
    /// What comes first: a person before a client, and the model once all have ended. A call still runs where the request
    /// posted again what another one had brought.
    pub fn next(&self) -> Next {
        let any = |status| self.results.iter().any(|result| result.status == status);
        if any(Status::ApprovalRequired) {
            Next::Approval
        } else if any(Status::ClientRequired) {
            Next::Client
        } else if any(Status::Running) {
            Next::Wait
        } else {
            Next::Model
        }
    }
}

impl Dispatcher {
    /// Runs the calls of one request at the same time and answers each. A request that brings a new id is a round of
    /// its turn.
    pub async fn batch(
        &self,
        session: &Arc<Session>,
        turn: Option<&str>,
        calls: Vec<RequestedCall>,
        origin: &Origin,
    ) -> BatchAnswer {
        let brings_new = calls.iter().any(|call| call.id_is_new || !session.calls.knows(&call.id));
        let spent = if brings_new { session.conduct.enter_round(turn).err() } else { None };
        if let [_] = calls.as_slice() {
            let mut results = Vec::with_capacity(1);
            for call in calls {
                results.push(self.once(session, call, origin, spent).await);
            }
            return BatchAnswer { results };
        }
        // Tasks of their own, so that calls that compute use every processor. Dropping the set stops them.
        let mut running = JoinSet::new();
        let mut results: Vec<Option<Arc<Recorded>>> = calls.iter().map(|_| None).collect();
        for (at, call) in calls.into_iter().enumerate() {
            let (dispatcher, session, origin) = (self.clone(), Arc::clone(session), origin.clone());
            let call = async move { (at, dispatcher.once(&session, call, &origin, spent).await) };
            running.spawn(self.0.carrying.tracked(call));
        }
        while let Some(ended) = running.join_next().await {
            if let Ok((at, answer)) = ended
                && let Some(place) = results.get_mut(at)
            {
                *place = Some(answer);
            }
        }
        let results = results.into_iter().map(|answer| answer.unwrap_or_else(|| answer::lost(""))).collect();
        BatchAnswer { results }
    }
}
