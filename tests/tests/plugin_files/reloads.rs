//! Reloads under load (O1): two versions take turns while callers call. No call fails, none mixes two versions, and the
//! memory comes back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

/// Callers are as fast as they can be.
const SETTINGS: &str = "
[rates]
calls_per_second = 1_000_000
burst = 1_000_000
";

const CALLERS: usize = 8;
/// The answers of a session are kept in memory until it ends.
const CALLS_PER_SESSION: usize = 50;

fn version(number: usize) -> Vec<u8> {
    let file = PluginFile::new("changing").with_member("version", json!(format!("{number}.0.0")));
    file.with_result(&number.to_string()).build()
}

/// Loads two versions in turns, each after some more calls were answered.
fn reload(daemon: &Daemon, reloads: usize, files: &[Vec<u8>; 2]) -> BTreeMap<u64, Value> {
    let operator = daemon.operator();
    let digests: BTreeMap<u64, Value> = (1..)
        .zip(files)
        .map(|(number, file)| (number, operator.load("changing", file)["digest"].clone()))
        .collect();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for _ in 0..CALLERS {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let session = operator.open_session("acme/bot");
                    for _ in 0..CALLS_PER_SESSION {
                        assert_one_version(&session.call("changing/answer", json!({})), &digests);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    session.client.delete(&session.path("")).expect(204);
                }
            });
        }
        for number in 0..reloads {
            let mark = answered.load(Ordering::Relaxed);
            wait::until_true("calls between two loads", || answered.load(Ordering::Relaxed) > mark + CALLERS);
            let loaded = operator.upload("changing", &files[number % 2]).expect(200).json();
            assert_eq!(loaded["state"], "active", "{loaded}");
        }
        done.store(true, Ordering::Relaxed);
    });
    digests
}

/// Output, version and digest of a result are those of one version.
#[track_caller]
fn assert_one_version(reply: &CallReply, digests: &BTreeMap<u64, Value>) {
    let number = reply.output().as_u64().expect("a number");
    let plugin = &reply.0["plugin"];
    assert_eq!(plugin["version"], format!("{number}.0.0"), "{}", reply.0);
    assert_eq!(&plugin["digest"], &digests[&number], "{}", reply.0);
}

fn assert_reloads(reloads: usize) {
    let mut daemon = Daemon::start(PROGRAM, SETTINGS);
    daemon.operator().make_agent("acme/bot", &json!({"enabled": ["*"]}));
    let files = [version(1), version(2)];
    // Caches are filled for the first time.
    reload(&daemon, 10, &files);
    let leak_check = LeakCheck::start(&daemon);
    reload(&daemon, reloads, &files);
    leak_check.assert_none(&mut daemon);
    let shown = daemon.operator().get("/v1/plugins/changing").expect(200).json();
    assert_eq!(shown["versions"].as_array().map(Vec::len), Some(2), "{shown}");
    assert_eq!(fs::read_dir(daemon.data().join("components")).expect("a folder").count(), 2);
}

#[test]
fn o1_a_hundred_reloads_under_load_fail_no_call() {
    assert_reloads(100);
}

#[test]
#[ignore = "a thousand reloads take minutes"]
fn o1_a_thousand_reloads_under_load_fail_no_call() {
    assert_reloads(1_000);
}
