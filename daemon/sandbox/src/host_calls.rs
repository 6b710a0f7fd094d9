//! Counts what a guest calls the host for, and charges it: fuel sees instructions of the guest only.
//!
//! The hook is called for more than that. The runtime enters the host by itself when a tick of the epoch ends a turn and when
//! a slice of fuel is used up: neither is the guest's doing, and how many ticks there are depends on who else computes. And
//! where memory grows, the guest keeps its fuel in a register, so that what is charged then would be lost, or counted twice.
//! (`elem.drop`, which compilers hardly write, is counted as a call, and some fuel then burns twice.)

use wasmtime::{CallHook, Store, StoreContextMut};

use crate::state::CallState;
use crate::trap;
use crate::turns::Ticks;

/// Fuel that one call from the guest to the host costs, in instructions. The cheapest ones take about
/// that long; what they move is bounded by limits of its own.
const HOST_CALL_FUEL: u64 = 500;

/// How much fuel a guest burns until the runtime knows of it, some 10 ms of computing. What a call used that is stopped while
/// it computes is told with this precision.
const FUEL_SLICE: u64 = 20_000_000;

/// Counts calls from the guest to the host.
#[derive(Debug)]
pub(crate) struct HostCalls {
    pub(crate) made: u64,
    limit: u64,
    /// Fuel when the last one returned. A guest burns some before it does anything else, so where it is still
    /// the same at the end, that call is what failed, and not the guest or its answer.
    pub(crate) fuel_at_return: Option<u64>,
    /// Whether the last one is what failed. Known at the end.
    pub(crate) failed: bool,
    /// Fuel when the slice began that the guest burns.
    slice_began: u64,
    /// What the host was entered for.
    entered: Entered,
    ticks: Ticks,
    /// Whole ticks when the next one was last waited for: none is due as long as no other has begun.
    seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    Call,
    Tick,
    Growth,
    Slice,
}

impl HostCalls {
    pub(crate) fn new(limit: u64, ticks: Ticks) -> Self {
        let seen = ticks.whole();
        Self {
            made: 0,
            limit,
            fuel_at_return: None,
            failed: false,
            slice_began: 0,
            entered: Entered::Call,
            ticks,
            seen,
        }
    }

    /// The host was entered since a tick ended the turn.
    pub(crate) fn was_tick(&mut self) {
        self.made = self.made.saturating_sub(1);
        self.entered = Entered::Tick;
        self.seen = self.ticks.whole();
    }

    /// The host was entered to let memory or a table grow.
    pub(crate) fn was_growth(&mut self) {
        self.entered = Entered::Growth;
    }

    /// Gives the call its fuel and counts from now on.
    pub(crate) fn begin(store: &mut Store<CallState>, fuel: u64) -> wasmtime::Result<()> {
        store.set_fuel(fuel)?;
        store.fuel_async_yield_interval(Some(FUEL_SLICE))?;
        store.data_mut().host_calls.slice_began = fuel;
        store.call_hook(charge);
        Ok(())
    }
}

fn charge(mut store: StoreContextMut<'_, CallState>, hook: CallHook) -> wasmtime::Result<()> {
    match hook {
        CallHook::CallingHost => {
            let fuel = store.get_fuel()?;
            let calls = &mut store.data_mut().host_calls;
            // The last slice is as long as what was left.
            if fuel == 0 || calls.slice_began.saturating_sub(fuel) >= FUEL_SLICE {
                (calls.slice_began, calls.entered) = (fuel, Entered::Slice);
                return Ok(());
            }
            calls.entered = Entered::Call;
            calls.made = calls.made.saturating_add(1);
            // Where a tick is due this may be it, which is known when the host is left.
            if calls.made > calls.limit && calls.ticks.begun() == calls.seen {
                return Err(trap::TooManyHostCalls.into());
            }
            Ok(())
        }
        CallHook::ReturningFromHost => {
            let calls = &mut store.data_mut().host_calls;
            match std::mem::replace(&mut calls.entered, Entered::Call) {
                Entered::Call if calls.made > calls.limit => return Err(trap::TooManyHostCalls.into()),
                Entered::Call => {}
                Entered::Tick | Entered::Growth | Entered::Slice => return Ok(()),
            }
            let owed = store.data().moved.take().saturating_add(HOST_CALL_FUEL);
            let fuel = store.get_fuel()?.saturating_sub(owed);
            store.set_fuel(fuel)?;
            let calls = &mut store.data_mut().host_calls;
            (calls.slice_began, calls.fuel_at_return) = (fuel, Some(fuel));
            Ok(())
        }
        CallHook::CallingWasm | CallHook::ReturningFromWasm => Ok(()),
    }
}
