use std::sync::atomic::{AtomicUsize, Ordering};

use http::Response;
use serde_json::{Value, json};
use toolgate_api::name::Name;
use toolgate_state::clock::now_ms;
use toolgate_state::config::Config;

use super::*;
use crate::identity::jwt::Key;
use crate::identity::jwt::testing::{Signer, set};

const ISSUER: &str = "https://issuer.example";
const OTHER: &str = "https://other.example";
const RESOURCE: &str = "http://localhost:7300/mcp";

/// The issuers' HTTP servers.
#[derive(Default)]
struct Web {
    keys: Mutex<HashMap<&'static str, Vec<Value>>>,
    is_down: Mutex<bool>,
    /// Fetches of the keys of `ISSUER`.
    fetches: AtomicUsize,
}

struct Fixture {
    web: Arc<Web>,
    known: AccessTokens,
    stop: CancellationToken,
}

impl Web {
    fn answer(&self, url: &str) -> (u16, Value) {
        let (issuer, path) = url.split_at(url[8..].find('/').map_or(url.len(), |at| at + 8));
        let keys = self.keys.lock();
        match (keys.get(issuer), path) {
            _ if *self.is_down.lock() => (503, json!({})),
            (Some(_), "/.well-known/openid-configuration") => {
                (200, json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}))
            }
            (Some(keys), "/keys") => {
                self.fetches.fetch_add(usize::from(issuer == ISSUER), Ordering::SeqCst);
                (200, Value::Object(set(keys)))
            }
            _ => (404, json!({})),
        }
    }

    fn put(&self, issuer: &'static str, keys: &[&Signer]) {
        self.keys.lock().insert(issuer, keys.iter().map(|key| key.jwk()).collect());
    }

    fn client(self: &Arc<Self>) -> TokenClient {
        let web = Arc::clone(self);
        Arc::new(move |request| {
            let (status, body) = web.answer(&request.uri().to_string());
            Box::pin(async move {
                // Others run meanwhile, as during a real request.
                tokio::task::yield_now().await;
                Ok(Response::builder()
                    .status(status)
                    .body(body.to_string().into_bytes())
                    .expect("a response"))
            })
        })
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Fixture {
    fn start(web: Web, settings: &str) -> Self {
        let text = format!(
            "[oauth]\nresource = \"{RESOURCE}\"\n{settings}\n[[oauth.issuers]]\nissuer = \"{ISSUER}\"\n\
             [[oauth.issuers]]\nissuer = \"{OTHER}\"\naudience = \"api\"\nagent_claim = \"agent\""
        );
        let settings = Config::parse(&text, std::path::Path::new("toolgate.toml")).expect("settings");
        let known = AccessTokens::new(&settings.oauth).expect("issuers");
        let (web, stop) = (Arc::new(web), CancellationToken::new());
        tokio::spawn(known.clone().run_background(web.client(), stop.clone()));
        Self { web, known, stop }
    }

    async fn caller(&self, token: &str) -> Result<Arc<Caller>, CallError> {
        self.known.authenticate(token, now_ms()).await
    }

    async fn refusal(&self, token: &str) -> String {
        let error = self.caller(token).await.expect_err("refused");
        assert_eq!(error.error_type, ErrorType::Unauthenticated);
        error.message
    }

    fn fetches(&self) -> usize {
        self.web.fetches.load(Ordering::SeqCst)
    }
}

fn claims(subject: &str) -> Value {
    let expires = now_ms() / 1000 + 300;
    json!({"iss": ISSUER, "aud": RESOURCE, "sub": subject, "exp": expires, "toolgate_agent": "acme/bot"})
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[tokio::test]
async fn m2_a_token_has_the_rights_of_its_agent() {
    let signer = Signer::es256("a");
    let fixture = Fixture::start(Web::default(), "");
    fixture.web.put(ISSUER, &[&signer]);
    let caller = fixture.caller(&signer.token(&claims("ann"))).await.expect("valid");
    assert_eq!((&*caller.token_id, caller.role), ("jwt:https://issuer.example#ann", Role::Agent));
    let organization = caller.organization.as_ref().map(Name::as_str);
    let agents: Vec<&str> = caller.agents.iter().flat_map(|agents| agents.iter()).map(Name::as_str).collect();
    assert_eq!((organization, &*agents), (Some("acme"), &["bot"][..]));
}

#[tokio::test]
async fn m2_issuers_share_neither_keys_nor_names() {
    let (signer, other) = (Signer::es256("a"), Signer::es256("a"));
    let fixture = Fixture::start(Web::default(), "");
    fixture.web.put(ISSUER, &[&signer]);
    fixture.web.put(OTHER, &[&other]);
    let one = fixture.caller(&signer.token(&claims("ann"))).await.expect("valid");
    let of_other = with(with(claims("ann"), "iss", json!(OTHER)), "aud", json!("api"));
    let of_other = with(of_other, "agent", json!("acme/bot"));
    let two = fixture.caller(&other.token(&of_other)).await.expect("valid");
    assert_ne!(one.token_id, two.token_id);
    for (token, why) in [
        (other.token(&claims("ann")), "its signature is wrong"),
        (signer.token(&of_other), "its signature is wrong"),
        (other.token(&with(of_other.clone(), "aud", json!(RESOURCE))), "its audience is not `api`"),
        (
            signer.token(&with(claims("ann"), "iss", json!("https://issuer.example/"))),
            "its issuer `https://issuer.example/` is not accepted here",
        ),
        (signer.token(&with(claims("ann"), "iss", json!(null))), "its claim `iss` is missing"),
    ] {
        let refusal = fixture.refusal(&token).await;
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[tokio::test]
async fn m2_a_new_key_is_fetched_once_and_a_removed_one_ends_its_tokens() {
    let (old, new) = (Signer::es256("old"), Signer::rs256("new"));
    let fixture = Fixture::start(Web::default(), "");
    fixture.web.put(ISSUER, &[&old]);
    fixture.web.put(OTHER, &[]);
    let of_old = old.token(&claims("ann"));
    let caller = fixture.caller(&of_old).await.expect("valid");
    let fetches = fixture.fetches();
    fixture.web.put(ISSUER, &[&old, &new]);
    // Requests that come together wait for one fetch.
    let of_new = new.token(&claims("ann"));
    let answers = join_all((0..20).map(|_| fixture.caller(&of_new))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(fixture.fetches(), fetches + 1);
    assert!(!caller.revoked.is_cancelled());
    // Within the minute, unknown keys cause no fetch.
    fixture.web.put(ISSUER, &[&new]);
    for id in ["x", "y", "z"] {
        let refusal = fixture.refusal(&Signer::es256(id).token(&claims("ann"))).await;
        assert!(refusal.contains(&format!("has no key `{id}`")), "{refusal}");
    }
    assert_eq!(fixture.fetches(), fetches + 1);
    fixture.caller(&of_old).await.expect("still known");
    // The next fetch.
    let issuer = &fixture.known.0.issuers[0].keys;
    issuer.put(Key::read_set(&set(&[new.jwk()])), None);
    caller.wait_for_end().await;
    assert!(fixture.refusal(&of_old).await.contains("has no key `old`"));
    fixture.caller(&of_new).await.expect("its key is still there");
}

#[tokio::test]
async fn m2_before_the_first_keys_are_there_the_client_may_try_again() {
    let signer = Signer::eddsa("a");
    let web = Web { is_down: Mutex::new(true), ..Web::default() };
    let fixture = Fixture::start(web, "");
    let token = signer.token(&claims("ann"));
    let error = fixture.caller(&token).await.expect_err("no keys");
    assert_eq!((error.error_type, error.retry_after_ms()), (ErrorType::Unavailable, Some(60_000)));
    fixture.known.0.issuers[0].keys.put(Key::read_set(&set(&[signer.jwk()])), None);
    fixture.caller(&token).await.expect("valid");
}

#[tokio::test]
async fn m2_a_token_without_a_key_id_needs_one_key_for_its_algorithm() {
    let (one, two, third) = (Signer::es256("a"), Signer::eddsa("b"), Signer::es256("c"));
    let fixture = Fixture::start(Web::default(), "");
    fixture.web.put(ISSUER, &[&one, &two]);
    let token = one.sign(&json!({"alg": "ES256"}), &claims("ann"));
    fixture.caller(&token).await.expect("one key");
    fixture.known.0.issuers[0].keys.put(Key::read_set(&set(&[one.jwk(), third.jwk()])), Some(Instant::now()));
    let token = one.sign(&json!({"alg": "ES256"}), &claims("ben"));
    assert!(fixture.refusal(&token).await.contains("it names no key"));
}

#[tokio::test]
async fn m2_a_verified_token_is_remembered_until_it_expires() {
    let signer = Signer::eddsa("a");
    let fixture = Fixture::start(Web::default(), "");
    fixture.web.put(ISSUER, &[&signer]);
    let token = signer.token(&claims("ann"));
    let now = now_ms();
    let first = fixture.known.authenticate(&token, now).await.expect("valid");
    let second = fixture.known.authenticate(&token, now).await.expect("valid");
    assert!(Arc::ptr_eq(&first, &second));
    let end = first.expires_ms.expect("a time");
    fixture.known.authenticate(&token, end - 1).await.expect("within the leeway");
    let error = fixture.known.authenticate(&token, end).await.expect_err("expired");
    assert_eq!(error.message, "the access token is not valid: it has expired");
    // The memory is bounded, and the oldest are verified again.
    for at in 0..REMEMBERED {
        let caller = Arc::new(Caller::clone(&first));
        fixture.known.remember([u8::try_from(at % 251).expect("a byte"); 32], &caller, now);
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&at.to_le_bytes());
        fixture.known.remember(hash, &caller, now);
    }
    assert!(fixture.known.0.verified.lock().len() <= REMEMBERED);
    fixture.known.authenticate(&token, now).await.expect("valid");
}

#[tokio::test]
async fn m2_a_token_has_every_scope_that_the_operator_names() {
    let signer = Signer::eddsa("a");
    let fixture = Fixture::start(Web::default(), "scopes = [\"tools\", \"files\"]");
    fixture.web.put(ISSUER, &[&signer]);
    for scope in [json!("files tools x"), json!(["tools", "files"])] {
        fixture.caller(&signer.token(&with(claims("ann"), "scope", scope))).await.expect("both");
    }
    fixture.caller(&signer.token(&with(claims("ann"), "scp", json!("tools files")))).await.expect("both");
    for scope in [json!("tools"), json!("toolsfiles"), json!([]), json!(null)] {
        let token = signer.token(&with(claims("ann"), "scope", scope));
        assert_eq!(
            fixture.caller(&token).await.expect_err("one is missing").error_type,
            ErrorType::Forbidden
        );
    }
}
