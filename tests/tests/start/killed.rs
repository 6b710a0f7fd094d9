//! Crash consistency: kill -9 at every sync. Acknowledged changes survive, others leave no partial state, and no
//! clean-up is needed.
//!
//! The daemon is killed as it enters its n-th sync, for each n until it completes the work.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toolgate_tests::daemon::Options;
use toolgate_tests::{Client, Daemon, PluginFile, Session, Value, json, sync_faults};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Changes that the daemon has acknowledged.
#[derive(Default)]
struct Acknowledged {
    documents: Vec<String>,
    session: Option<String>,
    /// Call ids, with the file that each call wrote.
    calls: Vec<(String, String)>,
    /// Call without a response at the time of the kill.
    in_flight: Option<String>,
    is_complete: bool,
}

#[test]
fn acknowledged_changes_survive_a_kill_at_any_sync() {
    sync_faults::kill_at_each(PROGRAM, 20, |data, daemon, at| {
        let mut acknowledged = Acknowledged::default();
        if let Some(daemon) = daemon {
            acknowledged.is_complete = work(&daemon.operator(), &mut acknowledged).is_some();
        }
        assert_survives(data, &acknowledged, at);
        acknowledged.is_complete
    });
}

fn documents() -> [(&'static str, Value); 3] {
    [
        ("/v1/orgs/acme", json!({"display_name": "Acme"})),
        ("/v1/orgs/acme/policy", json!({"enabled": "*", "limits": {"fuel": 900_000_000}})),
        ("/v1/orgs/acme/agents/bot", json!({"enabled": ["files/*"], "autonomy": "autonomous"})),
    ]
}

/// Creates documents and makes calls until a response is missing.
fn work(operator: &Client, acknowledged: &mut Acknowledged) -> Option<()> {
    let json_body = [("Content-Type", "application/json"), ("If-None-Match", "*")];
    let ask = |method: &str, path: &str, body: &Value| {
        let reply = operator.try_send(method, path, &json_body, body.to_string().as_bytes()).ok()?;
        (reply.status != 0).then_some(reply)
    };
    for (path, document) in documents() {
        ask("PUT", path, &document)?.expect(201);
        acknowledged.documents.push(path.to_owned());
    }
    let opened = ask("POST", "/v1/sessions", &json!({"agent": "acme/bot"}))?.expect(201).json();
    let session = opened["session"].as_str().expect("an id").to_owned();
    acknowledged.session = Some(session.clone());
    for number in 0..6 {
        let (id, file) = (format!("c{number}"), format!("f{number}.txt"));
        acknowledged.in_flight = Some(id.clone());
        let call = json!({"id": id, "tool": "files/write", "arguments": {"path": file, "content": id}});
        let answer = ask("POST", &format!("/v1/sessions/{session}/calls"), &json!({"calls": [call]}))?;
        assert_eq!(answer.expect(200).json()["results"][0]["status"], "ok");
        acknowledged.calls.push((id, file));
        acknowledged.in_flight = None;
    }
    Some(())
}

fn assert_survives(data: &Path, acknowledged: &Acknowledged, at: usize) {
    let options = Options { data: Some(PathBuf::from(data)), ..Options::default() };
    let daemon = Daemon::start_with(PROGRAM, options);
    let operator = daemon.operator();
    for document in &acknowledged.documents {
        assert_eq!(operator.get(document).status, 200, "sync {at}: {document}");
    }
    assert_acts_are_recorded(&operator, acknowledged, at);
    if let Some(id) = &acknowledged.session {
        let session = Session { client: operator.clone(), id: id.clone() };
        for (call, file) in &acknowledged.calls {
            assert_eq!(session.audit_row(&operator, call)["status"], "ok", "sync {at}");
            assert_eq!(session.get_file(file).expect(200).body, call.as_bytes(), "sync {at}");
        }
        if let Some(call) = &acknowledged.in_flight {
            let rows = operator.audit(&format!("kind=call&session={id}&call={call}"));
            assert!(rows.len() <= 1, "sync {at}: {rows:?}");
            for row in rows {
                assert!(row["status"] == "unknown" || row["status"] == "ok", "sync {at}: {row}");
            }
        }
    }
    assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], true, "sync {at}");
}

/// A document in the store has one act, whose outcome is unknown if its writing was not acknowledged.
fn assert_acts_are_recorded(operator: &Client, acknowledged: &Acknowledged, at: usize) {
    for ((path, _), action) in documents().iter().zip(["organization.put", "policy.put", "agent.put"]) {
        let rows = operator.audit(&format!("kind=admin&action={action}"));
        let outcomes: Vec<_> = rows.iter().filter_map(|row| row["admin"]["outcome"].as_str()).collect();
        let is_acknowledged = acknowledged.documents.iter().any(|known| known == path);
        match outcomes[..] {
            [] => assert_eq!(operator.get(path).status, 404, "sync {at}: {path} was stored without a record"),
            ["ok"] => {}
            ["UNKNOWN"] => assert!(!is_acknowledged, "sync {at}: {path}"),
            _ => panic!("sync {at}: {path}: {outcomes:?}"),
        }
    }
}

/// The version that serves after each step of [`change_plugin`].
const SERVING: [Option<u64>; 6] = [None, Some(1), Some(2), Some(2), Some(3), Some(2)];

/// Loads, a canary, its promotion and a roll back: after a kill at any sync one consistent version serves, and no file is left
/// that none names.
#[test]
fn a_kill_at_any_sync_of_a_load_leaves_one_consistent_version() {
    sync_faults::kill_at_each(PROGRAM, 20, |data, daemon, at| {
        let mut done = 0;
        if let Some(daemon) = daemon {
            while done + 1 < SERVING.len() && change_plugin(&daemon.operator(), done).is_some() {
                done += 1;
            }
        }
        assert_one_version(data, done, at);
        done + 1 == SERVING.len()
    });
}

fn version(number: u64) -> Vec<u8> {
    let file = PluginFile::new("kept").with_member("version", json!(format!("{number}.0.0")));
    file.with_result(&number.to_string()).build()
}

/// Makes the next change of the plugin. `None` if the daemon does not answer.
fn change_plugin(operator: &Client, done: usize) -> Option<()> {
    let load = |query: &str, number| {
        let path = format!("/v1/plugins/kept{query}");
        operator.try_send("PUT", &path, &[("Content-Type", "application/wasm")], &version(number))
    };
    let post = |act: &str, body: Value| {
        let headers = [("Content-Type", "application/json")];
        operator.try_send("POST", &format!("/v1/plugins/kept/{act}"), &headers, body.to_string().as_bytes())
    };
    let reply = match done {
        0 => load("", 1),
        1 => load("", 2),
        2 => load("?canary=50", 3),
        3 => {
            let shown = operator.try_send("GET", "/v1/plugins/kept", &[], b"").ok()?.expect(200).json();
            post("approve", json!({"digest": shown["versions"][0]["digest"]}))
        }
        _ => post("rollback", json!({})),
    };
    reply.ok()?.expect(200);
    Some(())
}

/// Starts the daemon again: the plugin is as it was before the change that was killed, or as it is after it.
fn assert_one_version(data: &Path, done: usize, at: usize) {
    let options = Options { data: Some(PathBuf::from(data)), ..Options::default() };
    let daemon = Daemon::start_with(PROGRAM, options);
    let operator = daemon.operator();
    let shown = operator.get("/v1/plugins/kept");
    let may_serve = [Some(SERVING[done]), SERVING.get(done + 1).copied()];
    let serves = match shown.status {
        404 => None,
        _ => {
            let text = shown.clone().expect(200).json()["version"].as_str().expect("a version").to_owned();
            text.split('.').next().and_then(|number| number.parse().ok())
        }
    };
    assert!(may_serve.contains(&Some(serves)), "sync {at}: {serves:?} after {done} changes");
    let versions = shown.json()["versions"].as_array().cloned().unwrap_or_default();
    let named: BTreeSet<String> = versions
        .iter()
        .map(|version| {
            format!("{}.wasm", version["digest"].as_str().expect("a digest").replace("sha256:", ""))
        })
        .collect();
    let files = std::fs::read_dir(data.join("components")).expect("a folder");
    let kept: BTreeSet<String> =
        files.map(|file| file.expect("a file").file_name().into_string().expect("a name")).collect();
    assert_eq!(kept, named, "sync {at}: {versions:?}");
    if serves.is_some() {
        operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
        let reply = operator.open_session("acme/bot").call("kept/answer", json!({}));
        let number = reply.output().as_u64().expect("a number");
        assert_eq!(reply.0["plugin"]["version"], format!("{number}.0.0"), "sync {at}");
        let is_canary = |version: &Value| version["state"] == "canary";
        assert!(Some(number) == serves || versions.iter().any(is_canary), "sync {at}: {number}");
    }
    assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], true, "sync {at}");
}
