//! The agent's layer: the rules that its document compiles to.
//!
//! Writing a document fails if it names a tool of another server than the one that the agent is bound to (G5), or an
//! undefined profile or subtype. A tool that is not loaded only causes a warning.

use std::sync::Arc;

use toolgate_api::limits::LimitsPatch;
use toolgate_api::nearest;
use toolgate_api::policy::{AgentDocument, Autonomy, ServerBinding};
use toolgate_api::tools::{ToolList, ToolPattern};

use super::Rules;
use super::catalogue::{Catalogue, SnapshotId};
use super::organization::OrgRules;
use super::platform::PlatformRules;
use super::set::SharedSet;
use super::warning::{Warning, limits_without_effect, quota_tools, unresolved_entries};

/// Returns a warning for each part of the document that has no effect under these rules. Whether all layers together
/// leave a callable tool is not checked here but by [`no_tools_warning`](crate::no_tools_warning).
pub fn agent_warnings<P>(document: &AgentDocument, rules: &Rules<P>) -> Vec<Warning> {
    let catalogue = &*rules.catalogue;
    let mut warnings = Vec::new();
    let mut list = |place: &str, list: &ToolList| warnings.extend(unresolved_entries(place, list, catalogue));
    document.enabled.iter().for_each(|enabled| list("/enabled", enabled));
    list("/disabled", &document.disabled);
    document.require_approval_for.iter().for_each(|named| list("/require_approval_for", named));
    quota_tools(&document.quotas).for_each(|(place, tools)| list(&place, tools));
    warnings.extend(unresolved_server(document, catalogue));
    let (platform, organization) = (rules.platform.document(), rules.organization.document());
    let above = catalogue.platform_limits().narrow(&platform.limits).narrow(&organization.limits);
    warnings.extend(limits_without_effect(&document.limits, &above));
    warnings.extend(undefined_names(document, rules));
    warnings
}

/// A profile or subtype that is no longer defined.
fn undefined_names<P>(document: &AgentDocument, rules: &Rules<P>) -> Option<Warning> {
    let undefined = document.check(rules.platform.document(), rules.organization.document()).err()?;
    Some(Warning::new("UNDEFINED", undefined.place, undefined.message))
}

fn unresolved_server<P>(document: &AgentDocument, catalogue: &Catalogue<P>) -> Option<Warning> {
    let server = document.server.as_ref()?;
    if catalogue.plugin(server).is_some() {
        return None;
    }
    let loaded = catalogue.plugins().map(|plugin| plugin.descriptor.namespace.as_str());
    let message = format!("no loaded plugin is called `{server}`");
    let warning = Warning::new("UNRESOLVED_SERVER", "/server", message);
    Some(Warning { nearest: nearest(server.as_str(), loaded).map(str::to_owned), ..warning })
}

/// The compiled document of an agent, for the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct AgentRules {
    document: Arc<AgentDocument>,
    /// The tools of the server that the agent is bound to; all if it is bound to none.
    pub(crate) bound: SharedSet,
    pub(crate) disabled: SharedSet,
    /// The tools of its profile; all if it has none.
    pub(crate) profile: SharedSet,
    pub(crate) enabled: SharedSet,
    /// The tools that its autonomy allows.
    pub(crate) autonomy: SharedSet,
    /// The tools whose calls need approval.
    pub(crate) approval: SharedSet,
    parent: SnapshotId,
}

impl AgentRules {
    /// Compiles a document under the rules of its organization and the platform.
    pub fn compile<P>(
        document: Arc<AgentDocument>,
        organization: &OrgRules,
        platform: &PlatformRules,
        catalogue: &Catalogue<P>,
    ) -> Self {
        let name = document.profile_under(platform.document());
        let profile = name.map(|name| name.and_then(|name| organization.profile(name, platform)).cloned());
        let profile = profile.map(Option::unwrap_or_default);
        let enabled = match (&document.enabled, &profile) {
            (None, Some(_)) => SharedSet::ALL,
            (list, _) => SharedSet::compile(list.as_ref(), catalogue),
        };
        Self {
            bound: server_tools(&document, platform, catalogue),
            disabled: SharedSet::compile(Some(&document.disabled), catalogue),
            profile: profile.unwrap_or(SharedSet::ALL),
            enabled,
            autonomy: match document.autonomy {
                Autonomy::DraftOnly => catalogue.read_only().clone(),
                Autonomy::Supervised | Autonomy::Autonomous => SharedSet::ALL,
            },
            approval: match (&document.require_approval_for, document.autonomy) {
                (None, Autonomy::Supervised) => catalogue.changing().clone(),
                (list, _) => SharedSet::compile(list.as_ref(), catalogue),
            },
            parent: organization.id().clone(),
            document,
        }
    }

    /// The document.
    pub fn document(&self) -> &Arc<AgentDocument> {
        &self.document
    }

    /// The agent's limits.
    pub fn limits(&self) -> &LimitsPatch {
        &self.document.limits
    }

    /// Whether these rules were compiled under those of the organization.
    pub fn is_under(&self, organization: &OrgRules) -> bool {
        self.parent == *organization.id()
    }

    /// Whether its profile, or that of its subtype, has the tool; false without a profile.
    pub fn prefers(&self, index: usize, platform: &PlatformRules) -> bool {
        self.document.profile_under(platform.document()).is_some() && self.profile.contains(index)
    }
}

fn server_tools<P>(
    document: &AgentDocument,
    platform: &PlatformRules,
    catalogue: &Catalogue<P>,
) -> SharedSet {
    match &document.server {
        Some(server) => {
            let list = ToolList::List(vec![ToolPattern::Plugin(server.clone())]);
            SharedSet::compile(Some(&list), catalogue)
        }
        None if platform.document().server_binding == ServerBinding::Required => SharedSet::NONE,
        None => SharedSet::ALL,
    }
}

#[cfg(test)]
mod tests;
