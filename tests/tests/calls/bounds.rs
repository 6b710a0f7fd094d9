//! Queues, shares and rates that bound the calls of an organization, and the cost of single calls.

use super::*;

/// Two slots and one queue place for an organization: the fourth concurrent call is refused.
#[test]
fn a_full_queue_refuses_a_call_and_keeps_no_trace_of_it() {
    let settings = "[sandbox]\ninstances = 2\n[queue]\nwaiting_per_organization = 1\nwaiting_total = 2";
    let daemon = Daemon::start(PROGRAM, settings);
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let other = daemon.session_within("other/bot", &json!({}));
    let (first, second) = (session.start_dozing("r1"), session.start_dozing("r2"));
    let busy = [first, second, session.start("w1", "hostile/doze", json!({}))];
    session.wait_until_running("w1");
    let refused = session.call_as("full", "hostile/echo", json!({"text": "x"})).expect_error("OVERLOADED");
    assert!(refused.0["error"]["details"]["retry_after_ms"].is_u64(), "{}", refused.0);
    assert_eq!(refused.0["error"]["retryable"], true);
    // The refused call left no record, so its id can be used again.
    session.client.get(&session.path("/calls/full")).expect_refusal(404, "NOT_FOUND");
    let waiting = other.start("o1", "hostile/echo", json!({"text": "fair"}));
    for id in ["r1", "r2", "w1"] {
        session.cancel(id).expect(204);
    }
    for pending in busy {
        pending.reply().expect(200);
    }
    let answer = waiting.reply().expect(200).json();
    assert_eq!(answer["results"][0]["output"], "fair", "{answer}");
    assert_eq!(session.call_as("full", "hostile/echo", json!({"text": "x"})).output(), "x");
}

/// The calls sleep until their deadline and never yield their slot, so an organization may not hold every slot.
#[test]
fn long_calls_of_one_organization_leave_slots_for_others() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 4");
    daemon.operator().load("hostile", guests::HOSTILE);
    let noisy = daemon.session_within("noisy/bot", &json!({}));
    let quiet = daemon.session_within("quiet/bot", &json!({}));
    let mut asleep: Vec<_> = ["s1", "s2", "s3"].map(|id| noisy.start_dozing(id)).into();
    asleep.push(noisy.start("s4", "hostile/doze", json!({})));
    noisy.wait_until_running("s4");
    let call = |id| quiet.call_as(id, "hostile/echo", json!({"text": "fair"}));
    assert_eq!(call("q1").output(), "fair");
    assert_eq!(call("q2").output(), "fair");
    for id in ["s1", "s2", "s3", "s4"] {
        assert_eq!(noisy.get_call(id).status(), "running");
        noisy.cancel(id).expect(204);
    }
    for pending in asleep {
        pending.reply().expect(200);
    }
}

#[test]
fn r6_the_deadline_runs_while_a_call_waits_for_a_slot() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 1");
    daemon.operator().load("hostile", guests::HOSTILE);
    let busy = daemon.session_within("busy/bot", &json!({}));
    let hasty = daemon.session_within("hasty/bot", &json!({"deadline_ms": 300}));
    let asleep = busy.start_dozing("s1");
    for id in ["h1", "h2", "h3"] {
        let late = hasty.call_as(id, "hostile/echo", json!({"text": "x"})).expect_error("DEADLINE_EXCEEDED");
        assert_eq!(late.0["executed"], "no");
        assert_eq!(busy.get_call("s1").status(), "running");
    }
    busy.cancel("s1").expect(204);
    asleep.reply().expect(200);
    // A missed deadline in the queue does not count as a failure of the tool. A busy machine may miss another one.
    let in_time = wait::until("a call within its deadline", || {
        let reply = hasty.call("hostile/echo", json!({"text": "x"}));
        (reply.error_type() != Some("DEADLINE_EXCEEDED")).then_some(reply)
    });
    assert_eq!(in_time.output(), "x");
}

#[test]
fn a_rate_limit_applies_to_one_organization_alone() {
    let daemon = Daemon::start(PROGRAM, "[rates]\ncalls_per_second = 1\nburst = 3");
    let (noisy, quiet) =
        (daemon.session_within("noisy/bot", &json!({})), daemon.session_within("quiet/bot", &json!({})));
    let call = |session: &Session| session.call("arithmetic/evaluate", json!({"expression": "1"}));
    assert_eq!(call(&noisy).status(), "ok");
    // Consecutive calls exceed one per second, even on a slow machine.
    let limited =
        wait::until("a call over the rate", || Some(call(&noisy)).filter(|reply| reply.status() != "ok"));
    let limited = limited.expect_error("RATE_LIMITED");
    assert!(limited.0["error"]["details"]["retry_after_ms"].is_u64(), "{}", limited.0);
    assert_eq!(call(&quiet).status(), "ok");
}

/// Measures fuel, which is deterministic. The bound is a multiple of the fuel for reading the document.
#[test]
fn t7_the_cost_of_a_filter_is_a_multiple_of_reading_its_input() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let fuel = |filter: &str, value: &Value| {
            let reply = session.call("call_text_json_query", json!({"filter": filter, "value": value}));
            assert_eq!(reply.0["status"], "ok", "{filter}: {}", reply.0);
            reply.0["usage"]["fuel"].as_u64().expect("fuel")
        };
        let words: Vec<String> = (0..1_000).map(|number| format!("ab{number}xa")).collect();
        let nested = json!(words.iter().map(|word| json!([word, [word]])).collect::<Vec<_>>());
        let records: Vec<_> =
            words.iter().map(|word| json!({"name": word, "size": [1, 2.5, null]})).collect();
        let (text, words, records) = (json!(words.concat()), json!(words), json!(records));
        // Maximum multiples: a tenth more than jaq needs, and for `sub` and rows of tables what our own functions need.
        for (filter, value, most) in [
            ("join(\",\") | length", &words, 3),
            ("map([., .] | @csv) | length", &words, 4),
            ("map([., .] | @tsv) | length", &words, 4),
            ("map(gsub(\"a\"; \"b\")) | length", &words, 32),
            ("map(select(test(\"^ab\"))) | length", &words, 19),
            ("map({key: ., value: 1}) | from_entries | length", &words, 7),
            ("gsub(\"a\"; \"b\") | length", &text, 35),
            ("[scan(\"[0-9]+\")] | length", &text, 9),
            ("flatten | length", &nested, 8),
            ("[.. | numbers] | length", &records, 8),
            ("walk(if type == \"number\" then . + 1 else . end) | length", &records, 16),
        ] {
            let (reading, all) = (fuel("length", value), fuel(filter, value));
            assert!(all < most * reading, "{filter}: {all}, and to read it {reading}");
        }
    });
}

/// Linear cost: ten times the input needs ten times the fuel. A quadratic scan would need a hundred times.
#[test]
fn t7_the_cost_of_superscripts_grows_linearly() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let fuel = |stars: usize| {
            let page = format!("a{}", "<sup>*</sup>".repeat(stars));
            let reply = session.call("call_text_html_to_text", json!({"html": page}));
            let text = reply.output().as_str().map(str::len);
            assert_eq!(text, Some(stars + 1), "{}", reply.0["status"]);
            reply.0["usage"]["fuel"].as_u64().expect("fuel")
        };
        let (few, many) = (fuel(2_000), fuel(20_000));
        assert!(many < 12 * few, "{many}, and {few}");
    });
}
