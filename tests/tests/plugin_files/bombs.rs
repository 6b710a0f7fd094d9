//! Small files that become large when they are compiled, instantiated or described.

use super::*;

/// Compile bomb: each of many variables is used in each of many nested loops.
pub(super) fn compile_bomb() -> Vec<u8> {
    let (variables, loops) = (20_000, 400);
    let declared = "(local".to_owned() + &" i32".repeat(variables) + ")";
    let changed: String = (0..variables)
        .map(|at| format!("(local.set {at} (i32.add (local.get {at}) (i32.load (i32.const {at}))))"))
        .collect();
    let nested = "(loop ".repeat(loops) + &changed + &"(br_if 0 (local.get 0)))".repeat(loops);
    PluginFile::new("bomb").with_inner(&format!("(func {declared} {nested})")).build()
}

#[test]
fn a_compile_bomb_ends_only_the_worker() {
    with_fixture(|fixture| {
        let bomb = compile_bomb();
        assert!(bomb.len() < 1 << 20, "a small file: {}", bomb.len());
        fixture.assert_refused("bomb", &bomb, "compiling it");
    });
}

#[test]
fn deep_nesting_overflows_no_stack() {
    with_fixture(|fixture| {
        let nested = format!("{}{}", "(component ".repeat(90), ")".repeat(90));
        let operator = fixture.daemon.operator();
        let blocks = format!("(func {}{})", "block ".repeat(50_000), "end ".repeat(50_000));
        for file in
            [PluginFile::new("nested").with_outer(&nested), PluginFile::new("nested").with_inner(&blocks)]
        {
            let reply = operator.upload("nested", &file.build());
            assert!(reply.status == 200 || reply.status == 422, "{}", reply.text());
        }
        fixture.assert_serves();
    });
}

/// Each component instantiates the previous one twice: thirty lines for a billion instances.
#[test]
fn exponential_instances_end_only_the_worker() {
    with_fixture(|fixture| {
        let doubling = |levels: usize| {
            let mut text = "(component $c0 (core module $m) (core instance (instantiate $m)))".to_owned();
            for at in 1..=levels {
                let before = at - 1;
                text = format!(
                    "(component $c{at} {text} (instance (instantiate $c{before})) (instance (instantiate $c{before})))"
                );
            }
            PluginFile::new("doubling")
                .with_outer(&format!("{text} (instance (instantiate $c{levels}))"))
                .build()
        };
        let bomb = doubling(30);
        assert!(bomb.len() < 64 << 10, "a small file: {}", bomb.len());
        fixture.assert_refused("doubling", &bomb, "");
        fixture.daemon.operator().load("doubling", &doubling(2));
        assert_eq!(fixture.good.call("doubling/answer", json!({})).output(), 1);
    });
}

#[test]
fn exponential_types_are_refused() {
    with_fixture(|fixture| {
        let doubling = |levels: usize| {
            let types: String =
                (1..=levels).map(|at| format!("(type $t{at} (tuple $t{0} $t{0}))", at - 1)).collect();
            PluginFile::new("typed").with_outer(&format!("(type $t0 (tuple u8 u8)) {types}")).build()
        };
        fixture.assert_refused("typed", &doubling(60), "");
        fixture.daemon.operator().load("typed", &doubling(4));
    });
}

#[test]
fn a_memory_over_the_limit_is_refused() {
    with_fixture(|fixture| {
        let with = |pages: u32| {
            let more = format!("(core module $more (memory {pages})) (core instance (instantiate $more))");
            PluginFile::new("roomy").with_outer(&more).build()
        };
        for pages in [65_536, 20_000, 1_100] {
            fixture.assert_refused("roomy", &with(pages), "");
        }
        fixture.daemon.operator().load("roomy", &with(100));
        let beyond = r#"(core module $more (memory 1) (data (i32.const 0x7fffffff) "x")) (core instance (instantiate $more))"#;
        fixture.assert_refused("beyond", &PluginFile::new("beyond").with_outer(beyond).build(), "");
    });
}

#[test]
fn a_huge_description_is_refused() {
    with_fixture(|fixture| {
        let long = PluginFile::new("talkative").with_member("purpose", json!("x".repeat(5 << 20)));
        fixture.assert_refused("talkative", &long.build(), "larger than");
        let tool = |at: usize| json!({"name": format!("t{at}"), "description": "D.", "usage": "U.", "input_schema": {"type": "object"}});
        let tools = |count: usize| -> Vec<Value> { (0..count).map(tool).collect() };
        fixture.assert_refused(
            "talkative",
            &PluginFile::new("talkative").with_member("tools", json!(tools(1_001))).build(),
            "",
        );
        fixture
            .daemon
            .operator()
            .load("talkative", &PluginFile::new("talkative").with_member("tools", json!(tools(50))).build());
    });
}
