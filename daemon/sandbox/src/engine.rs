//! The wasmtime engine: set up once at start and shared by all guests.
//!
//! One `Engine`, one pooling allocator, one linker, one thread that advances the epoch. The settings here are part of
//! the fingerprint of compiled code, so a change invalidates every cached artifact.
//!
//! Fuel and epochs are both enabled although each alone would stop a busy guest. Fuel is exact and reproducible: a
//! replay stops at the same instruction. Only the epoch makes a guest yield to the runtime, which then polls its
//! deadline and all other timers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;
use toolgate_api::limits::Limits;
use wasmtime::component::Linker;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OperatorCost, OptLevel, PoolingAllocationConfig,
    Strategy,
};

use crate::bulk_memory::{self, slice_bulk_memory};
use crate::compiled_functions::CompiledFunctions;
use crate::cpu_scheduler::{CpuScheduler, EpochTicks, Turn, processors};
use crate::load_error::{LoadError, one_line};
use crate::state::CallState;
use crate::trusted;

/// Time between two epoch ticks, and so the longest time that a guest runs before it yields to the runtime.
///
/// Short, because with every core busy a waiting request or an expired deadline is noticed only at a yield.
const EPOCH_TICK: Duration = Duration::from_millis(1);

/// Stack of a guest, in bytes. Enough for deep recursive descent; an overflow is a trap, not a crash.
const GUEST_STACK_BYTES: usize = 512 * 1024;

/// Stack shared by the guest and the host functions of one call, in bytes. Host functions have at least the difference
/// to [`GUEST_STACK_BYTES`].
const CALL_STACK_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of a linear memory that stay resident between two calls and are reset by copying instead of being returned to
/// the kernel. Measured: less costs page faults, more costs copying.
const KEEP_RESIDENT_BYTES: usize = 64 * 1024;

/// The same where the kernel reports the touched pages, so that only those are reset.
const KEEP_RESIDENT_SCANNED_BYTES: usize = 512 * 1024;

/// Host-side bookkeeping of one instance, in bytes. A component that needs more is refused at load.
const INSTANCE_BOOKKEEPING_BYTES: usize = 1024 * 1024;

/// Instances reserved for `describe`, beyond those of calls: calls take queue slots, as many as there are instances,
/// and loading a plugin takes none. Two, so that one slow `describe` does not block all others.
const CONCURRENT_DESCRIBES: u32 = 2;

/// A part of the validator's error about a stream or a future.
const NEEDS_CONCURRENCY: &str = "requires the component model async feature";

/// Most instances of calls, those of scripts included, for which the address space of the pool is surely there.
const MOST_INSTANCES: u32 = 3_072;

/// Size and reset method of the instance pool.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// Calls that can run in the sandbox at the same time.
    pub instances: u32,
    /// Whether the kernel's page map may be used to reset memories.
    pub pagemap_scan: PagemapScan,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self { instances: 256, pagemap_scan: PagemapScan::Auto }
    }
}

/// Whether memories are reset with the kernel's list of touched pages (`PAGEMAP_SCAN`, Linux 6.7 or later).
///
/// The scan halves the cost of a call. It is unsafe where a dirty page can be swapped out: the scan misses that page and
/// the next instance would read it (wasmtime#14357). So `Auto` uses it only where this process cannot swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagemapScan {
    /// If the kernel supports it and no page of this process can be swapped out.
    Auto,
    /// Never.
    Off,
}

/// The version of wasmtime in `Cargo.lock`.
pub const WASMTIME_VERSION: &str = "48.0.8";

/// The use of the instance pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Live instances of components.
    pub instances: u64,
    /// Linear memories in use.
    pub memories: u64,
    /// Stacks in use.
    pub stacks: u64,
    /// Unused linear memories that are kept warm.
    pub warm_memories: u64,
}

/// The reason why the sandbox could not start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The engine's settings do not work on this machine.
    #[error("the sandbox cannot start on this machine: {0}")]
    Engine(String),
    /// The thread that ticks the epoch could not be started.
    #[error("the thread that ticks the epoch cannot start: {0}")]
    Ticker(std::io::Error),
}

/// The state shared by all calls. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) inner: Arc<Shared>,
    #[cfg(feature = "testing")]
    pub(crate) fake_guest: Option<crate::testing::FakeGuest>,
}

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<CallState>,
    /// Runs components with streams and futures; made for the first code that the other engine does not take.
    concurrent: Arc<OnceLock<(Engine, Linker<CallState>)>>,
    fingerprint: String,
    pub(crate) scheduler: CpuScheduler,
    pub(crate) ticks: EpochTicks,
    /// Limits `describe` without a definition to the instances reserved for it.
    pub(crate) describe_slots: Semaphore,
    /// Limits calls that scripts make to the instances beyond those of the queue's slots.
    pub(crate) inner_slots: Semaphore,
    pagemap_scan: bool,
    _ticker: Ticker,
}

impl Sandbox {
    /// Starts the engine. Must run before the process drops the right to read its own page map.
    pub fn new(settings: &SandboxSettings) -> Result<Self, SandboxError> {
        let pagemap_scan = settings.pagemap_scan == PagemapScan::Auto && cannot_swap();
        let mut config = compiler_settings();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(settings, pagemap_scan)));
        let engine_error = |error: wasmtime::Error| SandboxError::Engine(error.to_string());
        let engine = Engine::new(&config).map_err(engine_error)?;
        let linker = crate::imports::link(&engine).map_err(engine_error)?;
        let (ticks, concurrent) = (EpochTicks::default(), Arc::default());
        Ok(Self {
            inner: Arc::new(Shared {
                fingerprint: fingerprint(&engine),
                _ticker: Ticker::start(engine.clone(), Arc::clone(&concurrent), ticks.clone())?,
                concurrent,
                ticks,
                scheduler: CpuScheduler::new(processors()),
                describe_slots: Semaphore::new(CONCURRENT_DESCRIBES as usize),
                // A call that waits for one holds none, so one is enough to go on.
                inner_slots: Semaphore::new(
                    (instances_of_calls(settings) - settings.instances).max(1) as usize
                ),
                pagemap_scan,
                linker,
                engine,
            }),
            #[cfg(feature = "testing")]
            fake_guest: None,
        })
    }

    /// The engine of components with streams and futures.
    ///
    /// Its bookkeeping for concurrency costs a third of a call, so other components run without it. Its instances are not pooled:
    /// such components are rare.
    pub(crate) fn concurrent(&self) -> wasmtime::Result<&(Engine, Linker<CallState>)> {
        if let Some(made) = self.inner.concurrent.get() {
            return Ok(made);
        }
        let engine = Engine::new(&concurrent_settings())?;
        let linker = crate::imports::link(&engine)?;
        Ok(self.inner.concurrent.get_or_init(|| (engine, linker)))
    }

    /// The cache key of compiled code: crate version, processor features and every setting that changes code.
    pub fn fingerprint(&self) -> &str {
        &self.inner.fingerprint
    }

    /// Whether memories are reset by page-map scan.
    pub fn pagemap_scan(&self) -> bool {
        self.inner.pagemap_scan
    }

    /// Live instances, for tests: 0 if no call runs.
    pub fn live_instances(&self) -> u64 {
        self.pool_use().instances
    }

    /// Waits for the organization's turn at a processor, for work outside of guests on this many bytes. Hold it during the work,
    /// which must not wait for anything. None for work that is too short to need a turn.
    pub async fn turn(&self, organization: &str, bytes: usize) -> Option<Turn> {
        self.inner.scheduler.turn(organization, bytes).await
    }

    /// The use of the instance pool.
    pub fn pool_use(&self) -> PoolUse {
        self.inner.engine.pooling_allocator_metrics().map_or_else(PoolUse::default, |metrics| PoolUse {
            instances: metrics.component_instances(),
            memories: metrics.memories() as u64,
            stacks: metrics.stacks() as u64,
            warm_memories: metrics.unused_warm_memories().into(),
        })
    }
}

/// Compiles a component to native code, of functions that were compiled before where some are given. Run it in a separate process with
/// resource limits: nothing else stops a compiler bomb.
pub fn precompile(
    component: &[u8],
    functions: Option<&Arc<CompiledFunctions>>,
) -> Result<Vec<u8>, LoadError> {
    compile(component, functions, Processors::This)
}

/// Compiles a component for all [`Processors::Usual`], to be loaded on other machines. The compiler has no limits.
pub fn precompile_portable(component: &[u8]) -> Result<Vec<u8>, LoadError> {
    compile(component, None, Processors::Usual)
}

/// The [fingerprint](Sandbox::fingerprint) of [portable code](precompile_portable).
pub fn portable_fingerprint() -> Result<String, LoadError> {
    let mut settings = compiler_settings();
    Processors::Usual.set(&mut settings)?;
    Ok(fingerprint(&Engine::new(&settings)?))
}

/// The processors that can run compiled code.
#[derive(Clone, Copy)]
enum Processors {
    /// Those with all features of this one.
    This,
    /// Those of servers since 2009: `x86-64-v2`, and each ARM with 64 bits.
    Usual,
}

impl Processors {
    fn set(self, settings: &mut Config) -> wasmtime::Result<()> {
        if let Self::Usual = self {
            // Without a target the features of this processor are used.
            settings.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
            if cfg!(target_arch = "x86_64") {
                trusted::allow_x86_64_v2(settings);
            }
        }
        Ok(())
    }
}

fn compile(
    component: &[u8],
    functions: Option<&Arc<CompiledFunctions>>,
    processors: Processors,
) -> Result<Vec<u8>, LoadError> {
    crate::imports::refuse_core_module(component)?;
    crate::imports::refuse_imports(component)?;
    let engine = |mut settings: Config| {
        if let Some(functions) = functions {
            settings.enable_incremental_compilation(Arc::clone(functions) as _)?;
        }
        processors.set(&mut settings)?;
        Engine::new(&settings)
    };
    let sliced = match slice_bulk_memory(component) {
        Ok(sliced) => sliced,
        // The compiler says better what is wrong with the file.
        Err(error) => {
            let compiled = engine(compiler_settings())?.precompile_component(component);
            return compiled.map_err(LoadError::from).and(Err(error));
        }
    };
    let error = match engine(compiler_settings())?.precompile_component(&sliced) {
        Ok(compiled) => return Ok(compiled),
        Err(error) => error,
    };
    match one_line(&error).contains(NEEDS_CONCURRENCY) {
        true => Ok(engine(concurrent_settings())?.precompile_component(&sliced)?),
        false => Err(error.into()),
    }
}

/// Settings for components with streams and futures.
fn concurrent_settings() -> Config {
    let mut config = compiler_settings();
    config.concurrency_support(true);
    config
}

/// The settings that change compiled code, shared by the daemon and its compile worker.
fn compiler_settings() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        // Replay needs the same bits for the same inputs; a later change invalidates every cache.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .consume_fuel(true)
        .operator_cost(operator_cost())
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK_BYTES)
        .async_stack_size(CALL_STACK_BYTES)
        .wasm_component_model(true)
        .memory_init_cow(true)
        // A trap reports its cause without a location: native addresses help an attacker more than a plugin author,
        // who has the log.
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        // Proposals that no plugin of WASI 0.2 needs, each with open advisories. Their cargo features stay on: a build
        // without them aborts where these settings return an error.
        .wasm_gc(false)
        .gc_support(false)
        .wasm_function_references(false)
        .wasm_exceptions(false)
        .wasm_memory64(false)
        .wasm_threads(false)
        .shared_memory(false)
        .wasm_stack_switching(false)
        // Bookkeeping for component-model async. It costs a third of a call and WASI 0.2 does not use it.
        .concurrency_support(false);
    config
}

/// The fuel of instructions. wasmtime charges bulk operations by bytes, and one unit for any growth of a memory.
fn operator_cost() -> OperatorCost {
    let mut cost = OperatorCost::new();
    // The most that there is: the kernel takes longer than so many instructions for the 64 KiB of a page.
    cost.variable.memory_grow_per_page = u8::MAX;
    cost
}

/// The instances of all slots, and as many for calls that scripts make: a script and a tool that it calls hold one each.
fn instances_of_calls(settings: &SandboxSettings) -> u32 {
    settings.instances.saturating_mul(2).min(settings.instances.max(MOST_INSTANCES))
}

fn pool(settings: &SandboxSettings, pagemap_scan: bool) -> PoolingAllocationConfig {
    let instances = instances_of_calls(settings).saturating_add(CONCURRENT_DESCRIBES);
    // Each of the concurrent components can have its maximum, so no call can exhaust the pool for others.
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
    bulk_memory::REVISION.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether no page of this process can be swapped out: no swap device is in use, or its control group forbids it.
fn cannot_swap() -> bool {
    let no_device = std::fs::read_to_string("/proc/swaps")
        .is_ok_and(|swaps| swaps.lines().skip(1).all(|line| line.trim().is_empty()));
    no_device || cgroup_forbids_swap()
}

fn cgroup_forbids_swap() -> bool {
    let Ok(groups) = std::fs::read_to_string("/proc/self/cgroup") else { return false };
    groups.lines().filter_map(|line| line.strip_prefix("0::")).any(|group| {
        std::fs::read_to_string(format!("/sys/fs/cgroup{group}/memory.swap.max"))
            .is_ok_and(|limit| limit.trim() == "0")
    })
}

/// The thread that advances the epoch. It ends when the sandbox is dropped.
struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(
        engine: Engine,
        concurrent: Arc<OnceLock<(Engine, Linker<CallState>)>>,
        ticks: EpochTicks,
    ) -> Result<Self, SandboxError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("epoch".into())
            .spawn(move || {
                let mut without_guest = 0;
                // Parked, not asleep, so that dropping the sandbox wakes it at once.
                while !stopped.load(Ordering::Relaxed) {
                    ticks.wait(EPOCH_TICK, &mut without_guest);
                    ticks.tick(|| {
                        engine.increment_epoch();
                        concurrent.get().iter().for_each(|(engine, _)| engine.increment_epoch());
                    });
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
            // A panic of the thread needs no handling here.
            let _ = thread.join();
        }
    }
}
