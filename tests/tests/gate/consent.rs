//! Plugins of organizations: consent (C6), settings (C5), and what was enabled before consent was asked for.

use toolgate_tests::{Client, Daemon, Options, PluginFile, Session, Shared, Value, guests, json};

use crate::PROGRAM;

/// A daemon that asks organizations for their consent, as it does by default.
pub(crate) static CONSENTING: Shared<Consenting> = Shared::new();

const SETTINGS: &str = "[consent]\nrequired = true\n";

pub(crate) struct Consenting {
    _daemon: Daemon,
    pub operator: Client,
    made: u32,
}

/// An organization with its owner and a session of an agent that has every tool which the organization has.
pub(crate) struct Tenant {
    pub name: String,
    pub owner: Client,
    pub session: Session,
}

impl Consenting {
    pub fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, SETTINGS);
        Self { operator: daemon.operator(), _daemon: daemon, made: 0 }
    }

    pub fn tenant(&mut self) -> Tenant {
        self.made += 1;
        let name = format!("tenant-{}", self.made);
        tenant(&self.operator, &name)
    }
}

fn tenant(operator: &Client, name: &str) -> Tenant {
    tenant_with(operator, name, &json!("*"))
}

fn tenant_with(operator: &Client, name: &str, tools: &Value) -> Tenant {
    operator.make_agent(&format!("{name}/bot"), &json!({"enabled": tools}));
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": name}));
    let session = operator.open_session(&format!("{name}/bot"));
    Tenant { name: name.to_owned(), owner, session }
}

impl Tenant {
    pub fn enabled_path(&self, namespace: &str) -> String {
        format!("/v1/orgs/{}/enabled/{namespace}", self.name)
    }

    pub fn view(&self, namespace: &str) -> Value {
        self.owner.get(&self.enabled_path(namespace)).expect(200).json()
    }

    pub fn accept(&self, namespace: &str) {
        let consent = json!({"consent": {"digest": self.view(namespace)["digest"], "accept": true}});
        match self.owner.get(&self.enabled_path(namespace)).header("etag") {
            None => self.owner.make(&self.enabled_path(namespace), &consent).expect(201),
            Some(_) => self.owner.replace(&self.enabled_path(namespace), &consent).expect(200),
        };
    }

    #[track_caller]
    fn is_out(&self, namespace: &str) {
        let refused = self.session.call(&format!("{namespace}/answer"), json!({}));
        let refused = refused.expect_error("TOOL_DISABLED");
        let details = &refused.0["error"]["details"];
        let rule = (&details["layer"], &details["rule"]);
        assert_eq!(rule, (&json!("organization"), &json!("consent")), "{}", refused.0);
    }

    #[track_caller]
    fn is_in(&self, namespace: &str) {
        self.session.call(&format!("{namespace}/answer"), json!({})).output();
    }
}

/// A plugin of a publisher that asks for these hosts.
pub(crate) fn third_party(namespace: &str, version: &str, hosts: &[&str]) -> PluginFile {
    let network: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
    PluginFile::new(namespace)
        .with_member("version", json!(version))
        .with_member("capabilities", json!({"network": network}))
}

fn with_fixture(test: impl FnOnce(&mut Consenting)) {
    CONSENTING.with(Consenting::start, test);
}

#[test]
fn c6_a_plugin_stays_out_until_its_organization_accepts_it() {
    with_fixture(|fixture| {
        fixture.operator.load("stranger", &third_party("stranger", "1.0.0", &["api.example"]).build());
        let tenant = fixture.tenant();
        let other = fixture.tenant();
        tenant.is_out("stranger");
        let tools =
            tenant.session.client.get(&tenant.session.path("/tools")).expect(200).json()["tools"].to_string();
        assert!(!tools.contains("stranger") && tools.contains("call_arithmetic_evaluate"), "{tools}");
        let explain = format!("/v1/orgs/{}/agents/bot/explain?tool=stranger/answer", tenant.name);
        let explained = tenant.owner.get(&explain).expect(200).json()["tools"][0].clone();
        assert_eq!((&explained["verdict"], &explained["rule"]), (&json!("refused"), &json!("consent")));
        assert!(explained["why"].as_str().expect("a reason").contains("`stranger`"), "{explained}");

        let policy = format!("/v1/orgs/{}/policy", tenant.name);
        let warned = || {
            let accepted = tenant.owner.replace(&policy, &json!({"enabled": "*"})).expect(200).json();
            let mut warnings = accepted["warnings"].as_array().into_iter().flatten();
            warnings.any(|warning| {
                warning["code"] == "NO_CONSENT" && warning["message"].to_string().contains("`stranger`")
            })
        };
        assert!(warned());
        tenant.accept("stranger");
        assert!(!warned());
        tenant.is_in("stranger");
        other.is_out("stranger");

        let tag =
            tenant.owner.get(&tenant.enabled_path("stranger")).header("etag").expect("a tag").to_owned();
        tenant.owner.send("DELETE", &tenant.enabled_path("stranger"), &[("If-Match", &tag)], b"").expect(204);
        tenant.is_out("stranger");
    });
}

#[test]
fn c6_what_would_be_accepted_is_shown_in_words() {
    with_fixture(|fixture| {
        let file = third_party("shown", "1.0.0", &["api.example", "*.example.org"]).build();
        let digest = fixture.operator.load("shown", &file)["digest"].clone();
        let tenant = fixture.tenant();
        let shown = tenant.owner.get(&tenant.enabled_path("shown")).expect(200);
        assert_eq!(shown.header("etag"), None, "nothing was set");
        let view = shown.json();
        assert_eq!(view["digest"], digest);
        assert_eq!(view["consent"], "missing");
        assert_eq!(
            (&view["publisher"], &view["publisher_proven"]),
            (&json!("Toolgate tests"), &json!(false))
        );
        let permissions = ["sends requests to `api.example`", "sends requests to `*.example.org`"];
        assert_eq!(view["permissions"], json!(permissions));
        assert_eq!(view["risk"]["level"], "medium");
        assert!(view["risk"]["reasons"][0].is_string(), "{view}");
        tenant.accept("shown");
        let view = tenant.view("shown");
        assert_eq!(view["consent"], "accepted");
        assert_eq!(view["accepted"]["digest"], digest);
        assert_eq!(view["accepted"]["permissions"], json!(permissions));
        assert!(view["accepted"]["at_ms"].as_u64().is_some_and(|at| at > 0), "{view}");
    });
}

#[test]
fn c6_consent_is_recorded_with_its_principal() {
    with_fixture(|fixture| {
        fixture.operator.load("recorded", &third_party("recorded", "1.0.0", &["api.example"]).build());
        let tenant = fixture.tenant();
        tenant.accept("recorded");
        let by = tenant.view("recorded")["accepted"]["by"].clone();
        let rows = tenant.owner.audit("kind=admin&action=enabled.put");
        assert_eq!(rows.len(), 1, "{rows:?}");
        let act = &rows[0]["admin"];
        assert_eq!((&act["principal"], &act["target"]), (&by, &json!("recorded")), "{act}");
        assert_eq!(act["details"]["permissions"], json!(["sends requests to `api.example`"]), "{act}");
    });
}

#[test]
fn c6_consent_to_one_version_is_not_used_for_another() {
    with_fixture(|fixture| {
        let first = fixture.operator.load("swapped", &third_party("swapped", "1.0.0", &[]).build());
        let tenant = fixture.tenant();
        let second = third_party("swapped", "1.0.1", &[]).with_result("2").build();
        let second = fixture.operator.load("swapped", &second);
        let consent = |digest: &Value| json!({"consent": {"digest": digest, "accept": true}});
        let place = tenant.enabled_path("swapped");
        tenant.owner.make(&place, &consent(&first["digest"])).expect_refusal(409, "CONFLICT");
        tenant.is_out("swapped");
        tenant.owner.make(&place, &consent(&second["digest"])).expect(201);
        tenant.is_in("swapped");
        let withdrawal = json!({"consent": {"digest": second["digest"], "accept": false}});
        tenant.owner.replace(&place, &withdrawal).expect(200);
        tenant.is_out("swapped");
    });
}

#[test]
fn c6_a_later_version_keeps_the_consent_unless_it_asks_for_more() {
    with_fixture(|fixture| {
        let operator = &fixture.operator;
        operator.load("growing", &third_party("growing", "1.0.0", &["api.example"]).build());
        let tenant = {
            fixture.made += 1;
            tenant(operator, &format!("tenant-{}", fixture.made))
        };
        tenant.accept("growing");
        let repaired = third_party("growing", "1.0.1", &["api.example"]).with_result("2").build();
        operator.load("growing", &repaired);
        assert_eq!(tenant.session.call("growing/answer", json!({})).output(), &json!(2));

        let asking =
            third_party("growing", "2.0.0", &["api.example", "more.example"]).with_result("3").build();
        let loaded = operator.upload("growing", &asking).expect(200).json();
        assert_eq!(loaded["state"], "quarantined", "{loaded}");
        // The version before serves until the operator approves this one.
        tenant.is_in("growing");
        operator.approve("growing", &loaded["digest"]).expect(200);
        tenant.is_out("growing");
        assert_eq!(tenant.view("growing")["consent"], "outdated");
        tenant.accept("growing");
        assert_eq!(tenant.session.call("growing/answer", json!({})).output(), &json!(3));
    });
}

#[test]
fn c6_another_plugin_of_the_name_does_not_get_the_consent() {
    with_fixture(|fixture| {
        let file = third_party("returning", "1.0.0", &[]).build();
        fixture.operator.load("returning", &file);
        let tenant = fixture.tenant();
        tenant.accept("returning");
        tenant.is_in("returning");
        fixture.operator.delete("/v1/plugins/returning").expect(204);
        fixture.operator.load("returning", &file);
        tenant.is_out("returning");
        assert_eq!(tenant.view("returning")["accepted"], Value::Null);
    });
}

#[test]
fn c6_what_the_operator_vouches_for_and_what_an_owner_made_need_no_consent() {
    with_fixture(|fixture| {
        fixture.operator.load("vetted", &third_party("vetted", "1.0.0", &[]).build());
        let tenant = fixture.tenant();
        tenant.is_out("vetted");
        fixture.operator.make("/v1/plugins/vetted/grant", &json!({"standard": true})).expect(201);
        tenant.is_in("vetted");
        let view = tenant.view("vetted");
        assert_eq!((&view["kind"], &view["consent"]), (&json!("standard"), &json!("not_needed")));
        fixture.operator.replace("/v1/plugins/vetted/grant", &json!({})).expect(200);
        tenant.is_out("vetted");

        tenant.session.call("arithmetic/evaluate", json!({"expression": "1 + 1"})).output();
        let action = json!({
            "name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"},
        });
        let definition =
            json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [action]});
        tenant.owner.make(&format!("/v1/orgs/{}/tools/shop", tenant.name), &definition).expect(201);
        let view = tenant.view("shop");
        assert_eq!((&view["kind"], &view["consent"]), (&json!("custom"), &json!("not_needed")));
        let tools =
            tenant.session.client.get(&tenant.session.path("/tools")).expect(200).json()["tools"].to_string();
        assert!(tools.contains("call_shop_list"), "{tools}");
    });
}

#[test]
fn c6_consent_is_a_document_of_one_organization() {
    with_fixture(|fixture| {
        fixture.operator.load("guarded", &third_party("guarded", "1.0.0", &[]).build());
        let (tenant, rival) = (fixture.tenant(), fixture.tenant());
        let digest = tenant.view("guarded")["digest"].clone();
        let consent = json!({"consent": {"digest": digest, "accept": true}});
        let place = tenant.enabled_path("guarded");
        // A foreign organization and one that does not exist have the same answer.
        let foreign = rival.owner.get(&place).expect_refusal(404, "NOT_FOUND").text();
        let missing =
            rival.owner.get("/v1/orgs/nosuch/enabled/guarded").expect_refusal(404, "NOT_FOUND").text();
        assert_eq!(foreign.replace(&tenant.name, "nosuch"), missing);
        rival.owner.make(&place, &consent).expect_refusal(404, "NOT_FOUND");
        tenant.owner.get(&tenant.enabled_path("nosuch")).expect_refusal(404, "NOT_FOUND");
        tenant.is_out("guarded");

        let json_body = [("Content-Type", "application/json")];
        let unconditional = tenant.owner.send("PUT", &place, &json_body, consent.to_string().as_bytes());
        unconditional.expect_refusal(428, "INVALID_REQUEST");
        tenant.owner.make(&place, &consent).expect(201);
        tenant.owner.make(&place, &consent).expect_refusal(412, "CONFLICT");
        tenant.is_in("guarded");
        for (document, pointer) in [
            (json!({"consents": {}}), "/consents"),
            (json!({"config": []}), "/config"),
            (json!({"consent": {"accept": true}}), "/consent"),
        ] {
            let refused =
                tenant.owner.replace(&place, &document).expect_refusal(422, "INVALID_POLICY").json();
            let found = refused["details"]["pointer"].as_str().expect("a place");
            assert!(found.starts_with(pointer), "{refused}");
        }
        tenant.is_in("guarded");
    });
}

#[test]
fn c6_consent_outlives_a_crash_and_ends_with_its_organization() {
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    operator.load("lasting", &third_party("lasting", "1.0.0", &[]).build());
    let before = tenant(&operator, "acme");
    before.accept("lasting");
    before.is_in("lasting");
    let daemon = daemon.crash_and_restart();
    let operator = daemon.operator();
    let session = operator.open_session("acme/bot");
    let after = Tenant { name: "acme".to_owned(), owner: operator.clone(), session };
    after.is_in("lasting");
    assert_eq!(after.view("lasting")["consent"], "accepted");
    // A new organization of the name has nothing of the one before.
    let tag = operator.get("/v1/orgs/acme").header("etag").expect("a tag").to_owned();
    operator.send("DELETE", "/v1/orgs/acme", &[("If-Match", &tag)], b"").expect(204);
    tenant(&operator, "acme").is_out("lasting");
}

#[test]
fn c6_what_was_enabled_before_an_upgrade_counts_as_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let start = |settings: &str| {
        let settings = settings.to_owned();
        Daemon::start_with(PROGRAM, Options { settings, data: Some(data.clone()), ..Options::default() })
    };
    {
        let daemon = start("[consent]\nrequired = false\n");
        let operator = daemon.operator();
        operator.load("before", &third_party("before", "1.0.0", &["api.example"]).build());
        operator.load("unused", &third_party("unused", "1.0.0", &[]).build());
        // No built-in plugin, which this start would have to compile.
        let tenant = tenant_with(&operator, "acme", &json!(["before/*", "after/*"]));
        let policy = json!({"enabled": ["before/*", "after/*"]});
        operator.replace("/v1/orgs/acme/policy", &policy).expect(200);
        tenant.is_in("before");
    }
    let daemon = start(SETTINGS);
    let operator = daemon.operator();
    let session = operator.open_session("acme/bot");
    let tenant = Tenant { name: "acme".to_owned(), owner: operator.clone(), session };
    tenant.is_in("before");
    assert_eq!(tenant.view("before")["accepted"]["by"], "upgrade");
    assert_eq!(tenant.view("unused")["consent"], "missing");
    let rows = operator.audit("kind=admin&action=enabled.put");
    assert_eq!(rows.len(), 1, "{rows:?}");
    let act = &rows[0]["admin"];
    assert_eq!((&act["principal"], &act["target"]), (&json!("toolgate"), &json!("before")), "{act}");
    // Only what was there before is carried over.
    operator.load("after", &third_party("after", "1.0.0", &[]).build());
    let daemon = daemon.crash_and_restart();
    let session = daemon.operator().open_session("acme/bot");
    let tenant = Tenant { name: "acme".to_owned(), owner: daemon.operator(), session };
    tenant.is_out("after");
    tenant.is_in("before");
}

#[test]
fn c5_settings_reach_the_plugin_of_their_organization_alone() {
    with_fixture(|fixture| {
        fixture.operator.load("configured", guests::CONFIGURED);
        let (tenant, other) = (fixture.tenant(), fixture.tenant());
        tenant.accept("configured");
        other.accept("configured");
        let read = |tenant: &Tenant| tenant.session.call("configured/settings", json!({})).output().clone();
        let nothing = json!({"region": null, "retries": 0, "pin": null});
        assert_eq!(read(&tenant), nothing);
        let place = tenant.enabled_path("configured");
        tenant.owner.replace(&place, &json!({"config": {"region": "eu", "retries": 3}})).expect(200);
        assert_eq!(read(&tenant), json!({"region": "eu", "retries": 3, "pin": null}));
        assert_eq!(read(&other), nothing);
        assert_eq!(tenant.view("configured")["consent"], "accepted", "settings leave the consent");
        tenant.owner.replace(&place, &json!({"config": {"retries": 4}})).expect(200);
        assert_eq!(read(&tenant), json!({"region": null, "retries": 4, "pin": null}));
        assert!(tenant.view("configured")["config_schema"]["properties"]["region"].is_object());
    });
}

#[test]
fn c6_a_plugin_is_enabled_when_the_policy_has_all_of_its_tools() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let policy = format!("/v1/orgs/{}/policy", tenant.name);
        for (enabled, is_enabled) in [("files/read", false), ("files/*", true)] {
            tenant.owner.replace(&policy, &json!({"enabled": [enabled]})).expect(200);
            assert_eq!(tenant.view("files")["enabled"], is_enabled, "{enabled}");
        }
    });
}

#[test]
fn c5_settings_that_the_plugin_does_not_take_and_secrets_are_refused() {
    with_fixture(|fixture| {
        fixture.operator.load("configured", guests::CONFIGURED);
        fixture.operator.load("plain-one", &third_party("plain-one", "1.0.0", &[]).build());
        let tenant = fixture.tenant();
        tenant.accept("configured");
        let place = tenant.enabled_path("configured");
        tenant.owner.replace(&place, &json!({"config": {"region": "eu"}})).expect(200);
        for (config, pointer, word) in [
            (json!({"retries": 99}), "/config/retries", "settings"),
            (json!({"regoin": "eu"}), "/config", "settings"),
            (json!({"pin": "1234"}), "/config/pin", "secret"),
            (json!({"region": "sk-0123456789abcdef0123"}), "/config/region", "secret"),
            (json!({"region": "e".repeat(70_000)}), "/config", "bytes"),
        ] {
            let refused = tenant.owner.replace(&place, &json!({"config": config}));
            let refused = refused.expect_refusal(422, "INVALID_POLICY").json();
            assert!(
                refused["details"]["pointer"].as_str().expect("a place").starts_with(pointer),
                "{refused}"
            );
            assert!(refused["detail"].as_str().unwrap_or_default().contains(word), "{refused}");
        }
        let kept = tenant.session.call("configured/settings", json!({}));
        assert_eq!(kept.output()["region"], "eu", "a refused change loses nothing");
        let none = json!({"config": {"region": "eu"}});
        tenant.owner.make(&tenant.enabled_path("plain-one"), &none).expect_refusal(422, "INVALID_POLICY");
    });
}
