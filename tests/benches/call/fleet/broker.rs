//! The broker over a thousand tools: fifteen copies of those in `tests/sample_policy`, queried with its messages.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use toolgate_admission::{
    BrokerIndex, Descriptor, Digest, Intents, Plugin, SelectQuery, SessionFacts, ToolSet, callable, select,
};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::{Name, ToolId};
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_core::registry::{Registry, Replacement};
use toolgate_sandbox::Component;
use toolgate_tests::sample_policy;

use super::{Times, row, show};

/// Copies of the sample tools in the catalogue.
const COPIES: usize = 15;
/// Repetitions of each message.
const ROUNDS: usize = 10;

/// A message, and the recently used tools.
struct Message {
    text: String,
    recent: Vec<ToolId>,
}

/// Measures and prints the selection time.
pub fn print(runtime: &Runtime, component: &Component) {
    let (organization, agent) = (Name::parse("office").unwrap(), Name::parse("desk").unwrap());
    let snapshot = registry(&organization, &agent, component).snapshot();
    let rules = snapshot.rules(&organization, &agent).unwrap();
    let catalogue = snapshot.catalogue();
    let began = Instant::now();
    let index = BrokerIndex::build(catalogue);
    let built = began.elapsed();
    let intents = Intents::compile(&snapshot.policy().intents, "/intents", catalogue).unwrap();
    row(&format!("the broker's index of {} tools", index.tools()), &show(built), "");
    row("    and its intents", &show(began.elapsed() - built), "");

    let facts = SessionFacts::default();
    let mut may_call = ToolSet::empty(catalogue.tools().len());
    callable(&rules, &facts).for_each(|(tool, _)| may_call.insert(tool.index()));
    let universal = ToolSet::matching(catalogue, |tool| rules.platform.is_universal(tool.index()));
    let always_show = ToolSet::matching(catalogue, |tool| rules.organization.always_shows(tool.index()));
    let messages = messages();
    let selected = measure_each(&messages, |message| {
        let number = |id: &ToolId| catalogue.find(&id.to_string()).map(|tool| tool.index());
        let recent: Vec<usize> = message.recent.iter().filter_map(number).collect();
        let question = SelectQuery {
            message: &message.text,
            callable: &may_call,
            recent: &recent,
            universal: &universal,
            always_show: &always_show,
            profile: None,
        };
        black_box(select(&index, &intents, &question));
    });
    row(&format!("the broker's choice, {} messages", messages.len()), &selected.show(), "under 1 ms");
    let listed_tools = measure_each(&messages, |message| {
        black_box(runtime.block_on(snapshot.shortlist(
            &rules,
            &facts,
            &message.text,
            &message.recent,
            &organization,
        )));
    });
    row("    with what the agent may call worked out", &listed_tools.show(), "");
}

fn measure_each(messages: &[Message], mut ask: impl FnMut(&Message)) -> Times {
    // The first query builds the index.
    messages.iter().for_each(&mut ask);
    let rounds = (0..ROUNDS).flat_map(|_| messages);
    let time = |message| {
        let began = Instant::now();
        ask(message);
        began.elapsed()
    };
    Times::of(rounds.map(time).collect())
}

fn registry(organization: &Name, agent: &Name, component: &Component) -> Registry {
    let registry = Registry::new(LimitsPatch::default(), Default::default());
    let plugins = (0..COPIES).flat_map(|copy| {
        sample_policy::plugins().into_iter().map(move |mut described| {
            if copy > 0 {
                described["name"] = format!("{}-{copy}", described["name"].as_str().unwrap()).into();
            }
            Arc::new(Plugin::with_trusted_hints(
                Digest::from_sha256([1; 32]),
                Arc::default(),
                Descriptor::parse(&described.to_string()).unwrap(),
                component.clone(),
            ))
        })
    });
    registry.serve(LimitsPatch::default(), plugins.collect());
    let platform = PlatformDocument::parse(&sample_policy::document("platform.json").to_string()).unwrap();
    registry.put(Replacement::Platform(platform));
    let connected = ["stripe", "resend", "unsplash"].map(str::to_owned);
    registry.put_organization(organization.clone(), connected.into());
    let policy = OrgDocument::parse(&sample_policy::document("orgs/office/policy.json").to_string()).unwrap();
    registry.put(Replacement::Policy(organization.clone(), policy));
    let document = AgentDocument::allow_all();
    registry.put(Replacement::Agent(organization.clone(), agent.clone(), document));
    registry
}

fn messages() -> Vec<Message> {
    let messages = sample_policy::document("../sample_messages.json");
    let read = |message: &serde_json::Value| Message {
        text: message["message"].as_str().unwrap().to_owned(),
        recent: message["recent"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| ToolId::parse(id.as_str().unwrap()).unwrap())
            .collect(),
    };
    messages.as_array().unwrap().iter().map(read).collect()
}
