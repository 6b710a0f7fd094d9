//! Sign-in of people whose program has no browser (RFC 8628): the daemon asks its OpenID provider, and creates a token.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use toolgate_api::error::ErrorType;
use toolgate_api::token::{SignInPending, SignInTokenRequest, SignInView, TokenView};
use toolgate_core::admin::Actor;
use toolgate_core::identity::{DeviceSignIn, PersonSignIn};
use toolgate_state::clock::now_ms;
use utoipa::ToSchema;

use super::body::Json;
use super::error_responses::{
    AuditUnavailable, NoProvider, NoRole, ProviderUnavailable, SignInEnded, SignInRefused,
};
use super::problem::Problem;
use super::state::{AUDIT_SOURCE, App};
use super::tokens;

/// The request to begin a sign-in. It has no fields yet.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInRequest {}

/// Begin a sign-in without a browser.
///
/// For programs of people, such as `toolgate login --oidc`; it needs no token. The person opens the page on any device, and types the
/// code there. Type only codes that you asked for yourself: whoever has the device code becomes you.
#[utoipa::path(
    post, path = "/v1/sign-in", tag = "tokens", operation_id = "begin_sign_in",
    request_body(content = SignInRequest, example = json!({})),
    responses((status = 200, description = "The page for the person, and the codes of the sign-in.", body = SignInView), NoProvider, ProviderUnavailable),
)]
pub(crate) async fn begin(
    State(app): State<App>,
    Json(SignInRequest {}): Json<SignInRequest>,
) -> Result<axum::Json<SignInView>, Problem> {
    let sign_in = expect_sign_in(&app)?;
    let begun = sign_in.begin_on_device(sign_in.permit().await).await?;
    Ok(axum::Json(SignInView {
        provider: sign_in.provider(),
        verification_uri: begun.verification_uri,
        verification_uri_complete: begun.verification_uri_complete,
        user_code: begun.user_code,
        device_code: begun.device_code,
        expires_in: begun.lifetime.as_secs(),
        interval: begun.interval.as_secs(),
    }))
}

/// Get the token of a sign-in.
///
/// To be repeated at the interval of the sign-in until the person has decided. The token has the rights that
/// `[[console.oidc.roles]]` gives the person, and ends after `session_seconds` of `[console.oidc]`.
#[utoipa::path(
    post, path = "/v1/sign-in/token", tag = "tokens", operation_id = "finish_sign_in",
    request_body(content = SignInTokenRequest, example = json!({"device_code": "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS"})),
    responses(
        (status = 201, description = "The token, shown this once.", body = TokenView),
        (status = 202, description = "The person has not decided.", body = SignInPending),
        NoProvider, SignInRefused, NoRole, SignInEnded, ProviderUnavailable, AuditUnavailable,
    ),
)]
pub(crate) async fn finish(
    State(app): State<App>,
    Json(SignInTokenRequest { device_code }): Json<SignInTokenRequest>,
) -> Result<Response, Problem> {
    let sign_in = expect_sign_in(&app)?.clone();
    let permit = sign_in.permit().await;
    let finishing = app.clone();
    // The provider issues tokens once, so their audit record and the daemon's token complete even if the client disconnects.
    let finished = app.run_to_completion(async move {
        let now_ms = now_ms();
        let end_ms =
            now_ms.saturating_add(finishing.settings().console.person_seconds().saturating_mul(1_000));
        let person = match sign_in.finish_on_device(permit, &device_code, end_ms, now_ms).await? {
            DeviceSignIn::Pending { slow_down } => {
                let pending = axum::Json(SignInPending { slow_down });
                return Ok((StatusCode::ACCEPTED, pending).into_response());
            }
            DeviceSignIn::Person(person) => person,
        };
        finishing.admin().name_person(&person).await?;
        let actor = Actor { caller: &person.caller, source: AUDIT_SOURCE };
        let made = finishing.admin().create_token_of_person(actor).await?;
        let token = Some(made.secret.text());
        let view = TokenView { token, ..tokens::view(made.summary) };
        Ok((StatusCode::CREATED, axum::Json(view)).into_response())
    });
    finished.await?
}

fn expect_sign_in(app: &App) -> Result<&PersonSignIn, Problem> {
    app.person_sign_in().ok_or_else(|| {
        Problem::new(
            ErrorType::NotFound,
            "this daemon has no provider to sign in with",
            "log in with a token, or let the operator set `[console.oidc]`",
        )
    })
}
