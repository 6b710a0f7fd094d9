//! Decides whether an outgoing request may be sent: first by the rules, then by the addresses of its host (B3).
//!
//! A [`Target`] is parsed once from the guest's request. [`CallAccess::permit`] matches it against the rules and returns a
//! [`Permitted`]; [`Permitted::vet`] checks the resolved addresses against the table of special ranges and returns a
//! [`Vetted`], the only type that the connector takes. This prevents SSRF and the TOCTOU race of DNS rebinding: all fields
//! are private, so the decision, the connection, TLS and the audit log use one value.
//!
//! Nothing is rewritten into an acceptable form: a spelling that two parsers could read differently is refused.
//!
//! ```compile_fail
//! # fn forge(target: toolgate_api::network::Target) {
//! let permitted = toolgate_admission::Permitted { target };
//! # }
//! ```

mod permit;

pub use permit::{CallAccess, DeniedBy, NetworkDenial, Permitted, PolicyNetwork, Vetted};

#[cfg(test)]
mod tests;
