//! Files and compiled code that the data folder keeps, and those that it removes.

use super::*;

use std::collections::BTreeSet;
use std::path::PathBuf;

use toolgate_built_in::BUILT_IN;

fn names(folder: PathBuf) -> BTreeSet<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    files.map(|name| name.into_string().expect("a name")).collect()
}

pub(super) fn file_of(digest: &Value) -> String {
    format!("{}.wasm", digest.as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a digest"))
}

/// Concurrent uploads of the same bytes under other names, and removals. Unit tests of `plugins` force each order;
/// this test covers the combination.
#[test]
fn an_acknowledged_file_survives_concurrent_requests() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let component = [("Content-Type", "application/wasm")];
    for round in 0..24 {
        let file = PluginFile::new("redeployed").with_result(&round.to_string()).build();
        let put = |path: &str| operator.start("PUT", &format!("/v1/plugins/{path}"), &component, &file);
        let loading = put("redeployed");
        let beside = match round % 3 {
            0 => vec![put("other"), put("another"), put("other")],
            1 => vec![put("redeployed?version=2.0.0"), put("other"), put("redeployed?version=3.0.0")],
            _ => vec![operator.start("DELETE", "/v1/plugins/redeployed", &[], b"")],
        };
        loading.reply().expect(200);
        for other in beside {
            assert_ne!(other.reply().status, 200);
        }
        // No version remains if the removal came last.
        let shown = operator.get("/v1/plugins/redeployed").json();
        let versions = shown["versions"].as_array().into_iter().flatten();
        let named: BTreeSet<_> = versions.map(|version| file_of(&version["digest"])).collect();
        assert_eq!(names(daemon.data().join("components")), named, "round {round}");
    }
    let last = operator.load("redeployed", &PluginFile::new("redeployed").build())["digest"].clone();
    let daemon = daemon.crash_and_restart();
    assert!(!daemon.log_text().contains("cannot be served any more"));
    assert_eq!(daemon.operator().get("/v1/plugins/redeployed").expect(200).json()["digest"], last);
}

/// Plugins that read definitions are not loaded at start, but need their compiled code too.
#[test]
fn a_refused_upload_of_a_built_in_plugin_removes_no_compiled_code() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let code = || {
        let engines = fs::read_dir(daemon.data().join("cache")).expect("a folder");
        engines.flat_map(|engine| names(engine.expect("a folder").path())).collect::<BTreeSet<_>>()
    };
    let before = code();
    for built_in in BUILT_IN {
        operator.upload(built_in.name, built_in.component).expect_refusal(409, "CONFLICT");
        operator.upload("other", built_in.component).expect_refusal(422, "INVALID_PLUGIN");
        assert_eq!(code(), before, "{}", built_in.name);
    }
    let sound = PluginFile::new("sound").build();
    operator.upload("other", &sound).expect_refusal(422, "INVALID_PLUGIN");
    assert_eq!(code(), before, "compiled code of a refused file remains");
    operator.load("sound", &sound);
    assert!(code().is_superset(&before) && code() != before);
    let daemon = daemon.crash_and_restart();
    assert!(!daemon.log_text().contains("compiled"), "{}", daemon.log_text());
}

/// A kill between writing a file and storing its owner.
#[test]
fn partial_loads_are_removed_by_the_next_start() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let version = |answer: &str| PluginFile::new("kept").with_result(answer).build();
    let first = file_of(&operator.load("kept", &version("1"))["digest"]);
    let second = file_of(&operator.load("kept", &version("2"))["digest"]);
    daemon.crash();
    let components = daemon.data().join("components");
    let orphan = format!("{}.wasm", "0a".repeat(32));
    let unrelated = ["notes.txt", "kept.wasm", ".tmp", ".tmp-of-mine", ".tmp12345.wasm"];
    for name in [orphan.as_str(), ".tmpA1b2C3"].iter().chain(&unrelated) {
        fs::write(components.join(name), "left").expect("written");
    }
    // The store still names the damaged file, so it is kept for a later start.
    fs::write(components.join(&second), "damaged").expect("damaged");
    let daemon = daemon.crash_and_restart();
    let kept = [&first, &second].into_iter().cloned().chain(unrelated.map(str::to_owned)).collect();
    assert_eq!(names(components.clone()), kept);
    for gone in [orphan.as_str(), ".tmpA1b2C3"] {
        daemon.wait_for_log("the removed files", |line| {
            line.contains("no plugin refers to") && line.contains(gone)
        });
    }
    let operator = daemon.operator();
    assert_eq!(file_of(&operator.get("/v1/plugins/kept").expect(200).json()["digest"]), first);
    operator.load("kept", &version("3"));
    let session = daemon.session_within("acme/bot", &json!({}));
    assert_eq!(session.call("kept/answer", json!({})).output(), 3);
}
