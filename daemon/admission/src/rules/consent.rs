//! Consents of organizations to plugins that the operator does not vouch for (C6).
//!
//! Consent is to what a plugin may reach and to its publisher, not to one file: a later version that asks for no more keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolgate_api::consent::ConsentState;
use toolgate_api::grant::Capabilities;
use toolgate_api::name::Namespace;

use super::catalogue::Plugin;

/// A plugin as an organization accepted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedPlugin {
    /// The accepted capabilities.
    pub capabilities: Capabilities,
    /// Its publisher, as the plugin declares it.
    pub publisher: Option<String>,
}

impl AcceptedPlugin {
    /// Accepts a plugin as it is.
    pub fn of<P>(plugin: &Plugin<P>) -> Self {
        let descriptor = &plugin.descriptor;
        Self { capabilities: descriptor.capabilities.clone(), publisher: descriptor.publisher.clone() }
    }

    /// Whether the plugin asks for no more than was accepted, of the same publisher.
    pub fn covers<P>(&self, plugin: &Plugin<P>) -> bool {
        let descriptor = &plugin.descriptor;
        descriptor.capabilities.is_within(&self.capabilities) && descriptor.publisher == self.publisher
    }
}

/// The consents of an organization.
#[derive(Clone, Debug, Default)]
pub struct Consents {
    /// Whether plugins need one. If not, every plugin counts as accepted.
    pub required: bool,
    /// The accepted plugins.
    pub accepted: Arc<BTreeMap<Namespace, AcceptedPlugin>>,
    /// Plugins that need none: built-in ones, and the organization's own, which its owner made or loaded.
    pub exempt: Arc<BTreeSet<Namespace>>,
}

impl Consents {
    /// The state of the consent to a plugin.
    pub fn state<P>(&self, plugin: &Plugin<P>) -> ConsentState {
        let namespace = &plugin.descriptor.namespace;
        if !self.required || plugin.granted.standard || self.exempt.contains(namespace) {
            return ConsentState::NotNeeded;
        }
        match self.accepted.get(namespace) {
            None => ConsentState::Missing,
            Some(accepted) if accepted.covers(plugin) => ConsentState::Accepted,
            Some(_) => ConsentState::Outdated,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_api::grant::Grant;

    use super::*;
    use crate::check::tests::plugin_from;

    fn third_party(version: &str, publisher: Option<&str>, hosts: &[&str]) -> Plugin<&'static str> {
        let network: Vec<_> = hosts.iter().map(|host| json!({"host": host})).collect();
        let tool =
            json!({"name": "t", "description": "D.", "usage": "U.", "input_schema": {"type": "object"}});
        let plugin = plugin_from(&json!({
            "name": "mail", "version": version, "publisher": publisher, "capabilities": {"network": network}, "tools": [tool],
        }));
        Plugin { granted: Arc::default(), ..Plugin::clone(&plugin) }
    }

    fn accepting(plugin: &Plugin<&'static str>) -> Consents {
        let accepted = BTreeMap::from([(plugin.descriptor.namespace.clone(), AcceptedPlugin::of(plugin))]);
        Consents { required: true, accepted: Arc::new(accepted), exempt: Arc::default() }
    }

    #[test]
    fn c6_consent_covers_what_asks_for_no_more() {
        let first = third_party("1.0.0", Some("Ada"), &["a.example", "b.example"]);
        let consents = accepting(&first);
        for (hosts, state) in [
            (&["a.example", "b.example"][..], ConsentState::Accepted),
            (&["b.example"], ConsentState::Accepted),
            (&["a.example", "c.example"], ConsentState::Outdated),
        ] {
            assert_eq!(consents.state(&third_party("1.1.0", Some("Ada"), hosts)), state, "{hosts:?}");
        }
        for publisher in [None, Some("Eve")] {
            let other = third_party("1.1.0", publisher, &["a.example"]);
            assert_eq!(consents.state(&other), ConsentState::Outdated, "{publisher:?}");
        }
    }

    #[test]
    fn c6_a_plugin_that_someone_vouches_for_needs_no_consent() {
        let plugin = third_party("1.0.0", None, &[]);
        let nothing = Consents { required: true, ..Consents::default() };
        assert_eq!(nothing.state(&plugin), ConsentState::Missing);
        assert_eq!(Consents::default().state(&plugin), ConsentState::NotNeeded);
        let exempt = Arc::new(BTreeSet::from([plugin.descriptor.namespace.clone()]));
        let own = Consents { exempt, ..nothing.clone() };
        assert_eq!(own.state(&plugin), ConsentState::NotNeeded);
        let standard = Arc::new(Grant { standard: true, ..Grant::default() });
        assert_eq!(nothing.state(&plugin.with_grant(standard)), ConsentState::NotNeeded);
    }

    #[test]
    fn a_stored_consent_reads_as_it_was_written() {
        let accepted = AcceptedPlugin::of(&third_party("1.0.0", Some("Ada"), &["*.example.com"]));
        let text = serde_json::to_string(&accepted).unwrap();
        assert_eq!(serde_json::from_str::<AcceptedPlugin>(&text).unwrap(), accepted);
    }
}
