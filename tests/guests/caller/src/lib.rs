//! Network guest: sends HTTP requests of every form, resolves names, and awaits timers.

mod request;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use request::fetch;
use toolgate_sdk::task::sleep;
use toolgate_sdk::{Error, plugin, tool};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, Method, OutgoingRequest, Scheme};
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;

/// Sends a GET request to an authority over HTTPS.
#[tool]
pub fn reach(
    /// Host and port
    authority: String,
    /// Path and query
    path: String,
) -> Result<String, Error> {
    let request = OutgoingRequest::new(Fields::new());
    let set = request
        .set_method(&Method::Get)
        .and_then(|()| request.set_scheme(Some(&Scheme::Https)))
        .and_then(|()| request.set_authority(Some(&authority)))
        .and_then(|()| request.set_path_with_query(Some(&path)));
    set.map_err(|()| Error::new("the request cannot be made"))?;
    let answer = handle(request, None).map_err(|code| Error::new(format!("{code:?}")))?;
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(_))) => Ok("answered".to_owned()),
        other => Err(Error::new(format!("{other:?}"))),
    }
}

/// Resolves a host name.
#[tool]
pub fn look_up(
    /// Host name
    name: String,
) -> Result<String, Error> {
    match resolve_addresses(&instance_network(), &name) {
        Ok(_) => Ok("asked".to_owned()),
        Err(code) => Err(Error::new(code.name())),
    }
}

/// Creates a header field of a given size.
#[tool]
pub fn header(
    /// Size of the field value, in bytes
    bytes: usize,
) -> Result<usize, Error> {
    let fields = Fields::new();
    fields.append("x-large", &vec![b'x'; bytes]).map_err(|error| Error::new(format!("{error:?}")))?;
    Ok(bytes)
}

/// Awaits two timers at once and returns which one fired first.
#[tool(read_only)]
pub async fn race(
    /// Duration of the left timer
    left_ms: u64,
    /// Duration of the right timer
    right_ms: u64,
) -> String {
    let mut left = pin!(sleep(Duration::from_millis(left_ms)));
    let mut right = pin!(sleep(Duration::from_millis(right_ms)));
    let first = poll_fn(|context| {
        if left.as_mut().poll(context).is_ready() {
            return Poll::Ready("left");
        }
        right.as_mut().poll(context).map(|()| "right")
    });
    first.await.to_owned()
}

plugin! {
    "caller",
    publisher = "Toolgate tests",
    category = "Tests",
    capabilities(network = [
        "https://example.invalid/",
        "https://*.upstream.test:8443/",
        "http://plain.upstream.test:8080/",
        "https://127.0.0.1:8443/",
    ], credentials = ["stripe"]),
    reach, fetch, look_up, header, race
}
