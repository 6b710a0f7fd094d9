//! The organization's layer: its policy, its connected integrations, and the rules that both compile to.
//!
//! Without `enabled` an organization has no tools: it has those alone that its policy names (C5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalogue::{Catalogue, SnapshotId};
use super::document::{DocumentError, Fields, Part, Warning, limits_without_effect, read, unresolved};
use super::platform::PlatformRules;
use super::set::{SharedSet, ToolSet};
use super::tables::{
    ChannelTable, Channels, IntegrationTable, ProfileTable, compile_profiles, read_channels,
    read_integrations, read_profiles, table_warnings,
};
use super::tool_flags::{CompactFlags, ToolFlag, ToolFlags};
use super::tools::ToolList;
use crate::descriptor::ToolDescriptor;
use crate::egress::{NetworkRule, read_network};
use crate::limits::LimitsPatch;
use crate::name::Name;

const FIELDS: Fields = Fields {
    whose: "an organization's policy",
    known: &["enabled", "disabled", "profiles", "channels", "integrations", "broker", "limits", "network"],
    to_come: &["quotas"],
};

const BROKER_FIELDS: Fields =
    Fields { whose: "the broker's part", known: &["enabled", "always_show"], to_come: &[] };

/// An organization's policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrgDocument {
    /// The tools that the organization has. Absent: none.
    pub enabled: Option<ToolList>,
    /// The tools that none of its agents may call.
    pub disabled: ToolList,
    /// Its own profiles; one replaces the platform's of the same name.
    pub profiles: ProfileTable,
    /// Tools that channels block for it, in addition to the platform's.
    pub channels: ChannelTable,
    /// Integrations that tools need for it, in addition to the platform's.
    pub integrations: IntegrationTable,
    /// Settings of the broker, which selects the tools that a model is shown.
    pub broker: BrokerSettings,
    /// The limits of its calls.
    pub limits: LimitsPatch,
    /// The requests that its tools may send, of those that their grants allow. Absent: all of them.
    pub network: Option<Arc<[NetworkRule]>>,
}

/// Settings of the broker, which selects the tools that a model is shown (G15).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerSettings {
    /// Whether the broker is used.
    pub enabled: bool,
    /// The tools that are always shown.
    pub always_show: ToolList,
}

impl OrgDocument {
    /// Parses a policy.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = read(json)?;
        let whole = Part::whole(&value, &FIELDS)?;
        Ok(Self {
            enabled: whole.member("enabled").map(|part| part.tools()).transpose()?,
            disabled: whole.member("disabled").map_or(Ok(ToolList::NONE), |part| part.tools())?,
            profiles: read_profiles(&whole)?,
            channels: read_channels(&whole)?,
            integrations: read_integrations(&whole)?,
            broker: whole
                .member("broker")
                .map_or(Ok(BrokerSettings::default()), |part| BrokerSettings::read(&part))?,
            limits: whole.member("limits").map_or(Ok(LimitsPatch::new()), |part| part.limits())?,
            network: whole.member("network").map(|part| read_network(&part)).transpose()?.map(Arc::from),
        })
    }

    /// A policy that enables every tool that the platform allows.
    pub fn allow_all() -> Self {
        Self { enabled: Some(ToolList::All), ..Self::default() }
    }

    /// Returns a warning for each part of the policy that has no effect with the loaded tools.
    pub fn warnings<P>(&self, catalogue: &Catalogue<P>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved(place, list, catalogue));
        self.enabled.iter().for_each(|enabled| list("/enabled", enabled));
        list("/disabled", &self.disabled);
        list("/broker/always_show", &self.broker.always_show);
        warnings.extend(table_warnings(&self.profiles, &self.channels, &self.integrations, catalogue));
        warnings.extend(limits_without_effect(&self.limits, catalogue.platform_limits()));
        warnings
    }
}

impl BrokerSettings {
    fn read(part: &Part<'_>) -> Result<Self, DocumentError> {
        part.check_fields(&BROKER_FIELDS)?;
        Ok(Self {
            enabled: part.member("enabled").map_or(Ok(false), |part| part.flag())?,
            always_show: part.member("always_show").map_or(Ok(ToolList::NONE), |part| part.tools())?,
        })
    }
}

/// The compiled policy of an organization, for the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct OrgRules {
    document: Arc<OrgDocument>,
    connected: Arc<BTreeSet<String>>,
    /// The flags of each tool, the platform's included.
    flags: CompactFlags,
    pub(crate) channels: Arc<Channels>,
    always_show: SharedSet,
    profiles: BTreeMap<Name, SharedSet>,
    parent: SnapshotId,
    id: SnapshotId,
}

impl OrgRules {
    /// Compiles a policy, and the integrations that the organization has connected, under the platform's rules.
    pub fn compile<P>(
        document: Arc<OrgDocument>,
        connected: Arc<BTreeSet<String>>,
        platform: &PlatformRules,
        catalogue: &Catalogue<P>,
    ) -> Self {
        let mut flags = platform.flags.clone();
        flags.add_list(ToolFlag::Disabled, &document.disabled, catalogue);
        flags.add_list(ToolFlag::Enabled, document.enabled.as_ref().unwrap_or(&ToolList::NONE), catalogue);
        flags.add(ToolFlag::Missing, &missing(&document, &connected, platform, catalogue));
        let mut channels = Arc::clone(&platform.channels);
        if !document.channels.is_empty() {
            let tables = [&platform.document().channels, &document.channels];
            let (all, channel_tools) = Channels::compile(&tables, catalogue);
            flags.add(ToolFlag::Channel, &channel_tools);
            channels = Arc::new(all);
        }
        Self {
            flags: flags.compact(catalogue),
            channels,
            always_show: SharedSet::compile(Some(&document.broker.always_show), catalogue),
            profiles: compile_profiles(&document.profiles, catalogue),
            parent: platform.id().clone(),
            id: SnapshotId::new(),
            document,
            connected,
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
        needed.filter(|name| !self.connected.contains(name)).collect()
    }

    pub(super) fn id(&self) -> &SnapshotId {
        &self.id
    }
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
    use super::*;
    use crate::check::tests::plugin;
    use crate::limits::LimitName;

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
        assert_eq!(document.warnings(&catalogue()), []);
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
        let warnings = document.warnings(&catalogue());
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
    fn a_field_that_nothing_enforces_is_refused() {
        let refused = OrgDocument::parse(r#"{"quotas":[{}]}"#).unwrap_err();
        assert!(refused.message.contains("nothing enforces"), "{refused}");
        let cases = [
            (r#"{"limit":{}}"#, "/limit", "did you mean `limits`?"),
            (r#"{"channels":{"sms":{"blocke":[]}}}"#, "/channels/sms/blocke", "did you mean `blocked`?"),
            (r#"{"broker":{"enable":true}}"#, "/broker/enable", "did you mean `enabled`?"),
            (r#"{"broker":{"enabled":"yes"}}"#, "/broker/enabled", "write `true` or `false`"),
            (r#"{"profiles":{"desk":"crm/*"}}"#, "/profiles/desk", "a list of `namespace/tool`"),
            (r#"{"network":[{"hosts":"a.example"}]}"#, "/network/0/hosts", "did you mean `host`?"),
            (r#"{"network":[{"host":"*"}]}"#, "/network/0/host", "write one `*`"),
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
