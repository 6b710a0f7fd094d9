//! The floor: wasmtime alone, with the same component and the same settings, or without some of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{
    CallHook, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    StoreContextMut, StoreLimits, StoreLimitsBuilder,
};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};

wasmtime::component::bindgen!({
    path: "../wit",
    world: "toolgate:plugin/plugin",
    exports: { default: async },
});

use self::toolgate::plugin::types::Outcome;

/// Safety settings that can be turned off to measure their cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Knobs {
    /// Counts instructions.
    pub fuel: bool,
    /// Preempts a guest every millisecond.
    pub epochs: bool,
    /// Canonicalizes NaNs, so that results are deterministic.
    pub canonical_nans: bool,
    /// Limits the growth of memory, tables and instances.
    pub limiter: bool,
    /// Counts and charges host calls and their bytes.
    pub host_calls: bool,
    /// Sets a timeout for the whole call.
    pub deadline: bool,
    /// Instantiates the component for each call. Without it one instance serves all calls and keeps its state.
    pub fresh_instance: bool,
}

impl Knobs {
    pub const ALL: Self = Self {
        fuel: true,
        epochs: true,
        canonical_nans: true,
        limiter: true,
        host_calls: true,
        deadline: true,
        fresh_instance: true,
    };
    pub const NONE: Self = Self {
        fuel: false,
        epochs: false,
        canonical_nans: false,
        limiter: false,
        host_calls: false,
        deadline: false,
        fresh_instance: true,
    };
    /// Settings of measurement (c): wasmtime as its users run it.
    pub const FLOOR: Self = Self { host_calls: false, deadline: false, ..Self::ALL };
}

/// Linked component.
#[derive(Clone)]
pub struct Bare {
    engine: Engine,
    plugin: Arc<PluginPre<State>>,
    knobs: Knobs,
    /// Mounted as `/workspace`.
    pub workspace: Option<PathBuf>,
}

struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
    host_calls: u64,
}

impl Bare {
    pub fn new(component: &[u8], knobs: Knobs) -> Self {
        let mut config = Config::new();
        config
            .consume_fuel(knobs.fuel)
            .epoch_interruption(knobs.epochs)
            .cranelift_nan_canonicalization(knobs.canonical_nans)
            .concurrency_support(false)
            .wasm_backtrace_max_frames(None);
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(256)
            .total_core_instances(256 * 10)
            .total_memories(512)
            .total_tables(1024)
            .total_stacks(256)
            .linear_memory_keep_resident(512 * 1024)
            .table_keep_resident(512 * 1024)
            .pagemap_scan(Enabled::Auto);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).unwrap();
        let component = Component::new(&engine, component).unwrap();
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        Plugin::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state).unwrap();
        let plugin = Arc::new(PluginPre::new(linker.instantiate_pre(&component).unwrap()).unwrap());
        Self { engine, plugin, knobs, workspace: None }
    }

    fn store(&self) -> Store<State> {
        let mut wasi = WasiCtx::builder();
        if let Some(workspace) = &self.workspace {
            wasi.preopened_dir(workspace, "/workspace", FsPerms::ReadWrite).unwrap();
        }
        let state = State {
            wasi: wasi.build(),
            table: ResourceTable::new(),
            limits: StoreLimitsBuilder::new().memory_size(64 << 20).build(),
            host_calls: 0,
        };
        let mut store = Store::new(&self.engine, state);
        if self.knobs.limiter {
            store.limiter(|state| &mut state.limits);
        }
        if self.knobs.epochs {
            store.set_epoch_deadline(1);
            store.epoch_deadline_async_yield_and_update(1);
        }
        if self.knobs.host_calls {
            store.set_hostcall_fuel(1 << 20);
            store.set_max_component_handles(1_000);
            store.call_hook(charge);
        }
        self.fill(&mut store);
        store
    }

    fn fill(&self, store: &mut Store<State>) {
        if self.knobs.fuel {
            store.set_fuel(100_000_000_000).unwrap();
        }
    }

    /// Result of `echo` in a fresh instance.
    pub async fn fresh(&self, arguments: &str) -> String {
        let mut store = self.store();
        let plugin = self.plugin.instantiate_async(&mut store).await.unwrap();
        let answered = plugin.toolgate_plugin_tools().call_call(&mut store, "echo", arguments).await;
        match answered.unwrap().unwrap() {
            Outcome::Output(output) | Outcome::Client(output) => output,
        }
    }

    async fn call(&self, store: &mut Store<State>, plugin: &Plugin, (tool, arguments): Call) {
        let answering = plugin.toolgate_plugin_tools().call_call(&mut *store, tool, arguments);
        let answered = if self.knobs.deadline {
            tokio::time::timeout(Duration::from_secs(60), answering).await.unwrap()
        } else {
            answering.await
        };
        std::hint::black_box(answered.unwrap().is_ok());
    }

    /// Makes calls in `in_flight` tasks, with an instance for each call or, without `fresh_instance`, for each task.
    pub async fn calls(&self, calls: u64, in_flight: u64, call: Call) {
        let ticker = Ticker::of(self);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let bare = self.clone();
            tasks.spawn(async move {
                let mut left = calls / in_flight;
                while left > 0 {
                    let mut store = bare.store();
                    let plugin = bare.plugin.instantiate_async(&mut store).await.unwrap();
                    let serves = if bare.knobs.fresh_instance { 1 } else { left };
                    for _ in 0..serves {
                        bare.fill(&mut store);
                        bare.call(&mut store, &plugin, call).await;
                        tokio::task::consume_budget().await;
                    }
                    left -= serves;
                }
            });
        }
        tasks.join_all().await;
        drop(ticker);
    }
}

/// Tool and arguments.
pub type Call = (&'static str, &'static str);

/// The sandbox's accounting of a host call.
fn charge(mut store: StoreContextMut<'_, State>, hook: CallHook) -> wasmtime::Result<()> {
    if matches!(hook, CallHook::CallingHost | CallHook::ReturningFromHost) {
        store.data_mut().host_calls += 1;
        if let Ok(fuel) = store.get_fuel() {
            store.set_fuel(fuel.saturating_sub(1_000))?;
        }
    }
    Ok(())
}

/// Increments the epoch until it is dropped.
pub struct Ticker(Arc<AtomicBool>);

impl Ticker {
    pub fn of(bare: &Bare) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, engine) = (Arc::clone(&stop), bare.engine.clone());
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(1));
                engine.increment_epoch();
            }
        });
        Self(stop)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl toolgate::plugin::types::Host for State {}

impl toolgate::plugin::context::Host for State {
    fn call_id(&mut self) -> String {
        String::new()
    }
    fn deadline_ms(&mut self) -> u64 {
        0
    }
    fn get(&mut self, _: String) -> Option<String> {
        None
    }
}

impl toolgate::plugin::config::Host for State {
    fn definition(&mut self) -> Option<String> {
        None
    }
    fn settings(&mut self) -> String {
        "{}".into()
    }
}

impl toolgate::plugin::log::Host for State {
    fn write(&mut self, _: toolgate::plugin::log::Level, _: String, _: String, _: Vec<(String, String)>) {}
}

impl toolgate::plugin::progress::Host for State {
    fn report(&mut self, _: u64, _: Option<u64>, _: Option<String>) {}
}
