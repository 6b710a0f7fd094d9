//! Tests of the token buckets, with the time as a parameter.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use toolgate_api::error::ErrorType;

use super::*;
use crate::check::tests::{checked_call, plugin};

impl Ledger {
    /// Takes one call from the organization's bucket.
    fn take(&self, organization: &Name, now_ms: u64) -> Result<(), u64> {
        let mut buckets = self.buckets.lock();
        if let Some(bucket) = buckets.take_of(*self.rates.read(), organization, now_ms)? {
            buckets.organizations.store(organization, bucket, now_ms);
        }
        Ok(())
    }

    fn organization_count(&self) -> usize {
        self.buckets.lock().organizations.buckets.len()
    }
}

#[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the answer")]
fn charge(
    ledger: &Ledger,
    organization: &str,
    call: Checked<&'static str>,
    now_ms: u64,
) -> Result<Admitted<&'static str>, Refusal> {
    ledger.charge(Consumer::without_session(&name(organization)), call, ChargeTime::at(now_ms))
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn ledger(calls_per_second: u32, burst: u32) -> Ledger {
    Ledger::new(Rates { calls_per_second: Some(calls_per_second), burst }, QuotaCounters::default())
}

#[test]
fn a_burst_passes_and_the_next_call_is_told_when_to_come_again() {
    let ledger = ledger(2, 3);
    for _ in 0..3 {
        assert_eq!(ledger.take(&name("a"), 0), Ok(()));
    }
    assert_eq!(ledger.take(&name("a"), 0), Err(500));
    assert_eq!(ledger.take(&name("a"), 499), Err(1));
    assert_eq!(ledger.take(&name("a"), 500), Ok(()));
}

#[test]
fn o4_refused_calls_are_told_to_come_again_at_different_times() {
    let told = |jitter_ms| {
        let ledger = ledger(2, 1);
        let call = || checked_call(plugin("crm", &["find"]), "crm/find", "{}");
        charge(&ledger, "a", call(), 0).expect("the first call");
        let now = ChargeTime { jitter_ms, ..ChargeTime::at(0) };
        let refused =
            ledger.charge(Consumer::without_session(&name("a")), call(), now).expect_err("the second");
        let wait = toolgate_api::text::duration_text(refused.error.retry_after_ms().unwrap());
        assert_eq!(refused.error.hint, format!("call again in {wait}"));
        refused.error.retry_after_ms()
    };
    assert_eq!([told(0), told(120), told(9_000)], [Some(500), Some(620), Some(1_000)]);
}

#[test]
fn one_organization_does_not_use_up_what_is_anothers() {
    let ledger = ledger(1, 1);
    assert_eq!(ledger.take(&name("a"), 0), Ok(()));
    assert!(ledger.take(&name("a"), 0).is_err());
    assert_eq!(ledger.take(&name("b"), 0), Ok(()));
}

#[test]
fn a_quiet_time_gives_back_the_burst_and_no_more() {
    let ledger = ledger(10, 2);
    for now_ms in [0, 0, 1_000_000, 1_000_000] {
        assert_eq!(ledger.take(&name("a"), now_ms), Ok(()));
    }
    assert!(ledger.take(&name("a"), 1_000_000).is_err());
}

#[test]
fn a_clock_that_jumps_back_gives_nothing_and_takes_nothing() {
    let ledger = ledger(1, 1);
    assert_eq!(ledger.take(&name("a"), 10_000), Ok(()));
    assert_eq!(ledger.take(&name("a"), 0), Err(1_000));
    assert_eq!(ledger.take(&name("a"), 10_999), Err(1));
    assert_eq!(ledger.take(&name("a"), 11_000), Ok(()));
}

#[test]
fn no_rate_means_no_bound_and_a_rate_of_zero_means_nothing() {
    let unlimited = Ledger::new(Rates::UNLIMITED, QuotaCounters::default());
    assert!((0..10_000).all(|_| unlimited.take(&name("a"), 0).is_ok()));
    assert!(unlimited.organization_count() == 0);
    assert_eq!(ledger(0, 5).take(&name("a"), u64::MAX), Err(NEVER_RETRY_MS));
}

#[test]
fn a_burst_of_zero_still_lets_calls_through_at_the_rate() {
    assert_eq!(ledger(1, 0).take(&name("a"), 0), Ok(()));
}

#[test]
fn organizations_that_are_quiet_are_forgotten() {
    let ledger = ledger(1_000, 1);
    for index in 0..10_000_u64 {
        assert_eq!(ledger.take(&name(&format!("o{index}")), index * 10), Ok(()));
    }
    assert!(ledger.organization_count() <= FIRST_SWEEP, "{}", ledger.organization_count());
}

#[test]
fn organizations_that_are_busy_are_kept() {
    let ledger = ledger(1, 1);
    for index in 0..3_000 {
        assert_eq!(ledger.take(&name(&format!("o{index}")), 0), Ok(()));
    }
    assert!((0..3_000).all(|index| ledger.take(&name(&format!("o{index}")), 0).is_err()));
}

/// O4: the error has the time of a retry.
#[test]
fn a_refused_charge_says_when_to_call_again() {
    let ledger = ledger(4, 1);
    let call = || checked_call(plugin("crm", &["search"]), "crm/search", "{}");
    let admitted = charge(&ledger, "a", call(), 0).expect("the first");
    assert_eq!(admitted.id().to_string(), "crm/search");
    let refusal = charge(&ledger, "a", call(), 0).expect_err("the second");
    assert_eq!(refusal.error.error_type, ErrorType::RateLimited);
    assert_eq!(refusal.error.details_json(), Some(json!({"retry_after_ms": 250})));
    assert!(refusal.error.retryable);
    assert_eq!(refusal.tool.map(|tool| tool.to_string()).as_deref(), Some("crm/search"));
    assert!(charge(&ledger, "a", call(), 250).is_ok());
}

/// C1: the `rate_limit` of a definition applies to all agents of an organization together.
#[test]
fn a_plugin_whose_service_takes_so_many_calls_is_called_no_more_often() {
    let ledger = Ledger::new(Rates::UNLIMITED, QuotaCounters::default());
    let mut limited = Arc::unwrap_or_clone(plugin("crm", &["search"]));
    let descriptor = Arc::get_mut(&mut limited.descriptor).expect("nobody else has it");
    descriptor.rate_limit = Some(RateLimit { calls: 2, seconds: 10 });
    let limited = Arc::new(limited);
    let charge = |organization: &str, now_ms| {
        let call = checked_call(Arc::clone(&limited), "crm/search", "{}");
        charge(&ledger, organization, call, now_ms).map(drop).map_err(|refusal| refusal.error.details_json())
    };
    assert_eq!([charge("a", 0), charge("a", 0)], [Ok(()), Ok(())]);
    assert_eq!(charge("a", 1_000), Err(Some(json!({"retry_after_ms": 4_000}))));
    assert_eq!(charge("b", 1_000), Ok(()));
    assert_eq!(charge("a", 5_000), Ok(()));
}

#[test]
fn a_call_that_its_organization_may_not_make_costs_the_plugin_nothing() {
    let ledger = ledger(1, 1);
    let mut limited = Arc::unwrap_or_clone(plugin("crm", &["search"]));
    let descriptor = Arc::get_mut(&mut limited.descriptor).expect("nobody else has it");
    descriptor.rate_limit = Some(RateLimit { calls: 2, seconds: 86_400 });
    let limited = Arc::new(limited);
    let charge = |now_ms| {
        let call = checked_call(Arc::clone(&limited), "crm/search", "{}");
        charge(&ledger, "a", call, now_ms).map(drop).map_err(|refusal| refusal.reason.rule)
    };
    assert_eq!(charge(0), Ok(()));
    assert_eq!(charge(0), Err("calls_per_second"));
    assert_eq!(charge(1_000), Ok(()));
    assert_eq!(charge(2_000), Err("rate_limit"));
}

proptest! {
    /// In any interval no more calls pass than the burst plus rate times time.
    #[test]
    fn no_pattern_of_calls_gets_more_than_the_rate(
        rate in 1..50_u32, burst in 1..20_u32, gaps in proptest::collection::vec(0..400_u64, 1..200)
    ) {
        let ledger = ledger(rate, burst);
        let (mut now_ms, mut passed) = (0, 0_u64);
        for gap in gaps {
            now_ms += gap;
            passed += u64::from(ledger.take(&name("a"), now_ms).is_ok());
        }
        prop_assert!(passed * 1_000 <= u64::from(burst) * 1_000 + now_ms * u64::from(rate));
    }

    /// A retry after `retry_after_ms` passes, and an earlier one does not.
    #[test]
    fn the_time_to_call_again_is_exact(rate in 1..2_000_u32, burst in 1..5_u32, start in 0..1_000_000_u64) {
        let ledger = ledger(rate, burst);
        let retry_after_ms = (0..).find_map(|_| ledger.take(&name("a"), start).err()).unwrap();
        prop_assert!(ledger.take(&name("a"), start + retry_after_ms - 1).is_err());
        prop_assert!(ledger.take(&name("a"), start + retry_after_ms).is_ok());
    }
}
