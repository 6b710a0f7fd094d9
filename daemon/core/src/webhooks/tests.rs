//! Links of deliveries, with a store and a root key. `tests/tests/gate/webhooks.rs` has a receiver.

use tokio::task::JoinSet;
use toolgate_api::approval::ApprovalState;
use toolgate_api::limits::LimitsPatch;
use toolgate_api::token::Role;
use toolgate_audit::{Audit, AuditSettings};
use toolgate_state::store::testing::{pending_approval, store_with_acme};
use toolgate_state::store::{ApprovalRow, Decision, TokenKind};

use super::*;
use crate::credentials::{CredentialSettings, RootKeySource, token_client};
use crate::registry::Registry;

struct Fixture {
    _folder: tempfile::TempDir,
    store: Store,
    webhooks: Webhooks,
}

/// Webhooks that may have one host, with the webhook `acme/chat`.
async fn fixture() -> Fixture {
    let (folder, store) = store_with_acme().await;
    let (audit, _) = Audit::start(&AuditSettings::new(folder.path().join("audit"))).await.unwrap();
    let client = || HostClient::new(Default::default()).unwrap();
    let settings = CredentialSettings {
        audit: audit.clone(),
        source: RootKeySource::Generated(folder.path().join("root")),
        references: None,
        files: None,
        http: token_client(client()),
        redirect_url: String::new(),
        client_metadata_url: None,
    };
    let registry = Registry::new(LimitsPatch::new(), Default::default());
    let credentials = Credentials::open(store.clone(), registry, settings, 1).await.unwrap();
    let hosts = GrantedHosts { hosts: vec!["hooks.example.org".into()], ..GrantedHosts::default() };
    let base_url = "https://tools.example.org".to_owned();
    let webhooks = Webhooks::new(WebhookParts {
        store: store.clone(),
        audit,
        credentials,
        http: client(),
        hosts,
        base_url,
    });
    let request = WebhookRequest { url: "https://hooks.example.org/a".into(), events: None, secret: None };
    let (view, is_new) = webhooks.put(&name("acme"), &name("chat"), request, 1, false).await.unwrap();
    assert!(is_new && view.secret.is_some_and(|secret| secret.starts_with("whsec_")));
    Fixture { _folder: folder, store, webhooks }
}

fn denial() -> Decision {
    Decision {
        state: ApprovalState::Denied,
        uses: 0,
        constraints: None,
        arguments_instead: None,
        reason: None,
        decided_by: "webhook:chat".into(),
        decided_ms: 20,
        expires_ms: pending_approval("a1", "a1").expires_ms,
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

#[tokio::test]
async fn g18_writes_at_once_have_a_version_each_and_none_brings_back_a_secret() {
    let fixture = fixture().await;
    let mut writes = JoinSet::new();
    for number in 0..8 {
        let (webhooks, url) = (fixture.webhooks.clone(), format!("https://hooks.example.org/{number}"));
        // One of them replaces the secret.
        let secret = (number == 3).then(|| SecretText("the-new-secret-of-chat".to_owned().into()));
        let request = WebhookRequest { url, events: None, secret };
        writes.spawn(async move { webhooks.put(&name("acme"), &name("chat"), request, 2, false).await });
    }
    for written in writes.join_all().await {
        assert!(!written.unwrap().1, "replaced");
    }
    let row = fixture.store.webhook(&name("acme"), &name("chat")).await.unwrap();
    assert_eq!(row.version, 9);
    let secret = fixture.webhooks.0.credentials.open_webhook_secret(&row).unwrap();
    assert_eq!(secret.expose(), b"the-new-secret-of-chat");
}

impl Fixture {
    /// Asks for an approval, and returns the link tokens of two tries of its delivery.
    async fn announce(&self, id: &str) -> [String; 2] {
        let asked = ApprovalRow { binding: id.into(), ..pending_approval(id, id) };
        self.store.ask_for_approval(&asked).await.unwrap();
        let due = self.store.due_deliveries(u64::MAX >> 1, 100, 100).await.unwrap();
        let delivery = due.into_iter().find(|delivery| delivery.approval == id).unwrap();
        let tokens = [random_text().unwrap(), random_text().unwrap()];
        for token in &tokens {
            let hashes = [(TokenKind::Link, token_hash(token))];
            self.store.add_delivery_tokens(&delivery.id, &hashes).await.unwrap();
        }
        tokens
    }

    async fn refuses(&self, approval: &str, token: &str, now_ms: u64) -> bool {
        let refused = self.webhooks.verify_link(approval, token, now_ms).await;
        refused.is_err_and(|error| error.error_type == ErrorType::Expired)
    }
}

#[tokio::test]
async fn g18_a_link_lets_one_person_decide_one_approval() {
    let fixture = fixture().await;
    let [first, second] = fixture.announce("a1").await;
    let [other, _] = fixture.announce("a2").await;
    for (approval, token) in [("a2", &first), ("a1", &other), ("a3", &first)] {
        assert!(fixture.refuses(approval, token, 20).await, "{approval}");
    }
    assert!(fixture.refuses("a1", "no such token", 20).await);
    let approver = fixture.webhooks.verify_link("a1", &first, 20).await.unwrap();
    assert!(approver.caller_for("a2").is_none());
    let caller = approver.caller_for("a1").unwrap();
    assert_eq!((&*caller.token_id, caller.role), ("webhook:chat", Role::Approver));
    assert_eq!(caller.organization, Some(name("acme")));
    // A daemon that was killed before the decision: the link still works, and so does that of another try.
    fixture.webhooks.verify_link("a1", &first, 20).await.unwrap();
    fixture.webhooks.verify_link("a1", &second, 20).await.unwrap();
    assert!(fixture.store.decide_approval("a1", &denial()).await.unwrap());
    assert!(fixture.refuses("a1", &first, 20).await && fixture.refuses("a1", &second, 20).await);
    fixture.webhooks.verify_link("a2", &other, 20).await.unwrap();
}

#[tokio::test]
async fn g18_a_link_ends_with_its_approval_and_its_webhook() {
    let fixture = fixture().await;
    let [expired, _] = fixture.announce("a1").await;
    let [withdrawn, _] = fixture.announce("a2").await;
    let [orphan, _] = fixture.announce("a3").await;
    let expires_ms = pending_approval("a1", "a1").expires_ms;
    assert!(fixture.refuses("a1", &expired, expires_ms).await);
    fixture.webhooks.verify_link("a1", &expired, expires_ms - 1).await.unwrap();
    fixture.store.withdraw_approval("a2").await.unwrap();
    assert!(fixture.refuses("a2", &withdrawn, 20).await);
    fixture.webhooks.delete(&name("acme"), &name("chat")).await.unwrap();
    assert!(fixture.refuses("a3", &orphan, 20).await);
}

#[tokio::test]
async fn g18_a_webhook_keeps_its_secret_when_it_is_replaced() {
    let fixture = fixture().await;
    let row = fixture.store.webhook(&name("acme"), &name("chat")).await.unwrap();
    let secret = fixture.webhooks.0.credentials.open_webhook_secret(&row).unwrap();
    let request = || WebhookRequest { url: "https://hooks.example.org/b".into(), events: None, secret: None };
    let (view, is_new) =
        fixture.webhooks.put(&name("acme"), &name("chat"), request(), 2, false).await.unwrap();
    assert!(!is_new && view.secret.is_none());
    let replaced = fixture.store.webhook(&name("acme"), &name("chat")).await.unwrap();
    assert_eq!((&replaced.id, replaced.version), (&row.id, row.version + 1));
    let kept = fixture.webhooks.0.credentials.open_webhook_secret(&replaced).unwrap();
    assert_eq!(kept.expose(), secret.expose());
    // The ciphertext is bound to the URL.
    let moved = WebhookRow { document: row.document, ..replaced };
    assert!(fixture.webhooks.0.credentials.open_webhook_secret(&moved).is_err());
}
