//! Memory for request bodies, bounded for each organization and for all: clients that send slowly could otherwise hold the
//! size limit times the number of connections.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_api::error::{CallError, ErrorType};

use super::problem::Problem;

/// Bodies of at most this size are not counted: the number of connections bounds them.
pub(super) const UNCOUNTED_BYTES: u64 = 64 * 1024;

/// When a client may send again, in milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;

/// The memory for request bodies. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BodyMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total_bytes: u64,
    organization_bytes: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    total_bytes: u64,
    by_organization: HashMap<Arc<str>, u64>,
}

/// The memory of one body, released on drop. Operators have no organization, and only the total bounds them.
#[derive(Debug)]
pub struct BodyShare {
    memory: BodyMemory,
    organization: Option<Arc<str>>,
    bytes: u64,
}

impl BodyMemory {
    /// At most `total_bytes` for all bodies, and `organization_bytes` for those of one organization.
    pub fn new(total_bytes: u64, organization_bytes: u64) -> Self {
        Self(Arc::new(Inner { total_bytes, organization_bytes, used: Mutex::default() }))
    }

    /// Returns a share that holds nothing yet.
    pub(super) fn share(&self, organization: Option<&str>) -> BodyShare {
        BodyShare { memory: self.clone(), organization: organization.map(Arc::from), bytes: 0 }
    }
}

impl BodyShare {
    /// Holds `bytes` in all, if there is room for them.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes);
        let Inner { total_bytes, organization_bytes, .. } = *self.memory.0;
        let mut used = self.memory.0.used.lock();
        let total = used.total_bytes.saturating_add(more);
        if total > total_bytes {
            return Err(overload_error(total_bytes));
        }
        if let Some(organization) = &self.organization {
            let held = used.by_organization.entry(Arc::clone(organization)).or_default();
            if held.saturating_add(more) > organization_bytes {
                return Err(quota_exceeded(organization_bytes));
            }
            *held += more;
        }
        used.total_bytes = total;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.memory.0.used.lock();
        used.total_bytes -= self.bytes;
        let Some(organization) = &self.organization else { return };
        if let Some(held) = used.by_organization.get_mut(organization) {
            *held -= self.bytes;
            if *held == 0 {
                used.by_organization.remove(organization);
            }
        }
    }
}

fn quota_exceeded(bytes: u64) -> Problem {
    CallError::new(
        ErrorType::QuotaExceeded,
        format!("request bodies of the organization hold `{bytes}` bytes of memory, which is its share"),
        "send fewer or smaller requests at a time",
    )
    .with_retry_after_ms(RETRY_AFTER_MS)
    .into()
}

fn overload_error(bytes: u64) -> Problem {
    CallError::new(
        ErrorType::Overloaded,
        format!("request bodies hold `{bytes}` bytes of memory, which is the limit"),
        "send it again in a moment, or ask the operator to raise `http.bodies_bytes`",
    )
    .with_retry_after_ms(RETRY_AFTER_MS)
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_bounded_by_organization_and_in_total_and_given_back() {
        let memory = BodyMemory::new(100, 60);
        let mut acme = memory.share(Some("acme"));
        acme.grow_to(40).unwrap();
        acme.grow_to(60).unwrap();
        assert_eq!(memory.share(Some("acme")).grow_to(1).unwrap_err().0.error_type, ErrorType::QuotaExceeded);
        let mut operator = memory.share(None);
        assert_eq!(operator.grow_to(41).unwrap_err().0.error_type, ErrorType::Overloaded);
        operator.grow_to(40).unwrap();
        drop(acme);
        memory.share(Some("rival")).grow_to(60).unwrap();
        drop(operator);
        assert_eq!(memory.0.used.lock().total_bytes, 0);
        assert!(memory.0.used.lock().by_organization.values().all(|held| *held == 0));
    }
}
