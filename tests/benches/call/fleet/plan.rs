//! What the fleet is made of: plugins, and the documents of its layers, all drawn from fixed seeds.
//!
//! Whatever is asked for twice is the same twice, so that nothing of it needs to be kept beside what is measured.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate::registry::{Registry, Replacement};
use toolgate_admission::{
    AgentDocument, Descriptor, Digest, LimitsPatch, Name, OrgDocument, PlatformDocument, Plugin,
};
use toolgate_sandbox::Component;

/// What each plugin can do: a fifth changes nothing.
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

/// How many of what there is.
#[derive(Clone, Copy)]
pub struct Plan {
    pub plugins: usize,
    pub organizations: usize,
    /// In each organization.
    pub agents: usize,
}

/// Numbers that look random and are the same each time.
pub struct Dice(u64);

impl Dice {
    pub fn new(what: u64, number: usize) -> Self {
        Self((what << 48) ^ number as u64)
    }

    /// The finisher of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % count as u64).unwrap()
    }

    /// Some different numbers, a tenth of all at most: what is kept out must leave something where there is little.
    fn few(&mut self, wanted: usize, of: usize) -> Vec<usize> {
        self.some(wanted.min(of / 10), of)
    }

    /// Some different numbers, or all where there are no more.
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

    /// A registry that serves all of it, and the plugins. One component stands behind every plugin.
    pub fn build(&self, component: &Component) -> (Registry, Vec<Arc<Plugin<Component>>>) {
        let registry = Registry::new(LimitsPatch::default());
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

    /// The platform's policy; another edition of it differs in what it blocks.
    pub fn platform(&self, edition: usize) -> PlatformDocument {
        let mut dice = Dice::new(1, edition);
        let blocked = listed(&dice.few(3, self.tools()));
        let profiles =
            table((0..6).map(|number| (format!("profile-{number}"), listed(&self.profile(number)))));
        let channels = table((0..5).map(|number| {
            let blocked = listed(&Dice::new(2, number).few(20, self.tools()));
            (format!("channel-{number}"), json!({"blocked": blocked}))
        }));
        let needing = Dice::new(3, 0).few(20, self.plugins);
        let needing = needing.into_iter().enumerate();
        let integrations = table(needing.map(|(at, plugin)| (every(plugin), json!(service(at)))));
        let document = json!({
            "blocked": blocked, "universal": [tool(0)], "profiles": profiles, "channels": channels,
            "integrations": integrations,
        });
        PlatformDocument::parse(&document.to_string()).unwrap()
    }

    fn profile(&self, number: usize) -> Vec<usize> {
        Dice::new(4, number).some(200, self.tools())
    }

    fn policy(&self, number: usize) -> Value {
        let mut dice = Dice::new(5, number);
        let enabled = match has_everything(number) {
            true => json!("*"),
            false => self.namespaces(number).into_iter().map(every).collect(),
        };
        let disabled = listed(&dice.few(5, self.tools()));
        let needing = dice.few(2, self.plugins).into_iter();
        let integrations = table(needing.map(|plugin| (every(plugin), json!(service(0)))));
        let own = listed(&self.own_profile(number));
        json!({"enabled": enabled, "disabled": disabled, "profiles": {"own": own}, "integrations": integrations})
    }

    fn namespaces(&self, organization: usize) -> Vec<usize> {
        Dice::new(6, organization).some(50, self.plugins)
    }

    fn own_profile(&self, organization: usize) -> Vec<usize> {
        self.enabled_by(organization, 20, &mut Dice::new(7, organization))
    }

    /// Tools that an organization has.
    fn enabled_by(&self, organization: usize, count: usize, dice: &mut Dice) -> Vec<usize> {
        if has_everything(organization) {
            return dice.some(count, self.tools());
        }
        let namespaces = self.namespaces(organization);
        let tools = dice.some(count, namespaces.len() * TOOLS.len());
        tools
            .into_iter()
            .map(|tool| namespaces[tool / TOOLS.len()] * TOOLS.len() + tool % TOOLS.len())
            .collect()
    }

    /// The tools that an agent's document gives: every second agent has a list, the others a profile.
    pub fn given_to(&self, organization: usize, agent: usize) -> Vec<usize> {
        match profile_of(agent) {
            Some("own") => self.own_profile(organization),
            Some(_) => self.profile(agent / 4 % 6),
            None => self.enabled_by(organization, 20, &mut Dice::new(8, organization * self.agents + agent)),
        }
    }

    /// An agent's document; each edition disables other tools of those that it gives.
    pub fn agent(&self, organization: usize, agent: usize, edition: usize) -> AgentDocument {
        let given = self.given_to(organization, agent);
        let at = |place: usize| given[place % given.len()];
        let mut document = json!({
            "name": "Front desk", "autonomy": "supervised",
            "disabled": listed(&[at(edition), at(edition + 1)]),
            "require_approval_for": listed(&[at(edition + 2), at(edition + 3)]),
        });
        match profile_of(agent) {
            Some("own") => document["profile"] = json!("own"),
            Some(_) => document["profile"] = json!(format!("profile-{}", agent / 4 % 6)),
            None => document["enabled"] = listed(&given),
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

/// `namespace/tool` of the tool with this number.
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

fn listed(tools: &[usize]) -> Value {
    tools.iter().map(|number| tool(*number)).collect()
}

/// A plugin of ten tools.
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
    Arc::new(Plugin {
        descriptor: Arc::new(Descriptor::parse(&described.to_string()).unwrap()),
        digest: Digest::from_sha256([1; 32]),
        granted: Default::default(),
        component: component.clone(),
        disabled: false,
    })
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
