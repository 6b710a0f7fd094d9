//! Credential injection: the daemon is asked for the credential of each permitted request, and the sandbox adds it to
//! the request. The plugin sees neither.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolgate_admission::Permitted;
use toolgate_api::error::CallError;
use zeroize::Zeroizing;

use super::pattern::Pattern;
use crate::secret::Secret;

/// A secret that is added to requests, or only scanned for in responses. Wiped when the last of these is read or
/// dropped; concurrent requests can share it.
pub struct Injection {
    credential: Arc<str>,
    identity: Arc<str>,
    place: InjectionPlace,
    secret: Secret,
    also_hidden: Vec<Secret>,
    /// Built when a response is scanned for this credential alone.
    pattern: OnceLock<Pattern>,
}

/// The place of a secret in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InjectionPlace {
    /// In a header, after a prefix like `Bearer `.
    Header {
        /// The header.
        name: HeaderName,
        /// The text before the secret.
        prefix: String,
    },
    /// In a query parameter.
    Query {
        /// The parameter.
        name: String,
    },
}

/// The credentials that concern one request.
#[derive(Default)]
pub struct CredentialsForRequest {
    /// The credential to add. Over plain HTTP it is only scanned for (K4).
    pub injection: Option<Arc<Injection>>,
    /// Whether the daemon can get another secret for this credential.
    pub is_renewable: bool,
    /// Other secrets to mask in the response: a server can return what another request sent.
    pub scan_only: Vec<Arc<Injection>>,
}

/// The secrets to mask in one response.
pub(super) enum ScanSecrets {
    /// The secrets of one credential, which caches its pattern.
    One(Arc<Injection>),
    /// The secrets of several credentials.
    Many(Box<Pattern>),
}

type CredentialsFuture = Pin<Box<dyn Future<Output = Result<CredentialsForRequest, CallError>> + Send>>;
type FindCredentials = dyn Fn(Permitted) -> CredentialsFuture + Send + Sync;
type ReportRefusal = dyn Fn(&str) -> bool + Send + Sync;

/// Provides the credentials of each request. An error ends the request, and the call if it fails because of it.
#[derive(Clone)]
pub struct Credentials {
    find: Option<Arc<FindCredentials>>,
    report: Option<Arc<ReportRefusal>>,
}

impl Credentials {
    /// Adds no credential and scans for none.
    pub const NONE: Self = Self { find: None, report: None };

    /// Calls this function for each request.
    pub fn new<F, R>(find: F) -> Self
    where
        F: Fn(Permitted) -> R + Send + Sync + 'static,
        R: Future<Output = Result<CredentialsForRequest, CallError>> + Send + 'static,
    {
        Self { find: Some(Arc::new(move |permitted| Box::pin(find(permitted)))), report: None }
    }

    /// Calls this function with the identity of each credential that a server refused with status 401. It returns whether the
    /// next request gets a new secret.
    pub fn on_refusal(self, report: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { report: Some(Arc::new(report)), ..self }
    }

    pub(super) fn report_refusal(&self, identity: &str) -> bool {
        self.report.as_ref().is_some_and(|report| report(identity))
    }

    /// The credentials of a request.
    pub(super) async fn find(&self, permitted: &Permitted) -> Result<CredentialsForRequest, CallError> {
        let Some(find) = &self.find else { return Ok(CredentialsForRequest::default()) };
        find(permitted.clone()).await
    }
}

impl CredentialsForRequest {
    /// The identity of the added secret.
    pub(super) fn identity(&self) -> Option<Arc<str>> {
        self.injection.as_ref().map(|injection| Arc::clone(injection.identity()))
    }

    /// All secrets of the request, if any.
    pub(super) fn scan_secrets(&self) -> Option<ScanSecrets> {
        let mut all: Vec<&Arc<Injection>> = self.injection.iter().chain(&self.scan_only).collect();
        all.sort_unstable_by_key(|injection| injection.identity());
        all.dedup_by_key(|injection| injection.identity());
        match all[..] {
            [] => None,
            [one] => Some(ScanSecrets::One(Arc::clone(one))),
            _ => {
                let secrets = all.iter().flat_map(|injection| injection.secrets());
                Some(ScanSecrets::Many(Box::new(Pattern::new(secrets))))
            }
        }
    }
}

impl ScanSecrets {
    pub(super) fn pattern(&self) -> &Pattern {
        match self {
            Self::One(injection) => injection.pattern.get_or_init(|| Pattern::new(injection.secrets())),
            Self::Many(pattern) => pattern,
        }
    }
}

/// The header or query parameter that the guest had set and the credential replaced.
pub(super) struct Conflict(pub &'static str);

impl Injection {
    /// The secret of a credential, and its place. `credential` is the name for the record. `identity` is unique to
    /// this secret, so that no connection is shared with another one. `also_hidden` are further secrets to mask, such
    /// as the password within a basic credential.
    pub fn new(
        credential: Arc<str>,
        identity: Arc<str>,
        place: InjectionPlace,
        secret: Secret,
        also_hidden: Vec<Secret>,
    ) -> Self {
        Self { credential, identity, place, secret, also_hidden, pattern: OnceLock::new() }
    }

    /// The name of the credential.
    pub fn credential(&self) -> &Arc<str> {
        &self.credential
    }

    /// The unique identity of the secret.
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// The place of the secret.
    pub fn place(&self) -> &InjectionPlace {
        &self.place
    }

    /// The secret.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Further secrets to mask.
    pub fn also_hidden(&self) -> &[Secret] {
        &self.also_hidden
    }

    /// All secrets to mask.
    fn secrets(&self) -> impl Iterator<Item = &Secret> + Clone {
        std::iter::once(&self.secret).chain(&self.also_hidden)
    }

    /// Adds the secret to the headers or the query.
    pub(super) fn apply(
        &self,
        headers: &mut HeaderMap,
        query: &mut Option<Zeroizing<String>>,
    ) -> Result<Option<Conflict>, UnsendableSecret> {
        match &self.place {
            InjectionPlace::Header { name, prefix } => {
                let mut value = Zeroizing::new(prefix.as_bytes().to_vec());
                value.extend_from_slice(self.secret.expose());
                let mut value = HeaderValue::from_bytes(&value).map_err(|_| UnsendableSecret)?;
                value.set_sensitive(true);
                let before = headers.insert(name, value);
                Ok(before.map(|_| Conflict("header")))
            }
            InjectionPlace::Query { name } => {
                let before = query.take();
                let (kept, conflict) = remove_parameter(before.as_deref().map_or("", String::as_str), name);
                let mut whole = Zeroizing::new(kept);
                if !whole.is_empty() {
                    whole.push('&');
                }
                percent_encode(name.as_bytes(), &mut whole);
                whole.push('=');
                percent_encode(self.secret.expose(), &mut whole);
                *query = Some(whole);
                Ok(conflict.then_some(Conflict("query parameter")))
            }
        }
    }
}

/// The secret contains bytes that its place does not allow.
#[derive(Debug)]
pub(super) struct UnsendableSecret;

/// Removes the parameters of that name, however they are encoded. Returns the rest and whether any was removed.
pub(super) fn remove_parameter(query: &str, name: &str) -> (String, bool) {
    let is_other = |pair: &&str| {
        let written = pair.split('=').next().unwrap_or_default();
        form_decode(written) != name.as_bytes()
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    let others: Vec<&str> = kept.iter().copied().filter(is_other).collect();
    (others.join("&"), others.len() < kept.len())
}

fn percent_encode(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => {
                out.push('%');
                out.extend(
                    [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
                );
            }
        }
    }
}

fn form_decode(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().iter();
    let mut decoded = Vec::new();
    while let Some(&byte) = bytes.next() {
        let digits = bytes.as_slice().get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let decoded_byte =
            digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded_byte {
            Some(decoded_byte) => {
                decoded.push(decoded_byte);
                bytes.nth(1);
            }
            None if byte == b'+' => decoded.push(b' '),
            None => decoded.push(byte),
        }
    }
    decoded
}
