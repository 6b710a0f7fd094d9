use super::super::UnavailableReason;
use super::super::testing::empty_store;
use super::*;
use crate::store::{SessionRow, TokenRow};

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn acme() -> DocumentKey {
    DocumentKey::Organization(name("acme"))
}

fn bot() -> DocumentKey {
    DocumentKey::agent(&name("acme"), &name("bot"))
}

/// HTTP status of an error.
fn status(error: &StoreError) -> u16 {
    match error {
        StoreError::PreconditionFailed { .. } => 412,
        StoreError::PreconditionRequired { .. } => 428,
        StoreError::NotFound { .. } => 404,
        StoreError::LastOperator { .. } => 409,
        StoreError::TooMany { .. }
        | StoreError::TooManyWebhooks
        | StoreError::TooManyTokens
        | StoreError::TooManyDocuments => 429,
        StoreError::Held { .. } | StoreError::OtherVersion | StoreError::Unavailable { .. } => 503,
    }
}

async fn make(store: &Store, key: &DocumentKey) -> Revision {
    store.put_document(key, "{}", &Precondition::Absent, 1).await.expect("a new document").revision
}

#[tokio::test]
async fn a_document_comes_back_as_it_was_put() {
    let (_folder, store) = empty_store().await;
    let written = store.put_document(&acme(), "{\"a\": 1}", &Precondition::Absent, 7).await.expect("written");
    let read = store.document(&acme()).await.expect("the document");
    assert!(written.created);
    assert_eq!((read.body.as_str(), read.revision, read.updated_ms), ("{\"a\": 1}", written.revision, 7));
}

#[tokio::test]
async fn the_documents_of_an_organization_are_bounded() {
    let (_folder, store) = empty_store().await;
    make(&store, &acme()).await;
    sqlx::query(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1) \
         INSERT INTO docs (kind, scope, name, revision, body, updated_ms) \
         SELECT 'agent', 'acme', 'n' || n, 0, '{}', 1 FROM numbers",
    )
    .bind(PER_ORGANIZATION - 1)
    .execute(&store.writer)
    .await
    .expect("stored");
    make(&store, &bot()).await;
    let one_more = DocumentKey::agent(&name("acme"), &name("one-more"));
    let refused = store.put_document(&one_more, "{}", &Precondition::Absent, 1).await.expect_err("too many");
    assert_eq!(status(&refused), 429);
    assert!(store.find_document(&one_more).await.expect("read").is_none());
    make(&store, &DocumentKey::Organization(name("rival"))).await;
    make(&store, &DocumentKey::agent(&name("rival"), &name("bot"))).await;
    let mut change = store.begin().await.expect("begun");
    let bytes = PER_ORGANIZATION * 2;
    check_bytes(&mut change, &name("acme"), bytes).await.expect("so many have room");
    assert!(check_bytes(&mut change, &name("acme"), bytes - 1).await.is_err());
}

#[tokio::test]
async fn a_document_that_is_not_there_is_not_found() {
    let (_folder, store) = empty_store().await;
    let error = store.document(&bot()).await.expect_err("none");
    assert_eq!((error.to_string().as_str(), status(&error)), ("no agent `acme/bot`", 404));
}

#[tokio::test]
async fn a_write_without_a_precondition_changes_nothing() {
    let (_folder, store) = empty_store().await;
    make(&store, &acme()).await;
    let error =
        store.put_document(&acme(), "{\"new\":1}", &Precondition::Missing, 2).await.expect_err("refused");
    assert_eq!(status(&error), 428);
    assert_eq!(store.document(&acme()).await.expect("the document").body, "{}");
}

#[tokio::test]
async fn a_write_against_a_stale_tag_changes_nothing_and_the_fresh_one_does() {
    let (_folder, store) = empty_store().await;
    let first = make(&store, &acme()).await;
    let on_first = Precondition::OneOf(vec![first]);
    let second = store.put_document(&acme(), "{\"n\":2}", &on_first, 2).await.expect("fresh");
    assert!(!second.created && second.revision > first);
    let error = store.put_document(&acme(), "{\"n\":3}", &on_first, 3).await.expect_err("stale");
    assert_eq!(status(&error), 412);
    assert_eq!(store.document(&acme()).await.expect("the document").body, "{\"n\":2}");
    let on_second = Precondition::OneOf(vec![second.revision]);
    store.put_document(&acme(), "{\"n\":3}", &on_second, 3).await.expect("fresh");
}

#[tokio::test]
async fn a_new_document_does_not_replace_one_that_is_there() {
    let (_folder, store) = empty_store().await;
    make(&store, &acme()).await;
    let error = store.put_document(&acme(), "{}", &Precondition::Absent, 2).await.expect_err("taken");
    assert_eq!(status(&error), 412);
}

#[tokio::test]
async fn a_revision_is_not_reused_after_a_deletion() {
    let (_folder, store) = empty_store().await;
    let first = make(&store, &acme()).await;
    store.delete_document(&acme(), &Precondition::OneOf(vec![first]), 2).await.expect("deleted");
    let second = make(&store, &acme()).await;
    assert!(second > first);
    let error =
        store.delete_document(&acme(), &Precondition::OneOf(vec![first]), 3).await.expect_err("stale");
    assert_eq!(status(&error), 412);
}

#[tokio::test]
async fn of_many_writers_with_one_tag_one_wins() {
    let (_folder, store) = empty_store().await;
    let precondition = Precondition::OneOf(vec![make(&store, &acme()).await]);
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (store, precondition) = (store.clone(), precondition.clone());
        writers.spawn(async move {
            store.put_document(&acme(), &number.to_string(), &precondition, 2).await.is_ok()
        });
    }
    let won = writers.join_all().await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}

#[tokio::test]
async fn an_agent_needs_its_organization() {
    let (_folder, store) = empty_store().await;
    let error =
        store.put_document(&bot(), "{}", &Precondition::Absent, 1).await.expect_err("no organization");
    assert_eq!(error.to_string(), "no organization `acme`");
    make(&store, &acme()).await;
    make(&store, &bot()).await;
}

#[tokio::test]
async fn a_deletion_needs_its_precondition_and_its_document() {
    let (_folder, store) = empty_store().await;
    let revision = make(&store, &acme()).await;
    let outcome = |result: Result<Deleted, StoreError>| result.map(drop).map_err(|error| status(&error));
    assert_eq!(outcome(store.delete_document(&acme(), &Precondition::Missing, 2).await), Err(428));
    assert_eq!(outcome(store.delete_document(&acme(), &Precondition::Absent, 2).await), Err(412));
    assert_eq!(outcome(store.delete_document(&bot(), &Precondition::Absent, 2).await), Err(404));
    assert_eq!(
        outcome(store.delete_document(&acme(), &Precondition::OneOf(vec![revision]), 2).await),
        Ok(())
    );
    assert_eq!(outcome(store.document(&acme()).await.map(|_| Deleted::default())), Err(404));
}

#[tokio::test]
async fn a_list_continues_after_the_last_name_within_its_scope() {
    let (_folder, store) = empty_store().await;
    for organization in ["acme", "other"] {
        make(&store, &DocumentKey::Organization(name(organization))).await;
        for agent in ["a", "b", "c"] {
            make(&store, &DocumentKey::agent(&name(organization), &name(agent))).await;
        }
    }
    let names = |documents: Vec<Document>| {
        documents.into_iter().map(|document| document.key.to_string()).collect::<Vec<_>>()
    };
    let first = names(store.documents(DocumentKind::Agent, "acme", None, 2).await.expect("a page"));
    assert_eq!(first, ["agent `acme/a`", "agent `acme/b`"]);
    let rest = names(store.documents(DocumentKind::Agent, "acme", Some("b"), 2).await.expect("a page"));
    assert_eq!(rest, ["agent `acme/c`"]);
    let platform = names(store.documents(DocumentKind::Organization, "", None, 9).await.expect("a page"));
    assert_eq!(platform, ["organization `acme`", "organization `other`"]);
    assert_eq!(store.all_documents().await.expect("all").len(), 8);
}

#[tokio::test]
async fn deleting_an_organization_deletes_its_dependents_alone() {
    let (_folder, store) = empty_store().await;
    for organization in ["acme", "acme_2"] {
        make(&store, &DocumentKey::Organization(name(organization))).await;
        make(&store, &DocumentKey::agent(&name(organization), &name("bot"))).await;
        store.add_token(&token(organization)).await.expect("a token");
        store.add_session(&session(organization)).await.expect("a session");
    }
    let deleted = store.delete_document(&acme(), &Precondition::Present, 9).await.expect("deleted");
    assert_eq!(
        deleted,
        Deleted {
            agents: vec!["bot".into()],
            sessions: vec!["session-acme".into()],
            tokens: vec!["token-acme".into()],
        }
    );
    assert_eq!(store.live_tokens().await.expect("tokens"), [token("acme_2")]);
    assert_eq!(store.open_sessions().await.expect("sessions"), [session("acme_2")]);
    assert!(store.document(&bot()).await.is_err());
}

#[tokio::test]
async fn the_sessions_of_an_agent_end_with_it() {
    let (_folder, store) = empty_store().await;
    make(&store, &acme()).await;
    make(&store, &bot()).await;
    store.add_session(&session("acme")).await.expect("a session");
    let deleted = store.delete_document(&bot(), &Precondition::Present, 9).await.expect("deleted");
    assert_eq!(deleted.sessions, ["session-acme"]);
}

#[tokio::test]
async fn a_full_disk_refuses_the_write_and_keeps_what_was_there() {
    let (_folder, store) = empty_store().await;
    let revision = make(&store, &acme()).await;
    let (pages,): (i64,) =
        sqlx::query_as("PRAGMA page_count").fetch_one(&store.writer).await.expect("a count");
    limit_pages(&store, pages).await;
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    let error = store.put_document(&acme(), &large, &Precondition::Present, 2).await.expect_err("full");
    assert!(
        matches!(error, StoreError::Unavailable { reason: UnavailableReason::DiskFull, .. }),
        "{error:?}"
    );
    assert_eq!(store.document(&acme()).await.expect("the document").revision, revision);
    limit_pages(&store, pages + 1000).await;
    store.put_document(&acme(), &large, &Precondition::Present, 3).await.expect("room again");
}

/// Simulates a full disk with a limit of the file size.
async fn limit_pages(store: &Store, pages: i64) {
    let pragma = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
    sqlx::query(pragma).execute(&store.writer).await.expect("a limit");
}

fn token(organization: &str) -> TokenRow {
    TokenRow {
        id: format!("token-{organization}"),
        hash: String::new(),
        role: "owner".into(),
        organization: Some(name(organization)),
        agents: None,
        label: String::new(),
        created_ms: 1,
        revoked_ms: None,
        expires_ms: None,
        addresses: None,
        user: None,
        last_used_ms: None,
    }
}

fn session(organization: &str) -> SessionRow {
    SessionRow {
        id: format!("session-{organization}"),
        organization: name(organization),
        agent: name("bot"),
        user: None,
        conversation: None,
        channel: None,
        opened_by: format!("token-{organization}"),
        disabled_tools: Vec::new(),
        broken_tools: Default::default(),
        rounds: 0,
        created_ms: 1,
        last_used_ms: 1,
        ended_ms: None,
    }
}

#[tokio::test]
async fn a_page_of_long_documents_is_cut_and_has_one_at_least() {
    let (_folder, store) = empty_store().await;
    make(&store, &acme()).await;
    for (agent, bytes) in [("a", 100), ("b", 300), ("c", 100)] {
        let key = DocumentKey::agent(&name("acme"), &name(agent));
        let body = format!("{{}}{}", " ".repeat(bytes - 2));
        store.put_document(&key, &body, &Precondition::Absent, 1).await.expect("written");
    }
    for (after, most_bytes, names, has_more) in [
        (None, 500, "a b c", false),
        (None, 499, "a b", true),
        (Some("a"), 1, "b", true),
        (Some("c"), 1, "", false),
    ] {
        let page = store.documents_within(DocumentKind::Agent, "acme", after, 10, most_bytes).await;
        let (documents, more) = page.expect("a page");
        let found: Vec<_> = documents.iter().map(|document| document.key.name().to_owned()).collect();
        assert_eq!((found.join(" ").as_str(), more), (names, has_more), "{after:?} {most_bytes}");
    }
    let heads = store.documents_without_text(DocumentKind::Agent, "acme", 2).await.expect("a list");
    assert!(heads.len() == 2 && heads.iter().all(|head| head.body.is_empty() && head.updated_ms == 1));
}
