//! Connection limits: of the daemon, and of each organization.

use toolgate_tests::client::Pending;
use toolgate_tests::{CallReply, Daemon, Session, guests, json, wait};

use super::upstream::Piece;
use super::{API, Fixture, PROGRAM, TRUSTED, grant, upstream, with_fixture};

/// URL without a response, to keep a connection open.
const HANG: &str = "https://api.upstream.test:8443/hang";

/// Starts a daemon with these limits. The upstream of the fixture answers and keeps connections open.
fn start_daemon(fixture: &Fixture, all: u64, of_one: u64) -> Daemon {
    let settings = fixture.upstream.settings()
        + &format!("connections = {all}\nconnections_per_organization = {of_one}\n");
    fixture.upstream.answer(|request| match request.starts_with("GET /hang") {
        true => vec![upstream::Piece::Hang],
        false => upstream::answer(200, &[], b"hello"),
    });
    let daemon = Daemon::start(PROGRAM, &settings);
    daemon.operator().load("caller", guests::CALLER);
    daemon.operator().make("/v1/plugins/caller/grant", &grant(&fixture.upstream)).expect(201);
    daemon
}

fn session(daemon: &Daemon, organization: &str) -> Session {
    daemon.session_within(&format!("{organization}/bot"), &json!({}))
}

/// Starts a request that holds its connection until the return value is dropped.
fn hold(fixture: &Fixture, session: &Session, id: &str) -> Pending {
    let before = fixture.upstream.requests().len();
    let pending =
        session.start_cancellable(id, "caller/fetch", json!({"method": "GET", "url": HANG, "headers": []}));
    fixture.upstream.wait_until("the request", |seen, _| seen > before);
    pending
}

/// Sends a request with a connect timeout.
fn fetch(session: &Session, url: &str, connect_ms: Option<u64>) -> CallReply {
    session
        .call("caller/fetch", json!({"method": "GET", "url": url, "headers": [], "connect_ms": connect_ms}))
}

/// Asserts that no connection becomes free within the timeout.
#[track_caller]
fn assert_overloaded(fixture: &Fixture, session: &Session) {
    let before = fixture.upstream.connections();
    // Before it waits for a connection, it looks the name up, which takes longer on a busy machine.
    let reply = wait::until("a call that waited for a connection", || {
        let reply = fetch(session, API, Some(100));
        assert_ne!(reply.status(), "ok", "{}", reply.0);
        (reply.error_type() == Some("OVERLOADED")).then_some(reply)
    });
    assert!(reply.message().contains("too many connections are open"), "{}", reply.0);
    assert!(reply.0["error"]["hint"].as_str().is_some_and(|hint| hint.contains("egress.connections")));
    assert_eq!(reply.0["error"]["details"]["retry_after_ms"], 1_000, "{}", reply.0);
    assert_eq!(fixture.upstream.connections(), before, "a connection was opened");
}

#[test]
fn a_request_waits_while_all_connections_are_in_use() {
    with_fixture(|fixture| {
        let daemon = start_daemon(fixture, 1, 1);
        let (one, other) = (session(&daemon, "one"), session(&daemon, "other"));
        let holding = hold(fixture, &one, "c1");
        assert_overloaded(fixture, &one);
        assert_overloaded(fixture, &other);
        let before = fixture.upstream.connections();
        let arguments = json!({"method": "GET", "url": API, "headers": []});
        let waiting = other.start("c2", "caller/fetch", arguments);
        other.wait_until_running("c2");
        assert_eq!(fixture.upstream.connections(), before);
        drop(holding);
        let answer = waiting.reply().expect(200).json();
        assert_eq!(answer["results"][0]["status"], "ok", "{answer}");
        assert_eq!(fixture.upstream.connections(), before + 1);
        // The refusal is in the audit log, and the disconnected call has freed its connection.
        let refused = daemon.operator().audit(&format!("kind=effect&session={}", other.id));
        assert!(refused.iter().any(|row| row.to_string().contains("too many connections are open")));
        fetch(&one, API, None).output();
    });
}

#[test]
fn an_organization_at_its_connection_limit_does_not_block_others() {
    with_fixture(|fixture| {
        let daemon = start_daemon(fixture, 3, 2);
        let (noisy, quiet) = (session(&daemon, "noisy"), session(&daemon, "quiet"));
        let _holding = [hold(fixture, &noisy, "c1"), hold(fixture, &noisy, "c2")];
        assert_overloaded(fixture, &noisy);
        fetch(&quiet, API, None).output();
        // Requests that wait for the organization's own limit do not block the queue of the others.
        let arguments = json!({"method": "GET", "url": API, "headers": []});
        let many = ["c3", "c4", "c5"].map(|id| noisy.start(id, "caller/fetch", arguments.clone()));
        noisy.wait_until_running("c5");
        fetch(&quiet, API, None).output();
        fetch(&session(&daemon, "third"), API, None).output();
        // The daemon ends before the connections that the others wait for, so that none is opened during the next test.
        drop(daemon);
        drop(many);
    });
}

/// The response came first, so a task drives the connection. The task's end frees the connection's slot.
#[test]
fn a_connection_closed_by_its_server_frees_its_slot() {
    with_fixture(|fixture| {
        let daemon = start_daemon(fixture, 2, 2);
        fixture.upstream.answer_early(|request| match request.starts_with("POST") {
            true => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec();
                vec![Piece::Bytes(head), Piece::Rest, Piece::Bytes(b"whole".to_vec()), Piece::End]
            }
            false => upstream::answer(200, &[], b"hello"),
        });
        let ended = fixture.upstream.closed_connections();
        let body = "x".repeat(512 * 1024);
        let arguments =
            json!({"method": "POST", "url": API, "headers": [], "body": body, "response_first": true});
        session(&daemon, "one").call("caller/fetch", arguments).output();
        fixture.upstream.end_one();
        fixture.upstream.wait_until("the end of that connection", |_, closed| closed > ended);
        for organization in ["two", "three", "four"] {
            fetch(&session(&daemon, organization), API, None).output();
        }
    });
}

#[test]
fn idle_connections_are_closed_for_new_ones() {
    with_fixture(|fixture| {
        let daemon = start_daemon(fixture, 2, 1);
        let (one, other, third) =
            (session(&daemon, "one"), session(&daemon, "other"), session(&daemon, "third"));
        let opened = |fetch: &dyn Fn()| {
            let (connections, closed) =
                (fixture.upstream.connections(), fixture.upstream.closed_connections());
            fetch();
            (fixture.upstream.connections() - connections, closed)
        };
        let ok = |session: &Session, url: &str| drop(fetch(session, url, None).output().clone());
        assert_eq!(opened(&|| ok(&one, API)).0, 1);
        assert_eq!(opened(&|| ok(&one, API)).0, 0, "a pooled connection was not reused");
        // Another host of the same organization, whose limit is one connection.
        let (new, closed) = opened(&|| ok(&one, &format!("https://{TRUSTED}.upstream.test:8443/")));
        assert_eq!(new, 1);
        fixture.upstream.wait_until("the pooled connection to be closed", |_, ended| ended > closed);
        // A third organization, while the limit of all is two.
        assert_eq!(opened(&|| ok(&other, API)).0, 1);
        let (new, closed) = opened(&|| ok(&third, API));
        assert_eq!(new, 1);
        fixture.upstream.wait_until("the longest idle connection to be closed", |_, ended| ended > closed);
        assert_eq!(opened(&|| ok(&other, API)).0, 0, "the last used connection was closed");
        // Connections in use are not closed.
        let _holding = [hold(fixture, &other, "c1"), hold(fixture, &third, "c2")];
        assert_overloaded(fixture, &one);
    });
}
