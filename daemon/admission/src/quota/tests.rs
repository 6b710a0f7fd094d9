//! Tests of the counters, with the time as a parameter.

use std::thread;

use proptest::prelude::*;
use toolgate_api::policy::OrgDocument;

use super::*;

const DAY_MS: u64 = 86_400_000;
/// The beginning of a day and of every shorter period.
const BEGIN_MS: u64 = 20_000 * DAY_MS;

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn tool(text: &str) -> ToolId {
    ToolId::parse(text).expect("a tool")
}

fn quotas(owner: Owner, json: &str) -> CallQuotas {
    let document = OrgDocument::parse(&format!(r#"{{"quotas":{json}}}"#)).expect(json);
    let none = || Arc::from([]);
    CallQuotas([(owner, document.quotas), (Owner::Organization, none()), (Owner::Agent, none())])
}

/// Calls of one user.
struct Caller<'a> {
    counters: &'a QuotaCounters,
    quotas: &'a CallQuotas,
    organization: &'a str,
    user: &'a str,
}

impl<'a> Caller<'a> {
    fn new(counters: &'a QuotaCounters, quotas: &'a CallQuotas) -> Self {
        Self { counters, quotas, organization: "acme", user: "ada" }
    }

    /// Reserves for a call of `crm/search` with a cost of 3, and returns the narrowed limits. The error has the quota's name
    /// and the time of a retry.
    fn reserve(&self, now_ms: u64) -> Result<(Reservation, Limits), (String, Option<u64>)> {
        self.reserve_for("crm/search", false, now_ms)
    }

    fn reserve_for(
        &self,
        called: &str,
        is_inner: bool,
        now_ms: u64,
    ) -> Result<(Reservation, Limits), (String, Option<u64>)> {
        let mut limits = Limits::DEFAULT;
        let organization = name(self.organization);
        let consumer = Consumer {
            organization: &organization,
            agent: &name("bot"),
            user: Some(self.user),
            token: "t",
            is_inner,
        };
        let reserved =
            self.counters.reserve(self.quotas, (consumer, &tool(called)), (&mut limits, 3), now_ms);
        let reserved = reserved.map_err(|found| (found.quota.name.to_string(), found.retry_after_ms));
        reserved.map(|mut reservation| {
            reservation.begin();
            (reservation, limits)
        })
    }

    /// The end of a call, or the name of the quota that refused it.
    fn call(&self, now_ms: u64, used: &Used) -> Result<(), String> {
        let (mut reservation, _) = self.reserve(now_ms).map_err(|(name, _)| name)?;
        reservation.settle(Some(used));
        Ok(())
    }
}

#[test]
fn o4_calls_of_a_period_are_counted_and_the_next_period_begins_anew() {
    let counters = QuotaCounters::default();
    let quotas =
        quotas(Owner::Organization, r#"[{"name":"daily","measure":"calls","amount":2,"seconds":86400}]"#);
    let caller = Caller::new(&counters, &quotas);
    let used = Used::default();
    assert_eq!([caller.call(BEGIN_MS, &used), caller.call(BEGIN_MS + 5, &used)], [Ok(()), Ok(())]);
    let refused = caller.reserve(BEGIN_MS + DAY_MS - 1_500).unwrap_err();
    assert_eq!(refused, ("daily".to_owned(), Some(1_500)));
    assert_eq!(caller.call(BEGIN_MS + DAY_MS, &used), Ok(()));
    assert_eq!(caller.call(BEGIN_MS + DAY_MS, &used), Ok(()));
    assert_eq!(caller.call(BEGIN_MS + DAY_MS, &used), Err("daily".to_owned()));
}

#[test]
fn o4_a_quota_is_divided_by_what_it_names() {
    let counters = QuotaCounters::default();
    let quotas = quotas(
        Owner::Platform,
        r#"[{"name":"each","measure":"calls","amount":1,"seconds":60,"per":["user"],"tools":["crm/*"]}]"#,
    );
    let ada = Caller::new(&counters, &quotas);
    let bob = Caller { user: "bob", ..Caller::new(&counters, &quotas) };
    let namesake = Caller { organization: "globex", ..Caller::new(&counters, &quotas) };
    for caller in [&ada, &bob, &namesake] {
        assert_eq!(caller.call(BEGIN_MS, &Used::default()), Ok(()));
        assert_eq!(caller.call(BEGIN_MS, &Used::default()), Err("each".to_owned()));
    }
    assert!(ada.reserve_for("mail/send", false, BEGIN_MS).is_ok(), "the quota does not count it");
}

/// The parts of a key cannot run into each other.
#[test]
fn o4_no_name_stands_for_two() {
    let quotas = quotas(
        Owner::Platform,
        r#"[{"name":"a","measure":"calls","amount":1,"seconds":60,"per":["user","token"]}]"#,
    );
    let quota = &quotas.0[0].1[0];
    let (organization, agent) = (name("acme"), name("bot"));
    let key_of = |user, token| {
        let consumer =
            Consumer { organization: &organization, agent: &agent, user: Some(user), token, is_inner: false };
        let mut key = String::new();
        write_key(&mut key, Owner::Platform, quota, &consumer, &tool("crm/search"));
        key
    };
    assert_ne!(key_of("ada1:x", "y"), key_of("ada", "1:xy"));
    assert_ne!(key_of("", "4:acme"), key_of("4:acme", ""));
}

#[test]
fn o4_a_counter_is_of_each_party_that_its_quota_names() {
    let organization = name("acme");
    let key_of = |per: &str, (agent, user, token, called): (&str, &str, &str, &str)| {
        let json = format!(r#"[{{"name":"a","measure":"calls","amount":1,"seconds":60,"per":["{per}"]}}]"#);
        let quotas = quotas(Owner::Platform, &json);
        let (agent, called) = (name(agent), tool(called));
        let consumer =
            Consumer { organization: &organization, agent: &agent, user: Some(user), token, is_inner: false };
        let mut key = String::new();
        write_key(&mut key, Owner::Platform, &quotas.0[0].1[0], &consumer, &called);
        key
    };
    let others = [
        ("bob", "ada", "t1", "crm/search"),
        ("bot", "bob", "t1", "crm/search"),
        ("bot", "ada", "t2", "crm/search"),
        ("bot", "ada", "t1", "crm/add"),
        ("bot", "ada", "t1", "mail/search"),
    ];
    for (per, are_apart) in [
        ("organization", [false, false, false, false, false]),
        ("agent", [true, false, false, false, false]),
        ("user", [false, true, false, false, false]),
        ("token", [false, false, true, false, false]),
        ("tool", [false, false, false, true, true]),
        ("plugin", [false, false, false, false, true]),
    ] {
        let key = key_of(per, ("bot", "ada", "t1", "crm/search"));
        assert_eq!(others.map(|other| key_of(per, other) != key), are_apart, "{per}");
    }
}

#[test]
fn o4_processor_time_is_an_amount_in_milliseconds() {
    let counters = QuotaCounters::default();
    let quotas = quotas(Owner::Agent, r#"[{"name":"cpu","measure":"cpu_ms","amount":5,"seconds":3600}]"#);
    let caller = Caller::new(&counters, &quotas);
    let used = |cpu_us| Used { cpu_us, ..Used::default() };
    assert_eq!(caller.call(BEGIN_MS, &used(4_999)), Ok(()));
    assert_eq!(caller.call(BEGIN_MS, &used(700)), Ok(()), "a microsecond was left");
    assert_eq!(caller.call(BEGIN_MS, &used(1)), Err("cpu".to_owned()));
}

#[test]
fn o4_what_a_call_did_not_use_is_given_back_and_a_call_gets_what_is_left() {
    let counters = QuotaCounters::default();
    let quotas = quotas(
        Owner::Organization,
        r#"[{"name":"fuel","measure":"fuel","amount":1500000000,"seconds":3600},
            {"name":"bytes","measure":"egress_bytes","amount":20000000,"seconds":3600}]"#,
    );
    let caller = Caller::new(&counters, &quotas);
    let (mut first, limits) = caller.reserve(BEGIN_MS).unwrap();
    assert_eq!(limits.fuel, Limits::DEFAULT.fuel);
    let (second, limits) = caller.reserve(BEGIN_MS).unwrap();
    assert_eq!(limits.fuel, 500_000_000, "the rest");
    assert_eq!(limits.egress_bytes, 20_000_000 - Limits::DEFAULT.egress_bytes);
    let refused = caller.reserve(BEGIN_MS).unwrap_err();
    assert_eq!(refused, ("fuel".to_owned(), Some(RUNNING_RETRY_MS)), "calls that run give back the rest");
    first.settle(Some(&Used { fuel: 400_000_000, egress_bytes: 1_000, ..Used::default() }));
    assert_eq!(caller.reserve(BEGIN_MS).unwrap().1.fuel, 600_000_000);
    drop(second);
    let left = caller.reserve(BEGIN_MS).map(|(_, limits)| limits.fuel);
    assert_eq!(left.unwrap_err().0, "fuel", "a guest that began and was never settled used all");
}

#[test]
fn o4_a_quota_that_leaves_less_fuel_says_when_there_is_more() {
    let counters = QuotaCounters::default();
    let quotas = quotas(
        Owner::Organization,
        r#"[{"name":"hourly","measure":"fuel","amount":1500000000,"seconds":3600}]"#,
    );
    let caller = Caller::new(&counters, &quotas);
    let (first, _) = caller.reserve(BEGIN_MS + 600_000).unwrap();
    assert_eq!(first.narrowed_by(), None);
    let (second, _) = caller.reserve(BEGIN_MS + 600_000).unwrap();
    let narrowed = second.narrowed_by().expect("less than a call may use");
    assert_eq!((&*narrowed.name, narrowed.owner), ("hourly", Owner::Organization));
    assert_eq!(narrowed.retry_after_ms, Some(3_000_000));

    let small =
        self::quotas(Owner::Agent, r#"[{"name":"small","measure":"fuel","amount":5,"seconds":3600}]"#);
    let caller = Caller { quotas: &small, ..caller };
    let (whole, limits) = caller.reserve(BEGIN_MS).unwrap();
    assert_eq!((limits.fuel, whole.narrowed_by().unwrap().retry_after_ms), (5, None), "never more");
}

#[test]
fn o4_a_call_that_never_ran_used_nothing() {
    let counters = QuotaCounters::default();
    let quotas = quotas(Owner::Agent, r#"[{"name":"one","measure":"calls","amount":1,"seconds":3600}]"#);
    let caller = Caller::new(&counters, &quotas);
    let (mut reservation, _) = caller.reserve(BEGIN_MS).unwrap();
    reservation.settle(None);
    assert_eq!(caller.call(BEGIN_MS, &Used::default()), Ok(()));
    assert_eq!(caller.call(BEGIN_MS, &Used::default()), Err("one".to_owned()));
}

#[test]
fn o4_costs_are_prices_and_not_narrowed() {
    let counters = QuotaCounters::default();
    let quotas = quotas(Owner::Agent, r#"[{"name":"budget","measure":"cost","amount":7,"seconds":3600}]"#);
    let caller = Caller::new(&counters, &quotas);
    let used = Used { cost: 3, ..Used::default() };
    assert_eq!([caller.call(BEGIN_MS, &used), caller.call(BEGIN_MS, &used)], [Ok(()), Ok(())]);
    assert_eq!(caller.call(BEGIN_MS, &used), Err("budget".to_owned()), "1 unit is left, and a call costs 3");
}

#[test]
fn o4_calls_at_once_are_counted_while_they_run_and_scripts_run_in_their_own_place() {
    let counters = QuotaCounters::default();
    let quotas = quotas(Owner::Agent, r#"[{"name":"two","measure":"running","amount":2}]"#);
    let caller = Caller::new(&counters, &quotas);
    let (first, second) = (caller.reserve(BEGIN_MS), caller.reserve(BEGIN_MS));
    assert_eq!(caller.reserve(BEGIN_MS).unwrap_err(), ("two".to_owned(), Some(RUNNING_RETRY_MS)));
    assert!(caller.reserve_for("crm/search", true, BEGIN_MS).is_ok());
    drop(first);
    let third = caller.reserve(BEGIN_MS);
    assert!(third.is_ok());
    drop((second, third));
    assert!(counters.take_changes(BEGIN_MS).is_empty(), "what runs is not stored");
    assert_eq!(counters.counters.pin().len(), 0, "and not kept");
}

#[test]
fn o4_a_quota_of_zero_never_opens() {
    let counters = QuotaCounters::default();
    let quotas = quotas(Owner::Agent, r#"[{"name":"none","measure":"calls","amount":0,"seconds":1}]"#);
    let caller = Caller::new(&counters, &quotas);
    assert_eq!(caller.reserve(BEGIN_MS).unwrap_err(), ("none".to_owned(), None));
}

#[test]
fn o4_stored_counters_go_on_and_those_of_ended_periods_are_dropped() {
    let counters = QuotaCounters::default();
    let quotas = quotas(
        Owner::Organization,
        r#"[{"name":"day","measure":"calls","amount":2,"seconds":86400},
            {"name":"second","measure":"calls","amount":2,"seconds":1}]"#,
    );
    let caller = Caller::new(&counters, &quotas);
    caller.call(BEGIN_MS, &Used::default()).unwrap();
    let saved = counters.take_changes(BEGIN_MS);
    assert_eq!(saved.len(), 2);
    assert!(counters.take_changes(BEGIN_MS).is_empty(), "nothing changed");
    let restored = QuotaCounters::restore(saved);
    let caller = Caller::new(&restored, &quotas);
    assert_eq!(caller.call(BEGIN_MS, &Used::default()), Ok(()));
    assert_eq!(caller.call(BEGIN_MS + 1_000, &Used::default()), Err("day".to_owned()));
    restored.take_changes(BEGIN_MS + 10_000);
    assert_eq!(restored.counters.pin().len(), 1);
}

#[test]
fn o4_calls_on_many_threads_never_exceed_a_quota() {
    let counters = QuotaCounters::default();
    let quotas =
        quotas(Owner::Platform, r#"[{"name":"all","measure":"calls","amount":1000,"seconds":86400}]"#);
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let caller = Caller::new(&counters, &quotas);
                for _ in 0..500 {
                    let call = caller.call(BEGIN_MS, &Used::default());
                    passed.fetch_add(u64::from(call.is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), 1_000);
}

proptest! {
    /// No period uses more than the amount.
    #[test]
    fn o4_no_period_exceeds_its_quota(
        amount in 1..5_000_000_000_u64,
        calls in proptest::collection::vec((0..3_000_u64, 0..1_000_000_000_u64), 1..60),
    ) {
        let counters = QuotaCounters::default();
        let json = format!(r#"[{{"name":"fuel","measure":"fuel","amount":{amount},"seconds":10}}]"#);
        let quotas = quotas(Owner::Organization, &json);
        let caller = Caller::new(&counters, &quotas);
        let (mut now_ms, mut used) = (BEGIN_MS, std::collections::BTreeMap::<u64, u64>::new());
        for (gap_ms, wanted) in calls {
            now_ms += gap_ms;
            let Ok((mut reservation, limits)) = caller.reserve(now_ms) else { continue };
            let fuel = wanted.min(limits.fuel);
            *used.entry(now_ms / 10_000).or_default() += fuel;
            reservation.settle(Some(&Used { fuel, ..Used::default() }));
        }
        prop_assert!(used.values().all(|used| *used <= amount), "{used:?}");
    }
}

#[test]
fn o4_the_calls_of_a_script_use_what_the_script_holds() {
    let counters = QuotaCounters::default();
    let quotas =
        quotas(Owner::Agent, r#"[{"name":"fuel","measure":"fuel","amount":1000000000,"seconds":3600}]"#);
    let caller = Caller::new(&counters, &quotas);
    let (mut script, _) = caller.reserve(BEGIN_MS).unwrap();
    let (mut inner, limits) = caller.reserve_for("crm/search", true, BEGIN_MS).unwrap();
    assert_eq!(limits.fuel, Limits::DEFAULT.fuel);
    inner.settle(Some(&Used { fuel: 300, ..Used::default() }));
    script.settle(Some(&Used { fuel: 200, ..Used::default() }));
    assert_eq!(caller.reserve(BEGIN_MS).unwrap().1.fuel, 999_999_500);
}

#[test]
fn o4_an_organization_keeps_a_bounded_number_of_counters() {
    let counters = QuotaCounters::default();
    let quotas = quotas(
        Owner::Organization,
        r#"[{"name":"a","measure":"calls","amount":1,"seconds":60,"per":["user"]}]"#,
    );
    for number in 0..COUNTERS_OF_ORGANIZATION {
        let user = number.to_string();
        Caller { user: &user, ..Caller::new(&counters, &quotas) }.call(BEGIN_MS, &Used::default()).unwrap();
    }
    let other = Caller { user: "one more", ..Caller::new(&counters, &quotas) };
    assert_eq!(other.call(BEGIN_MS, &Used::default()), Err("a".to_owned()));
    let globex = Caller { organization: "globex", ..Caller::new(&counters, &quotas) };
    assert_eq!(globex.call(BEGIN_MS, &Used::default()), Ok(()));
    counters.take_changes(BEGIN_MS + 120_000);
    assert_eq!(other.call(BEGIN_MS + 120_000, &Used::default()), Ok(()));
}

#[test]
fn o4_calls_that_run_give_back_no_calls() {
    let counters = QuotaCounters::default();
    let quotas = quotas(Owner::Agent, r#"[{"name":"one","measure":"calls","amount":1,"seconds":3600}]"#);
    let caller = Caller::new(&counters, &quotas);
    let running = caller.reserve(BEGIN_MS);
    assert_eq!(caller.reserve(BEGIN_MS + 1_000).unwrap_err(), ("one".to_owned(), Some(3_599_000)));
    drop(running);
}

#[test]
fn o4_a_period_with_the_tag_of_an_earlier_one_begins_anew() {
    let quotas = quotas(Owner::Agent, r#"[{"name":"two","measure":"calls","amount":2,"seconds":1}]"#);
    for periods in [1, TAGS - 1, TAGS, TAGS + 1, 2 * TAGS] {
        let counters = QuotaCounters::default();
        let caller = Caller::new(&counters, &quotas);
        let later_ms = BEGIN_MS + periods * PER_SECOND;
        for at_ms in [BEGIN_MS, later_ms] {
            let calls = [(); 3].map(|()| caller.call(at_ms, &Used::default()));
            assert_eq!(calls, [Ok(()), Ok(()), Err("two".to_owned())], "{periods} periods");
        }
    }
}

#[test]
fn o4_a_call_that_ends_in_a_period_with_the_same_tag_changes_nothing_in_it() {
    let quotas =
        quotas(Owner::Agent, r#"[{"name":"fuel","measure":"fuel","amount":3000000000,"seconds":1}]"#);
    for periods in [0, TAGS] {
        let counters = QuotaCounters::default();
        let caller = Caller::new(&counters, &quotas);
        let later_ms = BEGIN_MS + periods * PER_SECOND;
        let (mut long, _) = caller.reserve(BEGIN_MS).expect("reserved");
        let (mut short, _) = caller.reserve(later_ms).expect("reserved");
        short.settle(Some(&Used { fuel: 100, ..Used::default() }));
        let _running = caller.reserve(later_ms).expect("reserved");
        long.settle(Some(&Used::default()));
        let counters = counters.counters.pin();
        let used: u64 =
            counters.iter().map(|(_, counter)| counter.state.load(Ordering::Relaxed) & USED_MASK).sum();
        assert_eq!(used, Limits::DEFAULT.fuel + 100, "{periods} periods");
    }
}
