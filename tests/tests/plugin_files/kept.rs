//! Which files and which compiled code stay in the data folder, and which go.

use super::*;

use std::collections::BTreeSet;
use std::path::PathBuf;

use toolgate::plugins::BUILT_IN;

fn names(folder: PathBuf) -> BTreeSet<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    files.map(|name| name.into_string().expect("a name")).collect()
}

pub(super) fn file_of(digest: &Value) -> String {
    format!("{}.wasm", digest.as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a digest"))
}

/// Redeployments: the same bytes are refused elsewhere, or the plugin is removed, while they are loaded. The forced
/// order is in the unit tests of `plugins`; here is what else meets.
#[test]
fn a_file_that_was_acknowledged_is_there_whatever_was_asked_beside_it() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let component = [("Content-Type", "application/wasm")];
    for round in 0..24 {
        let file = PluginFile::new("redeployed").answering(&round.to_string()).build();
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
        // None where the removal came last.
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

/// Those that make plugins of definitions are not among the loaded ones, and count on their code all the same.
#[test]
fn a_refused_upload_of_what_is_built_in_costs_no_compiled_code() {
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
    assert_eq!(code(), before, "nothing is left of a refused file");
    operator.load("sound", &sound);
    assert!(code().is_superset(&before) && code() != before);
    let daemon = daemon.crash_and_restart();
    assert!(!daemon.log_text().contains("compiled"), "{}", daemon.log_text());
}

/// A kill between writing a file and writing down whose it is.
#[test]
fn what_a_kill_left_of_a_load_is_removed_by_the_next_start() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let version = |answer: &str| PluginFile::new("kept").answering(answer).build();
    let first = file_of(&operator.load("kept", &version("1"))["digest"]);
    let second = file_of(&operator.load("kept", &version("2"))["digest"]);
    daemon.crash();
    let components = daemon.data().join("components");
    let orphan = format!("{}.wasm", "0a".repeat(32));
    let of_others = ["notes.txt", "kept.wasm", ".tmp", ".tmp-of-mine", ".tmp12345.wasm"];
    for name in [orphan.as_str(), ".tmpA1b2C3"].iter().chain(&of_others) {
        fs::write(components.join(name), "left").expect("written");
    }
    // It cannot be served, and the store names it: another start may find it mended.
    fs::write(components.join(&second), "damaged").expect("damaged");
    let daemon = daemon.crash_and_restart();
    let kept = [&first, &second].into_iter().cloned().chain(of_others.map(str::to_owned)).collect();
    assert_eq!(names(components.clone()), kept);
    for gone in [orphan.as_str(), ".tmpA1b2C3"] {
        daemon.wait_for_log("what is removed", |line| {
            line.contains("no plugin refers to") && line.contains(gone)
        });
    }
    let operator = daemon.operator();
    assert_eq!(file_of(&operator.get("/v1/plugins/kept").expect(200).json()["digest"]), first);
    operator.load("kept", &version("3"));
    let session = daemon.session_within("acme/bot", &json!({}));
    assert_eq!(session.call("kept/answer", json!({})).output(), 3);
}
