//! Guests that violate the component ABI, and guests that are stopped at any point.

use super::*;

/// Invalid addresses, lengths, cases and text: each crashes the guest and leaves the host intact.
#[test]
fn an_invalid_result_is_a_crash() {
    with_fixture(|fixture| {
        let byte = |at: u32, value: u32| format!("(i32.store8 (i32.const {at}) (i32.const {value}))");
        let word = |at: u32, value: u64| format!("(i32.store (i32.const {at}) (i32.const 0x{value:x}))");
        // Layout of the result: case at 0, case of the outcome or failure at 4, then pointers and lengths.
        let text = |pointer: u64, length: u64| {
            byte(0, 0) + &byte(4, 0) + &word(8, pointer) + &word(12, length) + "(i32.const 0)"
        };
        let not_utf8 = word(2000, 0xfffe_fdfc) + &text(2000, 4);
        let half_a_surrogate = word(2000, 0x0080_a0ed) + &text(2000, 3);
        let cases = [
            ("misaligned", "(i32.const 1)".to_owned()),
            ("beyond", "(i32.const 0x7ffffff0)".to_owned()),
            ("at-the-end", "(i32.const 0x1fffc)".to_owned()),
            ("negative", "(i32.const -4)".to_owned()),
            ("no-such-case", byte(0, 7) + "(i32.const 0)"),
            ("no-such-outcome", byte(0, 0) + &byte(4, 9) + "(i32.const 0)"),
            ("no-such-option", byte(0, 1) + &byte(24, 5) + "(i32.const 0)"),
            ("far-text", text(0x7fff_ffff, 64)),
            ("long-text", text(0, 0xffff_ffff)),
            ("wrapping-text", text(0xffff_fff0, 0x20)),
            ("not-utf-8", not_utf8),
            ("half-a-surrogate", half_a_surrogate),
        ];
        for (case, body) in cases {
            fixture.daemon.operator().load(case, &PluginFile::new(case).with_call(&body).build());
            let reply = fixture.call(json!({}), &format!("{case}/answer"), json!({}));
            let code = reply.error_type();
            // A length over the output limit is refused before the text is read.
            assert!(matches!(code, Some("TOOL_CRASHED" | "OUTPUT_TOO_LARGE")), "{case}: {}", reply.0);
            assert!(!reply.message().contains("0x"), "an address: {}", reply.0);
        }
        fixture
            .daemon
            .operator()
            .load("sound", &PluginFile::new("sound").with_call(&(word(2000, 0x31) + &text(2000, 1))).build());
        assert_eq!(fixture.call(json!({}), "sound/answer", json!({})).output(), 1);
    });
}

#[test]
fn a_guest_without_memory_for_its_arguments_crashes() {
    with_fixture(|fixture| {
        let text = PluginFile::new("roomless").text();
        let (head, tail) = text.split_once(r#"(func (export "realloc")"#).expect("a realloc");
        let (sound, tail) = tail.split_once('\n').expect("a line of its own");
        let signature = "(param i32 i32 i32 i32) (result i32)";
        assert!(sound.contains(signature), "{sound}");
        for (body, code) in [
            ("(i32.const 0xfffffff0)", "TOOL_CRASHED"),
            ("(i32.const 0x7fffffff)", "TOOL_CRASHED"),
            ("(unreachable)", "TOOL_CRASHED"),
            ("(loop $more (br $more)) (i32.const 0)", "FUEL_EXHAUSTED"),
        ] {
            let other = format!("{head}(func (export \"realloc\") {signature} {body})\n{tail}");
            let file = toolgate_tests::component::assemble(&other);
            fixture.daemon.operator().load("roomless", &file);
            fixture.call(json!({"fuel": 50_000_000}), "roomless/answer", json!({})).expect_error(code);
        }
        fixture.daemon.operator().load("roomless", &PluginFile::new("roomless").build());
        assert_eq!(fixture.call(json!({}), "roomless/answer", json!({})).output(), 1);
    });
}

#[test]
fn error_messages_are_truncated() {
    with_fixture(|fixture| {
        let message = "x\u{1b}[2J".repeat(50_000);
        let reply =
            fixture.call(json!({}), "hostile/fail", json!({"message": message})).expect_error("TOOL_FAILED");
        assert!(reply.message().len() <= 4 << 10, "{} bytes", reply.message().len());
        let reply = fixture
            .call(json!({}), "hostile/panic", json!({"message": message}))
            .expect_error("TOOL_CRASHED");
        assert!(reply.message().len() <= 4 << 10, "{} bytes", reply.message().len());
        assert!(reply.usage("log_bytes") <= 64 << 10, "{}", reply.0);
        let reply =
            fixture.call(json!({}), "hostile/fail", json!({"message": "short"})).expect_error("TOOL_FAILED");
        assert_eq!(reply.message(), "short");
    });
}

/// Stops a guest in guest code, in a host call, while memory grows and during instantiation. All resources come back.
#[test]
fn a_call_stopped_at_any_point_releases_its_resources() {
    with_fixture(|fixture| {
        let session = fixture.session(&json!({"deadline_ms": 20_000}));
        let operator = fixture.daemon.operator();
        let leak_check = LeakCheck::start(&fixture.daemon);
        let tools = [
            ("spin", json!({})),
            ("doze", json!({})),
            ("swallow", json!({})),
            ("recurse", json!({})),
            ("spin_in_host", json!({})),
            ("dice_for_ever", json!({})),
            ("hide_and_stay", json!({"seed": 7, "mebibytes": 40})),
            ("log_flood", json!({"lines": 20_000})),
            ("pollables", json!({"count": 50_000})),
        ];
        for (round, (tool, arguments)) in tools.iter().cycle().take(4 * tools.len()).enumerate() {
            let id = format!("c{round}");
            let pending = session.start_cancellable(&id, &format!("hostile/{tool}"), arguments.clone());
            let read_call = || session.client.get(&session.path(&format!("/calls/{id}")));
            wait::until_true("the call to be known", || read_call().status == 200);
            // Each request takes a moment, so each round stops the guest a little later.
            for _ in 0..round % 5 {
                read_call().expect(200);
            }
            if round % 2 == 0 {
                session.cancel(&id).expect(204);
                pending.reply().expect(200);
            } else {
                pending.hang_up();
            }
            wait::until_true("the call to end", || session.get_call(&id).status() != "running");
            let ended = session.get_call(&id);
            let code = ended.error_type().unwrap_or("none");
            assert!(code == "CANCELLED" || DOCUMENTED.contains(&code), "{tool}: {}", ended.0);
            let row = session.audit_row(&operator, &id);
            assert_eq!(row["outcome"]["error_type"], code, "{tool}: {row}");
        }
        fixture.assert_slots_free();
        leak_check.assert_none(&mut fixture.daemon);
    });
}
