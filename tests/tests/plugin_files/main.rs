//! Invalid plugin files: refused with the reason, without a trace.
//!
//! Compilation runs in a worker process with its own limits, so no file stops the daemon.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod bombs;
mod canary;
mod corruption;
mod examples;
mod folder;
mod other_host;
mod plain;
mod owned;
mod registry;
mod reloads;
mod retention;
mod shapes;
mod shutdown;
mod trust;
mod versions;

use std::fs;

use toolgate_tests::component::assemble;
use toolgate_tests::{
    CallReply, Client, Daemon, LeakCheck, PluginFile, Reply, Session, Shared, Value, guests, json, process,
    wait,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Low limits for the worker, so that a compile bomb ends soon.
const SETTINGS: &str = "
[compile]
memory_bytes = 402_653_184
timeout_seconds = 20
";

static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
    good: Session,
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, SETTINGS);
        let good = daemon.session_within("acme/bot", &json!({}));
        daemon.operator().load("answers", &PluginFile::new("answers").build());
        let fixture = Self { daemon, good };
        fixture.assert_serves();
        fixture
    }

    fn assert_serves(&self) {
        assert_eq!(self.good.call("answers/answer", json!({})).output(), 1);
    }

    /// Uploads a file that must be refused, and checks that nothing remains of it.
    #[track_caller]
    fn assert_refused(&mut self, namespace: &str, file: &[u8], words: &str) -> Reply {
        let leak_check = LeakCheck::start(&self.daemon);
        let files = self.files();
        let operator = self.daemon.operator();
        let reply = operator.upload(namespace, file).expect_refusal(422, "INVALID_PLUGIN");
        let problem = reply.json();
        assert!(
            problem["detail"].as_str().is_some_and(|text| text.contains(words)),
            "no `{words}`: {problem}"
        );
        let text = reply.text();
        assert!(
            !text.contains(env!("CARGO_MANIFEST_DIR"))
                && !text.contains("/.cargo/")
                && !text.contains(".rs:"),
            "{text}"
        );
        if namespace != "answers" {
            operator.get(&format!("/v1/plugins/{namespace}")).expect_refusal(404, "NOT_FOUND");
        }
        assert_eq!(self.files(), files, "a refused file was kept");
        wait::until_true("the worker to exit", || process::children(self.daemon.pid()) == 0);
        self.assert_serves();
        leak_check.assert_none(&mut self.daemon);
        let rows = operator.audit("kind=admin&limit=1");
        assert_eq!(rows[0]["admin"]["action"], "plugin.load", "{rows:?}");
        assert_eq!(rows[0]["admin"]["outcome"], "INVALID_PLUGIN", "{rows:?}");
        reply
    }

    fn files(&self) -> usize {
        fs::read_dir(self.daemon.data().join("components")).expect("a folder").count()
    }
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, test);
}

#[test]
fn a_file_that_is_no_component_is_refused_with_its_kind() {
    with_fixture(|fixture| {
        fixture.assert_refused("wrong", b"", "not WebAssembly");
        fixture.assert_refused("wrong", b"#!/bin/sh\necho hello\n", "not WebAssembly");
        fixture.assert_refused("wrong", &assemble("(module)"), "core WebAssembly module");
        fixture.assert_refused("wrong", b"\0asm\x0e\0\x01\0", "version");
        fixture.assert_refused("wrong", b"\0asm\x0d\0\x01\0", "plugin contract");
        fixture.assert_refused("wrong", &assemble("(component)"), "plugin contract");
    });
}

#[test]
fn imports_beyond_the_table_are_refused_by_name() {
    with_fixture(|fixture| {
        let cases = [
            (r#"(import "evil:host/shell@0.1.0" (instance))"#, "evil:host/shell@0.1.0"),
            (r#"(import "wasi:threads/spawn@0.2.0" (instance))"#, "wasi:threads/spawn"),
            (r#"(import "wasi:nn/graph@0.2.0" (instance))"#, "wasi:nn/graph"),
            (r#"(import "run" (func))"#, "run"),
        ];
        for (import, words) in cases {
            fixture.assert_refused(
                "importing",
                &PluginFile::new("importing").with_outer(import).build(),
                words,
            );
        }
    });
}

#[test]
fn another_version_of_wasi_or_of_the_contract_is_refused_by_name() {
    with_fixture(|fixture| {
        let cases = [
            ("wasi:io/streams@0.3.0", "0.3.0"),
            ("wasi:clocks/monotonic-clock@0.3.0-rc-2025-09-16", "0.3.0"),
            ("wasi:cli/environment@1.0.0", "1.0.0"),
            ("toolgate:plugin/log@0.2.0", "0.2.0"),
        ];
        for (import, words) in cases {
            let file =
                PluginFile::new("other-version").with_outer(&format!(r#"(import "{import}" (instance))"#));
            fixture.assert_refused("other-version", &file.build(), words);
        }
        let next = PluginFile::new("other-version")
            .text()
            .replace("toolgate:plugin/tools@0.1.0", "toolgate:plugin/tools@0.2.0");
        fixture.assert_refused("other-version", &assemble(&next), "plugin contract");
    });
}

#[test]
fn the_asynchronous_calling_convention_is_refused() {
    with_fixture(|fixture| {
        let text = PluginFile::new("lifted").text();
        let sync = r#"(canon lift (core func $plugin "describe") (memory"#;
        assert!(text.contains(sync));
        let asynchronous = r#"(canon lift (core func $plugin "describe") async (memory"#;
        fixture.assert_refused("lifted", &assemble(&text.replace(sync, asynchronous)), "");
    });
}

#[test]
fn a_disabled_wasm_proposal_is_refused() {
    with_fixture(|fixture| {
        let cases = [
            ("memory64", "(memory $far i64 1)"),
            ("threads", "(memory $shared 1 1 shared)"),
            ("gc", "(type $pair (struct (field i32) (field i32)))"),
            ("exceptions", "(tag $thrown)"),
        ];
        for (case, inside) in cases {
            fixture.assert_refused("proposal", &PluginFile::new("proposal").with_inner(inside).build(), "");
            assert!(!case.is_empty());
        }
    });
}

#[test]
fn t11_an_invalid_description_is_refused() {
    with_fixture(|fixture| {
        let new = || PluginFile::new("described");
        let deep = (0..200).fold(
            json!({"type": "object"}),
            |schema, _| json!({"type": "object", "properties": {"a": schema}}),
        );
        let cases = [
            ("no tools", new().with_member("tools", json!([]))),
            ("no description", new().with_tool("description", json!(""))),
            ("no usage", new().with_tool("usage", json!("  "))),
            ("no schema", new().with_tool("input_schema", json!(null))),
            ("no object", new().with_tool("input_schema", json!({"type": "array"}))),
            ("unsound schema", new().with_tool("input_schema", json!({"type": "objekt"}))),
            (
                "remote schema",
                new().with_tool("input_schema", json!({"type": "object", "$ref": "http://127.0.0.1:1/x"})),
            ),
            (
                "file schema",
                new().with_tool("input_schema", json!({"type": "object", "$ref": "file:///etc/passwd"})),
            ),
            ("deep schema", new().with_tool("input_schema", deep)),
            ("bad name", new().with_tool("name", json!("getCurrentWeather"))),
            ("bad namespace", new().with_member("name", json!("De_scribed"))),
            ("other namespace", new().with_member("name", json!("another"))),
            ("control character", new().with_tool("description", json!("Answers\u{1b}[2J."))),
            ("hidden text", new().with_tool("description", json!("Answers\u{202e}."))),
            ("unknown limit", new().with_member("limits", json!({"fual": 1}))),
            ("other mode", new().with_tool("mode", json!("browser"))),
            ("long", new().with_tool("description", json!("x".repeat(1 << 20)))),
        ];
        for (case, file) in cases {
            let reply = fixture.assert_refused("described", &file.build(), "");
            assert!(!reply.json()["hint"].as_str().unwrap_or_default().is_empty(), "{case}");
        }
        let unreadable = PluginFile::new("described").text().replace("\\7b\\22", "\\7b\\7b");
        fixture.assert_refused("described", &assemble(&unreadable), "");
        fixture.daemon.operator().load("described", &new().build());
    });
}

#[test]
fn a_schema_that_grows_exponentially_is_refused() {
    with_fixture(|fixture| {
        let mut definitions = serde_json::Map::new();
        definitions.insert("d0".into(), json!({"type": "string"}));
        for at in 1..40 {
            let before = json!({"$ref": format!("#/$defs/d{}", at - 1)});
            definitions.insert(format!("d{at}"), json!({"allOf": [before, before]}));
        }
        let schema =
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d39"}}, "$defs": definitions});
        fixture.assert_refused(
            "exponential",
            &PluginFile::new("exponential").with_tool("input_schema", schema).build(),
            "",
        );
    });
}

#[test]
fn b5_undeclared_imports_are_refused() {
    with_fixture(|fixture| {
        for import in ["wasi:filesystem/types@0.2.6", "wasi:http/types@0.2.6"] {
            let import = format!(r#"(import "{import}" (instance))"#);
            let file = PluginFile::new("asking").with_outer(&import);
            fixture.assert_refused("asking", &file.build(), "does not ask for");
            let asking = file.with_member(
                "capabilities",
                json!({"filesystem": "workspace", "network": [{"host": "api.example.com"}]}),
            );
            fixture.daemon.operator().load("asking", &asking.build());
            fixture.daemon.operator().delete("/v1/plugins/asking").expect(204);
        }
    });
}

#[test]
fn a_plugin_whose_describe_fails_is_refused() {
    with_fixture(|fixture| {
        let text = PluginFile::new("silent").text();
        let describe = r#"(func (export "describe") (result i32)"#;
        assert!(text.contains(describe));
        for (body, words) in [("(loop $more (br $more))", ""), ("(unreachable)", "unreachable")] {
            let silent = text.replace(describe, &format!("{describe} {body}"));
            fixture.assert_refused("silent", &assemble(&silent), words);
        }
    });
}

#[test]
fn a_namespace_of_another_publisher_is_refused() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.load("held", &PluginFile::new("held").build());
        for publisher in [json!("Somebody else"), json!(null)] {
            let theirs = PluginFile::new("held").with_member("publisher", publisher).with_result("2").build();
            operator.upload("held", &theirs).expect_refusal(409, "CONFLICT");
        }
        assert_eq!(fixture.good.call("held/answer", json!({})).output(), 1);
        let next = PluginFile::new("held").with_member("version", json!("2.0.0")).with_result("2").build();
        operator.load("held", &next);
        assert_eq!(fixture.good.call("held/answer", json!({})).output(), 2);
        for built_in in ["arithmetic", "files"] {
            operator.upload(built_in, &PluginFile::new(built_in).build()).expect_refusal(409, "CONFLICT");
        }
        operator.upload("Not-A-Name", &next).expect_refusal(400, "INVALID_REQUEST");
    });
}

#[test]
fn a_requested_version_must_match_the_file() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let file = PluginFile::new("dated").build();
        let wasm = [("Content-Type", "application/wasm")];
        operator
            .send("PUT", "/v1/plugins/dated?version=2.0.0", &wasm, &file)
            .expect_refusal(422, "INVALID_PLUGIN");
        operator.send("PUT", "/v1/plugins/dated?version=1.0.0", &wasm, &file).expect(200);
    });
}

/// The plugin is served, with the smaller limit.
#[test]
fn a_limit_without_effect_is_a_warning() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let load = |limits: Value| {
            let file = PluginFile::new("greedy").with_member("limits", limits).build();
            operator.upload("greedy", &file).expect(200).json()["warnings"].clone()
        };
        let above = json!([{
            "code": "LIMIT_WITHOUT_EFFECT",
            "path": "/limits/deadline_ms",
            "message": "`deadline_ms` of 30001 is above 30000, which is all that there is to give",
        }]);
        assert_eq!(load(json!({"deadline_ms": 30_001})), above);
        assert_eq!(operator.get("/v1/plugins/greedy").expect(200).json()["warnings"], above);
        assert_eq!(load(json!({"fuel": 0}))[0]["code"], "NOTHING_RUNS");
        assert_eq!(load(json!({"deadline_ms": 30_000})), json!([]));
    });
}

#[test]
fn rollback_ends_at_the_first_version() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let load = |answer: &str| {
            let file = PluginFile::new("versioned")
                .with_member("version", json!(format!("{answer}.0.0")))
                .with_result(answer);
            operator.load("versioned", &file.build());
        };
        let answer = || fixture.good.call("versioned/answer", json!({})).output().clone();
        let back = || operator.post("/v1/plugins/versioned/rollback", &json!({}));
        load("1");
        back().expect_refusal(409, "CONFLICT");
        load("2");
        back().expect(200);
        assert_eq!(answer(), 1);
        back().expect_refusal(409, "CONFLICT");
        // A kept version is named, before or after the one that serves.
        let to = |version: &str| {
            operator.post(&format!("/v1/plugins/versioned/rollback?version={version}"), &json!({}))
        };
        for (version, result) in [("2.0.0", 2), ("1.0.0", 1)] {
            to(version).expect(200);
            assert_eq!(answer(), result);
        }
        to("3.0.0").expect_refusal(409, "CONFLICT");
        assert_eq!(answer(), 1);
        let records = operator.audit("kind=admin&action=plugin.rollback&limit=100");
        let acts = records.iter().map(|row| &row["admin"]).filter(|act| act["target"] == "versioned");
        let named: Vec<&Value> =
            acts.map(|act| &act["details"]["version"]).filter(|name| !name.is_null()).collect();
        assert_eq!(named, ["3.0.0", "1.0.0", "2.0.0"], "the newest first: {records:?}");
        operator.delete("/v1/plugins/versioned").expect(204);
        back().expect_refusal(404, "NOT_FOUND");
    });
}

/// Each schema is within its limits, but all of them together exceed the memory. The worker compiles them first, so
/// only the worker ends.
#[test]
fn schemas_that_exceed_memory_together_end_only_the_worker() {
    with_fixture(|fixture| {
        let tool = |number: usize| {
            let mut properties = json!({});
            for at in 0..60 {
                let pattern = format!("^(\\w{{1,60}}-){{1,9}}{number}-{at}$");
                properties[format!("p{at}")] = json!({"type": "string", "pattern": pattern});
            }
            let schema = json!({"type": "object", "properties": properties});
            json!({"name": format!("t{number}"), "description": "D.", "usage": "U.", "input_schema": schema})
        };
        let tools = |count: usize| -> Vec<Value> { (0..count).map(tool).collect() };
        let operator = fixture.daemon.operator();
        let bomb = PluginFile::new("patterns").with_member("tools", json!(tools(400))).build();
        let refused = operator.upload("patterns", &bomb).expect_refusal(422, "INVALID_PLUGIN");
        assert!(refused.text().contains("compiling its schemas"), "{}", refused.text());
        fixture.assert_serves();
        let modest = PluginFile::new("patterns").with_member("tools", json!(tools(1))).build();
        operator.load("patterns", &modest);
    });
}
