//! Measures the recall of the broker on the sample data of `tests/sample_policy`.
//!
//! The data has some seventy tools of fourteen plugins, and messages of customers and staff, each with the tools that it
//! needs. The agent may call every tool. `cargo test -p toolgate-admission --test broker -- --nocapture` prints the results.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use toolgate_admission::{
    BrokerIndex, Catalogue, Descriptor, Digest, Intents, Plugin, SelectQuery, ToolSet, select,
};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::policy::{OrgDocument, PlatformDocument};
use toolgate_api::tools::ToolList;

/// Requirements, in percent.
const RECALL_AT_15: f64 = 95.0;
const TOKENS: f64 = 30.0;

#[derive(Deserialize)]
struct Message {
    message: String,
    recent: Vec<String>,
    needs: Vec<String>,
}

struct Office {
    catalogue: Catalogue<()>,
    index: BrokerIndex,
    everything: ToolSet,
    universal: ToolSet,
    always_show: ToolSet,
    /// By index of the tool.
    definition_bytes: Vec<usize>,
}

impl Office {
    fn read() -> Self {
        let mut files: Vec<PathBuf> =
            fs::read_dir(office().join("plugins")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let catalogue = Catalogue::new(LimitsPatch::new(), files.iter().map(|file| plugin(file)).collect());
        let platform = PlatformDocument::parse(&read(&office().join("platform.json"))).unwrap();
        let organization = OrgDocument::parse(&read(&office().join("orgs/office/policy.json"))).unwrap();
        Self {
            index: BrokerIndex::build(&catalogue),
            everything: ToolSet::compile(&ToolList::All, &catalogue),
            universal: ToolSet::compile(&platform.universal, &catalogue),
            always_show: ToolSet::compile(&organization.broker.always_show, &catalogue),
            definition_bytes: catalogue
                .tools()
                .iter()
                .map(|tool| definition_bytes(tool.descriptor()))
                .collect(),
            catalogue,
        }
    }

    fn index_of(&self, name: &str) -> usize {
        self.catalogue.find(name).unwrap_or_else(|| panic!("no tool `{name}`")).index()
    }

    /// Selects the tools for a message.
    fn select(&self, message: &Message) -> Vec<usize> {
        let recent: Vec<usize> = message.recent.iter().map(|name| self.index_of(name)).collect();
        let query = SelectQuery {
            message: &message.message,
            callable: &self.everything,
            recent: &recent,
            universal: &self.universal,
            always_show: &self.always_show,
            profile: None,
        };
        select(&self.index, &Intents::empty(), &query).tools.iter().map(|selected| selected.tool).collect()
    }

    fn bytes(&self, tools: &[usize]) -> usize {
        tools.iter().map(|tool| self.definition_bytes[*tool]).sum()
    }
}

/// Bytes of the definition of a tool that a model gets.
fn definition_bytes(tool: &toolgate_admission::ToolDescriptor) -> usize {
    let description = format!("{}\n\n{}", tool.description, tool.usage);
    json!({"name": tool.wire.as_str(), "description": description, "input_schema": tool.input.source()})
        .to_string()
        .len()
}

fn office() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sample_policy")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn plugin(file: &Path) -> Arc<Plugin<()>> {
    let descriptor =
        Descriptor::parse(&read(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    Arc::new(Plugin::with_trusted_hints(Digest::from_sha256([0; 32]), Arc::default(), descriptor, ()))
}

/// Sums over messages.
#[derive(Default)]
struct Figures {
    messages: f64,
    recall_at_10: f64,
    recall_at_15: f64,
    recall: f64,
    tokens: f64,
    shown: f64,
    whole: f64,
}

impl Figures {
    fn add(&mut self, office: &Office, message: &Message, shown: &[usize]) {
        let needs: Vec<usize> = message.needs.iter().map(|name| office.index_of(name)).collect();
        let recall_at = |most: usize| {
            let found = needs.iter().filter(|tool| shown.iter().take(most).any(|shown| shown == *tool));
            found.count() as f64 / needs.len() as f64
        };
        let all: Vec<usize> = (0..office.catalogue.tools().len()).collect();
        self.messages += 1.0;
        self.recall_at_10 += recall_at(10);
        self.recall_at_15 += recall_at(15);
        self.recall += recall_at(usize::MAX);
        self.tokens += office.bytes(shown) as f64 / office.bytes(&all) as f64;
        self.shown += shown.len() as f64;
        self.whole += f64::from(u8::from(shown.len() == all.len()));
    }

    fn of_hundred(&self, sum: f64) -> f64 {
        100.0 * sum / self.messages
    }

    fn print(&self, of: &str) {
        println!(
            "{of:<10} {:>4} messages  recall@10 {:5.1} %  recall@15 {:5.1} %  of all shown {:5.1} %  tokens {:4.1} %  tools {:4.1}  whole lists {}",
            self.messages,
            self.of_hundred(self.recall_at_10),
            self.of_hundred(self.recall_at_15),
            self.of_hundred(self.recall),
            self.of_hundred(self.tokens),
            self.shown / self.messages,
            self.whole,
        );
    }
}

/// Requirement G15. The table of synonyms was written with every second message at hand; the other half is the test set,
/// whose results predict those for new messages.
#[test]
fn nineteen_of_twenty_needed_tools_are_shown_for_less_than_a_third_of_the_tokens() {
    let office = Office::read();
    let messages: Vec<Message> = serde_json::from_str(&read(&office_file())).unwrap();
    assert!(messages.len() >= 120 && office.catalogue.tools().len() >= 60);
    let (mut all, mut halves) = (Figures::default(), BTreeMap::new());
    for (at, message) in messages.iter().enumerate() {
        let shown = office.select(message);
        all.add(&office, message, &shown);
        let half = if at % 2 == 0 { "read" } else { "not read" };
        halves.entry(half).or_insert_with(Figures::default).add(&office, message, &shown);
    }
    halves.iter().for_each(|(half, figures)| figures.print(half));
    all.print("all");
    assert!(all.of_hundred(all.recall_at_15) >= RECALL_AT_15);
    assert!(all.of_hundred(all.tokens) <= TOKENS);
}

fn office_file() -> PathBuf {
    office().with_file_name("sample_messages.json")
}
