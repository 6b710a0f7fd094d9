//! The context of an admitted call in the sandbox: clock, workspace, upstreams, credentials, and the services of its plugin.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolgate_admission::{Admitted, CredentialRights, Permitted};
use toolgate_audit::Entry;
use toolgate_sandbox::{
    BeforeEffect, CallClock, CallContext, Component, CredentialsForRequest, Messages, OtherTools, Remainder,
    Services, Workspace,
};
use toolgate_state::clock::now_ms;

use super::script::Script;
use super::{Attempt, Dispatcher, MCP, Origin, Recorded, events, rules_of};
use crate::credentials::{CredentialRefusal, CredentialRequest, Credentials};
use crate::messages::Mailbox;
use crate::sessions::Session;

impl Dispatcher {
    pub(super) fn context(
        &self,
        admitted: &Admitted<Component>,
        attempt: &Recorded<'_>,
        deadline: Instant,
        workspace: Option<Workspace>,
        script: Option<&Arc<Script>>,
    ) -> CallContext {
        let Recorded { entry, exchanges, .. } = *attempt;
        let Attempt { session, call, trace, .. } = **attempt;
        let trace = trace.filter(|_| admitted.access().tells_trace());
        CallContext {
            call_id: call.id.as_str().into(),
            identity: Arc::clone(&session.identity),
            deadline,
            workspace,
            // The clock of a script stands still, so that another run of it makes the same calls.
            clock: match script {
                Some(_) => CallClock::Stopped { at: Duration::from_millis(attempt.began_ms()) },
                None => CallClock::start(SystemTime::now()),
            },
            // From the thread's generator, which the system reseeds now and then: no system call for each call.
            seed: script.map_or_else(rand::random, |script| script.seed()),
            settings: admitted.settings().cloned(),
            upstreams: Some(self.0.upstreams.clone()),
            credentials: credentials_for(&self.0.credentials, session, attempt.origin, admitted),
            before_effect: sync_intent_before_effect(entry),
            progress: events::progress(&self.0.events, session, call),
            services: Services {
                tools: script.map(|script| Arc::clone(script) as Arc<dyn OtherTools>),
                messages: admitted.access().may_message().then(|| self.mailbox(session)),
            },
            left: attempt.outer.map_or(Remainder::WHOLE, |outer| outer.left),
            trace_context: trace.map(|trace| Arc::new(trace.context())),
            traced: exchanges.is_some(),
        }
    }

    /// The inbox of the session's agent. The recipients are those of the rules in force now.
    fn mailbox(&self, session: &Arc<Session>) -> Arc<dyn Messages> {
        let rules = rules_of(&self.0.registry.snapshot(), session);
        let recipients = rules.agent.document().messages_to.clone();
        let (store, events) = (self.0.store.clone(), self.0.events.clone());
        Arc::new(Mailbox { store, events, session: Arc::clone(session), recipients })
    }
}

/// The credential look-up of a call, asked before each permitted request. Plain HTTP requests are included, since a secret
/// can come back with any response. Which credentials the call may use was decided with the call (K2, K5).
fn credentials_for(
    store: &Credentials,
    session: &Arc<Session>,
    origin: &Origin,
    admitted: &Admitted<Component>,
) -> toolgate_sandbox::Credentials {
    let reach = admitted.access();
    if reach.credentials().next().is_none() {
        return toolgate_sandbox::Credentials::NONE;
    }
    let providers: Arc<[String]> = reach.credentials().map(str::to_owned).collect();
    let user_credentials = reach.may_use_user_credentials();
    let speaks_for_organization = origin.source != MCP;
    let (store, session) = (store.clone(), Arc::clone(session));
    let (refusals, organization) = (store.clone(), session.setup.organization.clone());
    let credentials = toolgate_sandbox::Credentials::new(move |permitted| {
        let (store, session, providers) = (store.clone(), Arc::clone(&session), Arc::clone(&providers));
        async move {
            let rights = CredentialRights {
                providers: &providers,
                user: session.setup.user.as_deref(),
                speaks_for_organization,
                user_credentials,
            };
            Ok(find_credentials(&store, &session, rights, &permitted).await?)
        }
    });
    credentials.on_refusal(move |identity| refusals.report_rejection(&organization, identity, now_ms()))
}

async fn find_credentials(
    store: &Credentials,
    session: &Session,
    rights: CredentialRights<'_>,
    permitted: &Permitted,
) -> Result<CredentialsForRequest, CredentialRefusal> {
    let request =
        CredentialRequest { organization: &session.setup.organization, rights, target: permitted.target() };
    store.for_request(&request, now_ms()).await
}

/// Syncs the intent to disk before the call's first effect (9.10).
fn sync_intent_before_effect(entry: &Entry) -> BeforeEffect {
    let intent = entry.intent_sync();
    BeforeEffect::new(move || {
        let synced = intent.sync();
        async move { synced.await.map_err(|error| error.to_string()) }
    })
}
