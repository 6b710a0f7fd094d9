//! Versions that differ from the serving one wait for consent, and consent is bound to what was seen.

use super::*;

/// A daemon with the plugin `crm`, whose one tool asks for a name.
struct Crm {
    daemon: Daemon,
    operator: Client,
    session: Session,
}

fn crm() -> PluginFile {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    PluginFile::new("crm").with_tool("input_schema", schema).with_tool("hints", json!({"idempotent": true}))
}

/// The next version, which returns 2.
fn next() -> PluginFile {
    crm().with_member("version", json!("2.0.0")).with_result("2")
}

impl Crm {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, "");
        let operator = daemon.operator();
        operator.load("crm", &crm().build());
        let session = daemon.session_within("acme/bot", &json!({}));
        Self { daemon, operator, session }
    }

    #[track_caller]
    fn assert_serves(&self, result: usize) {
        assert_eq!(self.session.call("crm/answer", json!({})).output(), result);
    }

    /// Loads a file that must wait, and returns the answer.
    #[track_caller]
    fn load_waiting(&self, file: &PluginFile) -> Value {
        let loaded = self.operator.upload("crm", &file.build()).expect(200).json();
        assert_eq!(loaded["state"], "quarantined", "{loaded}");
        loaded
    }

    /// State, version and digest of each kept version, newest first.
    fn states(&self) -> Vec<(Value, Value)> {
        let shown = show(&self.operator, "crm");
        let versions = shown["versions"].as_array().expect("versions").clone();
        versions.into_iter().map(|one| (one["version"].clone(), one["state"].clone())).collect()
    }

    fn restart(self) -> Self {
        let Self { daemon, session, .. } = self;
        let daemon = daemon.crash_and_restart();
        let operator = daemon.operator();
        let session = Session { client: operator.clone(), id: session.id };
        Self { daemon, operator, session }
    }
}

#[test]
fn o2_each_difference_waits_with_a_diff_while_the_old_version_serves() {
    let crm = Crm::start();
    let tool = |name: &str| json!({"name": name, "description": "Answers.", "usage": "Call it.", "input_schema": {"type": "object"}});
    let cases = [
        (next().with_member("purpose", json!("Sells.")), "purpose", json!("Answers."), json!("Sells.")),
        (next().with_tool("description", json!("Obeys.")), "description", json!("Answers."), json!("Obeys.")),
        (next().with_tool("usage", json!("Call often.")), "usage", json!("Call it."), json!("Call often.")),
        (
            next().with_tool(
                "input_schema",
                json!({"type": "object", "properties": {"name": {"type": "number"}}}),
            ),
            "input schema /properties/name/type",
            json!("string"),
            json!("number"),
        ),
        (
            next().with_tool("output_schema", json!({"type": "integer"})),
            "output schema",
            json!(null),
            json!(r#"{"type":"integer"}"#),
        ),
        (next().with_tool("mode", json!("client")), "mode", json!("server"), json!("client")),
        (
            next().with_tool("hints", json!({"idempotent": true, "read_only": true})),
            "hints /read_only",
            json!("false"),
            json!("true"),
        ),
        (
            next().with_member("capabilities", json!({"filesystem": "workspace"})),
            "capabilities /filesystem",
            json!("none"),
            json!("workspace"),
        ),
        (
            next().with_member("limits", json!({"fuel": 1_000_000})),
            "limits /fuel",
            json!(null),
            json!("1000000"),
        ),
        (next().with_member("tools", json!([tool("obey")])), "tool", json!("Answers."), json!(null)),
    ];
    for (file, field, before, after) in cases {
        let loaded = crm.load_waiting(&file);
        let diff = loaded["diff"].as_array().expect("a diff");
        let told = diff.iter().find(|one| one["field"] == field);
        let told = told.unwrap_or_else(|| panic!("no `{field}`: {loaded}"));
        assert_eq!((&told["before"], &told["after"]), (&before, &after), "{loaded}");
        assert!(loaded["reason"].as_str().is_some_and(|reason| reason.contains("consent")), "{loaded}");
        let shown = show(&crm.operator, "crm");
        assert_eq!((&shown["state"], &shown["version"]), (&json!("active"), &json!("1.0.0")), "{shown}");
        assert_eq!(shown["versions"][0]["diff"], loaded["diff"], "{shown}");
        crm.assert_serves(1);
    }
    assert_eq!(crm.states().len(), 2, "a newer load replaces what waits");
    let listed = crm.operator.get("/v1/plugins").expect(200).json();
    let listed =
        listed["items"].as_array().expect("plugins").iter().find(|plugin| plugin["namespace"] == "crm");
    let waits = &listed.expect("the plugin")["versions"][0];
    assert_eq!((&waits["state"], waits.get("diff")), (&json!("quarantined"), None), "{waits}");
    // The file of the version that waits is the only one beside that of the serving version.
    assert_eq!(fs::read_dir(crm.daemon.data().join("components")).expect("a folder").count(), 2);
}

#[test]
fn o2_a_version_without_a_difference_serves_at_once() {
    let crm = Crm::start();
    crm.load_waiting(&next().with_member("purpose", json!("Sells.")));
    let loaded = crm.operator.upload("crm", &next().build()).expect(200).json();
    assert_eq!((&loaded["state"], &loaded["diff"]), (&json!("active"), &json!(null)), "{loaded}");
    crm.assert_serves(2);
    let states = [("2.0.0", "active"), ("1.0.0", "disabled")];
    assert_eq!(crm.states(), states.map(|(version, state)| (json!(version), json!(state))));
    // The file that serves changes nothing while another version waits.
    let waiting = crm.load_waiting(&crm_3());
    let again = crm.operator.upload("crm", &next().build()).expect(200).json();
    assert_eq!((&again["state"], &again["version"]), (&json!("active"), &json!("2.0.0")), "{again}");
    assert_eq!(show(&crm.operator, "crm")["versions"][0]["digest"], waiting["digest"]);
}

/// A version with another text, which returns 3.
fn crm_3() -> PluginFile {
    crm().with_member("version", json!("3.0.0")).with_tool("description", json!("Obeys.")).with_result("3")
}

#[test]
fn o2_consent_is_for_the_digest_that_was_seen() {
    let crm = Crm::start();
    let nothing = crm.operator.approve("crm", &json!(format!("sha256:{}", "0".repeat(64))));
    assert_tells(&nothing.expect_refusal(409, "CONFLICT"), "no version of plugin `crm` waits");
    let seen = crm.load_waiting(&next().with_member("purpose", json!("Sells.")))["digest"].clone();
    let unseen = crm.load_waiting(&crm_3())["digest"].clone();
    let refused = crm.operator.approve("crm", &seen).expect_refusal(409, "CONFLICT");
    assert_tells(&refused, unseen.as_str().expect("a digest"));
    crm.assert_serves(1);
    let approved = crm.operator.approve("crm", &unseen).expect(200).json();
    assert_eq!((&approved["state"], &approved["digest"]), (&json!("active"), &unseen), "{approved}");
    assert_eq!(
        (&approved["grant"], &approved["tools"][0]["hints_state"]),
        (&json!("none"), &json!("confirmed"))
    );
    crm.assert_serves(3);
    crm.operator.approve("crm", &unseen).expect_refusal(409, "CONFLICT");
    let acts = crm.operator.audit("kind=admin&action=plugin.approve");
    let outcomes: Vec<_> = acts.iter().map(|act| act["admin"]["outcome"].clone()).collect();
    assert_eq!(outcomes, ["CONFLICT", "ok", "CONFLICT", "CONFLICT"].map(|outcome| json!(outcome)));
    assert_eq!(acts[1]["admin"]["details"]["digest"], unseen, "{}", acts[1]);
    // Both versions were consented to, so a way back and forth needs no other consent.
    crm.operator.post("/v1/plugins/crm/rollback", &json!({})).expect(200);
    crm.assert_serves(1);
    let again = crm.operator.upload("crm", &crm_3().build()).expect(200).json();
    assert_eq!(again["state"], "active", "{again}");
    crm.assert_serves(3);
}

#[test]
fn o2_a_version_waits_and_is_approved_after_a_restart() {
    let crm = Crm::start();
    let waiting = crm.load_waiting(&crm_3());
    let crm = crm.restart();
    crm.assert_serves(1);
    let shown = show(&crm.operator, "crm");
    assert_eq!(shown["versions"][0]["state"], "quarantined", "{shown}");
    assert_eq!(shown["versions"][0]["diff"], waiting["diff"], "{shown}");
    // Other changes keep it.
    for action in ["disable", "enable"] {
        crm.operator.post(&format!("/v1/plugins/crm/{action}"), &json!({})).expect(200);
    }
    crm.operator.approve("crm", &waiting["digest"]).expect(200);
    crm.assert_serves(3);
    let crm = crm.restart();
    crm.assert_serves(3);
    assert_eq!(show(&crm.operator, "crm")["tools"][0]["hints_state"], "confirmed");
    crm.operator.delete("/v1/plugins/crm").expect(204);
    assert_eq!(fs::read_dir(crm.daemon.data().join("components")).expect("a folder").count(), 0);
}

#[test]
fn o2_a_grant_is_void_for_a_version_that_asks_for_more() {
    let crm = Crm::start();
    let grant = "/v1/plugins/crm/grant";
    crm.operator.make(grant, &json!({"credentials": ["stripe"]})).expect(201);
    // Another text alone: the grant stays.
    let text = crm.load_waiting(&crm_3())["digest"].clone();
    assert_eq!(crm.operator.approve("crm", &text).expect(200).json()["grant"], "kept");
    assert!(crm.operator.get(grant).expect(200).header("etag").is_some());
    let asking = |fuel: u64| crm_3().with_member("limits", json!({"fuel": fuel}));
    // The operator may keep it.
    let digest = crm.load_waiting(&asking(900_000_000))["digest"].clone();
    let kept = json!({"digest": digest, "keep_grant": true});
    assert_eq!(crm.operator.post("/v1/plugins/crm/approve", &kept).expect(200).json()["grant"], "kept");
    let digest = crm.load_waiting(&asking(800_000_000))["digest"].clone();
    assert_eq!(crm.operator.approve("crm", &digest).expect(200).json()["grant"], "removed");
    let default = crm.operator.get(grant).expect(200);
    assert!(
        default.header("etag").is_none() && default.json()["credentials"] == json!([]),
        "{}",
        default.text()
    );
    let crm = crm.restart();
    assert!(crm.operator.get(grant).expect(200).header("etag").is_none());
    crm.operator.make(grant, &json!({"credentials": ["stripe"]})).expect(201);
}

#[test]
fn o2_an_approval_of_a_call_holds_until_another_version_serves() {
    let crm = Crm::start();
    let agent = json!({"enabled": ["crm/*"], "autonomy": "supervised"});
    crm.operator.make_agent("acme/careful", &agent);
    let session = crm.operator.open_session("acme/careful");
    let owner = crm.operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let approve = |approval: &str| {
        let decision = json!({"decision": "approve", "uses": 2});
        owner.post(&format!("/v1/approvals/{approval}"), &decision).expect(200);
    };
    let call = |id: &str| session.call_as(id, "crm/answer", json!({}));
    approve(&call("c1").approval());
    let digest = crm.load_waiting(&crm_3())["digest"].clone();
    assert_eq!(call("c1").output(), 1);
    crm.operator.approve("crm", &digest).expect(200);
    let other = session.call_as("c2", "crm/answer", json!({}));
    assert_ne!(other.status(), "ok", "the approval was for another version: {}", other.0);
    let asked = session.call_as("c3", "crm/answer", json!({}));
    approve(&asked.approval());
    assert_eq!(call("c3").output(), 3);
}

#[test]
fn r9_11_hints_that_are_confirmed_with_the_load_decide_what_the_gate_asks() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/careful", &json!({"enabled": ["reads/*"], "autonomy": "supervised"}));
    let reads = |version: &str| {
        let file = PluginFile::new("reads").with_tool("hints", json!({"read_only": true}));
        file.with_member("version", json!(version)).with_result(&version[..1]).build()
    };
    let confirm = |file: &[u8]| {
        let wasm = [("Content-Type", "application/wasm")];
        operator.send("PUT", "/v1/plugins/reads?confirm=hints", &wasm, file).expect(200).json()
    };
    operator.upload("reads", &reads("1.0.0")).expect(200);
    let session = operator.open_session("acme/careful");
    let call =
        |session: &Session, id: &str| session.call_as(id, "reads/answer", json!({})).status().to_owned();
    assert_eq!(call(&session, "c1"), "approval_required");
    // The same file changes nothing but what its hints are worth.
    assert_eq!(confirm(&reads("1.0.0"))["tools"][0]["hints_state"], "confirmed");
    assert_eq!(call(&session, "c2"), "ok");
    let daemon = daemon.crash_and_restart();
    let operator = daemon.operator();
    let session = Session { client: operator.clone(), id: session.id };
    assert_eq!(call(&session, "c3"), "ok");
    // Another file is not confirmed, though it looks the same.
    operator.upload("reads", &reads("2.0.0")).expect(200);
    assert_eq!(call(&session, "c4"), "approval_required");
    operator.post("/v1/plugins/reads/rollback", &json!({})).expect(200);
    assert_eq!(call(&session, "c5"), "ok");
    let wasm = [("Content-Type", "application/wasm")];
    operator
        .send("PUT", "/v1/plugins/reads?confirm=all", &wasm, &reads("2.0.0"))
        .expect_refusal(400, "INVALID_REQUEST");
}
