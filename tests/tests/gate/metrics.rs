//! Metrics (O5): the numbers move by what was called, and no tenant is named unless the operator lists it.

use toolgate_tests::process;

use super::*;

/// The value of a sample, which is named with its labels.
#[track_caller]
fn value(text: &str, sample: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().expect("a whole number")
}

/// Makes one call that works and one that the gate refuses.
fn make_calls(operator: &Client) {
    operator.make_agent("zebra/bot", &json!({"enabled": ["time/now"]}));
    let session = operator.open_session("zebra/bot");
    assert_eq!(session.call("time/now", json!({})).status(), "ok");
    session.call("files/list", json!({})).expect_error("ACCESS_DENIED");
}

#[test]
fn o5_metrics_move_by_what_was_called_and_name_no_tenant() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let before = operator.get("/metrics").expect(200).text();
    make_calls(&operator);
    let reply = operator.get("/metrics").expect(200);
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = reply.text();
    assert!(
        text.contains("# TYPE toolgate_calls_total counter")
            && text.contains("# TYPE toolgate_build_info gauge")
    );
    assert!(!text.contains("# EOF") && text.contains("le=\"+Inf\""), "{text}");
    let accept =
        [("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")];
    let open = operator.send("GET", "/metrics", &accept, b"").expect(200);
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let open = open.text();
    assert!(open.contains("# TYPE toolgate_calls counter") && open.ends_with("# EOF\n"), "{open}");
    assert_eq!(value(&text, "toolgate_calls_total{outcome=\"ok\"}"), 1);
    assert_eq!(value(&text, "toolgate_calls_total{outcome=\"ACCESS_DENIED\"}"), 1);
    assert_eq!(value(&text, "toolgate_refusals_total{layer=\"agent\"}"), 1);
    for (phase, calls) in [("queue", 2), ("decision", 2), ("instance", 1), ("run", 1), ("record", 2)] {
        let sample = format!("toolgate_call_phase_seconds_count{{phase=\"{phase}\"}}");
        assert_eq!(value(&text, &sample), calls, "{phase}");
    }
    assert!(value(&text, "toolgate_fuel_total") > 0);
    for counter in ["toolgate_audit_records_total", "toolgate_audit_syncs_total"] {
        assert!(value(&text, counter) > value(&before, counter), "{counter}");
    }
    assert_eq!(value(&text, "toolgate_instances_live"), 0);
    assert!(value(&text, "toolgate_store_bytes") > 0);
    assert!(text.contains("wasmtime=\""));
    assert!(!text.contains("zebra"), "{text}");
    daemon.anonymous().get("/metrics").expect_refusal(401, "UNAUTHENTICATED");
}

#[test]
fn o5_a_listed_organization_is_a_label_and_the_own_listener_needs_no_token() {
    let address = process::free_address();
    let settings = format!("[metrics]\nlisten = \"{address}\"\norganizations = [\"zebra\"]");
    let daemon = Daemon::start(PROGRAM, &settings);
    make_calls(&daemon.operator());
    let scraper = Client::new(address, None);
    let text = scraper.get("/metrics").expect(200).text();
    scraper.send("HEAD", "/metrics", &[], b"").expect(200);
    for outcome in ["ok", "ACCESS_DENIED"] {
        let sample =
            format!("toolgate_organization_calls_total{{organization=\"zebra\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&text, &sample), 1);
    }
    assert_eq!(scraper.get("/v1/plugins").status, 404);
    // N5: a web page that rebinds its name to the address reads nothing, and idle connections keep nobody out.
    for header in [("Host", "evil.example"), ("Origin", "http://evil.example")] {
        scraper.send("GET", "/metrics", &[header], b"").expect_refusal(403, "FORBIDDEN");
    }
    let idle: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(address).expect("connected")).collect();
    scraper.get("/metrics").expect(200);
    drop(idle);
}
