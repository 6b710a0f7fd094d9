//! From the owner's hand to the upstream and no further: a stored credential in the requests of a plugin (K1, K2, K5).

use toolgate_tests::{Client, Session, Value, json};

use super::{API, Fixture, fetch, upstream, with_fixture};

const SECRET: &str = "sk_live_owned_77c1d0";
const CHARGES: &str = "https://api.upstream.test:8443/v1/charges";

/// A session of the organization that keeps the credential, of a user or of nobody.
fn session(operator: &Client, user: Option<&str>) -> Session {
    let request = json!({"agent": "keeper/bot", "user": user});
    let opened = operator.post("/v1/sessions", &request).expect(201).json();
    Session { client: operator.clone(), id: opened["session"].as_str().unwrap_or_default().to_owned() }
}

fn keep(operator: &Client, name: &str, document: &Value) {
    let headers = [("Content-Type", "application/json"), ("If-None-Match", "*")];
    let path = format!("/v1/orgs/keeper/credentials/{name}");
    operator.send("PUT", &path, &headers, document.to_string().as_bytes()).expect(201);
}

fn bearer(secret: &str, more: &Value) -> Value {
    let mut document = json!({
        "provider": "stripe", "kind": "bearer", "secret": secret,
        "bound_to": [{"host": "api.upstream.test", "port": 8443, "path": "/v1/"}],
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    document
}

/// The authorization that the upstream saw last.
fn sent(fixture: &Fixture) -> Option<String> {
    let request = fixture.upstream.requests().pop()?;
    let line = request.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"))?;
    Some(line.split_once(' ')?.1.to_owned())
}

#[test]
fn k2_a_stored_credential_goes_where_it_is_bound_to_and_the_plugin_never_sees_it() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| upstream::ok("text/plain", &format!("you said {SECRET}")));
        let operator = fixture.daemon.operator();
        operator.make_agent("keeper/bot", &json!({"enabled": ["*"]}));
        let with_credentials = |user_credentials: bool| {
            let mut grant = super::grant(&fixture.upstream);
            grant["credentials"] = json!(["stripe"]);
            grant["user_credentials"] = json!(user_credentials);
            operator.replace("/v1/plugins/caller/grant", &grant).expect(200);
        };
        with_credentials(true);
        let nobody = session(&operator, None);
        // Granted, and nobody has one.
        fetch(&nobody, "GET", CHARGES).expect_error("CREDENTIAL_MISSING");

        keep(&operator, "stripe", &bearer(SECRET, &json!({})));
        let reply = fetch(&nobody, "GET", CHARGES);
        assert_eq!(sent(fixture).as_deref(), Some(format!("Bearer {SECRET}").as_str()));
        let output = reply.output().to_string();
        assert!(output.contains(&format!("you said {}", "*".repeat(SECRET.len()))), "{output}");
        assert!(!reply.0.to_string().contains(SECRET), "{}", reply.0);
        let effects = format!("{:?}", fixture.effects(&nobody));
        assert!(effects.contains("credential stripe@1") && !effects.contains(SECRET), "{effects}");

        // Another path of the same host is not bound to, and shows nothing that the call may use.
        for url in [&*format!("{API}/elsewhere"), "http://plain.upstream.test:8080/"] {
            let reply = fetch(&nobody, "GET", url);
            assert_eq!(sent(fixture), None, "{url}");
            assert!(reply.output().to_string().contains("you said ***"), "{url}: {}", reply.0);
            assert!(!reply.0.to_string().contains(SECRET), "{url}: {}", reply.0);
        }

        // A user's own comes first, and is nobody else's.
        keep(&operator, "ann", &bearer("of-ann-0123456789", &json!({"user": "ann"})));
        fetch(&session(&operator, Some("ann")), "GET", CHARGES).output();
        assert_eq!(sent(fixture).as_deref(), Some("Bearer of-ann-0123456789"));
        fetch(&nobody, "GET", CHARGES).output();
        assert_eq!(sent(fixture).as_deref(), Some(format!("Bearer {SECRET}").as_str()));

        // Unless the grant leaves those of users out.
        with_credentials(false);
        fetch(&session(&operator, Some("ann")), "GET", CHARGES).output();
        assert_eq!(sent(fixture).as_deref(), Some(format!("Bearer {SECRET}").as_str()));

        operator.replace("/v1/plugins/caller/grant", &super::grant(&fixture.upstream)).expect(200);
        fetch(&nobody, "GET", CHARGES).output();
        assert_eq!(sent(fixture), None, "the grant names no credential any more");
        // The same words are no secret of a plugin that may use none.
        assert!(fetch(&nobody, "GET", CHARGES).output().to_string().contains(SECRET));
    });
}
