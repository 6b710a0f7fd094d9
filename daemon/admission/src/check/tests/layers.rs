//! Tests of the four layers: one refusal of each rule beside a call that passes, and in `model` properties for arbitrary
//! documents.

mod model;

use std::sync::LazyLock;

use toolgate_api::tools::ToolPattern;

use super::*;
use crate::rules::check_platform;

/// The loaded plugins of all tests.
static CATALOGUE: LazyLock<Arc<Catalogue<&'static str>>> = LazyLock::new(|| {
    let plugin = |namespace: &str, tools: &[&str], integrations: &[&str]| {
        let tool = |name: &&str| {
            json!({
                "name": name, "description": "D.", "usage": "U.", "input_schema": {"type": "object"},
                "hints": {"read_only": matches!(*name, "query" | "read" | "search")},
                "required_integrations": integrations,
            })
        };
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        plugin_from(&json!({"name": namespace, "version": "1.0.0", "tools": tools}))
    };
    let plugins = vec![
        plugin("crm", &["delete", "query", "search"], &[]),
        plugin("files", &["read", "write"], &[]),
        plugin("pay", &["charge"], &["stripe"]),
    ];
    Arc::new(Catalogue::new(LimitsPatch::new(), plugins))
});

/// Documents of every layer, as JSON.
#[derive(Clone, Debug)]
struct Scene {
    platform: Value,
    organization: Value,
    connected: Vec<&'static str>,
    agent: Value,
    facts: SessionFacts,
}

impl Default for Scene {
    /// Every tool is allowed; each test adds restrictions.
    fn default() -> Self {
        Self {
            platform: json!({}),
            organization: json!({"enabled": "*"}),
            connected: Vec::new(),
            agent: json!({"enabled": "*", "autonomy": "autonomous"}),
            facts: SessionFacts::default(),
        }
    }
}

impl Scene {
    fn rules(&self) -> Rules<&'static str> {
        let catalogue = Arc::clone(&CATALOGUE);
        Rules::compile(
            catalogue,
            PlatformDocument::parse(&self.platform.to_string()).expect("a platform's policy"),
            OrgDocument::parse(&self.organization.to_string()).expect("an organization's policy"),
            self.connected.iter().map(|name| (*name).to_owned()).collect(),
            AgentDocument::parse(&self.agent.to_string()).expect("an agent"),
        )
    }

    /// Asserts that this rule refuses a call.
    #[track_caller]
    fn refuses(&self, tool: &str, layer: &str, rule: &str, error_type: ErrorType) {
        let rules = self.rules();
        let refused = refusal(&rules, &self.facts, tool);
        assert_eq!((refused.reason.layer.as_str(), refused.reason.rule), (layer, rule), "{tool}");
        assert_eq!(refused.error.error_type, error_type, "{tool}");
        assert!(!refused.error.hint.is_empty());
    }

    #[track_caller]
    fn runs(&self, tool: &str) {
        let rules = self.rules();
        let verdict = check(&rules, &self.facts, call(tool, "{}"));
        assert!(matches!(verdict, Verdict::Run(_)), "{tool}: {verdict:?}");
    }

    #[track_caller]
    fn asks(&self, tool: &str, rule: &str) {
        match check(&self.rules(), &self.facts, call(tool, "{}")) {
            Verdict::NeedsApproval(unapproved) => assert_eq!(unapproved.reason().rule, rule, "{tool}"),
            other => panic!("{tool}: {other:?}"),
        }
    }
}

const DENIED: ErrorType = ErrorType::AccessDenied;
const DISABLED: ErrorType = ErrorType::ToolDisabled;

#[test]
fn g7_the_platform_allows_and_blocks() {
    let scene =
        Scene { platform: json!({"allowed": ["crm/*"], "blocked": ["crm/delete"]}), ..Scene::default() };
    scene.refuses("crm/delete", "platform", "blocked", DISABLED);
    scene.refuses("files/read", "platform", "allowed", DENIED);
    scene.runs("crm/search");
    Scene { platform: json!({"allowed": []}), ..Scene::default() }.refuses(
        "crm/search",
        "platform",
        "allowed",
        DENIED,
    );
    Scene { platform: json!({"allowed": "*"}), ..Scene::default() }.runs("crm/search");
}

/// G16: the caller learns that the platform refused, but not by which rule.
#[test]
fn a_refusal_by_the_platform_does_not_tell_its_rule_and_one_by_a_lower_layer_does() {
    let scene = Scene {
        platform: json!({"blocked": ["crm/delete"]}),
        organization: json!({"enabled": "*", "disabled": ["files/*"]}),
        ..Scene::default()
    };
    let rules = scene.rules();
    let platform = refusal(&rules, &scene.facts, "crm/delete").error;
    assert_eq!(platform.details_json(), Some(json!({"layer": "platform"})));
    assert!(!format!("{platform:?}").contains("blocked"), "{platform:?}");
    let organization = refusal(&rules, &scene.facts, "files/read").error;
    let told = json!({"layer": "organization", "rule": "disabled", "why": "`files/*` in `disabled`"});
    assert_eq!(organization.details_json(), Some(told));
}

/// C5.
#[test]
fn g7_an_organization_has_what_it_enabled_and_did_not_disable() {
    let scene = |organization| Scene { organization, ..Scene::default() };
    scene(json!({})).refuses("crm/search", "organization", "enabled", DENIED);
    let some = scene(json!({"enabled": ["crm/*", "files/read"], "disabled": ["crm/delete"]}));
    some.refuses("crm/delete", "organization", "disabled", DISABLED);
    some.refuses("files/write", "organization", "enabled", DENIED);
    some.runs("files/read");
}

#[test]
fn g8_a_tool_is_out_while_an_integration_that_it_needs_is_not_connected() {
    let missing = ErrorType::IntegrationMissing;
    Scene::default().refuses("pay/charge", "organization", "integration", missing);
    Scene { connected: vec!["stripe"], ..Scene::default() }.runs("pay/charge");
    let added = Scene {
        platform: json!({"integrations": {"crm/search": "resend"}}),
        organization: json!({"enabled": "*", "integrations": {"files/*": "drive"}}),
        connected: vec!["drive"],
        ..Scene::default()
    };
    added.refuses("crm/search", "organization", "integration", missing);
    added.runs("files/read");
    let told = refusal(&Scene::default().rules(), &SessionFacts::default(), "pay/charge").error.message;
    assert!(told.contains("`stripe`"), "{told}");
}

#[test]
fn g5_the_platform_can_demand_that_agents_are_bound_to_a_server() {
    let platform = json!({"server_binding": "required"});
    let scene = |agent| Scene { platform: platform.clone(), agent, ..Scene::default() };
    scene(json!({"enabled": "*"})).refuses("crm/search", "agent", "server", DENIED);
    let bound = scene(json!({"enabled": "*", "server": "crm"}));
    bound.refuses("files/read", "agent", "server", DENIED);
    bound.runs("crm/search");
}

#[test]
fn g9_a_profile_and_a_list_intersect_and_neither_means_nothing() {
    let platform = json!({"profiles": {"desk": ["crm/search", "files/*"]}, "subtypes": {"helper": "desk"}});
    let scene = |agent| Scene { platform: platform.clone(), agent, ..Scene::default() };
    scene(json!({})).refuses("crm/search", "agent", "enabled", DENIED);
    scene(json!({"profile": "desk"})).runs("crm/search");
    scene(json!({"profile": "desk"})).refuses("crm/delete", "agent", "profile", DENIED);
    scene(json!({"subtype": "helper"})).runs("crm/search");
    scene(json!({"subtype": "gone"})).refuses("crm/search", "agent", "profile", DENIED);
    scene(json!({"profile": "gone"})).refuses("crm/search", "agent", "profile", DENIED);
    let both = scene(json!({"profile": "desk", "enabled": ["crm/*"]}));
    both.runs("crm/search");
    both.refuses("files/read", "agent", "enabled", DENIED);
    both.refuses("crm/delete", "agent", "profile", DENIED);
    scene(json!({"profile": "desk", "enabled": []})).refuses("crm/search", "agent", "enabled", DENIED);
    let hidden = Scene {
        organization: json!({"enabled": "*", "profiles": {"desk": ["files/read"]}}),
        ..scene(json!({"profile": "desk"}))
    };
    hidden.runs("files/read");
    hidden.refuses("crm/search", "agent", "profile", DENIED);
}

/// A subtype that is no longer defined has no tools, even if a profile has the same name.
#[test]
fn g9_a_subtype_is_not_taken_for_a_profile() {
    let scene = Scene {
        platform: json!({"profiles": {"sales": "*"}}),
        agent: json!({"subtype": "sales"}),
        ..Scene::default()
    };
    scene.refuses("crm/search", "agent", "profile", DENIED);
}

#[test]
fn g10_autonomy_says_what_needs_a_person() {
    let scene = |agent| Scene { agent, ..Scene::default() };
    let supervised = scene(json!({"enabled": "*"}));
    supervised.asks("crm/delete", "autonomy");
    supervised.runs("crm/search");
    let named =
        scene(json!({"enabled": "*", "autonomy": "supervised", "require_approval_for": ["crm/search"]}));
    named.asks("crm/search", "require_approval_for");
    named.runs("crm/delete");
    let draft =
        scene(json!({"enabled": "*", "autonomy": "draft_only", "require_approval_for": ["files/read"]}));
    draft.refuses("crm/delete", "agent", "autonomy", DENIED);
    draft.asks("files/read", "require_approval_for");
    draft.runs("crm/search");
    let autonomous =
        scene(json!({"enabled": "*", "autonomy": "autonomous", "require_approval_for": ["crm/delete"]}));
    autonomous.asks("crm/delete", "require_approval_for");
    autonomous.runs("files/write");
    scene(json!({"enabled": "*", "require_approval_for": []})).runs("crm/delete");
}

#[test]
fn g12_channels_block_their_tools_and_say_why() {
    let scene = |channel: Option<&str>| Scene {
        platform: json!({"channels": {"sms": {"blocked": ["files/*"], "reason": "no attachments by SMS"}, "webchat": {}}}),
        organization: json!({"enabled": "*", "channels": {"sms": {"blocked": ["crm/delete"]}, "fax": {"blocked": ["crm/search"]}}}),
        facts: SessionFacts { channel: channel.map(str::to_owned), ..SessionFacts::default() },
        ..Scene::default()
    };
    let restricted = ErrorType::ChannelRestricted;
    scene(Some("sms")).refuses("files/read", "session", "channel", restricted);
    scene(Some("sms")).refuses("crm/delete", "session", "channel", restricted);
    scene(Some("sms")).runs("crm/search");
    scene(Some("webchat")).runs("files/read");
    scene(Some("fax")).refuses("crm/search", "session", "channel", restricted);
    for tool in ["files/read", "crm/delete", "crm/search"] {
        scene(Some("gone")).refuses(tool, "session", "channel", restricted);
        scene(None).runs(tool);
    }
    scene(Some("gone")).runs("crm/query");
    let why = |tool: &str| {
        let sms = scene(Some("sms"));
        refusal(&sms.rules(), &sms.facts, tool).error.message
    };
    assert!(why("files/read").contains("no attachments by SMS"), "{}", why("files/read"));
    assert!(!why("crm/delete").contains("attachments"), "the reason belongs to the other block");
}

#[test]
fn g13_a_tool_that_kept_failing_is_out_with_the_reason() {
    let broken = BTreeMap::from([(ToolId::parse("crm/search").unwrap(), "three in a row".to_owned())]);
    let scene = Scene { facts: SessionFacts { broken, ..SessionFacts::default() }, ..Scene::default() };
    scene.refuses("crm/search", "session", "breaker", DISABLED);
    let told = refusal(&scene.rules(), &scene.facts, "crm/search").error.message;
    assert!(told.contains("three in a row"), "{told}");
    scene.runs("crm/delete");
}

/// G14, 9.3: universal tools pass enable lists and profiles, but no other rule.
#[test]
fn g14_universal_tools_pass_lists_and_profiles_and_nothing_else() {
    let universal = |platform: Value, organization: Value, agent: Value| {
        let mut platform = platform;
        platform["universal"] = json!(["crm/query"]);
        Scene { platform, organization, agent, ..Scene::default() }
    };
    universal(json!({}), json!({}), json!({})).runs("crm/query");
    let profile = json!({"profiles": {"desk": ["files/*"]}});
    universal(profile, json!({"enabled": ["files/*"]}), json!({"profile": "desk", "enabled": []}))
        .runs("crm/query");
    universal(json!({"blocked": ["crm/*"]}), json!({}), json!({})).refuses(
        "crm/query",
        "platform",
        "blocked",
        DISABLED,
    );
    universal(json!({}), json!({"disabled": ["crm/*"]}), json!({})).refuses(
        "crm/query",
        "organization",
        "disabled",
        DISABLED,
    );
    universal(json!({}), json!({}), json!({"disabled": ["crm/query"]})).refuses(
        "crm/query",
        "agent",
        "disabled",
        DISABLED,
    );
    universal(json!({}), json!({}), json!({"server": "files"})).refuses(
        "crm/query",
        "agent",
        "server",
        DENIED,
    );
    universal(json!({"integrations": {"crm/query": "x"}}), json!({}), json!({})).refuses(
        "crm/query",
        "organization",
        "integration",
        ErrorType::IntegrationMissing,
    );
    let blocked = universal(json!({"channels": {"sms": {"blocked": ["crm/query"]}}}), json!({}), json!({}));
    let facts = SessionFacts { channel: Some("sms".into()), ..SessionFacts::default() };
    let on_sms = Scene { facts, ..blocked };
    on_sms.refuses("crm/query", "session", "channel", ErrorType::ChannelRestricted);
    universal(json!({}), json!({}), json!({"require_approval_for": ["crm/query"]}))
        .asks("crm/query", "require_approval_for");
}

#[test]
fn g14_only_what_changes_nothing_can_be_universal() {
    let rules = Scene::default().rules();
    let universal = PlatformDocument::parse(r#"{"universal":["crm/query","crm/delete"]}"#).unwrap();
    let refused = check_platform(&universal, &rules.catalogue).unwrap_err();
    assert_eq!(refused.place, "/universal/1");
    let universal = PlatformDocument::parse(r#"{"universal":["crm/query"]}"#).unwrap();
    check_platform(&universal, &rules.catalogue).unwrap();
    // A tool that was loaded or changed later does not pass either.
    let scene = Scene { platform: json!({"universal": "*"}), organization: json!({}), ..Scene::default() };
    scene.refuses("crm/delete", "organization", "enabled", DENIED);
    scene.runs("crm/query");
}

/// G1: universal tools do not count.
#[test]
fn g1_an_agent_with_universal_tools_alone_has_no_tools() {
    let scene = |agent| Scene { platform: json!({"universal": ["crm/query"]}), agent, ..Scene::default() };
    assert!(!has_tools(&scene(json!({})).rules(), &SessionFacts::default()));
    assert!(has_tools(&scene(json!({"enabled": ["crm/search"]})).rules(), &SessionFacts::default()));
    assert!(has_tools(&scene(json!({"enabled": ["crm/delete"]})).rules(), &SessionFacts::default()));
}

#[test]
fn g1_an_agent_left_with_nothing_is_warned_of() {
    let warned = |agent: Value| no_tools_warning(&Scene { agent, ..Scene::default() }.rules());
    for agent in
        [json!({}), json!({"enabled": []}), json!({"enabled": ["crm/search"], "disabled": ["crm/*"]})]
    {
        let warning = warned(agent.clone()).expect("a warning");
        assert_eq!((warning.code, warning.path.as_str()), ("NO_TOOLS", ""), "{agent}");
    }
    assert_eq!(warned(json!({"enabled": ["crm/search"], "disabled": ["crm/delete"]})), None);
}

#[test]
fn an_explanation_names_the_rule_in_words() {
    let scene = Scene {
        platform: json!({"profiles": {"desk": ["crm/search"]}}),
        agent: json!({"profile": "desk", "require_approval_for": ["crm/*"]}),
        ..Scene::default()
    };
    let rules = scene.rules();
    let steps = explain(&rules, &scene.facts, "crm/search");
    let why = |rule: &str, layer: Layer| {
        let step = steps.iter().find(|step| step.reason.layer == layer && step.reason.rule == rule);
        step.map(|step| (step.verdict, step.why.as_str()))
    };
    assert_eq!(why("profile", Layer::Agent), Some((StepVerdict::Passes, "the profile `desk` has it")));
    assert_eq!(why("enabled", Layer::Organization), Some((StepVerdict::Passes, "`*` in `enabled`")));
    assert_eq!(
        why("require_approval_for", Layer::Agent),
        Some((StepVerdict::NeedsApproval, "`crm/*` in `require_approval_for`"))
    );
}
