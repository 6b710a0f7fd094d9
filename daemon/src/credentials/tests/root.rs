use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::*;

fn key(seed: u8) -> RootKey {
    let bytes: Vec<u8> = (0..32).map(|index| index * 3 + seed).collect();
    RootKey::from_bytes(&bytes).unwrap()
}

/// What a variable of the environment held.
fn variable(seed: Option<u8>) -> RootKeySource {
    let value = seed.map(|seed| Secret::new(BASE64_STANDARD.encode(key(seed).expose()).into_bytes()));
    RootKeySource::Environment { name: "ROOT".to_owned(), value }
}

#[tokio::test]
async fn the_first_start_makes_a_key_of_its_own() {
    let desk = Desk::new().await;
    assert!(!desk.path("root").exists());
    assert_eq!(desk.open().await.sealed(), None);
    assert!(desk.path("root").exists());
}

#[tokio::test]
async fn a_key_that_the_settings_name_is_never_made() {
    let desk = Desk::new().await;
    let credentials = desk.open_with(RootKeySource::File(desk.path("mine"))).await;
    assert!(credentials.sealed().is_some_and(|why| why.contains("/mine`")));
    assert!(!desk.path("mine").exists());
}

#[tokio::test]
async fn a_key_that_is_gone_is_not_made_anew() {
    let desk = Desk::new().await;
    put(&desk.open().await, "stripe", bearer()).await;
    std::fs::remove_file(desk.path("root")).unwrap();
    assert!(desk.open().await.sealed().is_some());
    assert!(!desk.path("root").exists());
}

#[tokio::test]
async fn a_sealed_daemon_gives_and_takes_no_secret_and_tells_what_it_has() {
    let desk = Desk::new().await;
    put(&desk.open_with(variable(Some(1))).await, "stripe", bearer()).await;
    assert!(connected(&desk, "acme"));
    for source in [variable(None), variable(Some(2))] {
        let credentials = desk.open_with(source).await;
        credentials.tell_all(10).await;
        assert!(!connected(&desk, "acme"));
        assert_eq!(got(&credentials).await, Err(ErrorType::Unavailable));
        let refused = put_for(&credentials, "acme", "other", bearer(), "new").await.err().unwrap();
        assert_eq!(refused.error_type, ErrorType::Unavailable);
        let known = credentials.find(&name("acme"), &name("stripe")).unwrap();
        assert_eq!(credentials.state(&known, 10), "sealed");
    }
}

#[tokio::test]
async fn an_operator_unseals_with_the_right_key_and_no_other() {
    let desk = Desk::new().await;
    put(&desk.open_with(variable(Some(1))).await, "stripe", bearer()).await;
    let credentials = desk.open_with(variable(None)).await;
    let refused = credentials.unseal(key(2), 10).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::InvalidRequest);
    assert!(credentials.sealed().is_some());
    credentials.unseal(key(1), 10).await.unwrap();
    assert_eq!(credentials.sealed(), None);
    assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
    assert!(connected(&desk, "acme"));
}

#[tokio::test]
async fn k1_the_daemons_own_key_is_rotated() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    let old = std::fs::read(desk.path("root")).unwrap();
    let done = credentials.rotate_root(None, 7).await.unwrap();
    assert_eq!((done.rewrapped, done.going), (1, None));
    assert_ne!(std::fs::read(desk.path("root")).unwrap(), old);
    assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
    assert_eq!(got(&desk.open().await).await.as_deref(), Ok(CANARY));
    // The old key opens nothing any more.
    std::fs::write(desk.path("root"), old).unwrap();
    assert!(desk.open().await.sealed().is_some());
}

#[tokio::test]
async fn k1_until_the_new_key_is_in_its_place_the_old_one_opens_everything() {
    let desk = Desk::new().await;
    let credentials = desk.open_with(variable(Some(1))).await;
    put(&credentials, "stripe", bearer()).await;
    let refused = credentials.rotate_root(None, 7).await.unwrap_err();
    assert_eq!(refused.error_type, ErrorType::Conflict);
    let done = credentials.rotate_root(Some(key(2)), 7).await.unwrap();
    assert_eq!(done.going, Some(key(1).id().to_string()));
    put(&credentials, "later", bearer()).await;
    // Whichever key a start finds is enough, and another rotation waits for the end of this one.
    let again = desk.open_with(variable(Some(1))).await;
    assert_eq!(got(&again).await.as_deref(), Ok(CANARY));
    assert_eq!(again.rotate_root(Some(key(3)), 8).await.unwrap_err().error_type, ErrorType::Conflict);
    let finished = desk.open_with(variable(Some(2))).await;
    assert_eq!(got(&finished).await.as_deref(), Ok(CANARY));
    assert_eq!(desk.store.root_keys().await.unwrap().len(), 1);
    assert!(desk.open_with(variable(Some(1))).await.sealed().is_some());
}

#[tokio::test]
async fn k1_a_rotation_that_was_cut_off_is_finished_by_the_next_start() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    for index in 0..5 {
        put(&credentials, &format!("stripe-{index}"), bearer()).await;
    }
    // Killed after the keys were stored, with some secrets under each.
    let keys = open_keys(&credentials);
    let (during, wraps) = keys.rotating_to(key(9)).unwrap();
    desk.store.serve_root_key(&key(9).id().to_string(), &wraps, 8).await.unwrap();
    credentials.hold(during, 8);
    put(&credentials, "stripe-0", bearer()).await;
    let again = desk.open().await;
    assert_eq!(got(&again).await.as_deref(), Ok(CANARY));
    assert_eq!(desk.store.root_keys().await.unwrap().len(), 1);
    assert_eq!(std::fs::read(desk.path("root")).unwrap(), key(9).expose());
    let rows = desk.store.credentials().await.unwrap();
    assert!(rows.iter().all(|row| row.sealed.root_key == key(9).id().to_string()), "{rows:?}");
}

fn open_keys(credentials: &Credentials) -> Arc<super::super::keyring::Keyring> {
    super::super::change::open_keys(&credentials.0.shelf.load()).unwrap()
}

/// The key that serves, once more.
fn serving(credentials: &Credentials) -> RootKey {
    RootKey::from_bytes(open_keys(credentials).serving.expose()).unwrap()
}

#[tokio::test]
async fn k1_a_secret_that_does_not_open_keeps_both_keys() {
    let desk = Desk::new().await;
    put(&desk.open().await, "stripe", bearer()).await;
    desk.change("UPDATE credentials SET version = 9").await;
    let credentials = desk.open().await;
    let refused = credentials.rotate_root(None, 7).await.unwrap_err();
    assert!(refused.message.contains("`acme/stripe`"), "{}", refused.message);
    assert_eq!(desk.store.root_keys().await.unwrap().len(), 2);
    put(&credentials, "stripe", bearer()).await;
    assert_eq!(credentials.rotate_root(Some(serving(&credentials)), 8).await.unwrap().going, None);
    assert_eq!(got(&desk.open().await).await.as_deref(), Ok(CANARY));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k1_requests_have_their_secret_while_keys_are_rotated() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    let stop = CancellationToken::new();
    let asking = tokio::spawn({
        let (credentials, stop) = (credentials.clone(), stop.clone());
        async move {
            let mut asked = 0_u64;
            while !stop.is_cancelled() {
                assert_eq!(got(&credentials).await.as_deref(), Ok(CANARY));
                asked += 1;
                tokio::task::yield_now().await;
            }
            asked
        }
    });
    for round in 0..5 {
        let done = credentials.rotate_root(None, round).await.unwrap();
        assert_eq!((done.rewrapped, done.going), (1, None));
    }
    stop.cancel();
    assert!(asking.await.unwrap() > 5);
}

#[tokio::test]
async fn k1_of_two_rotations_at_once_one_is_made_and_nothing_is_lost() {
    let desk = Desk::new().await;
    let credentials = desk.open().await;
    put(&credentials, "stripe", bearer()).await;
    // Both stand in the same line, and each sees that nothing is rotated yet.
    let turn = credentials.0.changing.lock().await;
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
    assert_eq!(got(&desk.open().await).await.as_deref(), Ok(CANARY));
}

#[tokio::test]
async fn k1_a_key_is_kept_while_nobody_can_say_what_starts_would_find() {
    let desk = Desk::new().await;
    let place = desk.path("mine");
    let write = |seed| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(&place, BASE64_STANDARD.encode(key(seed).expose())).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(1);
    let credentials = desk.open_with(RootKeySource::File(place.clone())).await;
    put(&credentials, "stripe", bearer()).await;
    std::fs::remove_file(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    let done = credentials.rotate_root(Some(key(2)), 7).await.unwrap();
    assert_eq!(done.going, Some(key(1).id().to_string()));
    std::fs::remove_dir(&place).unwrap();
    write(2);
    let done = credentials.rotate_root(Some(key(2)), 8).await.unwrap();
    assert_eq!((done.going, done.serving), (None, key(2).id().to_string()));
}
