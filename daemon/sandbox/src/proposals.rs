//! Interfaces of WASI proposals that components made for other hosts import: `wasi:config/store` and `wasi:logging/logging`.
//!
//! Their versions are still drafts, whose names differ and whose functions are the same.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use crate::outcome::LogLevel;
use crate::state::CallState;

const STORE: &str = "wasi:config/store";
const LOGGING: &str = "wasi:logging/logging";

/// Versions before the first stable one. Some components name no version.
const DRAFTS: &[(&str, &[&str])] =
    &[(STORE, &["0.2.0-draft", "0.2.0-draft-2024-09-27", "0.2.0-rc.1"]), (LOGGING, &["", "0.1.0-draft"])];

/// The stable version of both: a linker serves every `0.2.x` by it.
const STABLE: &str = "0.2.0";

/// Why a setting cannot be read. Ours always can, so this is only a type.
#[derive(ComponentType, Lower)]
#[component(variant)]
#[allow(dead_code, reason = "no setting is beyond reach")]
enum ConfigError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "guests make its values")]
enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace | Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error | Level::Critical => Self::Error,
        }
    }
}

/// Whether this is a draft of an interface that is served.
pub(crate) fn is_served_draft(interface: &str, version: &str) -> bool {
    DRAFTS.iter().any(|(draft, versions)| *draft == interface && versions.contains(&version))
}

pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    for (interface, drafts) in DRAFTS {
        for version in drafts.iter().chain([&STABLE]) {
            let separator = if version.is_empty() { "" } else { "@" };
            let name = format!("{interface}{separator}{version}");
            match *interface {
                STORE => add_store(linker, &name)?,
                _ => add_logging(linker, &name)?,
            }
        }
    }
    Ok(())
}

fn add_store(linker: &mut Linker<CallState>, name: &str) -> wasmtime::Result<()> {
    let mut interface = linker.instance(name)?;
    interface.func_wrap("get", |call: StoreContextMut<'_, CallState>, (key,): (String,)| {
        let state = call.data();
        let found = state.settings().get(&key).cloned();
        found.iter().for_each(|value| state.charge_text(value));
        Ok((Ok::<_, ConfigError>(found),))
    })?;
    interface.func_wrap("get-all", |call: StoreContextMut<'_, CallState>, (): ()| {
        let state = call.data();
        let all: Vec<(String, String)> = state.settings().clone().into_iter().collect();
        all.iter()
            .for_each(|(name, value)| [name, value].into_iter().for_each(|text| state.charge_text(text)));
        Ok((Ok::<_, ConfigError>(all),))
    })
}

fn add_logging(linker: &mut Linker<CallState>, name: &str) -> wasmtime::Result<()> {
    linker.instance(name)?.func_wrap(
        "log",
        |mut call: StoreContextMut<'_, CallState>, (level, context, message): (Level, String, String)| {
            let event = if context.is_empty() { "log".to_owned() } else { context };
            call.data_mut().log.write(level.into(), event, message, Vec::new());
            Ok(())
        },
    )
}
