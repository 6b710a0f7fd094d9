//! Programs in the language of `jq`, run by `jaq`.
//!
//! A program may loop for ever, which the host's fuel ends.

mod functions;
mod program;

use jaq_core::Exn;
use jaq_json::Val;

pub use functions::{MAX_NESTING, Program, nesting};
pub use program::compile;

/// Messages of `jaq` quote whole documents.
const MAX_MESSAGE_CHARACTERS: usize = 300;

/// The early end of a program.
pub enum Stop {
    /// Failed, with a message that is cut where it is long.
    Failed(String),
    /// Called `halt`, with its exit code.
    Halted(i32),
}

impl From<Exn<'_, Val>> for Stop {
    #[cold]
    fn from(exception: Exn<'_, Val>) -> Self {
        let message = match exception.get_err().map(jaq_core::Error::into_val) {
            Ok(Val::TStr(text)) => String::from_utf8_lossy(&text).into_owned(),
            Ok(other) => other.to_string(),
            Err(exception) => match exception.get_halt() {
                Ok(code) => return Self::Halted(code),
                Err(_) => "the filter stopped".to_owned(),
            },
        };
        Self::Failed(message.chars().take(MAX_MESSAGE_CHARACTERS).collect())
    }
}
