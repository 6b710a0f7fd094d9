//! Sign-in of a person whose program has no browser (RFC 8628): the person opens the provider's page anywhere, and types a code.
//!
//! The daemon keeps nothing meanwhile. The program holds the device code, which is good for this daemon's client alone.

use std::time::Duration;

use toolgate_api::error::{CallError, ErrorType};
use toolgate_macros::boxed;

use super::{PersonSignIn, SignInPermit, SignedInPerson, exchange_failure, provider_unavailable};
use crate::credentials::{DeviceAuthorization, DeviceTokens, authorize_device, exchange_device_code};

/// Longest device code, in bytes. Some providers send sealed ones of a kilobyte.
const DEVICE_CODE_BYTES: usize = 4 * 1024;
/// Least time between two questions, whatever the provider asks for.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// What a question for the end of a sign-in brings.
pub enum DeviceSignIn {
    /// The person has not decided.
    Pending {
        /// Whether the program asks 5 seconds less often from now on.
        slow_down: bool,
    },
    Person(Box<SignedInPerson>),
}

#[boxed]
impl PersonSignIn {
    /// Begins a sign-in on another device.
    ///
    /// # Errors
    ///
    /// `API_UNAVAILABLE` if the provider does not offer it to this client, or does not answer.
    pub async fn begin_on_device(&self, _permit: SignInPermit) -> Result<DeviceAuthorization, CallError> {
        let metadata = self.metadata().await?;
        let endpoint = metadata.device_authorization_endpoint.as_deref().ok_or_else(no_device_grant)?;
        let (client, secret) = (self.client(&metadata.server)?, self.secret().await?);
        let begun = authorize_device(&self.0.connection.http, &client, secret.as_ref(), endpoint).await;
        let mut begun = begun.map_err(|failure| {
            tracing::warn!(?failure, "the console's provider gives no device code");
            no_device_grant()
        })?;
        begun.interval = begun.interval.max(LEAST_INTERVAL);
        Ok(begun)
    }

    /// Asks whether the person has signed in. Returns the person as a caller until `expires_ms`.
    ///
    /// # Errors
    ///
    /// `INVALID_REQUEST` for what is no device code, `UNAUTHENTICATED` if the person or the provider refuses, `EXPIRED`, `FORBIDDEN` for
    /// a person without a role, `API_UNAVAILABLE`.
    pub async fn finish_on_device(
        &self,
        _permit: SignInPermit,
        device_code: &str,
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<DeviceSignIn, CallError> {
        if device_code.is_empty() || device_code.len() > DEVICE_CODE_BYTES {
            let hint = "send the one of `POST /v1/sign-in`";
            return Err(CallError::new(ErrorType::InvalidRequest, "that is no device code", hint));
        }
        let metadata = self.metadata().await?;
        let (client, secret) = (self.client(&metadata.server)?, self.secret().await?);
        let asked = exchange_device_code(&self.0.connection.http, &client, secret.as_ref(), device_code);
        let tokens = match asked.await.map_err(|failure| exchange_failure(&failure))? {
            DeviceTokens::Pending { slow_down } => return Ok(DeviceSignIn::Pending { slow_down }),
            DeviceTokens::Denied => return Err(no_person(ErrorType::Unauthenticated, "the person refused")),
            DeviceTokens::Expired => {
                return Err(no_person(ErrorType::Expired, "nobody typed the code in time"));
            }
            DeviceTokens::Issued(tokens) => tokens,
        };
        let person = self.person(&metadata, &tokens, None, expires_ms, now_ms).await?;
        Ok(DeviceSignIn::Person(Box::new(person)))
    }
}

fn no_person(error_type: ErrorType, why: &str) -> CallError {
    CallError::new(
        error_type,
        format!("the sign-in ended: {why}"),
        "begin again with `toolgate login --oidc`",
    )
}

fn no_device_grant() -> CallError {
    let error = provider_unavailable("it gives this client no code for a sign-in on another device");
    let hint = "let the operator allow the device authorization grant (RFC 8628) for the client of `[console.oidc]` at the provider, \
                or log in with a token; the daemon's log says more";
    CallError::new(error.error_type, error.message, hint)
}
