//! Reads the web for a model: one address, and what it says as text.
//!
//! The plugin asks for every host, and has none of them: a grant names hosts, so the operator says which may be read, and
//! an agent's own `network` leaves fewer. Each redirect is a request of its own that is decided about like the first.
//!
//! In order: [`fetch`] (the tool), [`follow`] (requests), [`content`] (what the bytes are, and their text).

mod fetch;

mod content;
mod follow;

use toolgate_sdk::plugin;

plugin! {
    "http",
    publisher = "Toolgate",
    category = "Web",
    capabilities(network = ["GET,HEAD https://*", "GET,HEAD http://*"]),
    fetch::fetch
}

#[cfg(test)]
mod tests;
