//! Properties of the gate for arbitrary documents.
//!
//! The model reads the documents entry by entry, as the requirements say, and shares no code with the compiled sets.

use super::*;

const TOOLS: [&str; 6] = ["crm/delete", "crm/query", "crm/search", "files/read", "files/write", "pay/charge"];
const PATTERNS: [&str; 9] = [
    "*",
    "crm/*",
    "crm/delete",
    "crm/query",
    "crm/search",
    "files/*",
    "files/read",
    "pay/charge",
    "later/tool",
];

fn any_list() -> impl Strategy<Value = Value> {
    proptest::option::weighted(0.7, proptest::collection::vec(proptest::sample::select(&PATTERNS[..]), 0..4))
        .prop_map(|list| json!(list))
}

fn any_platform() -> impl Strategy<Value = Value> {
    (any_list(), any_list(), any_list(), any_list(), any_list(), any::<bool>()).prop_map(
        |(allowed, blocked, universal, profile, channel, bound)| {
            let profile = if profile.is_null() { json!([]) } else { profile };
            json!({
                "allowed": allowed, "blocked": blocked, "universal": universal,
                "profiles": {"desk": profile}, "subtypes": {"helper": "desk"},
                "channels": {"sms": {"blocked": channel}, "webchat": {}},
                "integrations": {"files/write": "drive"},
                "server_binding": if bound { "required" } else { "optional" },
            })
        },
    )
}

fn any_organization() -> impl Strategy<Value = Value> {
    (any_list(), any_list(), any_list(), any_list()).prop_map(|(enabled, disabled, profile, channel)| {
        let profiles = if profile.is_null() { json!({}) } else { json!({"desk": profile}) };
        json!({"enabled": enabled, "disabled": disabled, "profiles": profiles, "channels": {"sms": {"blocked": channel}}})
    })
}

fn any_agent() -> impl Strategy<Value = Value> {
    let autonomy =
        proptest::sample::select(vec![None, Some("draft_only"), Some("supervised"), Some("autonomous")]);
    let named = proptest::sample::select(vec![
        json!({}),
        json!({"profile": "desk"}),
        json!({"subtype": "helper"}),
        json!({"subtype": "gone"}),
        json!({"server": "crm"}),
    ]);
    (any_list(), any_list(), any_list(), autonomy, named).prop_map(
        |(enabled, disabled, approval, autonomy, named)| {
            let mut agent = json!({"disabled": disabled, "autonomy": autonomy});
            agent.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
            // Lists of a bound agent that name other servers are refused when the document is written.
            if named["server"].is_null() {
                agent["enabled"] = enabled;
                agent["require_approval_for"] = approval;
            } else {
                agent["enabled"] = json!("*");
            }
            agent
        },
    )
}

fn any_facts() -> impl Strategy<Value = SessionFacts> {
    let ids = || proptest::collection::vec(proptest::sample::select(&TOOLS[..]), 0..2);
    let channel = proptest::sample::select(vec![None, Some("sms"), Some("webchat"), Some("gone")]);
    (ids(), ids(), channel).prop_map(|(disabled, broken, channel)| {
        let id = |id: &str| ToolId::parse(id).unwrap();
        SessionFacts {
            disabled: disabled.into_iter().map(id).collect(),
            broken: broken.into_iter().map(|tool| (id(tool), "it failed".to_owned())).collect(),
            channel: channel.map(str::to_owned),
        }
    })
}

fn any_scene() -> impl Strategy<Value = Scene> {
    let connected = proptest::sample::subsequence(vec!["stripe", "drive"], 0..=2);
    (any_platform(), any_organization(), connected, any_agent(), any_facts()).prop_map(
        |(platform, organization, connected, agent, facts)| Scene {
            platform,
            organization,
            connected,
            agent,
            facts,
        },
    )
}

/// Whether a list of a document matches the tool; `absent` is the result for an absent list.
fn names(list: &Value, tool: &str, absent: bool) -> bool {
    let Some(list) = list.as_array() else { return if list == "*" { true } else { absent } };
    let tool = ToolId::parse(tool).unwrap();
    list.iter().any(|entry| ToolPattern::parse(entry.as_str().unwrap()).unwrap().matches(&tool))
}

/// The model: returns the rule that stops a tool, according to the requirements.
fn model(scene: &Scene, tool: &str) -> Option<(&'static str, &'static str)> {
    let Scene { platform, organization, connected, agent, facts } = scene;
    let read_only = ["crm/query", "crm/search", "files/read"].contains(&tool);
    let universal = read_only && names(&platform["universal"], tool, false);
    let needed = [("pay/charge", "stripe"), ("files/write", "drive")];
    let missing = needed.iter().any(|(of, integration)| *of == tool && !connected.contains(integration));
    let profile = match (&agent["profile"], &agent["subtype"]) {
        (Value::String(name), _) => Some(name.as_str()),
        (_, Value::String(subtype)) => {
            Some(platform["subtypes"][subtype].as_str().unwrap_or("nothing at all"))
        }
        _ => None,
    };
    let in_profile = profile.is_none_or(|name| {
        let own = &organization["profiles"][name];
        names(if own.is_null() { &platform["profiles"][name] } else { own }, tool, false)
    });
    let bound = match agent["server"].as_str() {
        Some(server) => tool.starts_with(&format!("{server}/")),
        None => platform["server_binding"] != "required",
    };
    let blocks = |channel: &str| {
        let of = |document: &Value| names(&document["channels"][channel]["blocked"], tool, false);
        of(platform) || of(organization)
    };
    let channel_blocks = match facts.channel.as_deref() {
        None => false,
        Some(known @ ("sms" | "webchat")) => blocks(known),
        Some(_) => blocks("sms") || blocks("webchat"),
    };
    let id = ToolId::parse(tool).unwrap();
    let supervised = agent["autonomy"].is_null() || agent["autonomy"] == "supervised";
    let rules = [
        (names(&platform["blocked"], tool, false), "platform", "blocked"),
        (!names(&platform["allowed"], tool, true), "platform", "allowed"),
        (names(&organization["disabled"], tool, false), "organization", "disabled"),
        (!universal && !names(&organization["enabled"], tool, false), "organization", "enabled"),
        (missing, "organization", "integration"),
        (!bound, "agent", "server"),
        (names(&agent["disabled"], tool, false), "agent", "disabled"),
        (!universal && !in_profile, "agent", "profile"),
        (!universal && !names(&agent["enabled"], tool, profile.is_some()), "agent", "enabled"),
        (agent["autonomy"] == "draft_only" && !read_only, "agent", "autonomy"),
        (facts.broken.contains_key(&id), "session", "breaker"),
        (facts.disabled.contains(&id), "session", "disabled"),
        (channel_blocks, "session", "channel"),
        (names(&agent["require_approval_for"], tool, false), "approval", "require_approval_for"),
        (agent["require_approval_for"].is_null() && supervised && !read_only, "approval", "autonomy"),
    ];
    rules.into_iter().find(|(stops, ..)| *stops).map(|(_, layer, rule)| (layer, rule))
}

/// The callable tools, with or without approval.
fn callable_ids(scene: &Scene) -> BTreeSet<String> {
    callable(&scene.rules(), &scene.facts).map(|(tool, _)| tool.id().to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Every decision has the layer and rule of the model.
    #[test]
    fn the_gate_decides_as_the_documents_read(scene in any_scene()) {
        let rules = scene.rules();
        for tool in TOOLS {
            let decided = match decide(&rules, &scene.facts, tool) {
                Decision::Allowed(_) => None,
                Decision::NeedsApproval(_, reason) => Some(("approval", reason.rule)),
                Decision::Refused(reason) => Some((reason.layer.as_str(), reason.rule)),
            };
            prop_assert_eq!(decided, model(&scene, tool), "{}", tool);
        }
    }

    /// The list of callable tools has exactly those that [`check`] does not refuse.
    #[test]
    fn the_list_is_exactly_what_is_not_refused(scene in any_scene()) {
        let rules = scene.rules();
        let listed: BTreeMap<String, bool> =
            callable(&rules, &scene.facts).map(|(tool, asks)| (tool.id().to_string(), asks)).collect();
        for tool in TOOLS {
            let expected = match check(&rules, &scene.facts, call(tool, "{}")) {
                Verdict::Run(_) => Some(false),
                Verdict::NeedsApproval(_) => Some(true),
                Verdict::Refused(_) => None,
            };
            prop_assert_eq!(listed.get(tool).copied(), expected, "{}", tool);
        }
    }

    /// G16: the explanation agrees with the decision.
    #[test]
    fn explain_agrees_with_decide(scene in any_scene()) {
        let rules = scene.rules();
        for tool in TOOLS.iter().chain(&["later/tool"]) {
            let steps = explain(&rules, &scene.facts, tool);
            let first = steps.iter().find(|step| step.verdict != StepVerdict::Passes);
            let decided = match decide(&rules, &scene.facts, tool) {
                Decision::Allowed(_) => None,
                Decision::NeedsApproval(_, reason) => Some((reason, StepVerdict::NeedsApproval)),
                Decision::Refused(reason) => Some((reason, StepVerdict::Refuses)),
            };
            prop_assert_eq!(first.map(|step| (step.reason, step.verdict)), decided, "{}", tool);
            prop_assert!(steps.iter().all(|step| !step.why.is_empty()));
            if let Verdict::Refused(refusal) = check(&rules, &scene.facts, call(tool, "{}")) {
                prop_assert_eq!(first.and_then(|step| step.error_type), Some(refusal.error.error_type));
            }
        }
    }

    /// G7: no layer allows a tool that a layer above refuses, except universal tools, which the platform defines.
    #[test]
    fn no_layer_gives_what_the_one_above_did_not(scene in any_scene(), other in any_scene()) {
        let everything = Scene { organization: json!({"enabled": "*", "channels": scene.organization["channels"]}),
            connected: vec!["stripe", "drive"], agent: json!({"enabled": "*", "autonomy": "autonomous", "server": scene.agent["server"]}),
            ..scene.clone() };
        let organization = Scene { organization: scene.organization.clone(), connected: scene.connected.clone(), ..everything.clone() };
        let session = Scene { facts: other.facts.clone(), ..scene.clone() };
        let open = Scene { facts: SessionFacts { channel: other.facts.channel.clone(), ..SessionFacts::default() }, ..scene.clone() };
        prop_assert!(callable_ids(&organization).is_subset(&callable_ids(&everything)));
        prop_assert!(callable_ids(&scene).is_subset(&callable_ids(&organization)));
        prop_assert!(callable_ids(&session).is_subset(&callable_ids(&open)));
    }

    /// Denial wins: another denial makes no tool callable, and the denied tools are not callable.
    #[test]
    fn a_further_denial_never_lets_a_tool_in(scene in any_scene(), denied in any_list(), layer in 0_usize..3) {
        let mut stricter = scene.clone();
        let (document, field) = match layer {
            0 => (&mut stricter.platform, "blocked"),
            1 => (&mut stricter.organization, "disabled"),
            _ => (&mut stricter.agent, "disabled"),
        };
        let mut list = document[field].as_array().cloned().unwrap_or_default();
        list.extend(denied.as_array().cloned().unwrap_or_default());
        document[field] = json!(list);
        let after = callable_ids(&stricter);
        prop_assert!(after.is_subset(&callable_ids(&scene)));
        prop_assert!(after.iter().all(|tool| !names(&denied, tool, false)));
    }
}
