//! The root key.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::credential::SecretText;

/// A request to unseal the daemon.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Unsealing {
    /// The root key: 64 hexadecimal digits, or base64.
    #[schema(value_type = String, write_only, pattern = "^([0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=)$")]
    pub key: SecretText,
}

/// A request to rotate the root key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RootKeyRotation {
    /// The new root key: 64 hexadecimal digits, or base64. Default: the key that the configured source holds now, or
    /// a new key where the daemon generates its own.
    #[schema(value_type = Option<String>, write_only, required = false, pattern = "^([0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=)$")]
    pub key: Option<SecretText>,
}

/// The response after unsealing: secrets can be used.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Unsealed {
    /// Always `ok`.
    #[schema(pattern = "^ok$")]
    pub status: Cow<'static, str>,
}

/// The result of a rotation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RootKeyRotated {
    /// The id of the current root key; it reveals nothing about the key.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub serving: String,
    /// The number of secrets that were rewrapped.
    pub rewrapped: usize,
    /// The id of the previous root key, which can still open every secret until the new key is stored where the
    /// daemon reads it at a start; null once it is no longer needed.
    #[schema(required, pattern = "^[0-9a-f]{16}$")]
    pub going: Option<String>,
}
