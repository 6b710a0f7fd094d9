//! The origin of a change: a page of this console.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Uri};
use toolgate_api::error::ErrorType;
use toolgate_http::header::header;
use toolgate_http::problem::Problem;

/// The header in which browsers tell the site of a request's page.
pub(super) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

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
