//! Sessions: opened, ended, and their tools switched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use serde_json::value::RawValue;
use toolgate_admission::{self as admission, Rules, SessionFacts};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::event::{Event, EventKind};
use toolgate_api::text::escape_for_display;
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::clock::now_ms;
use toolgate_state::store::{SessionRow, StoreError};

use super::refused_openings::OpeningKind;
use super::{Actor, Admin, AuditedAction};
use crate::sessions::{InitialState, Session, SessionSetup};

/// Longest path in a record, in characters.
const PATH_CHARS: usize = 500;

#[boxed]
impl Admin {
    /// Opens a session for an agent with these rules. An agent without tools gets none (G1), which is recorded, and told on the
    /// organization's stream of events.
    pub async fn open_session(
        &self,
        actor: Actor<'_>,
        setup: SessionSetup,
        facts: SessionFacts,
        rules: &Rules<Component>,
    ) -> Result<Arc<Session>, CallError> {
        let has_tools = admission::has_tools(rules, &facts);
        if !has_tools {
            self.tell_refusal(&setup);
        }
        let reserved = match has_tools {
            true => self.services().sessions.reserve(&setup.organization),
            false => Err(no_tools()),
        };
        let share = match reserved {
            Ok(share) => share,
            Err(refusal) => return Err(self.refuse_session(actor, &setup, refusal).await),
        };
        let target = format!("{}/{}", setup.organization, setup.agent);
        let opening = async { Ok(self.services().store.add_session(&row(&setup)).await?) };
        let details = opening_details(&setup);
        let action = actor.action(Some(&setup.organization), "session.open", &target);
        self.run_audited(AuditedAction { details: details.as_deref(), ..action }, opening).await?;
        let beginning = InitialState { facts, rounds: 0, last_used_ms: setup.created_ms };
        Ok(self.services().sessions.open(share, setup, beginning))
    }

    /// Records a refused attempt to open a session, or counts it with an equal one of the last minute (9.18). Returns the error for
    /// the caller.
    pub async fn refuse_session(
        &self,
        actor: Actor<'_>,
        setup: &SessionSetup,
        refusal: CallError,
    ) -> CallError {
        let now = Instant::now();
        self.record_refused_openings(Some(now)).await;
        let kind = OpeningKind {
            principal: Arc::clone(&actor.caller.token_id),
            organization: setup.organization.clone(),
            agent: setup.agent.clone(),
            error_type: refusal.error_type,
            source: actor.source,
        };
        if self.0.refused_openings.is_counted(&kind, now) {
            return refusal;
        }
        let target = format!("{}/{}", setup.organization, setup.agent);
        let details = opening_details(setup);
        let action = actor.action(Some(&setup.organization), "session.open", &target);
        let action = AuditedAction { details: details.as_deref(), ..action };
        let refused: Result<(), CallError> = self.run_audited(action, async { Err(refusal.clone()) }).await;
        refused.err().unwrap_or(refusal)
    }

    fn tell_refusal(&self, setup: &SessionSetup) {
        self.services().log.no_tools(setup);
        let CallError { error_type, message, .. } = no_tools();
        let (organization, agent) = (setup.organization.as_str(), setup.agent.as_str());
        self.services().events.emit(&setup.organization, || Event {
            session: setup.id.clone(),
            conversation: setup.conversation.clone(),
            error_type: Some(error_type),
            message: Some(message),
            ..Event::new(EventKind::Error, now_ms(), organization, agent)
        });
    }

    /// Ends a session: its running calls are cancelled, and its files removed.
    pub async fn end_session(&self, actor: Actor<'_>, session: &Session) -> Result<(), CallError> {
        let id = &session.setup.id;
        let ending = async {
            self.services().store.end_session(id, now_ms()).await?;
            self.dispatcher().end_session(&self.services().sessions, id).await;
            Ok(())
        };
        self.run_audited(actor.action(Some(&session.setup.organization), "session.end", id), ending).await
    }

    /// Changes a file of a session's workspace (9.18). Changes by tools are effects of their calls.
    pub async fn change_file(
        &self,
        actor: Actor<'_>,
        session: &Session,
        action: &'static str,
        path: &str,
        change: impl Future<Output = Result<(), CallError>>,
    ) -> Result<(), CallError> {
        let target = format!("{} {}", session.setup.id, escape_for_display(path, PATH_CHARS));
        self.run_audited(actor.action(Some(&session.setup.organization), action, &target), change).await
    }

    /// Disables or enables a tool in a session, also one that was disabled for repeated failures.
    pub async fn switch_session_tool(
        &self,
        actor: Actor<'_>,
        session: &Session,
        tool: &str,
        disabled: bool,
    ) -> Result<(), CallError> {
        let (id, organization) = (&session.setup.id, &session.setup.organization);
        let catalogue = self.services().registry.snapshot().catalogue_of(organization);
        let tool = catalogue
            .find(tool)
            .map(|tool| tool.id().clone())
            .ok_or_else(|| StoreError::not_found("such tool"))?;
        let action = if disabled { "session.tool.disable" } else { "session.tool.enable" };
        let target = format!("{id} {tool}");
        let switching = async {
            session.state.set_disabled(&tool, disabled);
            let (disabled, broken) = session.state.unavailable_tools();
            Ok(self.services().store.set_tools_out(id, &disabled, &broken).await?)
        };
        self.run_audited(actor.action(Some(organization), action, &target), switching).await
    }
}

fn opening_details(setup: &SessionSetup) -> Option<Box<RawValue>> {
    let details = json!({
        "session": setup.id, "user": setup.user, "conversation": setup.conversation, "channel": setup.channel,
    });
    RawValue::from_string(details.to_string()).ok()
}

fn no_tools() -> CallError {
    CallError::new(
        ErrorType::NoTools,
        "This agent has no tools configured. Please contact the agent creator to add API access.",
        "see what keeps each tool out: `explain` of the agent, or `toolgate policy explain`",
    )
}

fn row(setup: &SessionSetup) -> SessionRow {
    SessionRow {
        id: setup.id.clone(),
        organization: setup.organization.clone(),
        agent: setup.agent.clone(),
        user: setup.user.clone(),
        conversation: setup.conversation.clone(),
        channel: setup.channel.clone(),
        opened_by: setup.principal.clone(),
        disabled_tools: Vec::new(),
        broken_tools: BTreeMap::new(),
        rounds: 0,
        created_ms: setup.created_ms,
        last_used_ms: setup.created_ms,
        ended_ms: None,
    }
}
