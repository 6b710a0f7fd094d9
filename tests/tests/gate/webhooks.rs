//! Webhooks of approvals (G18): a real receiver, and signatures that `openssl` verifies and makes.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use toolgate_tests::upstream::{self, PLAIN_PORT, Piece, TLS_PORT, Upstream};
use toolgate_tests::{CallReply, Client, Daemon, Reply, Session, Shared, Value, json, wait};

use crate::{PROGRAM, payments};

static HOOKS: Shared<Hooks> = Shared::new();

/// Daemon and receiver shared by the tests of this file, with unique organizations.
struct Hooks {
    daemon: Daemon,
    operator: Client,
    upstream: Upstream,
    made: u32,
}

/// An organization with a supervised agent and a webhook.
struct Tenant {
    name: String,
    owner: Client,
    session: Session,
    secret: String,
    /// The path of the endpoint.
    hook: String,
}

/// A request to the receiver.
#[derive(Debug)]
struct Delivery {
    headers: BTreeMap<String, String>,
    body: String,
}

impl Hooks {
    fn start() -> Self {
        let upstream = Upstream::start();
        let daemon = Daemon::start(PROGRAM, &settings(&upstream));
        let operator = daemon.operator();
        operator.load_confirmed("pay", &payments("1.0.0"));
        Self { daemon, operator, upstream, made: 0 }
    }

    fn tenant(&mut self) -> Tenant {
        self.made += 1;
        let name = format!("w{}", self.made);
        self.upstream.answer(|_| upstream::answer(200, &[], b""));
        Tenant::make(&self.operator, &self.upstream, &name)
    }

    /// The requests to a path so far.
    fn deliveries(&self, path: &str) -> Vec<Delivery> {
        let line = format!("POST {path} HTTP/1.1");
        let requests = self.upstream.requests();
        requests
            .iter()
            .filter(|request| request.starts_with(&line))
            .map(|text| Delivery::read(text))
            .collect()
    }

    /// Waits for so many requests to a path.
    fn wait_for(&self, path: &str, count: usize) -> Vec<Delivery> {
        wait::until("a delivery", || Some(self.deliveries(path)).filter(|received| received.len() >= count))
    }
}

fn settings(upstream: &Upstream) -> String {
    let address = upstream.address;
    format!("[webhooks]\nhosts = [\"{address}:{TLS_PORT}\"]\nplain_http = [\"{address}:{PLAIN_PORT}\"]\n")
}

fn url(upstream: &Upstream, path: &str) -> String {
    format!("http://{}:{PLAIN_PORT}{path}", upstream.address)
}

impl Tenant {
    fn make(operator: &Client, upstream: &Upstream, name: &str) -> Self {
        let agent = format!("{name}/bot");
        operator.make_agent(&agent, &json!({"enabled": ["pay/*"], "autonomy": "supervised"}));
        let token = |role: &str| operator.with_new_token(&json!({"role": role, "organization": name}));
        let (owner, orchestrator) = (token("owner"), token("orchestrator"));
        let hook = format!("/hook/{name}");
        let made = put(&owner, &path(name), &json!({"url": url(upstream, &hook)})).expect(201).json();
        let secret = made["secret"].as_str().expect("a secret").to_owned();
        Self { session: orchestrator.open_session(&agent), name: name.to_owned(), owner, secret, hook }
    }

    fn pay(&self, id: &str) -> CallReply {
        self.session.call_as(id, "call_pay_send", json!({"to": "bob", "amount": 5}))
    }

    /// Makes a call that waits for approval, and returns the approval's id.
    fn ask(&self, id: &str) -> String {
        let reply = self.pay(id);
        assert_eq!(reply.status(), "approval_required", "{}", reply.0);
        reply.approval()
    }

    fn webhook(&self) -> Value {
        self.owner.get(&path(&self.name)).expect(200).json()
    }

    /// The last delivery, when it fits.
    fn wait_for_delivery(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait::until(what, || Some(self.webhook()["deliveries"][0].clone()).filter(|delivery| fits(delivery)))
    }
}

/// Whether a delivery was tried. On a busy machine it may have been tried again since.
fn was_tried(delivery: &Value) -> bool {
    delivery["attempts"].as_u64() > Some(0)
}

fn path(organization: &str) -> String {
    format!("/v1/orgs/{organization}/webhooks/chat")
}

fn put(client: &Client, path: &str, document: &Value) -> Reply {
    client.send("PUT", path, &[("Content-Type", "application/json")], document.to_string().as_bytes())
}

impl Delivery {
    fn read(request: &str) -> Self {
        let (head, body) = request.split_once("\r\n\r\n").expect("a head");
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Self { headers, body: body.to_owned() }
    }

    fn json(&self) -> Value {
        serde_json_of(&self.body)
    }

    fn token(&self) -> String {
        self.json()["callback"]["token"].as_str().expect("a token").to_owned()
    }
}

fn serde_json_of(text: &str) -> Value {
    text.parse().expect("JSON")
}

/// The signature of a body, made by `openssl`.
fn sign(secret: &str, timestamp: &str, body: &str) -> String {
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", secret])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    let mut input = openssl.stdin.take().expect("an input");
    write!(input, "{timestamp}.{body}").expect("written");
    drop(input);
    let output = openssl.wait_with_output().expect("openssl ends");
    let text = String::from_utf8(output.stdout).expect("text");
    format!("v1={}", text.trim().rsplit(' ').next().expect("digits"))
}

/// The present time in seconds, moved by `seconds`.
fn time(seconds: i64) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs();
    now.saturating_add_signed(seconds).to_string()
}

/// Sends a callback that is signed with a secret.
fn call_back(client: &Client, approval: &str, secret: &str, timestamp: &str, body: &Value) -> Reply {
    let body = body.to_string();
    let signature = sign(secret, timestamp, &body);
    let headers = [
        ("Content-Type", "application/json"),
        ("Toolgate-Timestamp", timestamp),
        ("Toolgate-Signature", signature.as_str()),
    ];
    client.send("POST", &format!("/v1/approvals/{approval}/callback"), &headers, body.as_bytes())
}

#[test]
fn g18_an_approval_is_announced_with_a_signature_that_others_verify() {
    HOOKS.with(Hooks::start, |hooks| {
        let tenant = hooks.tenant();
        let approval = tenant.ask("c1");
        let created = hooks.wait_for(&tenant.hook, 1).remove(0);
        let (timestamp, signature) =
            (&created.headers["toolgate-timestamp"], &created.headers["toolgate-signature"]);
        assert_eq!(*signature, sign(&tenant.secret, timestamp, &created.body));
        assert_ne!(*signature, sign("another secret", timestamp, &created.body));
        let message = created.json();
        assert_eq!(
            (&message["event"], &message["organization"]),
            (&json!("approval.created"), &json!(tenant.name))
        );
        let shown = tenant.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json();
        assert_eq!(message["approval"], shown);
        assert_eq!(message["approval"]["arguments"], json!({"to": "bob", "amount": 5}));
        let base = format!("http://{}", hooks.daemon.address);
        let link = message["link"].as_str().expect("a link");
        assert!(link.starts_with(&format!("{base}/console/approvals/{approval}?once=")), "{link}");
        assert_eq!(message["callback"]["url"], format!("{base}/v1/approvals/{approval}/callback"));

        tenant.owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "deny"})).expect(200);
        let decided = hooks.wait_for(&tenant.hook, 2).remove(1).json();
        assert_eq!(
            (&decided["event"], &decided["approval"]["state"]),
            (&json!("approval.decided"), &json!("denied"))
        );
        assert!(decided["link"].is_null() && decided["callback"].is_null(), "{decided}");
        let last = tenant.wait_for_delivery("both deliveries", |delivery| delivery["state"] == "delivered");
        assert_eq!((&last["event"], &last["attempts"]), (&json!("approval.decided"), &json!(1)));
    });
}

#[test]
fn g18_a_signed_callback_decides_and_the_call_runs() {
    HOOKS.with(Hooks::start, |hooks| {
        let tenant = hooks.tenant();
        let approval = tenant.ask("c1");
        let delivery = hooks.wait_for(&tenant.hook, 1).remove(0);
        let anyone = hooks.daemon.anonymous();
        let body = json!({"token": delivery.token(), "decision": "approve", "approver": "Ann of Finance", "reason": "agreed"});
        let decided = call_back(&anyone, &approval, &tenant.secret, &time(0), &body).expect(200).json();
        assert_eq!((&decided["state"], &decided["decided_by"]), (&json!("approved"), &json!("webhook:chat")));
        assert_eq!(tenant.pay("c1").output(), &json!({"done": true}));
        let records = hooks.operator.audit(&format!("kind=admin&organization={}&limit=100", tenant.name));
        let record = records.iter().find(|record| record.to_string().contains("approval.approve"));
        let record = record.expect("a record").to_string();
        assert!(record.contains("webhook:chat") && record.contains("Ann of Finance"), "{record}");
        assert!(records.iter().any(|record| record.to_string().contains("webhook.send")), "{records:?}");
        // The same request again, and another one with the same token.
        call_back(&anyone, &approval, &tenant.secret, &time(0), &body).expect_refusal(409, "CONFLICT");
        let other = json!({"token": delivery.token(), "decision": "deny"});
        call_back(&anyone, &approval, &tenant.secret, &time(0), &other).expect_refusal(409, "CONFLICT");
    });
}

#[test]
fn g18_a_callback_that_is_not_of_the_webhook_is_refused_without_effect() {
    HOOKS.with(Hooks::start, |hooks| {
        let (tenant, other) = (hooks.tenant(), hooks.tenant());
        let (approval, foreign) = (tenant.ask("c1"), other.ask("c1"));
        let token = hooks.wait_for(&tenant.hook, 1).remove(0).token();
        let foreign_token = hooks.wait_for(&other.hook, 1).remove(0).token();
        let anyone = hooks.daemon.anonymous();
        let body = |token: &str| json!({"token": token, "decision": "approve"});
        let refused = |approval: &str, secret: &str, timestamp: &str, token: &str| {
            call_back(&anyone, approval, secret, timestamp, &body(token))
                .expect_refusal(401, "UNAUTHENTICATED")
        };
        let unknown = refused("a_nothing", &tenant.secret, &time(0), &token);
        for (approval, secret, token) in [
            (&approval, &"wrong secret".to_owned(), &token),
            (&approval, &other.secret, &token),
            (&approval, &tenant.secret, &"no such token".to_owned()),
            // Each organization with its own secret and token, about the approval of the other.
            (&foreign, &tenant.secret, &token),
            (&approval, &other.secret, &foreign_token),
        ] {
            assert_eq!(refused(approval, secret, &time(0), token).text(), unknown.text());
        }
        for timestamp in [time(-400), time(400), "never".to_owned()] {
            let stale = refused(&approval, &tenant.secret, &timestamp, &token);
            assert!(stale.text().contains("Toolgate-Timestamp"), "{}", stale.text());
        }
        let unsigned = [("Content-Type", "application/json")];
        let path = format!("/v1/approvals/{approval}/callback");
        let sent = anyone.send("POST", &path, &unsigned, body(&token).to_string().as_bytes());
        sent.expect_refusal(401, "UNAUTHENTICATED");
        for invalid in [
            json!({"token": token}),
            json!({"decision": "approve"}),
            json!({"token": token, "decision": "approve", "uses": 9}),
        ] {
            call_back(&anyone, &approval, &tenant.secret, &time(0), &invalid)
                .expect_refusal(400, "INVALID_REQUEST");
        }
        let shown = tenant.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json();
        assert_eq!(shown["state"], "pending");
        call_back(&anyone, &approval, &tenant.secret, &time(-200), &body(&token)).expect(200);
    });
}

#[test]
fn g18_a_failed_delivery_is_sent_again_with_the_same_id_and_another_token() {
    HOOKS.with(Hooks::start, |hooks| {
        let tenant = hooks.tenant();
        hooks.upstream.answer(|_| upstream::answer(500, &[], b"broken"));
        let approval = tenant.ask("c1");
        let failed = tenant.wait_for_delivery("a failed try", was_tried);
        assert_eq!(
            (&failed["state"], &failed["error"]),
            (&json!("pending"), &json!("the endpoint answered 500"))
        );
        hooks.upstream.answer(|_| upstream::answer(200, &[], b""));
        let tries = hooks.wait_for(&tenant.hook, 2);
        assert_eq!(tries[0].headers["toolgate-delivery"], tries[1].headers["toolgate-delivery"]);
        assert_ne!(tries[0].token(), tries[1].token());
        tenant.wait_for_delivery("the delivery", |delivery| delivery["state"] == "delivered");
        // The receiver may have kept the token of the first try.
        let body = json!({"token": tries[0].token(), "decision": "deny"});
        let anyone = hooks.daemon.anonymous();
        call_back(&anyone, &approval, &tenant.secret, &time(0), &body).expect(200);
        let body = json!({"token": tries[1].token(), "decision": "deny"});
        call_back(&anyone, &approval, &tenant.secret, &time(0), &body).expect_refusal(409, "CONFLICT");
    });
}

#[test]
fn g18_deliveries_survive_a_crash_between_two_tries() {
    HOOKS.with(Hooks::start, |hooks| {
        hooks.upstream.answer(|_| upstream::answer(503, &[], b""));
        let daemon = Daemon::start(PROGRAM, &settings(&hooks.upstream));
        let operator = daemon.operator();
        operator.load_confirmed("pay", &payments("1.0.0"));
        let tenant = Tenant::make(&operator, &hooks.upstream, "crashed");
        let approval = tenant.ask("c1");
        tenant.wait_for_delivery("a failed try", was_tried);
        let id = hooks.deliveries(&tenant.hook).remove(0).headers["toolgate-delivery"].clone();
        let daemon = daemon.crash_and_restart();
        let before = hooks.deliveries(&tenant.hook).len();
        hooks.upstream.answer(|_| upstream::answer(200, &[], b""));
        let delivered = hooks.wait_for(&tenant.hook, before + 1).pop().expect("a delivery");
        assert_eq!(
            (&delivered.headers["toolgate-delivery"], &delivered.json()["approval"]["id"]),
            (&id, &json!(approval))
        );
        // The secret and the token still decide.
        let body = json!({"token": delivered.token(), "decision": "approve"});
        call_back(&daemon.anonymous(), &approval, &tenant.secret, &time(0), &body).expect(200);
    });
}

#[test]
fn g18_an_endpoint_that_hangs_delays_no_other() {
    HOOKS.with(Hooks::start, |hooks| {
        let (slow, fast) = (hooks.tenant(), hooks.tenant());
        let hanging = format!("POST {} ", slow.hook);
        hooks.upstream.answer(move |request| match request.starts_with(&hanging) {
            true => vec![Piece::Hang],
            false => upstream::answer(200, &[], b""),
        });
        slow.ask("c1");
        hooks.wait_for(&slow.hook, 1);
        fast.ask("c1");
        fast.wait_for_delivery("the delivery", |delivery| delivery["state"] == "delivered");
        let waiting = &slow.webhook()["deliveries"][0];
        assert_eq!(waiting["state"], "pending", "{waiting}");
        let failed = slow.wait_for_delivery("the timeout", was_tried);
        assert_eq!(failed["error"], "no answer in 10 seconds");
    });
}

#[test]
fn g18_a_redirect_is_not_followed() {
    HOOKS.with(Hooks::start, |hooks| {
        let tenant = hooks.tenant();
        let secret = format!("/secret/{}", tenant.name);
        let location = url(&hooks.upstream, &secret);
        hooks.upstream.answer(move |_| upstream::answer(307, &[("Location", &location)], b""));
        tenant.ask("c1");
        let failed = tenant.wait_for_delivery("a failed try", was_tried);
        assert_eq!(failed["error"], "the endpoint answered 307, and redirects are not followed");
        assert!(hooks.deliveries(&secret).is_empty());
    });
}

#[test]
fn g18_only_granted_hosts_and_public_addresses_are_reached() {
    HOOKS.with(Hooks::start, |hooks| {
        let tenant = hooks.tenant();
        let address = hooks.upstream.address;
        for foreign in [
            "https://example.org/".to_owned(),
            format!("http://{address}:9/"),
            format!("https://{address}/"),
            "http://169.254.169.254/".to_owned(),
        ] {
            let refused = put(&tenant.owner, &path(&tenant.name), &json!({"url": foreign}));
            refused.expect_refusal(403, "NETWORK_DENIED");
            let dry = format!("{}?dry_run=true", path(&tenant.name));
            put(&tenant.owner, &dry, &json!({"url": foreign})).expect_refusal(403, "NETWORK_DENIED");
        }
        let another = format!("/v1/orgs/{}/webhooks/another", tenant.name);
        let url = json!({"url": format!("https://{address}:{TLS_PORT}/")});
        let accepted = put(&tenant.owner, &format!("{another}?dry_run=true"), &url).expect(200).json();
        assert_eq!(accepted.get("secret"), None, "{accepted}");
        tenant.owner.get(&another).expect_refusal(404, "NOT_FOUND");
        for invalid in ["", "example.org", "ftp://example.org/", "https://user:word@example.org/"] {
            let refused = put(&tenant.owner, &path(&tenant.name), &json!({"url": invalid}));
            refused.expect_refusal(400, "INVALID_REQUEST");
        }
        let test = format!("{}/test", path(&tenant.name));
        assert_eq!(tenant.owner.post(&test, &json!({})).expect(200).json()["delivered"], true);
        // The host is granted, and its address is private.
        let private = json!({"url": format!("https://{address}:{TLS_PORT}/")});
        put(&tenant.owner, &path(&tenant.name), &private).expect(200);
        let tested = tenant.owner.post(&test, &json!({})).expect(200).json();
        assert_eq!(tested["delivered"], false);
        assert!(tested["error"].as_str().is_some_and(|error| error.contains("not public")), "{tested}");
    });
}

#[test]
fn g18_an_endpoint_that_is_gone_gets_nothing_until_it_is_put_again() {
    HOOKS.with(Hooks::start, |hooks| {
        let tenant = hooks.tenant();
        hooks.upstream.answer(|_| upstream::answer(410, &[], b""));
        tenant.ask("c1");
        wait::until_true("the webhook to be disabled", || tenant.webhook()["state"] == "disabled");
        tenant.wait_for_delivery("the end", |delivery| delivery["state"] == "failed");
        tenant.session.call_as("c2", "call_pay_send", json!({"to": "eve", "amount": 1}));
        assert_eq!(tenant.webhook()["deliveries"].as_array().map(Vec::len), Some(1));
        hooks.upstream.answer(|_| upstream::answer(200, &[], b""));
        let again = json!({"url": url(&hooks.upstream, &tenant.hook)});
        let put = put(&tenant.owner, &path(&tenant.name), &again).expect(200).json();
        assert_eq!((&put["state"], put["secret"].is_null()), (&json!("active"), true), "{put}");
        tenant.session.call_as("c3", "call_pay_send", json!({"to": "joe", "amount": 1}));
        let delivered = hooks.wait_for(&tenant.hook, 2).remove(1);
        // The secret is the same.
        let timestamp = &delivered.headers["toolgate-timestamp"];
        assert_eq!(delivered.headers["toolgate-signature"], sign(&tenant.secret, timestamp, &delivered.body));
    });
}

#[test]
fn g18_a_secret_is_shown_once_and_survives_another_root_key() {
    HOOKS.with(Hooks::start, |hooks| {
        let tenant = hooks.tenant();
        let list = tenant.owner.get(&format!("/v1/orgs/{}/webhooks", tenant.name)).expect(200);
        for shown in [list.text(), tenant.webhook().to_string()] {
            assert!(!shown.contains(&tenant.secret), "{shown}");
        }
        for file in ["state.db", "state.db-wal"] {
            let bytes = std::fs::read(hooks.daemon.data().join(file)).unwrap_or_default();
            let secret = tenant.secret.as_bytes();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{file}");
        }
        let given = json!({"url": url(&hooks.upstream, &tenant.hook), "secret": "0123456789abcdef"});
        let put_again = put(&tenant.owner, &path(&tenant.name), &given).expect(200).json();
        assert!(put_again["secret"].is_null(), "{put_again}");
        hooks.operator.post("/v1/keys/rotate", &json!({})).expect(200);
        tenant.ask("c1");
        let delivered = hooks.wait_for(&tenant.hook, 1).remove(0);
        let timestamp = &delivered.headers["toolgate-timestamp"];
        assert_eq!(
            delivered.headers["toolgate-signature"],
            sign("0123456789abcdef", timestamp, &delivered.body)
        );
        for secret in ["short", &"x".repeat(257), "sixteen but with spaces"] {
            let given = json!({"url": url(&hooks.upstream, &tenant.hook), "secret": secret});
            put(&tenant.owner, &path(&tenant.name), &given).expect_refusal(400, "INVALID_REQUEST");
        }
        tenant.owner.delete(&path(&tenant.name)).expect(204);
        tenant.owner.get(&path(&tenant.name)).expect_refusal(404, "NOT_FOUND");
        let body = json!({"token": delivered.token(), "decision": "approve"});
        let approval = delivered.json()["approval"]["id"].as_str().expect("an id").to_owned();
        call_back(&hooks.daemon.anonymous(), &approval, "0123456789abcdef", &time(0), &body)
            .expect_refusal(401, "UNAUTHENTICATED");
    });
}
