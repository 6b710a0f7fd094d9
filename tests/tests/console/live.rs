//! Live pages: streams of calls, of the inbox, and of the number of approvals that wait.

use std::time::Instant;

use toolgate_tests::events::Stream;
use toolgate_tests::{Value, json, wait};

use crate::person::{Form, Person};
use crate::{Tenant, with_fixture};

const CALLS: &str = "/console/calls/live/fragment";
const INBOX: &str = "/console/approvals/live/fragment";
const BADGE: &str = "/console/live/fragment";

/// An event of a stream with its id.
#[derive(Debug)]
struct LiveEvent {
    id: Option<u64>,
    name: String,
    data: Value,
}

/// Reads events of this name, up to the first one that fits.
fn wait_for(stream: &mut Stream, name: &str, fits: impl Fn(&Value) -> bool) -> LiveEvent {
    loop {
        let event = next(stream).expect("the stream goes on");
        if event.name == name && fits(&event.data) {
            return event;
        }
    }
}

fn next(stream: &mut Stream) -> Option<LiveEvent> {
    let (mut id, mut name, begun) = (None, None, Instant::now());
    loop {
        // Keep-alive comments reset the read timeout of a stream that should end.
        assert!(begun.elapsed() < wait::TIMEOUT, "no event comes");
        let line = stream.line()?;
        if let Some(number) = line.strip_prefix("id: ") {
            id = number.parse().ok();
        } else if let Some(event) = line.strip_prefix("event: ") {
            name = Some(event.to_owned());
        } else if let (Some(data), Some(name)) = (line.strip_prefix("data: "), name.clone()) {
            return Some(LiveEvent { id, name, data: data.parse().expect("JSON") });
        }
    }
}

fn text<'a>(data: &'a Value, member: &str) -> &'a str {
    data[member].as_str().unwrap_or_default()
}

fn whole(stream: &mut Stream) -> LiveEvent {
    wait_for(stream, "whole", |_| true)
}

/// Makes calls that only read, in requests of 30.
fn make_calls(tenant: &Tenant, prefix: &str, count: usize) {
    let call = |number: usize| {
        let arguments = json!({"to": "bob", "amount": number});
        json!({"id": format!("{prefix}{number}"), "tool": "pay/quote", "arguments": arguments})
    };
    let calls: Vec<Value> = (0..count).map(call).collect();
    for calls in calls.chunks(30) {
        tenant.session.calls(calls).iter().for_each(|reply| assert_eq!(reply.status(), "ok", "{}", reply.0));
    }
}

#[test]
fn o6_a_stream_has_the_calls_of_its_organization_that_match() {
    with_fixture(|fixture| {
        let (tenant, rival) = (fixture.tenant(), fixture.tenant());
        let person = Person::sign_in(&tenant.owner);
        let refusals = format!("{CALLS}?error_type=INVALID_ARGUMENTS&tool=pay/quote");
        let (mut all, mut refused) = (person.stream(CALLS), person.stream(&refusals));
        let mut operators =
            Person::sign_in(&fixture.operator).stream(&format!("{CALLS}?organization={}", tenant.name));
        for stream in [&mut all, &mut refused, &mut operators] {
            let list = whole(stream);
            assert!(text(&list.data, "html").contains("No call matches"), "{list:?}");
        }
        make_calls(&rival, "r", 1);
        make_calls(&tenant, "q", 1);
        tenant.session.call_as("wrong", "pay/quote", json!({"to": 5})).expect_error("INVALID_ARGUMENTS");
        let has = |call: &str| {
            let link = format!("/console/calls/{}/{call}", tenant.session.id);
            move |data: &Value| text(data, "rows").contains(&link)
        };
        for stream in [&mut all, &mut operators] {
            let has_ended = |data: &Value| text(data, "rows").contains("INVALID_ARGUMENTS");
            let event = wait_for(stream, "rows", |data| has("wrong")(data) && has_ended(data));
            assert!(!text(&event.data, "rows").contains(&rival.name), "{event:?}");
        }
        let event = wait_for(&mut refused, "rows", |_| true);
        assert!(has("wrong")(&event.data) && !has("q0")(&event.data), "{event:?}");
    });
}

#[test]
fn o6_a_stream_sends_few_rows_at_once_and_counts_the_others() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let filter = format!("{CALLS}?status=ok");
        let mut stream = person.stream(&filter);
        let mut last = whole(&mut stream).id.expect("an id");
        make_calls(&tenant, "q", 90);
        let (mut sent, mut left_out) = (0, 0);
        while sent + left_out < 90 {
            let event = wait_for(&mut stream, "rows", |_| true);
            let rows = text(&event.data, "rows").matches("<tr").count() as u64;
            assert!((1..=20).contains(&rows), "{rows} rows at once");
            let id = event.id.expect("an id");
            assert!(id > last, "{id} after {last}");
            last = id;
            (sent, left_out) = (sent + rows, left_out + event.data["left_out"].as_u64().expect("a number"));
        }
        assert_eq!(sent + left_out, 90, "each call once");
        // A page that is opened now misses none of the newest calls.
        let list = whole(&mut person.stream(&filter));
        assert_eq!(text(&list.data, "html").matches("<tr data-row").count(), 50);
        for number in 60..90 {
            let link = format!("/{}/q{number}\"", tenant.session.id);
            assert!(text(&list.data, "html").contains(&link), "no {link}: {list:?}");
        }
        drop(stream);
        // A break: more calls than the list has rows.
        make_calls(&tenant, "later", 60);
        // A search waits for the index, which a stream follows.
        fixture.operator.audit("limit=1");
        // Another list of the same calls has no page that looked at it meanwhile.
        let again = format!("{filter}&agent=bot");
        let mut resumed = person.stream(&format!("{again}&cursor={last}"));
        let event = wait_for(&mut resumed, "left_out", |_| true);
        assert_eq!(event.data["left_out"], 10, "60 calls, of which the list has 50");
        let list = whole(&mut resumed);
        assert_eq!(text(&list.data, "html").matches("<tr data-row").count(), 50);
        assert!(text(&list.data, "html").contains("/later59"), "{list:?}");
        // Nothing is sent twice to those who have everything.
        let end = list.id.expect("an id");
        let mut second = person.stream(&format!("{again}&cursor={end}"));
        make_calls(&tenant, "last", 1);
        let event = loop {
            let event = next(&mut second).expect("the stream goes on");
            if event.name != "badge" {
                break event;
            }
        };
        assert_eq!(event.name, "rows", "{event:?}");
        assert_eq!(person.get(&format!("{CALLS}?cursor=x")).status, 400);
    });
}

#[test]
fn o6_the_inbox_and_its_number_follow_decisions() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.approver);
        let (mut inbox, mut badge) = (person.stream(INBOX), person.stream(BADGE));
        let list = whole(&mut inbox);
        assert!(text(&list.data, "html").contains("No call waits"), "{list:?}");
        let shows = |count: &'static str| {
            move |data: &Value| text(data, "html").contains(&format!("data-count=\"{count}\""))
        };
        let approval = tenant.ask("c1", json!({"to": "bob", "amount": 5}));
        // The stream of the list has the number, too, before or after its row.
        let (mut rows, mut has_number) = (None, false);
        while rows.is_none() || !has_number {
            let event = next(&mut inbox).expect("the stream goes on");
            has_number |= event.name == "badge" && shows("1")(&event.data);
            rows = rows.or(Some(event).filter(|event| event.name == "rows"));
        }
        let event = rows.expect("a row");
        assert!(text(&event.data, "rows").contains(&format!("/console/approvals/{approval}")), "{event:?}");
        wait_for(&mut badge, "badge", shows("1"));
        let page = person.page(&format!("/console/approvals/{approval}"));
        person.submit(&Form::press(&page, "decision", "deny").with("reason", "no")).expect(303);
        let event = wait_for(&mut inbox, "rows", |_| true);
        assert_eq!(event.data["removed"], json!([approval]));
        wait_for(&mut badge, "badge", |data| text(data, "html").is_empty());
    });
}

#[test]
fn o6_a_stream_ends_with_its_session_and_its_token() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let mut stream = person.stream(CALLS);
        whole(&mut stream);
        let page = person.page("/console");
        person.submit(&Form::find(&page, "/console/sign-out")).expect(303);
        // The next thing that happens finds no session.
        make_calls(&tenant, "q", 1);
        while next(&mut stream).is_some() {}

        let request = json!({"role": "auditor", "organization": tenant.name});
        let made = fixture.operator.post("/v1/tokens", &request).expect(201).json();
        let person = Person::new(&fixture.daemon);
        person.try_sign_in(made["token"].as_str().expect("a token")).expect(303);
        let mut stream = person.stream(CALLS);
        whole(&mut stream);
        let id = made["id"].as_str().expect("an id");
        fixture.operator.delete(&format!("/v1/tokens/{id}")).expect(204);
        while next(&mut stream).is_some() {}
    });
}

#[test]
fn o6_streams_are_for_roles_that_see_the_page_and_limited() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let orchestrator = json!({"role": "orchestrator", "organization": tenant.name});
        let orchestrator = Person::sign_in(&fixture.operator.with_new_token(&orchestrator));
        let approver = Person::sign_in(&tenant.approver);
        let owner = Person::sign_in(&tenant.owner);
        for (person, path) in
            [(&orchestrator, CALLS), (&orchestrator, INBOX), (&orchestrator, BADGE), (&approver, CALLS)]
        {
            let reply = person.get(path);
            assert_eq!(reply.status, 403, "{path}: {}", reply.text());
        }
        let rival = fixture.tenant().name;
        for path in [CALLS, INBOX] {
            let reply = owner.get(&format!("{path}?organization={rival}"));
            assert_eq!(reply.status, 404, "{path}: {}", reply.text());
        }
        let anonymous = Person::new(&fixture.daemon);
        assert_eq!(anonymous.get(BADGE).expect(303).header("location"), Some("/console/sign-in"));
        let streams: Vec<Stream> = (0..16).map(|_| approver.stream(BADGE)).collect();
        let reply = approver.get(BADGE);
        assert_eq!(reply.status, 429, "{}", reply.text());
        assert!(reply.text().contains("lose some of them"), "{}", reply.text());
        owner.stream(BADGE);
        drop(streams);
        wait::until_true("room for a stream", || approver.begin(BADGE).head().status == 200);
    });
}
