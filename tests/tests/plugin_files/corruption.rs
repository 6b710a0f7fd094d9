//! Damaged plugin files: truncated, with flipped bits, or replaced during the upload or on disk.

use super::*;

#[test]
fn a_damaged_file_is_refused() {
    with_fixture(|fixture| {
        let whole = guests::FS_ATTACKER;
        for part in [9, 100, whole.len() / 2, whole.len() - 1] {
            fixture.assert_refused("fs-attacker", &whole[..part], "");
        }
        let mut longer = whole.to_vec();
        longer.extend_from_slice(&[0xff; 100]);
        fixture.assert_refused("fs-attacker", &longer, "");
    });
}

/// The result of an asynchronous load is shown beside the serving version, or alone without one.
#[test]
fn a_failed_asynchronous_load_is_shown_until_it_is_removed() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let sound = PluginFile::new("unasked").build();
        let headers = [("Content-Type", "application/wasm"), ("Prefer", "respond-async")];
        let failed = || {
            let damaged = operator.send("PUT", "/v1/plugins/unasked", &headers, &sound[..sound.len() / 2]);
            let digest = damaged.expect(202).json()["digest"].clone();
            wait::until("the load to fail", || {
                let shown = operator.get("/v1/plugins/unasked").expect(200).json();
                let versions = shown["versions"].as_array().expect("versions").iter();
                let failed = |view: &&Value| view["digest"] == digest && view["state"] == "failed";
                let found = versions.chain([&shown]).find(failed).cloned();
                found.map(|failed| (shown, failed))
            })
        };
        let is_listed = || {
            let all = operator.get("/v1/plugins").expect(200).json();
            all["items"].as_array().expect("items").iter().any(|plugin| plugin["namespace"] == "unasked")
        };
        let (_, alone) = failed();
        assert!(alone["reason"].is_string() && is_listed(), "{alone}");
        operator.delete("/v1/plugins/unasked").expect(204);
        operator.get("/v1/plugins/unasked").expect_refusal(404, "NOT_FOUND");
        assert!(!is_listed());
        operator.load("unasked", &sound);
        let (shown, beside) = failed();
        assert_eq!((&shown["state"], beside["reason"].is_string()), (&json!("active"), true), "{shown}");
        assert!(beside["loaded_ms"].is_null(), "{beside}");
        operator.load("unasked", &sound);
        let shown = operator.get("/v1/plugins/unasked").expect(200).json();
        assert_eq!(shown["versions"].as_array().map(Vec::len), Some(1), "{shown}");
        operator.delete("/v1/plugins/unasked").expect(204);
    });
}

/// The last request wins: a plugin does not become active after its removal.
#[test]
fn an_asynchronous_load_is_cancelled_by_a_removal() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let (path, files) = ("/v1/plugins/bomb", fixture.files());
        let headers = [("Content-Type", "application/wasm"), ("Prefer", "respond-async")];
        let put = |file: &[u8]| operator.send("PUT", path, &headers, file).expect(202);
        let sound = PluginFile::new("bomb").build();
        for loaded_before in [false, true] {
            if loaded_before {
                operator.load("bomb", &sound);
            }
            put(&bombs::compile_bomb());
            let shown = operator.get(path).expect(200).json();
            let state = if loaded_before { &shown["versions"][0]["state"] } else { &shown["state"] };
            assert_eq!(state, "compiling", "{shown}");
            operator.delete(path).expect(204);
            operator.get(path).expect_refusal(404, "NOT_FOUND");
            wait::until("the load to end, and to be recorded", || {
                let rows = operator.audit("kind=admin&limit=2");
                rows.iter().any(|row| row["admin"]["outcome"] == "CANCELLED").then_some(())
            });
            wait::until_true("the worker to exit", || process::children(fixture.daemon.pid()) == 0);
            operator.get(path).expect_refusal(404, "NOT_FOUND");
            operator.delete(path).expect_refusal(404, "NOT_FOUND");
            assert_eq!(fixture.files(), files);
        }
        put(&sound);
        wait::until_true("the plugin to serve", || {
            operator.get(path).expect(200).json()["state"] == "active"
        });
        operator.delete(path).expect(204);
    });
}

/// The file with a flipped bit may be valid or not. Either way the daemon reports no internal error and keeps
/// serving.
#[test]
fn a_file_with_a_flipped_bit_is_refused_or_another_plugin() {
    with_fixture(|fixture| {
        let sound = PluginFile::new("flipped").build();
        let operator = fixture.daemon.operator();
        let leak_check = LeakCheck::start(&fixture.daemon);
        for (turn, at) in (0..sound.len()).step_by(sound.len() / 40).enumerate() {
            let mut file = sound.clone();
            file[at] ^= 1 << (turn % 8);
            let reply = operator.upload("flipped", &file);
            if reply.status == 200 {
                let called = fixture.good.call("flipped/answer", json!({}));
                let code = called.error_type().unwrap_or("none");
                assert!(!["INTERNAL", "UNAVAILABLE"].contains(&code), "byte {at}: {}", called.0);
                operator.delete("/v1/plugins/flipped").expect(204);
            } else {
                reply.expect_refusal(422, "INVALID_PLUGIN");
            }
        }
        fixture.assert_serves();
        operator.load("flipped", &sound);
        operator.delete("/v1/plugins/flipped").expect(204);
        leak_check.assert_none(&mut fixture.daemon);
    });
}

#[test]
fn a_truncated_file_is_refused() {
    with_fixture(|fixture| {
        let sound = PluginFile::new("cut").build();
        let operator = fixture.daemon.operator();
        let (leak_check, files) = (LeakCheck::start(&fixture.daemon), fixture.files());
        for end in (0..sound.len()).step_by(sound.len() / 40) {
            operator.upload("cut", &sound[..end]).expect_refusal(422, "INVALID_PLUGIN");
        }
        operator.get("/v1/plugins/cut").expect_refusal(404, "NOT_FOUND");
        assert_eq!(fixture.files(), files);
        operator.load("cut", &sound);
        assert_eq!(fixture.good.call("cut/answer", json!({})).output(), 1);
        operator.delete("/v1/plugins/cut").expect(204);
        leak_check.assert_none(&mut fixture.daemon);
    });
}

/// Compiled code without a valid HMAC is compiled again.
#[test]
fn a_forged_cache_is_not_run() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("answers", &PluginFile::new("answers").build());
    operator.load("another", &PluginFile::new("another").with_result("2").build());
    daemon.session_within("acme/bot", &json!({}));
    daemon.crash();
    let cache = daemon.data().join("cache");
    let mut files: Vec<_> = files_below(&cache);
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    let contents: Vec<_> = files.iter().map(|file| fs::read(file).expect("a cached file")).collect();
    for (at, file) in files.iter().enumerate() {
        let mut forged = contents[at].clone();
        match at % 3 {
            0 => forged = contents[(at + 1) % contents.len()].clone(),
            1 => forged[contents[at].len() / 2] ^= 1,
            _ => forged.truncate(contents[at].len() - 1),
        }
        fs::write(file, forged).expect("forged");
    }
    let daemon = daemon.crash_and_restart();
    // The built-in plugins are compiled again, too, which takes longer than a client waits for one answer.
    let operator = daemon.operator();
    let compiling = || operator.get("/readyz").expect(200).json()["compiling"].as_array().map_or(0, Vec::len);
    while let left @ 1.. = compiling() {
        wait::until_true("the next plugin", || compiling() < left);
    }
    let session = operator.open_session("acme/bot");
    assert_eq!(session.call("answers/answer", json!({})).output(), 1);
    assert_eq!(session.call("another/answer", json!({})).output(), 2);
    assert_eq!(session.call("arithmetic/evaluate", json!({"expression": "1+1"})).output()["decimal"], "2");
    let recompiled: Vec<_> = files.iter().map(|file| fs::read(file).expect("a cached file")).collect();
    assert_eq!(recompiled.len(), contents.len());
}

/// A component file is served only if it has the digest that was loaded.
#[test]
fn a_replaced_or_damaged_component_file_is_not_served() {
    let mut daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let answering = |namespace: &str, answer: &str| PluginFile::new(namespace).with_result(answer).build();
    let (one, two, three) = (answering("one", "1"), answering("two", "2"), answering("three", "3"));
    for (namespace, file) in [("one", &one), ("two", &two), ("three", &three)] {
        operator.load(namespace, file);
    }
    daemon.session_within("acme/bot", &json!({}));
    daemon.crash();
    let components = daemon.data().join("components");
    for path in files_below(&components) {
        let file = fs::read(&path).expect("a component");
        if file == one {
            fs::write(&path, &two).expect("exchanged");
        } else if file == two {
            let mut damaged = two.clone();
            let last = damaged.len() - 1;
            damaged[last] ^= 1;
            fs::write(&path, damaged).expect("damaged");
        }
    }
    let daemon = daemon.crash_and_restart();
    let session = daemon.operator().open_session("acme/bot");
    for gone in ["one/answer", "two/answer"] {
        session.call(gone, json!({})).expect_error("TOOL_NOT_FOUND");
    }
    assert_eq!(session.call("three/answer", json!({})).output(), 3);
    daemon.wait_for_log("the reason", |line| line.contains("cannot be served any more"));
    daemon.operator().load("one", &one);
    assert_eq!(session.call("one/answer", json!({})).output(), 1);
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

/// Storing, activating and recording a plugin are atomic for a client that disconnects.
#[test]
fn o3_a_received_file_is_loaded_and_recorded_after_a_disconnect() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let file = PluginFile::new("parted").build();
        let headers = [("Content-Type", "application/wasm")];
        let is_recorded = || {
            let loaded = |row: &Value| row["admin"]["target"] == "parted" && row["admin"]["outcome"] == "ok";
            operator.audit("kind=admin&action=plugin.load").iter().any(loaded).then_some(())
        };
        // A file that has not arrived completely is dropped, so the upload is repeated until one is recorded.
        wait::until("the record", || {
            operator.start("PUT", "/v1/plugins/parted", &headers, &file).hang_up();
            (0..200).find_map(|_| is_recorded())
        });
        assert_eq!(fixture.good.call("parted/answer", json!({})).output(), 1);
        operator.delete("/v1/plugins/parted").expect(204);
    });
}
