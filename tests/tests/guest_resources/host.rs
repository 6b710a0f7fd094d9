//! Host calls and instructions that do much work for little fuel.

use super::*;

#[test]
fn a_huge_list_in_a_host_call_is_refused() {
    with_fixture(|fixture| {
        let pairs = |count: usize| json!({"count": count});
        assert_eq!(fixture.call(json!({}), "hostile/shout_pairs", pairs(1_000)).output(), 1_000);
        let reply =
            fixture.call(json!({}), "hostile/shout_pairs", pairs(200_000)).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("host_call_bytes"));
    });
}

/// One `poll` with many handles, or with one handle many times.
#[test]
fn polling_many_handles_is_refused_or_stopped() {
    with_fixture(|fixture| {
        let poll = |handles: usize, times: usize| json!({"handles": handles, "times": times});
        assert_eq!(fixture.call(json!({}), "hostile/wait_for", poll(100, 1)).output(), 100);
        assert_eq!(fixture.call(json!({}), "hostile/wait_for", poll(1, 100)).output(), 100);
        let reply =
            fixture.call(json!({}), "hostile/wait_for", poll(1, 5_000_000)).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("host_call_bytes"));
        fixture.call(json!({}), "hostile/wait_for", poll(0, 0)).expect_error("TOOL_CRASHED");
        let limits = json!({"deadline_ms": 1_000});
        let in_time = |reply: &CallReply| reply.usage("duration_us") < 3_000_000;
        let reply = fixture.call_until(&limits, "hostile/wait_again", &json!({"handles": 200}), in_time);
        assert!(matches!(reply.error_type(), Some("DEADLINE_EXCEEDED" | "RESOURCE_EXCEEDED")), "{}", reply.0);
    });
}

/// One bulk instruction fills all memory.
#[test]
fn a_bulk_instruction_ends_at_the_deadline_and_delays_no_call() {
    with_fixture(|fixture| {
        let grown = "(drop (memory.grow (i32.const 900)))";
        for (namespace, again) in [
            ("filling", "(memory.fill (i32.const 65536) (i32.const 1) (i32.const 58000000))"),
            ("copying", "(memory.copy (i32.const 65536) (i32.const 65540) (i32.const 58000000))"),
        ] {
            let file = PluginFile::new(namespace)
                .with_call(&format!("{grown} (loop $more {again} (br $more)) (unreachable)"));
            fixture.daemon.operator().load(namespace, &file.build());
            let tool = format!("{namespace}/answer");
            fixture.call(json!({"deadline_ms": 300}), &tool, json!({})).expect_error("DEADLINE_EXCEEDED");
            assert_stops_in_time(fixture, &tool, 300);
            let session = fixture.session(&json!({"deadline_ms": 30_000}));
            let busy = session.start("b1", &tool, json!({}));
            session.wait_until_running("b1");
            assert_eq!(
                fixture.good.call("hostile/echo", json!({"text": "still here"})).output(),
                "still here"
            );
            session.cancel("b1").expect(204);
            let reply = busy.reply().expect(200).json();
            assert_eq!(reply["results"][0]["error"]["error_type"], "CANCELLED", "{reply}");
        }
    });
}
