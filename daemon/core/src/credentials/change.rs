//! Writes of credentials: each change is stored and then published in a new snapshot, one at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use toolgate_state::documents::Precondition;
use toolgate_state::identifier;
use toolgate_state::keys::envelope::EnvelopeError;
use toolgate_state::store::{CredentialRow, SealedText, WriteResult};

use super::document::{Authentication, CredentialDocument};
use super::envelope::SecretFields;
use super::keyring::Keyring;
use super::snapshot::{Credential, CredentialSnapshot, Keys, State, seal_context, to_stored};
use super::{Credentials, not_found};

/// Most credentials of one organization, since they are held in memory.
const PER_ORGANIZATION: usize = 10_000;

/// A credential as written by a person.
pub struct NewCredential {
    pub document: CredentialDocument,
    /// `None` for an OAuth2 client without a secret, and for a secret in a vault.
    pub secret: Option<Secret>,
}

/// Parses the rows of the store, without those of a later version of the daemon.
pub(super) fn parse_rows(rows: Vec<CredentialRow>) -> impl Iterator<Item = Arc<Credential>> {
    rows.into_iter().filter_map(|row| {
        let (organization, name) = (row.organization.clone(), row.name.clone());
        let credential = Credential::parse(row, Arc::default()).map(Arc::new);
        if credential.is_none() {
            tracing::error!(%organization, credential = %name, "a stored credential is not valid; it is not used");
        }
        credential
    })
}

#[boxed]
impl Credentials {
    /// Creates or replaces a credential.
    pub async fn put(
        &self,
        organization: &Name,
        name: &Name,
        new: NewCredential,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<(Arc<Credential>, WriteResult), CallError> {
        if let Some(reference) = &new.document.vault {
            self.parse_reference(organization, reference)?;
        }
        if let Some(name) = &new.document.file {
            self.secret_file(organization, name)?;
        }
        let _writing = self.0.writes.lock().await;
        let snapshot = self.0.snapshot.load_full();
        let keys = open_keys(&snapshot)?;
        let before = snapshot.find(organization, name);
        if before.is_none() && snapshot.of(organization).count() >= PER_ORGANIZATION {
            return Err(CallError::new(
                ErrorType::QuotaExceeded,
                format!("the organization has {PER_ORGANIZATION} credentials, and no more can be stored"),
                "delete credentials that are not used",
            )
            .retryable(false));
        }
        let (document, fields) = (new.document, new.secret.map(SecretFields::from_given).unwrap_or_default());
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
            document: to_json(&document)?,
            state: state.as_str().to_owned(),
            sealed: SealedText { root_key: String::new(), wrapped_key: String::new(), secret: String::new() },
            expires_ms: first_refresh_ms(&document).or(document.expires_ms),
            refresh_ms: first_refresh_ms(&document),
            created_ms: before.map_or(now_ms, |before| before.row.created_ms),
            changed_ms: now_ms,
            last_used_ms: before.and_then(|before| before.last_used_ms()),
        };
        let row = seal_row(&keys, row, &document, &fields)?;
        self.store(&snapshot, row, before, precondition, now_ms).await
    }

    /// Replaces the secret of a credential. Its document stays, except for the expiry.
    pub async fn rotate(
        &self,
        organization: &Name,
        name: &Name,
        secret: Secret,
        expires_ms: Option<u64>,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CallError> {
        // After a refresh in progress, which may use up the refresh token: its tokens belong to this credential.
        let refresh_lock = Arc::clone(&self.find(organization, name)?.shared.refresh_lock);
        let _refreshing = refresh_lock.lock().await;
        let _writing = self.0.writes.lock().await;
        let snapshot = self.0.snapshot.load_full();
        let keys = open_keys(&snapshot)?;
        let before = snapshot.find(organization, name).ok_or_else(|| not_found(organization, name))?;
        if before.document.is_kept_elsewhere() {
            return Err(kept_elsewhere(name));
        }
        let is_client = before.document.authentication.client().is_some();
        let document =
            CredentialDocument { expires_ms: expires_ms.filter(|_| !is_client), ..before.document.clone() };
        let row = CredentialRow {
            version: before.row.version + 1,
            document: to_json(&document)?,
            changed_ms: now_ms,
            last_used_ms: before.last_used_ms(),
            ..before.row.clone()
        };
        let (row, fields) = match document.authentication {
            Authentication::AuthorizationCode { .. } => {
                let fields = before.open(&keys).map_err(cannot_open)?;
                // The provider rejected the client with its old secret: refresh now with the new one.
                let is_recovered = before.state == State::Revoked && fields.refresh_token.is_some();
                let row = match is_recovered {
                    true => CredentialRow { expires_ms: Some(0), refresh_ms: Some(0), ..as_connected(row) },
                    false => row,
                };
                (row, fields)
            }
            _ => {
                let refresh_ms = first_refresh_ms(&document);
                let row =
                    CredentialRow { expires_ms: refresh_ms.or(expires_ms), refresh_ms, ..as_connected(row) };
                (row, SecretFields::default())
            }
        };
        let fields = SecretFields { given: Some(secret), ..fields };
        let row = seal_row(&keys, row, &document, &fields)?;
        self.store(&snapshot, row, Some(before), precondition, now_ms).await.map(|(stored, _)| stored)
    }

    /// Deletes a credential.
    pub async fn remove(
        &self,
        organization: &Name,
        name: &Name,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<(), CallError> {
        let _writing = self.0.writes.lock().await;
        self.0.store.delete_credential(organization, name, precondition).await?;
        let mut snapshot = CredentialSnapshot::clone(&self.0.snapshot.load());
        snapshot.remove(organization, name);
        self.publish(snapshot, organization, now_ms);
        Ok(())
    }

    /// Removes the credentials of a deleted organization from memory. The store deleted them with the organization.
    pub async fn forget_organization(&self, organization: &Name) {
        let _writing = self.0.writes.lock().await;
        let mut snapshot = CredentialSnapshot::clone(&self.0.snapshot.load());
        snapshot.remove_organization(organization);
        self.0.snapshot.store(Arc::new(snapshot));
    }

    async fn store(
        &self,
        snapshot: &CredentialSnapshot,
        row: CredentialRow,
        before: Option<&Arc<Credential>>,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<(Arc<Credential>, WriteResult), CallError> {
        let written = self.0.store.put_credential(&row, precondition).await?;
        let row = CredentialRow { revision: written.revision.0, ..row };
        Ok((self.publish_row(snapshot, row, before, now_ms)?, written))
    }

    /// Publishes a stored row in a new snapshot.
    pub(super) fn publish_row(
        &self,
        snapshot: &CredentialSnapshot,
        row: CredentialRow,
        before: Option<&Arc<Credential>>,
        now_ms: u64,
    ) -> Result<Arc<Credential>, CallError> {
        let shared = before.map(|before| Arc::clone(&before.shared)).unwrap_or_default();
        let is_changed = |before: &Arc<Credential>| {
            before.row.document != row.document || before.row.version != row.version
        };
        if before.is_some_and(is_changed) {
            // The change may have fixed the provider's URL.
            shared.paused_until_ms.store(0, Ordering::Relaxed);
        }
        let organization = row.organization.clone();
        let credential = Credential::parse(row, shared).map(Arc::new);
        let credential = credential.ok_or_else(|| internal("the stored credential cannot be parsed"))?;
        let mut snapshot = snapshot.clone();
        snapshot.insert_all([Arc::clone(&credential)]);
        self.publish(snapshot, &organization, now_ms);
        Ok(credential)
    }
}

/// A client-credentials grant gets its first token on first use: its expiry is in the past until then.
fn first_refresh_ms(document: &CredentialDocument) -> Option<u64> {
    matches!(document.authentication, Authentication::ClientCredentials(_)).then_some(0)
}

fn as_connected(row: CredentialRow) -> CredentialRow {
    CredentialRow { state: State::Connected.as_str().to_owned(), ..row }
}

/// Returns the root keys, or an error with the reason why the store is sealed.
pub(super) fn open_keys(snapshot: &CredentialSnapshot) -> Result<Arc<Keyring>, CallError> {
    match &snapshot.keys {
        Keys::Open(keys) => Ok(Arc::clone(keys)),
        Keys::Sealed(reason) => Err(CallError::new(
            ErrorType::Unavailable,
            format!("the credential store is sealed: {reason}"),
            "give the root key with `toolgate credential unseal`, or fix its source and restart the daemon",
        )),
    }
}

/// Encrypts the fields into a row.
pub(super) fn seal_row(
    keys: &Keyring,
    row: CredentialRow,
    document: &CredentialDocument,
    fields: &SecretFields,
) -> Result<CredentialRow, CallError> {
    let sealed = keys.seal(&seal_context(&row, document), &fields.encode()).map_err(cannot_open)?;
    Ok(CredentialRow { sealed: to_stored(&sealed), ..row })
}

pub(super) fn cannot_open(error: EnvelopeError) -> CallError {
    CallError::new(ErrorType::Unavailable, error.to_string(), "see the daemon's log; store the secret again")
}

fn to_json(document: &CredentialDocument) -> Result<String, CallError> {
    serde_json::to_string(document).map_err(|error| internal(error.to_string()))
}

fn internal(message: impl Into<String>) -> CallError {
    CallError::new(ErrorType::Internal, message, "tell the operator")
}

fn kept_elsewhere(name: &Name) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("the secret of the credential `{name}` is in a vault or a file"),
        "change it there: the daemon reads it again shortly; or replace the credential with `toolgate credential put`",
    )
}
