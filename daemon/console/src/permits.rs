//! Permits of changes, which go on when their browser disconnects: bounded for each organization and for all.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolgate_api::name::Name;
use toolgate_http::problem::Problem;

use super::Console;

/// Changes of all organizations at once, and as many of operators.
const CHANGES: usize = 64;

/// Changes of one organization at once.
const CHANGES_PER_ORGANIZATION: usize = 8;

/// The permits of all changes.
pub(super) struct ChangePermits {
    operators: Arc<Semaphore>,
    organizations: Arc<Semaphore>,
    by_organization: Mutex<HashMap<Name, Arc<Semaphore>>>,
}

/// The permits of one change, returned on drop.
pub(super) struct ChangePermit {
    _shares: [Option<OwnedSemaphorePermit>; 2],
}

impl ChangePermits {
    pub(super) fn new() -> Self {
        Self {
            operators: Arc::new(Semaphore::new(CHANGES)),
            organizations: Arc::new(Semaphore::new(CHANGES)),
            by_organization: Mutex::default(),
        }
    }

    /// Waits for the permits of a change; without an organization for one of the operators.
    pub(super) async fn acquire(&self, organization: Option<&Name>) -> ChangePermit {
        let Some(organization) = organization else {
            return ChangePermit { _shares: [take(Arc::clone(&self.operators)).await, None] };
        };
        // An organization that has used its share up waits for its own changes, and holds none of the common permits.
        let own = take(self.share_of(organization)).await;
        ChangePermit { _shares: [own, take(Arc::clone(&self.organizations)).await] }
    }

    fn share_of(&self, organization: &Name) -> Arc<Semaphore> {
        let mut shares = self.by_organization.lock();
        // A permit, and a request that waits for one, keep a share.
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        let new = || Arc::new(Semaphore::new(CHANGES_PER_ORGANIZATION));
        Arc::clone(shares.entry(organization.clone()).or_insert_with(new))
    }
}

/// Waits for one permit. No semaphore here is ever closed.
async fn take(share: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    share.acquire_owned().await.ok()
}

/// Runs a change to its end, even if the browser disconnects.
pub(super) async fn complete_change<T: Send + 'static>(
    console: &Console,
    organization: Option<&Name>,
    change: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    // A load has a large future, which the callers of this function would each hold on the stack.
    let change = Box::pin(change);
    let permit = console.changes.acquire(organization).await;
    let change = async move {
        let _permit = permit;
        change.await
    };
    console.app.run_to_completion(change).await
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn an_organization_that_used_its_share_up_blocks_no_other() {
        let permits = ChangePermits::new();
        let [acme, rival] = ["acme", "rival"].map(|name| Name::parse(name).expect("a name"));
        let now = |organization: Option<&Name>| permits.acquire(organization).now_or_never();
        let held: Vec<_> = (0..CHANGES).map_while(|_| now(Some(&acme))).collect();
        assert_eq!(held.len(), CHANGES_PER_ORGANIZATION);
        assert!(now(Some(&rival)).is_some() && now(None).is_some());
        drop(held);
        assert!(now(Some(&acme)).is_some());
    }

    #[test]
    fn organizations_that_used_all_permits_up_block_no_operator() {
        let permits = ChangePermits::new();
        let now = |organization: Option<&Name>| permits.acquire(organization).now_or_never();
        let names = (0..CHANGES).map(|index| Name::parse(&format!("org{index}")).expect("a name"));
        let held: Vec<_> = names.map(|name| now(Some(&name)).expect("a permit")).collect();
        assert!(now(Some(&Name::parse("late").expect("a name"))).is_none());
        assert!(now(None).is_some());
        drop(held);
    }
}
