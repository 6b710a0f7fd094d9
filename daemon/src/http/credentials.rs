//! Credentials over HTTP: secrets go in, and what comes out is what they are for.
//!
//! A write replaces a credential whole, its secret included. A new place to send it to without the secret itself would
//! let whoever may write, and does not know it, have it sent to themselves.

mod form;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use toolgate_admission::{CallError, Name};

use super::address::{CredentialAddress, OptionalTags, OrganizationAddress};
use super::body::SecretJson;
use super::documents::{name, precondition, status, tagged};
use super::extract::{Path, Query};
use super::problem::Problem;
use super::refusal::{
    Changed, KeptInVault, NoCredential, NoOrganization, Sealed, TooManyCredentials, Unrecordable,
};
use super::{App, Authenticated, List, Page};
use crate::clock::now_ms;
use crate::credentials::Credential;
use crate::documents::{DocumentKey, Revision};
use crate::identity::Caller;
use crate::store::StoreError;
pub use form::SecretText;
use form::{CredentialRequest, CredentialView, Rotation, view};

/// List the credentials of an organization.
///
/// By name, those of its users among them. Never a secret.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/credentials", tag = "credentials", operation_id = "list_credentials",
    params(OrganizationAddress, Page),
    responses((status = 200, description = "A page of the credentials.", body = List<CredentialView>), NoOrganization),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<CredentialView>>, Problem> {
    let organization = own(&app, &caller, &organization)?;
    let limit = page.limit() as usize;
    let mut found = app.parts().credentials.list(&organization, page.cursor.as_deref(), limit + 1);
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|credential| credential.row.name.to_string());
    let items = found.iter().map(|credential| shown(&app, credential)).collect();
    Ok(axum::Json(List { items, next_cursor }))
}

/// Get a credential.
///
/// What it is for, where it may go and how it stands. Never the secret.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/credentials/{name}", tag = "credentials", operation_id = "get_credential",
    params(CredentialAddress),
    responses(
        (status = 200, description = "The credential.", body = CredentialView, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoCredential,
    ),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, credential)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (organization, credential) = address(&app, &caller, &organization, &credential)?;
    Ok(answered(&app, StatusCode::OK, &*app.parts().credentials.find(&organization, &credential)?))
}

/// Make or replace a credential.
///
/// Its secret is sent as `secret`, or stays in the operator's vault at the place that `vault` names, one of the two. It is
/// replaced whole, its secret included: what it is bound to cannot be changed without having the secret. It
/// holds at once: an integration that it connects is there for open sessions too. One of kind
/// `oauth2_authorization_code` waits until a person connects it.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/credentials/{name}", tag = "credentials", operation_id = "put_credential",
    params(CredentialAddress, OptionalTags),
    request_body(content = CredentialRequest, example = json!({"provider": "stripe", "kind": "bearer", "secret": "sk_live_…", "bound_to": [{"host": "api.stripe.com", "path": "/v1/"}]})),
    responses(
        (status = 200, description = "It is replaced.", body = CredentialView, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "It is made.", body = CredentialView, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoOrganization, Changed, Sealed, TooManyCredentials, Unrecordable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, credential)): Path<(String, String)>,
    headers: HeaderMap,
    SecretJson(request): SecretJson<CredentialRequest>,
) -> Result<Response, Problem> {
    let (organization, credential) = address(&app, &caller, &organization, &credential)?;
    let precondition = precondition(&headers)?;
    let new = request.read(&app.settings().credentials.plain_http.clone().unwrap_or_default())?;
    let target = target(&organization, &credential);
    let writing = app.parts().credentials.put(&organization, &credential, new, &precondition, now_ms());
    let (stored, written) = app.act(&caller, Some(&organization), "credential.put", &target, writing).await?;
    Ok(answered(&app, status(written.created), &stored))
}

/// Delete a credential.
///
/// It holds at once. What its provider handed out stays good there: revoke it there too.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/credentials/{name}", tag = "credentials", operation_id = "delete_credential",
    params(CredentialAddress, OptionalTags),
    responses((status = 204, description = "It is gone."), NoCredential, Changed, Unrecordable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, credential)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let (organization, credential) = address(&app, &caller, &organization, &credential)?;
    let precondition = precondition(&headers)?;
    let target = target(&organization, &credential);
    let deleting = app.parts().credentials.remove(&organization, &credential, &precondition, now_ms());
    app.act(&caller, Some(&organization), "credential.delete", &target, deleting).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Put a new secret into a credential.
///
/// Requests that leave from now on have the new one. What it is for and where it may go stays as it is. Not for one
/// whose secret is in a vault: it is changed there.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/credentials/{name}/rotate", tag = "credentials", operation_id = "rotate_credential",
    params(CredentialAddress, OptionalTags),
    request_body(content = Rotation, example = json!({"secret": "sk_live_…"})),
    responses(
        (status = 200, description = "It is rotated.", body = CredentialView, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoCredential, Changed, KeptInVault, Sealed, Unrecordable,
    ),
)]
pub async fn rotate(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, credential)): Path<(String, String)>,
    headers: HeaderMap,
    SecretJson(request): SecretJson<Rotation>,
) -> Result<Response, Problem> {
    let (organization, credential) = address(&app, &caller, &organization, &credential)?;
    let precondition = precondition(&headers)?;
    let (secret, expires_ms) = request.read()?;
    let target = target(&organization, &credential);
    let rotating = app.parts().credentials.rotate(
        &organization,
        &credential,
        secret,
        expires_ms,
        &precondition,
        now_ms(),
    );
    let stored = app.act(&caller, Some(&organization), "credential.rotate", &target, rotating).await?;
    Ok(answered(&app, StatusCode::OK, &stored))
}

/// The organization, if it is there and the caller's.
fn own(app: &App, caller: &Caller, organization: &str) -> Result<Name, Problem> {
    let organization = name(organization)?;
    caller.may_own(&organization)?;
    match app.parts().registry.snapshot().knows(&organization) {
        true => Ok(organization),
        false => {
            let key = DocumentKey::Organization(organization);
            Err(CallError::from(StoreError::no_document(&key)).into())
        }
    }
}

pub(super) fn address(
    app: &App,
    caller: &Caller,
    organization: &str,
    credential: &str,
) -> Result<(Name, Name), Problem> {
    Ok((own(app, caller, organization)?, name(credential)?))
}

/// As the audit log names it.
pub(super) fn target(organization: &Name, credential: &Name) -> String {
    format!("{organization}/{credential}")
}

fn shown(app: &App, credential: &Credential) -> CredentialView {
    view(credential, app.parts().credentials.state(credential, now_ms()))
}

fn answered(app: &App, status: StatusCode, credential: &Credential) -> Response {
    let body = axum::Json(shown(app, credential)).into_response();
    tagged(status, Revision(credential.row.revision), body)
}
