//! TOCTOU: a host process replaces entries of the workspace while a guest or a route uses them.
//!
//! The replacements lead to a canary outside. Each test also requires a success, since without one there was no race.

use super::*;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

/// Repeats an action in a thread until it is dropped.
struct BackgroundLoop {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundLoop {
    fn repeat(mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                act();
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Exchanges two names. Fails silently while one of them is missing.
    fn exchange(one: PathBuf, other: PathBuf) -> Self {
        Self::repeat(move || {
            let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
        })
    }
}

impl Drop for BackgroundLoop {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Folder outside the workspace, with a canary file.
struct Outside(TempDir);

impl Outside {
    fn of(fixture: &Fixture) -> Self {
        let folder = tempfile::tempdir_in(fixture.daemon.folder.path()).expect("a folder");
        fs::write(folder.path().join("file"), CANARY).expect("a canary");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let left: Vec<_> = fs::read_dir(self.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(fs::read_to_string(self.path().join("file")).expect("the canary"), CANARY);
    }
}

/// Makes calls until operations of one had each of these ends, and asserts that only these contents were read. On a busy machine the
/// loop in the background may rest during a whole call.
#[track_caller]
fn race(fixture: &mut Fixture, session: &Session, call: (&str, &Value), contents: &[&str], ends: &[&str]) {
    wait::until_true("a race", || {
        let reply = fixture.call(session, call.0, call.1.clone());
        let seen = reply.output()["seen"].as_array().expect("what was seen");
        let is_known = |text: &Value| text.as_str().is_some_and(|text| contents.contains(&text));
        assert!(seen.iter().all(is_known), "{seen:?}");
        ends.iter().all(|end| reply.output()[end].as_u64() > Some(0))
    });
}

#[test]
fn a_file_replaced_by_a_link_stays_inside() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let raced = fixture.folder(&session).join("raced");
        let outside = Outside::of(fixture);
        let target = outside.path().join("file");
        let churn = json!({"path": "/workspace/raced", "rounds": 300});
        let racing = {
            let raced = raced.clone();
            BackgroundLoop::repeat(move || {
                let _ = fs::remove_file(&raced);
                let _ = symlink(&target, &raced);
                let _ = fs::remove_file(&raced);
                // `create_new` does not follow a link that the guest moved there.
                let made = OpenOptions::new().write(true).create_new(true).open(&raced);
                let _ = made.and_then(|mut file| file.write_all(b"inside"));
            })
        };
        // The guest may write between this process' creation of the file and its write: the end of the longer text stays.
        let contents = ["inside", "fs-attacker", "insideacker", ""];
        race(fixture, &session, ("churn", &churn), &contents, &["done", "refused"]);
        drop(racing);
        outside.assert_untouched();
        let _ = fs::remove_file(&raced);
        race(fixture, &session, ("churn", &churn), &["fs-attacker"], &["done"]);
    });
}

#[test]
fn a_folder_replaced_by_a_link_stays_inside() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("d/file", b"inside").expect(204);
        let (folder, outside) = (fixture.folder(&session), Outside::of(fixture));
        symlink(outside.path(), folder.join("link")).expect("a link");
        let racing = BackgroundLoop::exchange(folder.join("d"), folder.join("link"));
        let churn = json!({"path": "/workspace/d/file", "rounds": 300});
        let walk = json!({"folder": "/workspace", "rounds": 200});
        for call in [("churn", &churn), ("walk", &walk)] {
            race(fixture, &session, call, &["inside", "fs-attacker", ""], &["done"]);
        }
        drop(racing);
        outside.assert_untouched();
    });
}

#[test]
fn a_folder_replaced_during_a_walk_stays_inside() {
    with_fixture(|fixture| {
        let session = fixture.session();
        for at in 0..10 {
            session.put_file(&format!("d/e/f{at}"), b"inside").expect(204);
        }
        let (folder, outside) = (fixture.folder(&session), Outside::of(fixture));
        symlink(outside.path(), folder.join("link")).expect("a link");
        let racing = BackgroundLoop::exchange(folder.join("d/e"), folder.join("link"));
        let walk = json!({"folder": "/workspace", "rounds": 200});
        race(fixture, &session, ("walk", &walk), &["inside"], &["done"]);
        for _ in 0..50 {
            let listed = session.client.get(&session.path("/files"));
            assert_ne!(listed.status, 500, "{}", listed.text());
            assert!(!listed.text().contains("link/file"), "{}", listed.text());
        }
        drop(racing);
        outside.assert_untouched();
    });
}

#[test]
fn the_file_routes_stay_inside() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("d/file", b"inside").expect(204);
        let (folder, outside) = (fixture.folder(&session), Outside::of(fixture));
        symlink(outside.path(), folder.join("link")).expect("a link");
        let leak_check = LeakCheck::start(&fixture.daemon);
        let racing = BackgroundLoop::exchange(folder.join("d"), folder.join("link"));
        let (mut good, mut rounds) = (0, 0);
        while rounds < 150 || good == 0 {
            rounds += 1;
            assert!(rounds < 100_000, "no request succeeds");
            for reply in [
                session.put_file("d/file", b"inside"),
                session.get_file("d/file"),
                session.put_file("d/deep/new", b"inside"),
                session.client.delete(&session.path("/files/d/deep/new")),
                session.client.delete(&session.path("/files/d/file")),
            ] {
                assert!(!reply.text().contains(CANARY), "{}", reply.text());
                assert_ne!(reply.status, 500, "{}", reply.text());
                good += u32::from(reply.status < 300);
            }
        }
        drop(racing);
        outside.assert_untouched();
        leak_check.assert_none(&mut fixture.daemon);
    });
}

#[test]
fn ending_a_session_removes_no_file_outside() {
    with_fixture(|fixture| {
        for _ in 0..5 {
            let session = fixture.session();
            for at in 0..20 {
                session.put_file(&format!("d/e/f{at}"), b"inside").expect(204);
            }
            let (folder, outside) = (fixture.folder(&session), Outside::of(fixture));
            symlink(outside.path(), folder.join("link")).expect("a link");
            let racing = BackgroundLoop::exchange(folder.join("d/e"), folder.join("link"));
            session.client.delete(&session.path("")).expect(204);
            drop(racing);
            outside.assert_untouched();
            fixture.assert_canaries_intact();
        }
    });
}
