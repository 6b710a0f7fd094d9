//! Bytes that host calls make or copy. Fuel sees instructions of the guest only, and the number of calls says nothing of
//! what each does, so what they move is counted here and charged as fuel when they return.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_core::{Rng, TryRng};

/// Fuel for one random byte, in instructions: what a guest would take to make it.
const RANDOM_FUEL: u64 = 8;
/// Bytes of files that are copied for one fuel.
const COPIED_PER_FUEL: u64 = 4;

/// The fuel that a call owes for what its host calls moved. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moved(Arc<AtomicU64>);

impl Moved {
    /// Bytes read from a file, or written to one.
    pub(crate) fn copied(&self, bytes: usize) {
        self.owe(bytes as u64 / COPIED_PER_FUEL);
    }

    /// What is owed since the last time.
    pub(crate) fn take(&self) -> u64 {
        // Most host calls move nothing, and a load costs less than an exchange.
        if self.0.load(Ordering::Relaxed) == 0 { 0 } else { self.0.swap(0, Ordering::Relaxed) }
    }

    fn owe(&self, fuel: u64) {
        self.0.fetch_add(fuel, Ordering::Relaxed);
    }
}

/// A generator whose bytes are counted.
pub(crate) struct Counted<R> {
    generator: R,
    moved: Moved,
}

impl<R: Rng> Counted<R> {
    pub(crate) fn new(generator: R, moved: &Moved) -> Self {
        Self { generator, moved: moved.clone() }
    }

    fn made(&self, bytes: usize) {
        self.moved.owe(bytes as u64 * RANDOM_FUEL);
    }
}

impl<R: Rng> TryRng for Counted<R> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.made(size_of::<u32>());
        Ok(self.generator.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.made(size_of::<u64>());
        Ok(self.generator.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.made(bytes.len());
        self.generator.fill_bytes(bytes);
        Ok(())
    }
}
