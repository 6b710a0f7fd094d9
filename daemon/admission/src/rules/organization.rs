//! The organization's layer: its policy, what it has connected, and what both compile to.
//!
//! Without `enabled` an organization has no tool: a tool enters it by an explicit word (C5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalogue::{Catalogue, Mark};
use super::channels::{self, ChannelTable, Channels};
use super::document::{DocumentError, Fields, Part, Warning, limits_without_effect, read, unresolved};
use super::platform::{
    IntegrationTable, PlatformRules, ProfileTable, integration_warnings, integrations, profile_warnings,
    profiles,
};
use super::set::{SharedSet, ToolSet};
use super::standing::{Outlined, Rule, Standing};
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
    /// Profiles of its own; one hides the platform's of that name.
    pub profiles: ProfileTable,
    /// What channels block for it beyond what they block for everybody.
    pub channels: ChannelTable,
    /// What tools need for it beyond what they need for everybody.
    pub integrations: IntegrationTable,
    /// How tools are narrowed to those that matter for a message.
    pub broker: BrokerSettings,
    /// Limits of its calls.
    pub limits: LimitsPatch,
    /// The requests that are left of what its tools were granted. Absent: all of them.
    pub network: Option<Arc<[NetworkRule]>>,
}

/// How tools are narrowed to those that matter for a message (G15).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerSettings {
    /// Whether they are.
    pub enabled: bool,
    /// The tools that are shown in any case.
    pub always_show: ToolList,
}

impl OrgDocument {
    /// Reads a policy, or says what is wrong with it and where.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = read(json)?;
        let whole = Part::whole(&value, &FIELDS)?;
        Ok(Self {
            enabled: whole.member("enabled").map(|part| part.tools()).transpose()?,
            disabled: whole.member("disabled").map_or(Ok(ToolList::NONE), |part| part.tools())?,
            profiles: profiles(&whole)?,
            channels: whole.member("channels").map_or(Ok(BTreeMap::new()), |part| channels::read(&part))?,
            integrations: integrations(&whole)?,
            broker: whole
                .member("broker")
                .map_or(Ok(BrokerSettings::default()), |part| BrokerSettings::read(&part))?,
            limits: whole.member("limits").map_or(Ok(LimitsPatch::new()), |part| part.limits())?,
            network: whole.member("network").map(|part| read_network(&part)).transpose()?.map(Arc::from),
        })
    }

    /// A policy that gives the organization everything that the platform allows.
    pub fn everything() -> Self {
        Self { enabled: Some(ToolList::All), ..Self::default() }
    }

    /// What is accepted and probably not meant, given what is loaded.
    pub fn warnings<P>(&self, catalogue: &Catalogue<P>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved(place, list, catalogue));
        self.enabled.iter().for_each(|enabled| list("/enabled", enabled));
        list("/disabled", &self.disabled);
        list("/broker/always_show", &self.broker.always_show);
        profile_warnings(&self.profiles, catalogue, &mut warnings);
        warnings.extend(channels::warnings(&self.channels, catalogue));
        warnings.extend(integration_warnings(&self.integrations, catalogue));
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

/// What the organization's layer says, over the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct OrgRules {
    document: Arc<OrgDocument>,
    connected: Arc<BTreeSet<String>>,
    /// What platform and organization say of each tool.
    standings: Outlined,
    pub(crate) channels: Arc<Channels>,
    always_show: SharedSet,
    profiles: BTreeMap<Name, SharedSet>,
    of: Mark,
    mark: Mark,
}

impl OrgRules {
    /// Compiles a policy, and the integrations that the organization has connected, under the platform's rules.
    pub fn compile<P>(
        document: Arc<OrgDocument>,
        connected: Arc<BTreeSet<String>>,
        platform: &PlatformRules,
        catalogue: &Catalogue<P>,
    ) -> Self {
        let compile = |list: &ToolList| SharedSet::compile(Some(list), catalogue);
        let mut standings = platform.standings.clone();
        standings.add_list(Rule::Disabled, &document.disabled, catalogue);
        standings.add_list(Rule::Enabled, document.enabled.as_ref().unwrap_or(&ToolList::NONE), catalogue);
        standings.add(Rule::Missing, &missing(&document, &connected, platform, catalogue));
        let mut channels = Arc::clone(&platform.channels);
        if !document.channels.is_empty() {
            let tables = [&platform.document().channels, &document.channels];
            let (all, channelled) = Channels::compile(&tables, catalogue);
            standings.add(Rule::Channel, &channelled);
            channels = Arc::new(all);
        }
        Self {
            standings: standings.outlined(catalogue),
            channels,
            always_show: compile(&document.broker.always_show),
            profiles: document.profiles.iter().map(|(name, list)| (name.clone(), compile(list))).collect(),
            of: platform.mark().clone(),
            mark: Mark::new(),
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
        self.of == *platform.mark()
    }

    /// The channels that its sessions can be opened on.
    pub fn channels(&self) -> impl Iterator<Item = &str> + Clone {
        self.channels.names()
    }

    /// The tools that its broker shows in any case.
    pub fn always_shows(&self, index: usize) -> bool {
        self.always_show.contains(index)
    }

    /// Its own profile of that name, or the platform's.
    pub(crate) fn profile<'a>(&'a self, name: &Name, platform: &'a PlatformRules) -> Option<&'a SharedSet> {
        self.profiles.get(name).or_else(|| platform.profile(name))
    }

    /// What platform and organization say of the tool with this number.
    pub(crate) fn standing(&self, index: usize) -> Standing {
        self.standings.of(index)
    }

    /// The integrations that a tool needs and the organization has not connected.
    pub(crate) fn missing_for(&self, tool: &ToolDescriptor, platform: &PlatformRules) -> BTreeSet<String> {
        let tables = platform.document().integrations.iter().chain(&self.document.integrations);
        let added = tables.filter(|(pattern, _)| pattern.matches(&tool.id)).map(|(_, name)| name.to_string());
        let needed = tool.required_integrations.iter().cloned().chain(added);
        needed.filter(|name| !self.connected.contains(name)).collect()
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
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
    fn a_whole_policy_is_read() {
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
        // Nothing said leaves everything, and an empty list nothing.
        let network = |text: &str| OrgDocument::parse(text).unwrap().network;
        assert_eq!(network(r#"{"network":null}"#), None);
        assert_eq!(network(r#"{"network":[]}"#).as_deref(), Some(&[][..]));
        assert_eq!(document.warnings(&catalogue()), []);
        assert_eq!(OrgDocument::parse("{}").unwrap(), OrgDocument::default());
        assert_eq!(OrgDocument::parse(r#"{"enabled":null,"broker":null}"#).unwrap(), OrgDocument::default());
    }

    #[test]
    fn what_no_loaded_tool_answers_to_is_warned_of_wherever_it_stands() {
        let document = OrgDocument::parse(
            r#"{"enabled":["crn/*"],"disabled":["crm/delet"],"profiles":{"desk":["x/y"]},
                "channels":{"sms":{"blocked":["x/*"]}},"integrations":{"crm/serch":"stripe"},
                "broker":{"always_show":["crm/x"]},"limits":{"memories":65}}"#,
        )
        .unwrap();
        let warnings = document.warnings(&catalogue());
        let told: Vec<_> = warnings.iter().map(|warning| warning.path.as_str()).collect();
        assert_eq!(
            told,
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
    fn a_policy_that_says_more_than_is_held_is_refused() {
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
