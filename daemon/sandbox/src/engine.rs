//! The engine: what every guest shares, set once at start.
//!
//! One `Engine`, one pool of instance slots, one linker, one thread that ticks the epoch. What is set
//! here is part of the fingerprint of compiled code, so a change makes every cached artifact stale.
//!
//! The surprising reason: fuel alone would stop a busy guest, and epochs alone would too. Both are on
//! because fuel is exact and reproducible (a replay stops at the same instruction), while only the epoch
//! makes a guest yield to the runtime, so that its deadline and everybody else's timers are looked at.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;
use toolgate_admission::Limits;
use wasmtime::component::Linker;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy,
};

use crate::component::LoadError;
use crate::state::CallState;
use crate::turns::{Ticks, Turns, processors};

/// Time between two epoch ticks, and so the longest a guest runs before it yields to the runtime.
///
/// Short, because with every core busy a waiting request or an expired deadline is noticed only at a
/// yield.
const EPOCH_TICK: Duration = Duration::from_millis(1);

/// Stack of a guest, in bytes. Enough for deep recursive descent; an overflow is a trap, not a crash.
const GUEST_STACK_BYTES: usize = 512 * 1024;

/// Stack on which guest and host functions of one call run together. The difference to
/// [`GUEST_STACK_BYTES`] is what host functions have at the worst moment.
const CALL_STACK_BYTES: usize = 2 * 1024 * 1024;

/// Pages of a linear memory that stay resident between two calls are wiped by copying instead of being
/// returned to the kernel. Measured: less costs page faults, more costs copying.
const KEEP_RESIDENT_BYTES: usize = 64 * 1024;

/// The same where the kernel tells which pages were touched, so that only those are wiped.
const KEEP_RESIDENT_SCANNED_BYTES: usize = 512 * 1024;

/// Host-side bookkeeping of one instance, in bytes; the component is refused at load when it needs more.
const INSTANCE_BOOKKEEPING_BYTES: usize = 1024 * 1024;

/// Components that can be asked what they are at the same time, beside the calls: those come from a line whose slots are
/// as many as the instances, and loading a plugin stands in none. Two, so that one which takes all its time does not hold
/// up every other.
const DESCRIBED_AT_ONCE: u32 = 2;

/// How the pool of instances is sized and reset.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// Calls that can be inside the sandbox at the same time.
    pub instances: u32,
    /// Whether the kernel's page map may be used to reset memories.
    pub pagemap_scan: PagemapScan,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self { instances: 256, pagemap_scan: PagemapScan::Auto }
    }
}

/// Whether memories are reset by asking the kernel which pages were touched (Linux 6.7 or later).
///
/// It halves the cost of a call. It is unsafe where a dirty page can be swapped out, because the scan
/// then misses it and the next instance would read it, so `Auto` uses it only where this process cannot
/// swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagemapScan {
    /// Where the kernel can and no page of this process can be swapped out.
    Auto,
    /// Never.
    Off,
}

/// Why the sandbox could not start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The engine's settings do not work on this machine.
    #[error("the sandbox cannot start on this machine: {0}")]
    Engine(String),
    /// The thread that ticks the epoch could not be started.
    #[error("the thread that ticks the epoch cannot start: {0}")]
    Ticker(std::io::Error),
}

/// Everything that calls share. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) inner: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<CallState>,
    fingerprint: String,
    pub(crate) turns: Turns,
    pub(crate) ticks: Ticks,
    /// Places in the pool that no call has.
    pub(crate) describing: Semaphore,
    pagemap_scan: bool,
    _ticker: Ticker,
}

impl Sandbox {
    /// Starts the engine. Must run before the process gives up the right to read its own page map.
    pub fn new(settings: &SandboxSettings) -> Result<Self, SandboxError> {
        let pagemap_scan = settings.pagemap_scan == PagemapScan::Auto && cannot_swap();
        let mut config = compiler_settings();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(settings, pagemap_scan)));
        let engine = Engine::new(&config).map_err(|error| SandboxError::Engine(error.to_string()))?;
        let linker =
            crate::imports::link(&engine).map_err(|error| SandboxError::Engine(error.to_string()))?;
        let ticks = Ticks::default();
        Ok(Self {
            inner: Arc::new(Shared {
                fingerprint: fingerprint(&engine),
                _ticker: Ticker::start(engine.clone(), ticks.clone())?,
                ticks,
                turns: Turns::new(processors()),
                describing: Semaphore::new(DESCRIBED_AT_ONCE as usize),
                pagemap_scan,
                linker,
                engine,
            }),
        })
    }

    /// What compiled code must have been made with to be loadable here: crate version, processor
    /// features and every setting that changes code.
    pub fn fingerprint(&self) -> &str {
        &self.inner.fingerprint
    }

    /// Whether memories are reset by page-map scan.
    pub fn pagemap_scan(&self) -> bool {
        self.inner.pagemap_scan
    }

    /// Instances alive right now, for tests and metrics: 0 when no call runs.
    pub fn live_instances(&self) -> u64 {
        self.inner.engine.pooling_allocator_metrics().map_or(0, |metrics| metrics.component_instances())
    }
}

/// Compiles a component to native code. Meant for a process of its own with limits set, since a compiler
/// bomb stops here and nowhere else.
pub fn precompile(component: &[u8]) -> Result<Vec<u8>, LoadError> {
    let engine = Engine::new(&compiler_settings()).map_err(|error| LoadError::invalid(error.to_string()))?;
    crate::imports::refuse_core_module(component)?;
    engine.precompile_component(component).map_err(|error| LoadError::invalid(one_line(&error)))
}

/// The settings that change compiled code, shared by the daemon and its compile worker.
fn compiler_settings() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        // Replay needs the same bits for the same inputs; changing either later breaks every cache.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK_BYTES)
        .async_stack_size(CALL_STACK_BYTES)
        .wasm_component_model(true)
        .memory_init_cow(true)
        // A trap says what happened, not where: addresses in native code help an attacker more than a
        // plugin author, who has the log.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        // Proposals that no plugin of WASI 0.2 needs, each with open advisories of its own. The cargo
        // features stay on: builds without them abort where these settings refuse.
        .wasm_gc(false)
        .gc_support(false)
        .wasm_function_references(false)
        .wasm_exceptions(false)
        .wasm_memory64(false)
        .wasm_threads(false)
        .shared_memory(false)
        .wasm_stack_switching(false)
        // Bookkeeping for component-model async, which costs a third of a call and which WASI 0.2 does
        // not use.
        .concurrency_support(false);
    config
}

fn pool(settings: &SandboxSettings, pagemap_scan: bool) -> PoolingAllocationConfig {
    let instances = settings.instances.saturating_add(DESCRIBED_AT_ONCE);
    // What one component may bring, there is for as many as run at once: no call can leave the pool empty for others.
    let (modules, memories, tables) =
        (count(Limits::CEILING.instances), count(Limits::CEILING.memories), count(Limits::CEILING.tables));
    let keep_resident = if pagemap_scan { KEEP_RESIDENT_SCANNED_BYTES } else { KEEP_RESIDENT_BYTES };
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(modules))
        .total_memories(instances.saturating_mul(memories))
        .total_tables(instances.saturating_mul(tables))
        .total_stacks(instances)
        .max_core_instances_per_component(modules)
        .max_memories_per_component(memories)
        .max_tables_per_component(tables)
        .max_component_instance_size(INSTANCE_BOOKKEEPING_BYTES)
        .max_core_instance_size(INSTANCE_BOOKKEEPING_BYTES)
        .max_memory_size(usize::try_from(Limits::CEILING.memory_bytes).unwrap_or(usize::MAX))
        .table_elements(usize::try_from(Limits::CEILING.table_elements).unwrap_or(usize::MAX))
        .linear_memory_keep_resident(keep_resident)
        .table_keep_resident(keep_resident)
        .pagemap_scan(if pagemap_scan { Enabled::Auto } else { Enabled::No });
    pool
}

fn count(limit: u64) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

fn fingerprint(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether no page of this process can reach a swap device: none is in use, or its control group may not.
fn cannot_swap() -> bool {
    let no_device = std::fs::read_to_string("/proc/swaps")
        .is_ok_and(|swaps| swaps.lines().skip(1).all(|line| line.trim().is_empty()));
    no_device || control_group_may_not_swap()
}

fn control_group_may_not_swap() -> bool {
    let Ok(groups) = std::fs::read_to_string("/proc/self/cgroup") else { return false };
    groups.lines().filter_map(|line| line.strip_prefix("0::")).any(|group| {
        std::fs::read_to_string(format!("/sys/fs/cgroup{group}/memory.swap.max"))
            .is_ok_and(|limit| limit.trim() == "0")
    })
}

/// An error of the engine with its causes, on one line.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    let text = format!("{error:#}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The thread that advances the epoch. It ends with the sandbox.
struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(engine: Engine, ticks: Ticks) -> Result<Self, SandboxError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("epoch".into())
            .spawn(move || {
                // Parked, not asleep: dropping the sandbox wakes it at once.
                while !stopped.load(Ordering::Relaxed) {
                    std::thread::park_timeout(EPOCH_TICK);
                    ticks.tick(|| engine.increment_epoch());
                }
            })
            .map_err(SandboxError::Ticker)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Nothing is left to do if it panicked.
            let _ = thread.join();
        }
    }
}
