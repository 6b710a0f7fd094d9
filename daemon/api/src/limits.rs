//! The limits of one call (B2): a default, a ceiling and a reason for each, in one table.
//!
//! The operator's configuration sets a limit, up to its ceiling; every further layer (plugin, organization, agent)
//! can only lower it. [`Limits::narrow`] is the only way to apply a layer, and takes the smaller value, so no layer
//! can raise a limit by mistake.
//!
//! The numbers are initial values that proved workable. A limit far above the needs of a tool protects nothing, so
//! the runtime's own defaults (128 MiB for one host call, a million resources) are overridden here.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::nearest;
use crate::text::escape_for_display;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Most tools of one plugin.
pub const PLUGIN_TOOLS: usize = 1_000;
/// Longest description of a plugin as JSON text: a thousand tools with ample schemas.
pub const PLUGIN_BYTES: usize = 4 * 1024 * 1024;
/// Most subschemas of one plugin, references expanded: at some hundred bytes each this bounds what a plugin of a few
/// megabytes can make the daemon hold.
pub const PLUGIN_SUBSCHEMAS: u64 = 100_000;
/// Longest definition of a custom tool as JSON text. Its description repeats the schemas, and must fit [`PLUGIN_BYTES`].
pub const DEFINITION_BYTES: usize = 2 * 1024 * 1024;
/// Longest description of a tool, in characters. Models read it in every conversation.
pub const TOOL_DESCRIPTION_CHARS: usize = 4_096;
/// Longest usage of a tool, in characters.
pub const TOOL_USAGE_CHARS: usize = 16_384;
/// Most tags, examples, scopes and JSON pointers of a tool.
pub const TOOL_LIST_ENTRIES: usize = 100;
/// Longest tag of a tool, in characters.
pub const TAG_CHARS: usize = 100;

/// One row of [`LIMITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitTableRow {
    /// The key in documents and configuration; the unit is its last word.
    pub name: &'static str,
    /// The value without any configuration.
    pub default: u64,
    /// The most that an operator can set.
    pub ceiling: u64,
    /// Why there is such a limit, and why at this value.
    pub why: &'static str,
}

macro_rules! limits {
    ($($field:ident $variant:ident = $default:expr, $ceiling:expr, $why:literal;)*) => {
        /// What one call may use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $why] pub $field: u64,)*
        }

        /// The name of a limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LimitName {
            $(#[doc = $why] $variant,)*
        }

        /// Every limit with its default, its ceiling and its reason.
        pub const LIMITS: &[LimitTableRow] = &[
            $(LimitTableRow { name: stringify!($field), default: $default, ceiling: $ceiling, why: $why },)*
        ];

        impl LimitName {
            /// Every name, in the order of the table.
            pub const ALL: &'static [LimitName] = &[$(LimitName::$variant,)*];
        }

        impl Limits {
            /// The limits without any configuration.
            pub const DEFAULT: Limits = Limits { $($field: $default,)* };
            /// The most that an operator can set.
            pub const CEILING: Limits = Limits { $($field: $ceiling,)* };

            /// The value of the limit of that name.
            pub fn get(&self, name: LimitName) -> u64 {
                match name { $(LimitName::$variant => self.$field,)* }
            }

            fn get_mut(&mut self, name: LimitName) -> &mut u64 {
                match name { $(LimitName::$variant => &mut self.$field,)* }
            }
        }
    };
}

limits! {
    fuel Fuel = 1_000_000_000, 1_000_000_000_000,
        "Guest instructions: a bound on CPU that is the same on every machine. 10^9 is about half a second.";
    deadline_ms DeadlineMs = 30_000, 600_000,
        "Wall time of the whole call, waiting in the queue included. A model that waits longer has lost its user.";
    memory_bytes MemoryBytes = 64 * MIB, 1024 * MIB,
        "All linear memories of the call together. Enough for a scripting runtime, and a few hundred calls fit a small machine.";
    memories Memories = 8, 8,
        "Linear memories: one for each core module of a component. Each reserves address space in the pool, which has as many for every call that runs.";
    tables Tables = 16, 16,
        "Tables: a component made of several modules has a few. Each takes a slot of the pool, which has as many for every call that runs.";
    table_elements TableElements = 20_000, 100_000,
        "Elements of each table: function pointers of a large scripting runtime come to about ten thousand.";
    instances Instances = 40, 40,
        "Core instances in a component: adapters and shims come to about ten, those of Python to forty.";
    component_handles ComponentHandles = 1_000, 10_000,
        "Handles the guest holds at once. The runtime's own default of 100,000 is memory of the host.";
    resources Resources = 256, 4_096,
        "Host resources (open files, streams, requests) held at once. Each can hold a file descriptor.";
    host_call_bytes HostCallBytes = MIB + 64 * KIB, 65 * MIB,
        "Data copied in one host call: a whole result and something around it. The runtime's own default is 128 MiB.";
    host_calls HostCalls = 100_000, 10_000_000,
        "Calls into the host. Fuel does not see their cost, so their number is bounded by itself.";
    random_bytes RandomBytes = 64 * KIB, MIB,
        "Random bytes of one request: the host makes them, and no fuel is burnt meanwhile.";
    header_bytes HeaderBytes = 32 * KIB, 128 * KIB,
        "HTTP header fields of one message: servers commonly stop at 8 to 32 KiB.";
    output_bytes OutputBytes = MIB, 64 * MIB,
        "The result as JSON text. A larger one, up to 16 times this, is written to `/workspace/.results`: it fits no model's context.";
    log_bytes LogBytes = 64 * KIB, 4 * MIB,
        "What a call may write to the log, standard output and error included. The rest is dropped and counted.";
    arguments_bytes ArgumentsBytes = MIB, 8 * MIB,
        "The arguments as JSON text: a whole file can be written in one call.";
    arguments_depth ArgumentsDepth = 64, 120,
        "Nesting of the arguments. Validation uses stack for each level. Common parsers stop at 128, and records and pages stand around them.";
    workspace_bytes WorkspaceBytes = 64 * MIB, 16 * 1024 * MIB,
        "Bytes in the session's workspace, all its calls together.";
    workspace_files WorkspaceFiles = 10_000, 1_000_000,
        "Files and folders in the session's workspace: a million empty files cost a disk its inodes.";
    open_files OpenFiles = 128, 1_024,
        "Files and folders of the workspace held open at once. Each is one of the daemon's own descriptors, which all calls share.";
    requests Requests = 32, 1_000,
        "Outgoing requests of a call: enough to read some pages, too few to flood a server.";
    egress_bytes EgressBytes = 16 * MIB, 1024 * MIB,
        "Bytes over the network, both ways together.";
    inner_calls InnerCalls = 100, 1_000,
        "Calls of other tools by a script: enough to go through a list, too few to flood a tool. Each is one record of the audit log.";
}

impl LimitName {
    /// The key in documents and configuration.
    pub fn as_str(self) -> &'static str {
        LIMITS[self as usize].name
    }

    /// The limit with that key; the error names the nearest.
    pub fn parse(text: &str) -> Result<Self, LimitsError> {
        Self::ALL
            .iter()
            .copied()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| LimitsError { name: text.to_owned(), nearest: nearest(text, Limits::names()) })
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Longest piece of what was written that a message shows, in characters.
const NAME_CHARS: usize = 64;

/// A key that is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LimitsError {
    /// The unknown name.
    pub name: String,
    /// The nearest known name.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` is not a limit", escape_for_display(&self.name, NAME_CHARS))?;
        match self.nearest {
            Some(nearest) => write!(formatter, "; did you mean `{nearest}`?"),
            None => write!(formatter, "; the limits are {}", Limits::names().collect::<Vec<_>>().join(", ")),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Limits {
    /// The platform's limits: the defaults with what the operator configured, never above the ceiling.
    ///
    /// The operator owns the machine, so this one layer may set a value above the default.
    pub fn platform(patch: &LimitsPatch) -> Limits {
        let mut limits = Self::DEFAULT;
        for (name, value) in patch.iter() {
            *limits.get_mut(name) = value.min(Self::CEILING.get(name));
        }
        limits
    }

    /// The limits with a layer applied: each is the smaller of the two, and never above the ceiling.
    #[must_use]
    pub fn narrow(self, patch: &LimitsPatch) -> Limits {
        let mut limits = self;
        for (name, value) in patch.iter() {
            let limit = limits.get_mut(name);
            *limit = (*limit).min(value).min(Self::CEILING.get(name));
        }
        limits
    }

    /// The keys of all limits, in the order of the table.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LIMITS.iter().map(|row| row.name)
    }
}

/// What one layer says about limits: some of them, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsPatch(BTreeMap<LimitName, u64>);

impl LimitsPatch {
    /// A layer that says nothing.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The same layer with one more limit set.
    #[must_use]
    pub fn with(mut self, name: LimitName, value: u64) -> Self {
        self.set(name, value);
        self
    }

    /// Sets one limit.
    pub fn set(&mut self, name: LimitName, value: u64) {
        self.0.insert(name, value);
    }

    /// Returns this layer's value of one limit.
    pub fn get(&self, name: LimitName) -> Option<u64> {
        self.0.get(&name).copied()
    }

    /// Iterates over this layer's values, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (LimitName, u64)> + '_ {
        self.0.iter().map(|(name, value)| (*name, *value))
    }

    /// Whether this layer says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(LimitName, u64)> for LimitsPatch {
    fn from_iter<I: IntoIterator<Item = (LimitName, u64)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Serialize for LimitsPatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name.as_str(), &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for LimitName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for LimitsPatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PatchVisitor;

        impl<'de> Visitor<'de> for PatchVisitor {
            type Value = LimitsPatch;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of limits and whole numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitsPatch, A::Error> {
                let mut patch = LimitsPatch::new();
                while let Some(name) = map.next_key()? {
                    if patch.0.insert(name, map.next_value()?).is_some() {
                        return Err(de::Error::custom(format_args!("the limit `{name}` stands there twice")));
                    }
                }
                Ok(patch)
            }
        }

        // A struct with unlisted fields: `null` is the same as an absent limit.
        deserializer.deserialize_struct("Limits", &[], PatchVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_key_is_shown_short_and_visible() {
        let error = LimitName::parse(&format!("a\u{202e}\n{}", "x".repeat(1_000_000))).unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with("`a\\u{202e}\\nxxx") && shown.len() < 1_000, "{shown}");
    }

    #[test]
    fn the_defaults_are_the_published_ones() {
        let limits = Limits::DEFAULT;
        assert_eq!(limits.fuel, 1_000_000_000);
        assert_eq!(limits.deadline_ms, 30_000);
        assert_eq!(limits.memory_bytes, 64 << 20);
        assert_eq!((limits.output_bytes, limits.log_bytes), (1 << 20, 64 << 10));
        assert_eq!((limits.arguments_bytes, limits.arguments_depth), (1 << 20, 64));
        assert_eq!((limits.workspace_bytes, limits.workspace_files), (64 << 20, 10_000));
        assert_eq!(limits.open_files, 128);
        assert_eq!(limits.host_call_bytes, limits.output_bytes + 64 * KIB);
    }

    #[test]
    fn every_limit_has_a_reason_a_default_and_a_ceiling_not_below_it() {
        for (name, row) in LimitName::ALL.iter().zip(LIMITS) {
            assert_eq!(name.as_str(), row.name);
            assert!(row.default > 0 && row.default <= row.ceiling, "{}", row.name);
            assert!(row.why.len() > 30, "{}", row.name);
            assert_eq!(Limits::DEFAULT.get(*name), row.default);
            assert_eq!(Limits::CEILING.get(*name), row.ceiling);
        }
    }

    #[test]
    fn an_unknown_limit_names_the_nearest() {
        let refused = serde_json::from_str::<LimitsPatch>(r#"{"memory_byts":1}"#).unwrap_err().to_string();
        assert!(refused.contains("`memory_byts` is not a limit; did you mean `memory_bytes`?"), "{refused}");
        let taken: LimitsPatch = serde_json::from_str(r#"{"memory_bytes":1}"#).unwrap();
        assert_eq!(taken.get(LimitName::MemoryBytes), Some(1));
    }

    #[test]
    fn a_limit_that_is_no_whole_number_is_refused() {
        for text in [r#"{"fuel":-1}"#, r#"{"fuel":1.5}"#, r#"{"fuel":"1"}"#, r#"{"fuel":null}"#, "[]"] {
            assert!(serde_json::from_str::<LimitsPatch>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<LimitsPatch>(r#"{"fuel":1}"#).is_ok());
    }

    #[test]
    fn a_limit_that_stands_there_twice_is_refused() {
        assert!(serde_json::from_str::<LimitsPatch>(r#"{"fuel":1,"fuel":2}"#).is_err());
    }

    #[test]
    fn a_patch_is_written_as_it_was_read() {
        let text = r#"{"fuel":7,"deadline_ms":9}"#;
        let patch: LimitsPatch = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&patch).unwrap(), text);
    }

    #[test]
    fn the_operator_can_raise_a_limit_to_its_ceiling_and_no_further() {
        let patch =
            LimitsPatch::new().with(LimitName::MemoryBytes, u64::MAX).with(LimitName::Fuel, 2_000_000_000);
        let limits = Limits::platform(&patch);
        assert_eq!(limits.memory_bytes, Limits::CEILING.memory_bytes);
        assert_eq!(limits.fuel, 2_000_000_000);
    }

    fn any_patch() -> impl Strategy<Value = LimitsPatch> {
        let value = prop_oneof![0..200_u64, 0..(2_u64 << 30), any::<u64>()];
        proptest::collection::vec((0..LimitName::ALL.len(), value), 0..8).prop_map(|pairs| {
            pairs.into_iter().map(|(index, value)| (LimitName::ALL[index], value)).collect()
        })
    }

    proptest! {
        /// B2, G7: no layer gives what the one above did not.
        #[test]
        fn no_layer_widens(platform in any_patch(), layers in proptest::collection::vec(any_patch(), 0..4)) {
            let mut above = Limits::platform(&platform);
            for layer in &layers {
                let below = above.narrow(layer);
                for name in LimitName::ALL {
                    prop_assert!(below.get(*name) <= above.get(*name));
                    prop_assert!(below.get(*name) <= Limits::CEILING.get(*name));
                    if let Some(said) = layer.get(*name) {
                        prop_assert!(below.get(*name) <= said);
                    } else {
                        prop_assert_eq!(below.get(*name), above.get(*name));
                    }
                }
                above = below;
            }
        }
    }
}
