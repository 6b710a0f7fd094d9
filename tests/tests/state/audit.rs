//! The audit log as its readers have it: exported, followed, cut, and without what an organization deleted (O3).

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use toolgate_tests::daemon::{Options, ProgramOutput, run_to_end};
use toolgate_tests::process::free_address;
use toolgate_tests::{Client, Daemon, Session, Value, guests, json, wait};

use crate::{PROGRAM, start};

const SMALL: &str = "[audit]\nsegment_bytes = 1_048_576\nreserve_bytes = 262_144\n";

fn restart(mut daemon: Daemon) -> Daemon {
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let verified = run_to_end(PROGRAM, &["audit", "verify", "--data", "data"], daemon.folder.path());
    assert!(verified.stdout.starts_with("audit log verified: "), "{verified:?}");
    daemon.crash_and_restart()
}

/// Runs `toolgate` against the daemon, with the token of a client.
fn toolgate(daemon: &Daemon, client: &Client, arguments: &[&str]) -> ProgramOutput {
    let folder = daemon.folder.path();
    let token = folder.join("reader.token");
    fs::write(&token, client.token.as_deref().expect("a token")).expect("written");
    let (server, token) = (format!("http://{}", daemon.address), token.display().to_string());
    let remote = ["--server", &server, "--token-file", &token];
    run_to_end(PROGRAM, &[arguments, &remote].concat(), folder)
}

fn lines(client: &Client, query: &str) -> Vec<Value> {
    let text = client.get(&format!("/v1/audit/export{query}")).expect(200).text();
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

fn records(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter_map(|line| line.get("record")).collect()
}

/// The files below a folder whose bytes contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = fs::read(&path)
            && bytes.windows(text.len()).any(|part| part == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn o3_an_export_goes_on_where_its_files_end_and_verifies_without_the_daemon() {
    let (daemon, session) = start();
    let operator = daemon.operator();
    session.call_as("c1", "hostile/echo", json!({"text": "first"})).output();
    let folder = daemon.folder.path().join("exported");
    let out = folder.display().to_string();
    let export = || toolgate(&daemon, &operator, &["audit", "export", "--out", &out, "--max-bytes", "2000"]);
    let verify = || toolgate(&daemon, &operator, &["audit", "verify", "--file", &out]);
    let first = export();
    assert!(first.status.success(), "{first:?}");
    let files = fs::read_dir(&folder).expect("a folder").count();
    assert!(files > 1, "rotated by size");
    session.call_as("c2", "hostile/echo", json!({"text": "second"})).output();
    assert!(export().status.success());
    let verified = verify();
    assert!(verified.status.success() && verified.stdout.contains("no record is missing"), "{verified:?}");
    let mut names: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    names.sort();
    assert!(names.len() > files);
    let text: String = names.iter().map(|path| fs::read_to_string(path).expect("a file")).collect();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let sequences: Vec<u64> =
        records(&lines).iter().map(|record| record["sequence"].as_u64().expect("a number")).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    let texts: Vec<_> =
        records(&lines).iter().filter_map(|record| record["arguments"]["text"].as_str()).collect();
    assert_eq!(texts, ["first", "second"]);
    // A changed byte, and a file that is gone.
    let changed = fs::read_to_string(&names[1]).expect("a file").replacen("\"at_ms\":1", "\"at_ms\":2", 1);
    let before = fs::read(&names[1]).expect("a file");
    fs::write(&names[1], changed).expect("written");
    assert_eq!(verify().status.code(), Some(1));
    fs::write(&names[1], before).expect("written");
    assert!(verify().status.success());
    fs::remove_file(&names[1]).expect("removed");
    assert_eq!(verify().status.code(), Some(1));
    exports_the_same_without_a_daemon(daemon, &lines);
}

/// A stopped daemon's log has the records that the running one exported, and those of its end.
fn exports_the_same_without_a_daemon(mut daemon: Daemon, lines: &[Value]) {
    let run = |words: &[&str]| run_to_end(PROGRAM, words, daemon.folder.path());
    let export = ["audit", "export", "--data", "data", "--out", "offline"];
    let held = run(&export);
    assert!(held.status.code() == Some(1) && held.stderr.contains("is held by another daemon"), "{held:?}");
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let run = |words: &[&str]| run_to_end(PROGRAM, words, daemon.folder.path());
    let first = run(&export);
    assert!(first.status.success(), "{first:?}");
    assert!(run(&export).stdout.starts_with("0 records were exported"));
    let file = fs::read_dir(daemon.folder.path().join("offline")).expect("a folder").next().expect("a file");
    let text = fs::read_to_string(file.expect("a file").path()).expect("a file");
    let offline: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    assert_eq!(records(&offline)[..records(lines).len()], records(lines)[..]);
    let verified = run(&["audit", "verify", "--file", "offline"]);
    assert!(verified.status.success() && verified.stdout.contains("no record is missing"), "{verified:?}");
}

#[test]
fn o3_a_tenant_exports_its_own_records_which_prove_themselves() {
    let (daemon, session) = start();
    let operator = daemon.operator();
    operator.make_organization("rival");
    operator.make_agent("rival/bot", &json!({"enabled": ["*"]}));
    let rival = operator.open_session("rival/bot");
    session.call_as("c1", "hostile/echo", json!({"text": "of acme"})).output();
    rival.call_as("c1", "arithmetic/evaluate", json!({"expression": "1+1"})).output();
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "rival"}));
    let own = lines(&owner, "");
    assert!(records(&own).iter().any(|record| record["arguments"]["expression"] == "1+1"), "{own:?}");
    let text = serde_json::to_string(&own).expect("text");
    assert!(!text.contains("of acme") && !text.contains("\"acme\""), "{text}");
    assert!(own.last().expect("a line")["end"]["cursor"].is_string());
    owner.get("/v1/audit/export?organization=acme").expect_refusal(404, "NOT_FOUND");
    owner.get("/v1/audit/export?after=99999999").expect_refusal(400, "INVALID_REQUEST");
    let folder = daemon.folder.path().join("own");
    let out = folder.display().to_string();
    assert!(toolgate(&daemon, &owner, &["audit", "export", "--out", &out]).status.success());
    let verified = toolgate(&daemon, &owner, &["audit", "verify", "--file", &out]);
    assert!(verified.status.success() && verified.stdout.contains("a selection"), "{verified:?}");
}

/// A running `toolgate audit follow`.
struct Following {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Following {
    fn start(daemon: &Daemon, client: &Client, arguments: &[&str]) -> Self {
        let token = daemon.folder.path().join("follow.token");
        fs::write(&token, client.token.as_deref().expect("a token")).expect("written");
        #[allow(clippy::disallowed_methods, reason = "the program under test runs beside the daemon")]
        let mut child = Command::new(PROGRAM)
            .args([
                "audit",
                "follow",
                "--json",
                "--server",
                &format!("http://{}", daemon.address),
                "--token-file",
            ])
            .arg(&token)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let (sender, lines) = std::sync::mpsc::channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// The next row with this call.
    fn wait_for(&self, call: &str) -> Value {
        wait::until(&format!("the record of `{call}`"), || {
            let line = self.lines.try_recv().ok()?;
            let row: Value = serde_json::from_str(&line).expect("a row");
            (row["call"]["call"] == call).then_some(row)
        })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn o3_follow_goes_on_after_a_restart_and_ends_with_its_token() {
    // At the same address after the restart, where the command looks for it.
    let listen = Some(free_address().to_string());
    let mut daemon = Daemon::start_with(PROGRAM, Options { listen: listen.clone(), ..Options::default() });
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let operator = daemon.operator();
    let token = operator.post("/v1/tokens", &json!({"role": "auditor"})).expect(201).json();
    let auditor = Client::new(daemon.address, token["token"].as_str());
    let mut following = Following::start(&daemon, &auditor, &["--kind", "call", "--since", "1h"]);
    session.call_as("before", "hostile/echo", json!({"text": "x"})).output();
    let row = following.wait_for("before");
    assert_eq!((&row["status"], &row["call"]["arguments"]["text"]), (&json!("ok"), &json!("x")));
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let data = Some(daemon.data());
    let daemon = Daemon::start_with(PROGRAM, Options { listen, data, ..Options::default() });
    session.call_as("after", "hostile/echo", json!({"text": "y"})).output();
    following.wait_for("after");
    let id = token["id"].as_str().expect("an id");
    daemon.operator().delete(&format!("/v1/tokens/{id}")).expect(204);
    let status = wait::until("the end of the command", || following.child.try_wait().expect("a child"));
    assert_eq!(status.code(), Some(1));
}

#[test]
fn o3_old_segments_are_cut_and_the_log_verifies_from_there() {
    let settings = format!("{SMALL}kept_bytes = 3_000_000\n");
    let options = Options { settings: SMALL.to_owned(), ..Options::default() };
    let mut daemon = Daemon::start_with(PROGRAM, options);
    let session = daemon.session_within("acme/bot", &json!({}));
    let write = json!({"path": "a.txt", "content": "x".repeat(100_000)});
    for number in 0..60 {
        session.call_as(&format!("c{number}"), "files/write", write.clone()).output();
    }
    let audit = daemon.data().join("audit");
    let first = audit.join("00000001.segment");
    assert!(audit.join("00000006.segment").exists(), "several segments are complete");
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let kept = fs::read(&first).expect("a segment");
    let options = Options { settings: settings.clone(), data: Some(daemon.data()), ..Options::default() };
    let mut daemon = Daemon::start_with(PROGRAM, options.clone());
    wait::until_true("the cut", || !first.exists());
    let operator = daemon.operator();
    cut_calls_do_not_run_again(&daemon, &session, &write);
    let cuts = wait::until("the record of the cut", || {
        let rows = operator.audit("action=audit.cut");
        (!rows.is_empty()).then_some(rows)
    });
    assert_eq!(cuts[0]["admin"]["source"], "daemon", "{cuts:?}");
    let last = cuts[0]["admin"]["details"]["last_sequence"].clone();
    let report = operator.get("/v1/audit/verify").expect(200).json();
    assert_eq!((&report["ok"], &report["cut"]["sequence"]), (&json!(true), &last), "{report}");
    let gap = lines(&operator, "").into_iter().find_map(|line| line.get("gap").cloned()).expect("a gap");
    assert_eq!((&gap["from"], &gap["to"]), (&json!(1), &last));
    // As if it had been killed before it removed the segment: the next start finishes the cut.
    daemon.crash();
    fs::write(&first, kept).expect("written");
    let daemon = Daemon::start_with(PROGRAM, options);
    assert!(!first.exists());
    assert_eq!(daemon.operator().get("/v1/audit/verify").expect(200).json()["ok"], true);
}

/// The audit log does not have the call `c0` any more, and its answer is on disk (R7).
fn cut_calls_do_not_run_again(daemon: &Daemon, session: &Session, write: &Value) {
    let session = Session {
        client: Client { address: daemon.address, ..session.client.clone() },
        id: session.id.clone(),
    };
    wait::until_true("the cut of the index", || {
        daemon.operator().audit(&format!("session={}&call=c0", session.id)).is_empty()
    });
    session.client.delete(&session.path("/files/a.txt")).expect(204);
    let read = session.get_call("c0");
    let again = session.call_as("c0", "files/write", write.clone());
    assert_eq!((again.output(), &again.0["replayed"]), (read.output(), &json!(true)));
    session.call_as("c0", "files/write", json!({"path": "b.txt", "content": ""})).expect_error("CONFLICT");
    session.get_file("a.txt").expect_refusal(404, "NOT_FOUND");
    session.call_as("new", "files/write", write.clone()).output();
    session.get_file("a.txt").expect(200);
}

#[test]
fn o3_deleted_data_is_in_no_file_and_the_log_still_verifies() {
    const CANARY: &str = "c4n4ry-7f31";
    const OTHER: &str = "0ther-9a22";
    // Small segments, which are searched whole.
    let daemon = Daemon::start(PROGRAM, SMALL);
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let operator = daemon.operator();
    operator.make_organization("rival");
    operator.make_agent("rival/bot", &json!({"enabled": ["*"]}));
    operator.make_agent("acme/careful", &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
    let rival = operator.open_session("rival/bot");
    session.call_as("c1", "hostile/echo", json!({"text": CANARY})).output();
    session
        .call_as("c2", "files/write", json!({"path": format!("{CANARY}.txt"), "content": CANARY}))
        .output();
    let waiting = operator.open_session("acme/careful");
    waiting.call_as("c3", "files/write", json!({"path": "b.txt", "content": CANARY})).approval();
    rival.call_as("r1", "arithmetic/evaluate", json!({"expression": format!("1 + 1 # {OTHER}")}));
    let shown = session.audit_row(&operator, "c1");
    assert_eq!(shown["call"]["arguments"]["text"], CANARY, "{shown}");
    assert!(!files_with(&daemon.data(), CANARY).is_empty(), "the approval and the workspace have it");
    assert!(files_with(&daemon.data().join("audit"), CANARY).is_empty(), "sealed");

    let stranger = operator.with_new_token(&json!({"role": "owner", "organization": "rival"}));
    stranger.delete("/v1/orgs/acme/data").expect_refusal(404, "NOT_FOUND");
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    owner.delete("/v1/orgs/acme/data").expect(204);

    assert_eq!(files_with(&daemon.data(), CANARY), Vec::<String>::new());
    let deleted = session.audit_row(&operator, "c1");
    assert_eq!((&deleted["arguments_deleted"], &deleted["call"]["arguments"]), (&json!(true), &json!(null)));
    let kept = rival.audit_row(&operator, "r1");
    assert!(kept["call"]["arguments"]["expression"].as_str().expect("a text").contains(OTHER), "{kept}");
    assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], true);
    operator.get(&session.path("")).expect_refusal(410, "EXPIRED");
    operator.get(&rival.path("")).expect(200);
    let exported = lines(&operator, "?organization=acme");
    assert!(records(&exported).iter().any(|record| record["arguments_deleted"] == true));
    // Later records are under a new key, also after a restart.
    let later = operator.open_session("acme/bot");
    later.call_as("later", "hostile/echo", json!({"text": "again"})).output();
    let daemon = restart(daemon);
    let operator = daemon.operator();
    assert_eq!(later.audit_row(&operator, "later")["call"]["arguments"]["text"], "again");
    assert_eq!(session.audit_row(&operator, "c1")["arguments_deleted"], true);
    assert!(rival.audit_row(&operator, "r1")["call"]["arguments"].is_object());
    // An organization that is deleted takes its data with it.
    operator.send("DELETE", "/v1/orgs/acme", &[("If-Match", "*")], b"").expect(204);
    assert_eq!(later.audit_row(&operator, "later")["arguments_deleted"], true);
    assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], true);
}

#[test]
fn o3_secrets_are_redacted_by_name_and_form_and_addresses_where_a_policy_says_so() {
    let (daemon, session) = start();
    let operator = daemon.operator();
    let echo = |id: &str, text: &str| {
        session.call_as(id, "hostile/echo", json!({"text": text})).output();
        session.audit_row(&operator, id)["call"]["arguments"]["text"].clone()
    };
    assert_eq!(echo("key", "use AKIAIOSFODNN7EXAMPLE now"), "use [redacted] now");
    assert_eq!(echo("card", "4111 1111 1111 1111"), "[redacted]");
    assert_eq!(echo("mail", "to ada@mail.example"), "to ada@mail.example");
    assert_eq!(echo("plain", "nothing to hide"), "nothing to hide");
    let policy = "/v1/orgs/acme/policy";
    let mut document = operator.get(policy).expect(200).json();
    document["redact"] = json!({"emails": true});
    operator.replace(policy, &document).expect(200);
    assert_eq!(echo("mail2", "to ada@mail.example"), "to [redacted]");
    document["redact"] = json!({"email": true});
    operator.replace(policy, &document).expect_refusal(422, "INVALID_POLICY");
}

#[test]
fn o3_every_attempt_is_recorded_and_no_two_policies_have_one_revision() {
    let (daemon, session) = start();
    let operator = daemon.operator();
    let refused = operator.post("/v1/sessions", &json!({"agent": "acme/nosuch"}));
    refused.expect_refusal(404, "NOT_FOUND");
    let refused = operator.post("/v1/sessions", &json!({"agent": "acme/bot", "channel": "nosuch"}));
    refused.expect_refusal(400, "INVALID_REQUEST");
    let rows = operator.audit("action=session.open");
    let outcome = |target: &str, outcome: &str| {
        rows.iter().any(|row| {
            row["admin"]["target"] == target
                && row["admin"]["outcome"] == outcome
                && row["admin"]["source"] == "http"
        })
    };
    assert!(outcome("acme/nosuch", "NOT_FOUND") && outcome("acme/bot", "INVALID_REQUEST"), "{rows:?}");
    assert!(outcome("acme/bot", "ok"), "{rows:?}");
    session.call_as("c1", "hostile/echo", json!({"text": "x"})).output();
    session.call_as("c1", "hostile/echo", json!({"text": "other"})).expect_error("CONFLICT");
    let refused = operator.audit("action=call.refuse");
    assert_eq!(
        (&refused[0]["admin"]["outcome"], &refused[0]["admin"]["details"]["call"]),
        (&json!("CONFLICT"), &json!("c1"))
    );
    assert_eq!(
        session.audit_row(&operator, "c1")["status"],
        "ok",
        "the record of the call is that of the first"
    );
    let revision = |row: &Value| row["call"]["policy_revision"].as_u64().expect("a revision");
    let before = revision(&session.audit_row(&operator, "c1"));
    let daemon = restart(daemon);
    let session = Session { client: daemon.operator(), id: session.id };
    session.call_as("c2", "hostile/echo", json!({"text": "x"})).output();
    let after = revision(&session.audit_row(&daemon.operator(), "c2"));
    assert!(after > before, "{before}, {after}");
}

/// Changes a byte of the first record.
fn change_a_record(audit: &Path) {
    let path = audit.join("00000001.segment");
    let mut bytes = fs::read(&path).expect("a segment");
    let at = bytes.windows(2).position(|pair| pair == b"{\"").expect("a payload");
    bytes[at] = b'X';
    fs::write(&path, bytes).expect("written");
}

fn remove_index(audit: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(audit.with_file_name(format!("audit-index.db{suffix}")));
    }
}

/// Every loss of the log stops a start. The message has the cause, and its last way out leads to a daemon that serves.
#[test]
fn o3_a_damaged_or_lost_log_stops_the_start_until_an_operator_gives_it_up() {
    type Loss = fn(&Path);
    let losses: [(Loss, &str, bool); 4] = [
        (change_a_record, "00000001.segment` at offset", true),
        (|audit| fs::remove_file(audit.join("00000001.segment")).expect("removed"), "lacks segment 1", true),
        (|audit| fs::remove_dir_all(audit).expect("removed"), "its last one that is known was record", false),
        (
            |audit| {
                fs::remove_dir_all(audit).expect("removed");
                remove_index(audit);
            },
            "a daemon ran on this data before",
            false,
        ),
    ];
    let give_up = || vec!["--accept-lost-log".to_owned()];
    let (mut daemon, session) = start();
    session.call_as("c1", "hostile/echo", json!({"text": "first"})).output();
    for (lose, cause, has_files) in losses {
        daemon.terminate();
        assert!(daemon.wait_for_exit().success());
        let audit = daemon.data().join("audit");
        lose(&audit);
        let serve = ["serve", "--data", "data", "--listen", "127.0.0.1:0"];
        let failed = run_to_end(PROGRAM, &serve, daemon.folder.path());
        assert!(failed.status.code() == Some(1) && failed.stderr.contains(cause), "{cause}: {failed:?}");
        assert!(failed.stderr.contains("`toolgate serve --accept-lost-log`"), "{failed:?}");
        daemon = daemon.restart_with(|options| options.arguments = give_up());
        daemon.wait_for_log("the event", |line| line.contains("audit_loss_accepted"));
        let operator = daemon.operator();
        let recoveries = operator.audit("kind=recovery");
        let [Some(accepted)] =
            &recoveries.iter().map(|row| row["recovery"].get("accepted")).collect::<Vec<_>>()[..]
        else {
            panic!("{cause}: {recoveries:?}")
        };
        assert!(accepted["cause"].as_str().expect("a text").contains(cause), "{accepted}");
        assert!(accepted["last_run_ms"].as_u64().is_some_and(|at_ms| at_ms > 0), "{accepted}");
        let moved_to = accepted["moved_to"].as_str();
        assert_eq!(moved_to.map(|name| audit.join(name).join("head").exists()), has_files.then_some(true));
        let report = operator.get("/v1/audit/verify").expect(200).json();
        assert_eq!((&report["ok"], report["suspicious"].as_array().map(Vec::len)), (&json!(true), Some(1)));
        assert_eq!(operator.get("/readyz").expect(200).json()["audit_lost"], true);
        daemon = daemon.restart_with(|options| options.arguments.clear());
        assert!(daemon.operator().get("/readyz").expect(200).json().get("audit_lost").is_none(), "told once");
    }
    // Where nothing is lost, the option changes nothing.
    let daemon = daemon.restart_with(|options| options.arguments = give_up());
    daemon.wait_for_log("the warning", |line| line.contains("leave `--accept-lost-log` out"));
    assert_eq!(daemon.operator().audit("kind=recovery").len(), 1);
}
