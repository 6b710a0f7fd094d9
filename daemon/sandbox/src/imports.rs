//! What a component may ask the host for: one table, four classes.
//!
//! Always linked, linked by grant, linked but answering "denied", refused at load. What is not in the
//! table is refused, so a new interface of WASI changes nothing until somebody decides about it here.
//! Interfaces that need a grant are linked for everyone and deny by themselves where there is none:
//! components of heavy language runtimes import them without using them, and one linker serves all.

use wasmtime::Engine;
use wasmtime::component::Linker;
use wasmtime_wasi::cli::WasiCliView;
use wasmtime_wasi::clocks::WasiClocksView;
use wasmtime_wasi::p2::bindings;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi::{WasiView, cli::WasiCli, clocks::WasiClocks, random::WasiRandom};

use crate::component::LoadError;
use crate::contract;
use crate::state::CallState;

/// What the host does about an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportClass {
    /// Linked for every component; gives no access to anything outside the call.
    Always,
    /// Works where it is granted, answers "denied" elsewhere. A plugin of our contract must ask for it.
    Granted(GrantKind),
    /// Linked, always answers "denied".
    Denied,
}

/// The capability that an interface needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantKind {
    Filesystem,
    Network,
}

/// Package and interface without version → class. The version is checked apart.
const TABLE: &[(&str, ImportClass)] = &[
    ("toolgate:plugin/types", ImportClass::Always),
    ("toolgate:plugin/context", ImportClass::Always),
    ("toolgate:plugin/config", ImportClass::Always),
    ("toolgate:plugin/log", ImportClass::Always),
    ("toolgate:plugin/progress", ImportClass::Always),
    ("wasi:cli/environment", ImportClass::Always),
    ("wasi:cli/exit", ImportClass::Always),
    ("wasi:cli/stdin", ImportClass::Always),
    ("wasi:cli/stdout", ImportClass::Always),
    ("wasi:cli/stderr", ImportClass::Always),
    ("wasi:cli/terminal-input", ImportClass::Always),
    ("wasi:cli/terminal-output", ImportClass::Always),
    ("wasi:cli/terminal-stdin", ImportClass::Always),
    ("wasi:cli/terminal-stdout", ImportClass::Always),
    ("wasi:cli/terminal-stderr", ImportClass::Always),
    ("wasi:clocks/monotonic-clock", ImportClass::Always),
    ("wasi:clocks/wall-clock", ImportClass::Always),
    ("wasi:io/error", ImportClass::Always),
    ("wasi:io/poll", ImportClass::Always),
    ("wasi:io/streams", ImportClass::Always),
    ("wasi:random/random", ImportClass::Always),
    ("wasi:random/insecure", ImportClass::Always),
    ("wasi:random/insecure-seed", ImportClass::Always),
    ("wasi:filesystem/types", ImportClass::Granted(GrantKind::Filesystem)),
    ("wasi:filesystem/preopens", ImportClass::Granted(GrantKind::Filesystem)),
    ("wasi:http/types", ImportClass::Granted(GrantKind::Network)),
    ("wasi:http/outgoing-handler", ImportClass::Granted(GrantKind::Network)),
    ("wasi:sockets/instance-network", ImportClass::Denied),
    ("wasi:sockets/ip-name-lookup", ImportClass::Denied),
    ("wasi:sockets/network", ImportClass::Denied),
    ("wasi:sockets/tcp", ImportClass::Denied),
    ("wasi:sockets/tcp-create-socket", ImportClass::Denied),
    ("wasi:sockets/udp", ImportClass::Denied),
    ("wasi:sockets/udp-create-socket", ImportClass::Denied),
];

/// The class of one import by its full name (`wasi:io/streams@0.2.6`), or why it is refused.
pub(crate) fn classify(import: &str) -> Result<ImportClass, LoadError> {
    let (interface, version) = import.split_once('@').unwrap_or((import, ""));
    let class = TABLE.iter().find(|(name, _)| *name == interface).map(|(_, class)| *class);
    match class {
        Some(class) if served_version(interface, version) => Ok(class),
        Some(_) => Err(LoadError::import(
            import,
            format!("the component was built for version `{version}` of `{interface}`"),
            "rebuild it against WASI 0.2 and version 0.1 of the plugin contract",
        )),
        None => Err(LoadError::import(
            import,
            format!("the component imports `{import}`, which no plugin may use"),
            "remove what needs it; the interfaces that plugins may import are listed in `wit/README.md`",
        )),
    }
}

/// `0.1.x` versions of the contract match each other, and so do `0.2.x` versions of WASI.
fn served_version(interface: &str, version: &str) -> bool {
    let series = if interface.starts_with("toolgate:") { "0.1." } else { "0.2." };
    version
        .strip_prefix(series)
        .is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Tells a core module from a component by the file's head, since the compiler's own words are not for
/// plugin authors.
pub(crate) fn refuse_core_module(bytes: &[u8]) -> Result<(), LoadError> {
    const COMPONENT_HEAD: [u8; 8] = [0x00, b'a', b's', b'm', 0x0d, 0x00, 0x01, 0x00];
    const MODULE_HEAD: [u8; 8] = [0x00, b'a', b's', b'm', 0x01, 0x00, 0x00, 0x00];
    let head = bytes.get(..8).unwrap_or(bytes);
    if head == COMPONENT_HEAD {
        return Ok(());
    }
    if head == MODULE_HEAD {
        return Err(LoadError::kind(
            "the file is a core WebAssembly module, not a component",
            "build for the target `wasm32-wasip2`, which makes components",
        ));
    }
    if head.starts_with(b"\0asm") {
        return Err(LoadError::kind(
            "the file is WebAssembly of a version that is not served",
            "build for the target `wasm32-wasip2`",
        ));
    }
    Err(LoadError::kind(
        "the file is not WebAssembly",
        "upload the `.wasm` file itself, built for the target `wasm32-wasip2`",
    ))
}

/// Links everything that is not refused. One linker serves every component.
pub(crate) fn link(engine: &Engine) -> wasmtime::Result<Linker<CallState>> {
    let mut linker = Linker::new(engine);
    contract::link(&mut linker)?;
    link_harmless(&mut linker)?;
    crate::files::add_to_linker(&mut linker, CallState::files)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    link_sockets(&mut linker)?;
    Ok(linker)
}

fn link_harmless(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    use bindings::{cli, clocks, random};
    wasmtime_wasi_io::add_to_linker_async(linker)?;
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(linker, CallState::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(linker, CallState::clocks)?;
    random::random::add_to_linker::<_, WasiRandom>(linker, |state| state.ctx().ctx.random())?;
    random::insecure::add_to_linker::<_, WasiRandom>(linker, |state| state.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, |state| state.ctx().ctx.random())?;
    cli::exit::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::environment::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, CallState::cli)?;
    Ok(())
}

/// Sockets are linked with a context that allows none of them.
fn link_sockets(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    use bindings::sockets;
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, CallState::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, CallState::sockets)?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, CallState::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, CallState::sockets)?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, CallState::sockets)?;
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &Default::default(), CallState::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, CallState::sockets)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_interface_of_the_table_is_served_in_its_series() {
        assert_eq!(classify("wasi:io/streams@0.2.6").unwrap(), ImportClass::Always);
        assert_eq!(classify("toolgate:plugin/log@0.1.7").unwrap(), ImportClass::Always);
        assert_eq!(
            classify("wasi:filesystem/types@0.2.0").unwrap(),
            ImportClass::Granted(GrantKind::Filesystem)
        );
        assert_eq!(classify("wasi:sockets/tcp@0.2.3").unwrap(), ImportClass::Denied);
    }

    /// Authors in other languages have the list in `wit/` alone.
    #[test]
    fn the_published_list_of_interfaces_is_the_table() {
        let published =
            include_str!("../../../wit/README.md").split('`').filter(|word| word.starts_with("wasi:"));
        let served = TABLE.iter().map(|(name, _)| *name).filter(|name| name.starts_with("wasi:"));
        assert_eq!(published.collect::<BTreeSet<_>>(), served.collect::<BTreeSet<_>>());
    }

    #[test]
    fn an_interface_of_another_series_is_refused() {
        for import in
            ["wasi:io/streams@0.3.0", "toolgate:plugin/log@0.2.0", "wasi:io/streams", "wasi:io/streams@0.2."]
        {
            assert!(classify(import).is_err(), "{import}");
        }
    }

    #[test]
    fn an_interface_outside_the_table_is_refused() {
        for import in ["wasi:threads/spawn@0.2.0", "evil:host/shell@0.1.0", "env"] {
            assert!(classify(import).is_err(), "{import}");
        }
    }

    #[test]
    fn a_core_module_is_told_from_a_component_and_from_something_else() {
        assert!(refuse_core_module(b"\0asm\x0d\0\x01\0rest").is_ok());
        let module = refuse_core_module(b"\0asm\x01\0\0\0").unwrap_err();
        assert!(module.to_string().contains("core WebAssembly module"));
        assert!(refuse_core_module(b"PK\x03\x04").is_err());
        assert!(refuse_core_module(b"").is_err());
    }
}
