//! Client of OCI registries (OCI distribution specification 1.1), for plugins in the CNCF Wasm layout: a manifest with one
//! layer, the component.
//!
//! Requests are sent by [`HostClient`](toolgate_sandbox::HostClient), like all of the daemon's own: the address of a host is
//! vetted before a connection, and TLS is rustls. `oci-client` is not used, since it depends on `reqwest`, which would be a
//! second HTTP client with a resolver of its own.
//!
//! A registry is not trusted. Each object is verified against its digest, every size and time is limited, and no error quotes
//! what a registry sent.

mod reference;
mod challenge;
mod session;
mod manifest;
mod pull;
mod push;

#[cfg(test)]
mod provider_tests;

pub use pull::{Pulled, pull};
pub use push::push;
pub use reference::{Reference, with_port};
pub use session::{Endpoint, Login, RegistrySession};
