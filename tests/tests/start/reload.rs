//! SIGHUP: settings that are in force at once, those that wait for a restart, and a file with an error.

use std::fs;

use toolgate_tests::{Client, Daemon, guests, json};

use crate::PROGRAM;

/// What a request shows of a setting.
type Probe = fn(&Client) -> String;

/// A setting with its probe, before and after the change.
const SETTINGS: &[(&str, Probe, &str, &str)] = &[
    ("allowed_hosts", served_host, "403", "200"),
    ("plugins.registries", registry, "INVALID_REQUEST", "API_UNAVAILABLE"),
    ("rates", third_call, "ok", "RATE_LIMITED"),
    ("webhooks.hosts", webhook, "NETWORK_DENIED", "201"),
    ("credentials.private_hosts", private_host, "not listed", "reached for"),
    // After calls, which it counts.
    ("metrics.organizations", counted_organization, "false", "true"),
];

const CHANGED: &str = r#"
allowed_hosts = ["127.0.0.1", "tools.example"]
[metrics]
organizations = ["acme"]
[[plugins.registries]]
host = "127.0.0.1:1"
plain_http = true
[rates]
calls_per_second = 1
burst = 1
[credentials]
private_hosts = ["127.0.0.1:1"]
[webhooks]
hosts = ["hooks.example"]
[queue]
waiting_total = 2000
[calls]
per_request = 31
[consent]
required = false
"#;

fn served_host(operator: &Client) -> String {
    operator.send("GET", "/healthz", &[("Host", "tools.example")], b"").status.to_string()
}

fn counted_organization(operator: &Client) -> String {
    operator.get("/metrics").expect(200).text().contains("organization=\"acme\"").to_string()
}

fn registry(operator: &Client) -> String {
    let body = json!({"source": "oci://127.0.0.1:1/tools/weather:1"}).to_string();
    let headers = [("Content-Type", "application/json")];
    let reply = operator.send("PUT", "/v1/plugins/weather", &headers, body.as_bytes());
    reply.json()["error_type"].as_str().unwrap_or("none").to_owned()
}

fn private_host(operator: &Client) -> String {
    let found = operator.post("/v1/oauth/discover", &json!({"url": "https://127.0.0.1:1/mcp"})).expect(200);
    let is_refused = found.text().contains("is not in `credentials.private_hosts`");
    if is_refused { "not listed" } else { "reached for" }.to_owned()
}

fn third_call(operator: &Client) -> String {
    let session = operator.open_session("acme/bot");
    let call = || session.call("hostile/echo", json!({"text": "x"}));
    let last = [call(), call(), call()].into_iter().next_back().expect("three calls");
    last.error_type().unwrap_or(last.status()).to_owned()
}

fn webhook(operator: &Client) -> String {
    let made = operator.make("/v1/orgs/acme/webhooks/chat", &json!({"url": "https://hooks.example/a"}));
    let refused = made.json()["error_type"].as_str().map(str::to_owned);
    refused.unwrap_or_else(|| made.status.to_string())
}

#[test]
fn a_hangup_puts_changed_settings_in_force_and_names_those_that_need_a_restart() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
    for (name, probe, before, _) in SETTINGS {
        assert_eq!(probe(&operator), *before, "{name} before");
    }
    let file = daemon.folder.path().join("toolgate.toml");
    // A file with an error leaves the settings in force.
    fs::write(&file, format!("lisen = 1\n{CHANGED}")).expect("written");
    daemon.hang_up();
    daemon.wait_for_log("the error", |line| {
        line.contains("unknown key `lisen`") && line.contains("cannot be read again")
    });
    for (name, probe, before, _) in SETTINGS {
        assert_eq!(probe(&operator), *before, "{name} after an error");
    }
    fs::write(&file, CHANGED).expect("written");
    daemon.hang_up();
    let waiting = daemon.wait_for_log("the rest", |line| line.contains("take effect at the next start"));
    for (name, probe, _, after) in SETTINGS {
        assert_eq!(probe(&operator), *after, "{name} after the change");
    }
    assert!(waiting.contains("queue.waiting_total") && waiting.contains("calls.per_request"), "{waiting}");
    for (name, ..) in SETTINGS {
        assert!(!waiting.contains(name), "{name} is in force: {waiting}");
    }
}
