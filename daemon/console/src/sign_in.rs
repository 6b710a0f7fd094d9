//! Sign-in with a token, and sign-out. `provider` is the sign-in by OpenID Connect.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_core::admin::Actor;
use toolgate_core::identity::{Access, PersonSignIn, PresentedCredentials};
use toolgate_http::connections::Peer;
use toolgate_http::extract::Query;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use super::elements::{percent_encode, short};
use super::form::{self, SeeOther, own_path};
use super::origin::expect_same_origin;
use super::page::Page;
use super::session::SignedIn;
use super::text::sentence;
use super::text::visible_text;
use super::viewer::Viewer;
use super::{AUDIT_SOURCE, Console};

/// Query parameters of the sign-in page. Others are ignored.
#[derive(Deserialize)]
pub(super) struct SignInQuery {
    pub next: Option<String>,
    /// Present after a person signed out whom the provider may still know.
    out: Option<String>,
}

/// The form that asks for a token.
pub(super) async fn page(State(app): State<App>, Query(query): Query<SignInQuery>) -> Page {
    let page = form_page(&app, query.next.as_deref().unwrap_or_default(), None);
    match app.person_sign_in().filter(|_| query.out.is_some()) {
        Some(sign_in) => page.with_notice(&signed_out(sign_in)),
        None => page,
    }
}

fn signed_out(sign_in: &PersonSignIn) -> Markup {
    html! {
        div .notice role="status" {
            p {
                "You are signed out here. " (short(&sign_in.provider())) " may still know you"
                @if let Some(url) = sign_in.sign_out_url() { ": " a href=(url) rel="noreferrer" { "sign out there" } ", too" }
                "."
            }
        }
    }
}

/// Begins a session for a token that is valid. A browser never sends the token again.
pub(super) async fn sign_in(
    State(app): State<App>,
    console: Console,
    request: Request,
) -> Result<Response, Problem> {
    expect_same_origin(request.headers(), request.uri())?;
    let (parts, fields) = form::read(&app, None, request, form::OPEN_FORM_BYTES).await?;
    let next = fields.text("next");
    let bearer = format!("Bearer {}", fields.text("token").trim());
    let peer = parts.extensions.get::<Peer>();
    let address = peer.map(|peer| peer.address);
    let admitted = app.services().identity.authenticate(Some(&bearer)).and_then(|caller| {
        caller.may_come_from(address)?;
        Ok(caller)
    });
    if admitted.is_err() {
        let presented = PresentedCredentials {
            authorization: Some(&bearer),
            certificate: None,
            address,
            access: Access::Operate,
        };
        if let Some(refused) = app.services().identity.refusal(&presented) {
            app.admin().refuse_request(refused, address, "POST /console/sign-in", AUDIT_SOURCE);
        }
    }
    let caller = match admitted {
        Ok(caller) => caller,
        Err(error) if error.error_type == ErrorType::Unauthenticated => {
            let hint = "copy the whole token; it may have been revoked, or have expired";
            let error = CallError::new(error.error_type, error.message, hint);
            return Ok(form_page(&app, next, Some(&error)).into_response());
        }
        Err(error) => return Ok(form_page(&app, next, Some(&error)).into_response()),
    };
    if let Some(peer) = peer {
        peer.mark_authenticated();
    }
    let cookies = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    if let Some(earlier) = console.sessions.find(cookies, false, now_ms()) {
        console.sessions.end(&earlier.hash);
    }
    let actor = Actor { caller: &caller, source: AUDIT_SOURCE };
    let begin = || console.sessions.begin(SignedIn::Token(caller.token_id.clone()), now_ms());
    let cookie = app.admin().sign_in(actor, begin).await?;
    Ok(([(SET_COOKIE, cookie)], SeeOther::to(next)).into_response())
}

/// Ends the session.
pub(super) async fn sign_out(viewer: Viewer, console: Console) -> Response {
    let cookie = console.sessions.end(&viewer.session.hash);
    let next = match &viewer.session.who {
        SignedIn::Token(_) => "/console/sign-in",
        SignedIn::Person(_) => "/console/sign-in?out=1",
    };
    ([(SET_COOKIE, cookie)], SeeOther::to(next)).into_response()
}

/// The page with the forms, after a refusal with its reason.
pub(super) fn form_page(app: &App, next: &str, error: Option<&CallError>) -> Page {
    let next = own_path(next).unwrap_or_default();
    let provider = app.person_sign_in().map(PersonSignIn::provider);
    let page = Page::new(
        "Sign in",
        html! {
            @if let Some(error) = error {
                div #sign-in-error .notice.error role="alert" {
                    p { strong { (sentence(&visible_text(&error.message))) "." } }
                    p { (sentence(&visible_text(&error.hint))) "." }
                }
            }
            @if let Some(provider) = provider {
                p { a .button href={ "/console/sign-in/provider?next=" (percent_encode(next)) } { "Sign in with " (short(&provider)) } }
                h2 { "Or with a token" }
            }
            form .stack method="post" action="/console/sign-in" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input #token type="password" name="token" required autofocus autocomplete="current-password"
                    spellcheck="false" aria-describedby=[error.map(|_| "sign-in-error")];
                button type="submit" { "Sign in" }
            }
            p .quiet {
                "The first token is in the file " code { "operator.token" } " of the daemon's data folder. "
                code { "toolgate token create" } " makes others."
            }
            @if !next.is_empty() {
                p { "Signed in already? " a href=(next) { "Open the page" } "." }
            }
        },
    );
    let status = error.and_then(|error| StatusCode::from_u16(error.http_status()).ok());
    page.with_status(status.unwrap_or(StatusCode::OK))
}
