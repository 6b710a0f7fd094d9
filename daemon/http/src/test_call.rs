//! Test calls over HTTP (C3): the requests as sent, the raw responses, and the outcome.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_api::test_call::{ExcerptView, ExchangeView, FieldView, TestCallRequest, TestCallView};
use toolgate_core::custom::Tryout;
use toolgate_core::dispatch::TestCallResult;
use toolgate_core::identity::Caller;
use toolgate_sandbox::{Excerpt, Exchange};
use toolgate_state::documents::ToolKey;

use super::body::Json;
use super::dialects;
use super::dialects::call_result;
use super::documents::name;
use super::error_responses::{
    AuditUnavailable, InvalidDocument, NoOrganization, PlatformNamespace, ServerDenied, ServerProtocolError,
    ServerUnavailable,
};
use super::extract::Client;
use super::plugins::parse_namespace;
use super::problem::Problem;
use super::sessions::label;

/// The default namespace of a definition that is not saved.
const NAMESPACE: &str = "tryout";

/// Try a tool once.
///
/// The policy of the organization decides about a saved tool; the policy of the platform alone decides about an
/// unsaved definition. The call is real: its changes are permanent, it counts against rate limits, and the audit log
/// records it.
#[utoipa::path(
    post, path = "/v1/try", tag = "custom tools", operation_id = "try_tool",
    request_body(content = TestCallRequest, example = json!({"tool": "arithmetic/evaluate", "arguments": {"expression": "6 * 7"}})),
    responses((status = 200, description = "The outcome of the call, also of one that failed.", body = TestCallView<'static>), NoOrganization, PlatformNamespace, InvalidDocument, ServerUnavailable, ServerDenied, ServerProtocolError, AuditUnavailable),
)]
pub(crate) async fn post(
    Client { app, caller }: Client,
    Json(request): Json<TestCallRequest>,
) -> Result<Response, Problem> {
    let organization = organization(&caller, request.organization.as_deref())?;
    app.admin().expect_own(&caller, &organization)?;
    let namespace = parse_namespace(request.namespace.as_deref().unwrap_or(NAMESPACE))?;
    let key = ToolKey { organization: organization.clone(), namespace };
    let user = label("user", request.user.clone())?;
    let tool = dialects::truncate_name(&request.tool);
    let tryout = match &request.definition {
        None => Tryout::Saved(&tool),
        Some(definition) => Tryout::Unsaved { key: &key, definition: definition.get(), action: &tool },
    };
    let arguments: Arc<str> = request.arguments.as_ref().map_or("{}", |arguments| arguments.get()).into();
    let origin = app.actor(&caller).origin();
    let trying = app.admin().custom().try_out(&organization, user, tryout, arguments, &origin);
    let TestCallResult { outcome, exchanges } = trying.await?;
    let view = TestCallView {
        result: call_result(&outcome, false),
        requests: exchanges.into_iter().map(exchange_view).collect(),
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

fn exchange_view(exchange: Exchange) -> ExchangeView {
    let fields = |fields: Vec<(String, String)>| {
        fields.into_iter().map(|(name, value)| FieldView { name, value }).collect()
    };
    ExchangeView {
        request: exchange.request,
        headers: fields(exchange.headers),
        body: excerpt_view(&exchange.body),
        rule: exchange.rule,
        credential: exchange.credential,
        status: exchange.status,
        answer_headers: fields(exchange.answer_headers),
        answer: excerpt_view(&exchange.answer),
        failed: exchange.failed,
    }
}

fn excerpt_view(excerpt: &Excerpt) -> ExcerptView {
    ExcerptView { text: String::from_utf8_lossy(&excerpt.bytes).into_owned(), bytes: excerpt.length }
}
