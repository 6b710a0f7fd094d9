//! Each alert of `packaging/prometheus` fires in Debian's Prometheus once a daemon has its cause (O5).
//!
//! A minute of the alerts is a fifth of a second here, and no alert waits for its `for`: `promtool` tests those.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use toolgate_tests::component::PluginFile;
use toolgate_tests::daemon::run_to_end;
use toolgate_tests::disk::SmallDisk;
use toolgate_tests::process::{ServerProcess, find_installed, free_address};
use toolgate_tests::{Client, Daemon, Session, Value, compiled_code, guests, json, wait};

use super::tls::Secure;
use crate::PROGRAM;

/// Alerts with causes that no test can make: a disk that is too slow for its daemon, while it goes on to take work.
const WITHOUT_CAUSE: &[&str] = &["ToolgateAuditFallsBehind"];

/// Milliseconds that a minute of the alerts has here.
const MINUTE_MS: u64 = 200;

/// Prometheus with the alerts, which asks two daemons four times a second.
struct Prometheus {
    web: Client,
    _process: ServerProcess,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(web: std::net::SocketAddr, targets: &[std::net::SocketAddr]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("packaging/prometheus/alerts.yml");
        let alerts = fs::read_to_string(alerts).expect("the alerts");
        fs::write(folder.path().join("alerts.yml"), quick(&alerts)).expect("written");
        let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 250ms, evaluation_interval: 250ms}}\nrule_files: [alerts.yml]\n\
             scrape_configs: [{{job_name: toolgate, static_configs: [{{targets: [{}]}}]}}]\n",
            targets.join(", ")
        );
        fs::write(folder.path().join("prometheus.yml"), config).expect("written");
        let mut command = Command::new(find_installed(PROGRAM, "prometheus/usr/bin/prometheus"));
        command
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={web}"))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = ServerProcess::spawn(&mut command);
        Self { web: Client::new(web, None), _process: process, _folder: folder }
    }

    /// The alerts that fire, with the daemon that has the cause.
    fn firing(&self) -> BTreeSet<(String, String)> {
        let reply =
            self.web.try_send("GET", "/api/v1/alerts", &[], b"").ok().filter(|reply| reply.status == 200);
        let alerts = reply.map(|reply| reply.json()["data"]["alerts"].clone()).unwrap_or_default();
        let alerts = alerts.as_array().cloned().unwrap_or_default();
        let label = |alert: &Value, name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| (label(alert, "alertname"), label(alert, "instance"))).collect()
    }
}

/// The alerts in a time that a test has: durations are shorter, and those of `for` nothing.
fn quick(alerts: &str) -> String {
    let of_line = |line: &str| match line.trim_start().starts_with("for: ") {
        true => "        for: 0s".to_owned(),
        false => line
            .split_inclusive(|character: char| !character.is_ascii_alphanumeric())
            .map(quick_word)
            .collect(),
    };
    alerts.lines().map(of_line).collect::<Vec<String>>().join("\n")
}

/// `5m]` in milliseconds; other words as they are.
fn quick_word(word: &str) -> String {
    let (number, rest) =
        word.split_at(word.find(|character: char| !character.is_ascii_digit()).unwrap_or(word.len()));
    let minutes = match rest.chars().next() {
        Some('m') => 1,
        Some('h') => 60,
        _ => return word.to_owned(),
    };
    match number.parse::<u64>() {
        Ok(number) => format!("{}ms{}", number * minutes * MINUTE_MS, &rest[1..]),
        Err(_) => word.to_owned(),
    }
}

#[test]
#[cfg_attr(
    not(all(has = "prometheus", has = "mount")),
    ignore = "needs Prometheus, and permission to mount a file system"
)]
fn o5_each_alert_fires_once_a_daemon_has_its_cause() {
    let [web, metrics, metrics_of_small] = [free_address(), free_address(), free_address()];
    let busy = Busy::start(web, metrics);
    let (disk, mut small) = (SmallDisk::mount("512m"), Secure::ending());
    let data = disk.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    small.start(&format!("[metrics]\nlisten = \"{metrics_of_small}\""), Some(data));
    let prometheus = Prometheus::start(web, &[metrics, metrics_of_small]);
    // What a daemon without a cause shows: nothing but the backup that was made old.
    wait::until_true("an alert", || !prometheus.firing().is_empty());
    let of_busy = |fired: &BTreeSet<(String, String)>| {
        let mine = fired.iter().filter(|(_, instance)| *instance == metrics.to_string());
        mine.map(|(name, _)| name.clone()).filter(|name| name != "ToolgateDiskNearlyFull").collect::<Vec<_>>()
    };
    let mut fired = prometheus.firing();
    assert!(of_busy(&fired).iter().all(|name| name == "ToolgateBackupOld"), "{fired:?}");

    busy.make_lasting_causes();
    disk.fill();
    for name in expected_names() {
        wait::until_true(&name, || {
            busy.make_passing_causes(&fired);
            fired.extend(prometheus.firing());
            fired.iter().any(|(fired, _)| *fired == name)
        });
    }
    for (name, instance) in &fired {
        let is_of_small = ["ToolgateCertificateEnds", "ToolgateNotReady"].contains(&name.as_str());
        let is_of_both = ["ToolgateDiskNearlyFull", "ToolgateBackupOld"].contains(&name.as_str());
        let expected = if is_of_small { metrics_of_small } else { metrics };
        assert!(is_of_both || *instance == expected.to_string(), "{name} of {instance}");
    }
}

/// The names of all alerts but those without a cause.
fn expected_names() -> BTreeSet<String> {
    let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("packaging/prometheus/alerts.yml");
    let alerts = fs::read_to_string(alerts).expect("the alerts");
    let names = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.filter(|name| !WITHOUT_CAUSE.contains(name)).map(str::to_owned).collect()
}

/// A daemon with all causes that need no disk of its own, and no certificate.
struct Busy {
    daemon: Daemon,
    operator: Client,
    session: Session,
    metered: Session,
    /// How many calls were made that wait for others.
    rounds: Cell<u32>,
}

impl Busy {
    fn start(web: std::net::SocketAddr, metrics: std::net::SocketAddr) -> Self {
        // Prometheus takes no spans.
        let closed = free_address();
        let settings = format!(
            "[metrics]\nlisten = \"{metrics}\"\n[traces]\nendpoint = \"http://{web}\"\n[sandbox]\ninstances = 2\n\
             [webhooks]\nhosts = [\"{closed}\"]\nplain_http = [\"{closed}\"]\n"
        );
        let daemon = Daemon::start(PROGRAM, &settings);
        let server = format!("--server=http://{}", daemon.address);
        let token = format!("--token-file={}", daemon.data().join("operator.token").display());
        let backup = run_to_end(PROGRAM, &["backup", "b.tar.gz", &server, &token], daemon.folder.path());
        assert!(backup.status.success(), "{backup:?}");
        let last = daemon.data().join("backup/last");
        let old = Command::new("touch").args(["--date", "3 days ago"]).arg(&last).status();
        assert!(last.exists() && old.is_ok_and(|status| status.success()), "{}", last.display());
        // A start looks at the time of the last backup.
        let daemon = daemon.crash_and_restart();
        let operator = daemon.operator();
        operator.load_confirmed("hostile", guests::HOSTILE);
        operator.make_agent("held/bot", &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
        let hook = json!({"url": format!("http://{closed}/hook")});
        operator.make("/v1/orgs/held/webhooks/chat", &hook).expect(201);
        operator.make_agent("metered/bot", &json!({"enabled": "*"}));
        let quota = json!({"name": "small", "measure": "calls", "amount": 1, "seconds": 1});
        let policy = json!({"enabled": "*", "quotas": [quota]});
        operator.replace("/v1/orgs/metered/policy", &policy).expect(200);
        operator.make_agent("acme/bot", &json!({"enabled": "*"}));
        let (session, metered) = (operator.open_session("acme/bot"), operator.open_session("metered/bot"));
        Self { daemon, operator, session, metered, rounds: Cell::new(0) }
    }

    /// What stays as it is.
    fn make_lasting_causes(&self) {
        let held = self.operator.open_session("held/bot");
        let reply = held.call("files/write", json!({"path": "a", "content": "b"}));
        assert_eq!(reply.status(), "approval_required", "{}", reply.0);
        let now_ms = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis();
        let in_ms = |ms: u64| json!(u64::try_from(now_ms).expect("a time") + ms);
        for (name, ms) in [("short", 1_500), ("long", 600_000)] {
            let document = json!({
                "provider": name, "kind": "bearer", "secret": "sk_0123456789", "expires_ms": in_ms(ms),
                "bound_to": [{"scheme": "https", "host": "api.example.com"}],
            });
            self.operator.make(&format!("/v1/orgs/acme/credentials/{name}"), &document).expect(201);
        }
        self.operator
            .post("/v1/tokens", &json!({"role": "operator", "expires_at": in_ms(600_000)}))
            .expect(201);
        let never = json!({"name": "shut", "never": {"agents": "*", "tools": ["late/answer"]}});
        self.operator.make("/v1/orgs/acme/policy/assertions", &json!({"assertions": [never]})).expect(201);
        self.operator.load("late", &PluginFile::new("late").build());
    }

    /// What must happen while Prometheus looks. Waiting calls take the places of all others, so they come last.
    fn make_passing_causes(&self, fired: &BTreeSet<(String, String)>) {
        let is_missing = |name: &str| !fired.iter().any(|(fired, _)| fired == name);
        if is_missing("ToolgateRequestsRefused") {
            Client::new(self.daemon.address, Some("tg_0123456789abcdef_wrong")).get("/v1/orgs").expect(401);
        }
        if is_missing("ToolgateToolsFail") || is_missing("ToolgateSpansLost") {
            self.session.call("hostile/panic", json!({"message": "goodbye"})).expect_error("TOOL_CRASHED");
        } else if is_missing("ToolgateQuotaNearEnd") {
            self.metered.call("arithmetic/evaluate", json!({"expression": "1 + 1"}));
        } else if is_missing("ToolgateOverloaded") {
            // They go on when the connection ends.
            let round = self.rounds.replace(self.rounds.get() + 1);
            drop(self.session.start(&format!("waits{round}"), "hostile/rest", json!({"ms": 3_000})));
        }
    }
}
