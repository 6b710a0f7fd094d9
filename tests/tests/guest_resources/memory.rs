//! Limits of memories, tables and instances, and memory that is fresh in each call.

use super::*;

#[test]
fn endless_allocation_ends_at_the_memory_limit() {
    with_fixture(|fixture| {
        let reply = fixture.call(json!({}), "hostile/swallow", json!({})).expect_error("MEMORY_EXCEEDED");
        assert_eq!(reply.limit(), Some("memory_bytes"));
        assert!((60 << 20..=64 << 20).contains(&reply.usage("memory_bytes")), "{}", reply.0);
    });
}

#[test]
fn memory_grown_page_by_page_ends_at_the_memory_limit() {
    with_fixture(|fixture| {
        let reply = fixture.call(json!({"memory_bytes": 4 << 20}), "hostile/grow", json!({}));
        assert_eq!(reply.output(), 64);
        assert_eq!(reply.usage("memory_bytes"), 4 << 20);
    });
}

#[test]
fn b2_growth_costs_fuel_by_pages() {
    with_fixture(|fixture| {
        let mut fuel_of = |namespace: &str, body: &str| {
            let file = PluginFile::new(namespace).with_call(body);
            fixture.daemon.operator().load(namespace, &file.build());
            let reply = fixture.call(json!({}), &format!("{namespace}/answer"), json!({}));
            reply.expect_error("TOOL_CRASHED").usage("fuel")
        };
        let plain = fuel_of("staying", "(unreachable)");
        let grown = fuel_of("spreading", "(drop (memory.grow (i32.const 900))) (unreachable)");
        assert!(grown > plain + 900 * 200, "{plain} and {grown}");
    });
}

#[test]
fn the_sizes_of_all_memories_are_added() {
    with_fixture(|fixture| {
        // Two memories of 40 MiB: each is within the limit, the sum is not.
        let file = PluginFile::new("many-memories").with_outer(
            "(core module $more (memory 640))
            (core instance (instantiate $more)) (core instance (instantiate $more))",
        );
        assert_refused_at_load_or_call(fixture, &file, "many-memories", "MEMORY_EXCEEDED");
        let file = PluginFile::new("few-memories").with_outer(
            "(core module $more (memory 64))
            (core instance (instantiate $more)) (core instance (instantiate $more))",
        );
        fixture.daemon.operator().load("few-memories", &file.build());
        let reply = fixture.call(json!({}), "few-memories/answer", json!({}));
        assert!(reply.usage("memory_bytes") > 8 << 20, "{}", reply.0);
    });
}

#[test]
fn more_memories_than_a_call_may_have_are_refused() {
    with_fixture(|fixture| {
        let file = PluginFile::new("more-memories").with_outer(&format!(
            "(core module $more (memory 1)) {}",
            "(core instance (instantiate $more))".repeat(9)
        ));
        assert_refused_at_load_or_call(fixture, &file, "more-memories", "RESOURCE_EXCEEDED");
    });
}

/// The pool has tables and memories for every slot, so no call can exhaust those of another.
#[test]
fn concurrent_calls_in_every_slot_get_their_full_limits() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 4\n[queue]\nrunning_per_organization = 4");
    let more = "(core instance (instantiate $more))";
    let file = PluginFile::new("greedy").with_call("(loop (br 0)) (unreachable)").with_outer(&format!(
        "(core module $more (table 1 funcref) (memory 1)) {} (core module $tables (table 1 funcref)) {}",
        more.repeat(7),
        "(core instance (instantiate $tables))".repeat(9),
    ));
    daemon.operator().load("greedy", &file.build());
    let session = daemon.session_within("acme/bot", &json!({}));
    let call = json!({"tool": "greedy/answer", "arguments": {}});
    let answer = session.post(&json!({"calls": [call, call, call, call]})).expect(200).json();
    for result in answer["results"].as_array().expect("results") {
        let error = &result["error"];
        assert_eq!(
            (&error["error_type"], &error["details"]["limit"]),
            (&json!("FUEL_EXHAUSTED"), &json!("fuel")),
            "{result}"
        );
    }
}

#[test]
fn more_tables_than_a_call_may_have_are_refused() {
    with_fixture(|fixture| {
        let file = PluginFile::new("more-tables").with_outer(&format!(
            "(core module $more (table 1 funcref)) {}",
            "(core instance (instantiate $more))".repeat(17)
        ));
        assert_refused_at_load_or_call(fixture, &file, "more-tables", "RESOURCE_EXCEEDED");
    });
}

#[test]
fn a_table_larger_than_a_call_may_have_is_refused() {
    with_fixture(|fixture| {
        let large = |elements: u32| {
            PluginFile::new("large-table").with_inner(&format!("(table $large {elements} funcref)"))
        };
        assert_refused_at_load_or_call(fixture, &large(30_000), "large-table", "RESOURCE_EXCEEDED");
        fixture.daemon.operator().load("large-table", &large(10_000).build());
        assert_eq!(fixture.call(json!({}), "large-table/answer", json!({})).output(), 1);
    });
}

#[test]
fn a_table_that_grows_ends_at_the_limit() {
    with_fixture(|fixture| {
        let file = PluginFile::new("growing-table")
            .with_inner("(table $growing 0 funcref)")
            .with_call("(loop $more (br_if $more (i32.ne (table.grow $growing (ref.null func) (i32.const 1000)) (i32.const -1)))) (unreachable)");
        fixture.daemon.operator().load("growing-table", &file.build());
        let reply =
            fixture.call(json!({}), "growing-table/answer", json!({})).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("table_elements"));
    });
}

#[test]
fn more_instances_than_a_call_may_have_are_refused() {
    with_fixture(|fixture| {
        let instances = |count| {
            PluginFile::new("more-instances").with_outer(&format!(
                "(core module $more) {}",
                "(core instance (instantiate $more))".repeat(count)
            ))
        };
        assert_refused_at_load_or_call(fixture, &instances(43), "more-instances", "RESOURCE_EXCEEDED");
        assert_refused_at_load_or_call(fixture, &instances(500), "more-instances", "RESOURCE_EXCEEDED");
        fixture.daemon.operator().load("more-instances", &instances(10).build());
        assert_eq!(fixture.call(json!({}), "more-instances/answer", json!({})).output(), 1);
    });
}

#[test]
fn b1_statics_are_fresh_in_every_call() {
    with_fixture(|fixture| {
        for _ in 0..3 {
            assert_eq!(fixture.call(json!({}), "hostile/count", json!({})).output(), 1);
        }
    });
}

#[test]
fn b1_memory_is_zeroed_for_later_instances() {
    with_fixture(|fixture| {
        let (seed, mebibytes) = (0x5EED_u32, 40);
        let session = fixture.session(&json!({}));
        let operator = fixture.daemon.operator();
        operator.make_agent("other/bot", &json!({"enabled": ["hostile/*"]}));
        let other = operator.open_session("other/bot");
        // Fills every slot before each is searched, by the same agent and by an agent of another organization.
        let hide = json!({"tool": "hostile/hide", "arguments": {"seed": seed, "mebibytes": mebibytes}});
        let seek = json!({"tool": "hostile/seek", "arguments": {"seed": seed, "mebibytes": mebibytes}});
        for _ in 0..3 {
            for hidden in session.calls(&vec![hide.clone(); INSTANCES]) {
                assert_eq!(hidden.output(), (mebibytes << 20) / 8);
            }
            for searching in [&session, &other] {
                for found in searching.calls(&vec![seek.clone(); INSTANCES]) {
                    assert_eq!(found.output(), &json!([0, 0]));
                }
            }
        }
    });
}

/// Memory may be reset by page-map scan only where pages cannot be swapped out: the scan misses a dirty page on the
/// swap device, and the next instance would read it (wasmtime#14357). Needs swap and permission to create a control
/// group.
#[test]
#[cfg_attr(not(has = "swap"), ignore = "needs swap and permission to create a control group")]
fn b1_memory_on_the_swap_device_is_zeroed() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 2");
    let scanned = daemon.wait_for_log("the reset of memory", |line| line.contains("sandbox ready"));
    let pressure = process::MemoryPressure::new(daemon.pid()).expect("a control group");
    assert!(scanned.contains("pagemap_scan=false"), "{scanned}");
    let (seed, mebibytes) = (0x0FF_u32, 40_u64);
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let arguments = json!({"seed": seed, "mebibytes": mebibytes});
    let before = process::resident_bytes(daemon.pid());
    let hiding = session.start("c1", "hostile/hide_and_stay", arguments.clone());
    let hidden = (mebibytes << 20) - (1 << 20);
    wait::until_true("the pattern", || process::resident_bytes(daemon.pid()) >= before + hidden);
    pressure.push_out_above(8 << 20);
    wait::until("the pattern on the device", || {
        pressure.push_out_above(8 << 20);
        (process::swapped_bytes(daemon.pid()) >= hidden / 2).then_some(())
    });
    pressure.release();
    session.cancel("c1").expect(204);
    hiding.reply().expect(200);
    let seek = json!({"tool": "hostile/seek", "arguments": arguments});
    for _ in 0..4 {
        for found in session.calls(&[seek.clone(), seek.clone()]) {
            assert_eq!(found.output(), &json!([0, 0]));
        }
    }
    drop(daemon);
}
