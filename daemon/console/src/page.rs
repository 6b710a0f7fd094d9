//! Layout of pages: head, navigation, problems, and the headers of every answer.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use toolgate_api::error::CallError;
use toolgate_api::problem::Problem as ProblemBody;
use toolgate_core::identity::Access;

use super::Console;
use super::assets;
use super::text::{cut, sentence, visible_text};
use super::viewer::Viewer;

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
     frame-ancestors 'none'; base-uri 'none'",
);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Largest body of a problem, in bytes. Its text is cut before.
const PROBLEM_BYTES: usize = 64 * 1024;

/// The page whose entry in the navigation has a number.
const APPROVALS: &str = "/console/approvals";

/// The pages of the navigation, each with the access that it needs; none for every role.
const NAVIGATION: [(&str, &str, Option<Access>); 11] = [
    ("/console", "Overview", None),
    (APPROVALS, "Approvals", Some(Access::Decide)),
    ("/console/calls", "Calls", Some(Access::Audit)),
    ("/console/explain", "Explain", Some(Access::Own)),
    ("/console/catalogue", "Catalogue", Some(Access::Own)),
    ("/console/plugins", "Plugins", Some(Access::Operate)),
    ("/console/organizations", "Organizations", Some(Access::Own)),
    ("/console/sessions", "Sessions", Some(Access::Orchestrate)),
    ("/console/tokens", "Tokens", Some(Access::Own)),
    ("/console/usage", "Use", Some(Access::Audit)),
    ("/console/audit", "Audit", Some(Access::Audit)),
];

/// The content of a page, which `finish` lays out.
#[derive(Clone, Debug)]
pub(super) struct Page {
    title: String,
    main: Markup,
    status: StatusCode,
    is_fragment: bool,
    /// The page of the console that the browser opens at once, from here: so it sends the cookie of the session.
    next: Option<String>,
}

impl Page {
    /// A page with a title, which is its first heading, too.
    pub(super) fn new(title: impl Into<String>, main: Markup) -> Self {
        Self { title: title.into(), main, status: StatusCode::OK, is_fragment: false, next: None }
    }

    /// A part of a page, which the script puts in place of an older one.
    pub(super) fn fragment(main: Markup) -> Self {
        Self { is_fragment: true, ..Self::new("", main) }
    }

    /// The page that opens another one of the console at once, also without the script.
    pub(super) fn going_on_to(self, address: String) -> Self {
        Self { next: Some(address), ..self }
    }

    /// The page with a notice above its content.
    pub(super) fn with_notice(self, notice: &Markup) -> Self {
        Self { main: html! { (notice) (self.main) }, ..self }
    }

    /// The page with another status.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The page with the status of the error that it shows.
    pub(super) fn with_status_of(self, error: &CallError) -> Self {
        let status = StatusCode::from_u16(error.http_status());
        self.with_status(status.unwrap_or(StatusCode::UNPROCESSABLE_ENTITY))
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Lays out pages and problems, and adds the headers.
pub(super) async fn finish(State(_): State<Console>, request: Request, next: Next) -> Response {
    let is_fragment = request.uri().path().ends_with("/fragment");
    let mut response = next.run(request).await;
    let viewer = response.extensions_mut().remove::<Viewer>();
    if is_problem(&response) {
        let (parts, body) = response.into_parts();
        let page = Page { is_fragment, ..problem_page(body).await.with_status(parts.status) };
        response = page.into_response();
        response.headers_mut().extend(parts.headers);
        response.headers_mut().remove(WWW_AUTHENTICATE);
    }
    if let Some(page) = response.extensions_mut().remove::<Page>() {
        let text = if page.is_fragment { page.main } else { layout(&page, viewer.as_ref()) };
        let (parts, _) = response.into_parts();
        response = Response::from_parts(parts, Body::from(text.into_string()));
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, html);
    }
    add_headers(response.headers_mut());
    response
}

/// A page outside of the console's routes, without a session.
pub(super) fn standalone(page: &Page) -> Response {
    let html = [(CONTENT_TYPE, "text/html; charset=utf-8")];
    let mut response = (page.status, html, layout(page, None).into_string()).into_response();
    add_headers(response.headers_mut());
    response
}

/// Adds the headers that a page has not set itself.
fn add_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

fn is_problem(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json")
}

/// Shows a problem with its code and the way out.
async fn problem_page(body: Body) -> Page {
    let bytes = to_bytes(body, PROBLEM_BYTES).await.unwrap_or_default();
    match serde_json::from_slice::<ProblemBody>(&bytes) {
        Ok(problem) => Page::new(sentence(&problem.title), problem_notice(&problem)),
        Err(_) => Page::new("Error", html! { p { "The daemon could not answer. Its log says more." } }),
    }
}

fn problem_notice(problem: &ProblemBody) -> Markup {
    let error_type = problem.error_type.as_str();
    html! {
        div .notice.error role="alert" {
            p { strong { (sentence(&visible_text(&problem.detail))) "." } }
            p { (sentence(&visible_text(&problem.hint))) "." }
            p .quiet { "Code " code { (error_type) } }
        }
    }
}

fn layout(page: &Page, viewer: Option<&Viewer>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(next) = &page.next { meta http-equiv="refresh" content={ "0;url=" (next) }; }
                title { (page.title) " · Toolgate" }
                link rel="stylesheet" href=(assets::css_path());
                link rel="icon" type="image/svg+xml" href=(assets::icon_path());
                script src=(assets::script_path()) defer {}
            }
            body {
                a .skip href="#main" { "Skip to content" }
                header .top {
                    a .brand href="/console" { "Toolgate" }
                    @if let Some(viewer) = viewer {
                        form .search method="get" action="/console/search" role="search" aria-label="Search everything" {
                            label .unseen for="search" { "Search" }
                            input #search type="search" name="q" placeholder="Search" aria-keyshortcuts="/" autocomplete="off" spellcheck="false";
                        }
                        (account(viewer))
                    }
                }
                @if let Some(viewer) = viewer { (navigation(viewer)) }
                main #main tabindex="-1" {
                    h1 { (page.title) }
                    (page.main)
                }
            }
        }
    }
}

/// The owner of the session, with the way out of it.
fn account(viewer: &Viewer) -> Markup {
    let caller = &viewer.caller;
    html! {
        div .account {
            span {
                @if let Some(name) = &viewer.name { strong { (cut(name, 80)) } " · " }
                (caller.role.as_str())
                @if let Some(organization) = &caller.organization { " of " (organization.as_str()) }
            }
            (viewer.form("/console/sign-out", &[], html! {
                button .plain type="submit" { "Sign out" }
            }))
        }
    }
}

/// The pages that the role may see.
fn navigation(viewer: &Viewer) -> Markup {
    let seen = NAVIGATION.iter().filter(|(_, _, access)| access.is_none_or(|access| viewer.may(access)));
    html! {
        nav aria-label="Pages" {
            ul {
                @for (path, label, _) in seen {
                    li {
                        a href=(path) aria-current=[current(viewer.path(), path)] {
                            (label)
                            @if *path == APPROVALS { span data-live="/console/live/fragment" data-refresh="/console/approvals/count/fragment" {} }
                        }
                    }
                }
            }
        }
    }
}

/// The value of `aria-current` for a page of the navigation: the page itself, or the one that the page is below.
fn current(path: &str, entry: &str) -> Option<&'static str> {
    if path == entry {
        return Some("page");
    }
    let is_below = entry != "/console" && path.strip_prefix(entry).is_some_and(|rest| rest.starts_with('/'));
    is_below.then_some("true")
}

#[cfg(test)]
mod tests {
    use toolgate_api::error::ErrorType;

    use super::*;
    use toolgate_http::problem::Problem;

    #[tokio::test]
    async fn a_problem_is_shown_as_text() {
        let problem = Problem::new(ErrorType::NotFound, "no <script>\u{202e}", "look & see");
        let response = problem.into_response();
        assert!(is_problem(&response));
        let page = problem_page(response.into_body()).await;
        let text = layout(&page, None).into_string();
        assert!(text.contains("No &lt;script&gt;\\u{202e}"), "{text}");
        assert!(text.contains("Look &amp; see") && text.contains("NOT_FOUND"), "{text}");
        assert!(!text.contains("style="), "no inline style passes the policy");
    }

    #[test]
    fn the_page_of_the_navigation_is_marked() {
        assert_eq!(current("/console", "/console"), Some("page"));
        assert_eq!(current("/console/calls/x", "/console"), None);
        assert_eq!(current("/console/calls/x", "/console/calls"), Some("true"));
        assert_eq!(current("/console/callsx", "/console/calls"), None);
    }
}
