//! Policies of the platform, of an organization and of an agent.
//!
//! In each, every field may be left out, and `null` is the same. A field that nothing enforces is an error (requirements
//! 9.9). The documents are compiled to rules in `toolgate-admission`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::limits::LimitsPatch;
use crate::name::{Name, Namespace};
use crate::network::{NetworkRule, policy_rules};
use crate::quota::{Quota, quotas};
use crate::read::{ReadError, invalid, null_is_default, pointer, read_document, table, text};
use crate::tools::{ToolList, ToolPattern};
use crate::words::words;

/// Longest reason of a channel, in characters.
const REASON_CHARS: usize = 200;

/// Most entries of a table: profiles, channels, integrations.
const ENTRIES: usize = 10_000;
/// Most names of `messages_to`.
const RECIPIENTS: usize = 256;
/// Longest display name, in characters.
const DISPLAY_CHARS: usize = 200;

/// Profiles and the tools of each.
pub type ProfileTable = BTreeMap<Name, ToolList>;
/// Channels and the tools that each blocks.
pub type ChannelTable = BTreeMap<Name, Channel>;
/// Tools and the integration that each needs.
pub type IntegrationTable = BTreeMap<ToolPattern, Name>;
/// Intents by name.
pub type IntentTable = BTreeMap<String, Intent>;

/// The policy of the platform. Every field is optional; `null` equals an absent field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlatformPolicy))]
pub struct PlatformDocument {
    /// The tools that the platform allows. Default: every loaded tool.
    pub allowed: Option<ToolList>,
    /// The tools that cannot be called, regardless of every other rule.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub blocked: ToolList,
    /// Read-only tools that stay available regardless of profiles, `enabled` lists and the broker (G14).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub universal: ToolList,
    /// Named sets of tools for agents (G9).
    #[serde(default, deserialize_with = "table::<_, _, _, ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, ToolList>>))]
    pub profiles: ProfileTable,
    /// Subtypes of agents, each with the profile of an agent that names no profile.
    #[serde(default, deserialize_with = "table::<_, _, _, ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    pub subtypes: BTreeMap<Name, Name>,
    /// The channels on which sessions can be opened, each with the tools that it blocks (G12).
    #[serde(default, deserialize_with = "table::<_, _, _, ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, Channel>>))]
    pub channels: ChannelTable,
    /// Whether every session must name its channel. No channel blocks a tool in a session without one.
    #[serde(default, deserialize_with = "null_is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub channel_required: bool,
    /// Tools (`namespace/tool`, `namespace/*`), each with an integration that it requires in addition to its plugin's
    /// manifest (G8).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    pub integrations: IntegrationTable,
    /// Intents of a message, each with the tools that the broker prefers for it (G15).
    #[serde(default, deserialize_with = "intents")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, Intent>>))]
    pub intents: IntentTable,
    /// Limits of every call. The smallest value of all layers applies; a layer cannot raise a limit.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<LimitsPatch>))]
    pub limits: LimitsPatch,
    /// Whether `server` must bind every agent to one plugin (G5). Default: `optional`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ServerBinding>))]
    pub server_binding: ServerBinding,
    /// Whether organizations may load plugins for themselves. Loaded plugins stay when it is taken back.
    #[serde(default, deserialize_with = "null_is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub owners_load_plugins: bool,
    /// Rules for what the audit log leaves out besides secrets.
    #[serde(default, deserialize_with = "null_is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RedactSettings>))]
    pub redact: RedactSettings,
    /// Quotas of all calls: without `per`, one quota for the whole platform (O4). Each quota of each layer counts.
    #[serde(default, deserialize_with = "quotas")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Quota>>, max_items = 32))]
    pub quotas: Arc<[Quota]>,
}

/// Data that the audit log does not have. Keys, tokens, passwords and card numbers never stand in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RedactSettings {
    /// Whether e-mail addresses are replaced in arguments and effects. Default: `false`.
    #[serde(default, deserialize_with = "null_is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub emails: bool,
}

/// Whether agents must be bound to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[allow(missing_docs, reason = "the words say it, and their schema is one list")]
pub enum ServerBinding {
    #[default]
    Optional,
    Required,
}

/// An intent of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Intent {
    /// Regular expressions in the syntax of the Rust crate `regex`, matched without regard to case. A message that
    /// matches one of them has this intent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub patterns: Vec<String>,
    /// The tools for the intent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub tools: ToolList,
}

/// A channel of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Channel {
    /// The tools that cannot be called on the channel.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub blocked: ToolList,
    /// The reason, which refusals show.
    #[serde(default, deserialize_with = "text::<_, _, REASON_CHARS>")]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub reason: Option<String>,
}

/// The policy of an organization. Every field is optional; `null` equals an absent field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = OrganizationPolicy))]
pub struct OrgDocument {
    /// The tools of the organization. Default: none.
    pub enabled: Option<ToolList>,
    /// The tools that the organization's agents cannot call.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub disabled: ToolList,
    /// Named sets of tools for agents. A profile hides the platform's profile of the same name.
    #[serde(default, deserialize_with = "table::<_, _, _, ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, ToolList>>))]
    pub profiles: ProfileTable,
    /// Channels of the organization, and the tools that it also blocks on the platform's channels.
    #[serde(default, deserialize_with = "table::<_, _, _, ENTRIES>")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, Channel>>))]
    pub channels: ChannelTable,
    /// Tools (`namespace/tool`, `namespace/*`), each with an integration that it requires in addition to those of the
    /// platform's policy and of its plugin.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    pub integrations: IntegrationTable,
    /// The tool broker, which reduces the list of tools to those that match a message.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BrokerSettings>))]
    pub broker: BrokerSettings,
    /// Limits of the organization's calls. The smallest value of all layers applies; a layer cannot raise a limit.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<LimitsPatch>))]
    pub limits: LimitsPatch,
    /// Network rules that restrict the grants of the tools, for all agents of the organization. Default: no
    /// restriction. An empty list allows no request.
    #[serde(default, deserialize_with = "network")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<NetworkRule>>, max_items = 256))]
    pub network: Option<Arc<[NetworkRule]>>,
    /// Rules for what the audit log leaves out besides secrets. They add to the rules of the platform.
    #[serde(default, deserialize_with = "null_is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RedactSettings>))]
    pub redact: RedactSettings,
    /// Quotas of the organization's calls (O4). Each quota of each layer counts.
    #[serde(default, deserialize_with = "quotas")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Quota>>, max_items = 32))]
    pub quotas: Arc<[Quota]>,
}

/// The tool broker, which reduces the list of tools to those that match a message (G15).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Broker))]
pub struct BrokerSettings {
    /// Whether the broker is enabled. Default: `false`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub enabled: bool,
    /// The tools that are listed for every message.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub always_show: ToolList,
}

/// The policy of an agent. Every field is optional; `null` equals an absent field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentDocument {
    /// The display name, at most 200 visible characters.
    #[serde(default, deserialize_with = "text::<_, _, DISPLAY_CHARS>")]
    pub name: Option<String>,
    /// The tools that the agent can call. Default: the tools of its profile, and none without a profile.
    pub enabled: Option<ToolList>,
    /// The tools that the agent cannot call, regardless of every other rule.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub disabled: ToolList,
    /// The namespace of the one plugin that the agent is bound to; `enabled` then names no other namespace.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40))]
    pub server: Option<Namespace>,
    /// The profile of the agent, which the organization or the platform defines.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub profile: Option<Name>,
    /// The subtype of the agent. It selects a profile if `profile` is absent. The platform's policy defines the
    /// subtypes.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub subtype: Option<Name>,
    /// Which calls run without a person's approval. Default: `supervised`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Autonomy>))]
    pub autonomy: Autonomy,
    /// The tools whose calls require a person's approval. If absent, a `supervised` agent requires approval for every
    /// tool that is not read-only.
    pub require_approval_for: Option<ToolList>,
    /// Limits of the agent's calls. The smallest value of all layers applies; a layer cannot raise a limit.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<LimitsPatch>))]
    pub limits: LimitsPatch,
    /// Network rules that restrict the grants of the tools. Default: no restriction. An empty list allows no request.
    #[serde(default, deserialize_with = "network")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<NetworkRule>>, max_items = 256))]
    pub network: Option<Arc<[NetworkRule]>>,
    /// The agents of the organization that this one can send messages to: `"*"` or a list of names. Default: none.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, max_items = 256))]
    pub messages_to: Recipients,
    /// Quotas of the agent's calls (O4). Each quota of each layer counts.
    #[serde(default, deserialize_with = "quotas")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Quota>>, max_items = 32))]
    pub quotas: Arc<[Quota]>,
}

/// Agents that another one can send messages to (T12). An empty list is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// All agents of the organization.
    All,
    /// The agents of these names.
    Named(Vec<Name>),
}

impl Default for Recipients {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl Recipients {
    /// Whether the agent is one of them.
    pub fn has(&self, agent: &Name) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(agent),
        }
    }
}

impl<'de> Deserialize<'de> for Recipients {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Word(String),
            Names(Vec<String>),
        }
        let hint = "write `\"*\"` or a list of at most 256 names of agents";
        let names = match Form::deserialize(from) {
            Ok(Form::Word(word)) if word == "*" => return Ok(Self::All),
            Ok(Form::Names(names)) if names.len() <= RECIPIENTS => names,
            _ => return Err(invalid("the value is not a list of agents", hint)),
        };
        let names: Result<Vec<Name>, _> = names.iter().map(|name| Name::parse(name)).collect();
        names.map(Self::Named).map_err(|error| invalid(error.message, error.hint))
    }
}

words! {
    /// Which calls of an agent run without a person's approval (G10).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub enum Autonomy {
        /// The agent can call read-only tools only.
        DraftOnly = "draft_only",
        /// Calls of the tools in `require_approval_for` require approval; without that list, calls of every tool that is
        /// not read-only.
        #[default]
        Supervised = "supervised",
        /// Calls of the tools in `require_approval_for` require approval; no other call does.
        Autonomous = "autonomous",
    }
}

impl PlatformDocument {
    /// Parses a policy. The patterns of intents are checked when they are compiled.
    pub fn parse(json: &str) -> Result<Self, ReadError> {
        let document: Self = read_document(json)?;
        let profiles = &document.profiles;
        let undefined = document.subtypes.iter().find(|(_, profile)| !profiles.contains_key(*profile));
        let Some((subtype, profile)) = undefined else { return Ok(document) };
        Err(ReadError::undefined_name(
            pointer("/subtypes", subtype.as_str()),
            "profile",
            profile.as_str(),
            profiles.keys().map(Name::as_str),
        ))
    }
}

impl OrgDocument {
    /// Parses a policy.
    pub fn parse(json: &str) -> Result<Self, ReadError> {
        read_document(json)
    }

    /// A policy that enables every tool that the platform allows.
    pub fn allow_all() -> Self {
        Self { enabled: Some(ToolList::All), ..Self::default() }
    }
}

impl AgentDocument {
    /// Parses a document. Tools of another server than the one that the agent is bound to are refused (G5).
    pub fn parse(json: &str) -> Result<Self, ReadError> {
        let document: Self = read_document(json)?;
        document.check_binding()?;
        Ok(document)
    }

    /// A document that allows every tool of the layers above, without approval.
    pub fn allow_all() -> Self {
        Self { enabled: Some(ToolList::All), autonomy: Autonomy::Autonomous, ..Self::default() }
    }

    /// Returns an error if a profile or subtype is undefined, or a server binding that the platform demands is missing.
    pub fn check(&self, platform: &PlatformDocument, organization: &OrgDocument) -> Result<(), ReadError> {
        let profiles = platform.profiles.keys().chain(organization.profiles.keys()).map(Name::as_str);
        if let Some(profile) = &self.profile
            && !profiles.clone().any(|known| known == profile.as_str())
        {
            return Err(ReadError::undefined_name("/profile", "profile", profile.as_str(), profiles));
        }
        let subtypes = platform.subtypes.keys().map(Name::as_str);
        if let Some(subtype) = &self.subtype
            && !platform.subtypes.contains_key(subtype)
        {
            return Err(ReadError::undefined_name("/subtype", "subtype", subtype.as_str(), subtypes));
        }
        if platform.server_binding == ServerBinding::Required && self.server.is_none() {
            let message = "the platform demands that every agent is bound to a server";
            let hint = "name the one plugin whose tools the agent may call";
            return Err(ReadError::new("/server", message, hint));
        }
        Ok(())
    }

    /// Returns the profile that it names, or that of its subtype. The inner `None` is a subtype that is no longer defined,
    /// which has no tools.
    pub fn profile_under<'a>(&'a self, platform: &'a PlatformDocument) -> Option<Option<&'a Name>> {
        match (&self.profile, &self.subtype) {
            (Some(profile), _) => Some(Some(profile)),
            (None, Some(subtype)) => Some(platform.subtypes.get(subtype)),
            (None, None) => None,
        }
    }

    fn check_binding(&self) -> Result<(), ReadError> {
        let Some(server) = &self.server else { return Ok(()) };
        let lists = [("/enabled", &self.enabled), ("/require_approval_for", &self.require_approval_for)];
        for (place, list) in lists {
            let patterns = list.as_ref().map(ToolList::patterns).unwrap_or_default().iter().enumerate();
            let mut foreign =
                patterns.filter(|(_, pattern)| pattern.namespace().is_some_and(|named| named != server));
            if let Some((index, pattern)) = foreign.next() {
                return Err(ReadError::new(
                    pointer(place, &index.to_string()),
                    format!("the agent is bound to the server `{server}`, and `{pattern}` is not of it"),
                    "remove it from the list, or leave out `server`",
                ));
            }
        }
        Ok(())
    }
}

fn network<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<[NetworkRule]>>, D::Error> {
    policy_rules(from).map(Some)
}

fn intents<'de, D: Deserializer<'de>>(from: D) -> Result<IntentTable, D::Error> {
    let intents: BTreeMap<Name, Intent> = table::<_, _, _, ENTRIES>(from)?;
    Ok(intents.into_iter().map(|(name, intent)| (name.to_string(), intent)).collect())
}
