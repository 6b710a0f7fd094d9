//! The host side of the plugin contract: bindings generated from `wit/`, and the host functions.
//!
//! The functions here only read facts of the call or append to bounded buffers; those that act are in `contract/services.rs`.

mod services;

use wasmtime::component::{HasSelf, Linker};

use crate::outcome::LogLevel;
use crate::state::CallState;

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "toolgate:plugin/plugin-with-grants",
    imports: {
        "toolgate:plugin/calls.call": async | trappable,
        "toolgate:plugin/calls.call-all": async | trappable,
        "toolgate:plugin/messages.send": async,
        "toolgate:plugin/messages.read": async,
    },
    exports: { default: async },
});

pub(crate) use PluginWithGrants as Plugin;
pub(crate) use PluginWithGrantsPre as PluginPre;
pub(crate) use exports::toolgate::plugin::tools::Outcome;
pub(crate) use toolgate::plugin::types::Failure;

pub(crate) fn link(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    Plugin::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)
}

impl toolgate::plugin::types::Host for CallState {}

impl toolgate::plugin::context::Host for CallState {
    fn call_id(&mut self) -> String {
        self.context.call_id.to_string()
    }

    fn deadline_ms(&mut self) -> u64 {
        let left = self.context.deadline.saturating_duration_since(tokio::time::Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    fn get(&mut self, key: String) -> Option<String> {
        let identity = &*self.context.identity;
        let text = match key.as_str() {
            "session" => Some(&*identity.session),
            "conversation" => identity.conversation.as_deref(),
            "organization" => Some(&*identity.organization),
            "agent" => Some(&*identity.agent),
            "user" => identity.user.as_deref(),
            "channel" => identity.channel.as_deref(),
            _ => None,
        };
        text.map(str::to_owned)
    }
}

impl toolgate::plugin::config::Host for CallState {
    fn definition(&mut self) -> Option<String> {
        self.definition.as_deref().map(str::to_owned)
    }

    fn settings(&mut self) -> String {
        self.context.settings.as_deref().unwrap_or("{}").to_owned()
    }
}

impl toolgate::plugin::log::Host for CallState {
    fn write(
        &mut self,
        at: toolgate::plugin::log::Level,
        event: String,
        message: String,
        fields: Vec<(String, String)>,
    ) {
        use toolgate::plugin::log::Level;
        let level = match at {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.log.write(level, event, message, fields);
    }
}

impl toolgate::plugin::progress::Host for CallState {
    /// Counted against the log limit, which bounds the events. A report that exceeds the limit is dropped.
    fn report(&mut self, done: u64, total: Option<u64>, message: Option<String>) {
        let mut fields = vec![("done".to_owned(), done.to_string())];
        fields.extend(total.map(|total| ("total".to_owned(), total.to_string())));
        let line = message.clone().unwrap_or_default();
        if self.log.write(LogLevel::Info, "progress".into(), line, fields) {
            self.context.progress.report(done, total, message.as_deref());
        }
    }
}
