//! Grants over HTTP and by command line.

use super::{API, PROGRAM, fetch, with_fixture};
use toolgate_tests::{Daemon, daemon, guests, json};

const PATH: &str = "/v1/plugins/caller/grant";

#[test]
fn b5_a_replaced_grant_applies_at_once() {
    with_fixture(|fixture| {
        let (operator, session) = (fixture.daemon.operator(), fixture.session());
        fetch(&session, "GET", &format!("{API}/")).output();
        operator.replace(PATH, &json!({"filesystem": "workspace"})).expect(200);
        fetch(&session, "GET", &format!("{API}/")).expect_error("NETWORK_DENIED");
        assert_eq!(operator.get(PATH).expect(200).json(), json!({"filesystem": "workspace"}));
        operator.replace(PATH, &super::grant(&fixture.upstream)).expect(200);
        fetch(&session, "GET", &format!("{API}/")).output();
    });
}

#[test]
fn b5_an_invalid_grant_leaves_the_previous_one_in_force() {
    with_fixture(|fixture| {
        let (operator, session) = (fixture.daemon.operator(), fixture.session());
        for (document, pointer) in [
            (json!({"netwrok": []}), "/netwrok"),
            (json!({"private_networks": ["0.0.0.0/0"]}), "/private_networks/0"),
            (
                json!({"extra_ca": ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]}),
                "/extra_ca/0",
            ),
            (json!({"network": [{"scheme": "http", "host": "a.example"}]}), "/network/0"),
        ] {
            let reply = operator.replace(PATH, &document);
            assert_eq!(reply.json()["error_type"], "INVALID_POLICY", "{}", reply.text());
            assert_eq!(reply.json()["details"]["pointer"], pointer, "{}", reply.text());
        }
        let unsaid = operator.send("PUT", PATH, &[("Content-Type", "application/json")], b"{}");
        assert_eq!(unsaid.status, 428, "{}", unsaid.text());
        operator.make(PATH, &json!({})).expect_refusal(412, "CONFLICT");
        operator.make("/v1/plugins/nobody/grant", &json!({})).expect_refusal(404, "NOT_FOUND");
        fetch(&session, "GET", &format!("{API}/")).output();
    });
}

#[test]
fn b5_an_organizations_policy_restricts_the_hosts_of_all_its_agents() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        for agent in ["narrow/one", "narrow/two", "wide/one"] {
            operator.make_agent(agent, &json!({"enabled": ["*"]}));
        }
        operator.make_agent(
            "narrow/mine",
            &json!({"enabled": ["*"], "network": [{"host": "api.upstream.test", "port": 8443, "path": "/ours/mine"}]}),
        );
        let policy = "/v1/orgs/narrow/policy";
        let [one, two, wide, mine] =
            ["narrow/one", "narrow/two", "wide/one", "narrow/mine"].map(|agent| operator.open_session(agent));
        let (ours, others) = (format!("{API}/ours/mine"), format!("{API}/others"));
        fetch(&one, "GET", &others).output();
        let rule = json!({"host": "api.upstream.test", "port": 8443, "path": "/ours"});
        let network = json!([rule, {"host": "evil.test"}]);
        operator.replace(policy, &json!({"enabled": "*", "network": network})).expect(200);
        for session in [&one, &two, &mine] {
            fetch(session, "GET", &ours).output();
            let before = fixture.upstream.connections();
            let reply = fetch(session, "GET", &others).expect_error("NETWORK_DENIED");
            assert_eq!(reply.0["error"]["details"], json!({"denied_by": "organization"}), "{}", reply.0);
            assert_eq!(fixture.upstream.connections(), before);
            // A policy can remove hosts but not grant any.
            fetch(session, "GET", "https://evil.test/").expect_error("NETWORK_DENIED");
        }
        let reply = fetch(&mine, "GET", &format!("{API}/ours/yours")).expect_error("NETWORK_DENIED");
        assert_eq!(reply.0["error"]["details"]["denied_by"], "agent", "{}", reply.0);
        fetch(&one, "GET", &format!("{API}/ours/yours")).output();
        fetch(&wide, "GET", &others).output();
        // An invalid policy leaves the previous one in force.
        let invalid = json!({"enabled": "*", "network": [{"hosts": "api.upstream.test"}]});
        let refused = operator.replace(policy, &invalid);
        assert_eq!(refused.json()["details"]["pointer"], "/network/0/hosts", "{}", refused.text());
        fetch(&one, "GET", &others).expect_error("NETWORK_DENIED");
        operator.replace(policy, &json!({"enabled": "*", "network": []})).expect(200);
        fetch(&one, "GET", &ours).expect_error("NETWORK_DENIED");
        operator.replace(policy, &json!({"enabled": "*"})).expect(200);
        fetch(&one, "GET", &others).output();
    });
}

/// A grant survives a crash and is deleted with its plugin.
#[test]
fn b5_a_grant_survives_a_crash_and_is_deleted_with_its_plugin() {
    // A closed port: the name server does not answer.
    let daemon = Daemon::start(PROGRAM, "[egress]\nname_servers = [\"127.0.0.1:9\"]\n");
    let loaded = daemon.operator().load("caller", guests::CALLER);
    let asked = &loaded["capabilities"]["network"];
    assert_eq!(asked[1], json!({"scheme": "https", "host": "*.upstream.test", "port": 8443}), "{loaded}");
    let document = json!({"network": [{"host": "example.invalid"}]});
    daemon.operator().make(PATH, &document).expect(201);
    let daemon = daemon.crash_and_restart();
    let operator = daemon.operator();
    assert_eq!(operator.get(PATH).expect(200).json(), document);
    let session = daemon.session_within("acme/bot", &json!({}));
    // Permitted, but the name cannot be resolved.
    fetch(&session, "GET", "https://example.invalid/").expect_error("API_UNAVAILABLE");
    fetch(&session, "GET", &format!("{API}/")).expect_error("NETWORK_DENIED");
    operator.delete("/v1/plugins/caller").expect(204);
    operator.load("caller", guests::CALLER);
    assert_eq!(operator.get(PATH).expect(200).json()["network"], json!([]), "nothing is granted by default");
    fetch(&session, "GET", "https://example.invalid/").expect_error("NETWORK_DENIED");
}

#[test]
fn b5_a_grant_is_given_from_the_command_line() {
    let running = Daemon::start(PROGRAM, "");
    running.operator().load("caller", guests::CALLER);
    let folder = running.folder.path();
    std::fs::write(
        folder.join("grant.json"),
        r#"{"network":[{"host":"example.invalid"}],"credentials":["paypal"]}"#,
    )
    .expect("a file");
    let server = format!("http://{}", running.address);
    let token = running.data().join("operator.token");
    let token = token.to_str().expect("a path");
    let run = |file: &str| {
        let arguments = ["plugin", "grant", "caller", file, "--server", &server, "--token-file", token];
        daemon::run_to_end(PROGRAM, &arguments, folder)
    };
    let done = run("grant.json");
    assert!(done.status.success() && done.stderr.contains("asks for no credential"), "{done:?}");
    assert_eq!(running.operator().get(PATH).expect(200).json()["credentials"], json!(["paypal"]));
    std::fs::write(folder.join("wrong.json"), r#"{"hosts":[]}"#).expect("a file");
    let refused = run("wrong.json");
    assert!(
        refused.status.code() == Some(1) && refused.stderr.contains("unknown field `hosts`"),
        "{refused:?}"
    );
}
