//! Calls that wait for a person over MCP: what they cost, and that each denial is told (G11, M2).

use toolgate_tests::client::Pending;
use toolgate_tests::{Client, json, wait};

use super::bench::{Bench, Driver};

/// Calls that wait at once for `WAIT_MS`: a minute in all.
const WAITING: usize = 20;
const WAIT_MS: u64 = 3_000;
/// Most audit records of a minute of waiting.
const RECORDS: u64 = 5;
/// Most times that a thread of the daemon sleeps again in that minute, beside those of an idle one.
const WAITS: u64 = 200;
const TRIES: usize = 200;

fn waiting_call(agent: &Client, query: &str, path: &str) -> Pending {
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "call_files_write"),
    ];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params =
        json!({"name": "call_files_write", "arguments": {"path": path, "content": "hello"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    agent.start("POST", &format!("/mcp{query}"), &headers, body.as_bytes())
}

#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn g11_m2_a_minute_of_waiting_for_a_person_costs_at_most_five_records() {
    let bench = Bench::start();
    let agent = Client::new(bench.daemon().address, Some(&bench.agent_token("careful")));
    let idle = bench.usage_of_a_wait(WAIT_MS);
    let waiting: Vec<Pending> =
        (0..WAITING).map(|at| waiting_call(&agent, "?wait_ms=600000", &format!("{at}.txt"))).collect();
    wait::until_true("all calls to wait", || {
        let calls = bench.operator.audit("kind=call&tool=files/write&limit=100");
        calls.iter().filter(|call| call["status"] == "approval_required").count() == WAITING
    });
    let spent = bench.usage_of_a_wait(WAIT_MS).since(idle);
    println!("a minute of waiting: {spent:?}, beside {idle:?} of an idle daemon");
    assert!(spent.records <= RECORDS && spent.waits <= WAITS, "{spent:?}");
    for _ in 0..WAITING {
        bench.decide(&bench.pending_approval(), "deny");
    }
    for call in waiting {
        let text = call.reply().expect(200).text();
        assert!(text.contains("a person denied this call"), "{text}");
    }
}

/// A client that posts its call again and again asks a person once, and is told of the denial.
#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn g11_m2_a_client_that_posts_in_a_loop_is_told_of_each_denial() {
    let bench = Bench::start();
    let agent = Client::new(bench.daemon().address, Some(&bench.agent_token("careful")));
    for at in 0..TRIES {
        let path = format!("{at}.txt");
        std::thread::scope(|threads| {
            threads.spawn(|| bench.decide(&bench.pending_approval(), "deny"));
            wait::until_true("the denial", || {
                let text = waiting_call(&agent, "?wait_ms=0", &path).reply().expect(200).text();
                text.contains("a person denied this call")
            });
        });
        let pending = bench.owner.get("/v1/approvals?state=pending").expect(200).json();
        assert_eq!(pending["items"].as_array().map(Vec::len), Some(0), "try {at}: {pending}");
    }
    let approvals = bench.owner.get("/v1/approvals?limit=1000").expect(200).json();
    assert_eq!(
        approvals["items"].as_array().map(Vec::len),
        Some(TRIES),
        "a person is asked once for each call"
    );
}

/// Runs `denials.py` with PyPI `mcp` in one family of revisions.
fn deny(mode: &'static str) {
    let driver = Driver { name: "denials", environment: "mcp-2", script: "denials.py", argument: mode };
    Bench::start().run(&driver);
}

#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn g11_m2_a_client_of_the_newer_revision_is_told_of_200_denials() {
    deny("auto");
}

#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn g11_m2_a_client_of_the_older_revisions_is_told_of_200_denials() {
    deny("legacy");
}
