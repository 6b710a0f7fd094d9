//! Secrets in a running daemon: confidentiality, sealed starts, root key rotation under load and kill, and OAuth2
//! against a real provider (npm `oidc-provider`, installed by `.ci/run`; without it those tests print a note and
//! pass).

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod oauth;
mod root_key;
mod confidentiality;
mod vault;

use toolgate_tests::{Client, Daemon, PluginFile, Session, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Secret whose occurrences the tests search for.
const CANARY: &str = "sk_live_canary_51Hq9";

fn bearer(secret: &str) -> Value {
    json!({"provider": "stripe", "kind": "bearer", "secret": secret, "bound_to": [{"host": "api.stripe.com"}]})
}

/// Starts a daemon with an agent `acme/bot` and a tool that needs `stripe`.
fn daemon(settings: &str) -> (Daemon, Client) {
    let daemon = Daemon::start(PROGRAM, settings);
    let operator = daemon.operator();
    prepare(&operator);
    (daemon, operator)
}

fn prepare(operator: &Client) {
    operator.load("pay", &PluginFile::new("pay").build());
    operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
    operator.make("/v1/platform/policy", &json!({"integrations": {"pay/*": "stripe"}})).expect(201);
}

/// Whether the session lists the tool.
fn has_tool(session: &Session) -> bool {
    session.client.get(&session.path("/tools")).expect(200).text().contains("call_pay_answer")
}

const STRIPE: &str = "/v1/orgs/acme/credentials/stripe";

fn put(client: &Client, path: &str, document: &Value) -> toolgate_tests::Reply {
    client.send("PUT", path, &[("Content-Type", "application/json")], document.to_string().as_bytes())
}
