//! Policy assertions of the platform and of organizations over HTTP (G17).

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use toolgate_api::assertion::AssertionsDocument;
use toolgate_api::document::DocumentAccepted;
use toolgate_state::documents::DocumentKey;

use super::documents::{self, Document, WriteOptions, Written, with_etag};
use super::error_responses::{AssertionBroken, InvalidDocument, NoAssertions, StoreUnreadable, TagErrors};
use super::extract::{Client, Path, Tags};
use super::path_params::{DeleteHeaders, OwnerPath, WriteHeaders};
use super::problem::Problem;

/// Get the assertions of [the platform|an organization].
///
/// Returns the document, with the assertions that do not hold in `broken`.
#[utoipa::path(
    get, path = "/v1/[platform|orgs/{org}]/policy/assertions", tag = "policies", operation_id = "get_[platform|organization]_assertions",
    params(OwnerPath),
    responses(Document<AssertionsDocument>, NoAssertions, StoreUnreadable),
)]
pub(crate) async fn get(
    Client { app, caller }: Client,
    Path(OwnerPath { organization }): Path<OwnerPath>,
) -> Result<Response, Problem> {
    organization.iter().try_for_each(|organization| caller.may_own(organization))?;
    let broken = app.admin().broken_assertions(organization.as_ref()).await?;
    let stored = app.services().store.document(&DocumentKey::Assertions(organization)).await?;
    let mut shown: Value = serde_json::from_str(&stored.body).unwrap_or_default();
    if let Some(members) = shown.as_object_mut() {
        members.remove("broken");
        members.extend((!broken.is_empty()).then(|| ("broken".to_owned(), json!(broken))));
    }
    Ok(with_etag(StatusCode::OK, stored.revision, axum::Json(shown).into_response()))
}

/// Create or replace the assertions of [the platform|an organization].
///
/// An assertion states which agents cannot call a tool (`never`), which calls need a person (`always_approval`), or
/// which agents alone can call a tool (`only`). From now on, each change of a policy, agent, plugin, grant or custom
/// tool that would break one is refused. A document with an assertion that does not hold now is refused too.
/// [The assertions apply to the agents of every organization.|The assertions are about the agents of the organization, which
/// they name without it. Changes by operators of its documents that would break one are refused too; changes of the platform
/// are not, and `broken` shows which assertions they broke.]
#[utoipa::path(
    put, path = "/v1/[platform|orgs/{org}]/policy/assertions", tag = "policies", operation_id = "put_[platform|organization]_assertions",
    params(OwnerPath, WriteHeaders, WriteOptions),
    request_body(content = AssertionsDocument, example = json!({"assertions": [{"name": "payments-ask", "always_approval": {"tools": ["payments/*"]}}]})),
    responses(Written<DocumentAccepted>, InvalidDocument, AssertionBroken, TagErrors),
)]
pub(crate) async fn put(
    client: Client,
    Path(path): Path<OwnerPath>,
    request: Request,
) -> Result<Response, Problem> {
    documents::put(&client, DocumentKey::Assertions(path.organization), request).await
}

/// Delete the assertions of [the platform|an organization].
///
/// Later changes are not checked against them. The assertions of [organizations|the platform] stay.
#[utoipa::path(
    delete, path = "/v1/[platform|orgs/{org}]/policy/assertions", tag = "policies", operation_id = "delete_[platform|organization]_assertions",
    params(OwnerPath, DeleteHeaders),
    responses((status = 204, description = "The assertions are deleted."), NoAssertions, TagErrors),
)]
pub(crate) async fn delete(
    client: Client,
    Path(path): Path<OwnerPath>,
    tags: Tags,
) -> Result<StatusCode, Problem> {
    documents::delete(&client, &DocumentKey::Assertions(path.organization), tags).await
}
