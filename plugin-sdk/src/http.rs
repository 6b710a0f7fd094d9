//! Requests over HTTP, to the hosts that the plugin asks for and its operator grants.
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
//! The host resolves, connects and speaks TLS, decodes what is compressed, and adds the credentials that an operator bound
//! to the address: a plugin sees none of them. What is not granted is answered with [`Error::Denied`] before anything
//! leaves. Redirects are answers like others: whether to follow one to another host is the tool's decision, and a request
//! of its own.
//!
//! A tool passes errors on with `?`. The model then reads what happened, and the failure says whether to call again.
//!
//! In native tests [`testing::network`](crate::testing::network) answers; without it no request is made.

pub(crate) mod request;

mod address;
mod error;
mod excerpt;
mod headers;
pub(crate) mod response;

#[cfg(target_family = "wasm")]
mod host;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod scripted;

#[cfg(target_family = "wasm")]
use host as transport;
#[cfg(not(target_family = "wasm"))]
use scripted as transport;

pub use error::{Error, Unavailable};
pub use headers::Headers;
pub use request::Request;
pub use response::Response;

/// The most that is read of an answer's content unless [`Request::max_body_bytes`] says otherwise. JSON takes several
/// times its length in memory once it is read, and a call has 64 MiB by default.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Begins a GET request.
pub fn get(url: impl AsRef<str>) -> Request {
    request("GET", url)
}

/// Begins a HEAD request: its answer has no content.
pub fn head(url: impl AsRef<str>) -> Request {
    request("HEAD", url)
}

/// Begins a POST request.
pub fn post(url: impl AsRef<str>) -> Request {
    request("POST", url)
}

/// Begins a PUT request.
pub fn put(url: impl AsRef<str>) -> Request {
    request("PUT", url)
}

/// Begins a PATCH request.
pub fn patch(url: impl AsRef<str>) -> Request {
    request("PATCH", url)
}

/// Begins a DELETE request.
pub fn delete(url: impl AsRef<str>) -> Request {
    request("DELETE", url)
}

/// Begins a request with any method, in capitals. CONNECT and TRACE are never sent.
pub fn request(method: &str, url: impl AsRef<str>) -> Request {
    Request::new(method, url.as_ref())
}
