//! The daemon's own log: lines on standard error, for people or for machines.
//!
//! What plugins and callers say reaches it only escaped, since whoever reads a log reads it in a terminal. It has
//! colours where what the commands print has them: `NO_COLOR` holds for both.
//!
//! What guests log, and what is said of exceptions that were caught from them, is recorded as JSON text ([`AsJson`]) under
//! targets of their own. People read it as it stands there,
//! quoted; in JSON lines it is part of the JSON, so that machines get the texts as the guest wrote them and its pairs in
//! their order.

use std::fmt::{self, Write};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::value::RawValue;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::{LogFormat, LogLevel};

/// The target of what guests log.
pub const GUESTS: &str = "toolgate::plugin";

/// The target of exceptions that were caught from guests. No guest can write a line that looks like one.
pub const CAUGHT: &str = "toolgate::dispatch::caught";

/// Starts logging. Where it was started before, the first settings stay.
pub fn start(format: LogFormat, level: LogLevel) {
    // Libraries speak from warnings up; their debug lines are not the operator's.
    let filter = EnvFilter::new(format!("warn,toolgate={0},toolgate_sandbox={0}", level.as_str()));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never);
    let started = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().event_format(JsonLines::new()).try_init(),
    };
    // Two daemons in one process happen in tests only.
    drop(started);
}

/// Something that a guest said: `Debug` writes it as JSON on one line, with everything escaped that a terminal would obey
/// or not show.
pub struct AsJson<T>(pub T);

impl<T: Serialize> fmt::Debug for AsJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        for letter in text.chars() {
            if !letter.is_control() && !toolgate_admission::is_hidden(letter) {
                f.write_char(letter)?;
                continue;
            }
            // It stands in a string: between tokens, `serde_json` writes nothing of the kind.
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(f, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// JSON lines, of which those about guests have what was said as it was.
struct JsonLines {
    ours: Format<Json>,
}

impl JsonLines {
    fn new() -> Self {
        Self { ours: tracing_subscriber::fmt::format().json() }
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
            return self.ours.format_event(context, writer, event);
        }
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let level = event.metadata().level().as_str();
        let line = GuestLine { timestamp, level, fields: Fields(event), target };
        writeln!(writer, "{}", serde_json::to_string(&line).map_err(|_| fmt::Error)?)
    }
}

/// The members that all lines have.
#[derive(Serialize)]
struct GuestLine<'a> {
    timestamp: String,
    level: &'static str,
    fields: Fields<'a>,
    target: &'a str,
}

struct Fields<'a>(&'a Event<'a>);

impl Serialize for Fields<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = Members { map: serializer.serialize_map(None)?, error: None };
        self.0.record(&mut members);
        match members.error {
            Some(error) => Err(error),
            None => members.map.end(),
        }
    }
}

struct Members<M: SerializeMap> {
    map: M,
    error: Option<M::Error>,
}

impl<M: SerializeMap> Members<M> {
    fn add(&mut self, field: &Field, value: &(impl Serialize + ?Sized)) {
        if self.error.is_none() {
            self.error = self.map.serialize_entry(field.name(), value).err();
        }
    }
}

impl<M: SerializeMap> Visit for Members<M> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(json) if matches!(field.name(), "message" | "event" | "fields") => self.add(field, json),
            _ => self.add(field, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("unbroken").clone()).expect("text")
        }
    }

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("unbroken").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
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
        let written = Written::default();
        let lines = tracing_subscriber::fmt().with_writer(written.clone()).json();
        tracing::subscriber::with_default(lines.event_format(JsonLines::new()).finish(), say);
        let text = written.text();
        let [guests, caught, ours] = text.lines().collect::<Vec<_>>()[..] else { panic!("three: {text}") };
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
        let ours: Value = serde_json::from_str(ours).expect("json");
        assert_eq!(ours["fields"], json!({"message": "ours", "session": "s2"}));
        let members = |line: &Value| line.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(members(&guests), members(&ours));
        assert_eq!((&guests["level"], &guests["target"]), (&json!("INFO"), &json!("toolgate::plugin")));
    }

    #[test]
    fn what_guests_log_is_one_line_that_steers_no_terminal() {
        let written = Written::default();
        let lines = tracing_subscriber::fmt().with_writer(written.clone()).with_ansi(false);
        tracing::subscriber::with_default(lines.finish(), say);
        let text = written.text();
        assert_eq!(text.lines().count(), 3, "{text:?}");
        assert!(
            !text.contains(|letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}'))
        );
        assert!(text.contains(r#"event="progress" fields=[["b","2"],["a","1\r"],["b","3"]]"#), "{text}");
        assert!(text.contains(r#""done\n\u001b[31m\u202e\"x\" \u009b""#), "{text}");
    }
}
