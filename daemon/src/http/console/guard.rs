//! The guard of the console's pages: session, CSRF token and origin.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;

use super::form::{self, FormFields, SeeOther};
use super::page::Page;
use super::session::{LiveSession, SignedIn};
use super::{AUDIT_SOURCE, Console, once, policies, upload};
use crate::admin::Actor;
use crate::clock::now_ms;
use crate::http::header::header;
use crate::http::listener::Peer;
use crate::http::problem::Problem;
use crate::http::state::App;
use crate::identity::{Access, Caller};

/// The header that scripts send the CSRF token in, for bodies that are no form.
const CSRF_HEADER: HeaderName = HeaderName::from_static("toolgate-csrf");
/// The field of forms with the CSRF token.
const CSRF_FIELD: &str = "csrf";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The person who looks at a page, by the session's token as it is at this request.
#[derive(Clone)]
pub(super) struct Viewer {
    pub caller: Arc<Caller>,
    pub session: Arc<LiveSession>,
    path: Arc<str>,
}

impl Viewer {
    /// Whether the role has the access. For the navigation and for what a page shows; the layers below check it again.
    pub(super) fn may(&self, access: Access) -> bool {
        self.caller.may(access).is_ok()
    }

    /// The path of the page.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The CSRF token, for bodies that a script sends.
    pub(super) fn csrf(&self) -> String {
        self.session.csrf()
    }

    /// The hidden field that every form has.
    pub(super) fn csrf_field(&self) -> Markup {
        html! { input type="hidden" name=(CSRF_FIELD) value=(self.csrf()); }
    }

    /// The actor of the viewer's changes.
    pub(super) fn actor(&self) -> Actor<'_> {
        Actor { caller: &self.caller, source: AUDIT_SOURCE }
    }
}

impl FromRequestParts<App> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Problem::new(ErrorType::Internal, "a page that needs a viewer has no guard", "tell the operator")
        })
    }
}

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
    Some(Viewer { caller, session: Arc::new(live), path: path.into() })
}

/// The caller as it is now: none for a token that is revoked, and for a person of an organization that was deleted.
fn caller_of(console: &Console, who: &SignedIn) -> Option<Arc<Caller>> {
    let parts = console.app.parts();
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

/// Runs a change to its end, even if the browser disconnects.
pub(super) async fn complete_change<T: Send + 'static>(
    console: &Console,
    organization: Option<&Name>,
    change: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    // A load has a large future, which the callers of this function would each hold on the stack.
    let change = Box::pin(change);
    let permit = console.changes.acquire(organization).await;
    let change = async move {
        let _permit = permit;
        change.await
    };
    console.app.run_to_completion(change).await
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

/// Refuses a change that a page of another origin made. Browsers send `Sec-Fetch-Site`, and `Origin` with each POST.
pub(super) fn expect_same_origin(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let is_ours = match header(headers, &FETCH_SITE)? {
        Some(site) => site == "same-origin",
        None => {
            let asked = uri.authority().map(|authority| authority.as_str());
            let asked = asked.or(header(headers, &HOST)?);
            let origin = header(headers, &ORIGIN)?.and_then(|origin| origin.split_once("://"));
            matches!((origin, asked), (Some((_, origin)), Some(asked)) if origin.eq_ignore_ascii_case(asked))
        }
    };
    if is_ours {
        return Ok(());
    }
    Err(Problem::new(
        ErrorType::Forbidden,
        "the form was not sent by a page of this console",
        "open the page here and send the form from there",
    ))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(fields: &[(&'static str, &'static str)]) -> bool {
        let fields = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let headers: HeaderMap = fields.collect();
        expect_same_origin(&headers, &Uri::from_static("/console/sign-in")).is_ok()
    }

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

    #[test]
    fn only_a_page_of_the_same_origin_changes_anything() {
        let host = ("host", "127.0.0.1:7300");
        assert!(check(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(check(&[host, ("origin", "http://127.0.0.1:7300")]));
        for foreign in ["http://127.0.0.1:7301", "http://evil.example", "null", "127.0.0.1:7300"] {
            assert!(!check(&[host, ("origin", foreign)]), "{foreign}");
        }
        for site in ["cross-site", "same-site", "none"] {
            assert!(!check(&[host, ("origin", "http://127.0.0.1:7300"), ("sec-fetch-site", site)]), "{site}");
        }
        assert!(!check(&[host]));
    }
}
