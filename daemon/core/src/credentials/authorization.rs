//! The authorization code flow of a credential: from the link that a user opens to the tokens.
//!
//! The redirect comes from a browser, which has no token of this daemon. It is authenticated by its `state`, which cannot be
//! guessed and is valid once, for ten minutes, for the credential as it was. Pending flows are in memory only: after a
//! restart the user must begin again.
//!
//! A client without a secret has a redirect URL of its organization. With one URL for all, an organization could send users
//! to the client of another organization, and redeem the code, all that a public client needs, at a token endpoint of its
//! own: a mix-up attack (RFC 9700, section 4.4).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolgate_admission::Unusable;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_audit::{Sha256, sha256};
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;

use super::change::{cannot_open, open_keys};
use super::document::Authentication;
use super::envelope::SecretFields;
use super::oauth;
use super::refresh::RefreshDetails;
use super::snapshot::Credential;
use super::token_response::TokenFailure;
use super::{CredentialRefusal, Credentials};

/// Time for the user's consent.
const FLOW_MS: u64 = 10 * 60 * 1_000;
/// Most pending flows of all organizations.
const FLOWS: usize = 10_000;
/// Most pending flows of one organization, so that no organization blocks the others.
const FLOWS_PER_ORGANIZATION: usize = 100;

/// The link on which a user consents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationLink {
    /// The URL to open in a browser.
    pub url: String,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// End of the flow, in milliseconds since 1970.
    pub expires_ms: u64,
}

/// A flow that waits for the redirect.
pub struct PendingFlow {
    pub organization: Name,
    /// The credential.
    pub name: Name,
    /// The id of the token that began the flow.
    pub principal: String,
    /// The front end that the principal used, as the audit log names it.
    pub source: &'static str,
    /// Cancelled when that token is revoked, which ends the flow.
    revoked: CancellationToken,
    id: String,
    revision: u64,
    verifier: Secret,
    redirect_url: String,
    /// Whether the redirect URL contains the organization.
    has_own_redirect: bool,
    /// The issuer that the response must name.
    issuer: Option<String>,
    expires_ms: u64,
}

impl PendingFlow {
    /// Checks the `iss` of the response against mix-up attacks (RFC 9207, section 2.4).
    pub fn check_issuer(&self, issuer: Option<&str>) -> Result<(), CallError> {
        if self.issuer.is_none() || self.issuer.as_deref() == issuer {
            return Ok(());
        }
        Err(CallError::new(
            ErrorType::CredentialMissing,
            "the response does not come from the credential's `issuer`",
            "begin again with `POST …/connect`; if it happens again, compare `issuer` with the provider's metadata",
        ))
    }

    /// Whether the credential is unchanged since the flow began.
    fn is_for(&self, credential: &Credential) -> bool {
        (&credential.row.id, credential.row.revision) == (&self.id, self.revision)
    }
}

/// Pending flows by the hash of their `state`, so that the time of a lookup reveals nothing about other states.
#[derive(Default)]
pub(super) struct PendingFlows(Mutex<HashMap<Sha256, PendingFlow>>);

impl PendingFlows {
    /// Adds a flow, in place of another one for the same credential.
    fn add(&self, state: &str, flow: PendingFlow, now_ms: u64) -> Result<(), CallError> {
        let mut flows = self.0.lock();
        flows.retain(|_, other| other.expires_ms > now_ms && other.id != flow.id);
        let own = flows.values().filter(|other| other.organization == flow.organization).count();
        if own >= FLOWS_PER_ORGANIZATION || flows.len() >= FLOWS {
            return Err(CallError::new(
                ErrorType::Overloaded,
                "too many credentials are being connected",
                "try again in some minutes",
            )
            .with_retry_after_ms(60_000));
        }
        flows.insert(sha256(state.as_bytes()), flow);
        Ok(())
    }

    fn take(&self, state: &str, organization: Option<&str>, now_ms: u64) -> Option<PendingFlow> {
        let mut flows = self.0.lock();
        flows.remove(&sha256(state.as_bytes())).filter(|flow| {
            let expected = flow.has_own_redirect.then_some(flow.organization.as_str());
            flow.expires_ms > now_ms && !flow.revoked.is_cancelled() && organization == expected
        })
    }
}

#[boxed]
impl Credentials {
    /// Begins the flow of a credential, for a principal who asked through this front end.
    pub fn begin_authorization(
        &self,
        organization: &Name,
        name: &Name,
        (principal, source): (&str, &'static str),
        revoked: &CancellationToken,
        now_ms: u64,
    ) -> Result<AuthorizationLink, CallError> {
        let credential = self.find(organization, name)?;
        let keys = open_keys(&self.0.snapshot.load())?;
        let authentication = &credential.document.authentication;
        let Authentication::AuthorizationCode { client, authorization_url, issuer } = authentication else {
            return Err(CallError::new(
                ErrorType::Conflict,
                format!("a credential of kind `{}` needs no user's consent", authentication.kind().as_str()),
                "use it as it is; only `oauth2_authorization_code` is connected by a user",
            ));
        };
        let has_own_redirect = credential.open(&keys).map_err(cannot_open)?.given.is_none();
        let redirect_url = match has_own_redirect {
            true => self.own_redirect_url(organization),
            false => self.0.redirect_url.clone(),
        };
        let request = oauth::authorization_request(client, authorization_url, &redirect_url);
        let request = request.map_err(no_tokens)?;
        let expires_ms = now_ms.saturating_add(FLOW_MS);
        let flow = PendingFlow {
            organization: organization.clone(),
            name: name.clone(),
            principal: principal.to_owned(),
            source,
            revoked: revoked.clone(),
            id: credential.row.id.clone(),
            revision: credential.row.revision,
            verifier: request.verifier,
            redirect_url,
            has_own_redirect,
            issuer: issuer.clone(),
            expires_ms,
        };
        self.0.flows.add(&request.state, flow, now_ms)?;
        Ok(AuthorizationLink { url: request.url, scopes: client.scopes.clone(), expires_ms })
    }

    /// The redirect URL of an organization's clients without a secret.
    pub(super) fn own_redirect_url(&self, organization: &Name) -> String {
        // A name has no characters that a query must encode.
        format!("{}?organization={organization}", self.0.redirect_url)
    }

    /// The redirect URLs to register with a provider: for clients with a secret, and for those of the organization without one.
    pub fn redirect_urls(&self, organization: &Name) -> (String, String) {
        (self.0.redirect_url.clone(), self.own_redirect_url(organization))
    }

    /// Takes the flow with this `state`, if the browser was redirected to its redirect URL: `organization` is the parameter
    /// of that URL. A state is valid once, also if the flow fails.
    pub fn take_flow(
        &self,
        state: &str,
        organization: Option<&str>,
        now_ms: u64,
    ) -> Result<PendingFlow, CallError> {
        self.0.flows.take(state, organization, now_ms).ok_or_else(flow_ended)
    }

    /// The `details` of the audit record of a code exchange.
    pub fn exchange_details(&self, flow: &PendingFlow) -> Option<Box<RawValue>> {
        let credential = self.find(&flow.organization, &flow.name).ok()?;
        let token_url = &credential.document.authentication.client()?.token_url;
        let details = RefreshDetails { grant_type: "authorization_code", token_url };
        serde_json::value::to_raw_value(&details).ok()
    }

    /// Exchanges the code for tokens and stores them. It completes although the browser disconnects, since a code is valid
    /// once.
    pub async fn finish_authorization(
        &self,
        flow: PendingFlow,
        code: String,
        now_ms: u64,
    ) -> Result<(), CallError> {
        let credentials = self.clone();
        let exchange = self.0.tasks.spawn(async move { credentials.exchange(&flow, &code, now_ms).await });
        exchange.await.unwrap_or_else(|_| Err(flow_ended()))
    }

    async fn exchange(&self, flow: &PendingFlow, code: &str, now_ms: u64) -> Result<(), CallError> {
        let snapshot = self.0.snapshot.load_full();
        let found = snapshot.find(&flow.organization, &flow.name);
        let shared = Arc::clone(&found.ok_or_else(flow_ended)?.shared);
        let _refreshing = shared.refresh_lock.lock().await;
        let snapshot = self.0.snapshot.load_full();
        let found = snapshot.find(&flow.organization, &flow.name);
        let credential = found.filter(|found| flow.is_for(found)).ok_or_else(flow_ended)?;
        let client = credential.document.authentication.client().ok_or_else(flow_ended)?;
        let given = credential.open(&*open_keys(&snapshot)?).map_err(cannot_open)?.given;
        let (http, redirect_url) = (&self.0.http, &flow.redirect_url);
        let request = oauth::exchange_code(http, client, given.as_ref(), redirect_url, code, &flow.verifier);
        let tokens = request.map_err(no_tokens)?.await.map_err(no_tokens)?;
        // Without the tokens of an earlier authorization.
        let fields = SecretFields { given, ..SecretFields::default() };
        let stored = self.store_tokens(credential, fields, tokens, now_ms).await;
        stored.map(drop).map_err(CredentialRefusal::into)
    }
}

fn flow_ended() -> CallError {
    CallError::new(
        ErrorType::Expired,
        "no authorization is pending for this response: it is unknown, too late, or already used",
        "begin again with `POST …/connect`",
    )
}

fn no_tokens(failure: TokenFailure) -> CallError {
    let missing = |message: String, hint| CallError::new(ErrorType::CredentialMissing, message, hint);
    match failure {
        TokenFailure::Unavailable(why) => {
            CallError::new(ErrorType::ApiUnavailable, why, "check the credential's URLs, and try again")
        }
        TokenFailure::Refused(Unusable::Revoked, said) => missing(
            format!("the provider does not know the client, or rejects its secret: {said}"),
            "check `client_id` and the secret",
        ),
        TokenFailure::Refused(_, said) => missing(
            format!("the provider does not accept its own authorization code: {said}"),
            "begin again with `POST …/connect`",
        ),
    }
}
