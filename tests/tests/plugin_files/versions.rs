//! Selects the version that serves after a start where not all can be loaded: the chosen version, or an earlier one.

use std::path::PathBuf;

use super::retention::file_of;
use super::*;

/// Plugin whose versions return their number.
struct Versions {
    daemon: Daemon,
    /// Oldest first.
    files: Vec<PathBuf>,
}

impl Versions {
    fn load(count: usize) -> Self {
        let daemon = Daemon::start(PROGRAM, "");
        daemon.operator().make_agent("acme/bot", &json!({"enabled": ["*"]}));
        let files = (1..=count).map(|number| {
            let loaded = daemon.operator().load("versioned", &file(number));
            daemon.data().join("components").join(file_of(&loaded["digest"]))
        });
        Self { files: files.collect(), daemon }
    }

    fn act(&self, action: &str) -> Reply {
        self.daemon.operator().post(&format!("/v1/plugins/versioned/{action}"), &json!({})).expect(200)
    }

    /// Crashes the daemon, damages these files, repairs the others, and starts again.
    fn restart_with_damaged(mut self, numbers: &[usize]) -> Self {
        self.daemon.crash();
        for (number, path) in (1..).zip(&self.files) {
            let whole = file(number);
            let damaged = &whole[..whole.len() - 1];
            fs::write(path, if numbers.contains(&number) { damaged } else { &whole }).expect("written");
        }
        Self { daemon: self.daemon.crash_and_restart(), ..self }
    }

    #[track_caller]
    fn serve(&self, number: usize) {
        let session = self.daemon.operator().open_session("acme/bot");
        assert_eq!(session.call("versioned/answer", json!({})).output(), number);
    }

    /// Version, state and reason of each version, oldest first.
    fn states(&self) -> Vec<(String, String, Value)> {
        let shown = self.daemon.operator().get("/v1/plugins/versioned").expect(200).json();
        let versions = shown["versions"].as_array().expect("versions").iter().rev();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        versions.map(|one| (text(&one["version"]), text(&one["state"]), one["reason"].clone())).collect()
    }
}

fn file(number: usize) -> Vec<u8> {
    let file = PluginFile::new("versioned").with_result(&number.to_string());
    file.with_member("version", json!(format!("{number}.0.0"))).build()
}

#[test]
fn a_rolled_back_version_is_no_fallback() {
    let versions = Versions::load(2);
    versions.act("rollback");
    let versions = versions.restart_with_damaged(&[1]);
    let session = versions.daemon.operator().open_session("acme/bot");
    session.call("versioned/answer", json!({})).expect_error("TOOL_NOT_FOUND");
    let states: Vec<_> = versions.states().into_iter().map(|(_, state, _)| state).collect();
    assert_eq!(states, ["failed", "disabled"]);
    versions.daemon.wait_for_log("the reason", |line| line.contains("a plugin is not served"));
    let versions = versions.restart_with_damaged(&[]);
    versions.serve(1);
    let shown = versions.states();
    assert_eq!((shown.len(), &shown[1].2), (2, &json!("rolled back")), "{shown:?}");
}

#[test]
fn an_older_version_serves_until_the_chosen_one_can_be_loaded() {
    let versions = Versions::load(3).restart_with_damaged(&[2, 3]);
    versions.serve(1);
    let states: Vec<_> = versions.states().into_iter().map(|(version, state, _)| (version, state)).collect();
    let expected = [("1.0.0", "active"), ("2.0.0", "failed"), ("3.0.0", "failed")];
    assert_eq!(states, expected.map(|(version, state)| (version.into(), state.into())));
    // Changes are stored together with the versions that cannot be loaded.
    for action in ["disable", "enable"] {
        versions.act(action);
    }
    let versions = versions.restart_with_damaged(&[]);
    versions.serve(3);
    versions.act("rollback");
    versions.serve(2);
}

/// An explicit load makes the fallback permanent.
#[test]
fn a_fallback_stays_after_an_explicit_load() {
    let versions = Versions::load(2).restart_with_damaged(&[2]);
    versions.serve(1);
    versions.daemon.operator().load("versioned", &file(1));
    let versions = versions.restart_with_damaged(&[]);
    versions.serve(1);
    versions.act("rollback");
    versions.serve(2);
}

/// Plugin without a loadable version.
fn load_damaged() -> Versions {
    let versions = Versions::load(2).restart_with_damaged(&[1, 2]);
    let operator = versions.daemon.operator();
    let shown = operator.get("/v1/plugins/versioned").expect(200).json();
    let what = (&shown["state"], &shown["version"], &shown["publisher"], &shown["digest"]);
    let digest = &shown["versions"][0]["digest"];
    assert_eq!(what, (&json!("failed"), &json!("2.0.0"), &json!("Toolgate tests"), digest), "{shown}");
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("its file")), "{shown}");
    let listed = operator.get("/v1/plugins").expect(200).json();
    let mut listed = listed["items"].as_array().expect("a list").iter();
    assert!(listed.any(|one| one["versions"] == shown["versions"]));
    versions
}

#[test]
fn a_plugin_without_a_loadable_version_keeps_its_name() {
    let versions = load_damaged();
    let operator = versions.daemon.operator();
    let theirs = PluginFile::new("versioned").with_member("publisher", json!("Somebody else"));
    operator.upload("versioned", &theirs.with_result("9").build()).expect_refusal(409, "CONFLICT");
    for action in ["disable", "enable", "rollback"] {
        let refused = operator.post(&format!("/v1/plugins/versioned/{action}"), &json!({}));
        let problem = refused.expect_refusal(404, "NOT_FOUND").text();
        assert!(problem.contains("could be loaded"), "{problem}");
    }
    operator.load("versioned", &file(3));
    versions.serve(3);
    let states: Vec<_> = versions.states().into_iter().map(|(_, state, _)| state).collect();
    assert_eq!(states, ["failed", "failed", "active"]);
    let versions = versions.restart_with_damaged(&[]);
    versions.serve(3);
    versions.act("rollback");
    versions.serve(2);
}

#[test]
fn a_plugin_without_a_loadable_version_can_be_removed() {
    let versions = load_damaged();
    let operator = versions.daemon.operator();
    operator.delete("/v1/plugins/versioned").expect(204);
    operator.get("/v1/plugins/versioned").expect_refusal(404, "NOT_FOUND");
    assert!(versions.files.iter().all(|file| !file.exists()), "{:?}", versions.files);
    let theirs = PluginFile::new("versioned").with_member("publisher", json!("Somebody else"));
    operator.load("versioned", &theirs.with_result("9").build());
    versions.serve(9);
}
