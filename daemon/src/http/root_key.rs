//! The root key over HTTP: an operator provides or rotates it.

use axum::extract::State;
use toolgate_admission::{CallError, ErrorType};
use toolgate_api::root_key::{RootKeyRotated, RootKeyRotation, Unsealed, Unsealing};

use super::body::SecretJson;
use super::error_responses::{AuditUnavailable, NoOtherKey, Sealed, WrongRootKey};
use super::extract::Authenticated;
use super::problem::Problem;
use super::state::App;
use crate::clock::now_ms;
use crate::credentials::RootKey;

/// Give the daemon its root key.
///
/// For a daemon that started without its root key. The key is kept in memory only: the next start needs it again.
#[utoipa::path(
    post, path = "/v1/unseal", tag = "credentials", operation_id = "unseal",
    request_body(content = Unsealing, example = json!({"key": "3f2a…"})),
    responses((status = 200, description = "Secrets can be used.", body = Unsealed), WrongRootKey, NoOtherKey, AuditUnavailable),
)]
pub async fn unseal(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    SecretJson(request): SecretJson<Unsealing>,
) -> Result<axum::Json<Unsealed>, Problem> {
    let unsealing =
        async { app.parts().credentials.unseal(read(&request.key.0, THE_OLD_ONE)?, now_ms()).await };
    app.act(&caller, None, "root_key.unseal", "root_key", unsealing).await?;
    Ok(axum::Json(Unsealed { status: "ok".into() }))
}

/// Rotate the root key.
///
/// Secrets are rewrapped while calls run. Both keys are valid until every secret is rewrapped and the new key is
/// stored where the daemon reads it at a start. A repeated request resumes an unfinished rotation.
#[utoipa::path(
    post, path = "/v1/keys/rotate", tag = "credentials", operation_id = "rotate_root_key",
    request_body(content = RootKeyRotation, example = json!({})),
    responses((status = 200, description = "The new key serves.", body = RootKeyRotated), NoOtherKey, Sealed, AuditUnavailable),
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

/// The hint for a wrong key. It does not suggest a new key: only the key that sealed the store can unseal it.
const THE_OLD_ONE: &str =
    "give the key that the store is sealed with, as it is kept: 64 hexadecimal digits, or base64";
const A_NEW_ONE: &str = "make one with `openssl rand -hex 32`";

fn read(key: &str, hint: &str) -> Result<RootKey, CallError> {
    RootKey::read_text(key.as_bytes())
        .map_err(|error| CallError::new(ErrorType::InvalidRequest, error.to_string(), hint))
}
