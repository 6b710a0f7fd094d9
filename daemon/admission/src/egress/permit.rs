//! The permits: a request that the rules allow, and one whose addresses are known and allowed too.
//!
//! A call reaches what its plugin asks for, its operator grants, and its organization's policy and its agent's document
//! leave; each of the four is kept apart instead of being folded into one list, so that a refusal can say whose word is
//! missing and what it would be.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_api::network::{Agreement, Host, Network, NetworkRule, NetworkScheme, Target, TargetError};

use super::address::{AddressKind, is_reachable, kind_of};
use super::grant::Grant;
use crate::descriptor::{Capabilities, FilesystemAccess};
use crate::error::{CallError, ErrorType};

/// Longest path that a suggested rule names, in bytes: what a rule can hold.
const SUGGESTED_PATH_BYTES: usize = 1_000;

/// What a call may reach beyond computing: asked for, granted, and left by policy (B5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    asked: Arc<Capabilities>,
    granted: Arc<Grant>,
    left: Left,
}

/// The requests that are left of the granted ones, by each layer that says so. Absent: all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// By the organization's policy.
    pub organization: Option<Arc<[NetworkRule]>>,
    /// By the agent's document.
    pub agent: Option<Arc<[NetworkRule]>>,
}

/// A request that the rules allow. Only [`Reach::permit`] makes one.
#[derive(Clone, Debug)]
pub struct Permitted {
    target: Arc<Target>,
    /// The rule's place in the grant.
    rule: usize,
    granted: Arc<Grant>,
}

/// A request that may be sent to these addresses and no others. Only [`Permitted::vet`] makes one.
#[derive(Clone, Debug)]
pub struct Vetted {
    permitted: Permitted,
    /// INVARIANT: not empty.
    addresses: Vec<SocketAddr>,
}

/// Whose word is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// Nobody can allow it: it can be read in two ways, or is never sent.
    Form,
    /// The plugin does not ask for it.
    Plugin,
    /// The operator does not grant it.
    Grant,
    /// The organization's policy leaves it out.
    Organization,
    /// The agent's document leaves it out.
    Agent,
    /// Its host has an address that is not to be reached.
    Address,
}

/// A request that is not made, and what would have to be said so that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Whose word is missing.
    pub by: DeniedBy,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// What to add to the grant, where that would help.
    pub grant: Option<Value>,
}

impl Reach {
    /// What is left of the asked when this is granted.
    pub fn new(asked: Arc<Capabilities>, granted: Arc<Grant>) -> Self {
        Self { asked, granted, left: Left::default() }
    }

    /// The same where policy leaves these requests.
    #[must_use]
    pub fn narrowed_to(&self, left: Left) -> Self {
        Self { left, ..self.clone() }
    }

    /// What an approval is bound to: JSON that reads the same as long as the same is reached. What policy says of hosts
    /// that are not granted anyway is not in it, so that an edit for other tools voids no approval.
    pub(crate) fn bound(&self) -> Value {
        let mut bound = json!({"asked": self.asked, "granted": self.granted});
        let layers = [("organization", &self.left.organization), ("agent", &self.left.agent)];
        for (layer, rules) in layers {
            if let Some(rules) = rules.as_ref().filter(|_| self.has_network()) {
                let meets_granted = |rule: &&NetworkRule| {
                    self.granted.network.iter().any(|own| own.host.overlaps(&rule.host))
                };
                bound[layer] = rules.iter().filter(meets_granted).map(|rule| json!(rule)).collect();
            }
        }
        bound
    }

    /// Which files.
    pub fn filesystem(&self) -> FilesystemAccess {
        self.asked.filesystem.min(self.granted.filesystem)
    }

    /// The providers whose credentials may be used: asked for and granted.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        let asked = self.asked.credentials.iter().map(String::as_str);
        asked.filter(|provider| self.granted.credentials.iter().any(|granted| granted == provider))
    }

    /// Whether credentials of the session's user may be used.
    pub fn may_use_user_credentials(&self) -> bool {
        self.granted.user_credentials
    }

    /// Whether any request could be allowed at all.
    pub fn has_network(&self) -> bool {
        !self.asked.network.is_empty() && !self.granted.network.is_empty()
    }

    /// Decides about a request, by the rules alone.
    pub fn permit(&self, target: impl Into<Arc<Target>>) -> Result<Permitted, Denied> {
        let target = target.into();
        let is_allowed = |rules: &[NetworkRule]| rules.iter().any(|rule| rule.allows(&target));
        let denied = |by, rules: &[NetworkRule]| Denied::by_rules(by, rules, &target, &self.granted);
        if !is_allowed(&self.asked.network) {
            return Err(denied(DeniedBy::Plugin, &self.asked.network));
        }
        let rule = self.granted.network.iter().position(|rule| rule.allows(&target));
        let Some(rule) = rule.filter(|_| self.granted.allows_plainness_of(&target)) else {
            return Err(denied(DeniedBy::Grant, &self.granted.network));
        };
        let layers = [(DeniedBy::Organization, &self.left.organization), (DeniedBy::Agent, &self.left.agent)];
        for (by, rules) in layers {
            if let Some(rules) = rules.as_ref().filter(|rules| !is_allowed(rules)) {
                return Err(denied(by, rules));
            }
        }
        Ok(Permitted { target, rule, granted: Arc::clone(&self.granted) })
    }
}

impl Permitted {
    /// Where the request goes.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// The rule of the grant that allows it.
    pub fn rule(&self) -> &NetworkRule {
        &self.granted.network[self.rule]
    }

    /// What the operator grants: the networks that are reached beside the public one, and the certificates that are
    /// trusted beside the public ones.
    pub fn granted(&self) -> &Arc<Grant> {
        &self.granted
    }

    /// Whether a credential may travel with it: never over plain HTTP (K4).
    pub fn may_carry_credential(&self) -> bool {
        self.target.scheme() == NetworkScheme::Https
    }

    /// Decides about the addresses of its host. One that may not be reached refuses all, since whoever answers with it
    /// answers with something else a moment later.
    pub fn vet(self, addresses: &[IpAddr]) -> Result<Vetted, Denied> {
        if let Host::Address(address) = self.target.host()
            && addresses != [*address]
        {
            return Err(Denied::no_address(&self.target));
        }
        if addresses.is_empty() {
            return Err(Denied::no_address(&self.target));
        }
        match addresses.iter().find(|address| !is_reachable(**address, &self.granted.private_networks)) {
            Some(address) => Err(Denied::by_address(&self.target, *address)),
            None => {
                let port = self.target.port();
                let addresses = addresses.iter().map(|address| SocketAddr::new(*address, port)).collect();
                Ok(Vetted { permitted: self, addresses })
            }
        }
    }
}

impl Vetted {
    /// What was permitted.
    pub fn permitted(&self) -> &Permitted {
        &self.permitted
    }

    /// Where to connect to, in the order of the answer; never empty.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Denied {
    /// Where there is no network to reach anything by.
    pub fn no_network() -> Self {
        Self {
            by: DeniedBy::Form,
            message: "requests cannot be made here".to_owned(),
            hint: "call the tool through a daemon".to_owned(),
            grant: None,
        }
    }

    fn by_rules(by: DeniedBy, rules: &[NetworkRule], target: &Target, granted: &Grant) -> Self {
        let nearest = rules.iter().map(|rule| rule.agreement(target)).max().unwrap_or(Agreement::Nothing);
        let message = match (nearest, by) {
            (Agreement::Nothing, _) => format!("the tool may not reach `{}`", target.host()),
            (Agreement::Host, _) => {
                format!("the tool may not reach `{}` by {}", target.host(), target.scheme().as_str())
            }
            (Agreement::Scheme, _) => {
                format!("the tool may not reach port {} of `{}`", target.port(), target.host())
            }
            (Agreement::Port, _) => {
                format!("the tool may not send {} to `{}`", target.method(), target.host())
            }
            (Agreement::Method, _) => format!("the tool may not reach this path of `{}`", target.host()),
            (Agreement::Whole, _) => format!("the tool may not reach `{}` without TLS", target.host()),
        };
        let mut grant = suggestion(target);
        if !granted.allows_plainness_of(target) {
            grant["plain_http"] = json!([format!("{}:{}", target.host(), target.port())]);
        }
        let hint = match by {
            DeniedBy::Plugin => {
                format!(
                    "its author can ask for it in `plugin!`, and an operator add it to the grant: {grant}"
                )
            }
            DeniedBy::Organization => {
                format!("add it to `network` of the organization's policy: {}", grant["network"])
            }
            DeniedBy::Agent => format!("add it to `network` of the agent's document: {}", grant["network"]),
            _ => format!("an operator can add it to the grant: {grant}"),
        };
        let is_of_policy = matches!(by, DeniedBy::Organization | DeniedBy::Agent);
        let grant = (!is_of_policy).then_some(grant);
        Self { by, message, hint, grant }
    }

    fn by_address(target: &Target, address: IpAddr) -> Self {
        let host = target.host();
        let (why, can_be) = match kind_of(address) {
            AddressKind::Private(why) | AddressKind::Metadata(why) => (why, true),
            AddressKind::Never(why) => (why, false),
            // Public addresses are reached.
            AddressKind::Public => ("public", false),
        };
        let message = format!("the tool may not reach `{host}`: its address {address} is not public ({why})");
        let grant = can_be.then(|| json!({"private_networks": [Network::single(address)]}));
        let hint = match &grant {
            Some(grant) => format!("an operator can add it to the grant: {grant}"),
            None => "addresses of this kind are never reached; use another host".to_owned(),
        };
        Self { by: DeniedBy::Address, message, hint, grant }
    }

    fn no_address(target: &Target) -> Self {
        Self {
            by: DeniedBy::Address,
            message: format!("the host `{}` has no address", target.host()),
            hint: "check the name of the host".to_owned(),
            grant: None,
        }
    }
}

impl From<TargetError> for Denied {
    fn from(error: TargetError) -> Self {
        Self { by: DeniedBy::Form, message: error.message, hint: error.hint.to_owned(), grant: None }
    }
}

/// What the caller is told when a call ended because of it.
impl From<&Denied> for CallError {
    fn from(denied: &Denied) -> Self {
        let details = match &denied.grant {
            Some(grant) => json!({"denied_by": denied.by, "grant": grant}),
            None => json!({"denied_by": denied.by}),
        };
        CallError::new(ErrorType::NetworkDenied, &denied.message, &denied.hint).with_details(details)
    }
}

fn suggestion(target: &Target) -> Value {
    let mut rule = NetworkRule::for_target(target);
    rule.path = rule.path.filter(|path| path.len() <= SUGGESTED_PATH_BYTES);
    json!({"network": [rule]})
}
