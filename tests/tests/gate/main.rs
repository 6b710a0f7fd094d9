//! The gate over HTTP: policy layers, sessions, approvals, client results, events, dialects, broker, error messages.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod approvals;
mod assertions;
mod broker;
mod cancellation;
mod catalogue;
mod client_results;
mod code;
mod consent;
mod events;
mod dialects;
mod slow_audit;
mod layers;
mod inbox;
mod messages;
mod metrics;
mod quotas;
mod refusals;
mod schemas;
mod scripts;
mod sessions;
mod tool_lists;
mod webhooks;

use toolgate_tests::{Client, Daemon, PluginFile, Reply, Session, Shared, Value, guests, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

static FIXTURE: Shared<Fixture> = Shared::new();

/// Daemon shared by the tests of this file, with unique names.
struct Fixture {
    daemon: Daemon,
    operator: Client,
    made: u32,
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, "[calls]\nrounds_per_turn = 10000\nrounds_per_session = 10000");
        let operator = daemon.operator();
        operator.load("hostile", guests::HOSTILE);
        operator.load_confirmed("pay", &payments("1.0.0"));
        scripts::load_script_guest(&operator);
        code::grant_calls(&operator);
        Self { operator, daemon, made: 0 }
    }

    /// A name that no other test uses.
    fn name(&mut self) -> String {
        self.made += 1;
        format!("n{}", self.made)
    }

    /// Creates an agent in an organization of its own, and a session opened by an orchestrator.
    fn agent(&mut self, document: &Value) -> Agent {
        let organization = self.name();
        let path = format!("{organization}/bot");
        self.operator.make_agent(&path, document);
        let token = |role: &str| json!({"role": role, "organization": organization, "label": role});
        let orchestrator = self.operator.with_new_token(&token("orchestrator"));
        let owner = self.operator.with_new_token(&token("owner"));
        let session = orchestrator.open_session(&path);
        Agent { organization, path, owner, session }
    }
}

/// Agent under test, with its owner and session.
struct Agent {
    organization: String,
    path: String,
    owner: Client,
    session: Session,
}

impl Agent {
    fn document(&self) -> String {
        format!("/v1/orgs/{}/agents/bot", self.organization)
    }

    fn policy(&self) -> String {
        format!("/v1/orgs/{}/policy", self.organization)
    }

    fn decide(&self, approval: &str, decision: Value) -> Reply {
        self.owner.post(&format!("/v1/approvals/{approval}"), &decision)
    }

    #[track_caller]
    fn approve(&self, approval: &str) {
        self.decide(approval, json!({"decision": "approve"})).expect(200);
    }
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, test);
}

/// Plugin with a tool that changes something and a read-only tool.
fn payments(version: &str) -> Vec<u8> {
    let payment = json!({
        "type": "object",
        "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["to", "amount"], "additionalProperties": false,
    });
    let tool = |name: &str, read_only: bool| json!({"name": name, "description": "Pays.", "usage": "Use it.", "input_schema": payment, "hints": {"read_only": read_only}});
    let description = json!({
        "name": "pay", "version": version, "publisher": "Toolgate tests",
        "tools": [tool("send", false), tool("quote", true)],
    });
    PluginFile::of(description).with_result("{\"done\":true}").build()
}
