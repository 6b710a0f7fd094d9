//! The records of refused openings of sessions that were counted (9.18).

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use serde_json::value::RawValue;
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_audit::AdminRecord;
use toolgate_macros::boxed;

use super::Admin;

/// Refusals are equal if these are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpeningKind {
    /// The id of the token.
    pub principal: Arc<str>,
    pub organization: Name,
    pub agent: Name,
    pub error_type: ErrorType,
    /// The front end that took the request.
    pub source: &'static str,
}

#[boxed]
impl Admin {
    /// Records the counts of refused requests and openings whose minute is over, or all without `now`.
    pub async fn record_counted_refusals(&self, now: Option<Instant>) {
        self.record_refused_requests(now);
        self.record_refused_openings(now).await;
    }

    /// Records the counts of refused openings whose minute is over, or all without `now`.
    pub(super) async fn record_refused_openings(&self, now: Option<Instant>) {
        for (kind, count) in self.0.refused_openings.take_ended(now) {
            let OpeningKind { principal, organization, agent, error_type, source } = kind;
            let details = RawValue::from_string(json!({"repeated": count}).to_string()).ok();
            let recorded = self.services().audit.admin(AdminRecord {
                organization: Some(organization.as_str().into()),
                principal: (&*principal).into(),
                action: "session.open".into(),
                target: format!("{organization}/{agent}").into(),
                outcome: error_type.as_str().into(),
                revision: None,
                details: details.map(std::borrow::Cow::Owned),
                source: source.into(),
            });
            if let Err(error) = recorded.await {
                tracing::error!(%error, %organization, %agent, count, "counted refusals of sessions cannot be recorded");
            }
        }
    }
}
