//! Debian's Prometheus scrapes the metrics as they come (O5), and its `promtool` reads them and the alerts of `packaging`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use toolgate_tests::process::{ServerProcess, find_installed, free_address};
use toolgate_tests::{Client, Daemon, Reply, wait};

use crate::PROGRAM;

fn tool(name: &str) -> Command {
    Command::new(find_installed(PROGRAM, &format!("prometheus/usr/bin/{name}")))
}

/// The metrics in the format of a scraper that does not know OpenMetrics.
fn classic(scraper: &Client) -> Reply {
    scraper.send("GET", "/metrics", &[("Accept", "text/plain;version=0.0.4")], b"").expect(200)
}

#[test]
#[cfg_attr(not(has = "prometheus"), ignore = "needs Prometheus, which `.ci/run` installs")]
fn o5_prometheus_scrapes_the_metrics_and_promtool_finds_no_fault_in_them() {
    let metrics = free_address();
    let daemon = Daemon::start(PROGRAM, &format!("[metrics]\nlisten = \"{metrics}\""));
    Client::new(daemon.address, Some("tg_0123456789abcdef_wrong")).get("/v1/orgs").expect(401);
    let scraper = Client::new(metrics, None);
    let text = classic(&scraper).text();
    assert!(text.contains("toolgate_requests_refused_total{reason=\"unknown_token\"} 1\n"), "{text}");
    assert!(text.contains("le=\"+Inf\""), "{text}");
    let mut check = tool("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().expect("promtool");
    check.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    let told = check.wait_with_output().expect("an end");
    assert!(told.status.success() && told.stderr.is_empty(), "{}", String::from_utf8_lossy(&told.stderr));

    let (folder, web) = (tempfile::tempdir().expect("a folder"), free_address());
    let config = format!(
        "scrape_configs:\n- {{job_name: toolgate, scrape_interval: 1s, static_configs: [{{targets: ['{metrics}']}}]}}\n"
    );
    fs::write(folder.path().join("prometheus.yml"), config).expect("written");
    let mut prometheus = tool("prometheus");
    prometheus
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
        .arg(format!("--web.listen-address={web}"))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _prometheus = ServerProcess::spawn(&mut prometheus);
    let web = Client::new(web, None);
    let value = |query: &str| {
        let reply = web.try_send("GET", &format!("/api/v1/query?query={query}"), &[], b"").ok()?;
        if reply.status != 200 {
            return None;
        }
        reply.json()["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    for (query, expected) in [
        ("up", "1"),
        ("toolgate_ready", "1"),
        ("toolgate_requests_refused_total%7Breason%3D%22unknown_token%22%7D", "1"),
    ] {
        wait::until_true(query, || value(query).as_deref() == Some(expected));
    }
}

#[test]
#[cfg_attr(not(has = "prometheus"), ignore = "needs Prometheus, which `.ci/run` installs")]
fn o5_each_alert_fires_for_its_cause_and_after_its_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("packaging").join("prometheus");
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let told = tool("promtool").args(arguments).current_dir(&folder).output().expect("promtool");
        let text = String::from_utf8_lossy(&told.stdout) + String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{text}");
    }
}
