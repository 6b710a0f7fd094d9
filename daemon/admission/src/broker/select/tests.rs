//! The broker from outside: what is found and why, and what holds for any question.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Catalogue, Descriptor, Digest, LimitsPatch, PlatformDocument, Plugin, ToolPattern};

/// A house with a workshop: words that no customer uses, in the tools of six plugins.
fn house() -> Catalogue<()> {
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
    Arc::new(Plugin {
        granted: Arc::new(descriptor.capabilities.clone().into()),
        descriptor: Arc::new(descriptor),
        digest: Digest::from_sha256([7; 32]),
        component: (),
        disabled: false,
    })
}

/// Everything that a question needs, with names instead of numbers.
struct Scene {
    catalogue: &'static Catalogue<()>,
    index: &'static Index,
    intents: Intents,
    callable: ToolSet,
    recent: Vec<usize>,
    universal: ToolSet,
    always_show: ToolSet,
    profile: Option<ToolSet>,
}

static HOUSE: LazyLock<Catalogue<()>> = LazyLock::new(house);
static INDEX: LazyLock<Index> = LazyLock::new(|| Index::build(&HOUSE));

impl Scene {
    fn new() -> Self {
        let catalogue = &*HOUSE;
        let none = ToolSet::empty(catalogue.tools().len());
        Self {
            index: &INDEX,
            intents: Intents::none(),
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
        let question = Question {
            message,
            callable: &self.callable,
            recent: &self.recent,
            universal: &self.universal,
            always_show: &self.always_show,
            profile: self.profile.as_ref(),
        };
        select(self.index, &self.intents, &question)
    }

    fn name(&self, tool: usize) -> String {
        self.catalogue.tools()[tool].id().to_string()
    }

    fn names(&self, message: &str) -> Vec<String> {
        self.select(message).tools.iter().map(|taken| self.name(taken.tool)).collect()
    }

    fn first(&self, message: &str) -> String {
        self.names(message).remove(0)
    }

    /// Why a tool was taken; none where it was not.
    fn why(&self, message: &str, tool: &str) -> Option<String> {
        let selection = self.select(message);
        let taken = selection.tools.iter().find(|taken| self.name(taken.tool) == tool)?;
        Some(taken.why.iter().map(Why::to_string).collect::<Vec<_>>().join("; "))
    }
}

/// Tools by `*` or by names with spaces between.
fn set(catalogue: &Catalogue<()>, names: &str) -> ToolSet {
    let mut set = ToolSet::empty(catalogue.tools().len());
    for name in names.split_whitespace() {
        set.add_pattern(&ToolPattern::parse(name).expect(name), catalogue);
    }
    set
}

/// Finds something of everything, so that the list is narrowed.
const ORDINARY: &str = "remove the invoice of this contact and list the files";

#[test]
fn a_tool_is_found_by_words_that_it_does_not_use() {
    let scene = Scene::new();
    for (message, tool) in [
        ("please get rid of the old document", "files/remove_file"),
        ("make the picture larger", "images/resize_image"),
        ("who still owes us, which bills are unpaid", "billing/list_invoices"),
        ("I want my money back", "billing/refund_payment"),
        ("will it rain tomorrow in Lisbon", "weather/forecast"),
        ("erase this customer", "crm/delete_contact"),
    ] {
        assert_eq!(scene.first(message), tool, "{message}");
    }
}

#[test]
fn each_tool_says_why_it_was_taken() {
    let mut scene =
        Scene::new().with_intents(json!({"money": {"patterns": ["invoic"], "tools": ["billing/*"]}}));
    scene.recent = vec![scene.catalogue.find("weather/forecast").unwrap().index()];
    scene.universal = set(scene.catalogue, "meta/query_data");
    scene.always_show = set(scene.catalogue, "meta/request_feature");
    for (tool, why) in [
        ("billing/refund_payment", "intent `money`"),
        ("billing/create_invoice", "intent `money`; words `invoice`"),
        ("files/remove_file", "words `remove`"),
        ("weather/forecast", "recent"),
        ("meta/query_data", "universal"),
        ("meta/request_feature", "always_show"),
    ] {
        let told = scene.why(ORDINARY, tool).unwrap_or_default();
        assert!(told.starts_with(why), "{tool}: {told}");
    }
}

#[test]
fn where_too_little_is_found_everything_is_shown() {
    let scene = Scene::new();
    for message in ["", "hello!", "日本語で話してください", "!!! ??? ..."] {
        let selection = scene.select(message);
        assert!(selection.whole && selection.tools.len() == scene.callable.len(), "{message}");
        assert!(selection.tools.iter().all(|taken| taken.why.contains(&Why::Whole)));
    }
    assert!(!scene.select(ORDINARY).whole);
}

#[test]
fn what_may_not_be_called_is_not_shown_whatever_asks_for_it() {
    let mut scene =
        Scene::new().with_intents(json!({"money": {"patterns": ["invoic"], "tools": ["billing/*"]}}));
    let forbidden = ["billing/create_invoice", "billing/list_invoices", "billing/refund_payment"];
    assert!(scene.names(ORDINARY).contains(&forbidden[0].to_owned()));
    scene.callable = set(scene.catalogue, "crm/* files/* images/* weather/* meta/*");
    scene.recent = forbidden.iter().map(|name| scene.catalogue.find(name).unwrap().index()).collect();
    scene.universal = set(scene.catalogue, "billing/*");
    scene.always_show = set(scene.catalogue, "billing/*");
    for message in [ORDINARY, "hello!"] {
        assert!(scene.names(message).iter().all(|name| !name.starts_with("billing/")), "{message}");
    }
}

#[test]
fn an_intent_takes_tools_that_no_word_finds() {
    let plain = Scene::new();
    assert_eq!(plain.why(ORDINARY, "weather/warnings").filter(|why| why.contains("intent")), None);
    let scene = Scene::new()
        .with_intents(json!({"all-clear": {"patterns": ["^remove"], "tools": ["weather/warnings"]}}));
    assert_eq!(scene.why(ORDINARY, "weather/warnings").as_deref(), Some("intent `all-clear`; words `list`"));
}

#[test]
fn a_profile_is_a_mild_preference() {
    let mut scene = Scene::new();
    let message = "search";
    let before = scene.names(message);
    scene.profile = Some(set(scene.catalogue, "images/*"));
    assert_eq!(scene.first(message), "images/search_images");
    let (mut before, mut after) = (before, scene.names(message));
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

/// Numbers of tools, of which some are of no tool.
fn any_tools() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![0..15_usize, Just(1_000), Just(usize::MAX)], 0..15)
}

proptest! {
    /// It narrows what is shown and never what is allowed.
    #[test]
    fn a_selection_has_only_callable_tools_and_all_that_must_stay(
        message in any_message(),
        callable in any_tools(),
        recent in any_tools(),
        universal in any_tools(),
        always_show in any_tools(),
    ) {
        let mut scene = Scene::new().with_intents(json!({"money": {"patterns": ["pay|refund"], "tools": "*"}}));
        let numbers = |numbers: &[usize]| {
            let mut set = ToolSet::empty(scene.catalogue.tools().len());
            numbers.iter().for_each(|number| set.insert(*number));
            set
        };
        // Few questions are asked about few tools.
        let all_but: Vec<usize> = (0..15).filter(|tool| callable.len() % 2 == 0 || callable.contains(tool)).collect();
        (scene.callable, scene.universal, scene.always_show) =
            (numbers(&all_but), numbers(&universal), numbers(&always_show));
        scene.recent = recent;
        let selection = scene.select(&message);
        let mut tools: Vec<usize> = selection.tools.iter().map(|taken| taken.tool).collect();
        let stays = |tool: &usize| {
            scene.recent.contains(tool) || scene.universal.contains(*tool) || scene.always_show.contains(*tool)
        };
        for tool in (0..15).filter(|tool| scene.callable.contains(*tool)) {
            prop_assert!(tools.contains(&tool) || !stays(&tool) && !selection.whole, "{}", tool);
        }
        prop_assert!(tools.iter().all(|tool| scene.callable.contains(*tool)));
        prop_assert!(selection.tools.iter().all(|taken| !taken.why.is_empty()));
        prop_assert!(selection.whole || tools.len() <= MOST);
        tools.sort_unstable();
        tools.dedup();
        prop_assert_eq!(tools.len(), selection.tools.len());
    }
}

proptest! {
    // Each builds two indices.
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Neither tables of words nor anything else of a run is in the order.
    #[test]
    fn the_same_question_has_the_same_answer(messages in prop::collection::vec(any_message(), 20)) {
        let (one, other) = (Index::build(&HOUSE), Index::build(&house()));
        for message in &messages {
            prop_assert_eq!(asked(&one, message), asked(&other, message));
        }
    }
}

fn asked(index: &Index, message: &str) -> Selection {
    let none = ToolSet::empty(HOUSE.tools().len());
    let question = Question {
        message,
        callable: &set(&HOUSE, "*"),
        recent: &[],
        universal: &none,
        always_show: &none,
        profile: None,
    };
    select(index, &Intents::none(), &question)
}
