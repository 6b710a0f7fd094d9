//! The person who looks at a page.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use maud::{Markup, Render, html};
use toolgate_api::error::ErrorType;
use toolgate_core::admin::Actor;
use toolgate_core::identity::{Access, Caller};
use toolgate_http::extract::Client;
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
    /// What the person or the token is called.
    pub name: Option<Arc<str>>,
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

    /// The hidden field of a form for files, which is no [`form`](Self::form).
    pub(super) fn csrf_field(&self) -> Markup {
        html! { input type="hidden" name=(CSRF_FIELD) value=(self.csrf()); }
    }

    /// A form that posts to an address of the console, with the CSRF token and these hidden fields.
    pub(super) fn form(
        &self,
        action: impl Render,
        hidden: &[(&str, &dyn Render)],
        content: Markup,
    ) -> Markup {
        self.form_of_class(None, &action, hidden, &content)
    }

    /// The same, with its fields one below the other.
    pub(super) fn stacked_form(
        &self,
        action: impl Render,
        hidden: &[(&str, &dyn Render)],
        content: Markup,
    ) -> Markup {
        self.form_of_class(Some("stack"), &action, hidden, &content)
    }

    fn form_of_class(
        &self,
        class: Option<&str>,
        action: &dyn Render,
        hidden: &[(&str, &dyn Render)],
        content: &Markup,
    ) -> Markup {
        html! {
            form class=[class] method="post" action=(action) {
                (self.csrf_field())
                @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                (content)
            }
        }
    }

    /// The viewer as a client of the HTTP interface, whose handlers pages call.
    pub(super) fn client(&self, app: &App) -> Client {
        Client { app: app.clone(), caller: Arc::clone(&self.caller) }
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
