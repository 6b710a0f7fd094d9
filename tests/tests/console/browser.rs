//! The console in Debian's Chromium, driven by scripts of `tests/console`; their state is checked over HTTP.

use std::path::{Path, PathBuf};

use toolgate_tests::upstream::{self, Upstream};
use toolgate_tests::{Client, Daemon, json, process};

use crate::changes::plugin;
use crate::provider::{People, drives};
use crate::{MARKUP, PROGRAM, Tenant, payments};

/// Runs a script with tokens of each role. Screenshots are kept in the target folder.
fn run(script: &str, daemon: &Daemon, tenant: &Tenant) {
    run_with(script, daemon, tenant, &[]);
}

/// Runs a script as [`run`] does, with further variables.
fn run_with(script: &str, daemon: &Daemon, tenant: &Tenant, variables: &[(&str, &str)]) {
    let installed = process::find_installed(PROGRAM, "console");
    let target = Path::new(PROGRAM).parent().and_then(Path::parent).expect("a target folder");
    let token = |client: &Client| client.token.clone().expect("a token");
    let tokens = json!({
        "operator": daemon.operator_token(), "owner": token(&tenant.owner), "approver": token(&tenant.approver),
        "orchestrator": token(&tenant.session.client),
    });
    let done = process::external_command("node")
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("console").join(script))
        .current_dir(&installed)
        .env("TOOLGATE_ADDRESS", format!("http://{}", daemon.address))
        .env("TOOLGATE_CHROMIUM", installed.join("chromium"))
        .env("TOOLGATE_PICTURES", target.join("console-pictures"))
        .env("TOOLGATE_SESSION", &tenant.session.id)
        .env("TOOLGATE_TOKENS", tokens.to_string())
        .envs(variables.iter().copied())
        .output()
        .expect("node is installed");
    let text = [String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)].concat();
    assert!(done.status.success(), "{script}: {text}");
}

fn start() -> (Daemon, Tenant) {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load_confirmed("pay", &payments());
    let tenant = Tenant::make(&operator, "acme");
    (daemon, tenant)
}

#[test]
#[cfg_attr(not(has = "console"), ignore = "needs Chromium, which `.ci/install-test-tools` installs")]
fn o6_every_page_is_light_fits_small_screens_and_bars_nobody() {
    let (daemon, tenant) = start();
    let bearer = json!({
        "provider": "stripe", "kind": "bearer", "secret": "sk_live_walk", "bound_to": [{"host": "api.stripe.com"}],
    });
    tenant.owner.make("/v1/orgs/acme/credentials/stripe", &bearer).expect(201);
    tenant.ask("c1", json!({"to": "Bob", "amount": 5}));
    tenant.ask("c2", json!({"to": MARKUP, "amount": 7}));
    for call in 0..120 {
        let amount = json!({"to": format!("Customer {call}"), "amount": call});
        tenant.session.call_as(&format!("q{call}"), "pay/quote", amount).output();
    }
    tenant.session.call("pay/quote", json!({"to": 5})).expect_error("INVALID_ARGUMENTS");
    tenant.session.put_file("notes/plan.md", MARKUP.as_bytes()).expect(204);
    run("walk.mjs", &daemon, &tenant);
}

#[test]
#[cfg_attr(not(has = "console"), ignore = "needs Chromium, which `.ci/install-test-tools` installs")]
fn o6_people_decide_with_the_keyboard_without_a_script_and_while_they_watch() {
    let (daemon, tenant) = start();
    run("approvals.mjs", &daemon, &tenant);
}

#[test]
#[cfg_attr(not(has = "console"), ignore = "needs Chromium, which `.ci/install-test-tools` installs")]
fn o6_owners_and_operators_watch_calls_find_out_why_and_change_things() {
    let (daemon, tenant) = start();
    run("operators.mjs", &daemon, &tenant);
}

#[test]
#[cfg_attr(not(has = "console"), ignore = "needs Chromium, which `.ci/install-test-tools` installs")]
fn o6_ten_tasks_take_few_clicks_from_the_overview() {
    let upstream = Upstream::start();
    upstream.resolve_api();
    upstream.answer(|_| upstream::ok("application/json", r#"{"now": "rain"}"#));
    let daemon = Daemon::start(PROGRAM, &upstream.settings());
    let operator = daemon.operator();
    operator.load_confirmed("pay", &payments());
    let tenant = Tenant::make(&operator, "acme");
    let grant = upstream.grant(json!({"network": [{"host": "api.upstream.test", "port": 8443}]}));
    operator.make("/v1/orgs/acme/tools/weather/grant", &grant).expect(201);
    run("tasks.mjs", &daemon, &tenant);
}

#[test]
#[cfg_attr(
    not(all(has = "console", has = "identity")),
    ignore = "needs Chromium and the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_people_sign_in_and_connect_a_credential_at_a_provider_of_another_site() {
    let people = People::start_with("[consent]\nrequired = true\n");
    let loaded = people.operator.load("pay", &payments());
    let grant = json!({"confirmed_hints": loaded["digest"], "standard": true});
    people.operator.make("/v1/plugins/pay/grant", &grant).expect(201);
    people.operator.load("drives", &drives());
    let tenant = Tenant::make(&people.operator, "acme");
    let provider = format!("http://localhost:{}", people.address.port());
    run_with("provider.mjs", &people.daemon, &tenant, &[("TOOLGATE_PROVIDER", &provider)]);
}

#[test]
#[cfg_attr(not(has = "console"), ignore = "needs Chromium, which `.ci/install-test-tools` installs")]
fn o6_people_bring_plugins_files_assertions_and_agents() {
    let (daemon, tenant) = start();
    let file = daemon.data().with_file_name("stranger.wasm");
    std::fs::write(&file, plugin("1.0.0", "Answers.")).expect("a file");
    run_with("uploads.mjs", &daemon, &tenant, &[("TOOLGATE_PLUGIN", file.to_str().expect("UTF-8"))]);
}
