//! Links that let one person decide one approval without a session (G18).
//!
//! The link itself changes nothing, so a preview of a message cannot use it up: its page has a form that shows the call, and
//! the decision uses up the token. The token is its own CSRF token, since only its reader can know it.

use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::REFERRER_POLICY;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use toolgate_core::approvals::view;
use toolgate_core::webhooks::OnceApprover;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;
use toolgate_state::store::ApprovalRow;
use url::form_urlencoded;

use super::AUDIT_SOURCE;
use super::approvals::{bound_to, decision_fields, head, shown_arguments};
use super::decisions::plain_decision;
use super::form::{self, FormFields, SeeOther};
use super::origin::expect_same_origin;
use super::page::Page;

/// No address with a token leaves in `Referer`. With `no-referrer`, browsers would send `Origin: null` with the form.
const POLICY: &str = "strict-origin";

/// Longest token, in bytes.
const TOKEN_BYTES: usize = 256;

/// Returns the page of a link; none if the request is not for one.
pub(super) fn landing(request: &Request) -> Option<Response> {
    let id = request.uri().path().strip_prefix("/console/approvals/")?;
    let query = request.uri().query().filter(|_| request.method() == Method::GET)?;
    let (_, token) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "once")?;
    let is_id = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_id || token.len() > TOKEN_BYTES {
        return None;
    }
    let content = html! {
        p { "This link lets you decide one call of an agent. It works once." }
        form method="post" action={ "/console/once/" (id) } {
            (token_field(&token))
            button type="submit" { "Show the call" }
        }
    };
    Some(private(Page::new("Approval", content)))
}

/// Shows the call, with the form that decides it.
pub(super) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let fields = read(&app, request).await?;
    let token = fields.text("once");
    let approver = app.services().webhooks.verify_link(&id, token, now_ms()).await?;
    let row = find(&app, &approver, &id).await?;
    let view = view(&app.services().store, row, now_ms()).await?;
    let content = html! {
        (head(&view))
        (shown_arguments(&view))
        div .decide {
            h2 .unseen { "Decision" }
            form method="post" action={ "/console/once/" (id) "/decision" } {
                (token_field(token))
                (decision_fields(&fields, view.arguments.get()))
            }
        }
        (bound_to(&view))
    };
    Ok(private(Page::new(format!("Approval of {}", view.tool), content)))
}

/// Decides the approval, which uses the link up.
pub(super) async fn decide(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<SeeOther, Problem> {
    let fields = read(&app, request).await?;
    let approver = app.services().webhooks.verify_link(&id, fields.text("once"), now_ms()).await?;
    let bound = find(&app, &approver, &id).await?.arguments;
    let decision = plain_decision(&fields, &bound)?;
    let admin = app.admin().clone();
    // The decision and its audit record complete even if the browser disconnects.
    let deciding = async move { admin.decide_once(AUDIT_SOURCE, &approver, &id, decision).await };
    app.run_to_completion(deciding).await??;
    Ok(SeeOther::to("/console/once/decided"))
}

/// The page after a decision.
pub(super) async fn decision_page() -> Response {
    let content =
        html! { p { "Your decision is stored, and the link is used up. You can close this page." } };
    private(Page::new("Decided", content))
}

async fn find(app: &App, approver: &OnceApprover, id: &str) -> Result<ApprovalRow, Problem> {
    let organization = approver.caller_for(id).and_then(|caller| caller.organization.as_ref());
    let organization = organization.ok_or_else(|| Problem::not_found("approval"))?;
    Ok(app.services().store.approval(id, Some(organization)).await?)
}

async fn read(app: &App, request: Request) -> Result<FormFields, Problem> {
    expect_same_origin(request.headers(), request.uri())?;
    Ok(form::read(app, None, request, form::OPEN_FORM_BYTES).await?.1)
}

fn token_field(token: &str) -> Markup {
    html! { input type="hidden" name="once" value=(token); }
}

fn private(page: Page) -> Response {
    ([(REFERRER_POLICY, POLICY)], page).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn lands(method: Method, uri: &str) -> bool {
        landing(&Request::builder().method(method).uri(uri).body(Body::empty()).expect("a request")).is_some()
    }

    #[test]
    fn a_link_decides_about_one_call_as_it_was_asked_for() {
        let fields = [("decision", "approve"), ("reason", "ok"), ("uses", "1000"), ("minutes", "9")];
        let others = [("arguments", "{}"), ("arguments_instead", "{}")];
        let fields = FormFields::of(&[&fields[..], &others].concat());
        let decision = plain_decision(&fields, "{}").expect("a decision");
        assert_eq!(decision.reason.as_deref(), Some("ok"));
        assert!(decision.uses.is_none() && decision.expires_at.is_none());
        assert!(decision.arguments.is_none() && decision.arguments_instead.is_none());
        assert!(plain_decision(&FormFields::of(&[("reason", "ok")]), "{}").is_err());
    }

    #[test]
    fn only_a_link_of_an_approval_is_one() {
        assert!(lands(Method::GET, "/console/approvals/a_1?once=abc"));
        for uri in [
            "/console/approvals/a_1",
            "/console/approvals?once=a",
            "/console/approvals/a_1/b?once=a",
            "/console/calls/a?once=a",
        ] {
            assert!(!lands(Method::GET, uri), "{uri}");
        }
        assert!(!lands(Method::POST, "/console/approvals/a_1?once=abc"));
    }
}
