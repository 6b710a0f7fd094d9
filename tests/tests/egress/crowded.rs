//! Only so many connections are open at once, and no organization has all of them.

use toolgate_tests::client::Pending;
use toolgate_tests::{CallReply, Daemon, Session, guests, json};

use super::upstream::Piece;
use super::{API, Fixture, PROGRAM, TRUSTED, grant, upstream, with_fixture};

/// Where an upstream of [`crowded`] answers nothing, so that a connection stays open.
const HANG: &str = "https://api.upstream.test:8443/hang";

/// A daemon of its own with so many connections, whose plugin may reach the upstream of the fixture. Its answers leave
/// connections open.
fn started(fixture: &Fixture, all: u64, of_one: u64) -> Daemon {
    let settings = format!(
        "[egress]\nname_servers = [\"{}\"]\nconnections = {all}\nconnections_per_organization = {of_one}\n",
        fixture.upstream.dns.address
    );
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

/// A request that keeps its connection until what comes back is dropped.
fn hold(fixture: &Fixture, session: &Session, id: &str) -> Pending {
    let before = fixture.upstream.requests().len();
    let pending = session.start(id, "caller/fetch", json!({"method": "GET", "url": HANG, "headers": []}));
    fixture.upstream.wait_until("the request", |seen, _| seen > before);
    pending
}

/// A request that has this long to get a connection, and enough without a number.
fn fetch(session: &Session, url: &str, connect_ms: Option<u64>) -> CallReply {
    session
        .call("caller/fetch", json!({"method": "GET", "url": url, "headers": [], "connect_ms": connect_ms}))
}

/// Finds no connection in the time that it has.
#[track_caller]
fn is_crowded_out(fixture: &Fixture, session: &Session) {
    let before = fixture.upstream.connections();
    let reply = fetch(session, API, Some(100)).expect_error("OVERLOADED");
    assert!(reply.message().contains("too many connections are open"), "{}", reply.0);
    assert!(reply.0["error"]["hint"].as_str().is_some_and(|hint| hint.contains("egress.connections")));
    assert_eq!(reply.0["error"]["details"]["retry_after_ms"], 1_000, "{}", reply.0);
    assert_eq!(fixture.upstream.connections(), before, "it was connected all the same");
}

#[test]
fn a_request_waits_for_a_connection_to_end_where_all_are_taken() {
    with_fixture(|fixture| {
        let daemon = started(fixture, 1, 1);
        let (one, other) = (session(&daemon, "one"), session(&daemon, "other"));
        let holding = hold(fixture, &one, "c1");
        is_crowded_out(fixture, &one);
        is_crowded_out(fixture, &other);
        let before = fixture.upstream.connections();
        let arguments = json!({"method": "GET", "url": API, "headers": []});
        let waiting = other.start("c2", "caller/fetch", arguments);
        other.wait_until_running("c2");
        assert_eq!(fixture.upstream.connections(), before);
        drop(holding);
        let answer = waiting.reply().expect(200).json();
        assert_eq!(answer["results"][0]["status"], "ok", "{answer}");
        assert_eq!(fixture.upstream.connections(), before + 1);
        // What was refused is in the record of its call, and what hung up left nothing behind.
        let refused = daemon.operator().audit(&format!("kind=effect&session={}", other.id));
        assert!(refused.iter().any(|row| row.to_string().contains("too many connections are open")));
        fetch(&one, API, None).output();
    });
}

#[test]
fn an_organization_that_has_all_its_connections_leaves_the_others_theirs() {
    with_fixture(|fixture| {
        let daemon = started(fixture, 3, 2);
        let (noisy, quiet) = (session(&daemon, "noisy"), session(&daemon, "quiet"));
        let _holding = [hold(fixture, &noisy, "c1"), hold(fixture, &noisy, "c2")];
        is_crowded_out(fixture, &noisy);
        fetch(&quiet, API, None).output();
        // Many that wait for what is the noisy one's are before nobody else in the line of all.
        let arguments = json!({"method": "GET", "url": API, "headers": []});
        let many = ["c3", "c4", "c5"].map(|id| noisy.start(id, "caller/fetch", arguments.clone()));
        noisy.wait_until_running("c5");
        fetch(&quiet, API, None).output();
        fetch(&session(&daemon, "third"), API, None).output();
        drop(many);
    });
}

/// It was driven by a task of its own, since its answer came first, and has no slot any more once that task has ended.
#[test]
fn a_kept_connection_that_its_server_ended_is_not_all_that_makes_room() {
    with_fixture(|fixture| {
        let daemon = started(fixture, 2, 2);
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
fn connections_that_are_kept_and_not_used_make_room() {
    with_fixture(|fixture| {
        let daemon = started(fixture, 2, 1);
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
        assert_eq!(opened(&|| ok(&one, API)).0, 0, "a kept connection is used again");
        // Another place of the same organization, which may have one.
        let (new, closed) = opened(&|| ok(&one, &format!("https://{TRUSTED}.upstream.test:8443/")));
        assert_eq!(new, 1);
        fixture.upstream.wait_until("the kept one to be closed", |_, ended| ended > closed);
        // A third organization, where there are two connections in all.
        assert_eq!(opened(&|| ok(&other, API)).0, 1);
        let (new, closed) = opened(&|| ok(&third, API));
        assert_eq!(new, 1);
        fixture.upstream.wait_until("the one that was idle longest to be closed", |_, ended| ended > closed);
        assert_eq!(opened(&|| ok(&other, API)).0, 0, "the one that was used last is still kept");
        // What is in use makes no room.
        let _holding = [hold(fixture, &other, "c1"), hold(fixture, &third, "c2")];
        is_crowded_out(fixture, &one);
    });
}
