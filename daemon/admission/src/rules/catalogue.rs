//! The loaded plugins and their tools, by index and by name.
//!
//! A tool's index is its position in the list, so a set of tools is a bit set. Indexes belong to one catalogue: a change
//! of plugins creates a new one, and rules that were compiled against the old one hold its [`SnapshotId`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toolgate_api::descriptor::Hints;
use toolgate_api::grant::Grant;
use toolgate_api::hex;
use toolgate_api::limits::{Limits, LimitsPatch};
use toolgate_api::name::{CalledKey, Namespace, ToolId};

use super::canary::{Canary, CanaryDraw, VersionCounters};
use super::name_table::NameTable;
use super::set::{SharedSet, ToolSet};
use crate::descriptor::{Descriptor, ToolDescriptor};
use crate::egress::CallAccess;

/// The SHA-256 digest of a plugin: `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(Arc<str>);

/// The text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is `sha256:` and 64 lower-case hexadecimal digits")]
pub struct DigestError;

impl Digest {
    /// Parses a digest.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let digits = text.strip_prefix("sha256:").ok_or(DigestError)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match digits.len() == 64 && digits.bytes().all(is_digit) {
            true => Ok(Self(text.into())),
            false => Err(DigestError),
        }
    }

    /// Formats a SHA-256 hash.
    pub fn from_sha256(hash: [u8; 32]) -> Self {
        Self(format!("sha256:{}", hex::encode(&hash)).into())
    }

    /// The hexadecimal digits without the prefix, which file names have.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One loaded plugin.
#[derive(Clone, Debug)]
pub struct Plugin<P> {
    /// Its parsed description.
    pub descriptor: Arc<Descriptor>,
    /// Its digest.
    pub digest: Digest,
    /// The operator's grant. A call gets the part of it that the plugin asks for.
    pub granted: Arc<Grant>,
    /// The component to run.
    pub component: P,
    /// Whether the operator has disabled it.
    pub disabled: bool,
    /// Whether its hints count without a confirmation in the grant: built-in plugins, definitions, and versions whose hints
    /// were confirmed with their load or approval.
    pub has_trusted_hints: bool,
    /// The version that gets a share of its calls.
    pub canary: Option<Canary<P>>,
    /// The counters of its calls, while it or its canary is on trial.
    pub counters: Option<Arc<VersionCounters>>,
}

impl<P> Plugin<P> {
    /// An enabled plugin whose hints count, without a canary.
    pub fn with_trusted_hints(
        digest: Digest,
        granted: Arc<Grant>,
        descriptor: Descriptor,
        component: P,
    ) -> Self {
        Self {
            descriptor: Arc::new(descriptor),
            digest,
            granted,
            component,
            disabled: false,
            has_trusted_hints: true,
            canary: None,
            counters: None,
        }
    }
}

impl<P: Clone> Plugin<P> {
    /// The plugin with an operator's grant, and with the descriptions, hints and settings in it.
    pub fn with_grant(&self, granted: Arc<Grant>) -> Self {
        let is_plain =
            granted.descriptions.is_empty() && granted.hints.is_empty() && granted.settings.is_empty();
        let descriptor = match is_plain {
            true => Arc::clone(&self.descriptor),
            false => Arc::new(self.descriptor.with_grant(&granted)),
        };
        let granted_plugin = Self { descriptor, granted, canary: None, ..self.clone() };
        // Both versions are decided by one rule, so the confirmation of the serving one covers the hints of its canary.
        let with_hints = |canary: &Canary<P>| Self {
            has_trusted_hints: granted_plugin.has_confirmed_hints(),
            ..canary.plugin.with_grant(Arc::clone(&granted_plugin.granted))
        };
        let canary = self.canary.as_ref();
        let canary =
            canary.map(|canary| Canary { plugin: Arc::new(with_hints(canary)), percent: canary.percent });
        Self { canary, ..granted_plugin }
    }
}

impl<P> Plugin<P> {
    /// Whether its hints count: they are trusted, or an operator has confirmed them for this digest (9.11).
    pub fn has_confirmed_hints(&self) -> bool {
        self.has_trusted_hints || self.granted.confirmed_hints.as_deref() == Some(self.digest.as_str())
    }
}

/// One tool of a loaded plugin.
#[derive(Debug)]
pub struct Tool<P> {
    index: usize,
    plugin: Arc<Plugin<P>>,
    /// INVARIANT: less than the number of the descriptor's tools.
    position: usize,
    access: Arc<CallAccess>,
    /// The same tool of the plugin's canary.
    canary: Option<Arc<Tool<P>>>,
}

impl<P> Clone for Tool<P> {
    fn clone(&self) -> Self {
        Self {
            index: self.index,
            plugin: Arc::clone(&self.plugin),
            position: self.position,
            access: Arc::clone(&self.access),
            canary: self.canary.clone(),
        }
    }
}

impl<P> Tool<P> {
    /// Its index in the catalogue.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The plugin it belongs to.
    pub fn plugin(&self) -> &Arc<Plugin<P>> {
        &self.plugin
    }

    /// The tool as its plugin describes it.
    pub fn descriptor(&self) -> &ToolDescriptor {
        &self.plugin.descriptor.tools[self.position]
    }

    /// The hints that count: unconfirmed ones are replaced by the careful defaults (9.11).
    pub fn hints(&self) -> Hints {
        if self.plugin.has_confirmed_hints() { self.descriptor().hints } else { Hints::default() }
    }

    /// `namespace/tool`.
    pub fn id(&self) -> &ToolId {
        &self.descriptor().id
    }

    /// The access of its calls, before policies narrow it.
    pub fn access(&self) -> &Arc<CallAccess> {
        &self.access
    }

    /// The tool in the version that a call draws: its own, or that of the canary.
    pub(crate) fn version_for(&self, draw: CanaryDraw) -> &Self {
        let percent = self.plugin.canary.as_ref().map_or(0, |canary| canary.percent);
        self.canary.as_deref().filter(|_| draw.is_within(percent)).unwrap_or(self)
    }

    /// The tool at `position` of a plugin whose calls have this access.
    fn new(index: usize, plugin: &Arc<Plugin<P>>, position: usize, access: &Arc<CallAccess>) -> Self {
        Self { index, plugin: Arc::clone(plugin), position, access: Arc::clone(access), canary: None }
    }
}

/// Every loaded plugin and tool, with the platform's limits.
#[derive(Debug)]
pub struct Catalogue<P> {
    platform_limits: Limits,
    plugins: BTreeMap<Namespace, Arc<Plugin<P>>>,
    tools: Vec<Tool<P>>,
    /// For each tool the index of its plugin, in the order of [`Catalogue::plugins`].
    plugin_of: Arc<[u32]>,
    by_name: NameTable,
    /// Tools that have an original name, by `namespace/original`.
    by_original: BTreeMap<Box<str>, u32>,
    read_only: SharedSet,
    changing: SharedSet,
    collisions: Vec<Namespace>,
    id: SnapshotId,
}

/// The identity of one catalogue, or of the rules of one layer. Rules that were compiled against it hold a copy.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotId(Arc<()>);

impl SnapshotId {
    pub(crate) fn new() -> Self {
        Self(Arc::new(()))
    }
}

impl PartialEq for SnapshotId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<P> Catalogue<P> {
    /// Builds the catalogue of these plugins.
    ///
    /// Two plugins of one namespace are both left out and reported by [`Catalogue::collisions`].
    pub fn new(platform_limits: LimitsPatch, plugins: Vec<Arc<Plugin<P>>>) -> Self {
        let (plugins, collisions) = by_namespace(plugins);
        let (mut tools, mut plugin_of) = (Vec::new(), Vec::new());
        for (at, plugin) in (0..).zip(plugins.values()) {
            push_tools(&mut tools, plugin);
            plugin_of.resize(tools.len(), at);
        }
        let (mut by_name, mut by_original) = (NameTable::default(), BTreeMap::new());
        // A catalogue has far fewer than 2^32 tools.
        for (index, tool) in (0_u32..).zip(&tools) {
            CalledKey::read(&tool.id().to_string()).iter().for_each(|key| by_name.insert(key, index));
            if let Some(original) = &tool.descriptor().original_name {
                by_original.insert(format!("{}/{original}", tool.id().namespace).into(), index);
            }
        }
        let platform_limits = Limits::platform(&platform_limits);
        let catalogue = Self {
            platform_limits,
            plugins,
            tools,
            plugin_of: plugin_of.into(),
            by_name,
            by_original,
            read_only: SharedSet::NONE,
            changing: SharedSet::NONE,
            collisions,
            id: SnapshotId::new(),
        };
        let set =
            |is_in: fn(&Tool<P>) -> bool| SharedSet::new(ToolSet::matching(&catalogue, is_in), &catalogue);
        let read_only = set(|tool| tool.hints().read_only);
        let changing = set(|tool| !tool.hints().read_only);
        Self { read_only, changing, ..catalogue }
    }

    /// Finds a tool by wire name or `namespace/tool`, ignoring case, or by `namespace/original`, which must be equal.
    pub fn find(&self, called: &str) -> Option<&Tool<P>> {
        self.find_index(called).map(|(_, tool)| tool)
    }

    /// Like [`Catalogue::find`], with the index, so that a decision need not read the tool itself.
    pub(crate) fn find_index(&self, called: &str) -> Option<(usize, &Tool<P>)> {
        let by_name = CalledKey::read(called).and_then(|key| self.by_name.find(&key));
        let index = by_name.or_else(|| self.by_original.get(called).copied())?;
        let index = usize::try_from(index).ok()?;
        Some((index, self.tools.get(index)?))
    }

    /// Every tool, by index.
    pub fn tools(&self) -> &[Tool<P>] {
        &self.tools
    }

    /// Every plugin, by namespace.
    pub fn plugins(&self) -> impl Iterator<Item = &Arc<Plugin<P>>> {
        self.plugins.values()
    }

    /// The plugin of that namespace.
    pub fn plugin(&self, namespace: &Namespace) -> Option<&Arc<Plugin<P>>> {
        self.plugins.get(namespace)
    }

    /// The platform's limits.
    pub fn platform_limits(&self) -> &Limits {
        &self.platform_limits
    }

    /// Namespaces that several plugins have, none of which is served.
    pub fn collisions(&self) -> &[Namespace] {
        &self.collisions
    }

    /// The indexes of the tools of a plugin, which are contiguous.
    pub(crate) fn indexes_of(&self, namespace: &Namespace) -> Range<usize> {
        let start = self.tools.partition_point(|tool| tool.id().namespace < *namespace);
        let end = self.tools.partition_point(|tool| tool.id().namespace <= *namespace);
        start..end
    }

    /// For each tool the index of its plugin, in the order of [`Catalogue::plugins`].
    pub(crate) fn plugin_of(&self) -> &Arc<[u32]> {
        &self.plugin_of
    }

    /// The index of a tool.
    pub(crate) fn number_of(&self, id: &ToolId) -> Option<usize> {
        self.find_index(&id.to_string()).map(|(index, _)| index)
    }

    /// The tools whose hint `read_only` is true.
    pub(crate) fn read_only(&self) -> &SharedSet {
        &self.read_only
    }

    /// The tools whose hint `read_only` is not true.
    pub(crate) fn changing(&self) -> &SharedSet {
        &self.changing
    }

    pub(crate) fn id(&self) -> &SnapshotId {
        &self.id
    }
}

fn access_of<P>(plugin: &Plugin<P>) -> Arc<CallAccess> {
    let asked = Arc::new(plugin.descriptor.capabilities.clone());
    Arc::new(CallAccess::new(asked, Arc::clone(&plugin.granted)))
}

/// Appends the tools of a plugin, each with its counterpart in the canary.
fn push_tools<P>(tools: &mut Vec<Tool<P>>, plugin: &Arc<Plugin<P>>) {
    let access = access_of(plugin);
    let canary = plugin.canary.as_ref().map(|canary| (&canary.plugin, access_of(&canary.plugin)));
    for (position, tool) in plugin.descriptor.tools.iter().enumerate() {
        let index = tools.len();
        let of_canary = canary.as_ref().and_then(|(plugin, access)| {
            let position = plugin.descriptor.tools.iter().position(|other| other.id == tool.id)?;
            Some(Arc::new(Tool::new(index, plugin, position, access)))
        });
        tools.push(Tool { canary: of_canary, ..Tool::new(index, plugin, position, &access) });
    }
}

type ByNamespace<P> = BTreeMap<Namespace, Arc<Plugin<P>>>;

fn by_namespace<P>(plugins: Vec<Arc<Plugin<P>>>) -> (ByNamespace<P>, Vec<Namespace>) {
    let mut all: BTreeMap<Namespace, Vec<Arc<Plugin<P>>>> = BTreeMap::new();
    for plugin in plugins {
        all.entry(plugin.descriptor.namespace.clone()).or_default().push(plugin);
    }
    let mut single = BTreeMap::new();
    let mut collisions = Vec::new();
    for (namespace, mut claimants) in all {
        match (claimants.pop(), claimants.is_empty()) {
            (Some(plugin), true) => drop(single.insert(namespace, plugin)),
            _ => collisions.push(namespace),
        }
    }
    (single, collisions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::plugin;

    #[test]
    fn a_tool_is_found_by_either_name_in_either_case() {
        let catalogue =
            Catalogue::new(LimitsPatch::new(), vec![plugin("web-search", &["by_image", "by_text"])]);
        for called in
            ["call_web-search_by_text", "CALL_Web-Search_BY_TEXT", "web-search/by_text", "Web-Search/By_Text"]
        {
            let found = catalogue.find(called).map(|tool| tool.id().to_string());
            assert_eq!(found.as_deref(), Some("web-search/by_text"), "{called}");
        }
        for called in ["call_web-search_by", "web-search/by_textx", "by_text", "", "call_web_search_by_text"]
        {
            assert!(catalogue.find(called).is_none(), "{called}");
        }
    }

    /// 9.4: the original name is accepted too, letter for letter and with the namespace of its plugin.
    #[test]
    fn g4_a_tool_is_found_by_its_original_name() {
        let plugin_of = |namespace: &str| {
            let tool = |name: &str, original: Option<&str>| {
                serde_json::json!({
                    "name": name, "original_name": original, "description": "d", "usage": "u",
                    "input_schema": {"type": "object"},
                })
            };
            let tools = [
                tool("get_weather", Some("getWeather")),
                tool("repos_get", Some("repos/get")),
                tool("plain", None),
            ];
            let text = serde_json::json!({"name": namespace, "version": "1.0.0", "tools": tools}).to_string();
            let descriptor = Arc::new(Descriptor::parse(&text).unwrap());
            Arc::new(Plugin { descriptor, ..Plugin::clone(&plugin(namespace, &["x"])) })
        };
        let catalogue = Catalogue::new(LimitsPatch::new(), vec![plugin_of("a"), plugin_of("b")]);
        let found = |called: &str| catalogue.find(called).map(|tool| tool.id().to_string());
        for (called, id) in [
            ("a/getWeather", "a/get_weather"),
            ("b/getWeather", "b/get_weather"),
            ("b/repos/get", "b/repos_get"),
            ("b/get_weather", "b/get_weather"),
        ] {
            assert_eq!(found(called).as_deref(), Some(id), "{called}");
        }
        for called in
            ["a/getweather", "a/GetWeather", "getWeather", "c/getWeather", "a/repos", "call_a_getWeather"]
        {
            assert_eq!(found(called), None, "{called}");
        }
    }

    #[test]
    fn a_tool_has_its_own_index() {
        let catalogue =
            Catalogue::new(LimitsPatch::new(), vec![plugin("b", &["x", "y"]), plugin("a", &["z"])]);
        for (index, tool) in catalogue.tools().iter().enumerate() {
            assert_eq!(tool.index(), index);
            assert_eq!(catalogue.find(&tool.id().to_string()).map(Tool::index), Some(index));
        }
    }

    #[test]
    fn two_plugins_of_one_namespace_are_both_left_out() {
        let plugins = vec![plugin("a", &["x"]), plugin("b", &["x"]), plugin("a", &["y"])];
        let catalogue = Catalogue::new(LimitsPatch::new(), plugins);
        assert_eq!(catalogue.collisions(), [Namespace::parse("a").unwrap()]);
        assert!(catalogue.find("a/x").is_none() && catalogue.find("a/y").is_none());
        assert!(catalogue.find("b/x").is_some());
    }

    #[test]
    fn a_digest_is_64_lower_case_digits_behind_its_algorithm() {
        let digest = Digest::from_sha256([0xab; 32]);
        assert_eq!(Digest::parse(digest.as_str()), Ok(digest));
        for text in [
            "",
            "sha256:",
            &"a".repeat(64),
            &format!("sha256:{}", "A".repeat(64)),
            &format!("md5:{}", "a".repeat(64)),
        ] {
            assert_eq!(Digest::parse(text), Err(DigestError), "{text}");
        }
    }
}
