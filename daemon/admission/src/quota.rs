//! Counts what calls use against the quotas of the policies (O4), without a lock.
//!
//! A call reserves the most that it may use before it runs, and gives back the rest when it has run. A reservation that is
//! never settled was used whole. A counter is one atomic number: 8 bits of its period and 56 bits of use, so that the first
//! use in a new period starts it at zero in the same step. The keys of counters hold the lengths of their parts, so that no
//! name can stand for two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use foldhash::quality::RandomState;
use toolgate_api::limits::Limits;
use toolgate_api::name::{Name, ToolId};
use toolgate_api::quota::{Measure, Quota, QuotaPer};

const USED_BITS: u32 = 56;
const USED_MASK: u64 = (1 << USED_BITS) - 1;
/// Number of tags. Periods that are this far apart have the same one.
const TAGS: u64 = 1 << (u64::BITS - USED_BITS);
/// Retry of a call that would be one too many at once. The end of a running call is not known.
const RUNNING_RETRY_MS: u64 = 50;
const PER_SECOND: u64 = 1_000;
/// Most counters that the calls of an organization keep. Each takes some 300 bytes.
const COUNTERS_OF_ORGANIZATION: usize = 50_000;

type HashMap<V> = papaya::HashMap<Box<str>, V, RandomState>;

/// Bytes of most keys.
const KEY_BYTES: usize = 128;

/// The parties that a call is charged to.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// The organization.
    pub organization: &'a Name,
    /// The agent.
    pub agent: &'a Name,
    /// The session's user.
    pub user: Option<&'a str>,
    /// The token of the request.
    pub token: &'a str,
    /// Whether a script makes the call, in the place of its own.
    pub is_inner: bool,
}

impl<'a> Consumer<'a> {
    /// A call without session and token, as authors of plugins and tests make it.
    pub fn without_session(organization: &'a Name) -> Self {
        Self { organization, agent: organization, user: None, token: "", is_inner: false }
    }
}

/// The quotas of each layer for a call.
#[derive(Clone, Debug)]
pub(crate) struct CallQuotas(pub [(Owner, Arc<[Quota]>); 3]);

/// The layer whose policy has a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Platform,
    Organization,
    Agent,
}

impl Owner {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Organization => "organization",
            Self::Agent => "agent",
        }
    }
}

/// The counted use of one call: the most that it may be, or the real one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Guest instructions.
    pub fuel: u64,
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Bytes over the network.
    pub egress_bytes: u64,
    /// Declared cost.
    pub cost: u64,
}

impl Used {
    fn most(limits: &Limits, cost: u64) -> Self {
        // A guest cannot compute for longer than its deadline.
        let cpu_us = limits.deadline_ms.saturating_mul(1_000);
        Self { fuel: limits.fuel, cpu_us, egress_bytes: limits.egress_bytes, cost }
    }

    /// Milliseconds of processor time are counted in microseconds.
    fn of(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Calls | Measure::Running => 1,
            Measure::Fuel => self.fuel,
            Measure::CpuMs => self.cpu_us,
            Measure::EgressBytes => self.egress_bytes,
            Measure::Cost => self.cost,
        }
    }
}

/// A quota that has nothing left for a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exceeded<'a> {
    pub quota: &'a Quota,
    pub owner: Owner,
    /// Milliseconds until another call may pass; none where the quota never lets one pass.
    pub retry_after_ms: Option<u64>,
    /// Whether the organization has too many counters for another one.
    pub too_many: bool,
}

/// The counters of all quotas that were used in their present period.
#[derive(Debug, Default)]
pub struct QuotaCounters {
    counters: HashMap<Arc<Counter>>,
    /// Counters of each organization, since it chooses the names of its users.
    kept: HashMap<Arc<AtomicUsize>>,
    /// Calls that found a quota nearly used up.
    near_end: AtomicU64,
}

/// A counter as it is stored: its key, the beginning of its period in seconds since 1970, and the use in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCounter {
    /// Key of the counter.
    pub key: String,
    /// The organization whose call made it.
    pub organization: String,
    /// Period in seconds.
    pub seconds: u32,
    /// Number of the period.
    pub period: u64,
    /// Use in the period.
    pub used: u64,
}

#[derive(Debug)]
struct Counter {
    /// The low bits of the period's number, and the use in it.
    state: AtomicU64,
    /// The part of the use that is reserved for calls that still run.
    held: AtomicU64,
    /// The counters of its organization.
    kept: Arc<AtomicUsize>,
    /// Number of the period last used, for storing.
    period: AtomicU64,
    /// None counts what runs, which no period ends.
    seconds: Option<u32>,
    is_changed: AtomicBool,
    organization: String,
}

/// The use that is reserved for a call, and its counters.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    parts: Vec<Part>,
    has_begun: bool,
    narrowed_by: Option<NarrowingQuota>,
}

/// A quota that left a call less fuel than its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NarrowingQuota {
    pub name: String,
    pub owner: Owner,
    /// Milliseconds until the next period; none where a whole period would leave the call no more.
    pub retry_after_ms: Option<u64>,
}

#[derive(Debug)]
struct Part {
    counter: Arc<Counter>,
    measure: Measure,
    period: u64,
    reserved: u64,
}

impl QuotaCounters {
    /// The counters as they were stored.
    pub fn restore(saved: impl IntoIterator<Item = SavedCounter>) -> Self {
        let (counters, kept) = (HashMap::default(), HashMap::default());
        for SavedCounter { key, organization, seconds, period, used } in saved {
            let state = (period << USED_BITS) | used.min(USED_MASK);
            let of = kept_of(&kept, &organization);
            of.fetch_add(1, Ordering::Relaxed);
            let counter =
                Counter { state: state.into(), ..Counter::new(organization, of, Some(seconds), period) };
            counters.pin().insert(key.into_boxed_str(), Arc::new(counter));
        }
        Self { counters, kept, near_end: AtomicU64::new(0) }
    }

    /// Removes counters of ended periods, and returns those that changed since the last time.
    pub fn take_changes(&self, now_ms: u64) -> Vec<SavedCounter> {
        let counters = self.counters.pin();
        counters.retain(|_, counter| {
            // A counter of the period before may be about to be used: only one that is idle for longer is removed.
            let is_kept = match counter.seconds {
                Some(_) => counter.period.load(Ordering::Relaxed) + 1 >= counter.period_at(now_ms),
                None => Arc::strong_count(counter) > 1 || counter.state.load(Ordering::Relaxed) > 0,
            };
            if !is_kept {
                counter.kept.fetch_sub(1, Ordering::Relaxed);
            }
            is_kept
        });
        let changed =
            counters.iter().filter(|(_, counter)| counter.is_changed.swap(false, Ordering::Relaxed));
        changed.filter_map(|(key, counter)| counter.to_saved(key)).collect()
    }

    /// Notes that these could not be stored, so that the next [`take_changes`](Self::take_changes) returns them again.
    pub fn keep_unsaved(&self, unsaved: &[SavedCounter]) {
        let counters = self.counters.pin();
        for counter in unsaved.iter().filter_map(|saved| counters.get(&*saved.key)) {
            counter.is_changed.store(true, Ordering::Relaxed);
        }
    }

    /// The number of calls that found nine tenths of a quota of calls or cost used.
    pub fn near_end(&self) -> u64 {
        self.near_end.load(Ordering::Relaxed)
    }

    /// Reserves the most that a call may use, and narrows its limits to what is left.
    pub(crate) fn reserve<'q>(
        &self,
        quotas: &'q CallQuotas,
        (consumer, tool): (Consumer<'_>, &ToolId),
        (limits, cost): (&mut Limits, u64),
        now_ms: u64,
    ) -> Result<Reservation, Exceeded<'q>> {
        let most_parts = quotas.0.iter().map(|(_, quotas)| quotas.len()).sum();
        let mut reservation = Reservation::default();
        reservation.parts.reserve(most_parts);
        let (counters, mut key) = (self.counters.pin(), String::with_capacity(KEY_BYTES));
        for (owner, quota) in quotas.that_count(&consumer, tool) {
            let exceeded = |retry| exceeded_error(quota, owner, retry, now_ms);
            if !quota.is_ever_open() {
                return Err(exceeded(Retry::Never));
            }
            write_key(&mut key, owner, quota, &consumer, tool);
            let counter = match counters.get(&*key) {
                Some(counter) => Some(Arc::clone(counter)),
                None => self.add_counter(&key, quota, &consumer, now_ms),
            };
            let counter = counter.ok_or_else(|| exceeded(Retry::TooMany))?;
            let most = Used::most(limits, cost).of(quota.measure);
            // A script holds a reservation for what its calls use.
            let most = if consumer.is_inner && quota.measure.is_bound() { 0 } else { most };
            let (period, reserved, is_near_end) =
                counter.reserve(quota, most, now_ms).map_err(|is_held| exceeded(Retry::of(is_held)))?;
            if is_near_end {
                self.near_end.fetch_add(1, Ordering::Relaxed);
            }
            if most > 0 {
                reservation.narrow((quota, owner), limits, reserved, now_ms);
            }
            reservation.parts.push(Part { counter, measure: quota.measure, period, reserved });
        }
        Ok(reservation)
    }

    /// Adds the counter of a quota for this consumer; none where the organization has too many.
    fn add_counter(
        &self,
        key: &str,
        quota: &Quota,
        consumer: &Consumer<'_>,
        now_ms: u64,
    ) -> Option<Arc<Counter>> {
        let organization = consumer.organization.as_str();
        let kept = kept_of(&self.kept, organization);
        if kept.fetch_add(1, Ordering::Relaxed) >= COUNTERS_OF_ORGANIZATION {
            kept.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let period = quota.seconds.map_or(0, |seconds| period_at(seconds, now_ms));
        let new = Arc::new(Counter::new(organization.to_owned(), Arc::clone(&kept), quota.seconds, period));
        match self.counters.pin().try_insert(key.into(), new) {
            Ok(counter) => Some(Arc::clone(counter)),
            Err(found) => {
                kept.fetch_sub(1, Ordering::Relaxed);
                Some(Arc::clone(found.current))
            }
        }
    }
}

/// The number of counters of an organization.
fn kept_of(kept: &HashMap<Arc<AtomicUsize>>, organization: &str) -> Arc<AtomicUsize> {
    let kept = kept.pin();
    match kept.get(organization) {
        Some(found) => Arc::clone(found),
        None => Arc::clone(kept.get_or_insert_with(organization.into(), Arc::default)),
    }
}

impl CallQuotas {
    /// The quotas that count a call of this tool.
    fn that_count(&self, consumer: &Consumer<'_>, tool: &ToolId) -> impl Iterator<Item = (Owner, &Quota)> {
        let all = self.0.iter().flat_map(|(owner, quotas)| quotas.iter().map(|quota| (*owner, quota)));
        let is_inner = consumer.is_inner;
        all.filter(move |(_, quota)| {
            let counts = quota.tools.as_ref().is_none_or(|tools| tools.entry_for(tool).is_some());
            counts && !(is_inner && quota.measure == Measure::Running)
        })
    }
}

impl Counter {
    fn new(organization: String, kept: Arc<AtomicUsize>, seconds: Option<u32>, period: u64) -> Self {
        Self {
            organization,
            kept,
            state: AtomicU64::new(tag(period) << USED_BITS),
            held: AtomicU64::new(0),
            period: period.into(),
            seconds,
            is_changed: AtomicBool::new(false),
        }
    }

    /// None for a counter of what runs, and for one that a call has just started anew: it is stored the next time.
    fn to_saved(&self, key: &str) -> Option<SavedCounter> {
        let state = self.state.load(Ordering::Relaxed);
        let period = self.period.load(Ordering::Relaxed);
        let saved = SavedCounter {
            key: key.to_owned(),
            organization: self.organization.clone(),
            seconds: self.seconds?,
            period,
            used: state & USED_MASK,
        };
        (tag(period) == state >> USED_BITS).then_some(saved)
    }

    fn period_at(&self, now_ms: u64) -> u64 {
        self.seconds.map_or(0, |seconds| period_at(seconds, now_ms))
    }

    /// Empties a counter whose last period is so long ago that its tag is in use again.
    ///
    /// INVARIANT: the period is written before a use of it, and read after the use, so that no use of this period is emptied.
    fn empty_if_tag_repeats(&self, period: u64) {
        let state = self.state.load(Ordering::Acquire);
        if period.saturating_sub(self.period.load(Ordering::Acquire)) < TAGS {
            return;
        }
        let empty = tag(period) << USED_BITS;
        // It fails where another call has emptied the counter.
        let _ = self.state.compare_exchange(state, empty, Ordering::AcqRel, Ordering::Relaxed);
        self.period.fetch_max(period, Ordering::AcqRel);
    }

    /// Reserves up to `most`. Returns the period, the reserved use, and whether nine tenths of the calls or of the cost are used with it. The error says whether calls that run hold some of what is
    /// missing. Of `calls` and `cost` a call gets all or nothing.
    fn reserve(&self, quota: &Quota, most: u64, now_ms: u64) -> Result<(u64, u64, bool), bool> {
        let period = self.period_at(now_ms);
        self.empty_if_tag_repeats(period);
        let (tag, amount) = (tag(period), amount(quota));
        let is_bound = quota.measure.is_bound();
        let (mut reserved, mut is_near_end) = (0, false);
        let reserve = |state: u64| {
            let used = used_in(state, tag);
            let left = amount.saturating_sub(used);
            reserved = if is_bound { most.min(left) } else { most };
            let fits = if is_bound { left > 0 || most == 0 } else { most <= left };
            is_near_end = !is_bound && (used + reserved).saturating_mul(10) >= amount.saturating_mul(9);
            fits.then(|| (tag << USED_BITS) | (used + reserved))
        };
        let taken = self.state.fetch_update(Ordering::Release, Ordering::Relaxed, reserve);
        let is_given_back = is_given_back(quota.measure);
        taken.map_err(|_| is_given_back && self.held.load(Ordering::Relaxed) > 0)?;
        if is_given_back {
            self.held.fetch_add(reserved, Ordering::Relaxed);
        }
        // Most calls find the period and the mark as they are, and a read is cheaper than a write.
        if self.period.load(Ordering::Relaxed) < period {
            self.period.fetch_max(period, Ordering::Relaxed);
        }
        self.note_change();
        Ok((period, reserved, is_near_end))
    }

    fn note_change(&self) {
        if !self.is_changed.load(Ordering::Relaxed) {
            self.is_changed.store(true, Ordering::Relaxed);
        }
    }

    /// Replaces what was reserved by what was used, unless the period has ended.
    fn settle(&self, measure: Measure, period: u64, reserved: u64, used: u64) {
        if is_given_back(measure) {
            self.held.fetch_sub(reserved, Ordering::Relaxed);
        }
        // A later period may have the same tag.
        if used == reserved || self.period.load(Ordering::Relaxed).saturating_sub(period) >= TAGS {
            return;
        }
        let tag = tag(period);
        let settle = |state: u64| {
            let total = (state & USED_MASK).saturating_sub(reserved).saturating_add(used).min(USED_MASK);
            (state >> USED_BITS == tag).then_some((tag << USED_BITS) | total)
        };
        if self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, settle).is_ok() {
            self.note_change();
        }
    }
}

impl Reservation {
    /// Narrows the limits of the call to what was reserved, and notes the quota that left less fuel.
    fn narrow(&mut self, (quota, owner): (&Quota, Owner), limits: &mut Limits, reserved: u64, now_ms: u64) {
        match quota.measure {
            Measure::Fuel if reserved < limits.fuel => {
                limits.fuel = reserved;
                let until_next = quota.seconds.map(|seconds| until_next(seconds, now_ms));
                self.narrowed_by = Some(NarrowingQuota {
                    name: quota.name.to_string(),
                    owner,
                    retry_after_ms: until_next.filter(|_| reserved < quota.amount),
                });
            }
            Measure::EgressBytes => limits.egress_bytes = limits.egress_bytes.min(reserved),
            _ => {}
        }
    }

    /// The quota that left the call less fuel than its limit.
    pub(crate) fn narrowed_by(&self) -> Option<&NarrowingQuota> {
        self.narrowed_by.as_ref()
    }

    /// The guest begins to run: from now on, what is not settled counts as used.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Counts what was used instead of what was reserved; nothing for a call that never ran.
    pub(crate) fn settle(&mut self, used: Option<&Used>) {
        for Part { counter, measure, period, reserved } in self.parts.drain(..) {
            let used = used.filter(|_| measure != Measure::Running);
            counter.settle(measure, period, reserved, used.map_or(0, |used| used.of(measure)));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for Part { counter, measure, period, reserved } in self.parts.drain(..) {
            let is_used = self.has_begun && measure != Measure::Running;
            counter.settle(measure, period, reserved, if is_used { reserved } else { 0 });
        }
    }
}

/// Whether the end of a call gives back what it did not use. Calls and costs are used when the call begins.
fn is_given_back(measure: Measure) -> bool {
    measure.is_bound() || measure == Measure::Running
}

/// The end of the wait for a quota.
#[derive(Clone, Copy)]
enum Retry {
    /// The next period, or the end of a call that runs.
    NextPeriod,
    /// A call that runs gives back what it does not use.
    EndOfCall,
    /// Another counter ends.
    TooMany,
    Never,
}

impl Retry {
    fn of(is_held: bool) -> Self {
        if is_held { Self::EndOfCall } else { Self::NextPeriod }
    }
}

fn exceeded_error(quota: &Quota, owner: Owner, retry: Retry, now_ms: u64) -> Exceeded<'_> {
    let until_next = |seconds| until_next(seconds, now_ms);
    let retry_after_ms = match retry {
        Retry::NextPeriod => Some(quota.seconds.map_or(RUNNING_RETRY_MS, until_next)),
        Retry::EndOfCall => Some(RUNNING_RETRY_MS.min(quota.seconds.map_or(RUNNING_RETRY_MS, until_next))),
        Retry::TooMany => Some(quota.seconds.map_or(RUNNING_RETRY_MS, until_next)),
        Retry::Never => None,
    };
    Exceeded { quota, owner, retry_after_ms, too_many: matches!(retry, Retry::TooMany) }
}

/// Milliseconds until the next period.
fn until_next(seconds: u32, now_ms: u64) -> u64 {
    let length_ms = u64::from(seconds.max(1)) * PER_SECOND;
    length_ms - now_ms % length_ms
}

/// The amount in the unit that is counted.
fn amount(quota: &Quota) -> u64 {
    match quota.measure {
        Measure::CpuMs => quota.amount.saturating_mul(1_000).min(USED_MASK),
        _ => quota.amount,
    }
}

fn period_at(seconds: u32, now_ms: u64) -> u64 {
    now_ms / PER_SECOND / u64::from(seconds.max(1))
}

fn tag(period: u64) -> u64 {
    period & (u64::MAX >> USED_BITS)
}

/// The use in the period with this tag. An earlier period has ended; time never goes back.
fn used_in(state: u64, tag: u64) -> u64 {
    if state >> USED_BITS == tag { state & USED_MASK } else { 0 }
}

/// Writes the key of a counter. Formatting macros take several times as long.
fn write_key(key: &mut String, owner: Owner, quota: &Quota, consumer: &Consumer<'_>, tool: &ToolId) {
    key.clear();
    let mut part = |part: &str| {
        push_number(key, part.len() as u64);
        key.push(':');
        key.push_str(part);
    };
    part(owner.as_str());
    if owner != Owner::Platform {
        part(consumer.organization.as_str());
    }
    if owner == Owner::Agent {
        part(consumer.agent.as_str());
    }
    part(quota.name.as_str());
    part(quota.measure.as_str());
    for per in &quota.per {
        match per {
            QuotaPer::Organization => part(consumer.organization.as_str()),
            QuotaPer::Agent => {
                part(consumer.organization.as_str());
                part(consumer.agent.as_str());
            }
            QuotaPer::User => {
                // A user's name is the organization's word.
                part(consumer.organization.as_str());
                part(consumer.user.map_or("", |user| user));
            }
            QuotaPer::Tool => {
                part(tool.namespace.as_str());
                part(tool.tool.as_str());
            }
            QuotaPer::Plugin => part(tool.namespace.as_str()),
            QuotaPer::Token => part(consumer.token),
        }
    }
    key.push('/');
    push_number(key, quota.seconds.unwrap_or(0).into());
}

fn push_number(text: &mut String, number: u64) {
    if number > 9 {
        push_number(text, number / 10);
    }
    let digit = u8::try_from(number % 10).unwrap_or_default();
    text.push(char::from(b'0' + digit));
}

#[cfg(test)]
mod tests;
