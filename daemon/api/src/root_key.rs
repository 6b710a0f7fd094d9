//! The root key.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
