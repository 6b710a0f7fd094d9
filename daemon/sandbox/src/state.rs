//! The data that one call owns in its store. Dropped with the store.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use serde_json::{Map, Value};
use toolgate_admission::CallAccess;
use toolgate_api::grant::FilesystemAccess;
use toolgate_api::limits::Limits;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};
use wasmtime_wasi_io::IoView;

use crate::context::CallContext;
use crate::copy_meter::{CopyMeter, MeteredRng};
use crate::cpu_scheduler::EpochTicks;
use crate::egress::Egress;
use crate::files::{FileAccess, FilesView};
use crate::host_calls::HostCalls;
use crate::limiter::{CallLimiter, saturating_usize};
use crate::sink::{LogBuffer, PrintSink, PrintStream};

/// The arguments and the standard input of a program. Empty for a component that is none.
#[derive(Default)]
pub(crate) struct ProgramInput {
    pub args: Vec<String>,
    pub stdin: String,
}

/// The data of a store.
pub(crate) struct CallState {
    pub(crate) context: CallContext,
    /// The plugin's definition, for a component that serves many.
    pub(crate) definition: Option<Arc<str>>,
    pub(crate) limiter: CallLimiter,
    pub(crate) log: LogBuffer,
    pub(crate) access: FileAccess,
    pub(crate) egress: Egress,
    pub(crate) host_calls: HostCalls,
    /// Maximum of random bytes for one host call.
    random_bytes: u64,
    /// The environment of a component without the plugin contract; none for other plugins.
    environment: Option<ProgramInput>,
    /// Read on first use, since most plugins have none.
    settings: OnceLock<BTreeMap<String, String>>,
    /// Built on first use, since most calls use neither random numbers nor standard streams.
    wasi: Option<WasiCtx>,
    http: WasiHttpCtx,
    table: ResourceTable,
}

impl CallState {
    pub(crate) fn new(
        context: CallContext,
        limits: &Limits,
        reach: &Arc<CallAccess>,
        plugin: &str,
        definition: Option<Arc<str>>,
        ticks: EpochTicks,
    ) -> Self {
        let log = LogBuffer::new(saturating_usize(limits.log_bytes));
        let host_calls = HostCalls::new(limits.host_calls, ticks);
        let mut table = ResourceTable::new();
        table.set_max_capacity(saturating_usize(limits.resources));
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(saturating_usize(limits.header_bytes));
        let workspace = match reach.filesystem() {
            FilesystemAccess::Workspace => context.workspace.clone(),
            FilesystemAccess::None => None,
        };
        Self {
            limiter: CallLimiter::new(limits),
            access: FileAccess::new(
                workspace,
                limits.open_files,
                context.before_effect.clone(),
                &host_calls.copy_meter,
            ),
            egress: context.egress(limits, reach, plugin),
            host_calls,
            random_bytes: limits.random_bytes,
            environment: None,
            settings: OnceLock::new(),
            wasi: None,
            http,
            table,
            log,
            definition,
            context,
        }
    }

    /// Gives the guest its settings as environment variables, and this input to a program.
    pub(crate) fn with_environment(self, input: ProgramInput) -> Self {
        Self { environment: Some(input), ..self }
    }

    /// The settings by their names: those of the grant, or what the organization has set in their place.
    pub(crate) fn settings(&self) -> &BTreeMap<String, String> {
        self.settings.get_or_init(|| {
            let mut settings = self.egress.reach.settings().clone();
            let own = self.context.settings.as_deref();
            let own: Option<Map<String, Value>> = own.and_then(|json| serde_json::from_str(json).ok());
            settings.extend(own.unwrap_or_default().into_iter().map(|(name, value)| match value {
                Value::String(text) => (name, text),
                value => (name, value.to_string()),
            }));
            settings
        })
    }

    /// The guest's view of the workspace.
    pub(crate) fn files(&mut self) -> FilesView<'_> {
        let (wasi, table, access) = self.wasi();
        FilesView::new(WasiFilesystemCtxView { ctx: wasi.filesystem(), table }, access)
    }

    fn wasi(&mut self) -> (&mut WasiCtx, &mut ResourceTable, &mut FileAccess) {
        if self.wasi.is_none() {
            self.wasi = Some(self.build_wasi());
        }
        let Self { wasi, table, access, .. } = self;
        // It is there: this is the form without a panic.
        let ctx = wasi.get_or_insert_with(|| WasiCtx::builder().build());
        (ctx, table, access)
    }

    fn build_wasi(&mut self) -> WasiCtx {
        let mut builder =
            wasi_builder(&self.context, self.random_bytes, &self.log, &self.host_calls.copy_meter);
        if let Some(ProgramInput { args, stdin }) = self.environment.take() {
            builder.args(&args).stdin(MemoryInputPipe::new(stdin));
            self.settings().iter().for_each(|(name, value)| {
                builder.env(name, value);
            });
        }
        builder.build()
    }
}

/// A WASI context with clocks, random numbers and output streams, and without any capability.
fn wasi_builder(
    context: &CallContext,
    random_bytes: u64,
    log: &LogBuffer,
    meter: &CopyMeter,
) -> WasiCtxBuilder {
    let mut seed = context.seed;
    let secure = MeteredRng::new(ChaCha12Rng::from_seed(seed), meter);
    // A separate generator, so that its output reveals nothing about the other's.
    seed[0] ^= 1;
    let insecure = MeteredRng::new(ChaCha12Rng::from_seed(seed), meter);
    let half: [u8; 16] = std::array::from_fn(|at| context.seed[at] ^ context.seed[at + 16]);
    let mut builder = WasiCtx::builder();
    builder
        .stdout(PrintSink::new(log, PrintStream::Stdout))
        .stderr(PrintSink::new(log, PrintStream::Stderr))
        .secure_random(secure)
        .insecure_random(insecure)
        .insecure_random_seed(u128::from_le_bytes(half))
        .max_random_size(random_bytes)
        .wall_clock(context.clock.clone())
        .monotonic_clock(context.clock.clone())
        .allow_blocking_current_thread(false)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    builder
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (ctx, table, _) = self.wasi();
        WasiCtxView { ctx, table }
    }
}

impl IoView for CallState {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }
}

impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.egress }
    }
}
