//! What a mounted server said that it has: what its owner consented to, and what was found since and waits.
//!
//! A server can change its list, a description, or a schema at any time, and a description is what steers a model. So calls go
//! by the list that somebody saw, and a changed one is another version of the tool.

use std::future::Future;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_admission::{CallError, ErrorType};

use crate::documents::ToolKey;
use crate::sessions::Recorded;

/// The stored document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mount {
    /// What is served.
    pub discovered: Box<RawValue>,
    /// What was found since and differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// What waits for consent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// The digest that the tool would have.
    pub digest: String,
    pub discovered: Box<RawValue>,
}

impl Mount {
    /// Nothing waits.
    pub fn consented(discovered: Box<RawValue>) -> Self {
        Self { discovered, waiting: None }
    }

    pub fn parse(text: &str) -> Result<Self, CallError> {
        serde_json::from_str(text).map_err(|error| {
            tracing::error!(%error, "what a mounted server has is stored in a way that cannot be read");
            CallError::new(
                ErrorType::Internal,
                "what the server has cannot be read from the store",
                "remove the tool and make it again",
            )
        })
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Takes down what was found: it waits where it differs, under the digest that `make` says.
    pub async fn note<F: Future<Output = Result<String, CallError>>>(
        &mut self,
        found: Box<RawValue>,
        make: impl FnOnce(Box<RawValue>) -> F,
    ) -> Result<(), CallError> {
        self.waiting = match found.get() == self.discovered.get() {
            true => None,
            false => Some(Waiting { digest: make(found.clone()).await?, discovered: found }),
        };
        Ok(())
    }

    /// The same with what waited in force.
    pub fn with_consent(self, key: &ToolKey, digest: &str) -> Result<Self, CallError> {
        match self.waiting {
            Some(waiting) if waiting.digest == digest => Ok(Self::consented(waiting.discovered)),
            Some(_) => Err(not_that(key)),
            None => Err(CallError::new(
                ErrorType::Conflict,
                format!("nothing of the tool `{}` waits for consent", key.namespace),
                "ask its server again with `POST …/refresh`",
            )),
        }
    }
}

/// Something else waits than what was consented to.
pub(super) fn not_that(key: &ToolKey) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("what waits for consent at the tool `{}` has another digest", key.namespace),
        "look at what waits, and consent to that",
    )
}

/// The output of the call that asked the server, or why there is none.
pub(super) fn found(answer: &Recorded) -> Result<Box<RawValue>, CallError> {
    #[derive(Deserialize)]
    struct Ended {
        output: Option<Box<RawValue>>,
        error: Option<Refused>,
    }
    #[derive(Deserialize)]
    struct Refused {
        error_type: String,
        message: String,
        hint: String,
        #[serde(default)]
        details: Option<serde_json::Value>,
    }
    let ended: Ended = serde_json::from_str(&answer.json).unwrap_or(Ended { output: None, error: None });
    match (ended.output, ended.error) {
        (Some(output), _) => Ok(output),
        (None, Some(refused)) => {
            let error_type = refused.error_type.parse().unwrap_or(ErrorType::ToolFailed);
            let message = format!("what the server has cannot be found out: {}", refused.message);
            let error = CallError::new(error_type, message, refused.hint);
            Err(match refused.details {
                Some(details) => error.with_details(details),
                None => error,
            })
        }
        (None, None) => Err(CallError::new(
            ErrorType::Unavailable,
            "what the server has cannot be found out: the call did not end",
            "try again",
        )),
    }
}
