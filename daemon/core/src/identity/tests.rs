use std::os::unix::fs::PermissionsExt;
use toolgate_api::token::Role;
use toolgate_state::documents::{DocumentKey, Precondition};
use toolgate_state::store::testing::empty_store;

use super::*;

struct Fixture {
    folder: tempfile::TempDir,
    store: Store,
    identity: Identity,
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn new_token(role: Role, organization: Option<&str>) -> NewToken {
    NewToken {
        role,
        organization: organization.map(name),
        agents: None,
        label: "test".into(),
        expires_ms: None,
        addresses: None,
        user: None,
    }
}

fn operator() -> Caller {
    Caller {
        token_id: "boss".into(),
        role: Role::Operator,
        organization: None,
        agents: None,
        revoked: CancellationToken::new(),
        expires_ms: None,
        addresses: None,
        user: None,
    }
}

async fn fixture() -> Fixture {
    let (folder, store) = empty_store().await;
    for organization in ["acme", "other"] {
        let key = DocumentKey::Organization(name(organization));
        store.put_document(&key, "{}", &Precondition::Absent, 1).await.expect("an organization");
    }
    let identity = Identity::load(store.clone()).await.expect("tokens");
    Fixture { folder, store, identity }
}

impl Fixture {
    async fn make(&self, wanted: NewToken) -> MadeToken {
        self.identity.create(&operator(), wanted, 5).await.expect("a token")
    }

    fn caller(&self, token: &str) -> Result<Arc<Caller>, CallError> {
        self.identity.authenticate(Some(&format!("Bearer {token}")))
    }
}

#[tokio::test]
async fn a_token_that_was_made_speaks_for_its_role_and_organization() {
    let fixture = fixture().await;
    let mut wanted = new_token(Role::Orchestrator, Some("acme"));
    wanted.agents = Some(vec![name("bot")]);
    let made = fixture.make(wanted).await;
    let caller = fixture.caller(&made.secret.text()).expect("a caller");
    assert_eq!(*caller.token_id, *made.summary.id);
    assert_eq!((caller.role, &caller.organization), (Role::Orchestrator, &Some(name("acme"))));
    assert_eq!(caller.agents.as_deref(), Some(&[name("bot")][..]));
}

#[tokio::test]
async fn a_token_outlives_a_restart() {
    let fixture = fixture().await;
    let made = fixture.make(new_token(Role::Owner, Some("acme"))).await;
    let again = Identity::load(fixture.store.clone()).await.expect("tokens");
    let caller = again.authenticate(Some(&format!("Bearer {}", made.secret.text()))).expect("a caller");
    assert_eq!(*caller.token_id, *made.summary.id);
}

#[tokio::test]
async fn an_unknown_role_in_the_store_is_an_error_and_no_token() {
    let fixture = fixture().await;
    fixture.make(new_token(Role::Operator, None)).await;
    let mut connection = fixture.store.raw().await;
    sqlx::query("UPDATE tokens SET role = 'god'").execute(&mut *connection).await.expect("damaged");
    assert!(Identity::load(fixture.store.clone()).await.is_err());
}

#[tokio::test]
async fn the_secret_is_not_in_the_store() {
    let fixture = fixture().await;
    let made = fixture.make(new_token(Role::Operator, None)).await;
    fixture.store.close().await;
    let bytes = std::fs::read(fixture.folder.path().join("state.db")).expect("the store");
    let text = made.secret.text();
    let secret = text.rsplit_once(made.secret.id()).expect("an id").1.trim_start_matches('_');
    let holds = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
    assert!(holds(made.secret.id()));
    assert!(!holds(secret));
}

#[tokio::test]
async fn every_token_that_is_not_valid_gets_the_same_answer() {
    let fixture = fixture().await;
    let (one, other) = (
        fixture.make(new_token(Role::Operator, None)).await,
        fixture.make(new_token(Role::Operator, None)).await,
    );
    let revoked = fixture.make(new_token(Role::Operator, None)).await;
    fixture.identity.revoke(&operator(), &revoked.summary.id, 6).await.expect("revoked");
    let with_id_of = |id: &str, secret: &Secret| secret.text().replace(secret.id(), id);
    let wrong_secret_of_a_right_id = with_id_of(one.secret.id(), &other.secret);
    let right_secret_of_an_unknown_id = with_id_of("0123456789abcdef", &one.secret);
    let expected = fixture.caller("nonsense").expect_err("no token");
    assert_eq!(expected.error_type, ErrorType::Unauthenticated);
    for token in [wrong_secret_of_a_right_id, right_secret_of_an_unknown_id, revoked.secret.text()] {
        assert_eq!(fixture.caller(&token).expect_err("not valid"), expected);
    }
    fixture.caller(&one.secret.text()).expect("the right one");
}

#[tokio::test]
async fn a_header_that_is_no_bearer_token_is_not_valid() {
    let fixture = fixture().await;
    let text = fixture.make(new_token(Role::Operator, None)).await.secret.text();
    for header in
        [text.clone(), format!("Basic {text}"), format!("Bearer{text}"), "Bearer ".into(), String::new()]
    {
        let error = fixture.identity.authenticate(Some(&header)).expect_err("no bearer token");
        assert_eq!(error.error_type, ErrorType::Unauthenticated, "{header}");
    }
    let missing = fixture.identity.authenticate(None).expect_err("no header");
    assert_eq!(
        (missing.error_type, missing.message.as_str()),
        (ErrorType::Unauthenticated, "no token was sent")
    );
    fixture.identity.authenticate(Some(&format!("bearer {text}"))).expect("a bearer token");
}

#[tokio::test]
async fn a_revoked_token_ends_at_once_and_for_good() {
    let fixture = fixture().await;
    let made = fixture.make(new_token(Role::Owner, Some("acme"))).await;
    let caller = fixture.caller(&made.secret.text()).expect("a caller");
    assert!(!caller.revoked.is_cancelled());
    fixture.identity.revoke(&operator(), &made.summary.id, 6).await.expect("revoked");
    assert!(caller.revoked.is_cancelled());
    assert!(fixture.caller(&made.secret.text()).is_err());
    let again = Identity::load(fixture.store.clone()).await.expect("tokens");
    assert!(again.authenticate(Some(&format!("Bearer {}", made.secret.text()))).is_err());
}

#[tokio::test]
async fn an_owner_makes_lists_and_revokes_tokens_of_its_organization_alone() {
    let fixture = fixture().await;
    let owner = fixture.make(new_token(Role::Owner, Some("acme"))).await;
    let owner = fixture.caller(&owner.secret.text()).expect("a caller");
    let foreign = fixture.make(new_token(Role::Owner, Some("other"))).await.summary.id;
    let made = fixture
        .identity
        .create(&owner, new_token(Role::Orchestrator, Some("acme")), 7)
        .await
        .expect("its own");

    let ids: Vec<_> =
        fixture.identity.list(&owner, None, 10).expect("a list").into_iter().map(|token| token.id).collect();
    assert_eq!(ids, [owner.token_id.to_string(), made.summary.id.clone()]);

    let absent = fixture.identity.revoke(&owner, "0000000000000000", 8).await.expect_err("no such token");
    let refused = fixture.identity.revoke(&owner, &foreign, 8).await.expect_err("foreign");
    assert_eq!(refused.message.replace(&foreign, "0000000000000000"), absent.message);
    assert_eq!(refused.error_type, ErrorType::NotFound);
    fixture.identity.revoke(&owner, &made.summary.id, 8).await.expect("its own");
}

#[tokio::test]
async fn a_token_that_makes_no_sense_is_not_made() {
    let fixture = fixture().await;
    let of_agents = |role, agents| NewToken { agents: Some(agents), ..new_token(role, Some("acme")) };
    let cases = [
        new_token(Role::Operator, Some("acme")),
        new_token(Role::Owner, None),
        new_token(Role::Orchestrator, None),
        of_agents(Role::Owner, vec![name("bot")]),
        of_agents(Role::Orchestrator, vec![]),
        of_agents(Role::Orchestrator, vec![name("bot"); AGENTS + 1]),
        new_token(Role::Agent, Some("acme")),
        of_agents(Role::Agent, vec![name("bot"), name("other")]),
    ];
    for wanted in cases {
        let error = fixture.identity.create(&operator(), wanted.clone(), 5).await.expect_err("no sense");
        assert_eq!(error.error_type, ErrorType::InvalidRequest, "{wanted:?}");
    }
    fixture.make(of_agents(Role::Orchestrator, vec![name("bot")])).await;
    fixture.make(of_agents(Role::Agent, vec![name("bot")])).await;
    fixture.make(new_token(Role::Auditor, None)).await;
}

#[tokio::test]
async fn a_label_has_a_bound_and_what_it_had_is_said() {
    let fixture = fixture().await;
    let labelled = |bytes| NewToken { label: "x".repeat(bytes), ..new_token(Role::Operator, None) };
    let error = fixture.identity.create(&operator(), labelled(201), 5).await.expect_err("too long");
    assert_eq!(error.message, "`label` has 201 bytes and may have 200");
    fixture.make(labelled(200)).await;
    let of_agent = |bytes| NewToken {
        label: "x".repeat(bytes),
        agents: Some(vec![name("bot")]),
        ..new_token(Role::Agent, Some("acme"))
    };
    fixture.identity.create(&operator(), of_agent(201), 5).await.expect_err("too long for every role");
    fixture.make(of_agent(200)).await;
}

#[tokio::test]
async fn a_token_for_an_organization_that_is_not_there_is_not_made() {
    let fixture = fixture().await;
    let error = fixture
        .identity
        .create(&operator(), new_token(Role::Owner, Some("ghost")), 5)
        .await
        .expect_err("none");
    assert_eq!((error.error_type, error.message.as_str()), (ErrorType::NotFound, "no organization `ghost`"));
    assert_eq!(fixture.identity.list(&operator(), None, 10).expect("a list"), []);
}

#[tokio::test]
async fn a_list_goes_on_after_the_last_id() {
    let fixture = fixture().await;
    for _ in 0..3 {
        fixture.make(new_token(Role::Operator, None)).await;
    }
    let first = fixture.identity.list(&operator(), None, 2).expect("a page");
    let rest = fixture.identity.list(&operator(), Some(&first[1].id), 2).expect("a page");
    assert_eq!((first.len(), rest.len()), (2, 1));
    assert!(!first.contains(&rest[0]));
}

#[tokio::test]
async fn tokens_revoked_with_their_organization_are_dropped() {
    let fixture = fixture().await;
    let made = fixture.make(new_token(Role::Owner, Some("acme"))).await;
    let key = DocumentKey::Organization(name("acme"));
    let removed = fixture.store.delete_document(&key, &Precondition::Present, 9).await.expect("deleted");
    fixture.identity.drop_revoked(&removed.tokens).await;
    assert!(fixture.caller(&made.secret.text()).is_err());
}

#[tokio::test]
async fn the_first_start_writes_an_operator_token_that_works_and_can_be_revoked() {
    let fixture = fixture().await;
    let file = fixture.folder.path().join("operator.token");
    assert!(fixture.identity.make_first_token(&file, 1).await.expect("made"));
    assert_eq!(file.metadata().expect("the file").permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("the token");
    let caller = fixture.caller(text.trim()).expect("a caller");
    caller.may(Access::Operate).expect("an operator");
    let refused = fixture.identity.revoke(&caller, &caller.token_id, 2).await.expect_err("nobody else");
    assert_eq!(refused.error_type, ErrorType::Conflict);
    fixture.caller(text.trim()).expect("it still works");
    fixture.identity.create(&caller, new_token(Role::Operator, None), 2).await.expect("another");
    fixture.identity.revoke(&caller, &caller.token_id, 2).await.expect("revoked");
    assert!(fixture.caller(text.trim()).is_err());
}

#[tokio::test]
async fn a_later_start_makes_no_token_even_where_all_are_revoked() {
    let fixture = fixture().await;
    let made = fixture.make(new_token(Role::Auditor, None)).await;
    fixture.identity.revoke(&operator(), &made.summary.id, 6).await.expect("revoked");
    let file = fixture.folder.path().join("operator.token");
    assert!(!fixture.identity.make_first_token(&file, 7).await.expect("nothing to do"));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_token_file_that_is_there_is_never_overwritten() {
    let fixture = fixture().await;
    let file = fixture.folder.path().join("operator.token");
    std::fs::write(&file, "somebody's").expect("written");
    let error = fixture.identity.make_first_token(&file, 1).await.expect_err("in the way");
    assert!(matches!(error, FirstTokenError::File { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "somebody's");
    assert!(!fixture.store.has_tokens().await.expect("an answer"));
    std::fs::remove_file(&file).expect("removed");
    assert!(fixture.identity.make_first_token(&file, 1).await.expect("made"));
}

#[tokio::test]
async fn a_start_that_was_killed_before_it_stored_the_token_is_begun_again() {
    let fixture = fixture().await;
    let file = fixture.folder.path().join("operator.token");
    let left = Secret::random().expect("random");
    write_token(&file, &left).expect("written");
    assert!(fixture.identity.make_first_token(&file, 1).await.expect("made"));
    assert_eq!(std::fs::read_to_string(&file).expect("the token").trim(), left.text());
    fixture.caller(&left.text()).expect("a caller").may(Access::Operate).expect("an operator");
}
