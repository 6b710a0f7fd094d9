use proptest::prelude::*;

use super::*;

const SECRET: &[u8] = b"sk_live_canary";

fn root(seed: u8) -> RootKey {
    let bytes: Vec<u8> = (0..32).map(|index| index * 7 + seed).collect();
    RootKey::from_bytes(&bytes).unwrap()
}

fn context() -> SealContext<'static> {
    SealContext {
        organization: "acme",
        id: "c_1",
        name: "stripe",
        version: 3,
        user: None,
        kind: "bearer",
        document: r#"{"provider":"stripe"}"#,
    }
}

fn open(root: &RootKey, context: &SealContext<'_>, sealed: &SealedSecret) -> Result<Secret, EnvelopeError> {
    super::open(root, &context.associated_data(sealed.root_key), sealed)
}

fn opens(context: &SealContext<'_>, sealed: &SealedSecret) -> bool {
    open(&root(1), context, sealed).is_ok_and(|secret| secret.expose() == SECRET)
}

#[test]
fn k1_a_sealed_secret_opens_in_its_context() {
    let sealed = seal(&root(1), &context(), SECRET).unwrap();
    assert!(opens(&context(), &sealed));
}

#[test]
fn k1_the_ciphertext_does_not_contain_the_secret() {
    let sealed = seal(&root(1), &context(), SECRET).unwrap();
    let stored = [sealed.wrapped_key, sealed.secret].concat();
    assert!(!stored.windows(SECRET.len()).any(|window| window == SECRET));
}

#[test]
fn k1_a_ciphertext_opens_in_no_other_context() {
    let sealed = seal(&root(1), &context(), SECRET).unwrap();
    let elsewhere = [
        SealContext { organization: "rival", ..context() },
        SealContext { id: "c_2", ..context() },
        SealContext { name: "stripe-eu", ..context() },
        SealContext { version: 4, ..context() },
        SealContext { user: Some("ann"), ..context() },
        SealContext { user: Some(""), ..context() },
        SealContext { kind: "basic", ..context() },
        SealContext { document: r#"{"provider":"evil"}"#, ..context() },
        // The same letters, split differently.
        SealContext { organization: "acmec", id: "_1", ..context() },
    ];
    for other in elsewhere {
        assert_eq!(open(&root(1), &other, &sealed).err(), Some(EnvelopeError::Tampered), "{other:?}");
    }
    assert!(opens(&context(), &sealed));
}

#[test]
fn k1_a_replayed_earlier_version_is_refused() {
    let before = seal(&root(1), &SealContext { version: 2, ..context() }, b"old").unwrap();
    let now = seal(&root(1), &context(), SECRET).unwrap();
    for replayed in [
        before.clone(),
        SealedSecret { secret: before.secret.clone(), ..now.clone() },
        SealedSecret { wrapped_key: before.wrapped_key.clone(), ..now.clone() },
    ] {
        assert_eq!(open(&root(1), &context(), &replayed).err(), Some(EnvelopeError::Tampered));
    }
    assert!(opens(&context(), &now));
}

#[test]
fn two_seals_of_one_secret_differ_and_cannot_be_mixed() {
    let (one, other) =
        (seal(&root(1), &context(), SECRET).unwrap(), seal(&root(1), &context(), SECRET).unwrap());
    assert_ne!(one.secret[1..], other.secret[1..]);
    assert_ne!(one.wrapped_key[1..], other.wrapped_key[1..]);
    // Parts of two seals do not combine, even in the same context.
    let mixed = SealedSecret { wrapped_key: other.wrapped_key, ..one };
    assert_eq!(open(&root(1), &context(), &mixed).err(), Some(EnvelopeError::Tampered));
}

#[test]
fn a_wrong_root_key_is_distinguished_from_a_changed_ciphertext() {
    let sealed = seal(&root(1), &context(), SECRET).unwrap();
    let id = root(1).id();
    assert_eq!(open(&root(2), &context(), &sealed).err(), Some(EnvelopeError::OtherRootKey(id)));
    let renamed = SealedSecret { root_key: root(2).id(), ..sealed };
    assert_eq!(open(&root(2), &context(), &renamed).err(), Some(EnvelopeError::Tampered));
}

#[test]
fn a_later_format_is_distinguished_from_a_changed_ciphertext() {
    let mut sealed = seal(&root(1), &context(), SECRET).unwrap();
    sealed.secret[0] = 2;
    assert_eq!(open(&root(1), &context(), &sealed).err(), Some(EnvelopeError::UnknownFormat));
}

#[test]
fn k1_a_rewrapped_secret_opens_only_under_the_new_root_key() {
    let (old, new) = (root(1), root(2));
    let sealed = seal(&old, &context(), SECRET).unwrap();
    let rewrapped = rewrap(&old, &new, &context(), &sealed).unwrap();
    assert_eq!(rewrapped.secret, sealed.secret);
    assert_eq!(open(&new, &context(), &rewrapped).unwrap().expose(), SECRET);
    assert_eq!(open(&old, &context(), &rewrapped).err(), Some(EnvelopeError::OtherRootKey(new.id())));
    let elsewhere = SealContext { organization: "rival", ..context() };
    assert!(rewrap(&old, &new, &elsewhere, &sealed).is_err());
}

#[test]
fn a_wrapped_root_key_unwraps_to_itself() {
    let (old, new) = (root(1), root(2));
    let wrapped = wrap_root(&old, &new).unwrap();
    assert_eq!(unwrap_root(&old, new.id(), &wrapped).unwrap().expose(), new.expose());
    assert!(unwrap_root(&old, root(3).id(), &wrapped).is_err());
    assert!(unwrap_root(&root(3), new.id(), &wrapped).is_err());
}

fn some_secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text.as_bytes().to_vec()))
}

fn texts(fields: &SecretFields) -> [Option<&[u8]>; 3] {
    [&fields.given, &fields.access_token, &fields.refresh_token]
        .map(|field| field.as_ref().map(Secret::expose))
}

#[test]
fn fields_decode_as_encoded() {
    let all = SecretFields {
        given: some_secret("given"),
        access_token: some_secret(""),
        refresh_token: some_secret("r"),
    };
    let some = SecretFields { refresh_token: some_secret("r"), ..SecretFields::default() };
    for fields in [all, some, SecretFields::default()] {
        let read = SecretFields::decode(&fields.encode()).unwrap();
        assert_eq!(texts(&read), texts(&fields));
    }
}

#[test]
fn malformed_fields_are_rejected() {
    for bytes in [&[1, 0, 0, 0][..], &[1, 0, 0, 0, 9, 1], &[9, 0, 0, 0, 0], &[1, 255, 255, 255, 255]] {
        assert!(SecretFields::decode(bytes).is_none(), "{bytes:?}");
    }
}

proptest! {
    /// Covers flipped, removed and added bytes at any position.
    #[test]
    fn k1_every_change_of_a_ciphertext_is_detected(
        secret in prop::collection::vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        in_key: bool,
        cut in any::<prop::sample::Index>(),
    ) {
        let sealed = seal(&root(1), &context(), &secret).unwrap();
        let opened = open(&root(1), &context(), &sealed).unwrap();
        prop_assert_eq!(opened.expose(), &secret[..]);
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut sealed = sealed.clone();
            change(if in_key { &mut sealed.wrapped_key } else { &mut sealed.secret });
            open(&root(1), &context(), &sealed).is_err()
        };
        let flipped = changed(&|bytes| {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        });
        prop_assert!(flipped);
        prop_assert!(changed(&|bytes| bytes.truncate(cut.index(bytes.len()))));
        prop_assert!(changed(&|bytes| bytes.push(0)));
    }
}
