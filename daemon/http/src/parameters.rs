//! Query parameters: a parameter that the description of an operation does not list is refused.
//!
//! A misspelt parameter would otherwise be ignored, and the response would show more than the client asked for, or
//! something else. The descriptions are read once, when the routes are built; a request without a query costs one
//! check.

use axum::http::{Method, Uri};
use toolgate_api::error::ErrorType;
use toolgate_api::text::escape_for_display;
use url::form_urlencoded;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem, Paths};

use super::problem::Problem;

/// Longest parameter name that a message repeats, in characters.
const NAME_CHARS: usize = 100;

/// The query parameters of the operations of one route, by method.
pub(super) struct Parameters(Vec<(Method, Vec<String>)>);

impl Parameters {
    /// Collects the query parameters that these operations describe.
    pub(super) fn of(paths: &Paths) -> Self {
        let operations = paths.paths.values().flat_map(|item| {
            let PathItem { get, put, post, delete, .. } = item;
            [(Method::GET, get), (Method::PUT, put), (Method::POST, post), (Method::DELETE, delete)]
        });
        let described =
            operations.filter_map(|(method, operation)| Some((method, names(operation.as_ref()?))));
        Self(described.collect())
    }

    /// Refuses a request with a query parameter that its operation does not describe.
    pub(super) fn expect_known(&self, method: &Method, address: &Uri) -> Result<(), Problem> {
        let Some(query) = address.query() else { return Ok(()) };
        let taken = self.names_of(method);
        let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
        names
            .find(|name| !taken.iter().any(|taken| taken == name))
            .map_or(Ok(()), |name| Err(unknown(&name, taken)))
    }

    /// The parameters of a method. `HEAD` has those of `GET`.
    fn names_of(&self, method: &Method) -> &[String] {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.iter().find(|(known, _)| known == method).map_or(&[], |(_, names)| names)
    }
}

fn names(operation: &Operation) -> Vec<String> {
    let parameters = operation.parameters.iter().flatten();
    let queried = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if matches!(parameter.parameter_in, ParameterIn::Query) => Some(&parameter.name),
        _ => None,
    });
    queried.cloned().collect()
}

fn unknown(name: &str, taken: &[String]) -> Problem {
    let takes = match taken {
        [] => "none".to_owned(),
        taken => taken.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    Problem::new(
        ErrorType::InvalidRequest,
        format!("there is no query parameter `{}` here", escape_for_display(name, NAME_CHARS)),
        format!("leave it out, or correct its name; the query parameters of this operation: {takes}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(utoipa::IntoParams)]
    #[into_params(parameter_in = Query)]
    #[allow(dead_code, reason = "described by the derive")]
    struct Paged {
        cursor: Option<String>,
        limit: Option<u32>,
    }

    #[utoipa::path(get, path = "/things/{id}", params(("id" = String, Path), Paged), responses())]
    #[allow(dead_code, reason = "described by the derive")]
    fn things() {}

    #[utoipa::path(put, path = "/things/{id}", params(("id" = String, Path), ("If-Match" = String, Header)), responses())]
    #[allow(dead_code, reason = "described by the derive")]
    fn put() {}

    #[derive(utoipa::OpenApi)]
    #[openapi(paths(things, put))]
    struct Document;

    fn check(method: &Method, address: &str) -> Result<(), (String, String)> {
        let parameters = Parameters::of(&<Document as utoipa::OpenApi>::openapi().paths);
        let told = parameters.expect_known(method, &address.parse().unwrap());
        told.map_err(|Problem(error)| (error.message, error.hint))
    }

    #[test]
    fn what_an_operation_describes_is_taken_in_any_spelling_and_order() {
        for address in ["/", "/?", "/?limit=1", "/?limit=1&cursor=x", "/?%6cimit=1&&", "/?cursor"] {
            assert_eq!(check(&Method::GET, address), Ok(()), "{address}");
            assert_eq!(check(&Method::HEAD, address), Ok(()), "{address}");
        }
        assert_eq!(check(&Method::PUT, "/?"), Ok(()));
    }

    #[test]
    fn what_it_does_not_describe_is_refused_with_what_it_does() {
        let (message, hint) = check(&Method::GET, "/?cursor=x&limitt=1").unwrap_err();
        assert_eq!(message, "there is no query parameter `limitt` here");
        assert!(hint.ends_with(": `cursor`, `limit`"), "{hint}");
        // Path parameters and headers are not query parameters.
        for address in ["/?id=1", "/?If-Match=1", "/?limit=1", "/?=1"] {
            let (_, hint) = check(&Method::PUT, address).unwrap_err();
            assert!(hint.ends_with(": none"), "{address}: {hint}");
        }
    }
}
