//! Small files that are large once somebody works on them: the compiler, the engine, or whoever reads what they say.

use super::*;

/// A small file that is large once it is compiled: each of many variables meets each of many loops.
pub(super) fn compile_bomb() -> Vec<u8> {
    let (variables, loops) = (20_000, 400);
    let declared = "(local".to_owned() + &" i32".repeat(variables) + ")";
    let changed: String = (0..variables)
        .map(|at| format!("(local.set {at} (i32.add (local.get {at}) (i32.load (i32.const {at}))))"))
        .collect();
    let nested = "(loop ".repeat(loops) + &changed + &"(br_if 0 (local.get 0)))".repeat(loops);
    PluginFile::new("bomb").inside(&format!("(func {declared} {nested})")).build()
}

#[test]
fn a_compile_bomb_ends_in_its_own_process() {
    with_fixture(|fixture| {
        let bomb = compile_bomb();
        assert!(bomb.len() < 1 << 20, "a small file: {}", bomb.len());
        fixture.refuses("bomb", &bomb, "compiling it");
    });
}

#[test]
fn deep_nesting_is_refused_or_compiled_and_nothing_overflows() {
    with_fixture(|fixture| {
        let nested = format!("{}{}", "(component ".repeat(90), ")".repeat(90));
        let operator = fixture.daemon.operator();
        let blocks = format!("(func {}{})", "block ".repeat(50_000), "end ".repeat(50_000));
        for file in [PluginFile::new("nested").outside(&nested), PluginFile::new("nested").inside(&blocks)] {
            let reply = operator.upload("nested", &file.build());
            assert!(reply.status == 200 || reply.status == 422, "{}", reply.text());
        }
        fixture.serves();
    });
}

/// Each component holds the one before twice: thirty lines, a thousand million instances.
#[test]
fn instances_that_double_at_every_level_end_in_a_process_of_their_own() {
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
                .outside(&format!("{text} (instance (instantiate $c{levels}))"))
                .build()
        };
        let bomb = doubling(30);
        assert!(bomb.len() < 64 << 10, "a small file: {}", bomb.len());
        fixture.refuses("doubling", &bomb, "");
        fixture.daemon.operator().load("doubling", &doubling(2));
        assert_eq!(fixture.good.call("doubling/answer", json!({})).output(), 1);
    });
}

#[test]
fn types_that_double_at_every_level_are_refused() {
    with_fixture(|fixture| {
        let doubling = |levels: usize| {
            let types: String =
                (1..=levels).map(|at| format!("(type $t{at} (tuple $t{0} $t{0}))", at - 1)).collect();
            PluginFile::new("typed").outside(&format!("(type $t0 (tuple u8 u8)) {types}")).build()
        };
        fixture.refuses("typed", &doubling(60), "");
        fixture.daemon.operator().load("typed", &doubling(4));
    });
}

#[test]
fn a_memory_larger_than_any_call_may_have_is_refused() {
    with_fixture(|fixture| {
        let with = |pages: u32| {
            let more = format!("(core module $more (memory {pages})) (core instance (instantiate $more))");
            PluginFile::new("roomy").outside(&more).build()
        };
        for pages in [65_536, 20_000, 1_100] {
            fixture.refuses("roomy", &with(pages), "");
        }
        fixture.daemon.operator().load("roomy", &with(100));
        let beyond = r#"(core module $more (memory 1) (data (i32.const 0x7fffffff) "x")) (core instance (instantiate $more))"#;
        fixture.refuses("beyond", &PluginFile::new("beyond").outside(beyond).build(), "");
    });
}

#[test]
fn a_description_without_end_is_refused() {
    with_fixture(|fixture| {
        let long = PluginFile::new("talkative").describing("purpose", json!("x".repeat(5 << 20)));
        fixture.refuses("talkative", &long.build(), "larger than");
        let tool = |at: usize| json!({"name": format!("t{at}"), "description": "D.", "usage": "U.", "input_schema": {"type": "object"}});
        let tools = |count: usize| -> Vec<Value> { (0..count).map(tool).collect() };
        fixture.refuses(
            "talkative",
            &PluginFile::new("talkative").describing("tools", json!(tools(1_001))).build(),
            "",
        );
        fixture
            .daemon
            .operator()
            .load("talkative", &PluginFile::new("talkative").describing("tools", json!(tools(50))).build());
    });
}
