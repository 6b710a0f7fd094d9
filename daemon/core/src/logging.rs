//! The daemon's log on standard error, as text or as JSON lines.
//!
//! Text from plugins and callers is escaped, since logs are read in terminals. Colours follow `NO_COLOR`, as in the output
//! of the commands.
//!
//! Log lines of guests and exceptions caught from them are recorded as JSON text ([`AsJson`]) under their own targets. The
//! text format shows the quoted JSON. JSON lines embed it, which preserves the guest's text and the order of its fields.

mod named_events;

use std::fmt::{self, Write};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use serde_json::value::RawValue;
use toolgate_state::config::{LogFormat, LogLevel};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;

pub use named_events::NamedEvents;

/// The target of guests' log lines.
pub const GUESTS: &str = "toolgate::plugin";

/// The target of [`NamedEvents`]. No guest can log under it.
pub const EVENTS: &str = "toolgate::events";

/// The target of exceptions caught from guests. No guest can log under it.
pub const CAUGHT: &str = "toolgate::dispatch::caught";

/// Sets the lowest level that is logged, of a running log.
pub struct LevelControl(Box<dyn Fn(LogLevel) + Send + Sync>);

impl LevelControl {
    fn of<S: 'static>(filter: Handle<EnvFilter, S>) -> Self {
        // A reload fails without a log, which has no level then.
        Self(Box::new(move |level| {
            let _ = filter.reload(filter_of(level));
        }))
    }

    /// Logs this level and those above it from now on.
    pub fn set(&self, level: LogLevel) {
        (self.0)(level);
    }
}

/// Starts logging. A second call changes nothing.
pub fn start(format: LogFormat, level: LogLevel) -> LevelControl {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter_of(level))
        .with_writer(std::io::stderr)
        .with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never);
    // A start fails if logging was started before, which only tests do.
    match format {
        LogFormat::Text => {
            let lines = lines.with_filter_reloading();
            let control = LevelControl::of(lines.reload_handle());
            drop(lines.try_init());
            control
        }
        LogFormat::Json => {
            let lines = lines.event_format(JsonLines).with_filter_reloading();
            let control = LevelControl::of(lines.reload_handle());
            drop(lines.try_init());
            control
        }
    }
}

/// Libraries log warnings and errors only.
fn filter_of(level: LogLevel) -> EnvFilter {
    EnvFilter::new(format!("warn,toolgate={level:?},toolgate_sandbox={level:?}"))
}

/// A value, such as one from a guest. `Debug` writes it as one line of JSON, with control and invisible characters escaped.
pub struct AsJson<T>(pub T);

impl<T: Serialize> fmt::Debug for AsJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        for letter in text.chars() {
            if !letter.is_control() && !toolgate_api::text::is_hidden(letter) {
                f.write_char(letter)?;
                continue;
            }
            // The letter is inside a JSON string: `serde_json` writes no such character between tokens.
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(f, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// JSON lines in S3's shape: event name, level, message, and the other fields as members in their order.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let (level, target) = (metadata.level(), metadata.target());
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let embeds_json = [GUESTS, CAUGHT].contains(&target);
        let mut fields = LineFields {
            embeds_json,
            event: String::new(),
            message: "\"\"".to_owned(),
            members: String::new(),
        };
        event.record(&mut fields);
        let LineFields { event, message, members, .. } = fields;
        writeln!(
            writer,
            r#"{{"timestamp":"{timestamp}","level":"{level}"{event},"message":{message},"fields":{{{members}}},"target":"{target}"}}"#
        )
    }
}

/// The fields of an event, as JSON.
struct LineFields {
    /// Whether event, message and fields are recorded as JSON text.
    embeds_json: bool,
    /// The member `event` with a comma before it; empty where the event has no name.
    event: String,
    message: String,
    members: String,
}

impl LineFields {
    fn push(&mut self, field: &Field, value: impl fmt::Display) {
        let _ = match field.name() {
            "message" => {
                self.message.clear();
                write!(self.message, "{value}")
            }
            "event" => write!(self.event, r#","event":{value}"#),
            name => {
                let comma = if self.members.is_empty() { "" } else { "," };
                write!(self.members, r#"{comma}"{name}":{value}"#)
            }
        };
    }
}

impl Visit for LineFields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, format_args!("{:?}", AsJson(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        let may_be_json = self.embeds_json && matches!(field.name(), "message" | "event" | "fields");
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(json) if may_be_json => self.push(field, json),
            _ => self.record_str(field, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl LogBuffer {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).expect("text")
        }
    }

    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for LogBuffer {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    const SAID: &str = "done\n\u{1b}[31m\u{202e}\"x\" \u{9b}";

    fn say() {
        let pairs = [("b", "2"), ("a", "1\r"), ("b", "3")];
        tracing::info!(
            target: GUESTS,
            session = "s1", tool = %"a/b", event = ?AsJson("progress"), fields = ?AsJson(pairs),
            "{:?}", AsJson(SAID)
        );
        tracing::error!(target: CAUGHT, event = "[b_call__Exception]", "{:?}", AsJson(SAID));
        tracing::info!(session = "s2", conversation = "\u{202e}", fuel = 3_u64, is_new = true, "7");
    }

    #[test]
    fn o5_a_json_line_has_event_level_message_and_fields() {
        let buffer = LogBuffer::default();
        let lines = tracing_subscriber::fmt().with_writer(buffer.clone()).event_format(JsonLines);
        tracing::subscriber::with_default(lines.finish(), say);
        let lines: Vec<Value> =
            buffer.text().lines().map(|line| serde_json::from_str(line).expect("json")).collect();
        let without_time = |line: &Value| {
            let mut line = line.clone();
            assert!(line.as_object_mut().expect("an object").remove("timestamp").is_some());
            line
        };
        let guests_pairs = json!([["b", "2"], ["a", "1\r"], ["b", "3"]]);
        assert_eq!(
            lines.iter().map(without_time).collect::<Vec<_>>(),
            [
                json!({
                    "level": "INFO", "event": "progress", "message": SAID, "target": GUESTS,
                    "fields": {"session": "s1", "tool": "a/b", "fields": guests_pairs},
                }),
                json!({"level": "ERROR", "event": "[b_call__Exception]", "message": SAID, "target": CAUGHT, "fields": {}}),
                json!({
                    "level": "INFO", "message": "7", "target": "toolgate_core::logging::tests",
                    "fields": {"session": "s2", "conversation": "\u{202e}", "fuel": 3, "is_new": true},
                }),
            ]
        );
        assert!(!buffer.text().contains('\u{202e}'));
        assert!(buffer.text().contains(r#""fields":{"session":"s2","conversation""#), "in their order");
    }

    #[test]
    fn what_guests_log_is_one_line_that_steers_no_terminal() {
        let buffer = LogBuffer::default();
        let lines = tracing_subscriber::fmt().with_writer(buffer.clone()).with_ansi(false);
        tracing::subscriber::with_default(lines.finish(), say);
        let text = buffer.text();
        assert_eq!(text.lines().count(), 3, "{text:?}");
        assert!(
            !text.contains(|letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}'))
        );
        assert!(text.contains(r#"event="progress" fields=[["b","2"],["a","1\r"],["b","3"]]"#), "{text}");
        assert!(text.contains(r#""done\n\u001b[31m\u202e\"x\" \u009b""#), "{text}");
    }
}
