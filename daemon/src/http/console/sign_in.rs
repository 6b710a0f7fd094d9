//! Sign-in with a token, and sign-out.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use toolgate_api::error::{CallError, ErrorType};

use super::Console;
use super::form::{self, SeeOther, own_path};
use super::guard::{Viewer, expect_same_origin};
use super::page::{Page, sentence};
use super::text::visible_text;
use crate::clock::now_ms;
use crate::http::extract::Query;
use crate::http::listener::{Authentication, PeerAddress};
use crate::http::problem::Problem;
use crate::http::state::App;

/// Query parameters of the sign-in page. Others are ignored.
#[derive(Deserialize)]
pub(super) struct SignInQuery {
    next: Option<String>,
}

/// The form that asks for a token.
pub(super) async fn page(Query(query): Query<SignInQuery>) -> Page {
    form_page(query.next.as_deref().unwrap_or_default(), None)
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
    let address = parts.extensions.get().map(|PeerAddress(address)| *address);
    let admitted = app.parts().identity.authenticate(Some(&bearer)).and_then(|caller| {
        caller.may_come_from(address)?;
        Ok(caller)
    });
    let caller = match admitted {
        Ok(caller) => caller,
        Err(error) => return Ok(form_page(next, Some(&error)).into_response()),
    };
    if let Some(connection) = parts.extensions.get::<Authentication>() {
        connection.succeed();
    }
    let cookies = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    if let Some(earlier) = console.sessions.find(cookies, false, now_ms()) {
        console.sessions.end(&earlier.hash);
    }
    let cookie = console.sessions.begin(&caller.token_id, now_ms())?;
    Ok(([(SET_COOKIE, cookie)], SeeOther::to(next)).into_response())
}

/// Ends the session.
pub(super) async fn sign_out(viewer: Viewer, console: Console) -> Response {
    let cookie = console.sessions.end(&viewer.session.hash);
    ([(SET_COOKIE, cookie)], SeeOther::to("/console/sign-in")).into_response()
}

fn form_page(next: &str, error: Option<&CallError>) -> Page {
    let next = own_path(next).unwrap_or_default();
    let page = Page::new(
        "Sign in",
        html! {
            @if let Some(error) = error {
                div #sign-in-error .notice.error role="alert" {
                    p { strong { (sentence(&visible_text(&error.message))) "." } }
                    @if error.error_type == ErrorType::Unauthenticated {
                        p { "Copy the whole token. It may have been revoked, or have expired." }
                    } @else {
                        p { (sentence(&visible_text(&error.hint))) "." }
                    }
                }
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
    if error.is_some() { page.with_status(StatusCode::UNAUTHORIZED) } else { page }
}
