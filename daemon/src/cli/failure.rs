//! Failure of a command: a message, a hint and an exit status.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use toolgate_admission::CallError;
use toolgate_sandbox::CaFileError;

use super::print::visible;
use crate::audit::StartError;
use crate::client::ClientError;
use crate::compile::CacheError;
use crate::config::ConfigError;
use crate::identity::FirstTokenError;
use crate::keys::KeyError;
use crate::store::{FolderError, StoreError, UnavailableReason};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

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
}

impl Failure {
    /// Creates a refusal or failure: exit status 1.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into(), hint: hint.into() }
    }

    /// Creates a usage error: exit status 2.
    pub fn wrong_usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: Kind::WrongUsage, ..Self::new(message, hint) }
    }

    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Writes the message and the hint, and returns the exit status.
    pub fn report(&self, out: &mut dyn Write) -> ExitCode {
        if self.kind != Kind::OutputClosed {
            // If standard error is closed too, the exit status still reports the failure.
            let _ = self.write(out);
        }
        ExitCode::from(self.status())
    }

    fn status(&self) -> u8 {
        match self.kind {
            Kind::OutputClosed => 0,
            Kind::Failed => 1,
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
    let place = problem.details.as_ref()?.get("pointer")?.as_str()?;
    let is_news = !place.is_empty() && !problem.message.contains(&format!("`{place}`"));
    is_news.then_some(place)
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(error.to_string(), error.hint())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { kind: Kind::OutputClosed, ..Self::new("", "") },
            _ => Self::new(format!("the terminal or the system fails: {error}"), ""),
        }
    }
}

/// Converts an error of the daemon's start-up: the chain of causes in one line, and the hint of the first cause that
/// has one.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(failure) => failure,
            Err(error) => Self::new(message_of(&error), hint_of(&error)),
        }
    }
}

/// Joins the chain of causes. A cause whose text the message already contains is skipped.
fn message_of(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        said if said.contains(&cause) => told,
        said => format!("{said}: {cause}"),
    })
}

/// Returns the hint. A full disk has the same fix for every file.
fn hint_of(error: &anyhow::Error) -> String {
    if error.chain().any(is_full_disk) {
        return UnavailableReason::DiskFull.hint().to_owned();
    }
    error.chain().find_map(hint_of_cause).unwrap_or_default()
}

fn is_full_disk(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

fn hint_of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<Failure>() {
        return Some(error.hint.clone());
    }
    if let Some(error) = cause.downcast_ref::<ConfigError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<FolderError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<KeyError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<CacheError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<CaFileError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<FirstTokenError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<StartError>() {
        return Some(error.hint().to_owned());
    }
    if let Some(error) = cause.downcast_ref::<ClientError>() {
        return Some(error.hint().to_owned());
    }
    cause.downcast_ref::<CallError>().map(|error| error.hint.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context;

    use super::*;
    use crate::config::Config;

    fn written(failure: &Failure) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        failure.report(&mut out);
        String::from_utf8(out.into_inner()).expect("text")
    }

    #[test]
    fn a_failure_is_a_message_and_a_hint() {
        let failure = Failure::new("no plugin `x`", "load it");
        assert_eq!(written(&failure), "error: no plugin `x`\n hint: load it\n");
        assert_eq!(failure.status(), 1);
        assert_eq!(Failure::wrong_usage("", "").status(), 2);
    }

    #[test]
    fn text_of_a_server_cannot_steer_the_terminal() {
        let failure = Failure::new("a\u{1b}[2Jb", "c\u{202e}d");
        assert_eq!(written(&failure), "error: a\\u{1b}[2Jb\n hint: c\\u{202e}d\n");
    }

    #[test]
    fn the_place_in_a_document_is_said_once() {
        for message in ["there is no profile `x`", "there is no profile `x` (`/profile`)"] {
            let problem = crate::client::Problem {
                status: 422,
                error_type: "INVALID_POLICY".into(),
                message: message.into(),
                hint: String::new(),
                details: Some(serde_json::json!({"pointer": "/profile"})),
            };
            let failure = Failure::from(ClientError::Refused(Box::new(problem)));
            assert_eq!(failure.message, "there is no profile `x` (`/profile`)");
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.status(), written(&failure).as_str()), (0, ""));
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).status(), 1);
    }

    #[test]
    fn the_hint_of_a_cause_is_found_under_what_was_said_about_it() {
        let refused = Config::parse("lisen = 1", Path::new("t.toml")).map(drop);
        let failure = Failure::from(refused.context("cannot start").expect_err("refused"));
        assert_eq!(failure.message, "cannot start: t.toml:1:1: unknown key `lisen`");
        assert_eq!(failure.hint, "did you mean `listen`?");
    }

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let unusable = FolderError::Unusable { path: "/proc/x".into(), source: missing() };
        let told = Failure::from(anyhow::Error::from(unusable)).message;
        assert_eq!(told, format!("cannot use the data folder `/proc/x`: {}", missing()));
        let told = Failure::from(anyhow::Error::from(missing()).context("cannot start")).message;
        assert_eq!(told, format!("cannot start: {}", missing()));
    }

    #[test]
    fn a_full_disk_is_told_to_be_made_room_on() {
        let hint = |kind: io::ErrorKind| {
            let unusable = FolderError::Unusable { path: "/d".into(), source: kind.into() };
            Failure::from(anyhow::Error::from(unusable)).hint
        };
        assert!(hint(io::ErrorKind::StorageFull).contains("free space"));
        assert!(hint(io::ErrorKind::PermissionDenied).contains("`--data`"));
    }

    #[test]
    fn an_error_without_a_hint_is_still_told() {
        let failure = Failure::from(anyhow::anyhow!("the sky fell"));
        assert_eq!(written(&failure), "error: the sky fell\n");
    }
}
