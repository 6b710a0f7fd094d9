//! Plugins and documents of the fleet, generated from fixed seeds.
//!
//! Generation is deterministic, so nothing has to be stored during a measurement.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_admission::{Descriptor, Digest, Plugin};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_core::registry::{Registry, Replacement};
use toolgate_sandbox::Component;

/// Tools of each plugin; a fifth is read-only.
const TOOLS: [&str; 10] = [
    "search_contacts",
    "list_invoices",
    "create_contact",
    "update_contact",
    "send_message",
    "create_invoice",
    "book_appointment",
    "cancel_appointment",
    "publish_page",
    "close_ticket",
];

/// Size of the fleet.
#[derive(Clone, Copy)]
pub struct Plan {
    pub plugins: usize,
    pub organizations: usize,
    /// In each organization.
    pub agents: usize,
}

/// Deterministic pseudo-random numbers.
pub struct Random(u64);

impl Random {
    pub fn new(what: u64, number: usize) -> Self {
        Self((what << 48) ^ number as u64)
    }

    /// Finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % count as u64).unwrap()
    }

    /// Distinct numbers, at most a tenth of all, so that a small plan is not disabled completely.
    fn few(&mut self, wanted: usize, of: usize) -> Vec<usize> {
        self.some(wanted.min(of / 10), of)
    }

    /// Distinct numbers, or all if there are not enough.
    fn some(&mut self, wanted: usize, of: usize) -> Vec<usize> {
        let mut some = BTreeSet::new();
        while some.len() < wanted.min(of) {
            some.insert(self.below(of));
        }
        some.into_iter().collect()
    }
}

impl Plan {
    pub const FLEET: Self = Self { plugins: 1_000, organizations: 1_000, agents: 100 };

    pub fn tools(&self) -> usize {
        self.plugins * TOOLS.len()
    }

    /// Registry with everything, and its plugins, which share one component.
    pub fn build(&self, component: &Component) -> (Registry, Vec<Arc<Plugin<Component>>>) {
        let registry = Registry::new(LimitsPatch::default(), Default::default());
        let plugins: Vec<_> = (0..self.plugins).map(|number| plugin(number, "1.0.0", component)).collect();
        registry.serve(LimitsPatch::default(), plugins.clone());
        registry.put(Replacement::Platform(self.platform(0)));
        for number in 0..self.organizations {
            let organization = organization(number);
            let connected = (0..20).filter(|service| service % 2 == number % 2).map(service);
            registry.put_organization(organization.clone(), connected.collect());
            let policy = OrgDocument::parse(&self.policy(number).to_string()).unwrap();
            registry.put(Replacement::Policy(organization.clone(), policy));
            for member in 0..self.agents {
                let document = self.agent(number, member, 0);
                registry.put(Replacement::Agent(organization.clone(), agent(member), document));
            }
        }
        (registry, plugins)
    }

    /// The platform policy; editions differ in their blocked tools.
    pub fn platform(&self, edition: usize) -> PlatformDocument {
        let mut random = Random::new(1, edition);
        let blocked = tool_list(&random.few(3, self.tools()));
        let profiles =
            table((0..6).map(|number| (format!("profile-{number}"), tool_list(&self.profile(number)))));
        let channels = table((0..5).map(|number| {
            let blocked = tool_list(&Random::new(2, number).few(20, self.tools()));
            (format!("channel-{number}"), json!({"blocked": blocked}))
        }));
        let needing = Random::new(3, 0).few(20, self.plugins);
        let needing = needing.into_iter().enumerate();
        let integrations = table(needing.map(|(at, plugin)| (every(plugin), json!(service(at)))));
        let document = json!({
            "blocked": blocked, "universal": [tool(0)], "profiles": profiles, "channels": channels,
            "integrations": integrations,
        });
        PlatformDocument::parse(&document.to_string()).unwrap()
    }

    fn profile(&self, number: usize) -> Vec<usize> {
        Random::new(4, number).some(200, self.tools())
    }

    fn policy(&self, number: usize) -> Value {
        let mut random = Random::new(5, number);
        let enabled = match has_everything(number) {
            true => json!("*"),
            false => self.namespaces(number).into_iter().map(every).collect(),
        };
        let disabled = tool_list(&random.few(5, self.tools()));
        let needing = random.few(2, self.plugins).into_iter();
        let integrations = table(needing.map(|plugin| (every(plugin), json!(service(0)))));
        let own = tool_list(&self.own_profile(number));
        json!({"enabled": enabled, "disabled": disabled, "profiles": {"own": own}, "integrations": integrations})
    }

    fn namespaces(&self, organization: usize) -> Vec<usize> {
        Random::new(6, organization).some(50, self.plugins)
    }

    fn own_profile(&self, organization: usize) -> Vec<usize> {
        self.enabled_by(organization, 20, &mut Random::new(7, organization))
    }

    /// Tools that the organization has enabled.
    fn enabled_by(&self, organization: usize, count: usize, random: &mut Random) -> Vec<usize> {
        if has_everything(organization) {
            return random.some(count, self.tools());
        }
        let namespaces = self.namespaces(organization);
        let tools = random.some(count, namespaces.len() * TOOLS.len());
        tools
            .into_iter()
            .map(|tool| namespaces[tool / TOOLS.len()] * TOOLS.len() + tool % TOOLS.len())
            .collect()
    }

    /// Tools that an agent's document enables: alternately by a list and by a profile.
    pub fn tools_of(&self, organization: usize, agent: usize) -> Vec<usize> {
        match profile_of(agent) {
            Some("own") => self.own_profile(organization),
            Some(_) => self.profile(agent / 4 % 6),
            None => {
                self.enabled_by(organization, 20, &mut Random::new(8, organization * self.agents + agent))
            }
        }
    }

    /// An agent's document; editions differ in their disabled tools.
    pub fn agent(&self, organization: usize, agent: usize, edition: usize) -> AgentDocument {
        let given = self.tools_of(organization, agent);
        let at = |place: usize| given[place % given.len()];
        let mut document = json!({
            "name": "Front desk", "autonomy": "supervised",
            "disabled": tool_list(&[at(edition), at(edition + 1)]),
            "require_approval_for": tool_list(&[at(edition + 2), at(edition + 3)]),
        });
        match profile_of(agent) {
            Some("own") => document["profile"] = json!("own"),
            Some(_) => document["profile"] = json!(format!("profile-{}", agent / 4 % 6)),
            None => document["enabled"] = tool_list(&given),
        }
        AgentDocument::parse(&document.to_string()).unwrap()
    }
}

fn has_everything(organization: usize) -> bool {
    organization.is_multiple_of(2)
}

fn profile_of(agent: usize) -> Option<&'static str> {
    match agent % 4 {
        0 => Some("own"),
        2 => Some("of the platform"),
        _ => None,
    }
}

pub fn organization(number: usize) -> Name {
    Name::parse(&format!("organization-{number:04}")).unwrap()
}

pub fn agent(number: usize) -> Name {
    Name::parse(&format!("agent-{number:03}")).unwrap()
}

/// `namespace/tool` for a tool number.
pub fn tool(number: usize) -> String {
    format!("{}/{}", namespace(number / TOOLS.len()), TOOLS[number % TOOLS.len()])
}

fn namespace(plugin: usize) -> String {
    format!("service-{plugin:04}")
}

fn every(plugin: usize) -> String {
    format!("{}/*", namespace(plugin))
}

fn service(number: usize) -> String {
    format!("integration-{number}")
}

fn table(members: impl Iterator<Item = (String, Value)>) -> Value {
    Value::Object(members.collect())
}

fn tool_list(tools: &[usize]) -> Value {
    tools.iter().map(|number| tool(*number)).collect()
}

/// Plugin with ten tools.
pub fn plugin(number: usize, version: &str, component: &Component) -> Arc<Plugin<Component>> {
    let tools: Vec<Value> = TOOLS
        .iter()
        .enumerate()
        .map(|(at, name)| {
            json!({
                "name": name, "usage": "Call it when it is asked for, and look things up before you change them.",
                "description": format!("Does `{}` for the people of this desk.", name.replace('_', " ")),
                "hints": {"read_only": at < 2}, "input_schema": schema(),
            })
        })
        .collect();
    let described = json!({"name": namespace(number), "version": version, "tools": tools});
    Arc::new(Plugin::with_trusted_hints(
        Digest::from_sha256([1; 32]),
        Arc::default(),
        Descriptor::parse(&described.to_string()).unwrap(),
        component.clone(),
    ))
}

fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description, "maxLength": 200});
    json!({
        "type": "object",
        "properties": {
            "name": text("Whom or what it is about."),
            "note": text("What to remember about it."),
            "status": {"type": "string", "enum": ["new", "open", "waiting", "done"]},
            "count": {"type": "integer", "minimum": 1, "maximum": 100},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 20},
        },
        "required": ["name"],
        "additionalProperties": false,
    })
}
