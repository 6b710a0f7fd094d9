//! The root key over HTTP: an operator brings it, or rotates it.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolgate_admission::{CallError, ErrorType};
use toolgate_sandbox::Secret;
use utoipa::ToSchema;

use super::body::SecretJson;
use super::credentials::SecretText;
use super::problem::Problem;
use super::refusal::{NoOtherKey, Sealed, Unrecordable, WrongRootKey};
use super::{App, Authenticated};
use crate::clock::now_ms;
use crate::credentials::RootKey;

/// A root key to unseal with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Unsealing {
    /// The root key: 64 hexadecimal digits, or base64.
    #[schema(value_type = String, write_only, pattern = "^([0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=)$")]
    key: SecretText,
}

/// What to rotate to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RootKeyRotation {
    /// The new root key: 64 hexadecimal digits, or base64. Left out: what the key's source holds now, or a new one where
    /// the daemon makes its own.
    #[schema(value_type = Option<String>, write_only, required = false, pattern = "^([0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=)$")]
    key: Option<SecretText>,
}

/// That secrets can be used.
#[derive(Serialize, ToSchema)]
pub struct Unsealed {
    /// `ok`.
    #[schema(pattern = "^ok$")]
    status: &'static str,
}

/// What became of a rotation.
#[derive(Serialize, ToSchema)]
pub struct RootKeyRotated {
    /// The id of the root key that serves now; it tells nothing of the key.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    serving: String,
    /// How many secrets were wrapped anew.
    rewrapped: usize,
    /// The id of the root key before, which opens everything until the new one is where starts look for it; null where it
    /// opens nothing any more.
    #[schema(required, pattern = "^[0-9a-f]{16}$")]
    going: Option<String>,
}

/// Give the daemon its root key.
///
/// For a daemon that started without. It keeps the key in memory alone: the next start needs it again.
#[utoipa::path(
    post, path = "/v1/unseal", tag = "credentials", operation_id = "unseal",
    request_body(content = Unsealing, example = json!({"key": "3f2a…"})),
    responses((status = 200, description = "Secrets can be used.", body = Unsealed), WrongRootKey, NoOtherKey, Unrecordable),
)]
pub async fn unseal(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SecretJson(request): SecretJson<Unsealing>,
) -> Result<axum::Json<Unsealed>, Problem> {
    let unsealing =
        async { app.parts().credentials.unseal(read(&request.key.0, THE_OLD_ONE)?, now_ms()).await };
    app.act(&caller, None, "root_key.unseal", "root_key", unsealing).await?;
    Ok(axum::Json(Unsealed { status: "ok" }))
}

/// Rotate the root key.
///
/// Secrets are wrapped anew while calls go on, and both keys are good until that is done and the new one is where starts
/// look for it. Asked again, it goes on with what was left.
#[utoipa::path(
    post, path = "/v1/keys/rotate", tag = "credentials", operation_id = "rotate_root_key",
    request_body(content = RootKeyRotation, example = json!({})),
    responses((status = 200, description = "The new key serves.", body = RootKeyRotated), NoOtherKey, Sealed, Unrecordable),
)]
pub async fn rotate(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SecretJson(request): SecretJson<RootKeyRotation>,
) -> Result<axum::Json<RootKeyRotated>, Problem> {
    let rotating = async {
        let given = request.key.as_ref().map(|key| read(&key.0, A_NEW_ONE)).transpose()?;
        app.parts().credentials.rotate_root(given, now_ms()).await
    };
    let done = app.act(&caller, None, "root_key.rotate", "root_key", rotating).await?;
    Ok(axum::Json(RootKeyRotated { serving: done.serving, rewrapped: done.rewrapped, going: done.previous }))
}

/// Another key than the one that everything is sealed with opens nothing, so nobody is told to make one.
const THE_OLD_ONE: &str =
    "give the key that the store is sealed with, as it is kept: 64 hexadecimal digits, or base64";
const A_NEW_ONE: &str = "make one with `openssl rand -hex 32`";

fn read(key: &Secret, hint: &str) -> Result<RootKey, CallError> {
    RootKey::read_text(key.expose())
        .map_err(|error| CallError::new(ErrorType::InvalidRequest, error.to_string(), hint))
}
