//! The console (O6): pages, sessions and attacks on them over HTTP, and a real browser.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod approvals;
mod browser;
mod changes;
mod documents;
mod credentials;
mod links;
mod live;
mod pages;
mod person;
mod provider;
mod sign_in;
mod weight;
mod uploads;

use toolgate_tests::{Client, Daemon, PluginFile, Session, Shared, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Markup with a script, which every text may have.
const MARKUP: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>";

/// Bidirectional, invisible and control characters, which arguments may have.
const HIDDEN: &str = "\u{202e}\u{2066}\u{200b}\u{feff}\u{1b}[31m";

static FIXTURE: Shared<Fixture> = Shared::new();

/// Daemon shared by the tests over HTTP, with unique names.
struct Fixture {
    daemon: Daemon,
    operator: Client,
    made: u32,
}

/// An organization with a supervised agent.
struct Tenant {
    name: String,
    owner: Client,
    approver: Client,
    session: Session,
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, "");
        let operator = daemon.operator();
        operator.load_confirmed("pay", &payments());
        Self { daemon, operator, made: 0 }
    }

    fn tenant(&mut self) -> Tenant {
        self.made += 1;
        Tenant::make(&self.operator, &format!("tenant{}", self.made))
    }
}

impl Tenant {
    fn make(operator: &Client, name: &str) -> Self {
        let agent = format!("{name}/bot");
        operator.make_agent(&agent, &json!({"enabled": ["pay/*"], "autonomy": "supervised"}));
        let token = |role: &str| {
            let request = json!({"role": role, "organization": name, "label": format!("{role} of {name}")});
            operator.with_new_token(&request)
        };
        Self {
            name: name.to_owned(),
            owner: token("owner"),
            approver: token("approver"),
            session: token("orchestrator").open_session(&agent),
        }
    }

    /// Makes a call that waits for approval, and returns the approval's id.
    fn ask(&self, call: &str, arguments: Value) -> String {
        let reply = self.session.call_as(call, "pay/send", arguments);
        assert_eq!(reply.status(), "approval_required", "{}", reply.0);
        reply.approval()
    }

    fn approval(&self, id: &str) -> Value {
        self.owner.get(&format!("/v1/approvals/{id}")).expect(200).json()
    }
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, test);
}

/// Plugin whose tool changes something, with markup in each text.
fn payments() -> Vec<u8> {
    let schema = json!({
        "type": "object",
        "properties": {"to": {"type": "string", "description": MARKUP}, "amount": {"type": "integer"}},
        "required": ["to", "amount"], "additionalProperties": false,
    });
    let tool = |name: &str, read_only: bool| {
        json!({
            "name": name, "description": format!("Pays. {MARKUP}"), "usage": format!("Use it. {MARKUP}"),
            "input_schema": schema, "hints": {"read_only": read_only},
        })
    };
    let description = json!({
        "name": "pay", "version": "1.0.0", "publisher": "Toolgate tests",
        "tools": [tool("send", false), tool("quote", true)],
    });
    PluginFile::of(description).with_argument_bytes(512 * 1024).with_result("{\"done\":true}").build()
}
