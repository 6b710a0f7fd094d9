//! How a credential comes into a request: the daemon is asked about each permitted request, and the sandbox puts in what
//! it answers. The plugin sees neither the question nor the answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use toolgate_admission::{CallError, Permitted};
use zeroize::Zeroizing;

use super::pattern::Pattern;
use crate::secret::Secret;

/// What is put into requests, or only looked for in answers. It is kept until the last of those is read or let go, and
/// wiped then; requests that are under way at the same time can share one.
pub struct Injection {
    credential: Arc<str>,
    identity: Arc<str>,
    place: InjectionPlace,
    secret: Secret,
    also_hidden: Vec<Secret>,
    /// Made when an answer is looked through for this one alone.
    pattern: OnceLock<Pattern>,
}

/// Where a secret stands in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InjectionPlace {
    /// In a header, behind a prefix like `Bearer `.
    Header {
        /// The header.
        name: HeaderName,
        /// What stands in front of the secret.
        prefix: String,
    },
    /// In a parameter of the query.
    Query {
        /// The parameter.
        name: String,
    },
}

/// What a request has to do with the secrets that its call may use.
#[derive(Default)]
pub struct Found {
    /// What is put into it. Over plain HTTP it is not, and only looked for (K4).
    pub injection: Option<Arc<Injection>>,
    /// What must not come back with its answer either: a server can show what another request brought.
    pub watched: Vec<Arc<Injection>>,
}

/// The secrets that are looked for in one answer.
pub(super) enum Hidden {
    /// Those of one credential, which keeps what is looked for.
    OfOne(Arc<Injection>),
    /// Those of several.
    OfMany(Box<Pattern>),
}

type Answer = Pin<Box<dyn Future<Output = Result<Found, CallError>> + Send>>;
type Find = dyn Fn(Permitted) -> Answer + Send + Sync;
type Refused = dyn Fn(&str) + Send + Sync;

/// Is asked about each request. An error ends the request and is what the call ends with where it fails because of it.
#[derive(Clone)]
pub struct Credentials {
    find: Option<Arc<Find>>,
    refused: Option<Arc<Refused>>,
}

impl Credentials {
    /// No request gets any, and nothing is looked for.
    pub const NONE: Self = Self { find: None, refused: None };

    /// Asks this function.
    pub fn new<F, R>(find: F) -> Self
    where
        F: Fn(Permitted) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Found, CallError>> + Send + 'static,
    {
        Self { find: Some(Arc::new(move |permitted| Box::pin(find(permitted)))), refused: None }
    }

    /// Tells this function the identity of each that an answer did not take: one with the status 401.
    pub fn on_refusal(self, refused: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { refused: Some(Arc::new(refused)), ..self }
    }

    pub(super) fn refused(&self, identity: &str) {
        self.refused.iter().for_each(|refused| refused(identity));
    }

    /// What there is for a request. Nothing is put into one over plain HTTP, whatever the daemon says (K4).
    pub(super) async fn find(&self, permitted: &Permitted) -> Result<Found, CallError> {
        let Some(find) = &self.find else { return Ok(Found::default()) };
        let mut found = find(permitted.clone()).await?;
        if !permitted.may_carry_credential() {
            found.watched.extend(found.injection.take());
        }
        Ok(found)
    }
}

impl Found {
    /// All of its secrets; none where there is none.
    pub(super) fn hidden(&self) -> Option<Hidden> {
        let mut all: Vec<&Arc<Injection>> = self.injection.iter().chain(&self.watched).collect();
        all.sort_unstable_by_key(|injection| injection.identity());
        all.dedup_by_key(|injection| injection.identity());
        match all[..] {
            [] => None,
            [one] => Some(Hidden::OfOne(Arc::clone(one))),
            _ => {
                let secrets = all.iter().flat_map(|injection| injection.secrets());
                Some(Hidden::OfMany(Box::new(Pattern::new(secrets))))
            }
        }
    }
}

impl Hidden {
    pub(super) fn pattern(&self) -> &Pattern {
        match self {
            Self::OfOne(injection) => injection.pattern.get_or_init(|| Pattern::new(injection.secrets())),
            Self::OfMany(pattern) => pattern,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials")
    }
}

/// What the guest had put where the credential belongs. It was dropped.
pub(super) struct Displaced(pub &'static str);

impl Injection {
    /// The secret of a credential, and where it goes. The credential's name is for the record; its identity, which no other
    /// secret ever has, is so that no connection is shared with another; `also_hidden` must not come back either: the
    /// password inside of a basic credential, say.
    pub fn new(
        credential: Arc<str>,
        identity: Arc<str>,
        place: InjectionPlace,
        secret: Secret,
        also_hidden: Vec<Secret>,
    ) -> Self {
        Self { credential, identity, place, secret, also_hidden, pattern: OnceLock::new() }
    }

    /// Which credential it is.
    pub fn credential(&self) -> &Arc<str> {
        &self.credential
    }

    /// Which secret it is, of all that ever were.
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// Where the secret goes.
    pub fn place(&self) -> &InjectionPlace {
        &self.place
    }

    /// What goes there.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// What else must not come back.
    pub fn also_hidden(&self) -> &[Secret] {
        &self.also_hidden
    }

    /// What must not come back.
    fn secrets(&self) -> impl Iterator<Item = &Secret> + Clone {
        std::iter::once(&self.secret).chain(&self.also_hidden)
    }

    /// Puts the secret into the headers or the query.
    pub(super) fn apply(
        &self,
        headers: &mut HeaderMap,
        query: &mut Option<Zeroizing<String>>,
    ) -> Result<Option<Displaced>, NotSendable> {
        match &self.place {
            InjectionPlace::Header { name, prefix } => {
                let mut value = Zeroizing::new(prefix.as_bytes().to_vec());
                value.extend_from_slice(self.secret.expose());
                let mut value = HeaderValue::from_bytes(&value).map_err(|_| NotSendable)?;
                value.set_sensitive(true);
                let before = headers.insert(name, value);
                Ok(before.map(|_| Displaced("header")))
            }
            InjectionPlace::Query { name } => {
                let before = query.take();
                let (kept, displaced) = without(before.as_deref().map_or("", String::as_str), name);
                let mut whole = Zeroizing::new(kept);
                if !whole.is_empty() {
                    whole.push('&');
                }
                encode(name.as_bytes(), &mut whole);
                whole.push('=');
                encode(self.secret.expose(), &mut whole);
                *query = Some(whole);
                Ok(displaced.then_some(Displaced("query parameter")))
            }
        }
    }
}

/// The secret has bytes that cannot stand where it belongs.
#[derive(Debug)]
pub(super) struct NotSendable;

/// The query without the parameters of that name, however it is spelt.
pub(super) fn without(query: &str, name: &str) -> (String, bool) {
    let is_other = |pair: &&str| {
        let written = pair.split('=').next().unwrap_or_default();
        decode(written) != name.as_bytes()
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    let others: Vec<&str> = kept.iter().copied().filter(is_other).collect();
    (others.join("&"), others.len() < kept.len())
}

fn encode(bytes: &[u8], out: &mut String) {
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

fn decode(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().iter();
    let mut decoded = Vec::new();
    while let Some(&byte) = bytes.next() {
        let digits = bytes.as_slice().get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let meant = digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match meant {
            Some(meant) => {
                decoded.push(meant);
                bytes.nth(1);
            }
            None if byte == b'+' => decoded.push(b' '),
            None => decoded.push(byte),
        }
    }
    decoded
}
