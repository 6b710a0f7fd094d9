use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::*;

fn key(seed: u8) -> RootKey {
    let bytes: Vec<u8> = (0..32).map(|index| index * 3 + seed).collect();
    RootKey::from_bytes(&bytes).unwrap()
}

/// The value of an environment variable.
fn variable(seed: Option<u8>) -> RootKeySource {
    let value = seed.map(|seed| Secret::new(BASE64_STANDARD.encode(key(seed).expose()).into_bytes()));
    RootKeySource::Environment { name: "ROOT".to_owned(), value }
}

#[tokio::test]
async fn the_first_start_generates_a_key() {
    let fixture = Fixture::new().await;
    assert!(!fixture.path("root").exists());
    assert_eq!(fixture.open().await.sealed_reason(), None);
    assert!(fixture.path("root").exists());
}

#[tokio::test]
async fn a_configured_key_is_never_generated() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open_with(RootKeySource::File(fixture.path("mine"))).await;
    assert!(credentials.sealed_reason().is_some_and(|why| why.contains("/mine`")));
    assert!(!fixture.path("mine").exists());
}

#[tokio::test]
async fn a_lost_key_is_not_generated_again() {
    let fixture = Fixture::new().await;
    put(&fixture.open().await, "stripe", bearer()).await;
    std::fs::remove_file(fixture.path("root")).unwrap();
    assert!(fixture.open().await.sealed_reason().is_some());
    assert!(!fixture.path("root").exists());
}

#[tokio::test]
async fn a_sealed_store_lists_credentials_and_refuses_their_use_and_change() {
    let fixture = Fixture::new().await;
    put(&fixture.open_with(variable(Some(1))).await, "stripe", bearer()).await;
    assert!(is_connected(&fixture, "acme"));
    for source in [variable(None), variable(Some(2))] {
        let credentials = fixture.open_with(source).await;
        credentials.publish_connected(10).await;
        assert!(!is_connected(&fixture, "acme"));
        assert_eq!(got(&credentials).await, Err(ErrorType::Unavailable));
        let refused = put_for(&credentials, "acme", "other", bearer(), "new").await.err().unwrap();
        assert_eq!(refused.error_type, ErrorType::Unavailable);
        let known = credentials.find(&name("acme"), &name("stripe")).unwrap();
        assert_eq!(credentials.state(&known, 10), "sealed");
    }
}

#[tokio::test]
async fn an_operator_unseals_with_the_right_key_and_no_other() {
    let fixture = Fixture::new().await;
    put(&fixture.open_with(variable(Some(1))).await, "stripe", bearer()).await;
    let credentials = fixture.open_with(variable(None)).await;
    let refused = credentials.unseal(key(2), 10).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::InvalidRequest);
    assert!(credentials.sealed_reason().is_some());
    credentials.unseal(key(1), 10).await.unwrap();
    assert_eq!(credentials.sealed_reason(), None);
    assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
    assert!(is_connected(&fixture, "acme"));
}

#[tokio::test]
async fn k1_the_generated_key_is_rotated() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    let old = std::fs::read(fixture.path("root")).unwrap();
    let done = credentials.rotate_root(None, 7).await.unwrap();
    assert_eq!((done.rewrapped, done.previous), (1, None));
    assert_ne!(std::fs::read(fixture.path("root")).unwrap(), old);
    assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
    assert_eq!(got(&fixture.open().await).await.as_deref(), Ok(CANARY));
    // The old key decrypts nothing.
    std::fs::write(fixture.path("root"), old).unwrap();
    assert!(fixture.open().await.sealed_reason().is_some());
}

#[tokio::test]
async fn k1_the_old_key_opens_everything_until_the_source_has_the_new_one() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open_with(variable(Some(1))).await;
    put(&credentials, "stripe", bearer()).await;
    let refused = credentials.rotate_root(None, 7).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Conflict);
    let done = credentials.rotate_root(Some(key(2)), 7).await.unwrap();
    assert_eq!(done.previous, Some(key(1).id().to_string()));
    put(&credentials, "later", bearer()).await;
    // Either key is enough for a start, and another rotation must wait for the end of this one.
    let again = fixture.open_with(variable(Some(1))).await;
    assert_eq!(got(&again).await.as_deref(), Ok(CANARY));
    assert_eq!(again.rotate_root(Some(key(3)), 8).await.unwrap_err().error_type, ErrorType::Conflict);
    let finished = fixture.open_with(variable(Some(2))).await;
    assert_eq!(got(&finished).await.as_deref(), Ok(CANARY));
    assert_eq!(fixture.store.root_keys().await.unwrap().len(), 1);
    assert!(fixture.open_with(variable(Some(1))).await.sealed_reason().is_some());
}

#[tokio::test]
async fn k1_the_next_start_finishes_an_interrupted_rotation() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    for index in 0..5 {
        put(&credentials, &format!("stripe-{index}"), bearer()).await;
    }
    // Killed after the keys were stored, with secrets under both.
    let keys = open_keys(&credentials);
    let (during, wraps) = keys.rotating_to(key(9)).unwrap();
    fixture.store.serve_root_key(&key(9).id().to_string(), &wraps, 8).await.unwrap();
    credentials.set_keyring(during, 8);
    put(&credentials, "stripe-0", bearer()).await;
    let again = fixture.open().await;
    assert_eq!(got(&again).await.as_deref(), Ok(CANARY));
    assert_eq!(fixture.store.root_keys().await.unwrap().len(), 1);
    assert_eq!(std::fs::read(fixture.path("root")).unwrap(), key(9).expose());
    let rows = fixture.store.credentials().await.unwrap();
    assert!(rows.iter().all(|row| row.sealed.root_key == key(9).id().to_string()), "{rows:?}");
}

fn open_keys(credentials: &Credentials) -> Arc<super::super::keyring::Keyring> {
    super::super::change::open_keys(&credentials.0.snapshot.load()).unwrap()
}

/// A copy of the serving key.
fn serving(credentials: &Credentials) -> RootKey {
    RootKey::from_bytes(open_keys(credentials).serving.expose()).unwrap()
}

#[tokio::test]
async fn k1_a_damaged_secret_keeps_both_keys() {
    let fixture = Fixture::new().await;
    put(&fixture.open().await, "stripe", bearer()).await;
    fixture.change("UPDATE credentials SET version = 9").await;
    let credentials = fixture.open().await;
    let refused = credentials.rotate_root(None, 7).await.unwrap_err();
    assert!(refused.message.contains("`acme/stripe`"), "{}", refused.message);
    assert_eq!(fixture.store.root_keys().await.unwrap().len(), 2);
    put(&credentials, "stripe", bearer()).await;
    assert_eq!(credentials.rotate_root(Some(serving(&credentials)), 8).await.unwrap().previous, None);
    assert_eq!(got(&fixture.open().await).await.as_deref(), Ok(CANARY));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k1_requests_succeed_during_rotations() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    let (stop, requests) = (CancellationToken::new(), Arc::<AtomicU64>::default());
    let asking = tokio::spawn({
        let (credentials, stop, requests) = (credentials.clone(), stop.clone(), Arc::clone(&requests));
        async move {
            while !stop.is_cancelled() {
                assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
                requests.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    for round in 0..5 {
        let mark = requests.load(Ordering::Relaxed);
        while requests.load(Ordering::Relaxed) <= mark && !asking.is_finished() {
            tokio::task::yield_now().await;
        }
        let done = credentials.rotate_root(None, round).await.unwrap();
        assert_eq!((done.rewrapped, done.previous), (1, None));
    }
    stop.cancel();
    asking.await.unwrap();
}

#[tokio::test]
async fn k1_concurrent_rotations_lose_no_secret() {
    let fixture = Fixture::new().await;
    let credentials = fixture.open().await;
    put(&credentials, "stripe", bearer()).await;
    // Both wait for the lock after they saw that no rotation is in progress.
    let turn = credentials.0.writes.lock().await;
    let rotating = [(); 2].map(|()| {
        let credentials = credentials.clone();
        tokio::spawn(async move { credentials.rotate_root(None, 7).await })
    });
    tokio::task::yield_now().await;
    drop(turn);
    let [one, other] = rotating;
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    assert!(one.is_ok() || other.is_ok(), "{one:?} {other:?}");
    for refused in [one, other].into_iter().filter_map(Result::err) {
        assert_eq!(refused.error_type, ErrorType::Conflict);
    }
    assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
    assert_eq!(got(&fixture.open().await).await.as_deref(), Ok(CANARY));
}

#[tokio::test]
async fn k1_the_old_key_is_kept_while_the_source_cannot_be_read() {
    let fixture = Fixture::new().await;
    let place = fixture.path("mine");
    let write = |seed| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(&place, BASE64_STANDARD.encode(key(seed).expose())).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(1);
    let credentials = fixture.open_with(RootKeySource::File(place.clone())).await;
    put(&credentials, "stripe", bearer()).await;
    std::fs::remove_file(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    let done = credentials.rotate_root(Some(key(2)), 7).await.unwrap();
    assert_eq!(done.previous, Some(key(1).id().to_string()));
    std::fs::remove_dir(&place).unwrap();
    write(2);
    let done = credentials.rotate_root(Some(key(2)), 8).await.unwrap();
    assert_eq!((done.previous, done.serving), (None, key(2).id().to_string()));
}
