//! OAuth2 against a real provider: client credentials, and the authorization code flow in a browser (K3).

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use toolgate_tests::process::{ServerProcess, find_installed, free_address};
use toolgate_tests::redirects::ProviderBrowser;
use toolgate_tests::upstream::{self, Upstream};
use toolgate_tests::{Reply, guests, wait};

use super::*;

const DRIVE: &str = "/v1/orgs/acme/credentials/drive";

/// Life of tokens of which a test sees the renewal, which comes this time after they were issued.
const SHORT_SECONDS: u64 = 1 + MARGIN.as_secs();
/// Life of tokens that are not renewed during a test.
const LONG_SECONDS: u64 = 3_600;
/// Time before its end at which a token is no longer sent.
const MARGIN: Duration = Duration::from_secs(5);

/// Provider process, killed on drop.
struct Provider {
    _process: ServerProcess,
    address: SocketAddr,
}

impl Provider {
    fn start(folder: &Path, address: SocketAddr, redirect_uri: &str, life_seconds: u64) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("identity/provider.mjs");
        let mut command = Command::new("node");
        command.arg(script).args([&address.port().to_string(), redirect_uri, &life_seconds.to_string()]);
        command.current_dir(folder);
        let (process, line) = ServerProcess::start(&mut command, |_| true);
        assert_eq!(line, format!("http://{address}"));
        Self { _process: process, address }
    }

    /// Number of token requests.
    fn token_requests(&self) -> u64 {
        let counts = Client::new(self.address, None).get("/asked").expect(200).json();
        counts["token"].as_u64().expect("a number")
    }

    /// Whether the provider considers a token of the client `machine` valid (RFC 7662).
    fn is_valid(&self, token: &str) -> bool {
        let form = format!("client_id=machine&client_secret=machine-secret-canary&token={token}");
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        let client = Client::new(self.address, None);
        let answer = client.send("POST", "/token/introspection", &headers, form.as_bytes());
        answer.expect(200).json()["active"] == true
    }

    /// Deletes a client at the provider.
    fn forget(&self, client: &str) {
        Client::new(self.address, None).get(&format!("/forget/{client}")).expect(200);
    }
}

struct Fixture {
    daemon: Daemon,
    operator: Client,
    provider: Provider,
}

impl Fixture {
    fn start() -> Self {
        Self::start_with("", SHORT_SECONDS)
    }

    fn start_with(settings: &str, life_seconds: u64) -> Self {
        let installed = find_installed(PROGRAM, "identity");
        // Daemon and provider need each other's address before they start.
        let address = free_address();
        let credentials = format!("[credentials]\nplain_http = [\"{address}\"]\n");
        let (daemon, operator) = daemon(&format!("[log]\nlevel = \"trace\"\n{credentials}{settings}"));
        let redirect_uri = format!("http://{}/v1/oauth/callback", daemon.address);
        let provider = Provider::start(&installed, address, &redirect_uri, life_seconds);
        operator.replace("/v1/platform/policy", &json!({"integrations": {"pay/*": "drive"}})).expect(200);
        Self { daemon, operator, provider }
    }

    fn credential(&self, kind: &str, client: &str, secret: Option<&str>) -> Value {
        let provider = self.provider.address;
        let mut document = json!({
            "provider": "drive", "kind": kind, "client_id": client,
            "token_url": format!("http://{provider}/token"), "bound_to": [{"host": "drive.example"}],
        });
        if kind == "oauth2_authorization_code" {
            document["authorization_url"] = json!(format!("http://{provider}/auth?prompt=consent"));
            document["scopes"] = json!(["openid", "offline_access"]);
        }
        if let Some(secret) = secret {
            document["secret"] = json!(secret);
        }
        document
    }

    fn put(&self, document: &Value) {
        let reply = put(&self.operator, DRIVE, document);
        assert!([200, 201].contains(&reply.status), "{}", reply.text());
    }

    /// Starts an authorization flow.
    fn connect(&self) -> Value {
        self.operator.post(&format!("{DRIVE}/connect"), &json!({})).expect(200).json()
    }

    fn state(&self) -> String {
        self.operator.get(DRIVE).expect(200).json()["state"].as_str().expect("a state").to_owned()
    }

    /// Gives consent as a user, and returns the redirect URL.
    fn give_consent(&self, url: &str) -> String {
        ProviderBrowser::default().follow_to(self.provider.address, url, "/v1/oauth/callback")
    }

    /// Requests the redirect URL.
    fn open_redirect(&self, url: &str) -> Reply {
        let path = url.split_once(&self.daemon.address.to_string()).expect("the daemon's address").1;
        self.daemon.anonymous().get(path)
    }
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs an OAuth2 provider, which `.ci/run` installs")]
fn k3_a_user_connects_a_credential_and_it_is_refreshed_before_expiry() {
    let fixture = Fixture::start();
    for (client, secret) in [("person", Some("person-secret-canary")), ("public", None)] {
        fixture.put(&fixture.credential("oauth2_authorization_code", client, secret));
        let session = fixture.operator.open_session("acme/bot");
        assert_eq!(fixture.state(), "pending");
        assert!(!has_tool(&session));
        let flow = fixture.connect();
        assert_eq!(flow["scopes"], json!(["openid", "offline_access"]));
        let back = fixture.give_consent(flow["url"].as_str().expect("an address"));
        let page = fixture.open_redirect(&back).expect(200);
        assert!(page.text().contains("acme/drive is connected"), "{}", page.text());
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(fixture.state(), "connected");
        assert!(has_tool(&session));
        // An authorization code works once.
        fixture.open_redirect(&back).expect_refusal(410, "EXPIRED");
        let version =
            || fixture.operator.get(DRIVE).expect(200).json()["version"].as_u64().expect("a number");
        let (connected, asked_before) = (version(), fixture.provider.token_requests());
        // A renewal may be between both numbers. Others follow it.
        wait::until_true("tokens to be renewed", || {
            version() > connected && fixture.provider.token_requests() > asked_before
        });
        assert_eq!(fixture.state(), "connected");
    }
    let records = Value::Array(fixture.operator.audit("kind=admin&limit=100")).to_string();
    assert!(records.contains("credential.connected"), "{records}");
    for place in [records, fixture.daemon.log_text()] {
        assert!(!place.contains("-canary") && !place.contains("code="), "{place}");
    }
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs an OAuth2 provider, which `.ci/run` installs")]
fn k3_a_forged_callback_connects_no_credential() {
    let fixture = Fixture::start();
    fixture.put(&fixture.credential("oauth2_authorization_code", "person", Some("person-secret-canary")));
    let page = |query: &str| fixture.daemon.anonymous().get(&format!("/v1/oauth/callback?{query}"));
    page("state=made-up&code=made-up").expect_refusal(410, "EXPIRED");
    page("").expect_refusal(400, "INVALID_REQUEST");
    let browser = [("Accept", "text/html,application/xhtml+xml")];
    let read =
        fixture.daemon.anonymous().send("GET", "/v1/oauth/callback?state=made-up&code=a", &browser, b"");
    let read = read.expect(410);
    assert!(read.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
    assert!(read.text().starts_with("no authorization is pending"), "{}", read.text());
    page(&format!("state={}", "a".repeat(9_000))).expect_refusal(400, "INVALID_REQUEST");
    let state_of = |flow: &Value| {
        let url = flow["url"].as_str().expect("an address");
        url.split("state=").nth(1).and_then(|rest| rest.split('&').next()).expect("a state").to_owned()
    };
    // An unknown code.
    page(&format!("state={}&code=made-up", state_of(&fixture.connect())))
        .expect_refusal(424, "CREDENTIAL_MISSING");
    // The user denies consent.
    let denied = format!(
        "state={}&error=access_denied&error_description=The+user+said+no",
        state_of(&fixture.connect())
    );
    let denied = page(&denied).expect_refusal(424, "CREDENTIAL_MISSING");
    assert!(denied.text().contains("access_denied (The user said no)"), "{}", denied.text());
    // A code for another flow.
    let (first, second) = (fixture.connect(), fixture.connect());
    let back = fixture.give_consent(first["url"].as_str().expect("an address"));
    let other = back.replace(&state_of(&first), &state_of(&second));
    fixture.open_redirect(&other).expect_refusal(424, "CREDENTIAL_MISSING");
    assert_eq!(fixture.state(), "pending");
    // Positive twin.
    let back = fixture.give_consent(fixture.connect()["url"].as_str().expect("an address"));
    fixture.open_redirect(&back).expect(200);
    assert_eq!(fixture.state(), "connected");
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs an OAuth2 provider, which `.ci/run` installs")]
fn k3_a_rejected_client_revokes_the_credential() {
    let fixture = Fixture::start();
    fixture.put(&fixture.credential("oauth2_authorization_code", "person", Some("person-secret-canary")));
    let back = fixture.give_consent(fixture.connect()["url"].as_str().expect("an address"));
    fixture.open_redirect(&back).expect(200);
    let session = fixture.operator.open_session("acme/bot");
    assert!(has_tool(&session));
    let wrong = json!({"secret": "not-the-secret"});
    fixture.operator.post(&format!("{DRIVE}/rotate"), &wrong).expect(200);
    wait::until_true("the provider to say no", || fixture.state() == "revoked");
    assert!(!has_tool(&session));
    fixture.daemon.wait_for_log("the refusal", |line| line.contains("credential_refused"));
    let log = fixture.daemon.log_text();
    assert_eq!(log.matches("credential_refused").count(), 1, "{log}");
    assert!(log.contains("the provider responded `invalid_client`"), "{log}");
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs an OAuth2 provider, which `.ci/run` installs")]
fn k6_a_discovered_provider_connects_a_client_that_nobody_registered() {
    // The provider requests the client metadata at this URL, which its script leads to the daemon.
    let fixture = Fixture::start_with("public_url = \"https://localhost\"\n", SHORT_SECONDS);
    let issuer = format!("http://{}", fixture.provider.address);
    let request = json!({"url": issuer, "organization": "acme"});
    let found = fixture.operator.post("/v1/oauth/discover", &request).expect(200).json();
    assert_eq!(found["server"]["issuer"], issuer, "{found}");
    assert_eq!(found["server"]["code_challenge_methods_supported"], json!(["S256"]));
    let mut document = found["credential"].clone();
    assert_eq!(document["client_id"], "https://localhost/v1/oauth/clients/acme");
    assert_eq!(document["issuer"], issuer);
    assert!(document["scopes"].as_array().expect("scopes").contains(&json!("offline_access")));
    document["provider"] = json!("drive");
    document["bound_to"] = json!([{"host": "drive.example"}]);
    document["scopes"] = json!(["openid", "offline_access"]);
    fixture.put(&document);
    let back = fixture.give_consent(fixture.connect()["url"].as_str().expect("an address"));
    let query = back.split_once('?').expect("a query").1;
    let open = |query: &str| fixture.daemon.anonymous().get(&format!("/v1/oauth/callback?{query}"));
    open(query).expect(200);
    assert_eq!(fixture.state(), "connected");
    // The same flow, as if another authorization server had redirected the browser.
    let back = fixture.give_consent(fixture.connect()["url"].as_str().expect("an address"));
    let query = back.split_once('?').expect("a query").1;
    let other = query.replace(&format!("127.0.0.1%3A{}", fixture.provider.address.port()), "evil.example");
    assert_ne!(other, query);
    open(&other).expect_refusal(424, "CREDENTIAL_MISSING");
    open(query).expect_refusal(410, "EXPIRED");
    let acts = fixture.operator.audit("kind=admin&organization=acme&limit=100");
    let act = acts.iter().find(|row| row["admin"]["action"] == "credential.discover").expect("a record");
    assert!(act["admin"]["target"].as_str().is_some_and(|target| target.starts_with(&issuer)), "{act}");
}

/// A service over plain HTTP whose daemon may reach it.
fn service() -> (Upstream, Daemon, Client, String) {
    let upstream = Upstream::start();
    let place = format!("{}:8080", upstream.address);
    let settings = format!("[credentials]\nplain_http = [\"{place}\"]\n");
    let (daemon, operator) = daemon(&settings);
    (upstream, daemon, operator, format!("http://{place}"))
}

fn discover(operator: &Client, url: &str) -> Value {
    operator.post("/v1/oauth/discover", &json!({"url": url})).expect(200).json()
}

#[test]
fn k6_the_command_line_saves_what_a_service_leads_to() {
    let (upstream, daemon, operator, base) = service();
    let at = base.clone();
    upstream.answer(move |request| match request.split(' ').nth(1).unwrap_or_default() {
        "/mcp" => {
            let challenge = format!("Bearer resource_metadata=\"{at}/about\", scope=\"pages.read\"");
            upstream::answer(401, &[("WWW-Authenticate", &challenge), ("Connection", "close")], b"")
        }
        "/about" => {
            let servers = json!([format!("{at}/tenant")]);
            let about = json!({"resource": format!("{at}/mcp"), "authorization_servers": servers});
            upstream::ok("application/json", &about.to_string())
        }
        "/.well-known/openid-configuration/tenant" => {
            let metadata = json!({
                "issuer": format!("{at}/tenant"), "token_endpoint": format!("{at}/token"),
                "authorization_endpoint": format!("{at}/authorize"), "code_challenge_methods_supported": ["S256"],
            });
            upstream::ok("application/json", &metadata.to_string())
        }
        _ => upstream::answer(404, &[("Connection", "close")], b""),
    });
    let found = discover(&operator, &format!("{base}/mcp"));
    assert_eq!(found["server"]["issuer"], format!("{base}/tenant"), "{found}");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["credential", "discover"]).args(arguments);
        command.env("TOOLGATE_SERVER", format!("http://{}", daemon.address));
        command.env("TOOLGATE_TOKEN", daemon.operator_token()).output().expect("a process")
    };
    let output = run(&[&format!("{base}/mcp")]);
    let saved: Value = serde_json::from_slice(&output.stdout).expect("only the credential");
    assert_eq!(saved, found["credential"]);
    assert_eq!(
        (&saved["scopes"], &saved["token_url"]),
        (&json!(["pages.read"]), &json!(format!("{base}/token")))
    );
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "PKCE methods: S256",
        "add its `client_id`",
        "oauth-authorization-server/tenant: the response has status 404",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let output = run(&[&format!("{base}/other")]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}

#[test]
fn k6_hostile_metadata_lead_nowhere() {
    let (upstream, _daemon, operator, base) = service();
    type Answer = fn(&str) -> Vec<upstream::Piece>;
    let failures: [(&str, Answer, &str); 6] = [
        (
            "a redirect loop",
            |base| redirect(&format!("{base}/.well-known/oauth-authorization-server")),
            "redirects more than 3 times",
        ),
        (
            "a redirect into the network",
            |_| redirect("https://192.168.0.1/"),
            "an address that is not public",
        ),
        ("a redirect to plain HTTP", |_| redirect("http://127.0.0.1:9/"), "not in `credentials.plain_http`"),
        (
            "ten MiB",
            |_| {
                let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
                vec![upstream::Piece::Bytes(head), upstream::Piece::Repeat(vec![b' '; 1 << 20], 10)]
            },
            "too large",
        ),
        (
            "another issuer",
            |_| upstream::ok("application/json", r#"{"issuer":"https://idp.example"}"#),
            "another issuer, `https://idp.example`",
        ),
        (
            "no HTTP",
            |_| vec![upstream::Piece::Bytes(b"220 mail\r\n\r\n".to_vec())],
            "does not speak HTTP/1.1",
        ),
    ];
    for (case, answer, reason) in failures {
        let at = base.clone();
        upstream.answer(move |request| match request.contains("oauth-authorization-server") {
            true => answer(&at),
            false => upstream::answer(404, &[("Connection", "close")], b""),
        });
        let found = discover(&operator, &base);
        assert!(found["server"].is_null() && found["credential"].is_null(), "{case}: {found}");
        assert!(found["attempts"].to_string().contains(reason), "{case}: {found}");
    }
    // Positive twin, from a service whose response does not end.
    let at = base.clone();
    upstream.answer(move |request| match request.split(' ').nth(1).unwrap_or_default() {
        "/" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ping\n\n";
            vec![upstream::Piece::Bytes(head.into()), upstream::Piece::Hang]
        }
        "/.well-known/oauth-authorization-server" => {
            let metadata = json!({
                "issuer": at, "token_endpoint": format!("{at}/token"), "grant_types_supported": ["client_credentials"],
            });
            upstream::ok("application/json", &metadata.to_string())
        }
        _ => upstream::answer(404, &[("Connection", "close")], b""),
    });
    assert_eq!(discover(&operator, &base)["credential"]["kind"], "oauth2_client_credentials");
}

fn redirect(location: &str) -> Vec<upstream::Piece> {
    upstream::answer(302, &[("Location", location), ("Connection", "close")], b"")
}

/// Creates the grant and the credential with which `caller` reaches an upstream as the client `machine`.
fn prepare_machine_client(fixture: &Fixture, upstream: &Upstream) {
    let operator = &fixture.operator;
    operator.load("caller", guests::CALLER);
    let api = json!({"host": "api.upstream.test", "port": 8443});
    let grant = upstream.grant(json!({"network": [api], "credentials": ["stripe"]}));
    operator.make("/v1/plugins/caller/grant", &grant).expect(201);
    let document = json!({
        "provider": "stripe", "kind": "oauth2_client_credentials", "client_id": "machine",
        "secret": "machine-secret-canary", "secret_in_body": true, "bound_to": [api],
        "token_url": format!("http://{}/token", fixture.provider.address),
    });
    put(operator, STRIPE, &document).expect(201);
}

/// Token of the last request.
fn sent_token(upstream: &Upstream) -> String {
    let request = upstream.requests().pop().expect("a request");
    let line = request.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization: bearer "));
    line.and_then(|line| line.split(' ').nth(2)).expect("a token").to_owned()
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs an OAuth2 provider, which `.ci/run` installs")]
fn k3_client_credentials_are_sent_until_the_provider_revokes_them() {
    let upstream = Upstream::start();
    upstream.resolve_api();
    let fixture = Fixture::start_with(&upstream.settings(), SHORT_SECONDS);
    prepare_machine_client(&fixture, &upstream);
    let session = fixture.operator.open_session("acme/bot");
    let fetch = || {
        let url = "https://api.upstream.test:8443/";
        session.call("caller/fetch", json!({"method": "GET", "url": url, "headers": []}))
    };
    assert_eq!(fixture.provider.token_requests(), 0, "a token was requested before its first use");
    let mut sent_first = Instant::now();
    fetch().output();
    let first = sent_token(&upstream);
    let mut tokens = vec![first.clone()];
    assert!(fixture.provider.is_valid(&first) || sent_first.elapsed() > MARGIN);
    assert_eq!(fixture.provider.token_requests(), 1);
    // Every sent token is valid at the provider, also after a refresh, unless the machine rests for as long as that is certain.
    wait::until("the token to be renewed", || {
        let begun = Instant::now();
        fetch().output();
        tokens.push(sent_token(&upstream));
        let sent = tokens.last().expect("one");
        assert!(fixture.provider.is_valid(sent) || begun.elapsed() > MARGIN, "an expired token was sent");
        if *sent == first {
            sent_first = begun;
        }
        (*sent != first).then_some(())
    });
    let is_renewed_in_time = fixture.provider.is_valid(&first) || sent_first.elapsed() > MARGIN;
    assert!(is_renewed_in_time, "the token was refreshed after its expiry");
    assert!(!fixture.provider.is_valid("made-up"));

    fixture.provider.forget("machine");
    let refused = wait::until("the provider to say no", || {
        let reply = fetch();
        (reply.status() != "ok").then_some(reply)
    });
    let refused = refused.expect_error("CREDENTIAL_MISSING");
    assert_eq!(refused.message(), "the credential of `stripe` was revoked by its provider");
    assert_eq!(fixture.operator.get(STRIPE).expect(200).json()["state"], "revoked");
    let (requests, token_requests) = (upstream.requests().len(), fixture.provider.token_requests());
    fetch().expect_error("CREDENTIAL_MISSING");
    assert_eq!((upstream.requests().len(), fixture.provider.token_requests()), (requests, token_requests));
    let renewals = fixture.operator.audit("kind=admin&organization=acme&limit=100");
    let renewals = renewals.iter().filter(|row| row["admin"]["action"] == "credential.renew");
    let outcomes: Vec<_> = renewals.map(|row| row["admin"]["outcome"].as_str()).collect();
    assert_eq!(
        (outcomes.len() as u64, outcomes[0]),
        (token_requests, Some("CREDENTIAL_MISSING")),
        "{outcomes:?}"
    );
    let records = Value::Array(fixture.operator.audit("limit=100")).to_string();
    for place in [records, fixture.daemon.log_text()] {
        assert!(!place.contains("canary") && !tokens.iter().any(|token| place.contains(token)), "{place}");
    }
}

#[test]
#[cfg_attr(not(has = "identity"), ignore = "needs an OAuth2 provider, which `.ci/run` installs")]
fn c7_a_refused_token_is_renewed_and_the_request_repeated_once() {
    let upstream = Upstream::start();
    upstream.resolve_api();
    let fixture = Fixture::start_with(&upstream.settings(), LONG_SECONDS);
    prepare_machine_client(&fixture, &upstream);
    let session = fixture.operator.open_session("acme/bot");
    let post = |body: &str| {
        let url = "https://api.upstream.test:8443/orders";
        session.call("caller/fetch", json!({"method": "POST", "url": url, "headers": [], "body": body}))
    };
    // The token that a request carries, refused from now on.
    let refuse = |token: String| {
        upstream.answer(move |request| match request.contains(&token) {
            true => upstream::answer(401, &[("Connection", "close")], b"unknown token"),
            false => upstream::ok("text/plain", "ordered"),
        });
    };
    post("one").output();
    let first = sent_token(&upstream);
    refuse(first.clone());
    let before = (upstream.requests().len(), fixture.provider.token_requests());
    let reply = post("two");
    let output = reply.output();
    assert!(output.as_str().is_some_and(|output| output.starts_with("200")), "{output}");
    let requests = upstream.requests();
    let after = (requests.len(), fixture.provider.token_requests());
    assert_eq!(after, (before.0 + 2, before.1 + 1));
    assert_ne!(sent_token(&upstream), first);
    assert!(requests[requests.len() - 2..].iter().all(|request| request.contains("two")), "{requests:?}");
    // Not again within a minute: the server refuses every token.
    refuse("orders".to_owned());
    let reply = post("three");
    let output = reply.output();
    assert!(output.as_str().is_some_and(|output| output.starts_with("401")), "{output}");
    assert_eq!((upstream.requests().len(), fixture.provider.token_requests()), (after.0 + 1, after.1));
}
