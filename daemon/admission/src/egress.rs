//! Decides whether a request may leave, before a name is resolved and again when its addresses are known (B3).
//!
//! One parse makes a [`Target`] out of what a guest wrote. [`Reach::permit`] holds it against the rules and gives a
//! [`Permitted`]; [`Permitted::vet`] holds the addresses of its host against the table of special ranges and gives a
//! [`Vetted`], the only thing that is ever connected to. The fields of all of them are private and nothing else makes
//! one, so what is decided about, connected to, named to TLS and recorded is one value.
//!
//! Nothing here is rewritten into something acceptable: a spelling that two programs could read in two ways is refused.
//!
//! ```compile_fail
//! # fn forge(target: toolgate_admission::Target) {
//! let permitted = toolgate_admission::Permitted { target };
//! # }
//! ```

mod address;
mod grant;
mod permit;

pub use address::{AddressKind, kind_of};
pub(crate) use grant::read_network;
pub use grant::{Grant, PlainHttp};
pub use permit::{Denied, DeniedBy, Left, Permitted, Reach, Vetted};
pub use toolgate_api::network::{
    Host, HostError, HostPattern, Network, NetworkError, NetworkRule, NetworkScheme, Target, TargetError,
};

#[cfg(test)]
mod tests;
