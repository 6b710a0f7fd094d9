//! Scripts in JavaScript (T13): the built-in plugin `code`.

use toolgate_tests::events::Stream;
use toolgate_tests::{CallReply, Client, json};

use crate::{Agent, with_fixture};

/// Grants the plugin its calls.
pub fn grant_calls(operator: &Client) {
    operator.make("/v1/plugins/code/grant", &json!({"calls": true})).expect(201);
}

impl Agent {
    fn code(&self, id: &str, script: &str) -> CallReply {
        self.session.call_as(id, "code/run", json!({"script": script}))
    }

    /// The statuses of the calls that a script made, in order of their number.
    fn inner_statuses(&self, operator: &Client, id: &str) -> Vec<String> {
        let rows = (1..).map(|number| {
            operator.audit(&format!("kind=call&session={}&call={id}%20%23{number}", self.session.id))
        });
        let rows = rows.take_while(|rows| !rows.is_empty()).flatten();
        rows.map(|row| row["status"].as_str().unwrap_or("?").to_owned()).collect()
    }
}

#[test]
fn t13_a_script_in_javascript_combines_tools() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["files/*", "pay/*", "code/*"]}));
        let reply = agent.code(
            "c1",
            r#"
            await tools.files.write({path: "a.txt", content: "one\ntwo\n"});
            const {text} = await tools.files.read({path: "a.txt"});
            const lines = text.trim().split("\n");
            console.log(lines.length);
            return {lines, signature: describe("pay/send").split("\n")[0], namespaces: Object.keys(tools)};
        "#,
        );
        let signature = "tools.pay.send({amount: number, to: string}): Promise<unknown>";
        let value = json!({"lines": ["one", "two"], "signature": signature, "namespaces": ["files", "pay"]});
        assert_eq!(reply.output(), &json!({"value": value, "log": "2"}), "{}", reply.0);
        assert_eq!(agent.inner_statuses(&fixture.operator, "c1"), ["ok", "ok"]);
    });
}

#[test]
fn t13_a_refusal_that_a_script_hides_is_in_the_log() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/quote", "code/*"]}));
        let mut stream = Stream::open(&agent.session.client, &agent.session.path("/events"));
        let reply = agent.code("c1", r#"
            const codes = [];
            for (const [space, name, input] of [["pay", "send", {to: "bob", amount: 1}], ["code", "run", {script: ""}]])
                try { await tools[space][name](input) } catch (error) { codes.push(error.code) }
            return codes;
        "#);
        assert_eq!(reply.output()["value"], json!(["ACCESS_DENIED", "ACCESS_DENIED"]), "{}", reply.0);
        let query = format!("kind=call&session={}&call=c1%20%231", agent.session.id);
        assert_eq!(fixture.operator.audit(&query)[0]["call"]["verdict"], "refused");
        let acts = fixture.operator.audit("action=call.refuse");
        let act = acts.iter().find(|act| act["admin"]["target"] == agent.session.id).expect("a record");
        assert_eq!(act["admin"]["details"], json!({"call": "c1 #2", "tool": "code/run"}), "{act}");
        let told = ["tool_call", "tool_call", "tool_error", "tool_call", "tool_error", "tool_result"];
        assert_eq!(stream.names(6), told);
    });
}

#[test]
fn t13_a_script_runs_again_after_an_approval_with_the_same_clock_and_random_numbers() {
    with_fixture(|fixture| {
        let enabled = json!(["pay/*", "code/*"]);
        let agent = fixture.agent(&json!({"enabled": enabled, "require_approval_for": ["pay/send"]}));
        let script = r#"
            const to = `${Date.now()} ${Math.random()} ${new Date().toISOString()} ${[3, 1].sort()}`;
            await tools.pay.quote({to, amount: 1});
            try { await tools.pay.send({to, amount: 2}) } catch { return "hidden" }
            return to;
        "#;
        let waiting = agent.code("c1", script);
        assert_eq!(waiting.status(), "approval_required", "{}", waiting.0);
        agent.code("c1", "return 1").expect_error("CONFLICT");
        agent.approve(&waiting.approval());
        let done = agent.code("c1", script);
        let query = format!("kind=call&session={}&call=c1%20%231", agent.session.id);
        let quotes = fixture.operator.audit(&query);
        assert_eq!(quotes.len(), 1, "the quote ran once: {quotes:?}");
        assert_eq!(done.output()["value"], quotes[0]["call"]["arguments"]["to"], "{}", done.0);
    });
}

/// A person is asked for the call that changes something, and for nothing else: neither for the script nor for its second run.
#[test]
fn t13_a_script_is_as_read_only_as_its_calls() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*", "code/*"], "autonomy": "supervised"}));
        let reading = agent.code("c1", "(await call_pay_quote({to: 'bob', amount: 1}))");
        assert_eq!(reading.status(), "ok", "{}", reading.0);
        let script = "const main = async () => tools.pay.send({to: 'bob', amount: 2});\nmain();";
        let waiting = agent.code("c2", script);
        assert_eq!(waiting.status(), "approval_required", "{}", waiting.0);
        let approval =
            fixture.operator.get(&format!("/v1/approvals/{}", waiting.approval())).expect(200).json();
        assert_eq!(approval["tool"], "pay/send", "{approval}");
        agent.approve(&waiting.approval());
        assert_eq!(agent.code("c2", script).status(), "ok");
    });
}

#[test]
fn t13_a_script_without_an_end_is_ended() {
    with_fixture(|fixture| {
        let limits = json!({"inner_calls": 3, "fuel": 500_000_000u64});
        let agent = fixture.agent(&json!({"enabled": ["pay/*", "code/*"], "limits": limits}));
        let flood = agent.code("c1", "for (;;) await tools.pay.quote({to: 'bob', amount: 1})");
        let flood = flood.expect_error("TOOL_FAILED");
        assert_eq!(flood.0["error"]["details"]["code"], "QUOTA_EXCEEDED", "{}", flood.0);
        assert_eq!(agent.inner_statuses(&fixture.operator, "c1").len(), 3);
        for (script, error) in [
            ("for (;;);", "FUEL_EXHAUSTED"),
            ("const f = () => Promise.resolve().then(f); await f()", "FUEL_EXHAUSTED"),
            ("let text = 'x'.repeat(1e6); for (;;) text += text", "MEMORY_EXCEEDED"),
            ("const f = n => [n].map(f); f(0)", "TOOL_FAILED"),
            ("let list = []; for (let i = 0; i < 1e4; i++) list = [list]; return list", "RESOURCE_EXCEEDED"),
        ] {
            // Failures in a row would close the tool in a session.
            let session = agent.session.client.open_session(&agent.path);
            let reply = session.call("code/run", json!({"script": script}));
            assert_eq!(reply.error_type(), Some(error), "{script}: {}", reply.0);
        }
    });
}

#[test]
fn t13_a_faulty_script_says_where() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["code/*"]}));
        let faulty = agent.code("c1", "let a = 1;\nlet b = = 2;").expect_error("INVALID_ARGUMENTS");
        assert_eq!(faulty.0["error"]["details"], json!({"line": 2, "column": 9}), "{}", faulty.0);
        let thrown = agent.code("c2", "const f = () => { null.x };\nf();").expect_error("TOOL_FAILED");
        assert_eq!(thrown.0["error"]["details"]["line"], 1, "{}", thrown.0);
    });
}
