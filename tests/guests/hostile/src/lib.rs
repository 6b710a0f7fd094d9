//! Does to its host what a plugin must not: one tool for each limit, and a few that behave, to show that the limits
//! are what stopped the others.
//!
//! Each file is one thing that a call can use up. No tool here reaches files or the network: those have guests of
//! their own.

#![allow(clippy::disallowed_methods, reason = "it does what it must not")]

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
    memory::swallow, memory::grow, memory::count, memory::hide, memory::hide_and_stay, memory::seek,
    print::shout, print::log, print::log_flood, print::print_flood, print::empty_writes,
    handles::pollables, handles::streams,
    host::dice, host::draw, host::dice_for_ever, host::shout_to_host, host::shout_pairs, host::wait_for,
    host::wait_again,
    end::doze, end::rest, end::tell, end::panic, end::exit, end::fail, end::echo
}
