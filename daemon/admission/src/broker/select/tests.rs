//! Tests of the broker: selections with their reasons, and properties for arbitrary queries.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::policy::PlatformDocument;
use toolgate_api::tools::ToolPattern;

use super::*;
use crate::{Catalogue, Descriptor, Digest, Plugin};

/// Six plugins, whose descriptions use other words than the messages.
fn sample_catalogue() -> Catalogue<()> {
    let plugins = [
        (
            "crm",
            vec![
                ("create_contact", "Adds a person to the register."),
                ("delete_contact", "Deletes a contact for good."),
                ("search_contacts", "Finds contacts by name."),
            ],
        ),
        (
            "files",
            vec![
                ("list_files", "Lists the files of a folder."),
                ("read_file", "Reads a file."),
                ("remove_file", "Removes a file."),
            ],
        ),
        (
            "images",
            vec![
                ("resize_image", "Makes an image larger or smaller."),
                ("search_images", "Finds images by what they show."),
            ],
        ),
        (
            "billing",
            vec![
                ("create_invoice", "Writes an invoice."),
                ("list_invoices", "Lists invoices that are not paid."),
                ("refund_payment", "Returns a payment."),
            ],
        ),
        (
            "weather",
            vec![("forecast", "Tells the weather of a place."), ("warnings", "Lists storm warnings.")],
        ),
        (
            "meta",
            vec![("query_data", "Answers questions about the data."), ("request_feature", "Notes a wish.")],
        ),
    ];
    Catalogue::new(LimitsPatch::new(), plugins.iter().map(|(name, tools)| plugin(name, tools)).collect())
}

fn plugin(name: &str, tools: &[(&str, &str)]) -> Arc<Plugin<()>> {
    let tool = |(name, description): &(&str, &str)| json!({"name": name, "description": description, "usage": "Call it.", "input_schema": {"type": "object"}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let description = json!({"name": name, "version": "1.0.0", "tools": tools});
    let descriptor = Descriptor::parse(&description.to_string()).expect("a description");
    Arc::new(Plugin::with_trusted_hints(
        Digest::from_sha256([7; 32]),
        Arc::new(descriptor.capabilities.clone().into()),
        descriptor,
        (),
    ))
}

/// The input of a query, with names instead of indexes.
struct Fixture {
    catalogue: &'static Catalogue<()>,
    index: &'static BrokerIndex,
    intents: Intents,
    callable: ToolSet,
    recent: Vec<usize>,
    universal: ToolSet,
    always_show: ToolSet,
    profile: Option<ToolSet>,
}

static CATALOGUE: LazyLock<Catalogue<()>> = LazyLock::new(sample_catalogue);
static INDEX: LazyLock<BrokerIndex> = LazyLock::new(|| BrokerIndex::build(&CATALOGUE));

impl Fixture {
    fn new() -> Self {
        let catalogue = &*CATALOGUE;
        let none = ToolSet::empty(catalogue.tools().len());
        Self {
            index: &INDEX,
            intents: Intents::empty(),
            callable: set(catalogue, "*"),
            recent: Vec::new(),
            universal: none.clone(),
            always_show: none,
            profile: None,
            catalogue,
        }
    }

    fn with_intents(mut self, intents: Value) -> Self {
        let policy = PlatformDocument::parse(&json!({"intents": intents}).to_string()).expect("intents");
        self.intents = Intents::compile(&policy.intents, "/intents", self.catalogue).expect("patterns");
        self
    }

    fn select(&self, message: &str) -> Selection {
        let query = SelectQuery {
            message,
            callable: &self.callable,
            recent: &self.recent,
            universal: &self.universal,
            always_show: &self.always_show,
            profile: self.profile.as_ref(),
        };
        select(self.index, &self.intents, &query)
    }

    fn name(&self, tool: usize) -> String {
        self.catalogue.tools()[tool].id().to_string()
    }

    fn names(&self, message: &str) -> Vec<String> {
        self.select(message).tools.iter().map(|selected| self.name(selected.tool)).collect()
    }

    fn first(&self, message: &str) -> String {
        self.names(message).remove(0)
    }

    /// The reasons why a tool was selected; none if it was not.
    fn why(&self, message: &str, tool: &str) -> Option<String> {
        let selection = self.select(message);
        let selected = selection.tools.iter().find(|selected| self.name(selected.tool) == tool)?;
        Some(selected.reasons.iter().map(SelectReason::to_string).collect::<Vec<_>>().join("; "))
    }
}

/// A set of tools by patterns, separated with spaces.
fn set(catalogue: &Catalogue<()>, names: &str) -> ToolSet {
    let mut set = ToolSet::empty(catalogue.tools().len());
    for name in names.split_whitespace() {
        set.add_pattern(&ToolPattern::parse(name).expect(name), catalogue);
    }
    set
}

/// Matches enough tools, so that the list is narrowed.
const ORDINARY: &str = "remove the invoice of this contact and list the files";

#[test]
fn a_tool_is_found_by_words_that_it_does_not_use() {
    let fixture = Fixture::new();
    for (message, tool) in [
        ("please get rid of the old document", "files/remove_file"),
        ("make the picture larger", "images/resize_image"),
        ("who still owes us, which bills are unpaid", "billing/list_invoices"),
        ("I want my money back", "billing/refund_payment"),
        ("will it rain tomorrow in Lisbon", "weather/forecast"),
        ("erase this customer", "crm/delete_contact"),
    ] {
        assert_eq!(fixture.first(message), tool, "{message}");
    }
}

#[test]
fn each_selected_tool_has_its_reason() {
    let mut fixture =
        Fixture::new().with_intents(json!({"money": {"patterns": ["invoic"], "tools": ["billing/*"]}}));
    fixture.recent = vec![fixture.catalogue.find("weather/forecast").unwrap().index()];
    fixture.universal = set(fixture.catalogue, "meta/query_data");
    fixture.always_show = set(fixture.catalogue, "meta/request_feature");
    for (tool, why) in [
        ("billing/refund_payment", "intent `money`"),
        ("billing/create_invoice", "intent `money`; words `invoice`"),
        ("files/remove_file", "words `remove`"),
        ("weather/forecast", "recent"),
        ("meta/query_data", "universal"),
        ("meta/request_feature", "always_show"),
    ] {
        let reasons = fixture.why(ORDINARY, tool).unwrap_or_default();
        assert!(reasons.starts_with(why), "{tool}: {reasons}");
    }
}

#[test]
fn the_whole_list_is_shown_if_too_few_tools_match() {
    let fixture = Fixture::new();
    for message in ["", "hello!", "日本語で話してください", "!!! ??? ..."] {
        let selection = fixture.select(message);
        assert!(selection.whole && selection.tools.len() == fixture.callable.len(), "{message}");
        assert!(selection.tools.iter().all(|selected| selected.reasons.contains(&SelectReason::Whole)));
    }
    assert!(!fixture.select(ORDINARY).whole);
}

#[test]
fn a_tool_that_is_not_callable_is_never_shown() {
    let mut fixture =
        Fixture::new().with_intents(json!({"money": {"patterns": ["invoic"], "tools": ["billing/*"]}}));
    let forbidden = ["billing/create_invoice", "billing/list_invoices", "billing/refund_payment"];
    assert!(fixture.names(ORDINARY).contains(&forbidden[0].to_owned()));
    fixture.callable = set(fixture.catalogue, "crm/* files/* images/* weather/* meta/*");
    fixture.recent = forbidden.iter().map(|name| fixture.catalogue.find(name).unwrap().index()).collect();
    fixture.universal = set(fixture.catalogue, "billing/*");
    fixture.always_show = set(fixture.catalogue, "billing/*");
    for message in [ORDINARY, "hello!"] {
        assert!(fixture.names(message).iter().all(|name| !name.starts_with("billing/")), "{message}");
    }
}

#[test]
fn an_intent_selects_tools_that_no_word_matches() {
    let plain = Fixture::new();
    assert_eq!(plain.why(ORDINARY, "weather/warnings").filter(|why| why.contains("intent")), None);
    let fixture = Fixture::new()
        .with_intents(json!({"all-clear": {"patterns": ["^remove"], "tools": ["weather/warnings"]}}));
    assert_eq!(
        fixture.why(ORDINARY, "weather/warnings").as_deref(),
        Some("intent `all-clear`; words `list`")
    );
}

#[test]
fn a_profile_is_a_mild_preference() {
    let mut fixture = Fixture::new();
    let message = "search";
    let before = fixture.names(message);
    fixture.profile = Some(set(fixture.catalogue, "images/*"));
    assert_eq!(fixture.first(message), "images/search_images");
    let (mut before, mut after) = (before, fixture.names(message));
    before.sort();
    after.sort();
    assert_eq!(before, after);
}

fn any_message() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "remove",
        "the",
        "invoice",
        "picture",
        "pay",
        "wheather",
        "contact",
        "Dana",
        "$40",
        "10:30",
        "don't",
        "call",
        "off",
        "dueDate",
        "file",
        "refund",
        "a@b.example",
        "żółć",
        "日本",
    ]);
    prop_oneof![
        prop::collection::vec(words, 0..30).prop_map(|words| words.join(" ")),
        any::<String>(),
        "[a-zA-Z' .?-]{0,80}",
    ]
}

/// Indexes of tools, some beyond the catalogue.
fn any_tools() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![0..15_usize, Just(1_000), Just(usize::MAX)], 0..15)
}

proptest! {
    /// The broker limits the list that is shown, never the callable tools.
    #[test]
    fn a_selection_has_only_callable_tools_and_all_that_must_stay(
        message in any_message(),
        callable in any_tools(),
        recent in any_tools(),
        universal in any_tools(),
        always_show in any_tools(),
    ) {
        let mut fixture = Fixture::new().with_intents(json!({"money": {"patterns": ["pay|refund"], "tools": "*"}}));
        let set_of = |indexes: &[usize]| {
            let mut set = ToolSet::empty(fixture.catalogue.tools().len());
            indexes.iter().for_each(|index| set.insert(*index));
            set
        };
        // Half of the queries have every tool.
        let all_but: Vec<usize> = (0..15).filter(|tool| callable.len() % 2 == 0 || callable.contains(tool)).collect();
        (fixture.callable, fixture.universal, fixture.always_show) =
            (set_of(&all_but), set_of(&universal), set_of(&always_show));
        fixture.recent = recent;
        let selection = fixture.select(&message);
        let mut tools: Vec<usize> = selection.tools.iter().map(|selected| selected.tool).collect();
        let stays = |tool: &usize| {
            fixture.recent.contains(tool) || fixture.universal.contains(*tool) || fixture.always_show.contains(*tool)
        };
        for tool in (0..15).filter(|tool| fixture.callable.contains(*tool)) {
            prop_assert!(tools.contains(&tool) || !stays(&tool) && !selection.whole, "{}", tool);
        }
        prop_assert!(tools.iter().all(|tool| fixture.callable.contains(*tool)));
        prop_assert!(selection.tools.iter().all(|selected| !selected.reasons.is_empty()));
        prop_assert!(selection.whole || tools.len() <= MOST);
        tools.sort_unstable();
        tools.dedup();
        prop_assert_eq!(tools.len(), selection.tools.len());
    }
}

proptest! {
    // Each case builds two indexes.
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// The order does not depend on hash seeds.
    #[test]
    fn the_same_query_has_the_same_result(messages in prop::collection::vec(any_message(), 20)) {
        let (one, other) = (BrokerIndex::build(&CATALOGUE), BrokerIndex::build(&sample_catalogue()));
        for message in &messages {
            prop_assert_eq!(select_with(&one, message), select_with(&other, message));
        }
    }
}

fn select_with(index: &BrokerIndex, message: &str) -> Selection {
    let none = ToolSet::empty(CATALOGUE.tools().len());
    let query = SelectQuery {
        message,
        callable: &set(&CATALOGUE, "*"),
        recent: &[],
        universal: &none,
        always_show: &none,
        profile: None,
    };
    select(index, &Intents::empty(), &query)
}
