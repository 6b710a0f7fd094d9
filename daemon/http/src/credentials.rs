//! Handlers of credentials. A secret is accepted in requests and never returned in responses.
//!
//! A write replaces a credential whole, its secret included. If the bindings could be changed without the secret, a
//! caller with write access who does not know the secret could redirect it to a server of their own.

use toolgate_core::admin::CredentialKey;
use toolgate_core::credentials::{Credential, new_credential, rotated_secret};
use toolgate_state::clock::now_ms;
use toolgate_state::documents::Revision;

use super::body::SecretJson;
use super::documents::{Document, Written, name, status, with_etag};
use super::error_responses::{
    AuditUnavailable, KeptInVault, NoCredential, NoOrganization, PreconditionFailed, Sealed,
    TooManyCredentials,
};
use super::extract::{Client, Path, Query, Tags};
use super::paging::Page;
use super::path_params::{CredentialPath, OptionalTags, OrgPath};
use super::problem::Problem;
use super::state::App;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use toolgate_api::credential::{CredentialRequest, CredentialRotation, CredentialView};
use toolgate_api::page::List;

/// List the credentials of an organization.
///
/// The list is sorted by name and includes the credentials of the organization's users. Secrets are never returned.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/credentials", tag = "credentials", operation_id = "list_credentials", params(OrgPath, Page),
    responses((status = 200, description = "A page of the credentials.", body = List<CredentialView>), NoOrganization),
)]
pub async fn list(
    Client { app, caller }: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<CredentialView>>, Problem> {
    app.admin().expect_own(&caller, &organization)?;
    let limit = page.limit() as usize + 1;
    let credentials = app.services().credentials.list(&organization, page.cursor.as_deref(), limit);
    let items = credentials.iter().map(|credential| to_view(&app, credential)).collect();
    Ok(axum::Json(List::new(items, page.limit(), |credential| credential.name.clone())))
}

/// Get a credential.
///
/// The response has the provider, the bindings and the state. The secret is never returned.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/credentials/{name}", tag = "credentials", operation_id = "get_credential", params(CredentialPath),
    responses(Document<CredentialView>, NoCredential),
)]
pub async fn get(
    Client { app, caller }: Client,
    Path(path): Path<CredentialPath>,
) -> Result<Response, Problem> {
    let key = CredentialKey::from(path);
    Ok(view_response(&app, StatusCode::OK, &*app.admin().credential(&caller, &key)?))
}

/// Create or replace a credential.
///
/// The request has either `secret`, or `vault` with the secret's path in the operator's vault, or `file` with a mounted file. The credential is
/// replaced whole, its secret included: the bindings cannot be changed without sending the secret. It takes effect at
/// once: an integration that it connects is available in open sessions too. A credential of the kind
/// `oauth2_authorization_code` is pending until a person connects it.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/credentials/{name}", tag = "credentials", operation_id = "put_credential", params(CredentialPath, OptionalTags),
    request_body(content = CredentialRequest, example = json!({"provider": "stripe", "kind": "bearer", "secret": "sk_live_…", "bound_to": [{"host": "api.stripe.com", "path": "/v1/"}]})),
    responses(Written<CredentialView>, NoOrganization, PreconditionFailed, Sealed, TooManyCredentials, AuditUnavailable),
)]
pub async fn put(
    Client { app, caller }: Client,
    Path(path): Path<CredentialPath>,
    Tags(tags): Tags,
    SecretJson(request): SecretJson<CredentialRequest>,
) -> Result<Response, Problem> {
    let key = CredentialKey::from(path);
    let new = new_credential(request, app.settings().credentials.plain_http.as_deref().unwrap_or_default())?;
    let (stored, written) = app.admin().put_credential(app.actor(&caller), &key, new, &tags).await?;
    Ok(view_response(&app, status(written.created), &stored))
}

/// Delete a credential.
///
/// The deletion takes effect at once. OAuth2 tokens and keys that the provider issued stay valid there: revoke them
/// at the provider too.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/credentials/{name}", tag = "credentials", operation_id = "delete_credential", params(CredentialPath, OptionalTags),
    responses((status = 204, description = "The credential is gone."), NoCredential, PreconditionFailed, AuditUnavailable),
)]
pub async fn delete(
    Client { app, caller }: Client,
    Path(path): Path<CredentialPath>,
    Tags(tags): Tags,
) -> Result<StatusCode, Problem> {
    let key = CredentialKey::from(path);
    app.admin().delete_credential(app.actor(&caller), &key, &tags).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Rotate the secret of a credential.
///
/// Outgoing requests use the new secret from now on. The provider and the bindings stay the same. A credential whose
/// secret is in a vault or a file is refused: rotate the secret there.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/credentials/{name}/rotate", tag = "credentials", operation_id = "rotate_credential",
    params(CredentialPath, OptionalTags),
    request_body(content = CredentialRotation, example = json!({"secret": "sk_live_…"})),
    responses(Document<CredentialView>, NoCredential, PreconditionFailed, KeptInVault, Sealed, AuditUnavailable),
)]
pub async fn rotate(
    Client { app, caller }: Client,
    Path(path): Path<CredentialPath>,
    Tags(tags): Tags,
    SecretJson(request): SecretJson<CredentialRotation>,
) -> Result<Response, Problem> {
    let key = CredentialKey::from(path);
    let secret = rotated_secret(request)?;
    let stored = app.admin().rotate_credential(app.actor(&caller), &key, secret, &tags).await?;
    Ok(view_response(&app, StatusCode::OK, &stored))
}

pub fn key(organization: &str, credential: &str) -> Result<CredentialKey, Problem> {
    Ok(CredentialKey { organization: name(organization)?, name: name(credential)? })
}

/// Returns the credential without its secret.
pub fn to_view(app: &App, credential: &Credential) -> CredentialView {
    let (row, document) = (&credential.row, &credential.document);
    CredentialView {
        name: row.name.to_string(),
        provider: document.provider.clone(),
        kind: document.authentication.kind(),
        state: app.services().credentials.state(credential, now_ms()).into(),
        bound_to: document.bound_to.clone(),
        user: document.user.clone(),
        shared: document.shared,
        scopes: document.authentication.client().map(|client| client.scopes.clone()),
        vault: document.vault.clone(),
        file: document.file.clone(),
        version: row.version,
        created_ms: row.created_ms,
        changed_ms: row.changed_ms,
        last_used_ms: credential.last_used_ms(),
        // The value is 0 until the client requests its first token.
        expires_ms: row.expires_ms.filter(|time| *time > 0),
    }
}

fn view_response(app: &App, status: StatusCode, credential: &Credential) -> Response {
    let body = axum::Json(to_view(app, credential)).into_response();
    with_etag(status, Revision(credential.row.revision), body)
}
