//! Limits memory and tables across one call, and records the limit that refused growth.
//!
//! wasmtime's own limits apply to each memory, so a component with four memories would get four times its share. A
//! guest in Rust aborts on a refused allocation, which looks like any other crash: only the limiter knows that memory
//! was the cause.

use toolgate_api::limits::Limits;
use wasmtime::ResourceLimiter;

/// The running totals of one call.
#[derive(Debug, Default)]
pub(crate) struct CallLimiter {
    memory_bytes: usize,
    memory_limit_bytes: usize,
    table_elements: usize,
    table_elements_limit: usize,
    instances: usize,
    memories: usize,
    tables: usize,
    exceeded_limit: Option<&'static str>,
}

impl CallLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory_limit_bytes: saturating_usize(limits.memory_bytes),
            table_elements_limit: saturating_usize(limits.table_elements),
            instances: saturating_usize(limits.instances),
            memories: saturating_usize(limits.memories),
            tables: saturating_usize(limits.tables),
            ..Self::default()
        }
    }

    /// Bytes of linear memory, all memories together. Memories never shrink, so this is also the peak.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes as u64
    }

    /// The limit that refused growth, if any.
    pub(crate) fn exceeded_limit(&self) -> Option<&'static str> {
        self.exceeded_limit
    }

    fn refuse(&mut self, limit: &'static str) -> bool {
        self.exceeded_limit = Some(limit);
        false
    }
}

/// Adds a growth to the total, if the limit permits it.
fn grow(total: &mut usize, limit: usize, current: usize, desired: usize) -> bool {
    let grown = total.saturating_add(desired.saturating_sub(current));
    let is_allowed = grown <= limit;
    if is_allowed {
        *total = grown;
    }
    is_allowed
}

impl ResourceLimiter for CallLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(grow(&mut self.memory_bytes, self.memory_limit_bytes, current, desired)
            || self.refuse("memory_bytes"))
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.refuse("memory_bytes");
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(grow(&mut self.table_elements, self.table_elements_limit, current, desired)
            || self.refuse("table_elements"))
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.refuse("table_elements");
        Ok(())
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.tables
    }

    fn memories(&self) -> usize {
        self.memories
    }
}

/// Converts a limit to `usize`. A 32-bit host saturates to its maximum.
pub(crate) fn saturating_usize(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(memory_bytes: u64) -> CallLimiter {
        CallLimiter::new(&Limits { memory_bytes, ..Limits::DEFAULT })
    }

    #[test]
    fn growth_within_the_limit_is_allowed_and_counted() {
        let mut limiter = limiter(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert_eq!(limiter.memory_bytes(), 100);
        assert_eq!(limiter.exceeded_limit(), None);
    }

    #[test]
    fn two_memories_share_one_limit() {
        let mut limiter = limiter(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert_eq!(limiter.exceeded_limit(), Some("memory_bytes"));
        assert_eq!(limiter.memory_bytes(), 60);
    }

    #[test]
    fn a_refused_table_is_remembered() {
        let mut limiter = CallLimiter::new(&Limits { table_elements: 10, ..Limits::DEFAULT });
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(!limiter.table_growing(10, 11, None).unwrap());
        assert_eq!(limiter.exceeded_limit(), Some("table_elements"));
    }
}
