//! Failure of a command: a message, a hint and an exit status.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use toolgate_api::error::{CallError, Details};

use super::client::ClientError;
use super::print::visible;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// Result of a command, or of a step of it.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Failure of a command.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    hint: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Failed,
    WrongUsage,
    /// The reader closed standard output, as `head` does; nothing is reported.
    OutputClosed,
    /// It is in the log.
    Logged,
}

impl Failure {
    /// The same failure, which the log tells instead of the terminal.
    pub fn logged(self) -> Self {
        Self { kind: Kind::Logged, ..self }
    }

    /// Creates a refusal or failure: exit status 1.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into(), hint: hint.into() }
    }

    /// Creates a usage error: exit status 2.
    pub fn wrong_usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: Kind::WrongUsage, ..Self::new(message, hint) }
    }

    /// The hint; empty if there is none.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Writes the message and the hint, and returns the exit status.
    pub fn report(&self, out: &mut dyn Write) -> ExitCode {
        if !matches!(self.kind, Kind::OutputClosed | Kind::Logged) {
            // If standard error is closed too, the exit status still reports the failure.
            let _ = self.write(out);
        }
        ExitCode::from(self.status())
    }

    fn status(&self) -> u8 {
        match self.kind {
            Kind::OutputClosed => 0,
            Kind::Failed | Kind::Logged => 1,
            Kind::WrongUsage => 2,
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{ERROR}error:{ERROR:#} {}", visible(&self.message))?;
        if !self.hint.is_empty() {
            writeln!(out, "{HINT} hint:{HINT:#} {}", visible(&self.hint))?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::new(error.message, error.hint)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = match place_of(&error) {
            Some(place) => format!("{error} (`{place}`)"),
            None => error.to_string(),
        };
        Self::new(message, error.hint())
    }
}

/// Returns the JSON pointer of the error, unless the message contains it.
fn place_of(error: &ClientError) -> Option<&str> {
    let ClientError::Refused(problem) = error else { return None };
    let place = problem.details.as_ref().and_then(Details::pointer)?;
    let is_news = !place.is_empty() && !problem.detail.contains(&format!("`{place}`"));
    is_news.then_some(place)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { kind: Kind::OutputClosed, ..Self::new("", "") },
            _ => Self::new(format!("the terminal or the system fails: {error}"), ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_api::error::ErrorType;
    use toolgate_api::problem::Problem;

    use super::*;

    fn report_text(failure: &Failure) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        failure.report(&mut out);
        String::from_utf8(out.into_inner()).expect("text")
    }

    #[test]
    fn a_failure_is_a_message_and_a_hint() {
        let failure = Failure::new("no plugin `x`", "load it");
        assert_eq!(report_text(&failure), "error: no plugin `x`\n hint: load it\n");
        assert_eq!(failure.status(), 1);
        assert_eq!(Failure::wrong_usage("", "").status(), 2);
    }

    #[test]
    fn text_of_a_server_cannot_steer_the_terminal() {
        let failure = Failure::new("a\u{1b}[2Jb", "c\u{202e}d");
        assert_eq!(report_text(&failure), "error: a\\u{1b}[2Jb\n hint: c\\u{202e}d\n");
    }

    #[test]
    fn the_place_in_a_document_is_said_once() {
        for message in ["there is no profile `x`", "there is no profile `x` (`/profile`)"] {
            let details = serde_json::json!({"pointer": "/profile", "code": "UNDEFINED"});
            let error = CallError::new(ErrorType::InvalidPolicy, message, "").with_details(details);
            let failure = Failure::from(ClientError::Refused(Box::new(Problem::new(error, 422))));
            assert_eq!(failure.message, "there is no profile `x` (`/profile`)");
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.status(), report_text(&failure).as_str()), (0, ""));
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).status(), 1);
    }
}
