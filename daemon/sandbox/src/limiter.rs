//! Counts memory and tables of one call together, and remembers what it refused.
//!
//! The engine's own limits are per memory, so a component with four memories would get four times its
//! share. And a guest written in Rust answers a refused allocation by aborting, which looks like any other
//! crash: only the limiter knows that memory was the reason.

use toolgate_admission::Limits;
use wasmtime::ResourceLimiter;

/// The running totals of one call.
#[derive(Debug)]
pub(crate) struct CallLimiter {
    memory_bytes: usize,
    memory_limit_bytes: usize,
    table_elements: usize,
    table_elements_limit: usize,
    instances: usize,
    memories: usize,
    tables: usize,
    refused: Option<&'static str>,
}

impl CallLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes: 0,
            memory_limit_bytes: saturating(limits.memory_bytes),
            table_elements: 0,
            table_elements_limit: saturating(limits.table_elements),
            instances: saturating(limits.instances),
            memories: saturating(limits.memories),
            tables: saturating(limits.tables),
            refused: None,
        }
    }

    /// Bytes of linear memory that the call grew to. Memories never shrink, so this is the peak too.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes as u64
    }

    /// The limit that refused growth, if one did.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        self.refused
    }
}

impl ResourceLimiter for CallLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory_bytes.saturating_add(desired.saturating_sub(current));
        if total > self.memory_limit_bytes {
            self.refused = Some("memory_bytes");
            return Ok(false);
        }
        self.memory_bytes = total;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.refused = Some("memory_bytes");
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.table_elements.saturating_add(desired.saturating_sub(current));
        if total > self.table_elements_limit {
            self.refused = Some("table_elements");
            return Ok(false);
        }
        self.table_elements = total;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.refused = Some("table_elements");
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

/// A limit as a size of this machine. On a 32-bit host a larger one means "as much as there is".
pub(crate) fn saturating(limit: u64) -> usize {
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
        assert_eq!(limiter.refused(), None);
    }

    #[test]
    fn two_memories_share_one_limit() {
        let mut limiter = limiter(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert_eq!(limiter.refused(), Some("memory_bytes"));
        assert_eq!(limiter.memory_bytes(), 60);
    }

    #[test]
    fn a_refused_table_is_remembered() {
        let mut limiter = CallLimiter::new(&Limits { table_elements: 10, ..Limits::DEFAULT });
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(!limiter.table_growing(10, 11, None).unwrap());
        assert_eq!(limiter.refused(), Some("table_elements"));
    }
}
