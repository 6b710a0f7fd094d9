//! Hostile guest: one tool for each resource limit, and a few well-behaved tools as positive twins.
//!
//! Each file covers one resource. Files and network have guests of their own.

#![allow(clippy::disallowed_methods, reason = "hostile on purpose")]

mod compute;
mod end;
mod handles;
mod host;
mod memory;
mod print;

use toolgate_sdk::plugin;

plugin! {
    "hostile",
    publisher = "Toolgate tests",
    category = "Tests",
    compute::spin, compute::recurse, compute::spin_in_host,
    memory::swallow, memory::grow, memory::count, memory::hide, memory::fill_and_copy, memory::hide_and_stay, memory::seek,
    print::shout, print::show, print::log, print::log_flood, print::print_flood, print::empty_writes,
    handles::pollables, handles::streams,
    host::dice, host::draw, host::dice_for_ever, host::shout_to_host, host::shout_pairs, host::wait_for,
    host::wait_again,
    end::doze, end::rest, end::report_progress, end::about, end::panic, end::exit, end::fail, end::echo
}
