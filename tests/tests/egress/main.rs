//! Outgoing HTTP: a guest reaches the granted hosts and no others, and controls only the content of a request (B3,
//! B5, K4).
//!
//! The upstream is a real server on a loopback address, which the grant must allow. A refused request must open no
//! connection there, while its positive twin does.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod responses;
mod connection_limits;
mod custom_tools;
mod failed_connections;
mod grants;
mod injection;
mod mcp_stub;
mod stored_credentials;
mod http_plugin;
mod published_documents;
mod refusals;
mod traces;
mod write_ahead;
mod wire;

use toolgate_tests::upstream::{self, TRUSTED, UNTRUSTED, Upstream};
use toolgate_tests::{CallReply, Daemon, Options, Session, Shared, Value, guests, json, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// URL of most requests.
const API: &str = "https://api.upstream.test:8443";

static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
    upstream: Upstream,
    agents: u32,
}

impl Fixture {
    fn start() -> Self {
        let upstream = Upstream::start();
        // A closed port: a request through a proxy from the environment would fail.
        let proxies = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let under =
            ["env".to_owned()].into_iter().chain(proxies.map(|name| format!("{name}=http://127.0.0.1:9")));
        let options = Options { settings: upstream.settings(), under: under.collect(), ..Options::default() };
        let daemon = Daemon::start_with(PROGRAM, options);
        let operator = daemon.operator();
        operator.load("caller", guests::CALLER);
        let here = upstream.address.to_string();
        let untrusted = UNTRUSTED.map(|(name, _)| name);
        for name in ["api", "other", "moving", "mixed", "plain", TRUSTED].into_iter().chain(untrusted) {
            upstream.dns.set_answers(&format!("{name}.upstream.test"), &[&[&here]]);
        }
        operator.make("/v1/plugins/caller/grant", &grant(&upstream)).expect(201);
        Self { daemon, upstream, agents: 0 }
    }

    fn session(&mut self) -> Session {
        self.session_with(&json!({}))
    }

    fn session_with(&mut self, document: &Value) -> Session {
        self.agents += 1;
        let mut document = document.clone();
        document["enabled"] = json!(["*"]);
        let agent = format!("acme/a{}", self.agents);
        self.daemon.operator().make_agent(&agent, &document);
        self.daemon.operator().open_session(&agent)
    }

    /// Network effects of a session in the audit log.
    fn effects(&self, session: &Session) -> Vec<(String, String)> {
        let rows = self.daemon.operator().audit(&format!("kind=effect&session={}", session.id));
        let text = |row: &Value, name: &str| row["effect"][name].as_str().unwrap_or_default().to_owned();
        rows.iter().map(|row| (text(row, "effect"), text(row, "detail"))).collect()
    }
}

/// Grant of everything that the guest declares, and of the upstream's private network.
fn grant(upstream: &Upstream) -> Value {
    let mut grant = upstream.grant(json!({
        "network": [
            {"host": "api.upstream.test", "port": 8443},
            {"host": "moving.upstream.test", "port": 8443, "methods": ["GET"]},
            {"host": "mixed.upstream.test", "port": 8443, "path": "/open/"},
            {"scheme": "http", "host": "plain.upstream.test", "port": 8080},
            {"host": "127.0.0.1", "port": 8443},
        ],
        "plain_http": ["plain.upstream.test:8080"],
    }));
    let network = grant["network"].as_array_mut().expect("a list");
    for label in UNTRUSTED.map(|(label, _)| label).into_iter().chain([TRUSTED]) {
        network.push(json!({"host": format!("{label}.upstream.test"), "port": 8443}));
    }
    grant
}

fn with_fixture<R>(test: impl FnOnce(&mut Fixture) -> R) -> R {
    FIXTURE.with(Fixture::start, |fixture| {
        fixture.upstream.answer(|_| upstream::ok("text/plain", "hello"));
        test(fixture)
    })
}

fn fetch(session: &Session, method: &str, url: &str) -> CallReply {
    session.call("caller/fetch", json!({"method": method, "url": url, "headers": []}))
}

/// Positive twin of the refusals below.
#[test]
fn b3_a_granted_request_is_answered_and_recorded_without_its_query() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let reply = fetch(&session, "GET", &format!("{API}/points/7?key=secret"));
        let output = reply.output().as_str().unwrap_or_default().to_owned();
        assert!(output.starts_with("200\n") && output.ends_with("\n\nhello"), "{output}");
        assert!(reply.usage("egress_bytes") > 100, "{}", reply.0);
        let request = fixture.upstream.requests().pop().expect("a request");
        assert!(request.starts_with("GET /points/7?key=secret HTTP/1.1\r\n"), "{request}");
        let effects = fixture.effects(&session);
        assert_eq!(effects.len(), 1, "{effects:?}");
        assert_eq!(effects[0].0, "network_request");
        assert!(
            effects[0].1.starts_with("GET https://api.upstream.test:8443/points/7: 200, "),
            "{effects:?}"
        );
        assert!(!format!("{effects:?}").contains("secret"));
    });
}

#[test]
fn b3_a_name_is_resolved_once_per_connection() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        // A resolver asks again where a busy machine answers late, so that one of several connections counts.
        let queries: Vec<usize> = (0..5)
            .map(|number| {
                // The organization has no open connection yet.
                let agent = format!("asking{number}/a");
                operator.make_agent(&agent, &json!({"enabled": ["*"]}));
                let before = fixture.upstream.dns.query_count("api.upstream.test");
                fetch(&operator.open_session(&agent), "GET", &format!("{API}/")).output();
                fixture.upstream.dns.query_count("api.upstream.test") - before
            })
            .collect();
        assert_eq!(queries.iter().min(), Some(&1), "{queries:?}");
    });
}

/// Connections are pooled per organization.
#[test]
fn b3_connections_are_pooled_per_organization() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| upstream::answer(200, &[], b"kept"));
        let operator = fixture.daemon.operator();
        // The organizations have no open connections yet.
        let open = |agent: &str| {
            operator.make_agent(agent, &json!({"enabled": ["*"]}));
            operator.open_session(agent)
        };
        let (one, other) = (open("keeping/a"), open("other/a"));
        let before = fixture.upstream.connections();
        fetch(&one, "GET", &format!("{API}/")).output();
        fetch(&one, "GET", &format!("{API}/")).output();
        assert_eq!(fixture.upstream.connections(), before + 1);
        fetch(&other, "GET", &format!("{API}/")).output();
        assert_eq!(fixture.upstream.connections(), before + 2);
    });
}

#[test]
fn b3_a_disconnect_closes_the_upstream_connection() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| vec![upstream::Piece::Hang]);
        let session = fixture.session();
        let hanging = || fixture.upstream.hanging_connections();
        wait::until_true("the connections of other tests to end", || hanging() == 0);
        let body = json!({"method": "GET", "url": format!("{API}/"), "headers": []});
        let pending = session.start_cancellable("c1", "caller/fetch", body);
        wait::until_true("the request", || hanging() == 1);
        drop(pending);
        wait::until_true("the end of the connection", || hanging() == 0);
    });
}
