//! The MCP server as an OAuth 2.1 protected resource, with a real authorization server (npm `oidc-provider`).

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use toolgate_tests::daemon::Options;
use toolgate_tests::process::{ServerProcess, external_command, find_installed, free_address};
use toolgate_tests::wait;

use super::*;

struct Issuer {
    _process: ServerProcess,
    url: String,
    client: Client,
}

struct Fixture {
    issuer: Issuer,
    daemon: Daemon,
    operator: Client,
}

impl Issuer {
    fn start(resource: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("identity/issuer.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(resource).current_dir(find_installed(PROGRAM, "identity"));
        let (process, url) = ServerProcess::start(&mut command, |_| true);
        let address: SocketAddr = url.trim_start_matches("http://").parse().expect("an address");
        Self { _process: process, url, client: Client::new(address, None) }
    }

    /// An access token by the grant of client credentials.
    fn token(&self, endpoint: &str, client: &str, resource: &str) -> String {
        let credentials = [
            ("bot", "Ym90OnNlY3JldA=="),
            ("rsa", "cnNhOnNlY3JldA=="),
            ("other", "b3RoZXI6c2VjcmV0"),
            ("stray", "c3RyYXk6c2VjcmV0"),
        ];
        let basic = credentials.iter().find(|(name, _)| *name == client).expect("a client").1;
        let basic = format!("Basic {basic}");
        let headers = [("Authorization", &*basic), ("Content-Type", "application/x-www-form-urlencoded")];
        let resource = resource.replace(':', "%3A").replace('/', "%2F");
        let form = format!("grant_type=client_credentials&scope=tools&resource={resource}");
        let reply = self.client.send("POST", endpoint, &headers, form.as_bytes()).expect(200).json();
        reply["access_token"].as_str().expect("a token").to_owned()
    }

    /// A token of the subject `bot` with these claims.
    fn sign(&self, agent: &str, expires: u64) -> String {
        let claims = json!({"sub": "bot", "toolgate_agent": agent, "exp": expires}).to_string();
        let query: String = claims.bytes().map(|byte| format!("%{byte:02x}")).collect();
        self.client.get(&format!("/sign?claims={query}")).expect(200).text()
    }
}

impl Fixture {
    fn start() -> Self {
        let address = free_address();
        let resource = format!("http://{address}/mcp");
        let issuer = Issuer::start(&resource);
        let settings = format!(
            "[oauth]\nresource = \"{resource}\"\nscopes = [\"tools\"]\n[[oauth.issuers]]\nissuer = \"{}\"\n",
            issuer.url
        );
        let options = Options { settings, listen: Some(address.to_string()), ..Options::default() };
        let daemon = Daemon::start_with(PROGRAM, options);
        let operator = daemon.operator();
        for agent in ["acme/bot", "acme/other"] {
            operator.make_agent(agent, &json!({"enabled": ["arithmetic/*"]}));
        }
        Self { issuer, daemon, operator }
    }

    fn client(&self, token: &str) -> Client {
        Client::new(self.daemon.address, Some(token))
    }

    fn token(&self, client: &str) -> String {
        self.issuer.token("/token", client, &format!("http://{}/mcp", self.daemon.address))
    }
}

fn list(client: &Client) -> Reply {
    send(client, "tools/list", json!({}), &[])
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// The value of a parameter of a challenge.
fn parameter<'a>(challenge: &'a str, name: &str) -> &'a str {
    let rest = challenge.split_once(&format!("{name}=\"")).expect("the parameter").1;
    rest.split('"').next().unwrap_or_default()
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs the OAuth2 provider, which `.ci/run` installs")]
fn m2_the_metadata_lead_a_client_from_the_refusal_to_a_token_that_works() {
    let fixture = Fixture::start();
    let daemon = fixture.daemon.anonymous();
    let refused = list(&daemon).expect_refusal(401, "UNAUTHENTICATED");
    let challenge = refused.header("www-authenticate").expect("a challenge").to_owned();
    assert!(!challenge.contains("error=") && parameter(&challenge, "scope") == "tools", "{challenge}");
    let url = parameter(&challenge, "resource_metadata");
    let path = url.strip_prefix(&format!("http://{}", fixture.daemon.address)).expect("the daemon's");
    let metadata = daemon.get(path).expect(200).json();
    assert_eq!(daemon.get("/.well-known/oauth-protected-resource").expect(200).json(), metadata);
    assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
    assert_eq!(metadata["authorization_servers"], json!([fixture.issuer.url]));
    let server = fixture.issuer.client.get("/.well-known/openid-configuration").expect(200).json();
    let endpoint = server["token_endpoint"].as_str().expect("an endpoint");
    let endpoint = endpoint.strip_prefix(&fixture.issuer.url).expect("the issuer's");
    let resource = metadata["resource"].as_str().expect("a resource");
    for client in ["bot", "rsa"] {
        let token = fixture.issuer.token(endpoint, client, resource);
        let answer = call(&fixture.client(&token), "call_arithmetic_evaluate", json!({"expression": "6*7"}));
        assert_eq!(answer["result"]["structuredContent"]["decimal"], "42", "{answer}");
        let calls = fixture.operator.audit("kind=call&limit=1");
        let (call, principal) = (&calls[0]["call"], format!("jwt:{}#{client}", fixture.issuer.url));
        assert_eq!((&call["principal"], &call["source"]), (&json!(principal), &json!("mcp")), "{calls:?}");
        assert_eq!((&call["organization"], &call["agent"]), (&json!("acme"), &json!("bot")), "{calls:?}");
        assert_eq!(call["user"], client, "the subject is the user: {calls:?}");
    }
}

#[test]
#[cfg_attr(not(all(has = "identity", has = "clients")), ignore = "needs packages that `.ci/run` installs")]
fn m2_the_python_client_finds_its_way_to_a_token() {
    let fixture = Fixture::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/oauth.py");
    let done = external_command(tool_path("mcp-2/bin/python"))
        .arg(script)
        .env("TOOLGATE_URL", format!("http://{}/mcp", fixture.daemon.address))
        .env("ISSUER", &fixture.issuer.url)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs the OAuth2 provider, which `.ci/run` installs")]
fn m2_a_rotated_key_is_taken_at_once_and_the_old_one_ends_its_streams() {
    let fixture = Fixture::start();
    let old = fixture.client(&fixture.token("bot"));
    list(&old).expect(200);
    let listening = listen(&old);
    fixture.issuer.client.get("/rotate").expect(200);
    list(&old).expect(200);
    list(&fixture.client(&fixture.token("bot"))).expect(200);
    let refused = list(&old).expect_refusal(401, "UNAUTHENTICATED");
    assert!(refused.text().contains("its issuer has no key"), "{}", refused.text());
    listening.all().expect("the end of the stream");
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs the OAuth2 provider, which `.ci/run` installs")]
fn m2_a_token_that_is_not_valid_gets_the_reason() {
    let fixture = Fixture::start();
    let good = fixture.token("bot");
    list(&fixture.client(&good)).expect(200);
    let elsewhere = fixture.issuer.token("/token", "bot", "https://other.example/mcp");
    let none = format!("eyJhbGciOiJub25lIn0.{}.", good.split('.').nth(1).expect("claims"));
    let expired = fixture.issuer.sign("acme/bot", seconds_since_1970() - 61);
    for (token, reason) in [
        (&*elsewhere, "its audience is not"),
        (&*none, "its algorithm is `none`"),
        (&*fixture.token("stray"), "its agent `acme/none` does not exist"),
        (&*expired, "it has expired"),
        ("a.b.c", "it is not a signed JWT"),
    ] {
        let refused = list(&fixture.client(token)).expect_refusal(401, "UNAUTHENTICATED");
        let challenge = refused.header("www-authenticate").expect("a challenge");
        assert_eq!(parameter(challenge, "error"), "invalid_token");
        assert!(parameter(challenge, "error_description").contains(reason), "{challenge}");
        assert!(refused.text().contains(reason), "{}", refused.text());
    }
    // The daemon's own tokens get the same challenge, and other routes none.
    let unknown = list(&fixture.client("tg_0123456789abcdef_x")).expect_refusal(401, "UNAUTHENTICATED");
    assert!(unknown.header("www-authenticate").is_some_and(|value| value.contains("invalid_token")));
    let refused = fixture.client(&good).get("/v1/approvals").expect_refusal(401, "UNAUTHENTICATED");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    let agent = fixture.operator.get("/v1/orgs/acme/agents/bot").expect(200);
    let tag = [("If-Match", agent.header("etag").expect("a tag"))];
    fixture.operator.send("DELETE", "/v1/orgs/acme/agents/bot", &tag, b"").expect(204);
    list(&fixture.client(&good)).expect_refusal(401, "UNAUTHENTICATED");
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs the OAuth2 provider, which `.ci/run` installs")]
fn m2_a_stream_ends_with_its_access_token_and_a_session_goes_on_with_the_next() {
    let fixture = Fixture::start();
    // Tokens of the same subject with this many seconds of the leeway left.
    let token =
        |left: u64| fixture.client(&fixture.issuer.sign("acme/bot", seconds_since_1970() + left - 60));
    let first = token(8);
    let id = initialize(&first);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    first.send("POST", "/mcp", &session_headers(&id), initialized.as_bytes()).expect(202);
    let listening = listen(&first);
    let (second, third) = (token(20), token(600));
    let notifications = second.start("GET", "/mcp", &session_headers(&id), b"");
    let within = |client: &Client| list_within(client, &id);
    within(&third).expect(200);
    listening.all().expect("the end of the stream");
    wait::until_true("the expiry", || within(&first).status == 401);
    // The session still follows the list.
    let more = json!({"enabled": ["arithmetic/*", "text/*"], "autonomy": "autonomous"});
    fixture.operator.replace("/v1/orgs/acme/agents/bot", &more).expect(200);
    let notifications = notifications.all().expect("the end of the stream");
    let notifications = String::from_utf8_lossy(&notifications);
    assert!(notifications.contains("notifications/tools/list_changed"), "{notifications}");
    within(&third).expect(200);
    // Another agent of the same subject, and another subject with the same agent.
    within(&fixture.client(&fixture.issuer.sign("acme/other", seconds_since_1970() + 600))).expect(404);
    within(&fixture.client(&fixture.token("rsa"))).expect(404);
    within(&fixture.client(&fixture.token("bot"))).expect(200);
}

#[test]
fn m2_without_issuers_there_are_no_metadata_and_the_challenge_is_plain() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let anonymous = server.daemon.anonymous();
    for path in ["", "/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        anonymous.get(&path).expect_refusal(404, "NOT_FOUND");
    }
    let token = Client::new(server.daemon.address, Some("eyJhbGciOiJub25lIn0.e30."));
    let refused = list(&token).expect_refusal(401, "UNAUTHENTICATED");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
}
