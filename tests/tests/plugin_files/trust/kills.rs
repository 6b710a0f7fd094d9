//! kill -9 at every sync of a load, of a load that waits, and of its approval: one consistent version serves afterwards.

use toolgate_tests::{Options, sync_faults};

use super::*;

/// Acknowledged steps: loaded, loaded and waiting, approved.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Step {
    Nothing,
    Loaded,
    Waiting,
    Approved,
}

#[test]
fn o2_a_kill_at_any_sync_of_an_install_leaves_one_version() {
    sync_faults::kill_at_each(PROGRAM, 10, |data, daemon, at| {
        let done = daemon.map_or(Step::Nothing, |daemon| work(&daemon.operator()));
        let options = Options { data: Some(data.to_owned()), ..Options::default() };
        assert_consistent(&Daemon::start_with(PROGRAM, options), done, at);
        done == Step::Approved
    });
}

fn version(number: usize) -> Vec<u8> {
    let file = PluginFile::new("crm").with_member("version", json!(format!("{number}.0.0")));
    file.with_tool("description", json!(format!("Version {number}.")))
        .with_result(&number.to_string())
        .build()
}

/// Loads a version, loads one that waits, and approves it, until a response is missing.
fn work(operator: &Client) -> Step {
    let wasm = [("Content-Type", "application/wasm")];
    let load = |number| {
        let reply = operator.try_send("PUT", "/v1/plugins/crm", &wasm, &version(number)).ok()?;
        (reply.status != 0).then(|| reply.expect(200).json())
    };
    if load(1).is_none() {
        return Step::Nothing;
    }
    let Some(waiting) = load(2) else { return Step::Loaded };
    let json_body = [("Content-Type", "application/json")];
    let approval = json!({"digest": waiting["digest"]}).to_string();
    let reply = operator.try_send("POST", "/v1/plugins/crm/approve", &json_body, approval.as_bytes());
    match reply.ok().filter(|reply| reply.status != 0) {
        None => Step::Waiting,
        Some(reply) => {
            reply.expect(200);
            Step::Approved
        }
    }
}

fn assert_consistent(daemon: &Daemon, done: Step, at: usize) {
    let operator = daemon.operator();
    let shown = operator.get("/v1/plugins/crm");
    if shown.status == 404 {
        assert!(done == Step::Nothing, "sync {at}: a loaded plugin is gone");
        assert_eq!(files(daemon), 0, "sync {at}");
        return;
    }
    let shown = shown.expect(200).json();
    let versions = shown["versions"].as_array().expect("versions");
    let state = |number: usize| {
        let version = format!("{number}.0.0");
        versions
            .iter()
            .find(|one| one["version"] == version)
            .map(|one| one["state"].as_str().unwrap_or_default())
    };
    let serving = match (state(1), state(2)) {
        (Some("active"), None) => 1,
        (Some("active"), Some("quarantined")) => 1,
        (Some("disabled"), Some("active")) => 2,
        other => panic!("sync {at}: {other:?}: {shown}"),
    };
    assert!(done < Step::Waiting || versions.len() == 2, "sync {at}: {shown}");
    assert!(done < Step::Approved || serving == 2, "sync {at}: {shown}");
    assert_eq!(shown["version"], format!("{serving}.0.0"), "sync {at}: {shown}");
    assert_eq!(files(daemon), versions.len(), "sync {at}: {shown}");
    let session = daemon.session_within("acme/bot", &json!({}));
    assert_eq!(session.call("crm/answer", json!({})).output(), serving, "sync {at}");
}

fn files(daemon: &Daemon) -> usize {
    fs::read_dir(daemon.data().join("components")).expect("a folder").count()
}
