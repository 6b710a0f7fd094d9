//! Trust in plugin files: the keys that prove a publisher, and who holds a namespace (O2, rule 9.16).
//!
//! A key of the platform counts for every load, a key of an organization for that organization's own loads. A revoked key
//! verifies nothing any more: versions that it signed go on serving, shown with the reason, until an operator replaces them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use toolgate_admission::{Descriptor, Digest};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::plugin::{PluginState, PluginView, SignerView};
use toolgate_api::publisher::PublisherKeyDocument;
use toolgate_api::read::ReadError;
use toolgate_state::config::Signatures;
use toolgate_state::store::SignerRow;

use super::LoadRequest;
use crate::signing::{Envelope, PublicKey, SignatureError, Statement};

/// A publisher's key with its document.
#[derive(Clone, Debug)]
pub struct PublisherKey {
    document: PublisherKeyDocument,
    key: PublicKey,
}

/// The key that signed a version, and its publisher at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signer {
    pub(super) publisher: String,
    pub(super) key: PublicKey,
}

/// The holder of a namespace: the publisher of the version that serves.
#[derive(Clone, Copy)]
pub(super) struct Holder<'a> {
    pub(super) publisher: Option<&'a str>,
    pub(super) is_signed: bool,
}

/// The keys in force, by owner (`None` for the platform) and name.
#[derive(Default)]
pub(super) struct PublisherKeys(Mutex<BTreeMap<(Option<Name>, Name), PublisherKey>>);

impl PublisherKey {
    /// Parses the document of a key.
    pub fn parse(json: &str) -> Result<Self, ReadError> {
        let document = PublisherKeyDocument::parse(json)?;
        let key = PublicKey::parse(&document.public_key)
            .map_err(|error| ReadError::new("/public_key", error.message, error.hint))?;
        Ok(Self { document, key })
    }

    /// Whether the key can never prove anything, since it has no namespaces.
    pub fn covers_nothing(&self) -> bool {
        self.document.namespaces.is_empty()
    }

    /// Checks that the key may prove now that a file of the namespace is by the publisher.
    fn check(&self, namespace: &Namespace, claimed: &str, now_ms: u64) -> Result<(), CallError> {
        let PublisherKeyDocument { publisher, namespaces, revoked, valid_from, valid_until, .. } =
            &self.document;
        let key = self.key.id();
        if *revoked {
            return Err(refusal(
                format!("the signature is by the key {key}, which is revoked"),
                "sign the file with another key of its publisher",
            ));
        }
        if valid_from.is_some_and(|from| now_ms < from) || valid_until.is_some_and(|until| now_ms >= until) {
            return Err(refusal(
                format!("the signature is by the key {key}, which is not valid at this time"),
                "sign the file with another key of its publisher, or correct `valid_from` and `valid_until` of the key",
            ));
        }
        if claimed != publisher {
            return Err(refusal(
                format!(
                    "the signature names the publisher `{claimed}`, and the key {key} is of `{publisher}`"
                ),
                "sign the file with `--publisher` as the document of the key names it",
            ));
        }
        if !namespaces.covers(namespace) {
            return Err(refusal(
                format!("the key {key} of `{publisher}` may not publish the namespace `{namespace}`"),
                "sign the file with a key that may, or add the namespace to `namespaces` of the key's document",
            ));
        }
        Ok(())
    }
}

impl PublisherKeys {
    pub(super) fn put(&self, owner: Option<Name>, name: Name, key: PublisherKey) {
        self.0.lock().insert((owner, name), key);
    }

    pub(super) fn remove(&self, owner: Option<Name>, name: Name) {
        self.0.lock().remove(&(owner, name));
    }

    pub(super) fn remove_organization(&self, organization: &Name) {
        self.0.lock().retain(|(owner, _), _| owner.as_ref() != Some(organization));
    }

    /// The keys that count for loads of an owner.
    fn of(&self, owner: Option<&Name>) -> Vec<PublisherKey> {
        let keys = self.0.lock();
        let counts = |of: &Option<Name>| of.is_none() || of.as_ref() == owner;
        keys.iter().filter(|((of, _), _)| counts(of)).map(|(_, key)| key.clone()).collect()
    }

    /// Verifies the signature of a load. Returns the signer, or `None` for a load without a signature where none is required.
    pub(super) fn verify(
        &self,
        request: &LoadRequest,
        descriptor: &Descriptor,
        digest: &Digest,
        now_ms: u64,
    ) -> Result<Option<Signer>, CallError> {
        let Some(signature) = &request.signature else { return Ok(None) };
        let envelope = Envelope::parse(signature).map_err(unusable)?;
        let keys = self.of(request.owner.as_ref());
        let signers: Vec<_> = keys.iter().filter(|key| envelope.is_signed_by(&key.key)).collect();
        if signers.is_empty() {
            return Err(no_signer(&envelope, &keys));
        }
        let statement = envelope.statement().map_err(unusable)?;
        check_statement(&statement, descriptor, digest)?;
        // A key that is revoked under one name is not saved by a second name.
        let is_revoked =
            |key: &PublisherKey| keys.iter().any(|other| other.key == key.key && other.document.revoked);
        let (revoked, sound): (Vec<_>, Vec<_>) = signers.into_iter().partition(|key| is_revoked(key));
        let revoked = revoked.into_iter().find(|key| key.document.revoked);
        let candidates = sound.into_iter().chain(revoked);
        let proof = check_any(candidates, &descriptor.namespace, &statement.publisher, now_ms);
        let key = proof.unwrap_or_else(|| Err(no_signer(&envelope, &keys)))?;
        Ok(Some(Signer { publisher: key.document.publisher.clone(), key: key.key }))
    }

    /// Why the key of a signer would verify nothing any more; `None` if it still stands.
    pub(super) fn objection(&self, owner: Option<&Name>, signer: &Signer) -> Option<&'static str> {
        let keys = self.of(owner);
        let mut same = keys.iter().filter(|key| key.key == signer.key).peekable();
        if same.peek().is_none() {
            return Some("it is signed by a key that was removed");
        }
        same.any(|key| key.document.revoked).then_some("it is signed by a key that was revoked")
    }

    /// Adds to the reasons of versions that serve or may serve why their signatures would not verify any more.
    pub(super) fn add_objections(&self, owner: Option<&Name>, view: &mut PluginView) {
        let of_plugin = (&view.signed_by, view.state, &mut view.reason);
        let versions = view.versions.iter_mut();
        let of_versions = versions.map(|version| (&version.signed_by, version.state, &mut version.reason));
        for (signed_by, state, reason) in of_versions.chain([of_plugin]) {
            let serves =
                matches!(state, PluginState::Active | PluginState::Canary | PluginState::Quarantined);
            let signer = signed_by.as_ref().filter(|_| serves).and_then(Signer::from_view);
            let Some(objection) = signer.and_then(|signer| self.objection(owner, &signer)) else { continue };
            let before = reason.take().map(|reason| format!("{reason}; ")).unwrap_or_default();
            *reason = Some(format!("{before}{objection}"));
        }
    }

    /// Checks that a version may begin to serve: it is signed by a key that would still verify it, or needs no signature.
    pub(super) fn check_signer(
        &self,
        owner: Option<&Name>,
        namespace: &Namespace,
        signer: Option<&Signer>,
        signatures: Signatures,
        now_ms: u64,
    ) -> Result<(), CallError> {
        match (signer, signatures) {
            (None, Signatures::Optional) => Ok(()),
            (None, Signatures::Required) => Err(refusal(
                "the file has no signature, and this daemon requires one (`plugins.signatures`)".to_owned(),
                "sign it with `toolgate plugin sign FILE.wasm --key FILE`; an operator stores the public key of its publisher \
                 with `toolgate plugin key put NAME`",
            )),
            (Some(signer), _) => match self.objection(owner, signer) {
                None => {
                    let keys = self.of(owner);
                    let same = keys.iter().filter(|key| key.key == signer.key);
                    check_any(same, namespace, &signer.publisher, now_ms)
                        .map_or(Ok(()), |proof| proof.map(drop))
                }
                Some(objection) => Err(refusal(
                    format!("the file cannot begin to serve: {objection}"),
                    "load it again, signed with another key of its publisher",
                )),
            },
        }
    }
}

/// The first key that proves now that a file of the namespace is by the publisher, or the objection to the first key. `None`
/// without keys.
fn check_any<'a>(
    keys: impl Iterator<Item = &'a PublisherKey>,
    namespace: &Namespace,
    publisher: &str,
    now_ms: u64,
) -> Option<Result<&'a PublisherKey, CallError>> {
    let proofs = keys.map(|key| key.check(namespace, publisher, now_ms).map(|()| key));
    proofs.reduce(|first, next| if first.is_err() && next.is_ok() { next } else { first })
}

impl Signer {
    pub(super) fn view(&self) -> SignerView {
        let (key, public_key) = (self.key.id(), self.key.to_string());
        SignerView { publisher: self.publisher.clone(), key, public_key }
    }

    fn from_view(view: &SignerView) -> Option<Self> {
        Some(Self { publisher: view.publisher.clone(), key: PublicKey::parse(&view.public_key).ok()? })
    }

    pub(super) fn row(&self) -> SignerRow {
        SignerRow { publisher: self.publisher.clone(), key: self.key.to_string() }
    }

    /// Reads a stored signer; `None` if this version cannot parse its key.
    pub(super) fn from_row(row: &SignerRow) -> Option<Self> {
        Some(Self { publisher: row.publisher.clone(), key: PublicKey::parse(&row.key).ok()? })
    }
}

/// Checks that a signed statement is about this file under this namespace.
fn check_statement(statement: &Statement, descriptor: &Descriptor, digest: &Digest) -> Result<(), CallError> {
    let declared = descriptor.publisher.as_deref().unwrap_or(&statement.publisher);
    let pairs = [
        ("digest", statement.digest.as_str(), digest.as_str()),
        ("namespace", &statement.namespace, descriptor.namespace.as_str()),
        ("version", &statement.version, &descriptor.version),
        ("publisher", &statement.publisher, declared),
    ];
    match pairs.iter().find(|(_, signed, actual)| signed != actual) {
        None => Ok(()),
        Some((what, signed, actual)) => Err(refusal(
            format!("the signature is for the {what} `{signed}`, the file has `{actual}`"),
            "sign this file with `toolgate plugin sign`; a signature holds for one file under one namespace",
        )),
    }
}

/// A namespace belongs to its first publisher. A plugin may name any publisher, so where the serving version is signed, only
/// a signature of that publisher proves it.
pub(super) fn check_holder(
    namespace: &Namespace,
    holder: Holder<'_>,
    newcomer: Holder<'_>,
) -> Result<(), CallError> {
    let text = |one: Holder<'_>| match (one.publisher, one.is_signed) {
        (None, _) => "a plugin without a publisher".to_owned(),
        (Some(name), true) => format!("publisher `{name}`, as its signature proves"),
        (Some(name), false) => format!("publisher `{name}`"),
    };
    let is_same = holder.publisher == newcomer.publisher;
    if is_same && (newcomer.is_signed || !holder.is_signed) {
        return Ok(());
    }
    let hint = match is_same {
        true => "sign the file with a key of this publisher",
        false => "give the plugin another name, or remove the plugin that has this one",
    };
    Err(CallError::new(
        ErrorType::Conflict,
        format!("the namespace `{namespace}` is held by {}, the file is by {}", text(holder), text(newcomer)),
        hint,
    ))
}

fn no_signer(envelope: &Envelope, keys: &[PublisherKey]) -> CallError {
    match keys.iter().find(|key| envelope.claims(&key.key)) {
        Some(key) => refusal(
            format!("the signature does not verify under the key {} that it names", key.key.id()),
            "sign the file again: the envelope was changed, or was made with another key",
        ),
        None => refusal(
            "the signature is by no key that this daemon knows".to_owned(),
            "store the public key of the publisher with `toolgate plugin key put NAME` if you trust it",
        ),
    }
}

fn unusable(error: SignatureError) -> CallError {
    refusal(error.message, error.hint)
}

fn refusal(message: String, hint: &str) -> CallError {
    CallError::new(ErrorType::InvalidPlugin, message, hint)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_api::error::ErrorType;

    use super::super::LoadSource;
    use super::*;
    use crate::digest::digest_of;
    use crate::signing::SigningKey;

    const FILE: &[u8] = b"a file";

    struct World {
        keys: PublisherKeys,
        private: SigningKey,
        _folder: tempfile::TempDir,
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn descriptor(namespace: &str) -> Descriptor {
        let tool =
            json!({"name": "find", "description": "D.", "usage": "U.", "input_schema": {"type": "object"}});
        let text = json!({"name": namespace, "version": "1.0.0", "publisher": "acme", "tools": [tool]});
        Descriptor::parse(&text.to_string()).unwrap()
    }

    fn statement() -> Statement {
        Statement {
            namespace: "crm".into(),
            version: "1.0.0".into(),
            publisher: "acme".into(),
            digest: digest_of(FILE).to_string(),
        }
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let private = SigningKey::generate(&folder.path().join("key")).unwrap();
            let world = Self { keys: PublisherKeys::default(), private, _folder: folder };
            world.put(None, "first", &json!({}));
            world
        }

        fn put(&self, owner: Option<&str>, key_name: &str, changes: &Value) {
            let public_key = self.private.public().to_string();
            let mut document = json!({"publisher": "acme", "public_key": public_key, "namespaces": ["crm"]});
            for (member, value) in changes.as_object().unwrap() {
                document[member] = value.clone();
            }
            let key = PublisherKey::parse(&document.to_string()).unwrap();
            self.keys.put(owner.map(name), name(key_name), key);
        }

        fn verify(&self, statement: &Statement, owner: Option<&str>) -> Result<Option<Signer>, CallError> {
            let descriptor = descriptor("crm");
            let request = LoadRequest {
                owner: owner.map(name),
                signature: Some(statement.sign(&self.private).into()),
                ..LoadRequest::new(descriptor.namespace.clone(), LoadSource::Upload)
            };
            self.keys.verify(&request, &descriptor, &digest_of(FILE), 1_000)
        }

        fn check_signer(&self, signer: Option<&Signer>, signatures: Signatures) -> Result<(), CallError> {
            let namespace = Namespace::parse("crm").unwrap();
            self.keys.check_signer(None, &namespace, signer, signatures, 1_000)
        }

        #[track_caller]
        fn assert_refused(&self, statement: &Statement, words: &str) {
            let error = self.verify(statement, None).expect_err(words);
            assert_eq!(error.error_type, ErrorType::InvalidPlugin);
            assert!(error.message.contains(words), "{}", error.message);
        }
    }

    #[test]
    fn a_signature_by_a_known_key_proves_the_publisher() {
        let world = World::new();
        let signer = world.verify(&statement(), None).unwrap().unwrap();
        assert_eq!(signer, Signer { publisher: "acme".into(), key: world.private.public() });
        assert_eq!(Signer::from_row(&signer.row()), Some(signer.clone()));
        assert_eq!(world.keys.objection(None, &signer), None);
    }

    #[test]
    fn a_statement_about_something_else_is_refused() {
        let world = World::new();
        let digest = digest_of(b"another").to_string();
        world.assert_refused(&Statement { digest, ..statement() }, "is for the digest");
        world.assert_refused(&Statement { namespace: "erp".into(), ..statement() }, "is for the namespace");
        world.assert_refused(&Statement { version: "2".into(), ..statement() }, "is for the version");
        world.assert_refused(&Statement { publisher: "evil".into(), ..statement() }, "is for the publisher");
    }

    #[test]
    fn a_key_proves_only_what_its_document_says() {
        let world = World::new();
        let cases = [
            (json!({"namespaces": ["erp", "crm-*"]}), "may not publish"),
            (json!({"namespaces": []}), "may not publish"),
            (json!({"publisher": "other"}), "is of `other`"),
            (json!({"revoked": true}), "is revoked"),
            (json!({"valid_from": 1_001}), "not valid at this time"),
            (json!({"valid_until": 1_000}), "not valid at this time"),
        ];
        for (changes, words) in cases {
            world.put(None, "first", &changes);
            world.assert_refused(&statement(), words);
        }
        world.put(None, "first", &json!({"valid_from": 1_000, "valid_until": 1_001}));
        world.verify(&statement(), None).unwrap();
    }

    #[test]
    fn a_revoked_key_is_not_saved_by_a_second_name() {
        let world = World::new();
        let signer = world.verify(&statement(), None).unwrap().unwrap();
        world.put(None, "second", &json!({"revoked": true}));
        world.assert_refused(&statement(), "is revoked");
        assert!(world.keys.objection(None, &signer).unwrap().contains("revoked"));
        world.keys.remove(None, name("second"));
        world.verify(&statement(), None).unwrap();
        world.keys.remove(None, name("first"));
        world.assert_refused(&statement(), "no key that this daemon knows");
        assert!(world.keys.objection(None, &signer).unwrap().contains("removed"));
    }

    #[test]
    fn a_key_of_an_organization_counts_for_its_own_loads_alone() {
        let world = World::new();
        world.keys.remove(None, name("first"));
        world.put(Some("blue"), "first", &json!({}));
        world.verify(&statement(), Some("blue")).unwrap();
        world.verify(&statement(), Some("red")).unwrap_err();
        world.assert_refused(&statement(), "no key that this daemon knows");
        world.keys.remove_organization(&name("blue"));
        world.verify(&statement(), Some("blue")).unwrap_err();
    }

    #[test]
    fn a_file_without_a_signature_serves_where_none_is_required() {
        let world = World::new();
        world.check_signer(None, Signatures::Optional).unwrap();
        let error = world.check_signer(None, Signatures::Required).unwrap_err();
        assert!(error.message.contains("requires one") && error.hint.contains("plugin sign"));
        let signer = world.verify(&statement(), None).unwrap();
        world.check_signer(signer.as_ref(), Signatures::Required).unwrap();
    }

    #[test]
    fn o2_a_version_begins_to_serve_only_if_its_key_would_still_verify_it() {
        let world = World::new();
        let signer = world.verify(&statement(), None).unwrap();
        for (changes, words) in [
            (json!({"revoked": true}), "revoked"),
            (json!({"namespaces": ["erp"]}), "may not publish"),
            (json!({"publisher": "other"}), "is of `other`"),
            (json!({"valid_until": 1_000}), "not valid at this time"),
        ] {
            world.put(None, "first", &changes);
            let error = world.check_signer(signer.as_ref(), Signatures::Optional).expect_err(words);
            assert!(error.message.contains(words), "{}", error.message);
        }
        // One of the names of a key is enough.
        world.put(None, "second", &json!({}));
        world.check_signer(signer.as_ref(), Signatures::Optional).unwrap();
        world.keys.remove(None, name("second"));
        world.keys.remove(None, name("first"));
        let error = world.check_signer(signer.as_ref(), Signatures::Optional).unwrap_err();
        assert!(error.message.contains("removed"), "{}", error.message);
    }

    #[test]
    fn a_signed_namespace_is_taken_over_by_no_mere_word() {
        let namespace = Namespace::parse("crm").unwrap();
        let by = |publisher, is_signed| Holder { publisher, is_signed };
        let check = |holder, newcomer| check_holder(&namespace, holder, newcomer);
        let (acme, other) = (Some("acme"), Some("other"));
        check(by(acme, false), by(acme, false)).unwrap();
        check(by(acme, false), by(acme, true)).unwrap();
        check(by(acme, true), by(acme, true)).unwrap();
        check(by(None, false), by(None, false)).unwrap();
        for (holder, newcomer) in [
            (by(acme, true), by(acme, false)),
            (by(acme, true), by(other, true)),
            (by(acme, false), by(other, true)),
            (by(acme, false), by(None, false)),
            (by(None, false), by(acme, true)),
        ] {
            assert_eq!(check(holder, newcomer).unwrap_err().error_type, ErrorType::Conflict);
        }
    }
}
