use proptest::prelude::*;

use super::*;

const SECRET: &[u8] = b"sk_live_canary";

fn root(seed: u8) -> RootKey {
    let bytes: Vec<u8> = (0..32).map(|index| index * 7 + seed).collect();
    RootKey::from_bytes(&bytes).unwrap()
}

fn place() -> Place<'static> {
    Place {
        organization: "acme",
        id: "c_1",
        name: "stripe",
        version: 3,
        user: None,
        kind: "bearer",
        document: r#"{"provider":"stripe"}"#,
    }
}

fn open(root: &RootKey, place: &Place<'_>, sealed: &Sealed) -> Result<Secret, EnvelopeError> {
    super::open(root, &place.bind(sealed.root_key), sealed)
}

/// The property and its twin in one: it opens where it belongs.
fn opens(place: &Place<'_>, sealed: &Sealed) -> bool {
    open(&root(1), place, sealed).is_ok_and(|secret| secret.expose() == SECRET)
}

#[test]
fn k1_what_was_sealed_opens_in_its_place() {
    let sealed = seal(&root(1), &place(), SECRET).unwrap();
    assert!(opens(&place(), &sealed));
}

#[test]
fn k1_the_secret_is_nowhere_in_what_is_stored() {
    let sealed = seal(&root(1), &place(), SECRET).unwrap();
    let stored = [sealed.wrapped_key, sealed.secret].concat();
    assert!(!stored.windows(SECRET.len()).any(|window| window == SECRET));
}

#[test]
fn k1_a_ciphertext_opens_nowhere_else() {
    let sealed = seal(&root(1), &place(), SECRET).unwrap();
    let elsewhere = [
        Place { organization: "rival", ..place() },
        Place { id: "c_2", ..place() },
        Place { name: "stripe-eu", ..place() },
        Place { version: 4, ..place() },
        Place { user: Some("ann"), ..place() },
        Place { user: Some(""), ..place() },
        Place { kind: "basic", ..place() },
        Place { document: r#"{"provider":"evil"}"#, ..place() },
        // The same letters, cut elsewhere.
        Place { organization: "acmec", id: "_1", ..place() },
    ];
    for other in elsewhere {
        assert_eq!(open(&root(1), &other, &sealed).err(), Some(EnvelopeError::Tampered), "{other:?}");
    }
    assert!(opens(&place(), &sealed));
}

#[test]
fn k1_a_ciphertext_of_an_earlier_version_is_not_taken_for_the_present_one() {
    let before = seal(&root(1), &Place { version: 2, ..place() }, b"old").unwrap();
    let now = seal(&root(1), &place(), SECRET).unwrap();
    for replayed in [
        before.clone(),
        Sealed { secret: before.secret.clone(), ..now.clone() },
        Sealed { wrapped_key: before.wrapped_key.clone(), ..now.clone() },
    ] {
        assert_eq!(open(&root(1), &place(), &replayed).err(), Some(EnvelopeError::Tampered));
    }
    assert!(opens(&place(), &now));
}

#[test]
fn two_seals_of_one_secret_have_nothing_in_common() {
    let (one, other) = (seal(&root(1), &place(), SECRET).unwrap(), seal(&root(1), &place(), SECRET).unwrap());
    assert_ne!(one.secret[1..], other.secret[1..]);
    assert_ne!(one.wrapped_key[1..], other.wrapped_key[1..]);
    // The parts of two seals do not go together, though both are for this place.
    let mixed = Sealed { wrapped_key: other.wrapped_key, ..one };
    assert_eq!(open(&root(1), &place(), &mixed).err(), Some(EnvelopeError::Tampered));
}

#[test]
fn a_wrong_root_key_is_told_from_a_changed_ciphertext() {
    let sealed = seal(&root(1), &place(), SECRET).unwrap();
    let id = root(1).id();
    assert_eq!(open(&root(2), &place(), &sealed).err(), Some(EnvelopeError::OtherRootKey(id)));
    let renamed = Sealed { root_key: root(2).id(), ..sealed };
    assert_eq!(open(&root(2), &place(), &renamed).err(), Some(EnvelopeError::Tampered));
}

#[test]
fn a_later_format_is_told_from_a_changed_ciphertext() {
    let mut sealed = seal(&root(1), &place(), SECRET).unwrap();
    sealed.secret[0] = 2;
    assert_eq!(open(&root(1), &place(), &sealed).err(), Some(EnvelopeError::UnknownFormat));
}

#[test]
fn k1_a_rewrapped_secret_opens_under_the_new_root_key_alone() {
    let (old, new) = (root(1), root(2));
    let sealed = seal(&old, &place(), SECRET).unwrap();
    let rewrapped = rewrap(&old, &new, &place(), &sealed).unwrap();
    assert_eq!(rewrapped.secret, sealed.secret);
    assert_eq!(open(&new, &place(), &rewrapped).unwrap().expose(), SECRET);
    assert_eq!(open(&old, &place(), &rewrapped).err(), Some(EnvelopeError::OtherRootKey(new.id())));
    let elsewhere = Place { organization: "rival", ..place() };
    assert!(rewrap(&old, &new, &elsewhere, &sealed).is_err());
}

#[test]
fn a_root_key_wrapped_under_another_comes_back_as_itself() {
    let (old, new) = (root(1), root(2));
    let wrapped = wrap_root(&old, &new).unwrap();
    assert_eq!(unwrap_root(&old, new.id(), &wrapped).unwrap().expose(), new.expose());
    assert!(unwrap_root(&old, root(3).id(), &wrapped).is_err());
    assert!(unwrap_root(&root(3), new.id(), &wrapped).is_err());
}

proptest! {
    /// Any bit changed, cut or added anywhere, and nothing opens.
    #[test]
    fn k1_every_change_of_a_ciphertext_shows(
        secret in prop::collection::vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        in_key: bool,
        cut in any::<prop::sample::Index>(),
    ) {
        let sealed = seal(&root(1), &place(), &secret).unwrap();
        let opened = open(&root(1), &place(), &sealed).unwrap();
        prop_assert_eq!(opened.expose(), &secret[..]);
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut sealed = sealed.clone();
            change(if in_key { &mut sealed.wrapped_key } else { &mut sealed.secret });
            open(&root(1), &place(), &sealed).is_err()
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
