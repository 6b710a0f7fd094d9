//! Shared handlers of documents: they are listed, shown and replaced as a whole, with entity tags.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use toolgate_api::document::{DocumentAccepted, DocumentEntry, DocumentWarnings};
use toolgate_api::error::ErrorType;
use toolgate_api::grant::Grant;
use toolgate_api::name::Name;
use toolgate_api::page::List;
use toolgate_core::admin::{DocumentWrite, DocumentWritten};
use toolgate_core::identity::Caller;
use toolgate_core::registry::RuleKey;
use toolgate_state::documents::{DocumentKey, DocumentKind, Revision, warning_view};
use toolgate_state::store::WriteResult;
use utoipa::openapi::{self, ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::body;
use super::body::expect_json;
use super::error_responses::text_header;
use super::extract::{Client, Query, Tags};
use super::paging::Page;
use super::problem::Problem;
use super::state::App;

/// Most bytes of documents on a page. One can have megabytes.
const PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// How a document is validated, and whether it is stored.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WriteOptions {
    /// Rejects the document with `INVALID_POLICY` where it would only cause warnings.
    #[serde(default)]
    #[param(required = false, default = false)]
    pub(super) strict: bool,
    /// Checks the document as a write does, and changes nothing: status 200 without `ETag` means that a write would be accepted.
    #[serde(default)]
    #[param(required = false, default = false)]
    pub(super) dry_run: bool,
}

/// Whether a write is only checked.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DryRun {
    /// Checks the request as a write does, and changes nothing: status 200 without `ETag` means that a write would be accepted.
    #[serde(default)]
    #[param(required = false, default = false)]
    pub(super) dry_run: bool,
}

/// Reads the body of a document as text, since documents are stored as they were sent.
pub(super) async fn body_text(client: &Client, headers: &HeaderMap, body: Body) -> Result<String, Problem> {
    expect_json(headers)?;
    let Client { app, caller } = client;
    let bytes = body::read(app, caller.organization.as_ref(), body, app.settings().http.body_bytes).await?;
    String::from_utf8(bytes.into_bytes().into()).map_err(|_| {
        Problem::new(ErrorType::InvalidRequest, "the document is not UTF-8", "send JSON in UTF-8")
    })
}

/// Stores the body of a request as a document, under the tags in its headers and the options in its query.
pub(super) async fn put(client: &Client, key: DocumentKey, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let Query(WriteOptions { strict, dry_run }) = Query::from_request_parts(&mut parts, &client.app).await?;
    let text = body_text(client, &parts.headers, body).await?;
    let Tags(precondition) = Tags::from_request_parts(&mut parts, &client.app).await?;
    let write = DocumentWrite { key, text, precondition, strict, dry_run };
    let DocumentWritten { written, warnings } =
        client.app.admin().put_document(client.actor(), write).await?;
    let accepted = DocumentAccepted { warnings: warnings.into_iter().map(warning_view).collect() };
    Ok(written_response(written, axum::Json(accepted)))
}

/// Deletes a document.
pub(super) async fn delete(
    client: &Client,
    key: &DocumentKey,
    Tags(tags): Tags,
) -> Result<StatusCode, Problem> {
    client.app.admin().delete_document(client.actor(), key, &tags).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the current warnings of a document in force.
pub async fn stored_warnings(app: &App, key: RuleKey) -> Result<axum::Json<DocumentWarnings>, Problem> {
    let warnings = app.admin().document_warnings(key).await?;
    Ok(axum::Json(DocumentWarnings { warnings: warnings.into_iter().map(warning_view).collect() }))
}

pub(super) async fn documents(
    app: &App,
    kind: DocumentKind,
    scope: &str,
    page: &Page,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    let (store, after) = (&app.services().store, page.cursor.as_deref());
    let found = store.documents_within(kind, scope, after, page.limit(), PAGE_BYTES).await;
    let (documents, has_more) = found?;
    let next_cursor = documents.last().filter(|_| has_more).map(|document| document.key.name().to_owned());
    let items = documents
        .into_iter()
        .map(|document| DocumentEntry {
            name: document.key.name().to_owned(),
            etag: document.revision.etag(),
            document: serde_json::from_str(&document.body).unwrap_or_default(),
        })
        .collect();
    Ok(axum::Json(List { items, next_cursor }))
}

pub(super) async fn document_response(app: &App, key: &DocumentKey) -> Result<Response, Problem> {
    let document = app.services().store.document(key).await?;
    let body = ([(axum::http::header::CONTENT_TYPE, "application/json")], document.body).into_response();
    Ok(with_etag(StatusCode::OK, document.revision, body))
}

/// Returns a grant as it is stored; without one, the grant that holds by default, which has no entity tag.
pub(super) async fn grant_response(
    app: &App,
    key: &DocumentKey,
    served: impl FnOnce() -> Option<Arc<Grant>>,
) -> Result<Response, Problem> {
    match document_response(app, key).await {
        Err(Problem(error)) if error.error_type == ErrorType::NotFound => {
            let grant = served().ok_or(Problem(error))?;
            Ok(axum::Json(&*grant).into_response())
        }
        other => other,
    }
}

pub(super) fn with_etag(status: StatusCode, revision: Revision, mut response: Response) -> Response {
    *response.status_mut() = status;
    if let Ok(tag) = HeaderValue::from_str(&revision.etag()) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The response to a write with its status and entity tag; a dry run has status 200 and no tag.
pub(super) fn written_response(written: Option<WriteResult>, body: impl IntoResponse) -> Response {
    match written {
        Some(WriteResult { revision, created }) => with_etag(status(created), revision, body.into_response()),
        None => body.into_response(),
    }
}

pub(super) fn status(created: bool) -> StatusCode {
    if created { StatusCode::CREATED } else { StatusCode::OK }
}

pub fn name(text: &str) -> Result<Name, Problem> {
    Name::parse(text).map_err(|error| Problem::new(ErrorType::InvalidRequest, error.message, error.hint))
}

/// Returns the organization if it exists and is the caller's.
pub fn own_organization(app: &App, caller: &Caller, organization: &str) -> Result<Name, Problem> {
    let organization = name(organization)?;
    app.admin().expect_own(caller, &organization)?;
    Ok(organization)
}

/// Response with a stored document of type `T` and its entity tag.
pub(super) struct Document<T>(PhantomData<T>);

/// Responses to a write that is answered with `T` and the new entity tag.
pub(super) struct Written<T>(PhantomData<T>);

/// Responses to a write that is answered with the new entity tag alone.
pub(super) struct WrittenWithoutBody;

impl<T: ToSchema> IntoResponses for Document<T> {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        BTreeMap::from([("200".to_owned(), tagged_response("The document.", Some(&T::name())))])
    }
}

impl<T: ToSchema> IntoResponses for Written<T> {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        written_responses(Some(&T::name()))
    }
}

impl IntoResponses for WrittenWithoutBody {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        written_responses(None)
    }
}

fn written_responses(schema: Option<&str>) -> BTreeMap<String, RefOr<openapi::Response>> {
    BTreeMap::from([
        ("200".to_owned(), tagged_response("The document is replaced, or was checked only.", schema)),
        ("201".to_owned(), tagged_response("The document is created.", schema)),
    ])
}

/// A response with an entity tag. `Outline` has the schemas that no operation names otherwise.
fn tagged_response(description: &str, schema: Option<&str>) -> RefOr<openapi::Response> {
    let tag = text_header("The tag to replace or delete it by.");
    let response = ResponseBuilder::new().description(description).header("ETag", tag);
    match schema.map(|name| ContentBuilder::new().schema(Some(Ref::from_schema_name(name))).build()) {
        Some(content) => response.content("application/json", content).into(),
        None => response.into(),
    }
}
