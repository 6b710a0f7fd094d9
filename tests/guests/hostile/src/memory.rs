//! Uses up memory, and tries to leave something in it for the next call to find.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use toolgate_sdk::{Context, tool};

const MIB: usize = 1024 * 1024;

/// What calls of one instance would count up if they shared it.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Takes memory and writes to it, without end.
#[tool(read_only)]
pub fn swallow() -> usize {
    let mut swallowed = Vec::new();
    while black_box(swallowed.len()) < usize::MAX {
        swallowed.push(black_box(vec![0xA5_u8; MIB]));
    }
    swallowed.len()
}

/// Asks for pages of memory until there are no more, and says how many there were.
#[tool(read_only)]
pub fn grow() -> usize {
    take_every_page()
}

#[cfg(target_family = "wasm")]
fn take_every_page() -> usize {
    while core::arch::wasm32::memory_grow::<0>(1) != usize::MAX {}
    core::arch::wasm32::memory_size::<0>()
}

/// There are pages in a component only; lints look at the host's build too.
#[cfg(not(target_family = "wasm"))]
fn take_every_page() -> usize {
    0
}

/// Counts the calls that this instance served.
#[tool(read_only)]
pub fn count() -> u64 {
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

/// Fills memory with a pattern and leaves it there.
#[tool(read_only)]
pub fn hide(
    /// What the pattern is made of
    seed: u64,
    /// How much of it
    mebibytes: usize,
) -> usize {
    let pattern = pattern(seed);
    let hidden = vec![pattern; mebibytes * MIB / size_of::<u64>()];
    black_box(&hidden);
    hidden.leak().len()
}

/// Fills memory with a pattern and stays until it is stopped.
#[tool(read_only)]
pub fn hide_and_stay(
    context: &Context,
    /// What the pattern is made of
    seed: u64,
    /// How much of it
    mebibytes: usize,
) -> bool {
    hide(seed, mebibytes);
    crate::end::doze(context)
}

/// Takes fresh memory and counts what of the pattern is in it, and what else is not zero.
#[tool(read_only)]
pub fn seek(
    /// What the pattern is made of
    seed: u64,
    /// How much memory to look through
    mebibytes: usize,
) -> [usize; 2] {
    let pattern = pattern(seed);
    // Fresh pages are not cleared by the guest: whatever is in them is what the host gave. The black box keeps the
    // compiler from knowing that they must be zero.
    let fresh = black_box(vec![0_u64; mebibytes * MIB / size_of::<u64>()]);
    let found = fresh.iter().filter(|word| **word == pattern).count();
    let dirty = fresh.iter().filter(|word| **word != 0).count();
    [found, dirty]
}

/// Never in memory as itself, where a search would find the search.
fn pattern(seed: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}
