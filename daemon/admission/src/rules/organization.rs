//! The organization's layer: the rules that its policy and its connected integrations compile to.
//!
//! Without `enabled` an organization has no tools: it has those alone that its policy names (C5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toolgate_api::consent::ConsentState;
use toolgate_api::name::{Name, Namespace};
use toolgate_api::policy::OrgDocument;
use toolgate_api::tools::ToolList;

use super::catalogue::{Catalogue, Plugin, SnapshotId};
use super::consent::Consents;
use super::platform::PlatformRules;
use super::set::{SharedSet, ToolSet};
use super::tables::{Channels, compile_profiles, table_warnings};
use super::tool_flags::{CompactFlags, ToolFlag, ToolFlags};
use super::warning::{Warning, limits_without_effect, quota_tools, unresolved_entries};
use crate::descriptor::ToolDescriptor;

/// Returns a warning for each part of the policy that has no effect with the loaded tools.
pub fn organization_warnings<P>(document: &OrgDocument, catalogue: &Catalogue<P>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved_entries(place, list, catalogue));
    document.enabled.iter().for_each(|enabled| list("/enabled", enabled));
    list("/disabled", &document.disabled);
    list("/broker/always_show", &document.broker.always_show);
    quota_tools(&document.quotas).for_each(|(place, tools)| list(&place, tools));
    warnings.extend(table_warnings(
        &document.profiles,
        &document.channels,
        &document.integrations,
        catalogue,
    ));
    warnings.extend(limits_without_effect(&document.limits, catalogue.platform_limits()));
    warnings
}

/// The facts about an organization that its rules depend on beside its policy.
#[derive(Clone, Debug, Default)]
pub struct OrgFacts {
    /// The integrations that it has connected.
    pub connected: Arc<BTreeSet<String>>,
    /// Its consents.
    pub consents: Consents,
    /// Its settings of plugins, as JSON text.
    pub settings: Arc<BTreeMap<Namespace, Arc<str>>>,
}

/// The compiled policy of an organization, for the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct OrgRules {
    document: Arc<OrgDocument>,
    facts: OrgFacts,
    /// Tools that it enabled, of plugins that it has not accepted. Almost always empty.
    pub(crate) unaccepted: SharedSet,
    /// The flags of each tool, the platform's included.
    flags: CompactFlags,
    pub(crate) channels: Arc<Channels>,
    always_show: SharedSet,
    profiles: BTreeMap<Name, SharedSet>,
    parent: SnapshotId,
    id: SnapshotId,
}

impl OrgRules {
    /// Compiles a policy, with what else is known of the organization, under the platform's rules.
    pub fn compile<P>(
        document: Arc<OrgDocument>,
        facts: OrgFacts,
        platform: &PlatformRules,
        catalogue: &Catalogue<P>,
    ) -> Self {
        let mut flags = platform.flags.clone();
        flags.add_list(ToolFlag::Disabled, &document.disabled, catalogue);
        flags.add_list(ToolFlag::Enabled, document.enabled.as_ref().unwrap_or(&ToolList::NONE), catalogue);
        flags.add(ToolFlag::Missing, &missing(&document, &facts.connected, platform, catalogue));
        let mut channels = Arc::clone(&platform.channels);
        if !document.channels.is_empty() {
            let tables = [&platform.document().channels, &document.channels];
            let (all, channel_tools) = Channels::compile(&tables, catalogue);
            flags.add(ToolFlag::Channel, &channel_tools);
            channels = Arc::new(all);
        }
        let flags = flags.compact(catalogue);
        Self {
            unaccepted: unaccepted_tools(&facts.consents, &flags, catalogue),
            flags,
            channels,
            always_show: SharedSet::compile(Some(&document.broker.always_show), catalogue),
            profiles: compile_profiles(&document.profiles, catalogue),
            parent: platform.id().clone(),
            id: SnapshotId::new(),
            document,
            facts,
        }
    }

    /// The policy.
    pub fn document(&self) -> &Arc<OrgDocument> {
        &self.document
    }

    /// Whether these rules were compiled under those of the platform.
    pub fn is_under(&self, platform: &PlatformRules) -> bool {
        self.parent == *platform.id()
    }

    /// The channels that its sessions can be opened on.
    pub fn channels(&self) -> impl Iterator<Item = &str> + Clone {
        self.channels.names()
    }

    /// The state of its consent to a plugin.
    pub fn consent_to<P>(&self, plugin: &Plugin<P>) -> ConsentState {
        self.facts.consents.state(plugin)
    }

    /// Whether the platform lets the organization use the tool.
    pub fn is_available(&self, index: usize) -> bool {
        let flags = self.flags.of(index);
        flags.has(ToolFlag::Allowed) && !flags.has(ToolFlag::Blocked) && !flags.has(ToolFlag::PluginDisabled)
    }

    /// Whether its policy enables the tool, or the tool is universal.
    pub fn enables(&self, index: usize) -> bool {
        is_given(self.flags.of(index))
    }

    /// Whether the tool is enabled, and left out until the organization accepts its plugin.
    pub fn lacks_consent(&self, index: usize) -> bool {
        self.unaccepted.contains(index)
    }

    /// Its settings of a plugin, as JSON text.
    pub fn settings_of(&self, namespace: &Namespace) -> Option<&Arc<str>> {
        // Most organizations have no settings, and then no name is compared.
        if self.facts.settings.is_empty() { None } else { self.facts.settings.get(namespace) }
    }

    /// Whether its broker always shows the tool.
    pub fn always_shows(&self, index: usize) -> bool {
        self.always_show.contains(index)
    }

    /// Its own profile of that name, or the platform's.
    pub(crate) fn profile<'a>(&'a self, name: &Name, platform: &'a PlatformRules) -> Option<&'a SharedSet> {
        self.profiles.get(name).or_else(|| platform.profile(name))
    }

    /// Returns the flags of the tool with this index.
    pub(crate) fn flags(&self, index: usize) -> ToolFlags {
        self.flags.of(index)
    }

    /// The integrations that a tool needs and the organization has not connected.
    pub(crate) fn missing_for(&self, tool: &ToolDescriptor, platform: &PlatformRules) -> BTreeSet<String> {
        let tables = platform.document().integrations.iter().chain(&self.document.integrations);
        let added = tables.filter(|(pattern, _)| pattern.matches(&tool.id)).map(|(_, name)| name.to_string());
        let needed = tool.required_integrations.iter().cloned().chain(added);
        needed.filter(|name| !self.facts.connected.contains(name)).collect()
    }

    pub(super) fn id(&self) -> &SnapshotId {
        &self.id
    }
}

fn is_given(flags: ToolFlags) -> bool {
    flags.has(ToolFlag::Enabled) || flags.has(ToolFlag::Universal)
}

/// The tools that agents would have but for the missing consent to their plugin.
fn unaccepted_tools<P>(consents: &Consents, flags: &CompactFlags, catalogue: &Catalogue<P>) -> SharedSet {
    if !consents.required {
        return SharedSet::NONE;
    }
    let mut unaccepted = ToolSet::empty(catalogue.tools().len());
    for plugin in catalogue.plugins().filter(|plugin| consents.state(plugin).keeps_out()) {
        let tools = catalogue.indexes_of(&plugin.descriptor.namespace);
        tools.filter(|index| is_given(flags.of(*index))).for_each(|index| unaccepted.insert(index));
    }
    SharedSet::new(unaccepted, catalogue)
}

fn missing<P>(
    document: &OrgDocument,
    connected: &BTreeSet<String>,
    platform: &PlatformRules,
    catalogue: &Catalogue<P>,
) -> ToolSet {
    let mut missing = ToolSet::empty(catalogue.tools().len());
    let needs = platform.needs.iter().filter(|(name, _)| !connected.contains(&***name));
    needs.for_each(|(_, tools)| missing.unite(tools));
    let own = document.integrations.iter().filter(|(_, name)| !connected.contains(name.as_str()));
    own.for_each(|(pattern, _)| missing.add_pattern(pattern, catalogue));
    missing
}

#[cfg(test)]
mod tests {
    use toolgate_api::limits::{LimitName, LimitsPatch};

    use super::*;
    use crate::check::tests::plugin;

    fn catalogue() -> Catalogue<&'static str> {
        Catalogue::new(LimitsPatch::new(), vec![plugin("crm", &["delete", "search"])])
    }

    #[test]
    fn a_policy_with_every_field_is_parsed() {
        let document = OrgDocument::parse(
            r#"{"enabled":["crm/*"],"disabled":["crm/delete"],"profiles":{"desk":["crm/search"]},
                "channels":{"sms":{"blocked":["crm/*"]}},"integrations":{"crm/search":"stripe"},
                "broker":{"enabled":true,"always_show":["crm/search"]},"limits":{"fuel":5},"quotas":[],
                "network":[{"host":"crm.example","methods":["GET"]}]}"#,
        )
        .unwrap();
        assert_eq!(document.limits.get(LimitName::Fuel), Some(5));
        assert!(document.broker.enabled);
        assert_eq!(document.network.as_deref().map(<[_]>::len), Some(1));
        // An absent list allows everything, an empty list nothing.
        let network = |text: &str| OrgDocument::parse(text).unwrap().network;
        assert_eq!(network(r#"{"network":null}"#), None);
        assert_eq!(network(r#"{"network":[]}"#).as_deref(), Some(&[][..]));
        assert_eq!(organization_warnings(&document, &catalogue()), []);
        assert_eq!(OrgDocument::parse("{}").unwrap(), OrgDocument::default());
        assert_eq!(OrgDocument::parse(r#"{"enabled":null,"broker":null}"#).unwrap(), OrgDocument::default());
    }

    #[test]
    fn an_entry_without_a_loaded_tool_is_warned_of_in_every_field() {
        let document = OrgDocument::parse(
            r#"{"enabled":["crn/*"],"disabled":["crm/delet"],"profiles":{"desk":["x/y"]},
                "channels":{"sms":{"blocked":["x/*"]}},"integrations":{"crm/serch":"stripe"},
                "broker":{"always_show":["crm/x"]},"limits":{"memories":65}}"#,
        )
        .unwrap();
        let warnings = organization_warnings(&document, &catalogue());
        let paths: Vec<_> = warnings.iter().map(|warning| warning.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/enabled/0",
                "/disabled/0",
                "/broker/always_show/0",
                "/profiles/desk/0",
                "/channels/sms/blocked/0",
                "/integrations/crm~1serch",
                "/limits/memories"
            ]
        );
        assert_eq!(warnings[0].nearest.as_deref(), Some("crm/*"));
        assert_eq!(warnings[5].nearest.as_deref(), Some("crm/search"));
    }

    #[test]
    fn an_unknown_field_or_value_is_refused_with_the_nearest() {
        let cases = [
            (r#"{"limit":{}}"#, "/limit", "did you mean `limits`?"),
            (r#"{"channels":{"sms":{"blocke":[]}}}"#, "/channels/sms/blocke", "did you mean `blocked`?"),
            (r#"{"broker":{"enable":true}}"#, "/broker/enable", "did you mean `enabled`?"),
            (r#"{"broker":{"enabled":"yes"}}"#, "/broker/enabled", "write `true` or `false`"),
            (r#"{"profiles":{"desk":"crm/*"}}"#, "/profiles/desk", "a list of `namespace/tool`"),
            (r#"{"network":[{"hosts":"a.example"}]}"#, "/network/0/hosts", "did you mean `host`?"),
            (r#"{"network":[{"host":"*"}]}"#, "/network/0/host", "leave `network` out"),
            (r#"{"network":[{"host":"a.example","port":0}]}"#, "/network/0/port", "from 1 to 65535"),
            (
                r#"{"integrations":{"call_crm_search":"stripe"}}"#,
                "/integrations/call_crm_search",
                "write `crm/search`",
            ),
        ];
        for (text, place, hint) in cases {
            let refused = OrgDocument::parse(text).unwrap_err();
            assert_eq!(refused.place, place);
            assert!(refused.hint.contains(hint), "{refused}; {}", refused.hint);
        }
    }
}
