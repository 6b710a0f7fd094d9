//! The person who looks at a page.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use maud::{Markup, html};
use toolgate_api::error::ErrorType;
use toolgate_core::admin::Actor;
use toolgate_core::identity::{Access, Caller};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::AUDIT_SOURCE;
use super::session::LiveSession;

/// The header that scripts send the CSRF token in, for bodies that are no form.
pub(super) const CSRF_HEADER: HeaderName = HeaderName::from_static("toolgate-csrf");
/// The field of forms with the CSRF token.
pub(super) const CSRF_FIELD: &str = "csrf";

/// The person who looks at a page, by the session's token as it is at this request.
#[derive(Clone)]
pub(super) struct Viewer {
    pub caller: Arc<Caller>,
    pub session: Arc<LiveSession>,
    pub path: Arc<str>,
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
