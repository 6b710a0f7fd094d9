//! Credentials are written: made, replaced, rotated, removed. Each change is stored and then put in force, one at a time.

use std::sync::Arc;

use toolgate_admission::{CallError, ErrorType, Name};
use toolgate_sandbox::Secret;

use super::document::{Authentication, CredentialDocument};
use super::envelope::EnvelopeError;
use super::fields::SecretFields;
use super::keyring::Keyring;
use super::shelf::{Credential, Keys, Shared, Shelf, State, as_text, place_of};
use super::{Credentials, not_found};
use crate::documents::Precondition;
use crate::identifier;
use crate::store::{CredentialRow, SealedText, WriteResult};

/// Credentials of one organization. They are held in memory.
const PER_ORGANIZATION: usize = 10_000;

/// A credential as a person writes it.
pub struct NewCredential {
    pub document: CredentialDocument,
    /// None for an OAuth2 client that has none, and where the document says which vault has it.
    pub secret: Option<Secret>,
}

/// What rows say. One that this version does not understand is left out, which is nothing to use.
pub(super) fn read_all(rows: Vec<CredentialRow>) -> Vec<Arc<Credential>> {
    let read = |row: CredentialRow| {
        let (organization, name) = (row.organization.clone(), row.name.clone());
        let credential = Credential::read(row, Arc::default()).map(Arc::new);
        if credential.is_none() {
            tracing::error!(%organization, credential = %name, "a stored credential is not sound; it is not used");
        }
        credential
    };
    rows.into_iter().filter_map(read).collect()
}

impl Credentials {
    /// Makes a credential, or puts it in the place of the one of its name.
    pub async fn put(
        &self,
        organization: &Name,
        name: &Name,
        new: NewCredential,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<(Arc<Credential>, WriteResult), CallError> {
        if let Some(reference) = &new.document.vault {
            self.referred_place(organization, reference)?;
        }
        let _turn = self.0.changing.lock().await;
        let shelf = self.0.shelf.load_full();
        let keys = open_keys(&shelf)?;
        let before = shelf.find(organization, name);
        if before.is_none() && shelf.of(organization).count() >= PER_ORGANIZATION {
            return Err(too_many());
        }
        let (document, fields) = (new.document, fields_of(new.secret));
        let state = match document.authentication {
            Authentication::AuthorizationCode { .. } => State::Pending,
            _ => State::Connected,
        };
        let row = CredentialRow {
            organization: organization.clone(),
            name: name.clone(),
            id: before.map_or_else(|| identifier::fresh("cr"), |before| before.row.id.clone()),
            revision: 0,
            version: before.map_or(1, |before| before.row.version + 1),
            document: text_of(&document)?,
            state: state.as_str().to_owned(),
            sealed: no_text(),
            expires_ms: first_token_ms(&document).or(document.expires_ms),
            refresh_ms: first_token_ms(&document),
            created_ms: before.map_or(now_ms, |before| before.row.created_ms),
            changed_ms: now_ms,
            last_used_ms: before.and_then(|before| before.last_used_ms()),
        };
        let row = sealed(&keys, row, &document, &fields)?;
        self.store(&shelf, row, before, precondition, now_ms).await
    }

    /// Puts another secret into a credential. What it is for and where it may go stays as it is.
    pub async fn rotate(
        &self,
        organization: &Name,
        name: &Name,
        secret: Secret,
        expires_ms: Option<u64>,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CallError> {
        // After a renewal that is under way: it may use up the refresh token, and what it brings belongs here.
        let renewing = Arc::clone(&self.find(organization, name)?.shared.renewing);
        let _renewed = renewing.lock().await;
        let _turn = self.0.changing.lock().await;
        let shelf = self.0.shelf.load_full();
        let keys = open_keys(&shelf)?;
        let before = shelf.find(organization, name).ok_or_else(|| not_found(organization, name))?;
        if before.document.vault.is_some() {
            return Err(kept_in_vault(name));
        }
        let of_client = before.document.authentication.client().is_some();
        let document =
            CredentialDocument { expires_ms: expires_ms.filter(|_| !of_client), ..before.document.clone() };
        let keeps_tokens = matches!(document.authentication, Authentication::AuthorizationCode { .. });
        let (fields, state) = match keeps_tokens {
            true => (before.open(&keys).map_err(unsealable)?, before.state),
            false => (SecretFields::default(), State::Connected),
        };
        // A provider that did not know the secret of before is asked again with this one.
        let healed = state == State::Revoked && fields.refresh_token.is_some();
        let state = if healed { State::Connected } else { state };
        let fields = SecretFields { given: Some(secret), ..fields };
        let row = CredentialRow {
            version: before.row.version + 1,
            document: text_of(&document)?,
            state: state.as_str().to_owned(),
            expires_ms: match keeps_tokens {
                true if healed => Some(0),
                true => before.row.expires_ms,
                false => first_token_ms(&document).or(expires_ms),
            },
            refresh_ms: match healed {
                true => Some(0),
                false => before.row.refresh_ms.filter(|_| keeps_tokens).or(first_token_ms(&document)),
            },
            changed_ms: now_ms,
            last_used_ms: before.last_used_ms(),
            ..before.row.clone()
        };
        let row = sealed(&keys, row, &document, &fields)?;
        self.store(&shelf, row, Some(before), precondition, now_ms).await.map(|(stored, _)| stored)
    }

    /// Removes a credential.
    pub async fn remove(
        &self,
        organization: &Name,
        name: &Name,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<(), CallError> {
        let _turn = self.0.changing.lock().await;
        self.0.store.delete_credential(organization, name, precondition).await?;
        let mut shelf = Shelf::clone(&self.0.shelf.load());
        shelf.remove(organization, name);
        self.swap(shelf, organization, now_ms);
        Ok(())
    }

    /// Forgets the credentials of an organization that is gone; the store forgot them with it.
    pub async fn forget_organization(&self, organization: &Name) {
        let _turn = self.0.changing.lock().await;
        let mut shelf = Shelf::clone(&self.0.shelf.load());
        shelf.remove_organization(organization);
        self.0.shelf.store(Arc::new(shelf));
    }

    async fn store(
        &self,
        shelf: &Shelf,
        row: CredentialRow,
        before: Option<&Arc<Credential>>,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<(Arc<Credential>, WriteResult), CallError> {
        let written = self.0.store.put_credential(&row, precondition).await?;
        let row = CredentialRow { revision: written.revision.0, ..row };
        let credential = self.put_on(shelf, row, before, now_ms)?;
        Ok((credential, written))
    }

    /// Puts what was stored in force.
    pub(super) fn put_on(
        &self,
        shelf: &Shelf,
        row: CredentialRow,
        before: Option<&Arc<Credential>>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CallError> {
        let shared: Arc<Shared> = before.map_or_else(Arc::default, |before| Arc::clone(&before.shared));
        if before
            .is_some_and(|before| before.row.document != row.document || before.row.version != row.version)
        {
            // Whoever did not answer may have been named wrongly.
            shared.paused_until_ms.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        let organization = row.organization.clone();
        let credential = Credential::read(row, shared).map(Arc::new).ok_or_else(|| {
            CallError::new(
                ErrorType::Internal,
                "the stored credential does not read back",
                "tell the operator",
            )
        })?;
        let mut shelf = shelf.clone();
        shelf.put(Arc::clone(&credential));
        self.swap(shelf, &organization, now_ms);
        Ok(credential)
    }
}

/// A client of its own right gets its first token when it is first used: the one that it has not got is long over.
fn first_token_ms(document: &CredentialDocument) -> Option<u64> {
    matches!(document.authentication, Authentication::ClientCredentials(_)).then_some(0)
}

/// The keys, or why there are none.
pub(super) fn open_keys(shelf: &Shelf) -> Result<Arc<Keyring>, CallError> {
    match &shelf.keys {
        Keys::Open(keys) => Ok(Arc::clone(keys)),
        Keys::Sealed(why) => Err(CallError::new(
            ErrorType::Unavailable,
            format!("the credential store is sealed: {why}"),
            "give the root key with `POST /v1/unseal`, or mend its source and start the daemon again",
        )),
    }
}

/// A row with these fields sealed in it.
pub(super) fn sealed(
    keys: &Keyring,
    row: CredentialRow,
    document: &CredentialDocument,
    fields: &SecretFields,
) -> Result<CredentialRow, CallError> {
    let sealed = keys.seal(&place_of(&row, document), &fields.encode()).map_err(unsealable)?;
    Ok(CredentialRow { sealed: as_text(&sealed), ..row })
}

pub(super) fn unsealable(error: EnvelopeError) -> CallError {
    CallError::new(ErrorType::Unavailable, error.to_string(), "see the daemon's log; store the secret anew")
}

fn fields_of(secret: Option<Secret>) -> SecretFields {
    secret.map(SecretFields::given).unwrap_or_default()
}

fn text_of(document: &CredentialDocument) -> Result<String, CallError> {
    serde_json::to_string(document)
        .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "tell the operator"))
}

fn no_text() -> SealedText {
    SealedText { root_key: String::new(), wrapped_key: String::new(), secret: String::new() }
}

fn kept_in_vault(name: &Name) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("the secret of the credential `{name}` is in a vault"),
        "put the new one there: it is read anew within moments; or replace the credential with `PUT`",
    )
}

fn too_many() -> CallError {
    CallError::new(
        ErrorType::QuotaExceeded,
        format!("the organization has {PER_ORGANIZATION} credentials, and no more can be stored"),
        "remove those that nobody uses",
    )
}
