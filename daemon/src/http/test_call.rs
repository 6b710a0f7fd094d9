//! Test calls over HTTP (C3): the requests as sent, the raw responses, and the outcome.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_admission::{ErrorType, Name, NetworkRule};
use toolgate_sandbox::{Excerpt, Exchange};
use utoipa::ToSchema;

use super::body::Json;
use super::calls::origin;
use super::custom::ToolDefinitionForm;
use super::dialects::{self, CallResult};
use super::documents::name;
use super::error_responses::{
    AuditUnavailable, InvalidDocument, NoOrganization, ServerDenied, ServerProtocolError, ServerUnavailable,
};
use super::extract::Authenticated;
use super::plugins::named;
use super::problem::Problem;
use super::state::App;
use crate::custom::Tryout;
use crate::dispatch::TestCallResult;
use crate::documents::ToolKey;
use crate::identity::Caller;

/// The default namespace of a definition that is not saved.
const NAMESPACE: &str = "tryout";

/// A test call.
#[derive(Deserialize, ToSchema)]
#[schema(as = TrialRequest)]
#[serde(deny_unknown_fields)]
pub struct TrialRequest {
    /// The organization whose credentials and tools are used. Default: the organization of the token.
    #[schema(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64)]
    organization: Option<String>,
    /// A tool of the organization, by either of its names; with `definition`, the name of one of its actions.
    #[schema(min_length = 1, max_length = 200, example = "weather/current")]
    tool: String,
    /// A definition, which need not be saved.
    #[serde(default)]
    #[schema(value_type = Option<ToolDefinitionForm>, required = false)]
    definition: Option<Box<RawValue>>,
    /// The namespace of `definition`. Default: `tryout`.
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40)]
    namespace: Option<String>,
    /// The arguments. Default: none.
    #[serde(default)]
    #[schema(value_type = Option<Object>, required = false)]
    arguments: Option<Box<RawValue>>,
    /// The user of the call: credentials of this user are preferred where they exist.
    #[schema(min_length = 1, max_length = 200)]
    user: Option<String>,
}

/// The result of a test call.
#[derive(Serialize, ToSchema)]
#[schema(as = Trial)]
pub struct TrialView<'a> {
    /// The outcome, as in a call of an agent.
    result: CallResult<'a>,
    /// The requests that were sent or refused, in order.
    requests: Vec<ExchangeView>,
}

/// One HTTP exchange.
#[derive(Serialize, ToSchema)]
#[schema(as = TriedRequest)]
struct ExchangeView {
    /// Method and URL as sent, with secrets as `***`.
    request: String,
    /// The request headers, with secrets as `***`.
    headers: Vec<FieldView>,
    /// The request body.
    body: ExcerptView,
    /// The rule of the grant that allowed the request; null if none did.
    #[schema(required, value_type = Option<Object>)]
    rule: Option<NetworkRule>,
    /// The name of the credential in the request.
    #[schema(required)]
    credential: Option<String>,
    /// The status of the response; null without a response.
    #[schema(required)]
    status: Option<u16>,
    /// The response headers.
    answer_headers: Vec<FieldView>,
    /// The response body, decoded, without secrets.
    answer: ExcerptView,
    /// The reason why the request was not sent, or its response is incomplete.
    #[schema(required)]
    failed: Option<String>,
}

/// A header field.
#[derive(Serialize, ToSchema)]
#[schema(as = HeaderField)]
struct FieldView {
    /// The name, in lower case.
    name: String,
    /// The value, with secrets as `***`.
    value: String,
}

/// The beginning of a body.
#[derive(Serialize, ToSchema)]
#[schema(as = ContentExcerpt)]
struct ExcerptView {
    /// At most 256 KiB as UTF-8; invalid bytes are replaced by `�`.
    text: String,
    /// The size of the body in bytes, as far as it was read.
    bytes: u64,
}

/// Try a tool once.
///
/// The policy of the organization decides about a saved tool; the policy of the platform alone decides about an
/// unsaved definition. The call is real: its changes are permanent, it counts against rate limits, and the audit log
/// records it.
#[utoipa::path(
    post, path = "/v1/try", tag = "custom tools", operation_id = "try_tool",
    request_body(content = TrialRequest, example = json!({"tool": "arithmetic/evaluate", "arguments": {"expression": "6 * 7"}})),
    responses((status = 200, description = "What came of it, whatever that was.", body = TrialView<'static>), NoOrganization, InvalidDocument, ServerUnavailable, ServerDenied, ServerProtocolError, AuditUnavailable),
)]
pub async fn post(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Json(request): Json<TrialRequest>,
) -> Result<Response, Problem> {
    let organization = organization(&caller, request.organization.as_deref())?;
    caller.may_own(&organization)?;
    if !app.parts().registry.snapshot().knows(&organization) {
        return Err(Problem::not_found("organization"));
    }
    let namespace = named(request.namespace.as_deref().unwrap_or(NAMESPACE))?;
    let key = ToolKey { organization: organization.clone(), namespace };
    let tool = dialects::bounded(&request.tool);
    let tryout = match &request.definition {
        None => Tryout::Saved(&tool),
        Some(definition) => Tryout::Unsaved { key: &key, definition: definition.get(), action: &tool },
    };
    let arguments: Arc<str> = request.arguments.as_ref().map_or("{}", |arguments| arguments.get()).into();
    let origin = origin(&caller);
    let trying = app.parts().custom.try_out(&organization, request.user.clone(), tryout, arguments, &origin);
    let TestCallResult { outcome, exchanges } = trying.await?;
    let view = TrialView {
        result: CallResult::from(&*outcome),
        requests: exchanges.into_iter().map(Into::into).collect(),
    };
    Ok(axum::Json(view).into_response())
}

fn organization(caller: &Caller, named: Option<&str>) -> Result<Name, Problem> {
    match (named, &caller.organization) {
        (Some(named), _) => name(named),
        (None, Some(own)) => Ok(own.clone()),
        (None, None) => Err(Problem::new(
            ErrorType::InvalidRequest,
            "the token is of no organization, and `organization` names none",
            "name the organization for which the tool is tried",
        )),
    }
}

impl From<Exchange> for ExchangeView {
    fn from(exchange: Exchange) -> Self {
        let fields = |fields: Vec<(String, String)>| {
            fields.into_iter().map(|(name, value)| FieldView { name, value }).collect()
        };
        Self {
            request: exchange.request,
            headers: fields(exchange.headers),
            body: exchange.body.into(),
            rule: exchange.rule,
            credential: exchange.credential,
            status: exchange.status,
            answer_headers: fields(exchange.answer_headers),
            answer: exchange.answer.into(),
            failed: exchange.failed,
        }
    }
}

impl From<Excerpt> for ExcerptView {
    fn from(excerpt: Excerpt) -> Self {
        Self { text: String::from_utf8_lossy(&excerpt.bytes).into_owned(), bytes: excerpt.length }
    }
}
