//! The watched folder: atomic renames, half-written and broken files, removal, restarts (O1).

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use toolgate_core::digest::digest_of;
use toolgate_core::signing::{SigningKey, Statement};
use toolgate_tests::daemon::Options;

use super::*;

/// A daemon that watches a folder.
struct Watched {
    daemon: Daemon,
    folder: PathBuf,
    _parent: tempfile::TempDir,
}

impl Watched {
    fn start() -> Self {
        Self::start_on(|_| {})
    }

    /// Starts on a folder that is prepared.
    fn start_on(prepare: impl FnOnce(&std::path::Path)) -> Self {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("plugins");
        fs::create_dir(&folder).expect("a folder");
        prepare(&folder);
        let settings = format!("[plugins]\nfolder = \"{}\"\n", folder.display());
        let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
        daemon.operator().make_agent("acme/bot", &json!({"enabled": ["*"]}));
        Self { daemon, folder, _parent: parent }
    }

    /// Puts a file into the folder as a careful program does: under another name, and renamed when it is whole.
    fn put(&self, name: &str, content: &[u8]) {
        let temporary = self.folder.join(format!(".{name}.new"));
        fs::write(&temporary, content).expect("written");
        fs::rename(temporary, self.folder.join(name)).expect("renamed");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.folder.join(name)).expect("removed");
    }

    fn show(&self, namespace: &str) -> Option<Value> {
        let shown = self.daemon.operator().get(&format!("/v1/plugins/{namespace}"));
        (shown.status == 200).then(|| shown.json())
    }

    fn wait_for_version(&self, namespace: &str, version: &str) -> Value {
        wait::until(&format!("version {version} of {namespace}"), || {
            self.show(namespace).filter(|shown| shown["version"] == version && shown["state"] == "active")
        })
    }

    fn wait_until_gone(&self, namespace: &str) {
        wait::until_true(&format!("{namespace} to be removed"), || self.show(namespace).is_none());
    }

    /// Waits for a failed load, and returns its reason. The version before it may serve.
    fn wait_for_failure(&self, namespace: &str) -> String {
        wait::until(&format!("a failure of {namespace}"), || {
            let shown = self.show(namespace)?;
            let failed = [&shown, &shown["versions"][0]].into_iter().find(|one| one["state"] == "failed")?;
            Some(failed["reason"].as_str()?.to_owned())
        })
    }

    /// Waits until the folder was looked at again, twice.
    fn wait_for_looks(&self, marker: &str) {
        self.put(&format!("{marker}.wasm"), &file(marker, 1));
        self.wait_for_version(marker, "1.0.0");
    }

    fn failures_in_log(&self, namespace: &str) -> usize {
        let named = format!("namespace={namespace} ");
        let log = self.daemon.log_text();
        log.lines().filter(|line| line.contains("is not loaded") && line.contains(&named)).count()
    }

    fn answer(&self, namespace: &str) -> Value {
        let session = self.daemon.operator().open_session("acme/bot");
        session.call(&format!("{namespace}/answer"), json!({})).output().clone()
    }
}

/// A plugin whose version and result are `number`.
fn file(namespace: &str, number: usize) -> Vec<u8> {
    let file = PluginFile::new(namespace).with_result(&number.to_string());
    file.with_member("version", json!(format!("{number}.0.0"))).build()
}

#[test]
fn o1_a_file_that_is_renamed_into_the_folder_is_loaded_and_replaced() {
    let watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    let shown = watched.wait_for_version("weather", "1.0.0");
    assert_eq!(shown["versions"][0]["source"], json!({"kind": "folder"}), "{shown}");
    assert_eq!(watched.answer("weather"), 1);
    watched.put("weather.wasm", &file("weather", 2));
    watched.wait_for_version("weather", "2.0.0");
    assert_eq!(watched.answer("weather"), 2);
    let rows = wait::until("both outcomes", || {
        let rows = watched.daemon.operator().audit("kind=admin&limit=20");
        let of_loads = rows.into_iter().filter(|row| row["admin"]["action"] == "plugin.load");
        let done: Vec<_> = of_loads.filter(|row| row["admin"]["outcome"] == "ok").collect();
        (done.len() == 2).then_some(done)
    });
    assert!(rows.iter().all(|row| row.to_string().contains("\"folder\"")), "{rows:?}");
    // The same file again is no other version.
    watched.put("weather.wasm", &file("weather", 2));
    watched.wait_for_looks("marker");
    assert_eq!(watched.show("weather").expect("shown")["versions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn o1_a_signature_beside_a_file_is_its_signature() {
    let watched = Watched::start();
    let keys = tempfile::tempdir().expect("a folder");
    let key = SigningKey::generate(&keys.path().join("key")).expect("a key");
    let document =
        json!({"publisher": "Toolgate tests", "public_key": key.public().to_string(), "namespaces": "*"});
    watched.daemon.operator().make("/v1/platform/publisher-keys/tests", &document).expect(201);
    let sign = |number: usize| {
        let statement = Statement {
            namespace: "weather".into(),
            version: format!("{number}.0.0"),
            publisher: "Toolgate tests".into(),
            digest: digest_of(&file("weather", number)).to_string(),
        };
        watched.put("weather.wasm.sig", statement.sign(&key).as_bytes());
    };
    sign(1);
    watched.put("weather.wasm", &file("weather", 1));
    let shown = watched.wait_for_version("weather", "1.0.0");
    assert_eq!(shown["signed_by"]["key"], key.public().id(), "{shown}");
    // With the signature of the file before, and then its own.
    watched.put("weather.wasm", &file("weather", 2));
    watched.wait_for_failure("weather");
    sign(2);
    watched.wait_for_version("weather", "2.0.0");
    // A signature that comes after its file counts, too.
    watched.put("late.wasm", &file("late", 1));
    let shown = watched.wait_for_version("late", "1.0.0");
    assert_eq!(shown["signed_by"], json!(null), "{shown}");
    let statement = Statement {
        namespace: "late".into(),
        version: "1.0.0".into(),
        publisher: "Toolgate tests".into(),
        digest: digest_of(&file("late", 1)).to_string(),
    };
    watched.put("late.wasm.sig", statement.sign(&key).as_bytes());
    wait::until_true("its signer", || {
        watched.show("late").is_some_and(|shown| shown["signed_by"]["key"] == key.public().id())
    });
}

#[test]
fn o1_a_half_written_file_is_not_loaded() {
    let watched = Watched::start();
    let whole = file("weather", 1);
    let mut writer = File::create(watched.folder.join("weather.wasm")).expect("created");
    writer.write_all(&whole[..whole.len() / 2]).expect("written");
    watched.wait_for_looks("marker");
    assert!(watched.show("weather").is_none());
    writer.write_all(&whole[whole.len() / 2..]).expect("written");
    watched.wait_for_looks("another");
    assert!(watched.show("weather").is_none(), "it is not closed");
    drop(writer);
    watched.wait_for_version("weather", "1.0.0");
    assert_eq!(watched.failures_in_log("weather"), 0, "{}", watched.daemon.log_text());
}

#[test]
fn o1_a_plugin_whose_file_is_removed_is_removed() {
    let watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    watched.put("other.wasm", &file("other", 1));
    watched.wait_for_version("weather", "1.0.0");
    watched.wait_for_version("other", "1.0.0");
    watched.remove("weather.wasm");
    watched.wait_until_gone("weather");
    watched.wait_for_version("other", "1.0.0");
    let rows = watched.daemon.operator().audit("kind=admin&limit=1");
    assert_eq!(
        (&rows[0]["admin"]["action"], &rows[0]["admin"]["target"]),
        (&json!("plugin.remove"), &json!("weather"))
    );
    watched.put("weather.wasm", &file("weather", 2));
    watched.wait_for_version("weather", "2.0.0");
}

#[test]
fn o1_the_folder_does_not_touch_a_plugin_that_was_uploaded() {
    let watched = Watched::start();
    watched.daemon.operator().load("mine", &file("mine", 1));
    watched.put("mine.wasm", &file("mine", 2));
    let reason = watched.wait_for_failure("mine");
    assert!(reason.contains("came from an upload"), "{reason}");
    assert_eq!(watched.answer("mine"), 1);
    watched.remove("mine.wasm");
    wait::until_true("the failure to go", || {
        watched.show("mine").is_some_and(|shown| shown["versions"].as_array().map(Vec::len) == Some(1))
    });
    assert_eq!(watched.answer("mine"), 1);
    // Also one that came from the folder, and was replaced by an upload.
    watched.put("weather.wasm", &file("weather", 1));
    watched.wait_for_version("weather", "1.0.0");
    watched.daemon.operator().load("weather", &file("weather", 2));
    watched.remove("weather.wasm");
    watched.wait_for_looks("marker");
    assert_eq!(watched.answer("weather"), 2);
    // A built-in plugin keeps its name.
    watched.put("arithmetic.wasm", &file("arithmetic", 1));
    wait::until_true("the refusal", || watched.failures_in_log("arithmetic") == 1);
    assert_eq!(watched.show("arithmetic").expect("shown")["built_in"], true);
}

#[test]
fn o1_a_broken_file_leaves_the_old_version_and_is_logged_once() {
    let watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    watched.wait_for_version("weather", "1.0.0");
    let whole = file("weather", 2);
    watched.put("weather.wasm", &whole[..whole.len() - 1]);
    watched.wait_for_failure("weather");
    assert_eq!(watched.answer("weather"), 1);
    watched.wait_for_looks("marker");
    watched.wait_for_looks("another");
    wait::until_true("the failure to be logged", || watched.failures_in_log("weather") > 0);
    assert_eq!(watched.failures_in_log("weather"), 1, "{}", watched.daemon.log_text());
    // One that never loaded is shown, too.
    watched.put("fresh.wasm", b"no component");
    assert!(watched.wait_for_failure("fresh").contains("not WebAssembly"));
    watched.remove("fresh.wasm");
    watched.wait_until_gone("fresh");
    watched.put("weather.wasm", &whole);
    let shown = watched.wait_for_version("weather", "2.0.0");
    assert!(!shown["versions"].to_string().contains("failed"), "{shown}");
}

#[test]
fn o1_a_thousand_broken_files_do_not_stop_the_others() {
    let watched = Watched::start_on(|folder| {
        for number in 0..1_000 {
            fs::write(folder.join(format!("broken-{number:04}.wasm")), "no component").expect("written");
        }
        fs::write(folder.join("Not A Name.wasm"), "no component").expect("written");
        fs::write(folder.join("zebra.wasm"), file("zebra", 1)).expect("written");
    });
    watched.wait_for_version("zebra", "1.0.0");
    assert_eq!(watched.answer("zebra"), 1);
    watched
        .daemon
        .wait_for_log("the number of further files", |line| line.contains("more files of the plugin folder"));
    watched.wait_for_looks("marker");
    let log = watched.daemon.log_text();
    let failures =
        log.lines().filter(|line| line.contains("a file of the plugin folder is not loaded")).count();
    assert!((2..=30).contains(&failures), "{failures} lines:\n{log}");
    assert_eq!(log.matches("its name is no namespace").count(), 1, "{log}");
    assert!(watched.wait_for_failure("broken-0999").contains("not WebAssembly"));
}

#[test]
fn o1_a_restart_follows_what_changed_in_the_folder_meanwhile() {
    let mut watched = Watched::start();
    for name in ["kept", "removed", "replaced", "rolled-back"] {
        watched.put(&format!("{name}.wasm"), &file(name, 1));
        watched.wait_for_version(name, "1.0.0");
    }
    watched.daemon.operator().load("uploaded", &file("uploaded", 1));
    watched.put("rolled-back.wasm", &file("rolled-back", 2));
    watched.wait_for_version("rolled-back", "2.0.0");
    watched.daemon.operator().post("/v1/plugins/rolled-back/rollback", &json!({})).expect(200);
    watched.daemon.crash();
    watched.remove("removed.wasm");
    watched.put("replaced.wasm", &file("replaced", 2));
    watched.put("added.wasm", &file("added", 1));
    let watched = Watched { daemon: watched.daemon.crash_and_restart(), ..watched };
    watched.wait_for_version("replaced", "2.0.0");
    watched.wait_for_version("added", "1.0.0");
    watched.wait_until_gone("removed");
    watched.wait_for_looks("marker");
    for (name, version) in [("kept", 1), ("uploaded", 1), ("rolled-back", 1)] {
        assert_eq!(watched.answer(name), version, "{name}");
    }
}

/// A volume may be mounted late: an empty folder at the start says nothing.
#[test]
fn o1_an_empty_folder_at_the_start_removes_nothing() {
    let mut watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    watched.put("other.wasm", &file("other", 1));
    watched.wait_for_version("weather", "1.0.0");
    watched.wait_for_version("other", "1.0.0");
    watched.daemon.crash();
    watched.remove("weather.wasm");
    watched.remove("other.wasm");
    let watched = Watched { daemon: watched.daemon.crash_and_restart(), ..watched };
    // Names that are logged tell of looks, and are no plugin files.
    for name in ["First look.wasm", "Second look.wasm", "Third look.wasm"] {
        watched.put(name, b"");
        watched.daemon.wait_for_log("a look", |line| line.contains(name));
    }
    assert_eq!((watched.answer("weather"), watched.answer("other")), (json!(1), json!(1)));
    watched.put("other.wasm", &file("other", 2));
    watched.wait_for_version("other", "2.0.0");
    watched.wait_until_gone("weather");
}

#[test]
fn o2_a_restart_without_the_old_version_serves_none_that_waits_for_consent() {
    let mut watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    let shown = watched.wait_for_version("weather", "1.0.0");
    let path = watched.daemon.data().join("components").join(super::retention::file_of(&shown["digest"]));
    let changed = PluginFile::new("weather").with_result("2").with_member("purpose", json!("Obeys."));
    watched.put("weather.wasm", &changed.with_member("version", json!("2.0.0")).build());
    wait::until_true("the version that waits", || {
        watched.show("weather").is_some_and(|shown| shown["versions"][0]["state"] == "quarantined")
    });
    watched.daemon.crash();
    fs::write(path, "damaged").expect("written");
    let watched = Watched { daemon: watched.daemon.crash_and_restart(), ..watched };
    watched.wait_for_looks("marker");
    let shown = watched.show("weather").expect("shown");
    assert_eq!((&shown["state"], &shown["version"]), (&json!("failed"), &json!("1.0.0")), "{shown}");
    let session = watched.daemon.operator().open_session("acme/bot");
    session.call("weather/answer", json!({})).expect_error("TOOL_NOT_FOUND");
    watched.put("weather.wasm", &file("weather", 1));
    watched.wait_for_version("weather", "1.0.0");
}

#[test]
fn o1_the_file_of_a_canary_that_was_taken_back_is_not_loaded() {
    let watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    watched.wait_for_version("weather", "1.0.0");
    let operator = watched.daemon.operator();
    let headers = [("Content-Type", "application/wasm")];
    let path = "/v1/plugins/weather?canary=50";
    operator.send("PUT", path, &headers, &file("weather", 2)).expect(200);
    operator.post("/v1/plugins/weather/rollback", &json!({})).expect(200);
    watched.put("weather.wasm", &file("weather", 2));
    watched.wait_for_looks("marker");
    assert_eq!(watched.answer("weather"), 1);
    watched.put("weather.wasm", &file("weather", 3));
    watched.wait_for_version("weather", "3.0.0");
}

#[test]
fn o1_a_folder_that_is_missing_removes_nothing() {
    let watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    watched.wait_for_version("weather", "1.0.0");
    let aside = watched.folder.with_file_name("aside");
    fs::rename(&watched.folder, &aside).expect("renamed");
    watched
        .daemon
        .wait_for_log("that it cannot be read", |line| line.contains("the plugin folder cannot be read"));
    assert_eq!(watched.answer("weather"), 1);
    fs::rename(&aside, &watched.folder).expect("renamed");
    watched.put("weather.wasm", &file("weather", 2));
    watched.wait_for_version("weather", "2.0.0");
}

#[test]
fn o1_no_call_fails_while_the_folder_replaces_a_plugin() {
    let watched = Watched::start();
    watched.put("weather.wasm", &file("weather", 1));
    watched.wait_for_version("weather", "1.0.0");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let session = watched.daemon.operator().open_session("acme/bot");
                let mut last = 1;
                while !is_done.load(Ordering::Relaxed) {
                    let call = session.call("weather/answer", json!({}));
                    let number = call.output().as_u64().expect("a number");
                    assert!(number >= last, "{number} after {last}");
                    last = number;
                }
            });
        }
        for number in 2..=20 {
            watched.put("weather.wasm", &file("weather", number));
            watched.wait_for_version("weather", &format!("{number}.0.0"));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(watched.answer("weather"), 20);
}
