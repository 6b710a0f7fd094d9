//! What documents have in common over HTTP: they are listed, shown and replaced whole, with entity tags.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_admission::{CallError, ErrorType, Name, Warning};
use utoipa::{IntoParams, ToSchema};

use super::body::expect_json;
use super::problem::Problem;
use super::{App, List, Page, body, header};
use crate::clock::now_ms;
use crate::documents::{self, DocumentKey, DocumentKind, Precondition, Revision, RuleKey};
use crate::identity::{Access, Caller};
use crate::registry::Snapshot;
use crate::store::{Deleted, WriteResult};

/// A document in a list.
#[derive(Serialize)]
pub struct DocumentView {
    name: String,
    etag: String,
    document: serde_json::Value,
}

/// How a [`DocumentView`] looks. Documents are kept as they came, so they are not read into `T` to be shown.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct DocumentEntry<T> {
    /// The organization's or the agent's name.
    name: String,
    /// The tag to replace or delete it by, its quotes included.
    #[schema(example = "\"17\"")]
    etag: String,
    /// The document.
    document: T,
}

/// What came of putting a document in force.
#[derive(Serialize, ToSchema)]
pub struct DocumentAccepted {
    /// What the document names and nothing answers to, and the like. It is in force all the same.
    warnings: Vec<DocumentWarning>,
}

/// What is odd about a document that is in force.
#[derive(Serialize, ToSchema)]
pub struct DocumentWarnings {
    /// What the document names and nothing answers to, and the like.
    warnings: Vec<DocumentWarning>,
}

/// Something about a document that its author may not have meant.
#[derive(Serialize, ToSchema)]
pub struct DocumentWarning {
    /// A stable code: `UNRESOLVED_TOOL`, `UNRESOLVED_SERVER`, `UNDEFINED`, `NO_TOOLS`, `LIMIT_WITHOUT_EFFECT`, `NOTHING_RUNS`,
    /// `NO_EFFECT`; `UNRESOLVED_AGENT` of a token.
    code: &'static str,
    /// Where in the document: a JSON pointer.
    path: String,
    /// What about it.
    message: String,
    /// What was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    nearest: Option<String>,
}

impl From<Warning> for DocumentWarning {
    fn from(Warning { code, path, message, nearest, .. }: Warning) -> Self {
        Self { code, path, message, nearest }
    }
}

/// How strictly a document is read.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Strictness {
    /// Refuse with `INVALID_POLICY` what would only be warned of.
    #[serde(default)]
    #[param(required = false, default = false)]
    pub(super) strict: bool,
}

/// A document's body, whole: it is kept as it came, so it is read as text.
pub(super) async fn body_text(app: &App, body: Body) -> Result<String, Problem> {
    let settings = &app.settings().http;
    let timeout = std::time::Duration::from_millis(settings.body_timeout_ms);
    let bytes = body::read(body, settings.body_bytes, timeout).await?;
    String::from_utf8(bytes.into()).map_err(|_| {
        Problem::new(ErrorType::InvalidRequest, "the document is not UTF-8", "send JSON in UTF-8")
    })
}

/// Reads a document that decides about calls, stores it and puts it in force.
pub(super) async fn put_in_force(
    app: &App,
    caller: &Caller,
    key: RuleKey,
    strict: bool,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (organization, action, target) = named(&key);
    match organization {
        Some(organization) => caller.may_own(organization)?,
        None => caller.may(Access::Operate)?,
    }
    expect_json(headers)?;
    let text = body_text(app, body).await?;
    let precondition = precondition(headers)?;
    let writing = async {
        let _in_order = app.0.documents.lock().await;
        let before = app.0.registry.snapshot();
        let sound = key.read(&text, &before)?;
        let after = before.with_document(sound.replacement.clone());
        let mut warnings = sound.warnings;
        warnings.extend(left_with_nothing(key.clone(), Some(before), after).await);
        refuse_warnings(&warnings, strict)?;
        let stored = app.0.store.put_document(&key.clone().into(), &text, &precondition, now_ms()).await?;
        app.0.registry.put(sound.replacement);
        Ok((stored, warnings))
    };
    let (written, warnings) = app.act(caller, organization, action, &target, writing).await?;
    Ok(accepted(written, warnings))
}

/// Whom a policy leaves with nothing, found out beside the calls that go on.
async fn left_with_nothing(key: RuleKey, before: Option<Arc<Snapshot>>, after: Snapshot) -> Option<Warning> {
    if matches!(key, RuleKey::Agent(..)) {
        return None;
    }
    let looking = move || documents::left_with_nothing(&key, before.as_deref(), &after);
    // It ends early where the runtime does, and then nobody is left to warn.
    tokio::task::spawn_blocking(looking).await.ok().flatten()
}

/// The answer to a write.
pub(super) fn accepted(written: WriteResult, warnings: Vec<Warning>) -> Response {
    let accepted = DocumentAccepted { warnings: warnings.into_iter().map(Into::into).collect() };
    tagged(status(written.created), written.revision, axum::Json(accepted).into_response())
}

/// Whose a document is, and how the audit log names writing it.
fn named(key: &RuleKey) -> (Option<&Name>, &'static str, String) {
    match key {
        RuleKey::Platform => (None, "policy.put", "platform".to_owned()),
        RuleKey::Policy(organization) => (Some(organization), "policy.put", organization.to_string()),
        RuleKey::Agent(organization, agent) => {
            (Some(organization), "agent.put", format!("{organization}/{agent}"))
        }
    }
}

/// Where the caller is strict, what would be warned of is refused.
pub(super) fn refuse_warnings(warnings: &[Warning], strict: bool) -> Result<(), CallError> {
    let Some(first) = warnings.first().filter(|_| strict) else { return Ok(()) };
    let hint = match &first.nearest {
        Some(nearest) => format!("did you mean `{nearest}`? Or send it without `strict=true`"),
        None => "correct the document, or send it without `strict=true`".to_owned(),
    };
    let details = serde_json::json!({"pointer": first.path, "code": first.code});
    Err(CallError::new(ErrorType::InvalidPolicy, first.message.clone(), hint).with_details(details))
}

/// What is odd now about a document that is in force.
pub(super) async fn stored_warnings(
    app: &App,
    key: RuleKey,
) -> Result<axum::Json<DocumentWarnings>, Problem> {
    let document = app.0.store.document(&key.clone().into()).await.map_err(CallError::from)?;
    let snapshot = app.0.registry.snapshot();
    let mut warnings = key.warnings(&document.body, &snapshot);
    warnings.extend(left_with_nothing(key, None, Snapshot::clone(&snapshot)).await);
    Ok(axum::Json(DocumentWarnings { warnings: warnings.into_iter().map(Into::into).collect() }))
}

/// What cannot be without a deleted document ends in memory too.
pub(super) async fn end_with(app: &App, removed: Deleted) {
    app.0.identity.drop_revoked(&removed.tokens).await;
    for session in &removed.sessions {
        app.dispatcher().end_session(&app.0.sessions, session).await;
    }
}

pub(super) async fn documents(
    app: &App,
    kind: DocumentKind,
    scope: &str,
    page: &Page,
) -> Result<axum::Json<List<DocumentView>>, Problem> {
    let limit = page.limit();
    let found = app.0.store.documents(kind, scope, page.cursor.as_deref(), limit + 1).await;
    let mut found = found.map_err(CallError::from)?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let items: Vec<DocumentView> = found
        .into_iter()
        .map(|document| DocumentView {
            name: document.key.name().to_owned(),
            etag: document.revision.etag(),
            document: serde_json::from_str(&document.body).unwrap_or_default(),
        })
        .collect();
    let next_cursor = items.last().filter(|_| more).map(|item| item.name.clone());
    Ok(axum::Json(List { items, next_cursor }))
}

pub(super) async fn stored(app: &App, key: &DocumentKey) -> Result<Response, Problem> {
    let document = app.0.store.document(key).await.map_err(CallError::from)?;
    let body = ([(axum::http::header::CONTENT_TYPE, "application/json")], document.body).into_response();
    Ok(tagged(StatusCode::OK, document.revision, body))
}

pub(super) fn precondition(headers: &HeaderMap) -> Result<Precondition, Problem> {
    Ok(Precondition::from_headers(header(headers, &IF_MATCH)?, header(headers, &IF_NONE_MATCH)?)?)
}

pub(super) fn tagged(status: StatusCode, revision: Revision, mut response: Response) -> Response {
    *response.status_mut() = status;
    if let Ok(tag) = HeaderValue::from_str(&revision.etag()) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

pub(super) fn status(created: bool) -> StatusCode {
    if created { StatusCode::CREATED } else { StatusCode::OK }
}

pub(super) fn name(text: &str) -> Result<Name, Problem> {
    Name::parse(text).map_err(|error| Problem::new(ErrorType::InvalidRequest, error.message, error.hint))
}
