//! Policy assertions (G17): each way that could open a tool against one is refused, and the same way elsewhere passes.

use toolgate_tests::daemon::run_to_end_in;
use toolgate_tests::{Client, PluginFile, Reply, Value, json};

use crate::{Fixture, PROGRAM, payments, with_fixture};

/// An organization with an agent that has nothing, and its owner.
struct Tenant {
    name: String,
    owner: Client,
}

impl Tenant {
    fn make(fixture: &mut Fixture, agent: &Value) -> Self {
        let name = fixture.name();
        fixture.operator.make_agent(&format!("{name}/bot"), agent);
        let owner = fixture.operator.with_new_token(&json!({"role": "owner", "organization": name}));
        Self { name, owner }
    }

    fn policy(&self) -> String {
        format!("/v1/orgs/{}/policy", self.name)
    }

    fn assertions(&self) -> String {
        format!("{}/assertions", self.policy())
    }

    fn agent(&self, name: &str) -> String {
        format!("/v1/orgs/{}/agents/{name}", self.name)
    }

    fn assert(&self, assertion: Value) -> Reply {
        self.owner.make(&self.assertions(), &json!({"assertions": [assertion]}))
    }
}

fn all() -> Value {
    json!({"enabled": ["*"], "autonomy": "autonomous"})
}

fn never(tools: &[&str]) -> Value {
    json!({"name": "shut", "never": {"tools": tools}})
}

const PLATFORM: &str = "/v1/platform/policy/assertions";

fn delete(client: &Client, place: &str) {
    let etag = client.get(place).header("etag").expect("a tag").to_owned();
    client.send("DELETE", place, &[("If-Match", etag.as_str())], b"").expect(204);
}

/// Checks that a change was refused by an assertion about this tool, and returns the details.
#[track_caller]
fn expect_broken(reply: Reply, assertion: &str, tool: &str) -> Value {
    let problem = reply.expect_refusal(409, "CONFLICT").json();
    let details = problem["details"].clone();
    assert_eq!(
        (&details["assertion"]["name"], &details["tool"]),
        (&json!(assertion), &json!(tool)),
        "{problem}"
    );
    details
}

#[test]
fn g17_a_change_of_an_agent_that_breaks_an_assertion_is_refused_with_its_path() {
    with_fixture(|fixture| {
        let tenant = Tenant::make(fixture, &json!({"enabled": ["pay/quote"]}));
        tenant.assert(never(&["pay/send"])).expect(201);
        let details = expect_broken(tenant.owner.replace(&tenant.agent("bot"), &all()), "shut", "pay/send");
        assert_eq!(details["agent"], format!("{}/bot", tenant.name));
        assert_eq!(
            (&details["assertion"]["holder"], &details["assertion"]["kind"]),
            (&json!("organization"), &json!("never"))
        );
        let path = details["path"].as_array().expect("the rules");
        let grant = path.iter().find(|step| step["layer"] == "agent" && step["rule"] == "enabled");
        assert_eq!(grant.expect("the rule of the agent")["why"], "`*` in `enabled`");
        // Nothing was changed, and a new agent is refused too.
        assert_eq!(
            tenant.owner.get(&tenant.agent("bot")).expect(200).json()["enabled"],
            json!(["pay/quote"])
        );
        expect_broken(tenant.owner.make(&tenant.agent("new"), &all()), "shut", "pay/send");
        let but = json!({"enabled": ["*"], "disabled": ["pay/send"]});
        tenant.owner.make(&tenant.agent("new"), &but).expect(201);
        // Another organization is free.
        Tenant::make(fixture, &all());
        // Without the assertion the change passes.
        delete(&tenant.owner, &tenant.assertions());
        tenant.owner.replace(&tenant.agent("bot"), &all()).expect(200);
    });
}

#[test]
fn g17_assertions_that_do_not_hold_are_not_put_in_force() {
    with_fixture(|fixture| {
        let tenant = Tenant::make(fixture, &all());
        let details = expect_broken(tenant.assert(never(&["pay/send"])), "shut", "pay/send");
        assert_eq!(details["agent"], format!("{}/bot", tenant.name));
        tenant.owner.get(&tenant.assertions()).expect_refusal(404, "NOT_FOUND");
        tenant.assert(never(&["pay/refund"])).expect(201);
        tenant.assert(never(&[])).expect_refusal(412, "CONFLICT");
        let written_blind =
            tenant.owner.send("PUT", &tenant.assertions(), &[("Content-Type", "application/json")], b"{}");
        written_blind.expect_refusal(428, "INVALID_REQUEST");
        for (invalid, place) in [
            (json!({"assertions": [{"name": "a"}]}), "/assertions/0"),
            (
                json!({"assertions": [{"name": "a", "never": {"agents": ["acme/bot"], "tools": ["pay/*"]}}]}),
                "/assertions/0/never/agents/0",
            ),
            (
                json!({"assertions": [{"name": "a", "never": {"tools": ["pay"]}}]}),
                "/assertions/0/never/tools/0",
            ),
        ] {
            let refused =
                tenant.owner.replace(&tenant.assertions(), &invalid).expect_refusal(422, "INVALID_POLICY");
            assert_eq!(refused.json()["details"]["pointer"], place);
        }
    });
}

#[test]
fn g17_a_policy_that_breaks_an_assertion_is_refused() {
    with_fixture(|fixture| {
        let tenant = Tenant::make(fixture, &all());
        tenant.owner.replace(&tenant.policy(), &json!({"enabled": ["pay/quote"]})).expect(200);
        tenant.assert(never(&["pay/send"])).expect(201);
        let diff = tenant
            .owner
            .post(&format!("{}/diff", tenant.policy()), &json!({"enabled": "*"}))
            .expect(200)
            .json();
        assert_eq!(diff["warnings"][0]["code"], "ASSERTION_BROKEN", "{diff}");
        expect_broken(tenant.owner.replace(&tenant.policy(), &json!({"enabled": "*"})), "shut", "pay/send");
        tenant
            .owner
            .replace(&tenant.policy(), &json!({"enabled": "*", "disabled": ["pay/send"]}))
            .expect(200);
    });
}

#[test]
fn g17_a_call_that_always_needs_a_person_keeps_needing_one() {
    with_fixture(|fixture| {
        let tenant = Tenant::make(fixture, &json!({"enabled": ["pay/*"], "autonomy": "supervised"}));
        let ask = json!({"name": "ask", "always_approval": {"agents": ["bot"], "tools": ["pay/send"]}});
        tenant.assert(ask).expect(201);
        let details = expect_broken(tenant.owner.replace(&tenant.agent("bot"), &all()), "ask", "pay/send");
        assert_eq!(details["assertion"]["kind"], "always_approval");
        let unlisted = json!({"enabled": ["pay/*"], "require_approval_for": []});
        expect_broken(tenant.owner.replace(&tenant.agent("bot"), &unlisted), "ask", "pay/send");
        let listed =
            json!({"enabled": ["pay/*"], "autonomy": "autonomous", "require_approval_for": ["pay/send"]});
        tenant.owner.replace(&tenant.agent("bot"), &listed).expect(200);
        // The assertion is about one agent.
        tenant.owner.make(&tenant.agent("clerk"), &all()).expect(201);
    });
}

#[test]
fn g17_only_the_named_agents_can_call_a_tool() {
    with_fixture(|fixture| {
        let tenant = Tenant::make(fixture, &all());
        let only = json!({"name": "bot-alone", "only": {"agents": ["bot"], "tools": ["pay/send"]}});
        tenant.assert(only).expect(201);
        expect_broken(tenant.owner.make(&tenant.agent("clerk"), &all()), "bot-alone", "pay/send");
        tenant.owner.make(&tenant.agent("clerk"), &json!({"enabled": ["files/*"]})).expect(201);
        tenant.owner.replace(&tenant.agent("bot"), &all()).expect(200);
    });
}

#[test]
fn g17_a_plugin_that_would_open_a_tool_is_not_loaded() {
    with_fixture(|fixture| {
        let namespace = fixture.name();
        let tenant = Tenant::make(fixture, &all());
        let plugin = |tools: &[&str]| changing_plugin(&namespace, tools);
        fixture.operator.load(&namespace, &plugin(&["look"]));
        let agents = format!("{}/*", tenant.name);
        let shut =
            json!({"name": "shut", "never": {"agents": agents, "tools": [format!("{namespace}/wipe")]}});
        fixture.operator.make(PLATFORM, &json!({"assertions": [shut]})).expect(201);
        let loaded = upload(&fixture.operator, &namespace, &plugin(&["look", "wipe"]));
        expect_broken(loaded, "shut", &format!("{namespace}/wipe"));
        let shown = fixture.operator.get(&format!("/v1/plugins/{namespace}")).expect(200).json();
        assert_eq!(shown["tools"].as_array().map(Vec::len), Some(1), "{shown}");
        // An agent without the plugin's tools does not stand in the way.
        let none = json!({"enabled": ["files/*"]});
        tenant.owner.replace(&tenant.agent("bot"), &none).expect(200);
        fixture.operator.load(&namespace, &plugin(&["look", "wipe"]));
        // Disabled, the plugin opens nothing; enabled again it would.
        let switch =
            |action: &str| fixture.operator.post(&format!("/v1/plugins/{namespace}/{action}"), &json!({}));
        switch("disable").expect(200);
        tenant.owner.replace(&tenant.agent("bot"), &all()).expect(200);
        expect_broken(switch("enable"), "shut", &format!("{namespace}/wipe"));
        tenant.owner.replace(&tenant.agent("bot"), &none).expect(200);
        switch("enable").expect(200);
        delete(&fixture.operator, PLATFORM);
    });
}

#[test]
fn g17_an_operators_change_that_breaks_an_organizations_assertion_is_shown_to_its_owner() {
    with_fixture(|fixture| {
        let namespace = fixture.name();
        let tenant = Tenant::make(fixture, &all());
        let plugin = |tools: &[&str]| changing_plugin(&namespace, tools);
        fixture.operator.load(&namespace, &plugin(&["look"]));
        let wipe = format!("{namespace}/wipe");
        tenant.assert(never(&[&wipe])).expect(201);
        let shown = || tenant.owner.get(&tenant.assertions()).expect(200).json();
        assert_eq!(shown(), json!({"assertions": [never(&[&wipe])]}));
        upload(&fixture.operator, &namespace, &plugin(&["look", "wipe"])).expect(200);
        let broken = shown();
        let facts = ["assertion", "agent", "tool"].map(|name| broken["broken"][0][name].clone());
        assert_eq!(facts, ["shut", &format!("{}/bot", tenant.name), &wipe].map(Value::from), "{broken}");
        toolgate_tests::wait::until("the record", || {
            let records = tenant.owner.audit("kind=admin&action=assertions.broken");
            records.into_iter().find(|record| record["admin"]["details"]["tool"] == wipe)
        });
        // A document that was read can be written, and a repaired assertion is no longer shown.
        tenant.owner.replace(&tenant.assertions(), &broken).expect(200);
        tenant.owner.replace(&tenant.agent("bot"), &json!({"enabled": ["files/*"]})).expect(200);
        assert_eq!(shown(), json!({"assertions": [never(&[&wipe])]}));
        expect_broken(tenant.owner.replace(&tenant.agent("bot"), &all()), "shut", &wipe);
    });
}

#[test]
fn g17_a_tool_of_an_organization_that_breaks_an_assertion_is_refused() {
    with_fixture(|fixture| {
        let tenant = Tenant::make(fixture, &all());
        tenant.assert(never(&["shop/wipe"])).expect(201);
        let tool = format!("/v1/orgs/{}/tools/shop", tenant.name);
        let shop = |action: &str| {
            let action = json!({"name": action, "description": "Acts.", "method": "GET", "path": "/", "input_schema": {"type": "object"}});
            json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [action]})
        };
        expect_broken(tenant.owner.make(&tool, &shop("wipe")), "shut", "shop/wipe");
        tenant.owner.get(&tool).expect_refusal(404, "NOT_FOUND");
        tenant.owner.make(&tool, &shop("list")).expect(201);
    });
}

#[test]
fn g17_confirmed_hints_that_spare_a_call_its_approval_are_refused() {
    with_fixture(|fixture| {
        let namespace = fixture.name();
        let tenant =
            Tenant::make(fixture, &json!({"enabled": [format!("{namespace}/*")], "autonomy": "supervised"}));
        let loaded = fixture.operator.load(&namespace, &reader(&namespace));
        let quote = format!("{namespace}/quote");
        let agents = format!("{}/*", tenant.name);
        let ask = json!({"name": "ask", "always_approval": {"agents": agents, "tools": [quote]}});
        fixture.operator.make(PLATFORM, &json!({"assertions": [ask]})).expect(201);
        let grant = format!("/v1/plugins/{namespace}/grant");
        let confirmed = json!({"confirmed_hints": loaded["digest"]});
        expect_broken(fixture.operator.make(&grant, &confirmed), "ask", &quote);
        fixture.operator.make(&grant, &json!({})).expect(201);
        delete(&fixture.operator, PLATFORM);
        // The same assertion of the organization warns the operator.
        tenant.assert(json!({"name": "ask", "always_approval": {"tools": [quote]}})).expect(201);
        let strict = fixture.operator.replace(&format!("{grant}?strict=true"), &confirmed);
        strict.expect_refusal(422, "INVALID_POLICY");
        let warned = fixture.operator.replace(&grant, &confirmed).expect(200).json();
        let codes: Vec<_> =
            warned["warnings"].as_array().into_iter().flatten().map(|one| &one["code"]).collect();
        assert!(codes.contains(&&json!("ASSERTION_BROKEN")), "{warned}");
    });
}

#[test]
fn g17_an_owner_learns_of_a_platforms_assertion_its_name_alone() {
    with_fixture(|fixture| {
        let tenant = Tenant::make(fixture, &json!({"enabled": ["pay/quote"]}));
        let agents = format!("{}/*", tenant.name);
        let document = json!({"assertions": [{"name": "platform-shut", "never": {"agents": agents, "tools": ["pay/send"]}}]});
        fixture.operator.make(PLATFORM, &document).expect(201);
        tenant.owner.get(PLATFORM).expect_refusal(403, "FORBIDDEN");
        let refused = tenant.owner.replace(&tenant.agent("bot"), &all());
        let text = refused.text();
        let details = expect_broken(refused, "platform-shut", "pay/send");
        assert_eq!(
            details["assertion"],
            json!({"name": "platform-shut", "holder": "platform", "kind": null})
        );
        assert!(!text.contains("never") && !text.contains("`allowed`"), "{text}");
        let told = fixture.operator.replace(&tenant.agent("bot"), &all());
        let details = expect_broken(told, "platform-shut", "pay/send");
        assert_eq!(details["assertion"]["kind"], "never");
        delete(&fixture.operator, PLATFORM);
        tenant.owner.replace(&tenant.agent("bot"), &all()).expect(200);
        let records = fixture.operator.audit("kind=admin&limit=20");
        assert!(records.iter().any(|record| record.to_string().contains("assertions.delete")), "{records:?}");
    });
}

/// Concurrent changes that each keep the assertion and break it together: one is refused.
#[test]
fn g17_two_changes_at_once_do_not_break_an_assertion_together() {
    with_fixture(|fixture| {
        for _ in 0..5 {
            let tenant = Tenant::make(fixture, &json!({"enabled": ["pay/quote"]}));
            tenant.owner.replace(&tenant.policy(), &json!({"enabled": ["pay/quote"]})).expect(200);
            tenant.assert(never(&["pay/send"])).expect(201);
            let statuses = std::thread::scope(|scope| {
                let agent = scope.spawn(|| tenant.owner.replace(&tenant.agent("bot"), &all()).status);
                let policy =
                    scope.spawn(|| tenant.owner.replace(&tenant.policy(), &json!({"enabled": "*"})).status);
                let mut statuses = [agent.join().expect("a status"), policy.join().expect("a status")];
                statuses.sort_unstable();
                statuses
            });
            assert_eq!(statuses, [200, 409]);
        }
    });
}

#[test]
fn g17_a_folder_of_documents_is_tested_without_a_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join("policies").join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, bytes).expect("written");
    };
    let assertions = json!({"assertions": [
        {"name": "no-payments", "never": {"tools": ["pay/send"]}},
        {"name": "no-deletes", "never": {"agents": "acme/*", "tools": ["files/delete"]}},
    ]});
    write("plugins/pay.wasm", &payments("1.0.0"));
    write("assertions.json", assertions.to_string().as_bytes());
    write("orgs/acme/policy.json", br#"{"enabled": "*"}"#);
    let test = |agent: &Value, json: bool| {
        write("orgs/acme/agents/bot.json", agent.to_string().as_bytes());
        let arguments = ["policy", "test", "policies", "--json"];
        let home = folder.path().display().to_string();
        run_to_end_in(PROGRAM, &arguments[..3 + usize::from(json)], folder.path(), &[("HOME", &home)])
    };
    let sound = test(&json!({"enabled": ["pay/quote", "files/read"]}), false);
    assert!(sound.status.success(), "{sound:?}");
    let expected = "`no-payments` covers 1 tools and 1 agents\n`no-deletes` covers 1 tools and 1 agents\n\
                    2 assertions, 1 agents, 0 broken\n";
    assert_eq!(sound.stdout, expected);
    assert_eq!(sound.stderr, "describing the built-in plugin `files`; the first time compiles it\n");
    let broken = test(&all(), false);
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    for part in ["`no-payments`", "`pay/send`", "`no-deletes`", "`files/delete`", "`acme/bot`"] {
        assert!(broken.stderr.contains(part), "{part}: {broken:?}");
    }
    let told: Value = test(&all(), true).stdout.parse().expect("JSON");
    assert_eq!(told["broken"].as_array().map(Vec::len), Some(2), "{told}");
}

/// Uploads a file that may be refused at once, or when its difference is approved.
fn upload(client: &Client, namespace: &str, file: &[u8]) -> Reply {
    let loaded = client.upload(namespace, file);
    match loaded.status == 200 && loaded.json()["state"] == "quarantined" {
        true => client.approve(namespace, &loaded.json()["digest"]),
        false => loaded,
    }
}

/// Plugin with tools that change something.
fn changing_plugin(namespace: &str, tools: &[&str]) -> Vec<u8> {
    let schema = json!({"type": "object", "additionalProperties": false});
    let tool = |name: &&str| json!({"name": name, "description": "Acts.", "usage": "Use it.", "input_schema": schema});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let version = format!("1.0.{}", tools.len());
    PluginFile::of(
        json!({"name": namespace, "version": version, "publisher": "Toolgate tests", "tools": tools}),
    )
    .with_result("{}")
    .build()
}

/// Plugin whose tool `quote` says that it only reads.
fn reader(namespace: &str) -> Vec<u8> {
    let schema = json!({"type": "object", "additionalProperties": false});
    let tool = json!({"name": "quote", "description": "Reads.", "usage": "Use it.", "input_schema": schema, "hints": {"read_only": true}});
    PluginFile::of(
        json!({"name": namespace, "version": "1.0.0", "publisher": "Toolgate tests", "tools": [tool]}),
    )
    .with_result("{}")
    .build()
}
