//! Uses up memory, and leaves a pattern in it for a later call to find.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use toolgate_sdk::{Context, tool};

const MIB: usize = 1024 * 1024;

/// Counter of calls. It would exceed 1 if calls shared an instance.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Allocates and writes memory in an endless loop.
#[tool(read_only)]
pub fn swallow() -> usize {
    let mut swallowed = Vec::new();
    while black_box(swallowed.len()) < usize::MAX {
        swallowed.push(black_box(vec![0xA5_u8; MIB]));
    }
    swallowed.len()
}

/// Grows memory by single pages until the host refuses, and returns the number of pages.
#[tool(read_only)]
pub fn grow() -> usize {
    take_every_page()
}

#[cfg(target_family = "wasm")]
fn take_every_page() -> usize {
    while core::arch::wasm32::memory_grow::<0>(1) != usize::MAX {}
    core::arch::wasm32::memory_size::<0>()
}

/// Native builds (clippy) have no memory pages.
#[cfg(not(target_family = "wasm"))]
fn take_every_page() -> usize {
    0
}

/// Returns the number of calls that this instance has served.
#[tool(read_only)]
pub fn count() -> u64 {
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

/// Fills memory with a pattern and leaks it.
#[tool(read_only)]
pub fn hide(
    /// Seed of the pattern
    seed: u64,
    /// Size of the pattern
    mebibytes: usize,
) -> usize {
    let pattern = pattern(seed);
    let hidden = vec![pattern; mebibytes * MIB / size_of::<u64>()];
    black_box(&hidden);
    hidden.leak().len()
}

/// Fills memory by one `memory.fill`, and copies it by one `memory.copy`.
#[tool(read_only)]
pub fn fill_and_copy(
    /// Size of each half
    mebibytes: usize,
) -> usize {
    let filled = black_box(vec![0xA5_u8; mebibytes * MIB]);
    black_box(filled.clone()).len()
}

/// Fills memory with a pattern, then sleeps until it is stopped.
#[tool(read_only)]
pub fn hide_and_stay(
    context: &Context,
    /// Seed of the pattern
    seed: u64,
    /// Size of the pattern
    mebibytes: usize,
) -> bool {
    hide(seed, mebibytes);
    crate::end::doze(context)
}

/// Allocates fresh memory, and returns the number of words that match the pattern and of words that are not zero.
#[tool(read_only)]
pub fn seek(
    /// Seed of the pattern
    seed: u64,
    /// Size of memory to search
    mebibytes: usize,
) -> [usize; 2] {
    let pattern = pattern(seed);
    // The guest does not clear fresh pages, so they hold what the host gave. The black box keeps the compiler from
    // assuming zeros.
    let fresh = black_box(vec![0_u64; mebibytes * MIB / size_of::<u64>()]);
    let found = fresh.iter().filter(|word| **word == pattern).count();
    let dirty = fresh.iter().filter(|word| **word != 0).count();
    [found, dirty]
}

/// Derives the pattern by multiplication, so that a search does not find its own search key in memory.
fn pattern(seed: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}
