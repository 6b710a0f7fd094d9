//! The interfaces that a component may import: one table, four classes.
//!
//! Always linked, linked by grant, linked but answering "denied", refused at load. An interface outside the table is
//! refused, so a new WASI interface stays refused until it is added here. Interfaces that need a grant are linked for
//! every component and return "denied" without one: heavy language runtimes import them without using them, and one
//! linker serves all components.

use toolgate_api::grant::{Capabilities, FilesystemAccess};
use wasmparser::{Parser, Payload};
use wasmtime::Engine;
use wasmtime::component::Linker;
use wasmtime_wasi::cli::WasiCliView;
use wasmtime_wasi::clocks::WasiClocksView;
use wasmtime_wasi::p2::bindings;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi::{WasiView, cli::WasiCli, clocks::WasiClocks, random::WasiRandom};

use crate::contract;
use crate::load_error::LoadError;
use crate::proposals::{self, is_served_draft};
use crate::state::CallState;

/// The host's treatment of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportClass {
    /// Linked for every component; gives no access to anything outside the call.
    Always,
    /// Works with a grant and returns "denied" without one. A plugin of our contract must request it.
    Granted(GrantKind),
    /// Linked; always returns "denied".
    Denied,
}

/// The capability that an interface needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GrantKind {
    Filesystem,
    Network,
    Calls,
    Messages,
}

impl GrantKind {
    /// The name of the capability.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Network => "network",
            Self::Calls => "calls",
            Self::Messages => "messages",
        }
    }

    /// Whether the plugin asks for it.
    pub(crate) fn is_asked(self, asked: &Capabilities) -> bool {
        match self {
            Self::Filesystem => asked.filesystem != FilesystemAccess::None,
            Self::Network => !asked.network.is_empty(),
            Self::Calls => asked.calls,
            Self::Messages => asked.messages,
        }
    }

    /// Whether the plugin says that only its language runtime imports it.
    pub(crate) fn is_declared_unused(self, asked: &Capabilities) -> bool {
        asked.unused.iter().any(|unused| unused.as_str() == self.name())
    }
}

/// Packages, their interfaces and the class of these. The version is checked separately: `served_version`.
const TABLE: &[(&str, &[&str], ImportClass)] = &[
    ("toolgate:plugin", &["types", "context", "config", "log", "progress"], ImportClass::Always),
    ("toolgate:plugin", &["calls"], ImportClass::Granted(GrantKind::Calls)),
    ("toolgate:plugin", &["messages"], ImportClass::Granted(GrantKind::Messages)),
    ("wasi:cli", &["environment", "exit", "stdin", "stdout", "stderr"], ImportClass::Always),
    ("wasi:cli", &["terminal-input", "terminal-output"], ImportClass::Always),
    ("wasi:cli", &["terminal-stdin", "terminal-stdout", "terminal-stderr"], ImportClass::Always),
    ("wasi:clocks", &["monotonic-clock", "wall-clock"], ImportClass::Always),
    ("wasi:io", &["error", "poll", "streams"], ImportClass::Always),
    ("wasi:random", &["random", "insecure", "insecure-seed"], ImportClass::Always),
    ("wasi:filesystem", &["types", "preopens"], ImportClass::Granted(GrantKind::Filesystem)),
    ("wasi:http", &["types", "outgoing-handler"], ImportClass::Granted(GrantKind::Network)),
    ("wasi:config", &["store"], ImportClass::Always),
    ("wasi:logging", &["logging"], ImportClass::Always),
    ("wasi:sockets", &["instance-network", "ip-name-lookup", "network"], ImportClass::Denied),
    ("wasi:sockets", &["tcp", "tcp-create-socket", "udp", "udp-create-socket"], ImportClass::Denied),
];

/// Returns the class of one import by its full name (`wasi:io/streams@0.2.6`), or the error that refuses it.
pub(crate) fn classify(import: &str) -> Result<ImportClass, LoadError> {
    let (interface, version) = import.split_once('@').unwrap_or((import, ""));
    let (package, name) = interface.split_once('/').unwrap_or((interface, ""));
    let entry = TABLE.iter().find(|(known, names, _)| *known == package && names.contains(&name));
    match entry.map(|(_, _, class)| *class) {
        Some(class) if served_version(interface, version) => Ok(class),
        _ if is_wasi_0_3(interface, version) => Err(LoadError::import(
            import,
            format!("the component is built for WASI 0.3, which is not served: it imports `{import}`"),
            "build it for WASI 0.2, in Rust for the target `wasm32-wasip2`",
        )),
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

fn is_wasi_0_3(interface: &str, version: &str) -> bool {
    interface.starts_with("wasi:") && version.starts_with("0.3.")
}

/// Refuses a component by the names of its imports, before anything is compiled: a compiler would not name the cause, and takes
/// long to come to it.
pub(crate) fn refuse_imports(component: &[u8]) -> Result<(), LoadError> {
    // The compiler says better what is wrong with a file that cannot be read.
    let imports = import_names(component).unwrap_or_default();
    imports.into_iter().try_for_each(|import| classify(import).map(drop))
}

/// The names of the imports of a component.
fn import_names(component: &[u8]) -> Result<Vec<&str>, LoadError> {
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ComponentImportSection(imports) => {
                for import in imports {
                    names.push(import?.name.name);
                }
            }
            // Imports of nested components are not those of the file, and stand after them.
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => break,
            _ => {}
        }
    }
    Ok(names)
}

/// All `0.1.x` versions of the contract are compatible, and so are all `0.2.x` versions of WASI.
fn served_version(interface: &str, version: &str) -> bool {
    if is_served_draft(interface, version) {
        return true;
    }
    let series = if interface.starts_with("toolgate:") { "0.1." } else { "0.2." };
    version
        .strip_prefix(series)
        .is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Checks the file header, since the compiler's errors are not written for plugin authors.
pub(crate) fn refuse_core_module(bytes: &[u8]) -> Result<(), LoadError> {
    const COMPONENT_HEAD: &[u8] = b"\0asm\x0d\0\x01\0";
    const MODULE_HEAD: &[u8] = b"\0asm\x01\0\0\0";
    let (message, hint) = match bytes.get(..8).unwrap_or(bytes) {
        COMPONENT_HEAD => return Ok(()),
        MODULE_HEAD => (
            "the file is a core WebAssembly module, not a component",
            "build for the target `wasm32-wasip2`, which makes components",
        ),
        [b'\0', b'a', b's', b'm', ..] => (
            "the file is WebAssembly of a version that is not served",
            "build for the target `wasm32-wasip2`",
        ),
        _ => (
            "the file is not WebAssembly",
            "upload the `.wasm` file itself, built for the target `wasm32-wasip2`",
        ),
    };
    Err(LoadError::new(message, hint))
}

/// Links every interface of the table. One linker serves all components.
pub(crate) fn link(engine: &Engine) -> wasmtime::Result<Linker<CallState>> {
    let mut linker = Linker::new(engine);
    contract::link(&mut linker)?;
    link_always(&mut linker)?;
    crate::files::add_to_linker(&mut linker, CallState::files)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    link_sockets(&mut linker)?;
    proposals::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Links interfaces of one WASI package with the same view of the call's state.
macro_rules! link {
    ($linker:ident, $package:ident, $data:ty, $view:expr, [$($interface:ident),+]) => {
        $(bindings::$package::$interface::add_to_linker::<_, $data>($linker, $view)?;)+
    };
}

fn link_always(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi_io::add_to_linker_async(linker)?;
    link!(linker, clocks, WasiClocks, CallState::clocks, [wall_clock, monotonic_clock]);
    link!(linker, random, WasiRandom, |state| state.ctx().ctx.random(), [random, insecure, insecure_seed]);
    link!(linker, cli, WasiCli, CallState::cli, [exit, environment, stdin, stdout, stderr]);
    link!(linker, cli, WasiCli, CallState::cli, [terminal_input, terminal_output]);
    link!(linker, cli, WasiCli, CallState::cli, [terminal_stdin, terminal_stdout, terminal_stderr]);
    Ok(())
}

/// Links sockets. The WASI context of a call allows none of them.
fn link_sockets(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    let (data, options) = (CallState::sockets, Default::default());
    link!(linker, sockets, WasiSockets, data, [tcp, udp, tcp_create_socket, udp_create_socket]);
    link!(linker, sockets, WasiSockets, data, [instance_network, ip_name_lookup]);
    bindings::sockets::network::add_to_linker::<_, WasiSockets>(linker, &options, data)
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

    /// Authors in other languages read the list in `wit/`.
    #[test]
    fn the_published_list_of_interfaces_is_the_table() {
        let published =
            include_str!("../../../wit/README.md").split('`').filter(|word| word.starts_with("wasi:"));
        let interfaces = |(package, names, _): &(&str, &[&str], ImportClass)| {
            names.iter().map(|name| format!("{package}/{name}")).collect::<Vec<_>>()
        };
        let served = TABLE.iter().flat_map(interfaces).filter(|name| name.starts_with("wasi:"));
        assert_eq!(published.map(str::to_owned).collect::<BTreeSet<_>>(), served.collect::<BTreeSet<_>>());
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
    fn t10_drafts_of_proposals_are_served_by_their_names() {
        for import in
            ["wasi:config/store@0.2.0-draft", "wasi:config/store@0.2.0-rc.1", "wasi:config/store@0.2.1"]
        {
            assert_eq!(classify(import).unwrap(), ImportClass::Always, "{import}");
        }
        for import in ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"] {
            assert_eq!(classify(import).unwrap(), ImportClass::Always, "{import}");
        }
        for import in ["wasi:config/store", "wasi:config/store@0.1.0", "wasi:io/streams@0.2.0-rc.1"] {
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
