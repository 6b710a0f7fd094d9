//! Secrets of webhooks (G18), sealed as credentials are: each under a data key of its own, and re-encrypted in a rotation of
//! the root key. No call can use them.

use std::sync::Arc;

use tokio::sync::MutexGuard;
use toolgate_api::error::CallError;
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use toolgate_state::keys::envelope::EnvelopeError;
use toolgate_state::store::{SealedText, WebhookRow};

use super::Credentials;
use super::change::{cannot_open, open_keys};
use super::envelope::{SealContext, SealedSecret};
use super::keyring::{Keyring, REWRAP_BATCH, conflict};
use super::snapshot::{from_stored, to_stored};

/// The right to seal a secret and store it before its root key can be forgotten.
pub struct Sealing<'a> {
    _writing: MutexGuard<'a, ()>,
    keys: Arc<Keyring>,
}

impl Sealing<'_> {
    /// Seals the secret of a webhook. The ciphertext is bound to the row's id, version and document.
    pub fn seal(&self, row: &WebhookRow, secret: &Secret) -> Result<SealedText, CallError> {
        let sealed = self.keys.seal(&context(row), secret.expose()).map_err(cannot_open)?;
        Ok(to_stored(&sealed))
    }
}

#[boxed]
impl Credentials {
    /// Waits for other writes of secrets. Keep the result until the sealed secret is stored.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` while the daemon is sealed.
    pub async fn begin_sealing(&self) -> Result<Sealing<'_>, CallError> {
        let writing = self.0.writes.lock().await;
        let keys = open_keys(&self.0.snapshot.load())?;
        Ok(Sealing { _writing: writing, keys })
    }

    /// Opens the secret of a webhook.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` while the daemon is sealed, or for a row that another program changed.
    pub fn open_webhook_secret(&self, row: &WebhookRow) -> Result<Secret, CallError> {
        let keys = open_keys(&self.0.snapshot.load())?;
        let sealed = parse(row).map_err(cannot_open)?;
        keys.open(&context(row).associated_data(sealed.root_key), &sealed).map_err(cannot_open)
    }

    /// Re-encrypts the data keys of a batch of webhooks, and returns its size.
    pub(super) async fn rewrap_webhook_batch(&self) -> Result<usize, CallError> {
        let _writing = self.0.writes.lock().await;
        let keys = open_keys(&self.0.snapshot.load())?;
        let limit = u32::try_from(REWRAP_BATCH).unwrap_or(u32::MAX);
        let rows = self.0.store.webhooks_under_other_keys(&keys.serving.id().to_string(), limit).await?;
        let rewrapped = rows.into_iter().map(|row| rewrap(row, &keys));
        let rewrapped: Vec<WebhookRow> = rewrapped.collect::<Result<_, _>>()?;
        if !rewrapped.is_empty() {
            self.0.store.rewrap_webhooks(&rewrapped).await?;
        }
        Ok(rewrapped.len())
    }
}

/// A secret that does not decrypt stops the rotation: without the old key it would be lost.
fn rewrap(row: WebhookRow, keys: &Keyring) -> Result<WebhookRow, CallError> {
    let rewrapped = parse(&row).and_then(|sealed| {
        let rewrapped = keys.rewrap(&context(&row), &sealed)?;
        Ok(rewrapped.unwrap_or(sealed))
    });
    let sealed = rewrapped.map_err(|error| {
        conflict(
            format!("the secret of webhook `{}/{}` cannot be decrypted: {error}", row.organization, row.name),
            "replace or delete the webhook, then rotate again; until then both root keys are kept",
        )
    })?;
    Ok(WebhookRow { sealed: to_stored(&sealed), ..row })
}

fn parse(row: &WebhookRow) -> Result<SealedSecret, EnvelopeError> {
    from_stored(&row.sealed).ok_or(EnvelopeError::Tampered)
}

fn context(row: &WebhookRow) -> SealContext<'_> {
    SealContext {
        organization: row.organization.as_str(),
        id: &row.id,
        name: row.name.as_str(),
        version: row.version,
        user: None,
        kind: "webhook",
        document: &row.document,
    }
}
