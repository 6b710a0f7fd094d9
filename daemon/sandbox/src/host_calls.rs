//! Counts the calls from a guest to the host and charges fuel for them, since wasmtime's fuel counts guest
//! instructions only.
//!
//! wasmtime runs the call hook for other host entries too: an epoch tick that ends a time slice, an exhausted fuel
//! slice, and memory growth. Ticks and slices are not the guest's doing and depend on the load, so they are not
//! counted. During memory growth the guest keeps its fuel in a register: fuel charged then would be lost or counted
//! twice. (`elem.drop`, which compilers rarely emit, is counted as a call, and some fuel is then charged twice.)

use wasmtime::{CallHook, Store, StoreContextMut};

use crate::copy_meter::CopyMeter;
use crate::cpu_scheduler::EpochTicks;

/// Fuel charged for one host call, in instructions: about the cost of the cheapest ones. Separate limits bound the
/// bytes that a call copies.
const HOST_CALL_FUEL: u64 = 500;

/// Fuel that a guest burns before wasmtime writes its counter back: about 10 ms. This is the precision of the fuel
/// used by a call that is stopped while it computes.
const FUEL_SLICE: u64 = 20_000_000;

/// The guest exceeded its limit of host calls.
#[derive(Debug, thiserror::Error)]
#[error("too many host calls")]
pub(crate) struct TooManyHostCalls;

/// Counts the host calls of one call.
#[derive(Debug)]
pub(crate) struct HostCalls {
    pub(crate) made: u64,
    limit: u64,
    /// Fuel when the last host call returned. A guest burns fuel before it does anything else, so if the value is
    /// unchanged at the end, that host call failed, and not the guest or its result.
    pub(crate) fuel_at_return: Option<u64>,
    /// Fuel when the guest entered the host.
    pub(crate) fuel_at_entry: u64,
    /// Whether the last host call caused the failure. Set at the end.
    pub(crate) last_failed: bool,
    /// Fuel at the start of the current fuel slice.
    slice_began: u64,
    /// The reason of the current host entry.
    entry: HostEntry,
    /// Bytes copied by the host calls, charged as fuel.
    pub(crate) copy_meter: CopyMeter,
    ticks: EpochTicks,
    /// Completed ticks when the last tick was handled. No tick is due until a later one begins.
    seen: u64,
}

/// Bytes that the host copies from the guest at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyBounds {
    /// In one call of the host.
    pub call_bytes: usize,
    /// As the result.
    pub result_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostEntry {
    Call,
    EpochTick,
    Growth,
    FuelSlice,
}

impl HostCalls {
    pub(crate) fn new(limit: u64, ticks: EpochTicks) -> Self {
        let seen = ticks.completed_count();
        Self {
            made: 0,
            limit,
            fuel_at_return: None,
            fuel_at_entry: 0,
            last_failed: false,
            slice_began: 0,
            entry: HostEntry::Call,
            copy_meter: CopyMeter::default(),
            ticks,
            seen,
        }
    }

    /// Records that an epoch tick caused the current host entry.
    pub(crate) fn record_tick(&mut self) {
        self.made = self.made.saturating_sub(1);
        self.entry = HostEntry::EpochTick;
        self.seen = self.ticks.completed_count();
    }

    /// Records that memory or table growth caused the current host entry.
    pub(crate) fn record_growth(&mut self) {
        self.entry = HostEntry::Growth;
    }

    /// Sets the fuel of the call and installs the call hook. `calls` returns the counter in the store's data.
    ///
    /// `copied` bounds what the host copies from the guest.
    pub(crate) fn begin<T: 'static>(
        store: &mut Store<T>,
        fuel: u64,
        copied: CopyBounds,
        calls: impl Fn(&mut T) -> &mut HostCalls + Copy + Send + Sync + 'static,
    ) -> wasmtime::Result<()> {
        store.set_fuel(fuel)?;
        store.fuel_async_yield_interval(Some(FUEL_SLICE))?;
        calls(store.data_mut()).slice_began = fuel;
        store.call_hook(move |mut store, hook| match hook {
            CallHook::CallingHost => {
                store.set_hostcall_fuel(copied.call_bytes);
                count(store, calls)
            }
            CallHook::ReturningFromHost => charge(store, calls),
            // The result is copied next.
            CallHook::ReturningFromWasm => {
                store.set_hostcall_fuel(copied.result_bytes);
                Ok(())
            }
            CallHook::CallingWasm => Ok(()),
        });
        Ok(())
    }
}

fn count<T>(
    mut store: StoreContextMut<'_, T>,
    calls: impl Fn(&mut T) -> &mut HostCalls,
) -> wasmtime::Result<()> {
    let fuel = store.get_fuel()?;
    let calls = calls(store.data_mut());
    // The last slice is shorter: it ends with the fuel.
    if fuel == 0 || calls.slice_began.saturating_sub(fuel) >= FUEL_SLICE {
        (calls.slice_began, calls.entry) = (fuel, HostEntry::FuelSlice);
        return Ok(());
    }
    (calls.entry, calls.fuel_at_entry) = (HostEntry::Call, fuel);
    calls.made = calls.made.saturating_add(1);
    // If a tick is due, this entry may be that tick, which is known only on return.
    if calls.made > calls.limit && calls.ticks.started_count() == calls.seen {
        return Err(TooManyHostCalls.into());
    }
    Ok(())
}

fn charge<T>(
    mut store: StoreContextMut<'_, T>,
    calls: impl Fn(&mut T) -> &mut HostCalls,
) -> wasmtime::Result<()> {
    let counter = calls(store.data_mut());
    if std::mem::replace(&mut counter.entry, HostEntry::Call) != HostEntry::Call {
        return Ok(());
    }
    if counter.made > counter.limit {
        return Err(TooManyHostCalls.into());
    }
    let owed = counter.copy_meter.take_fuel().saturating_add(HOST_CALL_FUEL);
    let fuel = store.get_fuel()?.saturating_sub(owed);
    store.set_fuel(fuel)?;
    let counter = calls(store.data_mut());
    (counter.slice_began, counter.fuel_at_return) = (fuel, Some(fuel));
    Ok(())
}
