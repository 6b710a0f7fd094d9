//! Resources that the sessions of one organization share, and their limits: no organization can use up what all of them share.
//!
//! Recorded answers are dropped oldest first within their organization, so that the answers of one organization never
//! make those of another be forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_sandbox::workspace::SharedQuota;

use super::call_table::WeakCallTable;

/// Bytes of recorded answers of all organizations together.
const ALL_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Bytes of recorded answers of one organization: room for sixty-four results of the largest default size.
const ANSWER_BYTES: usize = ALL_ANSWER_BYTES / 4;

/// Answers after which those of ended sessions are first removed from the order.
const FIRST_CLEANUP: usize = 1_024;

/// Retry of an opening over the limit of sessions. The end of an open session is not known.
const SESSION_RETRY_MS: u64 = 60_000;

/// The limits of one organization.
#[derive(Clone, Copy, Debug)]
pub struct OrganizationBounds {
    /// Open sessions.
    pub sessions: usize,
    /// Calls that wait for their client.
    pub at_client: usize,
    /// Bytes in the workspaces of all sessions.
    pub workspace_bytes: u64,
}

impl OrganizationBounds {
    /// No limits.
    pub const NONE: Self = Self { sessions: usize::MAX, at_client: usize::MAX, workspace_bytes: u64::MAX };
}

/// The organizations with sessions.
pub(super) struct Organizations {
    bounds: OrganizationBounds,
    all: Arc<AllAnswers>,
    known: Mutex<HashMap<Name, Weak<OrganizationUse>>>,
}

/// The use of one organization.
#[derive(Debug)]
pub struct OrganizationUse {
    bounds: OrganizationBounds,
    sessions: AtomicUsize,
    at_client: AtomicUsize,
    /// The bytes in its workspaces.
    pub(super) workspace_bytes: Arc<SharedQuota>,
    pub(super) answers: OrganizationAnswers,
    /// Bytes of answers that wait to be written to disk.
    pub(super) queued_answers: Arc<AtomicUsize>,
}

/// An open session of an organization, counted until it is dropped.
#[derive(Debug)]
pub struct SessionShare(pub(super) Arc<OrganizationUse>);

#[derive(Debug, Default)]
struct AllAnswers {
    bytes: AtomicUsize,
    organizations: AtomicUsize,
}

/// The recorded answers of an organization.
#[derive(Debug)]
pub(super) struct OrganizationAnswers {
    all: Arc<AllAnswers>,
    bytes: AtomicUsize,
    order: Mutex<AnswerOrder>,
}

#[derive(Debug, Default)]
struct AnswerOrder {
    oldest_first: VecDeque<(WeakCallTable, Arc<str>)>,
    cleanup_at: usize,
}

impl Organizations {
    pub(super) fn new(bounds: OrganizationBounds) -> Self {
        Self { bounds, all: Arc::default(), known: Mutex::default() }
    }

    /// The use of an organization.
    pub(super) fn find(&self, name: &Name) -> Arc<OrganizationUse> {
        let mut known = self.known.lock();
        if let Some(found) = known.get(name).and_then(Weak::upgrade) {
            return found;
        }
        known.retain(|_, found| found.strong_count() > 0);
        let new = Arc::new(OrganizationUse::new(self.bounds, Arc::clone(&self.all)));
        known.insert(name.clone(), Arc::downgrade(&new));
        new
    }
}

impl OrganizationUse {
    fn new(bounds: OrganizationBounds, all: Arc<AllAnswers>) -> Self {
        Self {
            bounds,
            sessions: AtomicUsize::new(0),
            at_client: AtomicUsize::new(0),
            workspace_bytes: Arc::new(SharedQuota::new(bounds.workspace_bytes)),
            answers: OrganizationAnswers::new(all),
            queued_answers: Arc::default(),
        }
    }

    /// The use of an organization that is alone.
    #[cfg(test)]
    pub(super) fn alone() -> Arc<Self> {
        Arc::new(Self::new(OrganizationBounds::NONE, Arc::default()))
    }

    /// Counts a session, past the limit too.
    pub(super) fn count_session(self: &Arc<Self>) -> SessionShare {
        self.sessions.fetch_add(1, Ordering::Relaxed);
        SessionShare(Arc::clone(self))
    }

    /// Counts a new session, if the organization may open one more.
    pub(super) fn add_session(self: &Arc<Self>) -> Result<SessionShare, CallError> {
        let most = self.bounds.sessions;
        let add = |open| (open < most).then_some(open + 1);
        match self.sessions.try_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(SessionShare(Arc::clone(self))),
            Err(_) => Err(CallError::new(
                ErrorType::QuotaExceeded,
                format!("the organization has `{most}` open sessions, which is the limit"),
                "end sessions that are no longer used, or ask the operator to raise `sessions.open_per_organization`",
            )
            .with_retry_after_ms(SESSION_RETRY_MS)),
        }
    }

    pub(super) fn add_at_client(&self) {
        self.at_client.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_at_client(&self, calls: usize) {
        self.at_client.fetch_sub(calls, Ordering::Relaxed);
    }

    /// The limit of calls that wait for their client, if it is reached.
    pub fn at_client_limit(&self) -> Option<usize> {
        let most = self.bounds.at_client;
        (self.at_client.load(Ordering::Relaxed) >= most).then_some(most)
    }
}

impl Drop for SessionShare {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OrganizationAnswers {
    fn new(all: Arc<AllAnswers>) -> Self {
        all.organizations.fetch_add(1, Ordering::Relaxed);
        Self { all, bytes: AtomicUsize::new(0), order: Mutex::default() }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.all.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove_bytes(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.all.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Appends an answer, and drops the oldest ones past the limit. No call table may be locked.
    pub(super) fn append(&self, table: WeakCallTable, id: Arc<str>) {
        self.order.lock().push(table, id);
        while self.bytes.load(Ordering::Relaxed) > self.limit() {
            let Some((table, id)) = self.order.lock().oldest_first.pop_front() else { return };
            table.forget(&id);
        }
    }

    /// An organization's limit, or its part of the limit of all while that is exceeded.
    fn limit(&self) -> usize {
        let organizations = self.all.organizations.load(Ordering::Relaxed).max(1);
        match self.all.bytes.load(Ordering::Relaxed) > ALL_ANSWER_BYTES {
            true => ANSWER_BYTES.min(ALL_ANSWER_BYTES / organizations),
            false => ANSWER_BYTES,
        }
    }
}

impl Drop for OrganizationAnswers {
    fn drop(&mut self) {
        self.all.organizations.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AnswerOrder {
    fn push(&mut self, table: WeakCallTable, id: Arc<str>) {
        if self.oldest_first.len() >= self.cleanup_at.max(FIRST_CLEANUP) {
            self.oldest_first.retain(|(table, _)| table.is_alive());
            self.cleanup_at = self.oldest_first.len() * 2;
        }
        self.oldest_first.push_back((table, id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    #[test]
    fn open_sessions_are_bounded_by_organization_and_counted_back() {
        let organizations =
            Organizations::new(OrganizationBounds { sessions: 2, ..OrganizationBounds::NONE });
        let [acme, rival] = ["acme", "rival"].map(|text| organizations.find(&name(text)));
        let (first, _second) = (acme.add_session().unwrap(), organizations.find(&name("acme")).add_session());
        let refused = acme.add_session().unwrap_err();
        assert_eq!(
            (refused.error_type, refused.retry_after_ms()),
            (ErrorType::QuotaExceeded, Some(SESSION_RETRY_MS))
        );
        rival.add_session().unwrap();
        drop(first);
        acme.add_session().unwrap();
        let restored = [acme.count_session(), acme.count_session()];
        assert!(acme.add_session().is_err(), "restored sessions count");
        drop(restored);
    }

    #[test]
    fn calls_at_clients_are_bounded_by_organization() {
        let organizations =
            Organizations::new(OrganizationBounds { at_client: 1, ..OrganizationBounds::NONE });
        let acme = organizations.find(&name("acme"));
        assert_eq!(acme.at_client_limit(), None);
        acme.add_at_client();
        assert_eq!(acme.at_client_limit(), Some(1));
        assert_eq!(organizations.find(&name("rival")).at_client_limit(), None);
        acme.remove_at_client(1);
        assert_eq!(acme.at_client_limit(), None);
    }

    #[test]
    fn an_organization_without_sessions_is_forgotten() {
        let organizations = Organizations::new(OrganizationBounds::NONE);
        drop(organizations.find(&name("acme")));
        let _rival = organizations.find(&name("rival"));
        assert_eq!(organizations.known.lock().len(), 1);
        assert_eq!(organizations.all.organizations.load(Ordering::Relaxed), 1);
    }
}
