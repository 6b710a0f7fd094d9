//! Permits for requests: [`Permitted`] by the rules, and [`Vetted`] with its resolved addresses.
//!
//! A request needs four lists to allow it: the plugin's capabilities, the operator's grant, the organization's policy and
//! the agent's document. They are not merged, so that an error can say which list lacks a rule, and which rule to add.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{Capabilities, FilesystemAccess, Grant};
use toolgate_api::network::{
    AddressKind, Agreement, Host, HostPattern, Network, NetworkRule, NetworkScheme, Target, TargetError,
    address_kind, is_reachable,
};

/// Longest path that a suggested rule names, in bytes: what a rule can hold.
const SUGGESTED_PATH_BYTES: usize = 1_000;

/// The files, requests and credentials that a call may access: capabilities, grant and policies together (B5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallAccess {
    asked: Arc<Capabilities>,
    granted: Arc<Grant>,
    policy: PolicyNetwork,
}

/// The network rules of the policies. An absent list allows every granted request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyNetwork {
    /// `network` of the organization's policy.
    pub organization: Option<Arc<[NetworkRule]>>,
    /// `network` of the agent's document.
    pub agent: Option<Arc<[NetworkRule]>>,
}

/// A request that the rules allow. Only [`CallAccess::permit`] creates one.
#[derive(Clone, Debug)]
pub struct Permitted {
    target: Arc<Target>,
    /// The index of the rule in the grant.
    rule: usize,
    granted: Arc<Grant>,
    has_credential: bool,
}

/// A request that may be sent to these addresses alone. Only [`Permitted::vet`] creates one.
#[derive(Clone, Debug)]
pub struct Vetted {
    permitted: Permitted,
    /// INVARIANT: not empty.
    addresses: Vec<SocketAddr>,
}

/// The check that denied a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// Its form: it is ambiguous, or of a kind that is never sent.
    Form,
    /// The plugin's capabilities do not allow it.
    Plugin,
    /// The operator's grant does not allow it.
    Grant,
    /// The organization's policy does not allow it.
    Organization,
    /// The agent's document does not allow it.
    Agent,
    /// Its host has an address that is not reachable.
    Address,
}

/// Why a request is not sent, and which rule would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDenial {
    /// The check that denied a request.
    pub by: DeniedBy,
    /// The error message.
    pub message: String,
    /// How to fix it.
    pub hint: String,
    /// The fields to add to the grant, if that would allow it.
    pub grant: Option<Value>,
}

impl CallAccess {
    /// The settings that the grant gives to a component without the plugin contract.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.granted.settings
    }

    /// Combines the capabilities of a plugin with its grant.
    pub fn new(asked: Arc<Capabilities>, granted: Arc<Grant>) -> Self {
        Self { asked, granted, policy: PolicyNetwork::default() }
    }

    /// Returns the same access, narrowed by the policies.
    #[must_use]
    pub fn with_policy(&self, policy: PolicyNetwork) -> Self {
        Self { policy, ..self.clone() }
    }

    /// Returns the part of an approval's binding that depends on the access: canonical JSON. It omits policy rules about hosts
    /// that the grant does not allow, so that an edit for other tools does not void the approval.
    pub(crate) fn binding(&self) -> Value {
        let mut binding = json!({"asked": self.asked, "granted": self.granted});
        let layers = [("organization", &self.policy.organization), ("agent", &self.policy.agent)];
        for (layer, rules) in layers {
            if let Some(rules) = rules.as_ref().filter(|_| self.has_network()) {
                let meets_granted = |rule: &&NetworkRule| {
                    self.granted.network.iter().any(|own| own.host.overlaps(&rule.host))
                };
                binding[layer] = rules.iter().filter(meets_granted).map(|rule| json!(rule)).collect();
            }
        }
        binding
    }

    /// Whether the plugin asks for files that the grant withholds.
    pub fn withholds_files(&self) -> bool {
        self.asked.filesystem > self.granted.filesystem
    }

    /// The files that the call may access.
    pub fn filesystem(&self) -> FilesystemAccess {
        self.asked.filesystem.min(self.granted.filesystem)
    }

    /// The providers whose credentials the call may use.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        let asked = self.asked.credentials.iter().map(String::as_str);
        asked.filter(|provider| self.granted.credentials.iter().any(|granted| granted == provider))
    }

    /// Whether credentials of the session's user may be used.
    pub fn may_use_user_credentials(&self) -> bool {
        self.granted.user_credentials
    }

    /// Whether the call may call other tools.
    pub fn may_call_tools(&self) -> bool {
        self.asked.calls && self.granted.calls
    }

    /// Whether the call may send and read messages.
    pub fn may_message(&self) -> bool {
        self.asked.messages && self.granted.messages
    }

    /// Whether upstreams are told the trace of the call.
    pub fn tells_trace(&self) -> bool {
        self.granted.trace_context
    }

    /// Whether some request could be allowed.
    pub fn has_network(&self) -> bool {
        !self.asked.network.is_empty() && !self.granted.network.is_empty()
    }

    /// Decides about a request by the rules, before its host is resolved.
    pub fn permit(&self, target: impl Into<Arc<Target>>) -> Result<Permitted, NetworkDenial> {
        let target = target.into();
        let is_allowed = |rules: &[NetworkRule]| rules.iter().any(|rule| rule.allows(&target));
        let denied = |by, rules: &[NetworkRule]| NetworkDenial::by_rules(by, rules, &target, self);
        if !is_allowed(&self.asked.network) {
            return Err(denied(DeniedBy::Plugin, &self.asked.network));
        }
        let rule = self.granted.network.iter().position(|rule| rule.allows(&target));
        let Some(rule) = rule.filter(|_| self.granted.allows_plain_http(&target)) else {
            return Err(denied(DeniedBy::Grant, &self.granted.network));
        };
        let layers =
            [(DeniedBy::Organization, &self.policy.organization), (DeniedBy::Agent, &self.policy.agent)];
        for (by, rules) in layers {
            if let Some(rules) = rules.as_ref().filter(|rules| !is_allowed(rules)) {
                return Err(denied(by, rules));
            }
        }
        Ok(Permitted { target, rule, granted: Arc::clone(&self.granted), has_credential: false })
    }
}

impl Permitted {
    /// The target of the request.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// The rule of the grant that allows it.
    pub fn rule(&self) -> &NetworkRule {
        &self.granted.network[self.rule]
    }

    /// The operator's grant, with its private networks and certificates.
    pub fn grant(&self) -> &Arc<Grant> {
        &self.granted
    }

    /// Returns the same request with a credential: over plain HTTP, only private addresses are then vetted (K4).
    #[must_use]
    pub fn with_credential(self) -> Self {
        Self { has_credential: true, ..self }
    }

    /// Decides about the resolved addresses of its host. One unreachable address denies the request, since a name server that
    /// returns it may return other addresses in the next response (DNS rebinding).
    pub fn vet(self, addresses: &[IpAddr]) -> Result<Vetted, NetworkDenial> {
        let is_other = matches!(self.target.host(), Host::Address(address) if addresses != [*address]);
        if is_other || addresses.is_empty() {
            return Err(NetworkDenial::no_address(&self.target));
        }
        let networks = &self.granted.private_networks;
        let unreachable: Vec<IpAddr> =
            addresses.iter().copied().filter(|address| !is_reachable(*address, networks)).collect();
        if let [address, ..] = *unreachable {
            return Err(NetworkDenial::by_address(&self.target, address, &unreachable));
        }
        let is_plain = self.target.scheme() == NetworkScheme::Http;
        let exposes = |address: &&IpAddr| !matches!(address_kind(**address), AddressKind::Private(_));
        if self.has_credential
            && is_plain
            && let Some(address) = addresses.iter().find(exposes)
        {
            return Err(NetworkDenial::plain_credential(&self.target, *address));
        }
        let port = self.target.port();
        let addresses = addresses.iter().map(|address| SocketAddr::new(*address, port)).collect();
        Ok(Vetted { permitted: self, addresses })
    }
}

impl Vetted {
    /// The permitted request.
    pub fn request(&self) -> &Permitted {
        &self.permitted
    }

    /// The addresses to connect to, in the order of the DNS response; never empty.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl NetworkDenial {
    /// The error of an environment without network access.
    pub fn no_network() -> Self {
        Self {
            by: DeniedBy::Form,
            message: "requests cannot be made here".to_owned(),
            hint: "call the tool through a daemon".to_owned(),
            grant: None,
        }
    }

    fn by_rules(by: DeniedBy, rules: &[NetworkRule], target: &Target, access: &CallAccess) -> Self {
        let nearest = rules.iter().map(|rule| rule.agreement(target)).max().unwrap_or(Agreement::Nothing);
        let host = target.host();
        let message = match nearest {
            Agreement::Nothing => format!("the tool may not reach `{host}`"),
            Agreement::Host => format!("the tool may not reach `{host}` by {}", target.scheme().as_str()),
            Agreement::Scheme => format!("the tool may not reach port {} of `{host}`", target.port()),
            Agreement::Port => format!("the tool may not send {} to `{host}`", target.method()),
            Agreement::Method => format!("the tool may not reach this path of `{host}`"),
            Agreement::Whole => format!("the tool may not reach `{host}` without TLS"),
        };
        let asked = access.asked.network.iter().find(|rule| rule.allows(target));
        let mut grant = suggestion(target, asked.filter(|_| by == DeniedBy::Grant));
        if !access.granted.allows_plain_http(target) {
            grant["plain_http"] = json!([format!("{host}:{}", target.port())]);
        }
        // So that one step is enough.
        let addresses = match host {
            Host::Address(address) if is_grantable(*address) => vec![*address],
            Host::Name(name) if &**name == "localhost" => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            _ => Vec::new(),
        };
        if !addresses.is_empty() {
            grant["private_networks"] = networks_of(&addresses);
        }
        let hint = match by {
            DeniedBy::Plugin => {
                format!(
                    "its author can ask for it in its `capabilities`, and an operator add it to the grant: {grant}"
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

    /// The denial for the first of the unreachable addresses; the grant is for all of them.
    fn by_address(target: &Target, address: IpAddr, unreachable: &[IpAddr]) -> Self {
        let host = target.host();
        let why = match address_kind(address) {
            AddressKind::Private(why) | AddressKind::Metadata(why) | AddressKind::Never(why) => why,
            // Public addresses are reached.
            AddressKind::Public => "public",
        };
        let message = format!("the tool may not reach `{host}`: its address {address} is not public ({why})");
        let can_be = unreachable.iter().all(|address| is_grantable(*address));
        let grant = can_be.then(|| json!({"private_networks": networks_of(unreachable)}));
        let hint = match &grant {
            Some(grant) => format!("an operator can add it to the grant: {grant}"),
            None => "addresses of this kind are never reached; use another host".to_owned(),
        };
        Self { by: DeniedBy::Address, message, hint, grant }
    }

    /// The denial of a request that would send a credential without TLS over a network that anyone may read.
    fn plain_credential(target: &Target, address: IpAddr) -> Self {
        let host = target.host();
        Self {
            by: DeniedBy::Address,
            message: format!("the credential for `{host}` is not sent over plain HTTP to {address}, which is not a private address"),
            hint: "use `https` in the tool's URL and in `bound_to`, or a host with a loopback or private address that the grant names in `private_networks`".to_owned(),
            grant: None,
        }
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

impl From<TargetError> for NetworkDenial {
    fn from(error: TargetError) -> Self {
        Self { by: DeniedBy::Form, message: error.message, hint: error.hint.to_owned(), grant: None }
    }
}

fn is_grantable(address: IpAddr) -> bool {
    matches!(address_kind(address), AddressKind::Private(_) | AddressKind::Metadata(_))
}

fn networks_of(addresses: &[IpAddr]) -> Value {
    addresses.iter().map(|address| json!(Network::single(*address))).collect()
}

/// The error of a call that ended because of it.
impl From<&NetworkDenial> for CallError {
    fn from(denied: &NetworkDenial) -> Self {
        let details = match &denied.grant {
            Some(grant) => json!({"denied_by": denied.by, "grant": grant}),
            None => json!({"denied_by": denied.by}),
        };
        CallError::new(ErrorType::NetworkDenied, &denied.message, &denied.hint).with_details(details)
    }
}

/// The grant for a request, and for others of its kind: as the plugin asks for it where that names the host, so that one
/// step is enough; otherwise the folder of the request's path, with the methods that the plugin asks for.
fn suggestion(target: &Target, asked: Option<&NetworkRule>) -> Value {
    if let Some(asked) = asked.filter(|asked| matches!(asked.host, HostPattern::Exact(_))) {
        return json!({"network": [asked]});
    }
    let mut rule = NetworkRule::for_target(target);
    if let Some(asked) = asked {
        rule.methods = asked.methods.clone().or(rule.methods);
        rule.path = rule.path.map(folder);
    }
    rule.path = rule.path.filter(|path| path.len() <= SUGGESTED_PATH_BYTES);
    json!({"network": [rule]})
}

/// The folder of a path; a path at the top stays, since its folder is the whole host.
fn folder(path: String) -> String {
    match path.rfind('/') {
        Some(end) if end > 0 => path[..=end].to_owned(),
        _ => path,
    }
}
