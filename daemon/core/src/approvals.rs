//! Approvals: a person decides a call before it runs (G11).
//!
//! `admission::approval` decides what an approval covers; this module stores, finds and consumes it. An approval is bound
//! to the session, the exact call, the plugin digest and the rules that decided, so that what a person is shown is what
//! runs. Consuming a use is one SQL statement.

use std::sync::Arc;

use ring::digest;
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_admission::{Approval, ApprovalBinding, ApprovalConstraints, Digest, Unapproved, Verdict};
use toolgate_api::approval::{ApprovalState, ApprovalView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::hex;
use toolgate_api::json::parse_strict;
use toolgate_api::name::ToolId;
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::identifier;
use toolgate_state::store::{ApprovalRow, Store, StoreError, TokenLabels};

use crate::sessions::Session;

/// Deepest nesting of constraints, the same as of arguments.
const CONSTRAINTS_DEPTH: u64 = 128;

/// The approvals in the store. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    store: Store,
    /// The time for a decision, and then the lifetime of the approval.
    pub lifetime_ms: u64,
}

/// The result of a look-up for a call that needs approval.
#[derive(Debug)]
pub enum ApprovalLookup {
    /// A use was consumed for the call.
    Used(Box<Use>),
    /// The call waits for a decision. The id is that of an expired approval that this one replaces.
    Pending(Box<ApprovalRow>, Option<String>),
    /// The call is refused.
    Refused(CallError),
    /// The call and all others that wait for this approval are refused: it was shown under other rules.
    Void(String),
}

/// A use of an approval.
#[derive(Debug)]
pub struct Use {
    /// The approval's id.
    pub id: String,
    /// The binding and constraints.
    pub approval: Approval,
    /// No use is left.
    pub is_last: bool,
    /// The arguments that the approver gave in place of the call's.
    pub instead: Option<Arc<str>>,
}

/// The status of an approval that a call waits for.
#[derive(Debug)]
pub enum ApprovalStatus {
    /// The approval can be decided, or used.
    Open(Box<ApprovalRow>),
    /// The approval lets no call run any more. The error ends the calls that wait for it.
    Over(ApprovalState, CallError),
}

#[boxed]
impl Approvals {
    /// Approvals in this store.
    pub fn new(store: Store, lifetime_ms: u64) -> Self {
        Self { store, lifetime_ms }
    }

    /// Consumes a use of an approval that covers the call, or asks for one. `call` is the call's id, `asked_by` the token
    /// that made it.
    pub async fn find(
        &self,
        session: &Session,
        call: &str,
        asked_by: &str,
        unapproved: &Unapproved<Component>,
        now_ms: u64,
    ) -> Result<ApprovalLookup, CallError> {
        let binding = unapproved.binding();
        let asked = self.row(session, call, asked_by, unapproved, &binding, now_ms);
        // A decision between the two steps is found by the second round.
        for _ in 0..2 {
            if let Some(decided) = self.find_decided(&asked, unapproved, now_ms).await? {
                return Ok(decided);
            }
            let (row, expired) = self.store.ask_for_approval(&asked).await?;
            if row.state == ApprovalState::Pending {
                return Ok(ApprovalLookup::Pending(Box::new(row), expired));
            }
        }
        Ok(ApprovalLookup::Refused(void()))
    }

    /// Consumes a use of an approval that covers the call, or finds that its own approval lets it run no more.
    async fn find_decided(
        &self,
        asked: &ApprovalRow,
        unapproved: &Unapproved<Component>,
        now_ms: u64,
    ) -> Result<Option<ApprovalLookup>, CallError> {
        let known = self.store.approvals_for(&asked.session, &asked.tool, &asked.call).await?;
        for row in known.iter().filter(|row| row.state == ApprovalState::Approved && row.expires_ms > now_ms)
        {
            let approval = read(row)?;
            if unapproved.is_covered_by(&approval)
                && let Some(left) = self.store.use_approval(&row.id, now_ms).await?
            {
                return Ok(Some(ApprovalLookup::Used(Box::new(Use {
                    id: row.id.clone(),
                    approval,
                    is_last: left == 0,
                    instead: row.arguments_instead.as_deref().map(Arc::from),
                }))));
            }
        }
        let Some(own) = known.iter().rev().find(|row| row.call == asked.call) else { return Ok(None) };
        if let Some(error) = refusal(own, now_ms) {
            return Ok(Some(ApprovalLookup::Refused(error)));
        }
        // An approval that another call of the same kind used up is asked for again.
        if own.state != ApprovalState::Used && own.binding != asked.binding {
            self.store.end_approval(&own.id, ApprovalState::Void).await?;
            return Ok(Some(ApprovalLookup::Void(own.id.clone())));
        }
        Ok(None)
    }

    /// The status of an approval. An approval that is no longer stored expired long ago.
    pub async fn status(&self, id: &str, now_ms: u64) -> Result<ApprovalStatus, CallError> {
        let row = match self.store.approval(id, None).await {
            Err(StoreError::NotFound { .. }) => {
                return Ok(ApprovalStatus::Over(ApprovalState::Expired, expiry(false)));
            }
            row => row?,
        };
        let Some(why) = refusal(&row, now_ms) else { return Ok(ApprovalStatus::Open(Box::new(row))) };
        let is_open = matches!(row.state, ApprovalState::Pending | ApprovalState::Approved);
        Ok(ApprovalStatus::Over(if is_open { ApprovalState::Expired } else { row.state }, why))
    }

    fn row(
        &self,
        session: &Session,
        call: &str,
        asked_by: &str,
        unapproved: &Unapproved<Component>,
        binding: &ApprovalBinding,
        now_ms: u64,
    ) -> ApprovalRow {
        let setup = &session.setup;
        ApprovalRow {
            id: identifier::time_ordered("a", now_ms),
            organization: setup.organization.clone(),
            agent: setup.agent.clone(),
            session: setup.id.clone(),
            call: call.to_owned(),
            user: setup.user.clone(),
            conversation: setup.conversation.clone(),
            channel: setup.channel.clone(),
            asked_by: asked_by.to_owned(),
            opened_by: setup.principal.clone(),
            tool: binding.tool.to_string(),
            called: unapproved.called_name().to_owned(),
            plugin_version: unapproved.plugin().descriptor.version.clone(),
            plugin_digest: binding.plugin.to_string(),
            rules: binding.rules.clone(),
            arguments: binding.arguments.to_string(),
            binding: hash(binding),
            state: ApprovalState::Pending,
            uses_left: 0,
            constraints: None,
            arguments_instead: None,
            reason: None,
            decided_by: None,
            decided_ms: None,
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(self.lifetime_ms),
        }
    }

    /// Returns the use of a call that did not run.
    pub async fn release(&self, id: &str) -> Result<(), CallError> {
        Ok(self.store.release_approval_use(id).await?)
    }
}

/// Whether the approval still covers what would run. `verdict` is that of the call now.
pub fn is_current(row: &ApprovalRow, verdict: &Verdict<Component>) -> bool {
    match verdict {
        Verdict::NeedsApproval(unapproved) => hash(&unapproved.binding()) == row.binding,
        Verdict::Run(_) | Verdict::Refused(_) => false,
    }
}

/// The approval behind a row.
pub fn read(row: &ApprovalRow) -> Result<Approval, StoreError> {
    let damaged = || StoreError::corrupt("a row of `approvals` is not sound");
    let arguments: Arc<str> = row.arguments.as_str().into();
    let constraints = match &row.constraints {
        None => None,
        Some(text) => {
            let shown = parse_strict(&arguments, CONSTRAINTS_DEPTH).map_err(|_| damaged())?;
            Some(constraints(text, &shown).map_err(|_| damaged())?)
        }
    };
    let binding = ApprovalBinding {
        tool: ToolId::parse(&row.tool).map_err(|_| damaged())?,
        plugin: Digest::parse(&row.plugin_digest).map_err(|_| damaged())?,
        rules: row.rules.clone(),
        arguments,
    };
    Ok(Approval { binding, constraints })
}

/// The state at this time: an open approval may have expired.
pub fn shown_state(row: &ApprovalRow, now_ms: u64) -> ApprovalState {
    match row.state {
        ApprovalState::Pending | ApprovalState::Approved if refusal(row, now_ms).is_some() => {
            ApprovalState::Expired
        }
        state => state,
    }
}

/// The approval as approvers and webhooks are shown it.
pub async fn view(store: &Store, row: ApprovalRow, now_ms: u64) -> Result<ApprovalView, CallError> {
    let labels = store.token_labels(&tokens_of(&row).collect()).await?;
    view_with(&labels, row, now_ms)
}

/// The approvals of a list.
pub async fn views(
    store: &Store,
    rows: Vec<ApprovalRow>,
    now_ms: u64,
) -> Result<Vec<ApprovalView>, CallError> {
    let labels = store.token_labels(&rows.iter().flat_map(tokens_of).collect()).await?;
    rows.into_iter().map(|row| view_with(&labels, row, now_ms)).collect()
}

fn tokens_of(row: &ApprovalRow) -> impl Iterator<Item = &str> {
    [Some(&*row.asked_by), row.decided_by.as_deref()].into_iter().flatten()
}

fn view_with(labels: &TokenLabels, row: ApprovalRow, now_ms: u64) -> Result<ApprovalView, CallError> {
    let raw = |text: String| {
        RawValue::from_string(text)
            .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "tell the operator"))
    };
    Ok(ApprovalView {
        state: shown_state(&row, now_ms),
        id: row.id,
        organization: row.organization.to_string(),
        agent: row.agent.to_string(),
        session: row.session,
        call: row.call,
        user: row.user,
        conversation: row.conversation,
        channel: row.channel,
        tool: row.tool,
        plugin_version: row.plugin_version,
        plugin_digest: row.plugin_digest,
        arguments: raw(row.arguments)?,
        rules: raw(row.rules)?,
        asked_by_label: labels.get(&row.asked_by),
        asked_by: row.asked_by,
        created_at: row.created_ms,
        expires_at: row.expires_ms,
        uses_left: row.uses_left,
        constraints: row.constraints.map(raw).transpose()?,
        arguments_instead: row.arguments_instead.map(raw).transpose()?,
        reason: row.reason,
        decided_by_label: row.decided_by.as_deref().and_then(|id| labels.get(id)),
        decided_by: row.decided_by,
        decided_at: row.decided_ms,
    })
}

/// Parses an approver's constraints on the arguments that the approver was shown.
pub fn constraints(text: &str, shown: &Value) -> Result<ApprovalConstraints, CallError> {
    let table = parse_strict(text, CONSTRAINTS_DEPTH).map_err(|error| {
        CallError::new(ErrorType::InvalidRequest, error.to_string(), "send `arguments` as one JSON object")
    })?;
    ApprovalConstraints::parse(&table, shown)
}

/// The reason why an approval lets no call run any more.
pub fn refusal(row: &ApprovalRow, now_ms: u64) -> Option<CallError> {
    match row.state {
        ApprovalState::Denied => Some(denial(row.reason.as_deref())),
        ApprovalState::Void => Some(void()),
        ApprovalState::Expired => Some(expiry(row.decided_ms.is_some())),
        ApprovalState::Pending | ApprovalState::Approved if row.expires_ms <= now_ms => {
            Some(expiry(row.decided_ms.is_some()))
        }
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Used => None,
    }
}

/// The error of a call that a person denied.
pub fn denial(reason: Option<&str>) -> CallError {
    let message = match reason {
        Some(reason) => {
            format!("a person denied this call: {}", toolgate_api::text::escape_for_display(reason, 500))
        }
        None => "a person denied this call".to_owned(),
    };
    CallError::new(
        ErrorType::ApprovalDenied,
        message,
        "do not call it again; go on without it, or ask the user",
    )
}

/// The error of a call that was not decided, or not posted again, in time.
pub fn expiry(is_decided: bool) -> CallError {
    let message = match is_decided {
        true => "this call was approved, and not posted again in time",
        false => "this call was not approved in time",
    };
    CallError::new(ErrorType::ApprovalExpired, message, "use a new id to ask again, if it still matters")
}

/// The error of a call whose approval another call of the same kind used up.
pub fn used_up() -> CallError {
    CallError::new(
        ErrorType::ApprovalExpired,
        "another call with an id of its own has used the approval that this one waited for",
        "look at what that one did; use a new id to ask again, if this is to happen twice",
    )
}

/// The error of a call whose approval is void, since what it was bound to changed.
pub fn void() -> CallError {
    CallError::new(
        ErrorType::ApprovalExpired,
        "the tool or the rules have changed since approval of this call was asked for, or it was cancelled",
        "use a new id to ask again",
    )
}

/// Hashes a binding. Calls with the same hash wait for the same approval.
fn hash(binding: &ApprovalBinding) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    let parts = [&binding.tool.to_string(), binding.plugin.as_str(), &binding.rules, &*binding.arguments];
    for part in parts {
        // Length-prefixed, so that no two bindings hash the same bytes.
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    hex::encode(context.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_state::store::testing::{empty_store, pending_approval};

    #[tokio::test]
    async fn g11_an_approval_that_is_not_stored_any_more_has_expired() {
        let (_folder, store) = empty_store().await;
        let (row, _) = store.ask_for_approval(&pending_approval("a1", "c1")).await.expect("stored");
        let approvals = Approvals::new(store, 1_000);
        let open = approvals.status("a1", row.expires_ms - 1).await.expect("read");
        assert!(matches!(open, ApprovalStatus::Open(open) if *open == row));
        for (id, now_ms) in [("a1", row.expires_ms), ("forgotten", 0)] {
            let over = approvals.status(id, now_ms).await.expect("read");
            let ApprovalStatus::Over(ApprovalState::Expired, why) = over else { panic!("{over:?}") };
            assert_eq!(why.error_type, ErrorType::ApprovalExpired);
        }
    }
}
