use super::*;

#[tokio::test]
async fn k1_a_request_gets_its_secret_also_after_a_restart() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    assert_eq!(got(&credentials).await, Err(ErrorType::CredentialMissing));
    put(&credentials, "stripe", bearer()).await;
    assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
    assert_eq!(got(&fixture.open().await).await.as_deref(), Ok(CANARY));
}

#[tokio::test]
async fn k1_the_secret_is_in_no_file() {
    let fixture = Fixture::new().await;
    put(&fixture.open().await, "stripe", bearer()).await;
    let bytes = fixture.bytes_on_disk();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!holds(CANARY));
    // Counter-check: the document is found in the same bytes.
    assert!(holds("api.stripe.com"));
}

#[tokio::test]
async fn k1_a_row_that_was_changed_in_the_database_does_not_open() {
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
        let fixture = Fixture::new().await;
        let credentials = fixture.open().await;
        for organization in ["acme", "rival"] {
            put_for(&credentials, organization, "stripe", bearer(), CANARY).await.unwrap();
        }
        assert_eq!(got(&fixture.open().await).await.as_deref(), Ok(CANARY));
        fixture.change(change).await;
        let again = fixture.open().await;
        let evil = Target::parse("https", "evil.example", "/", "GET").unwrap();
        let providers = ["stripe".to_owned()];
        for user in [None, Some("ann")] {
            let rights = CredentialRights {
                providers: &providers,
                user,
                speaks_for_organization: true,
                user_credentials: true,
            };
            let wanted = CredentialRequest { organization: &name("acme"), rights, target: &evil };
            let got = again.for_request(&wanted, 10).await;
            assert!(
                got.is_err()
                    || got.is_ok_and(|found| found.injection.is_none() && found.scan_only.is_empty()),
                "{change}"
            );
            assert!(!matches!(ask(&again, "acme", user, 10).await, Ok(Some(_))), "{change}");
        }
    }
}

#[tokio::test]
async fn k1_a_restored_earlier_secret_does_not_open() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    fixture.change("CREATE TABLE kept AS SELECT * FROM credentials").await;
    let precondition = Precondition::Missing;
    let rotate =
        credentials.rotate(&name("acme"), &name("stripe"), secret("new"), None, &precondition, 6).await;
    assert_eq!(rotate.unwrap().row.version, 2);
    assert_eq!(got(&credentials).await.as_deref(), Ok("new"));
    assert_eq!(got(&fixture.open().await).await.as_deref(), Ok("new"));
    fixture
        .change(
            "UPDATE credentials SET wrapped_key = (SELECT wrapped_key FROM kept), \
         sealed_secret = (SELECT sealed_secret FROM kept)",
        )
        .await;
    assert_eq!(got(&fixture.open().await).await, Err(ErrorType::CredentialMissing));
}

#[tokio::test]
async fn k1_the_secret_of_a_deleted_credential_does_not_open_in_its_successor() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    fixture.change("CREATE TABLE kept AS SELECT * FROM credentials").await;
    credentials.remove(&name("acme"), &name("stripe"), &Precondition::Missing, 6).await.unwrap();
    assert_eq!(got(&credentials).await, Err(ErrorType::CredentialMissing));
    put_for(&credentials, "acme", "stripe", bearer(), "new").await.unwrap();
    fixture
        .change(
            "UPDATE credentials SET wrapped_key = (SELECT wrapped_key FROM kept), \
         sealed_secret = (SELECT sealed_secret FROM kept)",
        )
        .await;
    assert_eq!(got(&fixture.open().await).await, Err(ErrorType::CredentialMissing));
}

#[tokio::test]
async fn g8_a_usable_credential_connects_its_integration_at_once() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    assert!(!is_connected(&fixture, "acme"));
    put(&credentials, "stripe", bearer()).await;
    assert!(is_connected(&fixture, "acme"));
    assert!(!is_connected(&fixture, "rival"));
    credentials.remove(&name("acme"), &name("stripe"), &Precondition::Missing, 6).await.unwrap();
    assert!(!is_connected(&fixture, "acme"));
}

#[tokio::test]
async fn g8_an_expired_credential_is_neither_connected_nor_used() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", CredentialDocument { expires_ms: Some(100), ..bearer() }).await;
    assert!(is_connected(&fixture, "acme"));
    assert!(matches!(ask(&credentials, "acme", None, 99).await, Ok(Some(_))));
    let refused = ask(&credentials, "acme", None, 100).await.err().unwrap();
    assert_eq!(CallError::from(refused).error_type, ErrorType::CredentialMissing);
    let stop = CancellationToken::new();
    stop.cancel();
    credentials.clone().run_background(stop, || 100).await;
    assert!(!is_connected(&fixture, "acme"));
    assert_eq!(credentials.state(&credentials.find(&name("acme"), &name("stripe")).unwrap(), 100), "expired");
}

#[tokio::test]
async fn k5_a_session_gets_its_users_credential_and_no_other_users() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    let of = |user: &str| CredentialDocument { user: Some(user.to_owned()), ..bearer() };
    put_for(&credentials, "acme", "ann", of("ann"), "anns").await.unwrap();
    assert!(matches!(ask(&credentials, "acme", Some("bob"), 10).await, Err(CredentialRefusal::Missing(_))));
    assert!(matches!(ask(&credentials, "rival", Some("ann"), 10).await, Err(CredentialRefusal::Missing(_))));
    let injection = ask(&credentials, "acme", Some("ann"), 10).await.unwrap().unwrap();
    assert_eq!(injection.secret().expose(), b"anns");
    assert!(injection.credential().starts_with("ann@"), "{}", injection.credential());
}

#[tokio::test]
async fn an_integration_that_the_operator_declares_as_connected_needs_no_credential() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    assert!(ask(&credentials, "acme", None, 10).await.is_err());
    fixture.registry.put_organization(name("acme"), ["stripe".to_owned()].into());
    assert!(matches!(ask(&credentials, "acme", None, 10).await, Ok(None)));
    put(&credentials, "stripe", bearer()).await;
    assert!(matches!(ask(&credentials, "acme", None, 10).await, Ok(Some(_))));
}

#[tokio::test]
async fn deleting_an_organization_deletes_its_credentials() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    let key = DocumentKey::Organization(name("acme"));
    fixture.store.delete_document(&key, &Precondition::Present, 7).await.unwrap();
    credentials.forget_organization(&name("acme")).await;
    assert!(credentials.find(&name("acme"), &name("stripe")).is_err());
    assert_eq!(fixture.open().await.list(&name("acme"), None, 10).len(), 0);
}

#[tokio::test]
async fn the_last_use_survives_a_restart() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    let last_used =
        |credentials: &Credentials| credentials.find(&name("acme"), &name("stripe")).unwrap().last_used_ms();
    assert_eq!(last_used(&credentials), None);
    ask(&credentials, "acme", None, 42).await.unwrap();
    assert_eq!(last_used(&credentials), Some(42));
    credentials.store_last_use().await.unwrap();
    assert_eq!(last_used(&fixture.open().await), Some(42));
}

#[tokio::test]
async fn k2_concurrent_requests_share_a_decrypted_secret_until_the_last_ends() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
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
async fn each_kind_is_injected_in_its_place() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
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
fn a_secret_that_a_header_cannot_contain_is_not_sendable() {
    for text in ["", " a", "a ", "a\r\nX-Other: b", "a\nb", "a\0", "ä", "a\x7f"] {
        assert!(!is_sendable(text.as_bytes()), "{text:?}");
    }
    assert!(!is_sendable(&vec![b'a'; SECRET_BYTES + 1]));
    assert!(is_sendable(b"a b~!") && is_sendable(&vec![b'a'; SECRET_BYTES]));
}

#[tokio::test]
async fn the_number_of_credentials_is_limited_and_replacing_stays_possible() {
    let fixture = Fixture::new().await;
    put(&fixture.open().await, "stripe", bearer()).await;
    fixture.change(
        "WITH RECURSIVE more(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < 10000)
         INSERT INTO credentials SELECT organization, 'n' || n, 'cr_' || n, revision, version, document, state, root_key,
             wrapped_key, sealed_secret, expires_ms, refresh_ms, created_ms, changed_ms, last_used_ms
         FROM credentials, more",
    )
    .await;
    let credentials = fixture.open().await;
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
