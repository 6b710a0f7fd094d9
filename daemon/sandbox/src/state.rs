//! What one call owns inside its store. Dropped with it, whatever happened.

use std::sync::Arc;

use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use toolgate_admission::{CallAccess, FilesystemAccess, Limits};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};
use wasmtime_wasi_io::IoView;

use crate::egress::Egress;
use crate::files::{FileAccess, FilesView};
use crate::host_calls::HostCalls;
use crate::limiter::{CallLimiter, saturating};
use crate::moved::{Counted, Moved};
use crate::run::{CallClock, CallContext};
use crate::sink::{LogBuffer, PrintSink, Printer};
use crate::turns::Ticks;

/// The data of a store.
pub(crate) struct CallState {
    pub(crate) context: CallContext,
    /// What the component makes a plugin of, where it serves many.
    pub(crate) definition: Option<Arc<str>>,
    pub(crate) limiter: CallLimiter,
    pub(crate) log: LogBuffer,
    pub(crate) access: FileAccess,
    pub(crate) egress: Egress,
    pub(crate) host_calls: HostCalls,
    pub(crate) moved: Moved,
    /// Random bytes that one host call may ask for.
    random_bytes: u64,
    /// Made when the guest first asks for something in it: its generators and places to print are nothing to a call that
    /// does not.
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
        ticks: Ticks,
    ) -> Self {
        let log = LogBuffer::new(saturating(limits.log_bytes));
        let moved = Moved::default();
        let mut table = ResourceTable::new();
        table.set_max_capacity(saturating(limits.resources));
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(saturating(limits.header_bytes));
        let workspace = match reach.filesystem() {
            FilesystemAccess::Workspace => context.workspace.clone(),
            FilesystemAccess::None => None,
        };
        Self {
            limiter: CallLimiter::new(limits),
            access: FileAccess::new(workspace, limits.open_files, context.before_effect.clone())
                .counting(&moved),
            egress: Egress::new(&context, limits, reach, plugin),
            host_calls: HostCalls::new(limits.host_calls, ticks),
            moved,
            random_bytes: limits.random_bytes,
            wasi: None,
            http,
            table,
            log,
            definition,
            context,
        }
    }

    /// The guest's view of the workspace.
    pub(crate) fn files(&mut self) -> FilesView<'_> {
        let (wasi, table, access) = self.wasi();
        FilesView::new(WasiFilesystemCtxView { ctx: wasi.filesystem(), table }, access)
    }

    fn wasi(&mut self) -> (&mut WasiCtx, &mut ResourceTable, &mut FileAccess) {
        let Self { wasi, table, access, context, log, moved, random_bytes, .. } = self;
        let made = wasi.get_or_insert_with(|| powerless(context, *random_bytes, log, moved));
        (made, table, access)
    }
}

/// A context that gives nothing but time, random numbers and a place to print.
fn powerless(context: &CallContext, random_bytes: u64, log: &LogBuffer, moved: &Moved) -> WasiCtx {
    let mut seed = context.seed;
    let secure = Counted::new(ChaCha12Rng::from_seed(seed), moved);
    // A generator of its own, so that reading one says nothing about the other.
    seed[0] ^= 1;
    let insecure = Counted::new(ChaCha12Rng::from_seed(seed), moved);
    let half: [u8; 16] = std::array::from_fn(|at| context.seed[at] ^ context.seed[at + 16]);
    let mut builder = WasiCtx::builder();
    builder
        .stdout(PrintSink::new(log, Printer::Stdout))
        .stderr(PrintSink::new(log, Printer::Stderr))
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
    builder.build()
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

impl HostWallClock for CallClock {
    fn resolution(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(1)
    }

    fn now(&self) -> std::time::Duration {
        self.since_epoch()
    }
}

impl HostMonotonicClock for CallClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
