//! Policy layers over HTTP: replaced documents, immediate effect, explanations, previews.
//!
//! `tests/sample_policy` is the reviewed example: `matrix.txt` lists every agent and every tool, determined by
//! calling each. `TOOLGATE_BLESS=1` rewrites it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use toolgate_tests::{Daemon, Options, Value, json, sample_policy};

use crate::with_fixture;

#[test]
fn g7_every_sample_agent_can_call_the_tools_in_the_matrix() {
    // Every tool is called, which takes more rounds than the default.
    let daemon =
        Daemon::start(crate::PROGRAM, "[calls]\nrounds_per_session = 10000\nrounds_per_turn = 10000");
    let operator = daemon.operator();
    sample_policy::open(&operator);
    let mut matrix = String::new();
    for (agent, _) in sample_policy::agents() {
        let path = format!("{}/{agent}", sample_policy::ORGANIZATION);
        let opened =
            operator.post("/v1/sessions", &json!({"agent": path, "channel": "webchat"})).expect(201).json();
        let session = toolgate_tests::Session {
            client: operator.clone(),
            id: opened["session"].as_str().expect("a session").to_owned(),
        };
        let listed: Vec<&str> = opened["tools"]
            .as_array()
            .expect("tools")
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        let explained = operator
            .get(&format!("/v1/orgs/office/agents/{agent}/explain?channel=webchat"))
            .expect(200)
            .json();
        let _ = writeln!(matrix, "\n{agent}");
        for tool in explained["tools"].as_array().expect("tools") {
            let id = tool["tool"].as_str().expect("a name");
            let Some(example) = first_example(id) else { continue };
            let reply = session.call(id, example);
            // Explanation, tool list and call agree.
            let (mark, verdict) = match (reply.status(), reply.error_type()) {
                ("ok", _) => ("✔", "allowed"),
                ("approval_required", _) => ("?", "needs_approval"),
                (_, error) => {
                    assert_eq!(error, tool["error_type"].as_str(), "{id}: {}", reply.0);
                    ("✘", "refused")
                }
            };
            assert_eq!(tool["verdict"], verdict, "{agent} {id}: {}", reply.0);
            let wire = format!("call_{}", id.replace('/', "_"));
            assert_eq!(listed.contains(&wire.as_str()), mark != "✘", "{agent} {id}");
            let why = tool["why"].as_str().unwrap_or_default();
            let _ = writeln!(
                matrix,
                "  {mark} {id:<38} {}: {why}",
                [tool["layer"].as_str(), tool["rule"].as_str()].map(Option::unwrap_or_default).join(" ")
            );
        }
    }
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gate/matrix.txt"));
    let text = format!(
        "Every agent of the office against every tool, in a session on `webchat`.\n✔ runs, ? waits for a person, ✘ is refused; \
         then the layer and the rule that decided.\n{matrix}"
    );
    if std::env::var_os("TOOLGATE_BLESS").is_some() {
        fs::write(file, &text).expect("the matrix is written");
    }
    let reviewed = fs::read_to_string(file).unwrap_or_default();
    assert!(
        reviewed == text,
        "the matrix has changed: run this with TOOLGATE_BLESS=1 and review the difference"
    );
}

/// First example of a sample tool.
fn first_example(id: &str) -> Option<Value> {
    let (namespace, name) = id.split_once('/')?;
    let plugin = sample_policy::plugins().into_iter().find(|plugin| plugin["name"] == namespace)?;
    let tool = plugin["tools"].as_array()?.iter().find(|tool| tool["name"] == name)?.clone();
    Some(tool["examples"][0]["input"].clone())
}

#[test]
fn g7_a_change_of_any_layer_applies_to_open_sessions_at_once() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["arithmetic/*", "time/*"]}));
    let session = operator.open_session("acme/bot");
    let call = || session.call("arithmetic/evaluate", json!({"expression": "1"}));
    assert_eq!(call().status(), "ok");
    session.call("arithmetic/evaluate", json!({"expression": "1 +"})).expect_error("INVALID_ARGUMENTS");
    operator.make("/v1/platform/policy", &json!({"blocked": ["arithmetic/*"]})).expect(201);
    let refused = call().expect_error("TOOL_DISABLED");
    // A caller and an owner learn only that the platform's layer decided; the operator's log has the rule.
    assert_eq!(refused.0["error"]["details"], json!({"layer": "platform"}), "{}", refused.0);
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme", "label": "owner"}));
    let logged =
        |client: &toolgate_tests::Client| client.audit("kind=call&status=error")[0]["call"]["reason"].clone();
    let reason = json!({"layer": "platform", "rule": "blocked", "why": "`arithmetic/*` in `blocked`"});
    assert_eq!(logged(&operator), reason);
    assert_eq!(logged(&owner), json!({"layer": "platform"}));
    // The gate did not refuse the call that failed.
    let codes = |query: &str| {
        let rows = operator.audit(&format!("kind=call{query}"));
        rows.into_iter().map(|row| row["outcome"]["error_type"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(codes("&refused=true"), ["TOOL_DISABLED"]);
    assert_eq!(codes(""), [json!("TOOL_DISABLED"), json!("INVALID_ARGUMENTS"), Value::Null]);
    operator.replace("/v1/platform/policy", &json!({"allowed": ["time/*"]})).expect(200);
    call().expect_error("ACCESS_DENIED");
    operator.replace("/v1/platform/policy", &json!({"integrations": {"arithmetic/*": "abacus"}})).expect(200);
    call().expect_error("INTEGRATION_MISSING");
    operator.replace("/v1/orgs/acme", &json!({"connected": ["abacus"]})).expect(200);
    assert_eq!(call().status(), "ok");
    operator.replace("/v1/orgs/acme/policy", &json!({"enabled": ["time/*"]})).expect(200);
    call().expect_error("ACCESS_DENIED");
    operator
        .replace("/v1/orgs/acme/policy", &json!({"enabled": "*", "disabled": ["arithmetic/evaluate"]}))
        .expect(200);
    call().expect_error("TOOL_DISABLED");
    // All of it survives a restart.
    let daemon = daemon.crash_and_restart();
    let operator = daemon.operator();
    let session = toolgate_tests::Session { client: operator.clone(), ..session };
    session.call("arithmetic/evaluate", json!({"expression": "1"})).expect_error("TOOL_DISABLED");
    operator.replace("/v1/orgs/acme/policy", &json!({"enabled": "*"})).expect(200);
    assert_eq!(session.call("arithmetic/evaluate", json!({"expression": "1"})).status(), "ok");
}

#[test]
fn g16_explanations_and_previews_wait_for_plugins_that_the_first_start_compiles() {
    let folder = tempfile::tempdir().expect("a folder");
    // A data folder of its own has no compiled code.
    let options = Options { data: Some(folder.path().join("data")), ..Options::default() };
    let daemon = Daemon::start_with(crate::PROGRAM, options);
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["arithmetic/*"]}));
    let explain = |tool: &str| {
        let path = format!("/v1/orgs/acme/agents/bot/explain?tool={tool}");
        operator.get(&path).expect(200).json()["tools"][0].clone()
    };
    assert_eq!(explain("files%2Fread")["error_type"], "ACCESS_DENIED");
    let blocked = json!({"blocked": ["time/*", "arithmetic/evaluate"]});
    let preview = operator.post("/v1/platform/policy/diff", &blocked).expect(200).json();
    assert_eq!(preview["agents"][0]["tools"][0]["tool"], "arithmetic/evaluate");
    assert_eq!(explain("arithmetic%2Fevaluate")["verdict"], "allowed");
    operator.open_session("acme/bot").call("files/read", json!({"path": "a"})).expect_error("ACCESS_DENIED");
}

#[test]
fn g16_explain_names_layer_and_rule_and_hides_platform_rules_from_owners() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator
        .make(
            "/v1/platform/policy",
            &json!({"blocked": ["files/delete"], "profiles": {"reader": ["files/read", "files/delete"]}}),
        )
        .expect(201);
    operator.make_agent("acme/bot", &json!({"profile": "reader"}));
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme", "label": "owner"}));
    let explain = |client: &toolgate_tests::Client, tool: &str| {
        client.get(&format!("/v1/orgs/acme/agents/bot/explain?tool={tool}")).expect(200).json()["tools"][0]
            .clone()
    };
    let blocked = explain(&operator, "files%2Fdelete");
    assert_eq!(
        (&blocked["verdict"], &blocked["layer"], &blocked["rule"]),
        (&json!("refused"), &json!("platform"), &json!("blocked"))
    );
    assert_eq!(blocked["why"], "`files/delete` in `blocked`");
    let masked = explain(&owner, "files%2Fdelete");
    assert_eq!(
        (&masked["verdict"], &masked["layer"], &masked["rule"]),
        (&json!("refused"), &json!("platform"), &json!(null))
    );
    assert!(!masked.to_string().contains("blocked"), "{masked}");
    for client in [&operator, &owner] {
        let outside = explain(client, "call_files_write");
        assert_eq!((&outside["layer"], &outside["rule"]), (&json!("agent"), &json!("profile")));
        assert_eq!(outside["why"], "not listed in the profile `reader`");
        let inside = explain(client, "files%2Fread");
        assert_eq!(inside["verdict"], "allowed");
        assert!(inside["steps"].as_array().is_some_and(|steps| steps.len() > 10), "{inside}");
    }
    assert_eq!(explain(&owner, "nothing")["error_type"], "TOOL_NOT_FOUND");
}

#[test]
fn g16_a_preview_lists_changes_by_agent_and_applies_none() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    for agent in ["acme/bot", "acme/idle", "other/bot"] {
        let enabled = if agent == "acme/idle" { json!(["time/*"]) } else { json!(["arithmetic/*"]) };
        operator.make_agent(agent, &json!({"enabled": enabled}));
    }
    let preview = |path: &str, document: Value| {
        operator.post(&format!("{path}/policy/diff"), &document).expect(200).json()
    };
    let platform = preview("/v1/platform", json!({"blocked": ["arithmetic/evaluate"]}));
    assert_eq!((&platform["complete"], &platform["unchanged"]), (&json!(true), &json!(1)));
    let agents: Vec<&str> = platform["agents"]
        .as_array()
        .expect("agents")
        .iter()
        .filter_map(|agent| agent["agent"].as_str())
        .collect();
    assert_eq!(agents, ["acme/bot", "other/bot"]);
    assert_eq!(
        platform["agents"][0]["tools"],
        json!([{"tool": "arithmetic/evaluate", "before": "allowed", "after": "refused", "layer": "platform", "rule": "blocked"}])
    );
    let organization = preview(
        "/v1/orgs/acme",
        json!({"enabled": "*", "channels": {"sms": {"blocked": ["time/*"]}, "webchat": {}}}),
    );
    let changed = &organization["agents"][0];
    assert_eq!(changed["agent"], "acme/idle");
    assert_eq!(changed["tools"][0]["channels"], json!(["sms"]), "{changed}");
    let agent = preview(
        "/v1/orgs/acme/agents/bot",
        json!({"enabled": ["arithmetic/*"], "require_approval_for": ["arithmetic/evaluate"]}),
    );
    assert_eq!(agent["agents"][0]["tools"][0]["after"], "needs_approval", "{agent}");
    let unsound = operator.post("/v1/orgs/acme/policy/diff", &json!({"enabeld": []}));
    unsound.expect_refusal(422, "INVALID_POLICY");
    // A preview changes nothing.
    let session = operator.open_session("acme/bot");
    assert_eq!(session.call("arithmetic/evaluate", json!({"expression": "1"})).status(), "ok");
    operator.get("/v1/platform/policy").expect_refusal(404, "NOT_FOUND");
}

/// Requirements 9.9: warns about agents without tools, for each layer.
#[test]
fn a_policy_that_leaves_agents_without_tools_gets_a_warning() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    let profiles = json!({"profiles": {"reader": ["files/read"]}});
    operator.make("/v1/platform/policy", &profiles).expect(201);
    operator.make_agent("acme/bot", &json!({"profile": "reader"}));
    operator.make_agent("other/bot", &json!({"enabled": ["time/*"]}));
    let policy = json!({"enabled": ["files/*", "time/*"]});
    operator.replace("/v1/orgs/acme/policy", &policy).expect(200);
    let warnings_of = |warnings: &Value| {
        warnings
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| (one["code"].clone(), one["message"].to_string()))
            .collect::<Vec<_>>()
    };
    for (path, document) in
        [("/v1/orgs/acme/policy", json!({"enabled": ["time/*"]})), ("/v1/platform/policy", json!({}))]
    {
        operator.replace(&format!("{path}?strict=true"), &document).expect_refusal(422, "INVALID_POLICY");
        let previewed = operator.post(&format!("{path}/diff"), &document).expect(200).json();
        let warnings = operator.replace(path, &document).expect(200).json();
        for answer in [previewed, warnings, operator.get(&format!("{path}/warnings")).expect(200).json()] {
            let found = warnings_of(&answer["warnings"]);
            let (code, message) = found.first().expect("a warning");
            assert_eq!((code, found.len()), (&json!("NO_TOOLS"), 1), "{answer}");
            assert!(message.contains("`acme/bot`") && !message.contains("other/bot"), "{message}");
        }
        // Repeating the change affects no agent, so there is no warning.
        assert_eq!(warnings_of(&operator.replace(path, &document).expect(200).json()["warnings"]), []);
        let before = if path.contains("platform") { &profiles } else { &policy };
        assert_eq!(
            warnings_of(
                &operator.replace(&format!("{path}?strict=true"), before).expect(200).json()["warnings"]
            ),
            []
        );
    }
}

/// 34: a dry run of each kind of document is checked as a write is, and changes nothing.
#[test]
fn o6_a_dry_run_is_checked_as_a_write_and_changes_nothing() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["files/*"]}));
    let tool = |path: &str| {
        json!({"description": "A shop.", "base_url": "https://api.example.com",
            "actions": [{"name": "orders", "description": "All orders.", "method": "GET", "path": path}]})
    };
    let cases = [
        ("/v1/orgs/other", json!({"display_name": "Other"}), json!({"display_name": ""})),
        ("/v1/platform/policy", json!({"blocked": ["time/*"]}), json!({"nosuch": 1})),
        ("/v1/orgs/acme/agents/new", json!({"enabled": ["files/*"]}), json!({"profile": "nosuch"})),
        ("/v1/plugins/files/grant", json!({"filesystem": "none"}), json!({"extra_ca": ["no certificate"]})),
        ("/v1/orgs/acme/tools/shop", tool("/orders"), tool("/{nowhere}")),
        (
            "/v1/orgs/acme/tools/shop/grant",
            json!({"network": [{"host": "a.example.com"}]}),
            json!({"extra_ca": ["x"]}),
        ),
        ("/v1/orgs/acme/enabled/files", json!({"config": {}}), json!({"config": {"nosuch": 1}})),
    ];
    for (path, good, bad) in cases {
        let dry = format!("{path}?dry_run=true");
        let before = operator.get(path).text();
        let accepted = operator.make(&dry, &good).expect(200);
        assert_eq!(accepted.header("etag"), None, "{path}");
        let refused = operator.make(&dry, &bad);
        assert!(matches!(refused.status, 400 | 422), "{path}: {}", refused.text());
        // Preconditions count as well.
        operator
            .send("PUT", &dry, &[("Content-Type", "application/json")], good.to_string().as_bytes())
            .expect_refusal(428, "INVALID_REQUEST");
        assert_eq!(operator.get(path).text(), before, "{path}");
        operator.make(path, &good).expect(201);
        operator.make(&dry, &good).expect_refusal(412, "CONFLICT");
    }
    let acts = operator.audit("kind=admin&action=tool.put");

    assert_eq!(acts.len(), 1, "a dry run leaves no record: {acts:?}");
}

/// G16: the reasons are accurate, and an unknown channel is refused.
#[test]
fn g16_the_reasons_of_an_explanation_are_accurate() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    let platform =
        |profiles: Value| json!({"universal": ["time/now"], "profiles": profiles, "channels": {"sms": {}}});
    operator.make("/v1/platform/policy", &platform(json!({"reader": ["files/read"]}))).expect(201);
    operator.make_agent("acme/bot", &json!({"profile": "reader"}));
    let path = "/v1/orgs/acme/agents/bot/explain";
    let why = |tool: &str, rule: &str| {
        let explained = operator.get(&format!("{path}?tool={tool}")).expect(200).json();
        let steps = explained["tools"][0]["steps"].as_array().cloned().unwrap_or_default();
        let of_agent = steps.into_iter().find(|step| step["layer"] == "agent" && step["rule"] == rule);
        of_agent.expect("a step")["why"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why("files/write", "profile"), "not listed in the profile `reader`");
    assert_eq!(why("files/write", "enabled"), "the agent has no `enabled` of its own: its profile decides");
    assert_eq!(why("files/read", "profile"), "the profile `reader` has it");
    assert_eq!(why("time/now", "profile"), "the tool is universal, so the profile `reader` need not have it");
    operator.replace("/v1/platform/policy", &platform(json!({}))).expect(200);
    assert_eq!(why("files/read", "profile"), "the agent's profile `reader` is no longer defined");
    operator.get(&format!("{path}?channel=sms")).expect(200);
    operator.get(&format!("{path}?channel=smss")).expect_refusal(400, "INVALID_REQUEST");
}

/// G16: differences that do not affect access are listed too.
#[test]
fn g16_a_preview_names_the_members_that_differ() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"], "autonomy": "supervised"}));
    let members = |path: &str, document: Value| {
        operator.post(&format!("{path}/policy/diff"), &document).expect(200).json()["members"].clone()
    };
    let agent = "/v1/orgs/acme/agents/bot";
    assert_eq!(
        members(agent, json!({"enabled": ["time/*"], "autonomy": "supervised", "limits": {"fuel": 1}})),
        json!(["limits"])
    );
    assert_eq!(
        members(agent, json!({"limits": null, "autonomy": "supervised", "enabled": ["time/*"]})),
        json!([])
    );
    assert_eq!(members("/v1/platform", json!({"blocked": []})), json!(["blocked"]));
}

/// Requirements 9.9.
#[test]
fn an_invalid_policy_is_refused_with_its_place_and_the_old_one_stays() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator
        .make(
            "/v1/platform/policy",
            &json!({"profiles": {"support": ["time/*"]}, "subtypes": {"customer_support": "support"}}),
        )
        .expect(201);
    operator.make_agent("acme/bot", &json!({"profile": "support"}));
    let put = |path: &str, document: &Value| {
        let tag = operator.get(path).expect(200).header("etag").expect("a tag").to_owned();
        let headers = [("Content-Type", "application/json"), ("If-Match", tag.as_str())];
        operator.send("PUT", path, &headers, document.to_string().as_bytes())
    };
    let (platform, organization, agent) =
        ("/v1/platform/policy", "/v1/orgs/acme/policy", "/v1/orgs/acme/agents/bot");
    let undefined = json!({"subtypes": {"a": "suport"}, "profiles": {"support": []}});
    for (path, document, pointer, hint) in [
        (platform, json!({"blokced": []}), "/blokced", "did you mean `blocked`?"),
        (platform, undefined, "/subtypes/a", "did you mean `support`?"),
        (platform, json!({"universal": ["files/delete"]}), "/universal/0", "list read-only tools only"),
        (platform, json!({"intents": {"a": {"patterns": ["("]}}}), "/intents/a/patterns/0", ""),
        (organization, json!({"broker": {"enabld": true}}), "/broker/enabld", "did you mean `enabled`?"),
        (agent, json!({"profile": "suport"}), "/profile", "did you mean `support`?"),
        (agent, json!({"subtype": "customer_suport"}), "/subtype", "did you mean `customer_support`?"),
    ] {
        let refused = put(path, &document).expect_refusal(422, "INVALID_POLICY").json();
        assert_eq!(refused["details"]["pointer"], pointer, "{refused}");
        assert!(refused["hint"].as_str().is_some_and(|text| text.contains(hint)), "{refused}");
    }
    let session = operator.open_session("acme/bot");
    assert_eq!(session.call("call_time_now", json!({})).status(), "ok");
    // A suspicious document is accepted with a persistent warning, or refused with `strict`.
    let odd = json!({"enabled": ["tme/*"]});
    let accepted = put("/v1/orgs/acme/agents/bot", &odd).expect(200).json();
    assert_eq!(
        (&accepted["warnings"][0]["code"], &accepted["warnings"][0]["nearest"]),
        (&json!("UNRESOLVED_TOOL"), &json!("time/*"))
    );
    // The entry also leaves the agent without tools.
    assert_eq!(
        (&accepted["warnings"][1]["code"], &accepted["warnings"][2]),
        (&json!("NO_TOOLS"), &Value::Null)
    );
    let shown = operator.get("/v1/orgs/acme/agents/bot/warnings").expect(200).json();
    assert_eq!(shown["warnings"], accepted["warnings"]);
    let strict = operator.get("/v1/orgs/acme/agents/bot").header("etag").expect("a tag").to_owned();
    let headers = [("Content-Type", "application/json"), ("If-Match", strict.as_str())];
    operator
        .send("PUT", "/v1/orgs/acme/agents/bot?strict=true", &headers, odd.to_string().as_bytes())
        .expect_refusal(422, "INVALID_POLICY");
    // The session stays open, and its calls get their error codes (9.6).
    session.call("call_time_now", json!({})).expect_error("ACCESS_DENIED");
}

#[test]
fn g5_a_required_binding_applies_to_existing_agents() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/free", &json!({"enabled": ["time/*"]}));
    operator.make_agent("acme/bound", &json!({"enabled": ["time/*"], "server": "time"}));
    let (free, bound) = (operator.open_session("acme/free"), operator.open_session("acme/bound"));
    operator.make("/v1/platform/policy", &json!({"server_binding": "required"})).expect(201);
    free.call("time/now", json!({})).expect_error("ACCESS_DENIED");
    assert_eq!(bound.call("time/now", json!({})).status(), "ok");
    operator
        .make("/v1/orgs/acme/agents/new", &json!({"enabled": ["time/*"]}))
        .expect_refusal(422, "INVALID_POLICY");
}

#[test]
fn a_universal_tool_is_available_to_every_agent_but_opens_no_session() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator.make("/v1/platform/policy", &json!({"universal": ["time/now"]})).expect(201);
    operator.make_agent("acme/bot", &json!({"enabled": ["arithmetic/*"]}));
    operator.make_agent("acme/nothing", &json!({"enabled": []}));
    assert_eq!(operator.open_session("acme/bot").call("time/now", json!({})).status(), "ok");
    let refused =
        operator.post("/v1/sessions", &json!({"agent": "acme/nothing"})).expect_refusal(409, "NO_TOOLS");
    assert_eq!(
        refused.json()["detail"],
        "This agent has no tools configured. Please contact the agent creator to add API access."
    );
}

#[test]
fn another_organizations_agent_is_not_explained_or_previewed() {
    with_fixture(|fixture| {
        let (agent, other_agent) =
            (fixture.agent(&json!({"enabled": ["pay/*"]})), fixture.agent(&json!({"enabled": ["pay/*"]})));
        for path in [
            format!("{}/explain", agent.document()),
            format!("{}/warnings", agent.document()),
            format!("{}/warnings", agent.policy()),
        ] {
            agent.owner.get(&path).expect(200);
            other_agent.owner.get(&path).expect_refusal(404, "NOT_FOUND");
        }
        let preview = format!("{}/diff", agent.policy());
        agent.owner.post(&preview, &json!({})).expect(200);
        other_agent.owner.post(&preview, &json!({})).expect_refusal(404, "NOT_FOUND");
        agent.owner.post("/v1/platform/policy/diff", &json!({})).expect_refusal(403, "FORBIDDEN");
    });
}
