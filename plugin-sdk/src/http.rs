//! HTTP requests to the hosts that the plugin requests and its operator grants.
//!
//! ```
//! use serde::Deserialize;
//! use toolgate_sdk::{Error, http, plugin, tool};
//!
//! #[derive(Deserialize)]
//! struct Weather {
//!     celsius: f64,
//! }
//!
//! /// Gives the temperature in a city now.
//! #[tool(read_only)]
//! fn temperature(
//!     /// The city, as `Paris`
//!     city: String,
//! ) -> Result<f64, Error> {
//!     let weather: Weather = http::get("https://api.example.com/v1/now")
//!         .query("city", city)
//!         .send()?
//!         .error_for_status()?
//!         .json()?;
//!     Ok(weather.celsius)
//! }
//!
//! plugin!("weather", capabilities(network = ["GET https://api.example.com/v1/"]), temperature);
//! # fn main() {}
//! ```
//!
//! The host resolves names, connects, does TLS, decompresses, and adds the credentials that an operator bound to the
//! address: a plugin sees none of them. A request that is not granted fails with [`Error::Denied`] before anything is sent.
//! Redirects are not followed: a tool decides about them, and a request to another host needs its own grant.
//!
//! A tool passes errors on with `?`. The model then reads what happened, and whether to call again.
//!
//! In native tests [`testing::network`](crate::testing::network) sends the responses; without it every request fails.

pub(crate) mod request;

mod address;
mod error;
mod excerpt;
mod headers;
pub(crate) mod response;

#[cfg(not(target_family = "wasm"))]
pub(crate) mod mock_http;
#[cfg(target_family = "wasm")]
mod wasi_http;

#[cfg(not(target_family = "wasm"))]
use mock_http as transport;
#[cfg(target_family = "wasm")]
use wasi_http as transport;

pub use error::{Error, Unavailable};
pub use excerpt::excerpt;
pub use headers::Headers;
pub use request::Request;
pub use response::Response;

/// Most bytes of a response body, unless [`Request::max_body_bytes`] sets another limit. Parsed JSON takes several times its
/// length in memory, and a call has 64 MiB by default.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Starts a GET request.
pub fn get(url: impl AsRef<str>) -> Request {
    request("GET", url)
}

/// Starts a HEAD request, whose response has no body.
pub fn head(url: impl AsRef<str>) -> Request {
    request("HEAD", url)
}

/// Starts a POST request.
pub fn post(url: impl AsRef<str>) -> Request {
    request("POST", url)
}

/// Starts a PUT request.
pub fn put(url: impl AsRef<str>) -> Request {
    request("PUT", url)
}

/// Starts a PATCH request.
pub fn patch(url: impl AsRef<str>) -> Request {
    request("PATCH", url)
}

/// Starts a DELETE request.
pub fn delete(url: impl AsRef<str>) -> Request {
    request("DELETE", url)
}

/// Starts a request with any method, in capitals. The host refuses CONNECT and TRACE.
pub fn request(method: &str, url: impl AsRef<str>) -> Request {
    Request::new(method, url.as_ref())
}
