//! Network rules of grants, policies, agents and descriptors, and the parts they consist of.
//!
//! A text that two programs could read in two ways (another spelling of an address, dot segments, encoded slashes) is
//! refused and never rewritten, so a rule and the request that it allows mean the same destination.

mod address;
mod host;
mod path;
mod range;
mod rule;
mod target;

pub use address::{AddressKind, address_kind, can_be_granted, is_reachable};
pub use host::{Host, HostError, HostPattern};
pub use path::{has_bare_percent, is_within, validate_path, validate_rule_path};
pub use range::{Network, NetworkError};
pub use rule::{Agreement, CredentialBinding, NetworkRule, NetworkScheme, granted_rules, policy_rules};
pub use target::{Target, TargetError, parse_authority, validate_method};

#[cfg(test)]
mod tests;
