//! Conversion of the daemon's errors to failures of a command.

use std::io;

use toolgate_api::error::CallError;
use toolgate_audit::StartError;
use toolgate_cli::{ClientError, Failure};
use toolgate_core::compile::CacheError;
use toolgate_core::identity::FirstTokenError;
use toolgate_sandbox::CaFileError;
use toolgate_state::config::ConfigError;
use toolgate_state::keys::KeyError;
use toolgate_state::store::{FolderError, StoreError, UnavailableReason};

/// Converts an error of the daemon's start-up: the chain of causes in one line, and the hint of the first cause that
/// has one.
pub(super) fn of_start(error: anyhow::Error) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => Failure::new(message_of(&error), hint_of(&error)),
    }
}

/// Tells the log, whose lines a collector reads, in the place of the terminal.
pub(super) fn log(failure: Failure) -> Failure {
    tracing::error!(target: "toolgate::serve", hint = failure.hint(), "{failure}");
    failure.logged()
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
        return Some(error.hint().to_owned());
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
    use toolgate_state::config::Config;

    #[test]
    fn the_hint_of_a_cause_is_found_under_what_was_said_about_it() {
        let refused = Config::parse("lisen = 1", Path::new("t.toml")).map(drop);
        let failure = of_start(refused.context("cannot start").expect_err("refused"));
        assert_eq!(failure.to_string(), "cannot start: t.toml:1:1: unknown key `lisen`");
        assert_eq!(failure.hint(), "did you mean `listen`?");
    }

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let unusable = FolderError::Unusable { path: "/proc/x".into(), source: missing() };
        let told = of_start(anyhow::Error::from(unusable)).to_string();
        assert_eq!(told, format!("cannot use the data folder `/proc/x`: {}", missing()));
        let told = of_start(anyhow::Error::from(missing()).context("cannot start")).to_string();
        assert_eq!(told, format!("cannot start: {}", missing()));
    }

    #[test]
    fn a_full_disk_is_told_to_be_made_room_on() {
        let hint = |kind: io::ErrorKind| {
            let unusable = FolderError::Unusable { path: "/d".into(), source: kind.into() };
            of_start(anyhow::Error::from(unusable)).hint().to_owned()
        };
        assert!(hint(io::ErrorKind::StorageFull).contains("free space"));
        assert!(hint(io::ErrorKind::PermissionDenied).contains("`--data`"));
    }

    #[test]
    fn an_error_without_a_hint_is_still_told() {
        let failure = of_start(anyhow::anyhow!("the sky fell"));
        assert_eq!((failure.to_string().as_str(), failure.hint()), ("the sky fell", ""));
    }
}
