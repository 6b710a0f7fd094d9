//! Counts equal refused openings of sessions, so that a flood of them is one record of the audit log (9.18).
//!
//! The first is recorded. Equal ones within a minute are counted, and their number is recorded when the minute is over or at
//! the stop. A crash loses the counts of the last two minutes at most.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_audit::AdminRecord;
use toolgate_macros::boxed;

use super::Admin;

/// Time after a record in which equal refusals are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Kinds of refusals that are counted at a time, to bound memory. Further ones are recorded one by one.
const KINDS_MAX: usize = 1024;

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

/// The recorded refusals of the last minute, each with its time and the number of equal ones since.
#[derive(Default)]
pub(super) struct RefusedOpenings(Mutex<HashMap<OpeningKind, (Instant, u64)>>);

impl RefusedOpenings {
    /// Counts a refusal if an equal one was recorded within the last minute. Otherwise the caller records it.
    pub(super) fn is_counted(&self, kind: &OpeningKind, now: Instant) -> bool {
        let mut kinds = self.0.lock();
        if let Some((_, count)) = kinds.get_mut(kind) {
            *count += 1;
            return true;
        }
        if kinds.len() < KINDS_MAX {
            kinds.insert(kind.clone(), (now, 0));
        }
        false
    }

    /// Ends what is older than a minute, or all without `now`, and takes the counts.
    fn take_ended(&self, now: Option<Instant>) -> Vec<(OpeningKind, u64)> {
        let mut kinds = self.0.lock();
        let ended =
            kinds.extract_if(|_, (since, _)| now.is_none_or(|now| now.duration_since(*since) >= WINDOW));
        ended.filter_map(|(kind, (_, count))| (count > 0).then_some((kind, count))).collect()
    }
}

#[boxed]
impl Admin {
    /// Records the counts of refused openings whose minute is over, or all without `now`.
    pub async fn record_refused_openings(&self, now: Option<Instant>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(agent: &str, error_type: ErrorType) -> OpeningKind {
        let name = |text: &str| Name::parse(text).expect("a name");
        OpeningKind {
            principal: "t1".into(),
            organization: name("acme"),
            agent: name(agent),
            error_type,
            source: "http",
        }
    }

    #[test]
    fn r9_18_equal_refused_openings_are_counted_and_others_are_recorded() {
        let (refused, now) = (RefusedOpenings::default(), Instant::now());
        let no_agent = kind("bot", ErrorType::NotFound);
        assert!(!refused.is_counted(&no_agent, now));
        assert!((0..50).all(|_| refused.is_counted(&no_agent, now)));
        assert!(!refused.is_counted(&kind("other", ErrorType::NotFound), now));
        assert!(!refused.is_counted(&kind("bot", ErrorType::NoTools), now));
        assert_eq!(refused.take_ended(Some(now)), []);
        assert_eq!(refused.take_ended(Some(now + WINDOW)), [(no_agent.clone(), 50)]);
        assert!(!refused.is_counted(&no_agent, now + WINDOW), "recorded after its minute");
        assert!(refused.is_counted(&no_agent, now + WINDOW));
        assert_eq!(refused.take_ended(None), [(no_agent, 1)]);
    }

    #[test]
    fn r9_18_kinds_of_refused_openings_are_bounded_and_the_rest_is_recorded() {
        let (refused, now) = (RefusedOpenings::default(), Instant::now());
        let kinds: Vec<_> =
            (0..=KINDS_MAX).map(|number| kind(&format!("a{number}"), ErrorType::NotFound)).collect();
        assert!(kinds.iter().all(|kind| !refused.is_counted(kind, now)));
        assert!(!refused.is_counted(&kinds[KINDS_MAX], now));
        assert!(refused.is_counted(&kinds[0], now));
    }
}
