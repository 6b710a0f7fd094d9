use super::*;

#[tokio::test]
async fn k1_a_secret_comes_out_for_a_request_and_survives_a_restart() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    assert_eq!(got(&credentials).await, Err(ErrorType::CredentialMissing));
    put(&credentials, "stripe", bearer()).await;
    assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
    assert_eq!(got(&desk.open().await).await.as_deref(), Ok(CANARY));
}

#[tokio::test]
async fn k1_the_secret_is_in_no_file() {
    let desk = Desk::new().await;
    put(&desk.open().await, "stripe", bearer()).await;
    let bytes = desk.bytes_on_disk();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!holds(CANARY));
    // What must be there is found in the same bytes.
    assert!(holds("api.stripe.com"));
}

#[tokio::test]
async fn k1_what_somebody_changed_in_the_database_does_not_open() {
    let changes = [
        "UPDATE credentials SET document = replace(document, 'api.stripe.com', 'evil.example')",
        "UPDATE credentials SET document = replace(document, '\"user\":null', '\"user\":\"ann\"')",
        "UPDATE credentials SET version = version + 1",
        "UPDATE credentials SET id = 'cr_other'",
        "DELETE FROM credentials WHERE organization = 'acme'; UPDATE credentials SET organization = 'acme'",
        "UPDATE credentials SET sealed_secret = (SELECT other.sealed_secret FROM credentials AS other \
         WHERE other.organization <> credentials.organization)",
        "UPDATE credentials SET wrapped_key = (SELECT other.wrapped_key FROM credentials AS other \
         WHERE other.organization <> credentials.organization)",
        "UPDATE credentials SET sealed_secret = 'AQ=='",
    ];
    for change in changes {
        let desk = Desk::new().await;
        let credentials = desk.open().await;
        for organization in ["acme", "rival"] {
            put_for(&credentials, organization, "stripe", bearer(), CANARY).await.unwrap();
        }
        assert_eq!(got(&desk.open().await).await.as_deref(), Ok(CANARY));
        desk.change(change).await;
        let again = desk.open().await;
        let evil = Target::parse("https", "evil.example", "/", "GET").unwrap();
        let providers = ["stripe".to_owned()];
        for user in [None, Some("ann")] {
            let rights = CredentialRights { providers: &providers, user, user_credentials: true };
            let wanted = Wanted { organization: &name("acme"), rights, target: &evil };
            let got = again.for_request(&wanted, 10).await;
            assert!(
                got.is_err() || got.is_ok_and(|found| found.injection.is_none() && found.watched.is_empty()),
                "{change}"
            );
            assert!(!matches!(ask(&again, "acme", user, 10).await, Ok(Some(_))), "{change}");
        }
    }
}

#[tokio::test]
async fn k1_an_earlier_secret_put_back_does_not_open() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    desk.change("CREATE TABLE kept AS SELECT * FROM credentials").await;
    let precondition = Precondition::Missing;
    let rotate =
        credentials.rotate(&name("acme"), &name("stripe"), secret("new"), None, &precondition, 6).await;
    assert_eq!(rotate.unwrap().row.version, 2);
    assert_eq!(got(&credentials).await.as_deref(), Ok("new"));
    assert_eq!(got(&desk.open().await).await.as_deref(), Ok("new"));
    desk.change(
        "UPDATE credentials SET wrapped_key = (SELECT wrapped_key FROM kept), \
         sealed_secret = (SELECT sealed_secret FROM kept)",
    )
    .await;
    assert_eq!(got(&desk.open().await).await, Err(ErrorType::CredentialMissing));
}

#[tokio::test]
async fn k1_a_credential_of_the_same_name_made_anew_is_another_one() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    desk.change("CREATE TABLE kept AS SELECT * FROM credentials").await;
    credentials.remove(&name("acme"), &name("stripe"), &Precondition::Missing, 6).await.unwrap();
    assert_eq!(got(&credentials).await, Err(ErrorType::CredentialMissing));
    put_for(&credentials, "acme", "stripe", bearer(), "new").await.unwrap();
    desk.change(
        "UPDATE credentials SET wrapped_key = (SELECT wrapped_key FROM kept), \
         sealed_secret = (SELECT sealed_secret FROM kept)",
    )
    .await;
    assert_eq!(got(&desk.open().await).await, Err(ErrorType::CredentialMissing));
}

#[tokio::test]
async fn g8_a_usable_credential_connects_its_integration_at_once() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    assert!(!connected(&desk, "acme"));
    put(&credentials, "stripe", bearer()).await;
    assert!(connected(&desk, "acme"));
    assert!(!connected(&desk, "rival"));
    credentials.remove(&name("acme"), &name("stripe"), &Precondition::Missing, 6).await.unwrap();
    assert!(!connected(&desk, "acme"));
}

#[tokio::test]
async fn g8_an_expired_credential_connects_nothing_and_gives_nothing() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", CredentialDocument { expires_ms: Some(100), ..bearer() }).await;
    assert!(connected(&desk, "acme"));
    assert!(matches!(ask(&credentials, "acme", None, 99).await, Ok(Some(_))));
    let refused = ask(&credentials, "acme", None, 100).await.err().unwrap();
    assert_eq!(CallError::from(refused).error_type, ErrorType::CredentialMissing);
    let stop = CancellationToken::new();
    stop.cancel();
    credentials.clone().keep(stop, || 100).await;
    assert!(!connected(&desk, "acme"));
    assert_eq!(credentials.state(&credentials.find(&name("acme"), &name("stripe")).unwrap(), 100), "expired");
}

#[tokio::test]
async fn k5_a_user_gets_their_own_and_never_anothers() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    let of = |user: &str| CredentialDocument { user: Some(user.to_owned()), ..bearer() };
    put_for(&credentials, "acme", "ann", of("ann"), "anns").await.unwrap();
    assert!(matches!(ask(&credentials, "acme", Some("bob"), 10).await, Err(CredentialRefusal::Missing(_))));
    assert!(matches!(ask(&credentials, "rival", Some("ann"), 10).await, Err(CredentialRefusal::Missing(_))));
    let injection = ask(&credentials, "acme", Some("ann"), 10).await.unwrap().unwrap();
    assert_eq!(injection.secret().expose(), b"anns");
    assert!(injection.credential().starts_with("ann@"), "{}", injection.credential());
}

#[tokio::test]
async fn what_the_operator_calls_connected_has_its_secrets_elsewhere() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    assert!(ask(&credentials, "acme", None, 10).await.is_err());
    desk.registry.put_organization(name("acme"), ["stripe".to_owned()].into());
    assert!(matches!(ask(&credentials, "acme", None, 10).await, Ok(None)));
    put(&credentials, "stripe", bearer()).await;
    assert!(matches!(ask(&credentials, "acme", None, 10).await, Ok(Some(_))));
}

#[tokio::test]
async fn the_credentials_of_an_organization_end_with_it() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    let key = DocumentKey::Organization(name("acme"));
    desk.store.delete_document(&key, &Precondition::Present, 7).await.unwrap();
    credentials.forget_organization(&name("acme")).await;
    assert!(credentials.find(&name("acme"), &name("stripe")).is_err());
    assert_eq!(desk.open().await.list(&name("acme"), None, 10).len(), 0);
}

#[tokio::test]
async fn when_it_was_used_survives_a_restart() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    let last_used =
        |credentials: &Credentials| credentials.find(&name("acme"), &name("stripe")).unwrap().last_used_ms();
    assert_eq!(last_used(&credentials), None);
    ask(&credentials, "acme", None, 42).await.unwrap();
    assert_eq!(last_used(&credentials), Some(42));
    credentials.note_use().await.unwrap();
    assert_eq!(last_used(&desk.open().await), Some(42));
}

/// K2: a secret lies open for as long as some request needs it, and for no other secret's requests.
#[tokio::test]
async fn k2_requests_at_the_same_time_share_an_opened_secret_and_nobody_keeps_it() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    let request = || async { ask(&credentials, "acme", None, 10).await.unwrap().unwrap() };
    let (first, second) = (request().await, request().await);
    assert!(Arc::ptr_eq(&first, &second));
    put_for(&credentials, "acme", "stripe", bearer(), "sk_live_another").await.unwrap();
    let replaced = request().await;
    assert_eq!(
        (first.secret().expose(), replaced.secret().expose()),
        (CANARY.as_bytes(), &b"sk_live_another"[..])
    );
    let open = [Arc::downgrade(&first), Arc::downgrade(&replaced)];
    drop((first, replaced));
    assert!(open[0].upgrade().is_some(), "a request has it");
    drop(second);
    assert!(open.iter().all(|open| open.upgrade().is_none()), "nobody has it");
    assert_eq!(request().await.secret().expose(), b"sk_live_another");
}

#[tokio::test]
async fn each_kind_is_put_where_its_provider_looks_for_it() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    let header = |name: &str, prefix: &str| InjectionPlace::Header {
        name: name.parse().unwrap(),
        prefix: prefix.into(),
    };
    let cases = [
        (Authentication::Bearer {}, header("authorization", "Bearer "), CANARY.to_owned()),
        (
            Authentication::ApiKeyHeader { header: "x-key".into(), prefix: "Key ".into() },
            header("x-key", "Key "),
            CANARY.to_owned(),
        ),
        (
            Authentication::ApiKeyQuery { query: "key".into() },
            InjectionPlace::Query { name: "key".into() },
            CANARY.to_owned(),
        ),
        (
            Authentication::Basic { username: "ann".into() },
            header("authorization", "Basic "),
            "YW5uOnNrX2xpdmVfY2FuYXJ5XzdmM2E=".to_owned(),
        ),
    ];
    for (authentication, place, text) in cases {
        let is_basic = matches!(authentication, Authentication::Basic { .. });
        put(&credentials, "stripe", CredentialDocument { authentication, ..bearer() }).await;
        let injection = ask(&credentials, "acme", None, 10).await.unwrap().unwrap();
        assert_eq!(*injection.place(), place);
        assert_eq!(injection.secret().expose(), text.as_bytes());
        let hidden: Vec<&[u8]> = injection.also_hidden().iter().map(Secret::expose).collect();
        assert_eq!(hidden, if is_basic { vec![CANARY.as_bytes()] } else { vec![] });
    }
}

#[test]
fn what_would_break_a_header_is_not_sendable() {
    for text in ["", " a", "a ", "a\r\nX-Other: b", "a\nb", "a\0", "ä", "a\x7f"] {
        assert!(!sendable(text.as_bytes()), "{text:?}");
    }
    assert!(!sendable(&vec![b'a'; SECRET_BYTES + 1]));
    assert!(sendable(b"a b~!") && sendable(&vec![b'a'; SECRET_BYTES]));
}

#[tokio::test]
async fn an_organization_has_only_so_many_and_any_of_them_can_still_be_replaced() {
    let desk = Desk::new().await;
    put(&desk.open().await, "stripe", bearer()).await;
    desk.change(
        "WITH RECURSIVE more(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < 10000)
         INSERT INTO credentials SELECT organization, 'n' || n, 'cr_' || n, revision, version, document, state, root_key,
             wrapped_key, sealed_secret, expires_ms, refresh_ms, created_ms, changed_ms, last_used_ms
         FROM credentials, more",
    )
    .await;
    let credentials = desk.open().await;
    let refused =
        put_for(&credentials, "acme", "another", bearer(), CANARY).await.err().expect("one too many");
    assert_eq!(refused.error_type, ErrorType::QuotaExceeded, "{}", refused.message);
    put_for(&credentials, "acme", "stripe", bearer(), "sk_live_other").await.expect("in its own place");
    put_for(&credentials, "rival", "another", bearer(), CANARY).await.expect("of another organization");
    credentials.remove(&name("acme"), &name("n2"), &Precondition::Missing, 6).await.unwrap();
    put_for(&credentials, "acme", "another", bearer(), CANARY)
        .await
        .expect("in the place of one that is gone");
}
