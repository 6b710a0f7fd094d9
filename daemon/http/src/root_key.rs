//! The root key over HTTP: an operator provides or rotates it.

use toolgate_api::root_key::{RootKeyRotated, RootKeyRotation, Unsealed, Unsealing};

use super::body::SecretJson;
use super::error_responses::{AuditUnavailable, NoOtherKey, Sealed, WrongRootKey};
use super::extract::Client;
use super::problem::Problem;

/// Give the daemon its root key.
///
/// For a daemon that started without its root key. The key is kept in memory only: the next start needs it again.
#[utoipa::path(
    post, path = "/v1/unseal", tag = "credentials", operation_id = "unseal",
    request_body(content = Unsealing, example = json!({"key": "3f2a…"})),
    responses((status = 200, description = "Secrets can be used.", body = Unsealed), WrongRootKey, NoOtherKey, AuditUnavailable),
)]
pub(crate) async fn unseal(
    Client { app, caller }: Client,
    SecretJson(request): SecretJson<Unsealing>,
) -> Result<axum::Json<Unsealed>, Problem> {
    app.admin().unseal(app.actor(&caller), &request.key.0).await?;
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
pub(crate) async fn rotate(
    Client { app, caller }: Client,
    SecretJson(request): SecretJson<RootKeyRotation>,
) -> Result<axum::Json<RootKeyRotated>, Problem> {
    let key = request.key.as_ref().map(|key| key.0.as_str());
    let done = app.admin().rotate_root_key(app.actor(&caller), key).await?;
    Ok(axum::Json(RootKeyRotated { serving: done.serving, rewrapped: done.rewrapped, going: done.previous }))
}
