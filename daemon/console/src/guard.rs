//! The guard of the console's pages: session, CSRF token and origin.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::Method;
use axum::http::header::{CONTENT_TYPE, COOKIE};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::html;
use toolgate_api::error::ErrorType;
use toolgate_core::identity::Caller;
use toolgate_http::connections::Peer;
use toolgate_http::header::header;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use super::form::{self, FormFields, SeeOther};
use super::origin::{FETCH_SITE, expect_same_origin};
use super::page::Page;
use super::permits::complete_change;
use super::session::SignedIn;
use super::viewer::{CSRF_FIELD, CSRF_HEADER, Viewer};
use super::{Console, once, policies, upload};

impl FromRequestParts<App> for Console {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Problem::new(ErrorType::Internal, "a route of the console has no state", "tell the operator")
        })
    }
}

/// Gives the routes without a session the console's state.
pub(super) async fn provide_console(
    State(console): State<Console>,
    mut request: Request,
    next: Next,
) -> Response {
    request.extensions_mut().insert(console);
    next.run(request).await
}

/// Admits requests of a session. A request without one gets the sign-in page, which leads back.
pub(super) async fn require_viewer(State(console): State<Console>, request: Request, next: Next) -> Response {
    if let Some(landing) = once::landing(&request) {
        return landing.into_response();
    }
    let Some(viewer) = find_viewer(&console, &request) else {
        return answer_without_session(&request);
    };
    let mut response = match admit(&console, &viewer, request).await {
        Err(problem) => problem.into_response(),
        Ok(request) if ends_with_browser(&request) => next.run(request).await,
        Ok(request) => {
            let completed = complete_change(&console, viewer.caller.organization.as_ref(), next.run(request));
            completed.await.unwrap_or_else(IntoResponse::into_response)
        }
    };
    response.extensions_mut().insert(viewer);
    response
}

/// The answer to a request without a session. Browsers send its cookie from pages of the console alone, so a link of another site
/// leads on from one.
fn answer_without_session(request: &Request) -> Response {
    let (method, uri) = (request.method(), request.uri());
    let is_from_elsewhere = request.headers().get(FETCH_SITE).is_some_and(|site| site == "cross-site");
    let path = uri.path_and_query().and_then(|path| form::own_path(path.as_str()));
    match path.filter(|path| is_from_elsewhere && method == Method::GET && !path.contains("/fragment")) {
        Some(path) => {
            let main = html! { p { a.button href=(path) { "Open the page" } } };
            Page::new("Opening the page", main).going_on_to(path.to_owned()).into_response()
        }
        None => SeeOther::to_sign_in(method, uri).into_response(),
    }
}

/// Returns the viewer of the session's cookie. The token is looked up again, so a revoked one ends the session.
fn find_viewer(console: &Console, request: &Request) -> Option<Viewer> {
    let path = request.uri().path().to_owned();
    let cookies = request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    // The requests of the script do not keep an idle session open.
    let live = console.sessions.find(cookies, !path.ends_with("/fragment"), now_ms())?;
    let peer = request.extensions().get::<Peer>();
    let Some(caller) = caller_of(console, &live.who) else {
        console.sessions.end(&live.hash);
        return None;
    };
    caller.may_come_from(peer.map(|peer| peer.address)).ok()?;
    if let Some(peer) = peer {
        peer.mark_authenticated();
    }
    let name = match &live.who {
        SignedIn::Token(id) => console.app.services().identity.label_of(id),
        SignedIn::Person(person) => person.name.clone(),
    };
    Some(Viewer { caller, session: Arc::new(live), name, path: path.into() })
}

/// The caller as it is now: none for a token that is revoked, and for a person of an organization that was deleted.
fn caller_of(console: &Console, who: &SignedIn) -> Option<Arc<Caller>> {
    let parts = console.app.services();
    match who {
        SignedIn::Token(id) => parts.identity.caller_with_id(id),
        SignedIn::Person(person) => {
            let organization = person.caller.organization.as_ref();
            let is_known = organization.is_none_or(|name| parts.registry.snapshot().knows(name));
            Some(Arc::clone(&person.caller)).filter(|caller| is_known && caller.is_valid(now_ms()))
        }
    }
}

/// Checks origin and CSRF token of a change, and reads its form.
async fn admit(console: &Console, viewer: &Viewer, mut request: Request) -> Result<Request, Problem> {
    if !request.method().is_safe() {
        expect_same_origin(request.headers(), request.uri())?;
        if form::is_form(request.headers().get(CONTENT_TYPE)) {
            let organization = viewer.caller.organization.as_ref();
            let limit_bytes = console.app.settings().http.body_bytes;
            let (parts, fields) = form::read(&console.app, organization, request, limit_bytes).await?;
            expect_csrf(viewer, fields.text(CSRF_FIELD))?;
            request = Request::from_parts(parts, axum::body::Body::empty());
            request.extensions_mut().insert(fields);
        } else if upload::is_upload(&request) {
            let (parts, fields, file) = upload::open(&console.app, request).await?;
            expect_csrf(viewer, fields.text(CSRF_FIELD))?;
            request = Request::from_parts(parts, file);
            request.extensions_mut().insert(fields);
        } else {
            expect_csrf(viewer, header(request.headers(), &CSRF_HEADER)?.unwrap_or_default())?;
            request.extensions_mut().insert(FormFields::default());
        }
    }
    request.extensions_mut().insert(viewer.clone());
    request.extensions_mut().insert(console.clone());
    Ok(request)
}

/// Whether the request ends with its browser: a page, a try, which runs as long as its tool, a preview, or an upload, whose
/// handler completes the change when the file is there.
fn ends_with_browser(request: &Request) -> bool {
    let path = request.uri().path();
    let fields = request.extensions().get::<FormFields>();
    request.method().is_safe()
        || path.starts_with("/console/try/")
        || path.starts_with("/console/policies/") && fields.is_some_and(policies::is_preview)
        || upload::is_upload(request)
}

fn expect_csrf(viewer: &Viewer, sent: &str) -> Result<(), Problem> {
    if viewer.session.is_csrf(sent) {
        return Ok(());
    }
    Err(Problem::new(
        ErrorType::Forbidden,
        "the form is not of this session",
        "open the page again and send the form from there",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_and_previews_hold_no_permit_but_changes_do() {
        let ends = |method: &str, path: &str, act: &str| {
            let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, act);
            let request = request.extension(FormFields::of(&[("act", act)]));
            ends_with_browser(&request.body(axum::body::Body::empty()).expect("a request"))
        };
        assert!(ends("GET", "/console/tokens", ""));
        assert!(ends("POST", "/console/try/acme/pay/send", ""));
        assert!(ends("POST", "/console/policies/platform", "preview"));
        assert!(!ends("POST", "/console/policies/platform", "put"));
        assert!(!ends("POST", "/console/tokens", ""));
        let form = "multipart/form-data; boundary=x";
        assert!(ends("POST", "/console/upload/plugin", form) && !ends("POST", "/console/tokens", form));
    }
}
