//! Instance slots: every end of a call frees its slot, and loading a plugin takes none.

use toolgate_tests::component::assemble;

use super::*;

#[test]
fn every_slot_is_free_after_a_hundred_failures() {
    with_fixture(|fixture| {
        let session = fixture.session(&json!({"fuel": 5_000_000, "deadline_ms": 5_000}));
        let leak_check = LeakCheck::start(&fixture.daemon);
        let ends = ["spin", "recurse", "swallow", "panic", "exit"];
        for round in 0..20 {
            for tool in ends {
                let arguments = json!({"message": "x", "code": round});
                let arguments = match tool {
                    "panic" => json!({"message": arguments["message"]}),
                    "exit" => json!({"code": arguments["code"]}),
                    _ => json!({}),
                };
                assert!(session.call(&format!("hostile/{tool}"), arguments).error_type().is_some());
            }
        }
        fixture.assert_slots_free();
        leak_check.assert_none(&mut fixture.daemon);
    });
}

/// Loads do not wait in the sandbox queue and have slots of their own.
#[test]
fn a_plugin_is_loaded_while_every_slot_is_in_use() {
    with_fixture(|fixture| {
        let session = fixture.session(&json!({}));
        let dozing = ["c1", "c2"].map(|id| session.start_dozing(id));
        assert_eq!(dozing.len(), INSTANCES);
        fixture.daemon.operator().load("beside", &PluginFile::new("beside").build());
        fixture.daemon.operator().delete("/v1/plugins/beside").expect(204);
        for (id, dozing) in ["c1", "c2"].into_iter().zip(dozing) {
            session.cancel(id);
            assert_eq!(dozing.reply().expect(200).json()["results"][0]["error"]["error_type"], "CANCELLED");
        }
        fixture.assert_slots_free();
    });
}

/// More loads than can run `describe` at the same time.
#[test]
fn calls_can_use_every_slot_while_plugins_are_described() {
    with_fixture(|fixture| {
        let text = PluginFile::new("silent").text();
        let describe = r#"(func (export "describe") (result i32)"#;
        assert!(text.contains(describe));
        let endless = assemble(&text.replace(describe, &format!("{describe} (loop $more (br $more))")));
        let operator = fixture.daemon.operator();
        let headers = [("Content-Type", "application/wasm"), ("Prefer", "respond-async")];
        for at in 0..4 {
            operator.send("PUT", &format!("/v1/plugins/silent{at}"), &headers, &endless).expect(202);
        }
        let is_decided = |at: &i32| {
            operator.get(&format!("/v1/plugins/silent{at}")).expect(200).json()["state"] == "failed"
        };
        while !(0..4).all(|at| is_decided(&at)) {
            fixture.assert_slots_free();
        }
        for at in 0..4 {
            operator.delete(&format!("/v1/plugins/silent{at}")).expect(204);
        }
    });
}
