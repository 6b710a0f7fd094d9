//! The examples of a plugin run before a version of it becomes active (O1).

use super::*;

fn plugin(examples: Value) -> PluginFile {
    PluginFile::new("exemplary").with_tool("examples", examples)
}

#[test]
fn o1_a_version_that_fails_its_examples_is_refused_and_the_old_one_serves_on() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.load("answers", &PluginFile::new("answers").build());
        let wrong = PluginFile::new("answers")
            .with_member("version", json!("2.0.0"))
            .with_tool("examples", json!([{"input": {}, "output": 1}, {"input": {}, "output": 2}]));
        let problem = fixture.assert_refused("answers", &wrong.build(), "example 2 of `answers/answer`");
        assert!(problem.text().contains("`2`"), "{}", problem.text());
    });
}

#[test]
fn o1_examples_are_judged_by_their_results() {
    with_fixture(|fixture| {
        let one = || json!([{"input": {}, "output": 1}]);
        let endless = plugin(one()).with_call("(loop $more (br $more)) (unreachable)");
        let cases = [
            (plugin(json!([{"input": {"x": 1}}])), "'x'"),
            (plugin(one()).with_call("(unreachable)"), "TOOL_CRASHED"),
            (endless.with_member("limits", json!({"fuel": 10_000_000})), "FUEL_EXHAUSTED"),
            (plugin(one()).with_result("1.5"), "`1.5`"),
            (
                plugin(json!([{"input": {}}])).with_tool("output_schema", json!({"type": "string"})),
                "INVALID_OUTPUT",
            ),
        ];
        for (file, words) in cases {
            fixture.assert_refused("exemplary", &file.build(), words);
        }
        let operator = fixture.daemon.operator();
        operator.load("exemplary", &plugin(one()).build());
        let rows = operator.audit("kind=call&tool=exemplary/answer");
        assert!(rows.is_empty(), "an example is recorded as a call of an agent: {rows:?}");
        assert_eq!(fixture.good.call("exemplary/answer", json!({})).output(), 1);
        operator.delete("/v1/plugins/exemplary").expect(204);
    });
}

/// Their author has servers, clients and files that the daemon lacks.
#[test]
fn o1_an_example_that_needs_something_else_is_not_run() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let wrong = || json!([{"input": {}, "output": 2}]);
        let network = json!({"network": [{"host": "api.example.com"}]});
        for file in [
            plugin(wrong()).with_member("capabilities", network),
            plugin(wrong()).with_member("capabilities", json!({"credentials": ["stripe"]})),
            plugin(wrong()).with_tool("mode", json!("client")),
            plugin(wrong()).with_tool("required_integrations", json!(["stripe"])),
            plugin(wrong()).with_member("capabilities", json!({"filesystem": "workspace"})),
        ] {
            operator.load("exemplary", &file.build());
            operator.delete("/v1/plugins/exemplary").expect(204);
        }
        fixture.assert_refused("exemplary", &plugin(wrong()).build(), "example 1");
    });
}

/// A load runs a bounded number of examples.
#[test]
fn o1_only_the_first_examples_run() {
    with_fixture(|fixture| {
        let examples = |wrong_at: usize| {
            let output = |at: usize| if at == wrong_at { 2 } else { 1 };
            let all: Vec<Value> = (0..30).map(|at| json!({"input": {}, "output": output(at)})).collect();
            plugin(json!(all)).build()
        };
        fixture.assert_refused("exemplary", &examples(19), "example 20");
        let operator = fixture.daemon.operator();
        operator.load("exemplary", &examples(20));
        operator.delete("/v1/plugins/exemplary").expect(204);
    });
}
