//! Guests that break the contract with their host, and guests that are stopped wherever they happen to be.

use super::*;

/// A plugin whose `call` leaves this in memory as its result.
fn answering(namespace: &str, body: &str) -> PluginFile {
    PluginFile::new(namespace).doing(body)
}

/// Addresses, lengths, cases and text that are none. Each is the guest's crash, and none is the host's.
#[test]
fn a_result_that_is_none_is_a_crash() {
    with_fixture(|fixture| {
        let byte = |at: u32, value: u32| format!("(i32.store8 (i32.const {at}) (i32.const {value}))");
        let word = |at: u32, value: u64| format!("(i32.store (i32.const {at}) (i32.const 0x{value:x}))");
        // The result begins at 0: its case, at 4 the case of the outcome or the failure, then pointers and lengths.
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
            fixture.daemon.operator().load(case, &answering(case, &body).build());
            let reply = fixture.after(json!({}), &format!("{case}/answer"), json!({}));
            let code = reply.error_type();
            // A length beyond every limit is refused by it before anybody looks for the text.
            assert!(matches!(code, Some("TOOL_CRASHED" | "OUTPUT_TOO_LARGE")), "{case}: {}", reply.0);
            assert!(!reply.message().contains("0x"), "an address: {}", reply.0);
        }
        fixture
            .daemon
            .operator()
            .load("sound", &answering("sound", &(word(2000, 0x31) + &text(2000, 1))).build());
        assert_eq!(fixture.after(json!({}), "sound/answer", json!({})).output(), 1);
    });
}

#[test]
fn a_guest_that_gives_no_room_for_its_arguments_crashes() {
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
            fixture.after(json!({"fuel": 50_000_000}), "roomless/answer", json!({})).expect_error(code);
        }
        fixture.daemon.operator().load("roomless", &PluginFile::new("roomless").build());
        assert_eq!(fixture.after(json!({}), "roomless/answer", json!({})).output(), 1);
    });
}

#[test]
fn last_words_are_cut() {
    with_fixture(|fixture| {
        let message = "x\u{1b}[2J".repeat(50_000);
        let reply =
            fixture.after(json!({}), "hostile/fail", json!({"message": message})).expect_error("TOOL_FAILED");
        assert!(reply.message().len() <= 4 << 10, "{} bytes", reply.message().len());
        let reply = fixture
            .after(json!({}), "hostile/panic", json!({"message": message}))
            .expect_error("TOOL_CRASHED");
        assert!(reply.message().len() <= 4 << 10, "{} bytes", reply.message().len());
        assert!(reply.usage("log_bytes") <= 64 << 10, "{}", reply.0);
        let reply =
            fixture.after(json!({}), "hostile/fail", json!({"message": "short"})).expect_error("TOOL_FAILED");
        assert_eq!(reply.message(), "short");
    });
}

/// Stopped in the guest, in the host, while it grows, while it is made: whatever it was at, all of it comes back.
#[test]
fn a_call_that_is_stopped_anywhere_gives_everything_back() {
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
            let pending = session.start(&id, &format!("hostile/{tool}"), arguments.clone());
            let look = || session.client.get(&session.path(&format!("/calls/{id}")));
            wait::until("the call to be known", || (look().status == 200).then_some(()));
            // Each round it gets a little further: a look takes a moment.
            for _ in 0..round % 5 {
                look().expect(200);
            }
            if round % 2 == 0 {
                session.cancel(&id).expect(204);
                pending.reply().expect(200);
            } else {
                pending.hang_up();
            }
            wait::until("the call to be over", || {
                (session.get_call(&id).status() != "running").then_some(())
            });
            let ended = session.get_call(&id);
            let code = ended.error_type().unwrap_or("none");
            assert!(code == "CANCELLED" || DOCUMENTED.contains(&code), "{tool}: {}", ended.0);
            let row = session.audit_row(&operator, &id);
            assert_eq!(row["outcome"]["error_type"], code, "{tool}: {row}");
        }
        fixture.pool_is_whole();
        leak_check.assert_none(&mut fixture.daemon);
    });
}
