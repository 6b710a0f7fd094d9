//! The daemon's log on standard error, as text or as JSON lines.
//!
//! Text from plugins and callers is escaped, since logs are read in terminals. Colours follow `NO_COLOR`, as in the output
//! of the commands.
//!
//! Log lines of guests and exceptions caught from them are recorded as JSON text ([`AsJson`]) under their own targets. The
//! text format shows the quoted JSON. JSON lines embed it, which preserves the guest's text and the order of its fields.

use std::fmt::{self, Write};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::{LogFormat, LogLevel};

/// The target of guests' log lines.
pub const GUESTS: &str = "toolgate::plugin";

/// The target of exceptions caught from guests. No guest can log under it.
pub const CAUGHT: &str = "toolgate::dispatch::caught";

/// Starts logging. A second call changes nothing.
pub fn start(format: LogFormat, level: LogLevel) {
    // Libraries log warnings and errors only.
    let filter = EnvFilter::new(format!("warn,toolgate={level:?},toolgate_sandbox={level:?}"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never);
    let started = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().event_format(JsonLines::new()).try_init(),
    };
    // It fails if logging was started before, which only tests do.
    drop(started);
}

/// A value from a guest. `Debug` writes it as one line of JSON, with control and invisible characters escaped.
pub struct AsJson<T>(pub T);

impl<T: Serialize> fmt::Debug for AsJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        for letter in text.chars() {
            if !letter.is_control() && !toolgate_api::text::is_hidden(letter) {
                f.write_char(letter)?;
                continue;
            }
            // It is inside a JSON string: `serde_json` writes no such character between tokens.
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(f, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// JSON lines. Lines of guests embed their JSON fields.
struct JsonLines {
    standard: Format<Json>,
}

impl JsonLines {
    fn new() -> Self {
        Self { standard: tracing_subscriber::fmt::format().json() }
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let target = event.metadata().target();
        if ![GUESTS, CAUGHT].contains(&target) {
            return self.standard.format_event(context, writer, event);
        }
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let level = event.metadata().level();
        let mut fields = FieldWriter(String::new());
        event.record(&mut fields);
        let fields = fields.0;
        // The members and their order are those of `tracing_subscriber`.
        writeln!(
            writer,
            r#"{{"timestamp":"{timestamp}","level":"{level}","fields":{{{fields}}},"target":"{target}"}}"#
        )
    }
}

/// Writes the fields of an event as the members of a JSON object.
struct FieldWriter(String);

impl FieldWriter {
    fn push(&mut self, field: &Field, json: &str) {
        let comma = if self.0.is_empty() { "" } else { "," };
        let _ = write!(self.0, r#"{comma}"{}":{json}"#, field.name());
    }
}

impl Visit for FieldWriter {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, &Value::from(value).to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(json) if matches!(field.name(), "message" | "event" | "fields") => {
                self.push(field, json.get())
            }
            _ => self.record_str(field, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl LogBuffer {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("unbroken").clone()).expect("text")
        }
    }

    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("unbroken").write(bytes)
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
        tracing::info!(session = "s2", "ours");
    }

    #[test]
    fn machines_get_what_guests_log_as_it_was_with_its_pairs_in_order() {
        let buffer = LogBuffer::default();
        let lines = tracing_subscriber::fmt().with_writer(buffer.clone()).json();
        tracing::subscriber::with_default(lines.event_format(JsonLines::new()).finish(), say);
        let text = buffer.text();
        let [guests, caught, standard] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("three: {text}")
        };
        let guests: Value = serde_json::from_str(guests).expect("json");
        assert_eq!(
            guests["fields"],
            json!({
                "message": SAID, "session": "s1", "tool": "a/b", "event": "progress",
                "fields": [["b", "2"], ["a", "1\r"], ["b", "3"]],
            })
        );
        let caught: Value = serde_json::from_str(caught).expect("json");
        assert_eq!(caught["fields"], json!({"message": SAID, "event": "[b_call__Exception]"}));
        assert_eq!(caught["target"], CAUGHT);
        let standard: Value = serde_json::from_str(standard).expect("json");
        assert_eq!(standard["fields"], json!({"message": "ours", "session": "s2"}));
        let members = |line: &Value| line.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(members(&guests), members(&standard));
        assert_eq!((&guests["level"], &guests["target"]), (&json!("INFO"), &json!("toolgate::plugin")));
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
