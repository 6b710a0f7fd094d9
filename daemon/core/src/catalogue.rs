//! The catalogue: the plugins that an organization may use, searched, filtered and sorted (C4).
//!
//! Words are searched in the broker's index, which is built once for each set of plugins and not for a request.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use toolgate_admission::{Catalogue, OrgRules, Plugin, Tool, permissions_in_words, risk};
use toolgate_api::catalogue::{
    CatalogueEntry, CatalogueTool, CatalogueView, CategoryCount, PluginFacts, PluginKind,
};
use toolgate_api::consent::{ConsentState, RiskLevel};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_macros::boxed;
use toolgate_sandbox::Component;

use crate::plugins::{Provenance, hints_state};
use crate::registry::Snapshot;

/// Share of the best tool's score that a plugin gets for words in its name, category, purpose or publisher as they are written:
/// more than a tool that only has a similar word.
const AS_WRITTEN: f32 = 1.1;

/// A query of the catalogue.
#[derive(Clone, Debug, Default)]
pub struct CatalogueQuery {
    /// The organization; none for the operator's list of the platform's plugins.
    pub organization: Option<Name>,
    /// Words to search for.
    pub words: Option<String>,
    /// Only this category, in either case of letters.
    pub category: Option<String>,
    /// Only these kinds.
    pub kinds: Option<Vec<PluginKind>>,
    /// Only this publisher, in either case of letters.
    pub publisher: Option<String>,
    /// Only this level of risk.
    pub risk: Option<RiskLevel>,
    /// The order. Without one: the best match first, or by name where no words are searched for.
    pub sort: Option<CatalogueSort>,
    /// The namespace that the page before ended with.
    pub cursor: Option<String>,
    /// Entries of a page.
    pub limit: u32,
    /// Whether plugins that are still being compiled are left out, not waited for.
    pub partial: bool,
}

/// The order of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogueSort {
    /// By namespace.
    Name,
    /// The most called first.
    Popular,
    /// The last loaded first.
    Recent,
}

/// The provenance of the plugins, which their descriptions do not have, by namespace.
#[derive(Debug, Default)]
pub struct CatalogueFacts {
    /// The provenance of the platform's plugins.
    pub provenance: BTreeMap<Namespace, Provenance>,
    /// The provenance of the organization's own.
    pub own_provenance: BTreeMap<Namespace, Provenance>,
    /// The calls that are shown and sorted by.
    pub calls: HashMap<String, u64>,
    /// The calls of all organizations.
    pub calls_of_all: Arc<HashMap<String, u64>>,
}

/// The party that answers for a plugin.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Whether the operator, the organization or its publisher.
    pub kind: PluginKind,
    /// Whether a signature proves its publisher, or it is part of the daemon.
    pub publisher_proven: bool,
}

/// A plugin that matches, before its entry is made.
struct Row<'a> {
    plugin: &'a Arc<Plugin<Component>>,
    /// Its tools that the platform allows, at least one.
    tools: Vec<&'a Tool<Component>>,
    origin: Origin,
    score: f32,
    calls: u64,
    loaded_ms: u64,
}

impl Origin {
    /// Returns the party that answers for the plugin.
    pub fn of(
        snapshot: &Snapshot,
        plugin: &Plugin<Component>,
        is_own: bool,
        provenance: Option<&Provenance>,
    ) -> Self {
        let is_built_in = snapshot.is_built_in(&plugin.descriptor.namespace);
        let kind = match () {
            () if is_own => PluginKind::Custom,
            () if is_built_in || plugin.granted.standard => PluginKind::Standard,
            () => PluginKind::ThirdParty,
        };
        let is_signed = provenance.is_some_and(|provenance| provenance.is_signed);
        Self { kind, publisher_proven: is_built_in && !is_own || is_signed }
    }

    /// Whether the operator or the organization answers for it, or a signature proves its publisher.
    pub fn is_vouched_for(self) -> bool {
        self.publisher_proven || self.kind != PluginKind::ThirdParty
    }
}

/// The facts by which people judge a plugin.
pub fn plugin_facts(plugin: &Plugin<Component>, origin: Origin, consent: ConsentState) -> PluginFacts {
    let descriptor = &plugin.descriptor;
    PluginFacts {
        namespace: descriptor.namespace.to_string(),
        kind: origin.kind,
        version: descriptor.version.clone(),
        digest: plugin.digest.to_string(),
        publisher: descriptor.publisher.clone(),
        publisher_proven: origin.publisher_proven,
        permissions: permissions_in_words(&descriptor.capabilities),
        risk: risk(plugin, origin.is_vouched_for()),
        consent,
    }
}

/// The integrations that some tool of the plugin needs, sorted.
pub fn integrations(plugin: &Plugin<Component>) -> BTreeSet<&str> {
    let tools = plugin.descriptor.tools.iter().flat_map(|tool| &tool.required_integrations);
    tools.chain(&plugin.descriptor.capabilities.credentials).map(String::as_str).collect()
}

/// Lists a page of the catalogue.
///
/// # Errors
///
/// `INVALID_REQUEST` for a cursor whose entry is gone.
#[boxed]
pub async fn list(
    snapshot: &Snapshot,
    query: &CatalogueQuery,
    facts: &CatalogueFacts,
) -> Result<CatalogueView, CallError> {
    let organization = query.organization.as_ref();
    let catalogue = match organization {
        Some(name) => snapshot.catalogue_of(name),
        None => Arc::clone(snapshot.catalogue()),
    };
    let rules = organization.and_then(|name| snapshot.organization(name));
    let scores = match query.words.as_deref() {
        Some(words) => Some(scores(snapshot, organization, &catalogue, words).await),
        None => None,
    };
    let lister = Lister { snapshot, query, facts, rules: rules.as_deref() };
    let mut rows = lister.rows(&catalogue, scores.as_ref());
    let categories = categories(&rows);
    let is_in_category = |category: &str, row: &Row<'_>| {
        row.plugin.descriptor.category.as_deref().unwrap_or_default().eq_ignore_ascii_case(category)
    };
    rows.retain(|row| query.category.as_deref().is_none_or(|category| is_in_category(category, row)));
    lister.sort(&mut rows);
    let page = lister.page(&rows)?;
    let next_cursor =
        page.last().filter(|last| !is_last(&rows, last)).map(|last| namespace_of(last).to_string());
    let ranks = lister.ranks();
    let items = page.iter().map(|row| lister.entry(row, &ranks)).collect();
    Ok(CatalogueView { items, next_cursor, categories, collisions: lister.collisions() })
}

struct Lister<'a> {
    snapshot: &'a Snapshot,
    query: &'a CatalogueQuery,
    facts: &'a CatalogueFacts,
    rules: Option<&'a OrgRules>,
}

impl Lister<'_> {
    fn rows<'a>(
        &self,
        catalogue: &'a Catalogue<Component>,
        scores: Option<&HashMap<&'a str, f32>>,
    ) -> Vec<Row<'a>> {
        let of_plugins = catalogue.tools().chunk_by(|one, next| Arc::ptr_eq(one.plugin(), next.plugin()));
        of_plugins.filter_map(|tools| self.row(tools, scores)).collect()
    }

    /// The row of the plugin of these tools, if it may be used and matches.
    fn row<'a>(
        &self,
        tools: &'a [Tool<Component>],
        scores: Option<&HashMap<&'a str, f32>>,
    ) -> Option<Row<'a>> {
        let plugin = tools.first()?.plugin();
        let namespace = &plugin.descriptor.namespace;
        let score = match scores {
            Some(scores) => *scores.get(namespace.as_str())?,
            None => 0.0,
        };
        let is_own = self.query.organization.as_ref().is_some_and(|name| self.snapshot.owns(name, namespace));
        let known = if is_own { &self.facts.own_provenance } else { &self.facts.provenance };
        let provenance = known.get(namespace);
        let origin = Origin::of(self.snapshot, plugin, is_own, provenance);
        let of_kind = self.query.kinds.as_ref().is_none_or(|kinds| kinds.contains(&origin.kind));
        let publisher = plugin.descriptor.publisher.as_deref().unwrap_or_default();
        let of_publisher =
            self.query.publisher.as_deref().is_none_or(|wanted| publisher.eq_ignore_ascii_case(wanted));
        let is_available =
            |tool: &&Tool<Component>| self.rules.is_none_or(|rules| rules.is_available(tool.index()));
        let tools: Vec<_> = tools.iter().filter(is_available).collect();
        let of_risk =
            self.query.risk.is_none_or(|wanted| risk(plugin, origin.is_vouched_for()).level == wanted);
        (of_kind && of_publisher && of_risk && !tools.is_empty()).then(|| Row {
            plugin,
            tools,
            origin,
            score,
            calls: self.facts.calls.get(namespace.as_str()).copied().unwrap_or_default(),
            loaded_ms: provenance.map_or(0, |provenance| provenance.loaded_ms),
        })
    }

    fn sort(&self, rows: &mut [Row<'_>]) {
        // Rows come by name, and each sort is stable.
        match self.query.sort {
            Some(CatalogueSort::Name) => {}
            Some(CatalogueSort::Popular) => rows.sort_by_key(|row| Reverse(row.calls)),
            Some(CatalogueSort::Recent) => rows.sort_by_key(|row| Reverse(row.loaded_ms)),
            None => rows.sort_by(|left, right| right.score.total_cmp(&left.score)),
        }
    }

    fn page<'a, 'b>(&self, rows: &'b [Row<'a>]) -> Result<&'b [Row<'a>], CallError> {
        let start = match self.query.cursor.as_deref() {
            None => 0,
            Some(cursor) => {
                let last = rows.iter().position(|row| namespace_of(row).as_str() == cursor);
                let gone = || {
                    let hint = "begin the list again, without `cursor`";
                    CallError::new(
                        ErrorType::InvalidRequest,
                        "the entry of `cursor` is no longer in the list",
                        hint,
                    )
                };
                last.ok_or_else(gone)? + 1
            }
        };
        let end = rows.len().min(start.saturating_add(self.query.limit as usize));
        Ok(rows.get(start..end).unwrap_or_default())
    }

    /// The place of each plugin of the platform by the calls of all organizations. No organization learns their numbers.
    fn ranks(&self) -> HashMap<&str, u64> {
        let platform = self.snapshot.catalogue();
        let mut called: Vec<(&str, u64)> = platform
            .plugins()
            .filter_map(|plugin| {
                let (namespace, calls) =
                    self.facts.calls_of_all.get_key_value(plugin.descriptor.namespace.as_str())?;
                Some((namespace.as_str(), *calls))
            })
            .collect();
        called.sort_by_key(|(namespace, calls)| (Reverse(*calls), *namespace));
        called.into_iter().map(|(namespace, _)| namespace).zip(1..).collect()
    }

    fn entry(&self, row: &Row<'_>, ranks: &HashMap<&str, u64>) -> CatalogueEntry {
        let Row { plugin, tools, origin, calls, loaded_ms, .. } = row;
        let descriptor = &plugin.descriptor;
        let mut prerequisites: Vec<String> = Vec::new();
        for step in tools.iter().flat_map(|tool| &tool.descriptor().prerequisites) {
            if !prerequisites.contains(step) {
                prerequisites.push(step.clone());
            }
        }
        let enables = |rules: &OrgRules| tools.iter().any(|tool| rules.enables(tool.index()));
        let consent = self.rules.map_or(ConsentState::NotNeeded, |rules| rules.consent_to(plugin));
        CatalogueEntry {
            facts: plugin_facts(plugin, *origin, consent),
            purpose: descriptor.purpose.clone(),
            category: descriptor.category.clone(),
            prerequisites,
            integrations: integrations(plugin).into_iter().map(str::to_owned).collect(),
            tools: tools.iter().map(|tool| tool_entry(tool)).collect(),
            enabled: self.rules.is_some_and(enables),
            calls_30d: *calls,
            rank: ranks
                .get(descriptor.namespace.as_str())
                .copied()
                .filter(|_| origin.kind != PluginKind::Custom),
            loaded_ms: *loaded_ms,
        }
    }

    /// The namespaces of own tools that hide a plugin of the platform which the organization could use (9.4); in the list of
    /// the platform those that several plugins claim.
    fn collisions(&self) -> Vec<String> {
        let platform = self.snapshot.catalogue();
        let Some(organization) = &self.query.organization else {
            return platform.collisions().iter().map(ToString::to_string).collect();
        };
        let hiding =
            self.snapshot.own_plugins(organization).iter().map(|plugin| &plugin.descriptor.namespace);
        let hiding: Vec<_> = hiding.filter(|namespace| platform.plugin(namespace).is_some()).collect();
        if hiding.is_empty() {
            return Vec::new();
        }
        let shared = self.snapshot.denying_rules().organization;
        let is_available = |namespace: &&Namespace| {
            let mut tools = platform.tools().iter().filter(|tool| tool.id().namespace == **namespace);
            tools.any(|tool| shared.is_available(tool.index()))
        };
        hiding.into_iter().filter(is_available).map(ToString::to_string).collect()
    }
}

/// The score of each plugin that has one of the words: in its tools, or in its name, category, purpose or publisher.
async fn scores<'a>(
    snapshot: &Snapshot,
    organization: Option<&Name>,
    catalogue: &'a Catalogue<Component>,
    words: &str,
) -> HashMap<&'a str, f32> {
    let found = snapshot.search(organization, words).await;
    let best = found.first().map_or(1.0, |(_, score)| *score);
    let mut scores: HashMap<&str, f32> = HashMap::new();
    for (index, score) in found {
        let Some(tool) = catalogue.tools().get(index) else { continue };
        // The best tool decides, and comes first.
        scores.entry(tool.id().namespace.as_str()).or_insert(score);
    }
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    for plugin in catalogue.plugins() {
        let descriptor = &plugin.descriptor;
        let texts = [&descriptor.category, &descriptor.purpose, &descriptor.publisher];
        let texts = texts.into_iter().flatten().map(String::as_str);
        let texts = texts.chain([descriptor.namespace.as_str()]);
        let texts: Vec<String> = texts.map(str::to_lowercase).collect();
        let has = |word: &&String| texts.iter().any(|text| text.contains(word.as_str()));
        let having = words.iter().filter(has).count();
        if having > 0 {
            let share = having as f32 / words.len() as f32;
            *scores.entry(descriptor.namespace.as_str()).or_default() += best * AS_WRITTEN * share;
        }
    }
    scores
}

fn categories(rows: &[Row<'_>]) -> Vec<CategoryCount> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.plugin.descriptor.category.as_deref().unwrap_or_default()).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(category, count)| CategoryCount { category: category.to_owned(), count })
        .collect()
}

fn tool_entry(tool: &Tool<Component>) -> CatalogueTool {
    let descriptor = tool.descriptor();
    CatalogueTool {
        tool: descriptor.id.to_string(),
        description: descriptor.description.clone(),
        example: descriptor.examples.first().cloned(),
        tags: descriptor.tags.clone(),
        hints: descriptor.hints,
        hints_state: hints_state(tool.plugin()),
    }
}

fn namespace_of<'a>(row: &Row<'a>) -> &'a Namespace {
    &row.plugin.descriptor.namespace
}

fn is_last(rows: &[Row<'_>], row: &Row<'_>) -> bool {
    rows.last().is_some_and(|last| Arc::ptr_eq(last.plugin, row.plugin))
}
