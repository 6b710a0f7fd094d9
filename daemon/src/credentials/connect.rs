//! A person connects a credential: where they say yes, and what comes back with them.
//!
//! The answer comes from a browser, which has no token. What it has is a `state` that nobody can guess: good once, for ten
//! minutes, for this credential as it was when it was made. What was handed out is kept in memory alone, so that a restart
//! in between means asking again.
//!
//! A client without a secret comes back to an address of its organization's own, which its provider knows it by. Were there
//! one for all, an organization could have people asked in the name of another's client, and the answer, which is all that
//! such a client needs, sent to a token address of its own (RFC 9700, section 4.4).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{SHA256, digest};
use tokio_util::sync::CancellationToken;
use toolgate_admission::{CallError, ErrorType, Name, Unusable};
use toolgate_sandbox::Secret;

use super::change::{open_keys, unsealable};
use super::document::Authentication;
use super::oauth::{self, NoTokens};
use super::shelf::Credential;
use super::{CredentialRefusal, Credentials};

/// How long a person has to say yes.
const PATIENCE_MS: u64 = 10 * 60 * 1_000;
/// Authorizations that are asked for at the same time, in all organizations.
const MOST: usize = 10_000;
/// Those of one organization, so that none keeps the others from connecting.
const MOST_OF_ONE: usize = 100;

/// What a person is asked for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connecting {
    /// The address to open in a browser.
    pub url: String,
    /// What is asked for there.
    pub scopes: Vec<String>,
    /// Until when the answer is taken.
    pub expires_ms: u64,
}

/// An authorization that was asked for.
pub struct Awaited {
    /// The organization.
    pub organization: Name,
    /// The credential.
    pub name: Name,
    /// The id of the token that asked.
    pub principal: String,
    /// Cancelled when that token is revoked: what it asked for is not taken any more.
    revoked: CancellationToken,
    id: String,
    revision: u64,
    verifier: Secret,
    /// Where the answer comes back to.
    redirect_url: String,
    /// Whether that is an address of the organization's own.
    is_own_address: bool,
    expires_ms: u64,
}

impl Awaited {
    /// Whether it was asked for this credential, as it is now.
    fn is_of(&self, credential: &Credential) -> bool {
        (&credential.row.id, credential.row.revision) == (&self.id, self.revision)
    }
}

/// Those that are awaited, each under a hash of its `state`, so that looking one up tells nothing of the others.
#[derive(Default)]
pub(super) struct Awaiting(Mutex<HashMap<[u8; 32], Awaited>>);

impl Awaiting {
    /// Adds one in the place of any other for the same credential.
    fn add(&self, state: &str, awaited: Awaited, now_ms: u64) -> Result<(), CallError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, other| other.expires_ms > now_ms && other.id != awaited.id);
        let own = all.values().filter(|other| other.organization == awaited.organization).count();
        if own >= MOST_OF_ONE || all.len() >= MOST {
            return Err(CallError::new(
                ErrorType::Overloaded,
                "too many credentials are being connected",
                "try again in some minutes",
            ));
        }
        all.insert(hash(state), awaited);
        Ok(())
    }

    fn take(&self, state: &str, address_of: Option<&str>, now_ms: u64) -> Option<Awaited> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&hash(state)).filter(|awaited| {
            let own = awaited.is_own_address.then_some(awaited.organization.as_str());
            awaited.expires_ms > now_ms && !awaited.revoked.is_cancelled() && address_of == own
        })
    }
}

fn hash(state: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, state.as_bytes()).as_ref());
    hash
}

impl Credentials {
    /// Where a person connects this credential.
    pub fn connect(
        &self,
        organization: &Name,
        name: &Name,
        principal: &str,
        revoked: &CancellationToken,
        now_ms: u64,
    ) -> Result<Connecting, CallError> {
        let credential = self.find(organization, name)?;
        let keys = open_keys(&self.0.shelf.load())?;
        let Authentication::AuthorizationCode { client, authorization_url } =
            &credential.document.authentication
        else {
            return Err(CallError::new(
                ErrorType::Conflict,
                format!(
                    "a credential of kind `{}` needs nobody to connect it",
                    credential.document.authentication.kind()
                ),
                "only `oauth2_authorization_code` does; it is used as it is",
            ));
        };
        let is_own_address = credential.open(&keys).map_err(unsealable)?.given.is_none();
        // A name has nothing that a query would write otherwise.
        let redirect_url = match is_own_address {
            true => format!("{}?organization={organization}", self.0.redirect_url),
            false => self.0.redirect_url.clone(),
        };
        let asked = oauth::ask(client, authorization_url, &redirect_url).map_err(not_handed_out)?;
        let expires_ms = now_ms.saturating_add(PATIENCE_MS);
        let awaited = Awaited {
            organization: organization.clone(),
            name: name.clone(),
            principal: principal.to_owned(),
            revoked: revoked.clone(),
            id: credential.row.id.clone(),
            revision: credential.row.revision,
            verifier: asked.verifier,
            redirect_url,
            is_own_address,
            expires_ms,
        };
        self.0.awaiting.add(&asked.state, awaited, now_ms)?;
        Ok(Connecting { url: asked.url, scopes: client.scopes.clone(), expires_ms })
    }

    /// What was asked for with this `state`, if its answer came back to the address where it was to: that of an
    /// organization, or that of all. It is good once, whatever comes of it.
    pub fn awaited(&self, state: &str, address_of: Option<&str>, now_ms: u64) -> Result<Awaited, CallError> {
        self.0.awaiting.take(state, address_of, now_ms).ok_or_else(too_late)
    }

    /// Fetches tokens for the code that came back. It goes on where the browser hangs up: the code is good once.
    pub async fn finish_connecting(
        &self,
        awaited: Awaited,
        code: String,
        now_ms: u64,
    ) -> Result<(), CallError> {
        let credentials = self.clone();
        let exchanging =
            self.0.renewals.spawn(async move { credentials.exchange(&awaited, &code, now_ms).await });
        exchanging.await.unwrap_or_else(|_| Err(too_late()))
    }

    async fn exchange(&self, awaited: &Awaited, code: &str, now_ms: u64) -> Result<(), CallError> {
        let shelf = self.0.shelf.load_full();
        let found = shelf.find(&awaited.organization, &awaited.name);
        let shared = Arc::clone(&found.ok_or_else(too_late)?.shared);
        let _one_at_a_time = shared.renewing.lock().await;
        let shelf = self.0.shelf.load_full();
        let found = shelf.find(&awaited.organization, &awaited.name);
        let credential = found.filter(|found| awaited.is_of(found)).ok_or_else(too_late)?;
        let Some(client) = credential.document.authentication.client() else { return Err(too_late()) };
        let fields = credential.open(&*open_keys(&shelf)?).map_err(unsealable)?;
        let given = fields.given.as_ref();
        let (http, redirect_url) = (&self.0.http, &awaited.redirect_url);
        let fetching = oauth::exchange(http, client, given, redirect_url, code, &awaited.verifier);
        let tokens = fetching.map_err(not_handed_out)?.await.map_err(not_handed_out)?;
        // What an authorization before this one gave does not belong to this one.
        let fields = super::fields::SecretFields { given: fields.given, ..Default::default() };
        let taken = self.take_tokens(credential, fields, tokens, now_ms).await;
        taken.map(drop).map_err(CredentialRefusal::into)
    }
}

fn too_late() -> CallError {
    CallError::new(
        ErrorType::Expired,
        "this answer was not asked for, came too late, or was given before",
        "ask for a new address with `POST …/connect`",
    )
}

fn not_handed_out(why: NoTokens) -> CallError {
    match why {
        NoTokens::Unavailable(why) => CallError::new(
            ErrorType::ApiUnavailable,
            why,
            "look at the credential's addresses, and try again",
        ),
        NoTokens::Refused(Unusable::Revoked) => CallError::new(
            ErrorType::CredentialMissing,
            "the provider does not know the client, or not its secret",
            "look at `client_id` and the secret",
        ),
        NoTokens::Refused(_) => CallError::new(
            ErrorType::CredentialMissing,
            "the provider does not take the answer that it gave",
            "ask for a new address with `POST …/connect`",
        ),
    }
}
