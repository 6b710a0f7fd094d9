//! Forms: their fields, and the redirect that answers them.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_http::body;
use toolgate_http::body_memory::BodyShare;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use url::form_urlencoded;
use zeroize::{Zeroize, Zeroizing};

/// Path of the redirect without a page to go back to.
const HOME: &str = "/console";

/// Longest path that a sign-in leads back to.
const PATH_BYTES: usize = 1_024;

/// Largest form that needs no session.
pub(super) const OPEN_FORM_BYTES: u64 = 16 * 1_024;

/// Most fields of a form.
pub(super) const FIELDS: usize = 1_024;

/// The fields of a form, as they were sent.
#[derive(Clone, Default)]
pub(super) struct FormFields {
    fields: Arc<WipedFields>,
    /// Counts the fields as a body as long as they are kept.
    _share: Option<Arc<BodyShare>>,
}

/// Names and values, which can be secrets: wiped on drop.
#[derive(Default)]
struct WipedFields(Vec<(String, String)>);

impl Drop for WipedFields {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|(_, value)| value.zeroize());
    }
}

impl FormFields {
    #[cfg(test)]
    pub(super) fn of(fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { fields: Arc::new(WipedFields(fields.collect())), _share: None }
    }

    /// The fields of a form before its file. They are few and short.
    pub(super) fn of_upload(fields: Vec<(String, String)>) -> Self {
        Self { fields: Arc::new(WipedFields(fields)), _share: None }
    }

    /// A field; empty if it was not sent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.fields.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The values of a field that can be sent several times.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.fields.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A field that was filled in, without the spaces around it.
    pub(super) fn filled_field(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    /// Whether a checkbox was checked.
    pub(super) fn is_checked(&self, name: &str) -> bool {
        self.fields.0.iter().any(|(key, _)| key == name)
    }

    /// A number that was filled in.
    ///
    /// # Errors
    ///
    /// `INVALID_REQUEST` where the text is no number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                Problem::new(
                    ErrorType::InvalidRequest,
                    format!("`{name}` is not a whole number"),
                    "write digits only, or leave it empty",
                )
            })
        };
        self.filled_field(name).map(parse).transpose()
    }
}

impl FromRequestParts<App> for FormFields {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(|| Problem::new(ErrorType::Internal, "a form was not read", "tell the operator"))
    }
}

pub(super) fn is_form(content_type: Option<&HeaderValue>) -> bool {
    let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// Reads the body of a form of at most `limit_bytes`.
pub(super) async fn read(
    app: &App,
    organization: Option<&Name>,
    request: Request,
    limit_bytes: u64,
) -> Result<(Parts, FormFields), Problem> {
    if !is_form(request.headers().get(CONTENT_TYPE)) {
        let hint = "send the form of the page";
        return Err(Problem::new(ErrorType::InvalidRequest, "the body is no form", hint));
    }
    let (parts, body) = request.into_parts();
    let body = body::read(app, organization, body, limit_bytes).await?;
    let fields = parse(&body).map(|fields| Arc::new(WipedFields(fields)));
    let share = Arc::new(body.into_share());
    Ok((parts, FormFields { fields: fields?, _share: Some(share) }))
}

/// Parses fields. The separators are counted first, since each field takes more memory than its text.
fn parse(body: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    if body.iter().filter(|byte| **byte == b'&').count() >= FIELDS {
        return Err(Problem::new(
            ErrorType::TooLarge,
            format!("the form has more than {FIELDS} fields"),
            "send fewer fields, or use the HTTP interface",
        ));
    }
    let fields = form_urlencoded::parse(body);
    Ok(fields
        .map(|(name, value)| (name.into_owned(), with_line_feeds(&Zeroizing::new(value.into_owned()))))
        .collect())
}

/// Browsers send the lines of a text area with CR LF.
pub(super) fn with_line_feeds(value: &str) -> String {
    value.replace("\r\n", "\n")
}

/// The answer to a form: another page of the console.
#[derive(Debug)]
pub(super) struct SeeOther(String);

impl SeeOther {
    /// Leads to a page. Anything that is not the path of one leads to the start page.
    pub(super) fn to(path: &str) -> Self {
        Self(own_path(path).unwrap_or(HOME).to_owned())
    }

    /// Leads to the sign-in, and from there back to the page; a change that was not made is not made later.
    pub(super) fn to_sign_in(method: &Method, uri: &Uri) -> Self {
        let asked = uri.path_and_query().map_or(HOME, |path| path.as_str());
        match own_path(asked) {
            Some(path) if method.is_safe() && path != HOME && !path.contains("/fragment") => {
                let next: String = form_urlencoded::byte_serialize(path.as_bytes()).collect();
                Self(format!("/console/sign-in?next={next}"))
            }
            _ => Self("/console/sign-in".into()),
        }
    }
}

impl IntoResponse for SeeOther {
    fn into_response(self) -> Response {
        let location = HeaderValue::from_str(&self.0).unwrap_or(HeaderValue::from_static(HOME));
        (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
    }
}

/// Returns the text if it is a path of the console, with or without a query. It cannot name another host, since it begins
/// with one slash and the name of our folder, and has neither a backslash nor a dot segment.
pub(super) fn own_path(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(HOME)?;
    let path = rest.split('?').next().unwrap_or_default();
    let is_ours = (rest.is_empty() || rest.starts_with(['/', '?']))
        && text.len() <= PATH_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/?&=._~%:@+,-".contains(&byte))
        && path.split('/').skip(1).all(is_segment);
    is_ours.then_some(text)
}

/// Whether the segment is neither empty nor a dot segment, which browsers take in `%2e`, too.
fn is_segment(segment: &str) -> bool {
    !matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "" | "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_of_the_console_is_gone_to() {
        for path in
            ["/console", "/console/approvals", "/console/approvals/a_1?state=pending", "/console?x=%2F"]
        {
            assert_eq!(own_path(path), Some(path));
        }
        for path in [
            "",
            "/",
            "/v1/agents",
            "//evil.example",
            "/console//evil.example",
            "/console/../v1/agents",
            "/console/./x",
            "/console/%2e%2E/v1/agents",
            "/console/.%2e/v1/agents",
            "/console\\evil.example",
            "/consoles",
            "/console/\n",
            "/console/#x",
            "https://evil.example/console/",
            "/console@evil.example",
        ] {
            assert_eq!(own_path(path), None, "{path}");
        }
        assert_eq!(SeeOther::to("//evil.example").0, HOME);
    }

    #[test]
    fn the_fields_of_a_form_are_limited() {
        let form = |count: usize| vec!["a=b"; count].join("&");
        assert_eq!(parse(form(FIELDS).as_bytes()).expect("fields").len(), FIELDS);
        let refused = parse(form(FIELDS + 1).as_bytes()).map_err(|Problem(error)| error.error_type);
        assert_eq!(refused, Err(ErrorType::TooLarge));
    }

    #[test]
    fn a_sign_in_leads_back_to_a_page_but_repeats_no_change() {
        let uri = Uri::from_static("/console/approvals?state=denied");
        assert_eq!(
            SeeOther::to_sign_in(&Method::GET, &uri).0,
            "/console/sign-in?next=%2Fconsole%2Fapprovals%3Fstate%3Ddenied"
        );
        assert_eq!(SeeOther::to_sign_in(&Method::POST, &uri).0, "/console/sign-in");
    }
}
