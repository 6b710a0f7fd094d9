//! The floor: wasmtime alone, with the same component and the same settings.

use std::sync::Arc;

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreLimits,
    StoreLimitsBuilder,
};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::ARGUMENTS;

wasmtime::component::bindgen!({
    path: "../wit",
    world: "toolgate:plugin/plugin",
    exports: { default: async },
});

/// A linked component.
pub struct Bare {
    engine: Engine,
    plugin: Arc<PluginPre<State>>,
}

struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
}

impl Bare {
    pub fn new(component: &[u8]) -> Self {
        let mut config = Config::new();
        config
            .consume_fuel(true)
            .epoch_interruption(true)
            .cranelift_nan_canonicalization(true)
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
        Self { engine, plugin }
    }

    fn store(&self) -> Store<State> {
        let state = State {
            wasi: WasiCtx::builder().build(),
            table: ResourceTable::new(),
            limits: StoreLimitsBuilder::new().memory_size(64 << 20).build(),
        };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limits);
        store.set_fuel(1_000_000_000).unwrap();
        store.set_epoch_deadline(1_000_000);
        store.epoch_deadline_async_yield_and_update(1);
        store
    }

    async fn call(&self, store: &mut Store<State>, plugin: &Plugin) {
        let answered = plugin.toolgate_plugin_tools().call_call(&mut *store, "echo", ARGUMENTS).await;
        std::hint::black_box(answered.unwrap().is_ok());
    }

    /// One instance that serves them all.
    pub async fn reused(&self, calls: u64) {
        let mut store = self.store();
        let plugin = self.plugin.instantiate_async(&mut store).await.unwrap();
        for _ in 0..calls {
            store.set_fuel(1_000_000_000).unwrap();
            self.call(&mut store, &plugin).await;
        }
    }

    /// A store and an instance for each call, in as many tasks as there are in flight.
    pub async fn fresh(&self, calls: u64, in_flight: u64) {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let bare = Self { engine: self.engine.clone(), plugin: Arc::clone(&self.plugin) };
            tasks.spawn(async move {
                for _ in 0..calls / in_flight {
                    let mut store = bare.store();
                    let plugin = bare.plugin.instantiate_async(&mut store).await.unwrap();
                    bare.call(&mut store, &plugin).await;
                    tokio::task::consume_budget().await;
                }
            });
        }
        tasks.join_all().await;
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
