//! Requests, one after the other until one is answered with content.
//!
//! The host follows no redirect: each leads to a request of our own, which the host decides about like the first. So a
//! page that was granted cannot lead to one that was not.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::Error;
use toolgate_sdk::http::{self, Response};
use url::Url;

use crate::fetch::Method;

/// Two or three are common: to TLS, to `www`, to the language. More go in circles.
const MAX_REDIRECTS: usize = 5;

/// The types that are read best come first.
const ACCEPT: &str = "text/markdown, text/html;q=0.9, application/json;q=0.9, text/*;q=0.8, */*;q=0.5";

/// An answer that led to another address.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Redirect {
    /// Its status, as 301
    pub status: u16,
    /// The address that gave it
    pub url: String,
}

/// The last answer, and the way to it.
pub struct Followed {
    pub response: Response,
    pub url: Url,
    pub redirects: Vec<Redirect>,
}

/// Requests an address, and those that it leads to.
pub fn follow(method: Method, mut url: Url) -> Result<Followed, Error> {
    let mut redirects: Vec<Redirect> = Vec::new();
    loop {
        url.set_fragment(None);
        let response = request(method, &url).map_err(|cause| failure_after(&redirects, cause))?;
        let Some(location) = location(&response) else { return Ok(Followed { response, url, redirects }) };
        let next = next(&url, location)?;
        redirects.push(Redirect { status: response.status(), url: url.to_string() });
        if redirects.iter().any(|passed| passed.url == next.as_str()) {
            return Err(Error::new(format!(
                "the address leads back to itself: {} → `{next}`",
                way(&redirects)
            )));
        }
        if redirects.len() > MAX_REDIRECTS {
            return Err(Error::new(format!(
                "there are more than {MAX_REDIRECTS} redirects: {}; fetch `{next}` to go on",
                way(&redirects)
            )));
        }
        url = next;
    }
}

fn request(method: Method, url: &Url) -> Result<Response, http::Error> {
    let request = match method {
        Method::Get => http::get(url),
        Method::Head => http::head(url),
    };
    request.header("accept", ACCEPT).send()
}

/// The target of a redirect. Without an address it is an answer like others.
fn location(response: &Response) -> Option<&str> {
    let leads_on = matches!(response.status(), 301 | 302 | 303 | 307 | 308);
    response.header("location").filter(|_| leads_on)
}

fn next(url: &Url, location: &str) -> Result<Url, Error> {
    let mut next = url.join(location).map_err(|error| {
        Error::new(format!("`{url}` leads to `{location}`, which is no address: {error}"))
    })?;
    // Two addresses of the same page must be equal.
    next.set_fragment(None);
    match next.scheme() {
        "https" | "http" => Ok(next),
        _ => Err(Error::new(format!("`{url}` leads to `{next}`, which is not on the web"))),
    }
}

/// An address on the way cannot be used.
#[derive(Debug)]
struct FailedOnTheWay {
    way: String,
    cause: http::Error,
}

impl fmt::Display for FailedOnTheWay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "redirected by {}", self.way)
    }
}

impl std::error::Error for FailedOnTheWay {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

fn failure_after(redirects: &[Redirect], cause: http::Error) -> Error {
    match redirects {
        [] => cause.into(),
        _ => FailedOnTheWay { way: way(redirects), cause }.into(),
    }
}

fn way(redirects: &[Redirect]) -> String {
    redirects.iter().map(|redirect| format!("`{}`", redirect.url)).collect::<Vec<_>>().join(" → ")
}
