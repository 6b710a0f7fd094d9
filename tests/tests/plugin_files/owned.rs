//! Plugins that an organization loads for itself (9.16).

use super::*;

/// Bounds that a test reaches.
const SETTINGS: &str = "
[plugins]
owned_per_organization = 2
owned_bytes_per_organization = 300_000
";

const WASM: [(&str, &str); 1] = [("Content-Type", "application/wasm")];

struct Owners {
    daemon: Daemon,
    operator: Client,
    acme: Client,
    rival: Client,
}

impl Owners {
    /// Two organizations whose owners may load plugins.
    fn start() -> Self {
        Self::start_with(SETTINGS)
    }

    fn start_with(settings: &str) -> Self {
        let owners = Self::without_permission_with(settings);
        let policy = json!({"owners_load_plugins": true});
        owners.operator.make("/v1/platform/policy", &policy).expect(201);
        owners
    }

    fn without_permission() -> Self {
        Self::without_permission_with(SETTINGS)
    }

    fn without_permission_with(settings: &str) -> Self {
        let daemon = Daemon::start(PROGRAM, settings);
        let operator = daemon.operator();
        for organization in ["acme", "rival"] {
            operator.make_agent(&format!("{organization}/bot"), &json!({"enabled": ["*"]}));
        }
        let owner = |organization: &str| {
            operator.with_new_token(&json!({"role": "owner", "organization": organization}))
        };
        Self { acme: owner("acme"), rival: owner("rival"), operator, daemon }
    }

    fn session(&self, agent: &str) -> Session {
        self.operator.open_session(agent)
    }

    /// Number of kept plugin files.
    fn files(&self) -> usize {
        fs::read_dir(self.daemon.data().join("components")).expect("a folder").count()
    }
}

fn put(client: &Client, place: &str, file: &PluginFile) -> Reply {
    let (organization, namespace) = place.split_once('/').expect("`ORGANIZATION/NAMESPACE`");
    client.send("PUT", &format!("/v1/orgs/{organization}/plugins/{namespace}"), &WASM, &file.build())
}

fn answers(namespace: &str, answer: usize) -> PluginFile {
    let file = PluginFile::new(namespace).with_result(&answer.to_string());
    file.with_member("version", json!(format!("{answer}.0.0")))
}

#[test]
fn r9_16_an_owner_loads_plugins_only_where_the_platform_allows_it() {
    let owners = Owners::without_permission();
    let refused = put(&owners.acme, "acme/ours", &answers("ours", 1)).expect_refusal(403, "FORBIDDEN");
    assert!(refused.json()["hint"].as_str().is_some_and(|hint| hint.contains("owners_load_plugins")));
    assert_eq!(owners.files(), 0);
    owners.operator.make("/v1/platform/policy", &json!({"owners_load_plugins": true})).expect(201);
    let loaded = put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200).json();
    assert_eq!(loaded["state"], "active", "{loaded}");
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 1);
    // Loaded plugins stay when the permission is taken back.
    owners.operator.replace("/v1/platform/policy", &json!({})).expect(200);
    put(&owners.acme, "acme/ours", &answers("ours", 2)).expect_refusal(403, "FORBIDDEN");
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 1);
    let rows = owners.operator.audit("kind=admin&action=plugin.load");
    let outcomes: Vec<&Value> = rows.iter().map(|row| &row["admin"]["outcome"]).collect();
    assert_eq!(outcomes, ["FORBIDDEN", "ok", "FORBIDDEN"], "{rows:?}");
    assert_eq!(rows[0]["admin"]["organization"], "acme");
    let details = &rows[1]["admin"]["details"];
    assert_eq!((&details["digest"], &details["confirm_hints"]), (&loaded["digest"], &json!(false)));
}

#[test]
fn r9_5_an_owners_plugin_does_not_exist_for_others() {
    let owners = Owners::start();
    put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200);
    owners.session("rival/bot").call("ours/answer", json!({})).expect_error("TOOL_NOT_FOUND");
    owners.operator.get("/v1/plugins/ours").expect_refusal(404, "NOT_FOUND");
    let listed = |client: &Client, organization: &str| {
        let page = client.get(&format!("/v1/orgs/{organization}/plugins")).expect(200).json();
        page["items"].as_array().map(Vec::len)
    };
    assert_eq!((listed(&owners.acme, "acme"), listed(&owners.rival, "rival")), (Some(1), Some(0)));
    for path in ["/v1/orgs/acme/plugins/ours", "/v1/orgs/acme/plugins"] {
        let known = owners.rival.get(path).expect_refusal(404, "NOT_FOUND").text();
        let unknown = owners.rival.get(&path.replace("acme", "none")).expect_refusal(404, "NOT_FOUND").text();
        assert_eq!(known.replace("acme", "none"), unknown);
    }
    put(&owners.rival, "acme/ours", &answers("ours", 9)).expect_refusal(404, "NOT_FOUND");
    owners.rival.delete("/v1/orgs/acme/plugins/ours").expect_refusal(404, "NOT_FOUND");
    // Both may have a plugin of one name, each its own.
    put(&owners.rival, "rival/ours", &answers("ours", 2)).expect(200);
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 1);
    assert_eq!(owners.session("rival/bot").call("ours/answer", json!({})).output(), 2);
}

#[test]
fn r9_16_an_owners_plugin_survives_a_restart_until_it_is_removed() {
    let owners = Owners::start();
    put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200);
    put(&owners.acme, "acme/ours", &answers("ours", 2)).expect(200);
    let shown = owners.acme.get("/v1/orgs/acme/plugins/ours").expect(200).json();
    assert_eq!((&shown["version"], &shown["state"]), (&json!("2.0.0"), &json!("active")), "{shown}");
    assert_eq!(shown["versions"].as_array().map(Vec::len), Some(2), "{shown}");
    let daemon = owners.daemon.crash_and_restart();
    let operator = daemon.operator();
    let session = operator.open_session("acme/bot");
    assert_eq!(session.call("ours/answer", json!({})).output(), 2);
    assert_eq!(operator.get("/v1/orgs/acme/plugins/ours").expect(200).json()["versions"], shown["versions"]);
    operator.delete("/v1/orgs/acme/plugins/ours").expect(204);
    session.call("ours/answer", json!({})).expect_error("TOOL_NOT_FOUND");
    operator.delete("/v1/orgs/acme/plugins/ours").expect_refusal(404, "NOT_FOUND");
    assert_eq!(fs::read_dir(daemon.data().join("components")).expect("a folder").count(), 0);
}

/// 9.4: a namespace that is served is taken, and the organization's own wins over a plugin that is loaded later.
#[test]
fn r9_4_a_namespace_has_one_holder_in_an_organization() {
    let owners = Owners::start();
    owners.operator.load("taken", &answers("taken", 1).build());
    for namespace in ["taken", "arithmetic"] {
        let place = format!("acme/{namespace}");
        put(&owners.acme, &place, &answers(namespace, 2)).expect_refusal(409, "CONFLICT");
    }
    let shop = json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [
        {"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}}]});
    owners.acme.make("/v1/orgs/acme/tools/shop", &shop).expect(201);
    put(&owners.acme, "acme/shop", &answers("shop", 2)).expect_refusal(409, "CONFLICT");
    put(&owners.acme, "acme/ours", &answers("ours", 2)).expect(200);
    owners.acme.make("/v1/orgs/acme/tools/ours", &shop).expect_refusal(409, "CONFLICT");
    let later = owners.operator.upload("ours", &answers("ours", 3).build()).expect(200).json();
    let warnings = later["warnings"].as_array().expect("a list");
    assert!(warnings.iter().any(|warning| warning["code"] == "HIDDEN"), "{later}");
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 2);
    assert_eq!(owners.session("rival/bot").call("ours/answer", json!({})).output(), 3);
    put(&owners.acme, "acme/ours", &answers("ours", 4)).expect(200);
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 4);
    owners.acme.delete("/v1/orgs/acme/plugins/ours").expect(204);
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 3);
}

#[test]
fn r9_16_an_organization_has_a_bounded_number_of_plugins_and_bytes() {
    let owners = Owners::start();
    for namespace in ["one", "two"] {
        put(&owners.acme, &format!("acme/{namespace}"), &answers(namespace, 1)).expect(200);
    }
    put(&owners.acme, "acme/three", &answers("three", 1)).expect_refusal(429, "QUOTA_EXCEEDED");
    put(&owners.rival, "rival/three", &answers("three", 1)).expect(200);
    put(&owners.acme, "acme/two", &answers("two", 2)).expect(200);
    owners.acme.delete("/v1/orgs/acme/plugins/one").expect(204);
    let files = owners.files();
    let padding = format!(r#"(data (i32.const 131072) "{}")"#, "x".repeat(400_000));
    let large = answers("three", 1).with_argument_bytes(600_000).with_inner(&padding);
    put(&owners.acme, "acme/three", &large).expect_refusal(429, "QUOTA_EXCEEDED");
    assert_eq!(owners.files(), files, "a refused file was kept");
    put(&owners.acme, "acme/three", &answers("three", 1)).expect(200);
}

/// 9.11, for the organization alone.
#[test]
fn r9_11_the_hints_of_an_owners_plugin_count_once_the_owner_confirms_them() {
    let owners = Owners::start();
    owners.operator.make_agent("acme/careful", &json!({"enabled": ["*"], "autonomy": "supervised"}));
    let read_only = |answer| answers("ours", answer).with_tool("hints", json!({"read_only": true}));
    put(&owners.acme, "acme/ours", &read_only(1)).expect(200);
    let session = owners.session("acme/careful");
    assert_eq!(session.call("ours/answer", json!({})).status(), "approval_required");
    let path = "/v1/orgs/acme/plugins/ours?confirm=hints";
    owners.acme.send("PUT", path, &WASM, &read_only(2).build()).expect(200);
    assert_eq!(owners.session("acme/careful").call("ours/answer", json!({})).output(), 2);
}

#[test]
fn o2_a_version_that_looks_different_waits_for_its_owner() {
    let owners = Owners::start();
    put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200);
    let changed = answers("ours", 2).with_tool("description", json!("Answers better."));
    let waiting = put(&owners.acme, "acme/ours", &changed).expect(200).json();
    assert_eq!(waiting["state"], "quarantined", "{waiting}");
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 1);
    let approve =
        |digest: &Value| owners.acme.post("/v1/orgs/acme/plugins/ours/approve", &json!({"digest": digest}));
    approve(&json!(format!("sha256:{}", "0".repeat(64)))).expect_refusal(409, "CONFLICT");
    let approved = approve(&waiting["digest"]).expect(200).json();
    assert_eq!((&approved["state"], &approved["digest"]), (&json!("active"), &waiting["digest"]));
    assert_eq!(owners.session("acme/bot").call("ours/answer", json!({})).output(), 2);
}

#[test]
fn g17_a_grant_of_an_owners_plugin_is_checked_and_counts_at_once() {
    let owners = Owners::start();
    let schema = json!({"type": "object", "additionalProperties": false});
    let tool = json!({"name": "quote", "description": "Reads.", "usage": "Use it.", "input_schema": schema, "hints": {"read_only": true}});
    let file = PluginFile::of(json!({"name": "ours", "version": "1.0.0", "tools": [tool]})).with_result("{}");
    let loaded = put(&owners.acme, "acme/ours", &file).expect(200).json();
    owners.operator.make_agent("acme/clerk", &json!({"enabled": ["ours/*"], "autonomy": "supervised"}));
    let ask = json!({"name": "ask", "always_approval": {"agents": ["clerk"], "tools": ["ours/quote"]}});
    owners.acme.make("/v1/orgs/acme/policy/assertions", &json!({"assertions": [ask]})).expect(201);
    let grant = "/v1/orgs/acme/tools/ours/grant";
    // Confirmed hints would spare the call its approval.
    let confirmed = json!({"confirmed_hints": loaded["digest"]});
    owners.operator.make(grant, &confirmed).expect_refusal(409, "CONFLICT");
    assert!(owners.operator.get(grant).expect(200).header("etag").is_none(), "nothing is stored");
    let described = json!({"descriptions": {"quote": "Tells a price."}});
    let granted = owners.operator.make(grant, &described).expect(201).json();
    assert_eq!(granted["warnings"], json!([]));
    let session = owners.session("acme/clerk");
    let tools = session.client.get(&session.path("/tools")).expect(200).text();
    assert!(tools.contains("Tells a price."), "{tools}");
}

#[test]
fn r9_16_an_operators_grant_does_not_outlive_consent_to_a_version_that_asks_for_more() {
    let owners = Owners::start();
    let grant = "/v1/orgs/acme/tools/ours/grant";
    put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200);
    owners.operator.make(grant, &json!({"filesystem": "workspace"})).expect(201);
    let approve = |file: &PluginFile| {
        let waiting = put(&owners.acme, "acme/ours", file).expect(200).json();
        assert_eq!(waiting["state"], "quarantined", "{waiting}");
        let approval = json!({"digest": waiting["digest"]});
        owners.acme.post("/v1/orgs/acme/plugins/ours/approve", &approval).expect(200).json()["grant"].clone()
    };
    let same = answers("ours", 2).with_tool("description", json!("Answers better."));
    assert_eq!(approve(&same), "kept");
    let is_stored = || owners.operator.get(grant).expect(200).header("etag").is_some();
    assert!(is_stored());
    let more = answers("ours", 3).with_member("capabilities", json!({"network": [{"host": "a.example"}]}));
    assert_eq!(approve(&more), "removed");
    assert!(!is_stored());
    let rows = owners.operator.audit("kind=admin&action=plugin.approve");
    assert!(rows.iter().all(|row| row["admin"]["details"]["digest"].is_string()), "{rows:?}");
}

#[test]
fn r9_16_an_owners_file_takes_the_steps_of_any_load() {
    let owners = Owners::start();
    let wrong = answers("ours", 1).with_tool("examples", json!([{"input": {}, "output": 2}]));
    put(&owners.acme, "acme/ours", &wrong).expect_refusal(422, "INVALID_PLUGIN");
    put(&owners.acme, "acme/ours", &answers("other", 1)).expect_refusal(422, "INVALID_PLUGIN");
    owners.acme.get("/v1/orgs/acme/plugins/ours").expect_refusal(404, "NOT_FOUND");
    assert_eq!(owners.files(), 0);
    put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200);
    let theirs = answers("ours", 2).with_member("publisher", json!("Somebody else"));
    put(&owners.acme, "acme/ours", &theirs).expect_refusal(409, "CONFLICT");
    assert_eq!(owners.files(), 1);
}

#[test]
fn r9_16_a_deleted_organization_leaves_no_plugin_behind() {
    let owners = Owners::start();
    put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200);
    let tag = owners.operator.get("/v1/orgs/acme").expect(200).header("etag").expect("a tag").to_owned();
    owners.operator.send("DELETE", "/v1/orgs/acme", &[("If-Match", tag.as_str())], b"").expect(204);
    assert_eq!(owners.files(), 0);
    owners.operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
    let session = owners.session("acme/bot");
    session.call("ours/answer", json!({})).expect_error("TOOL_NOT_FOUND");
    owners.operator.get("/v1/orgs/acme/plugins/ours").expect_refusal(404, "NOT_FOUND");
    let daemon = owners.daemon.crash_and_restart();
    daemon.operator().get("/v1/orgs/acme/plugins/ours").expect_refusal(404, "NOT_FOUND");
}

#[test]
fn r9_16_an_owner_rolls_back_and_disables_its_plugin() {
    let owners = Owners::start();
    for answer in [1, 2] {
        put(&owners.acme, "acme/ours", &answers("ours", answer)).expect(200);
    }
    let act =
        |client: &Client, act: &str| client.post(&format!("/v1/orgs/acme/plugins/ours/{act}"), &json!({}));
    let session = owners.session("acme/bot");
    for refused in ["rollback", "disable", "enable"] {
        act(&owners.rival, refused).expect_refusal(404, "NOT_FOUND");
    }
    assert_eq!(act(&owners.acme, "rollback").expect(200).json()["version"], "1.0.0");
    assert_eq!(session.call("ours/answer", json!({})).output(), 1);
    act(&owners.acme, "rollback").expect_refusal(409, "CONFLICT");
    assert_eq!(act(&owners.acme, "disable").expect(200).json()["state"], "disabled");
    session.call("ours/answer", json!({})).expect_error("TOOL_DISABLED");
    // Neither a restart nor another grant enables it.
    let daemon = owners.daemon.crash_and_restart();
    let operator = daemon.operator();
    operator.make("/v1/orgs/acme/tools/ours/grant", &json!({"filesystem": "workspace"})).expect(201);
    let session = operator.open_session("acme/bot");
    session.call("ours/answer", json!({})).expect_error("TOOL_DISABLED");
    act(&operator, "enable").expect(200);
    assert_eq!(session.call("ours/answer", json!({})).output(), 1);
    assert!(operator.get("/v1/orgs/acme/tools/ours/grant").expect(200).header("etag").is_some());
    for (act, outcomes) in
        [("rollback", &["ok", "CONFLICT"][..]), ("disable", &["ok"][..]), ("enable", &["ok"][..])]
    {
        let rows = operator.audit(&format!("kind=admin&action=plugin.{act}"));
        let mut found: Vec<&Value> = rows.iter().map(|row| &row["admin"]["outcome"]).collect();
        found.sort_by_key(|outcome| *outcome == "CONFLICT");
        assert_eq!(found, outcomes, "{rows:?}");
        assert!(rows.iter().all(|row| row["admin"]["organization"] == "acme"), "{rows:?}");
    }
}

#[test]
fn r9_16_a_canary_of_an_owner_takes_its_share_and_is_returned_when_it_fails() {
    let settings = format!("{SETTINGS}\n[calls]\nbreaker_failures = 1_000\nrounds_per_session = 100_000\n");
    let owners = Owners::start_with(&settings);
    let trial = "/v1/orgs/acme/plugins/ours?canary=50";
    let load = |file: &PluginFile| owners.acme.send("PUT", trial, &WASM, &file.build());
    load(&answers("ours", 1)).expect_refusal(409, "CONFLICT");
    put(&owners.acme, "acme/ours", &answers("ours", 1)).expect(200);
    let newest = || {
        let shown = owners.acme.get("/v1/orgs/acme/plugins/ours").expect(200).json();
        shown["versions"][0].clone()
    };
    let session = owners.session("acme/bot");
    let call = || session.call("ours/answer", json!({}));
    load(&answers("ours", 2).with_call("(unreachable)")).expect(200);
    assert_eq!(newest()["state"], "canary");
    let failed = wait::until("the canary to be returned", || {
        call();
        Some(newest()).filter(|newest| newest["state"] == "failed")
    });
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.contains("failed")), "{failed}");
    let rows = owners.operator.audit("kind=admin&action=plugin.canary_return");
    assert_eq!((rows.len(), &rows[0]["admin"]["organization"]), (1, &json!("acme")), "{rows:?}");
    // A better one gets its share, and all calls with consent.
    load(&answers("ours", 3)).expect(200);
    let outputs: Vec<Value> = (0..60).map(|_| call().output().clone()).collect();
    assert!(outputs.contains(&json!(1)) && outputs.contains(&json!(3)), "{outputs:?}");
    let approval = json!({"digest": newest()["digest"]});
    owners.acme.post("/v1/orgs/acme/plugins/ours/approve", &approval).expect(200);
    assert!((0..10).all(|_| call().output() == 3));
}
