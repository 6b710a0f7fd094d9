//! Guest of the benchmark of outgoing HTTP.

use std::io;

use toolgate_sdk::{Error, http, plugin, tool};

/// Sends GET requests to one URL, one after another, and reads each response body to its end.
#[tool(read_only)]
fn repeat(
    /// URL of the requests
    url: String,
    /// Number of requests
    times: u32,
) -> Result<u64, Error> {
    let mut bytes = 0;
    for _ in 0..times {
        let mut answer = http::get(&url).send()?.error_for_status()?.into_reader();
        bytes += io::copy(&mut answer, &mut io::sink()).map_err(|error| Error::new(error.to_string()))?;
    }
    Ok(bytes)
}

plugin! {
    "requests",
    capabilities(network = ["https://api.upstream.test:8443/"], credentials = ["stripe"]),
    repeat
}
