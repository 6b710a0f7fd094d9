//! Which credential a request of a call gets, if any (K2, K5).
//!
//! A credential is bound to requests: scheme, host, port, methods, path. Of those that are bound to a request, one of
//! the session's user comes before one of the organization, and another user's is never looked at. Where the first one
//! that fits cannot be used, nothing takes its place: a call that was to act as somebody must not act as somebody else.
//!
//! A host stands here in full and never as a pattern. Whether the request may leave at all is not decided here.

use serde::{Deserialize, Serialize};
use toolgate_api::network::{Host, NetworkScheme, Target, is_within, validate_method, validate_rule_path};

use crate::error::{CallError, ErrorType};

/// Requests that a credential is put into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialBinding {
    /// The scheme.
    #[serde(default)]
    pub scheme: NetworkScheme,
    /// The host, in full.
    pub host: String,
    /// The port; absent means that of the scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The methods; absent means every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// What the path begins with, by whole segments; absent means every path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Whose a credential is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialOwner {
    /// The organization's.
    Organization {
        /// Whether it serves sessions of a user who has none of this provider.
        shared: bool,
    },
    /// One user's.
    User(String),
}

/// A credential, as far as choosing goes.
#[derive(Clone, Copy, Debug)]
pub struct CredentialCandidate<'a> {
    /// What it is for, like `stripe`.
    pub provider: &'a str,
    /// Whose it is.
    pub owner: &'a CredentialOwner,
    /// The requests that it is put into.
    pub bound_to: &'a [CredentialBinding],
    /// Why it cannot be used now; none where it can.
    pub unusable: Option<Unusable>,
}

/// Why a credential cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Nobody has connected it yet.
    Pending,
    /// Its time is over.
    Expired,
    /// Its provider does not take it any more.
    Revoked,
    /// The daemon has no root key to open it with.
    Sealed,
}

/// What a call may use.
#[derive(Clone, Copy, Debug)]
pub struct CredentialRights<'a> {
    /// The providers that are granted.
    pub providers: &'a [String],
    /// The session's user.
    pub user: Option<&'a str>,
    /// Whether the grant covers credentials of users.
    pub user_credentials: bool,
}

/// Why a request that was to have a credential has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCredential {
    /// Of a granted provider there is no credential that the call could use.
    None {
        /// The provider.
        provider: String,
    },
    /// There is one of the organization, which keeps it from sessions of users.
    NotShared {
        /// The provider.
        provider: String,
    },
    /// There is one, and it cannot be used now.
    Unusable {
        /// The provider.
        provider: String,
        /// Why.
        why: Unusable,
    },
}

/// Chooses: the index of the credential for this request, or none where it goes without.
pub fn choose_credential(
    rights: &CredentialRights<'_>,
    target: &Target,
    candidates: &[CredentialCandidate<'_>],
) -> Result<Option<usize>, NoCredential> {
    let granted = |candidate: &CredentialCandidate<'_>| {
        rights.providers.iter().any(|provider| provider == candidate.provider)
    };
    let fitting: Vec<(usize, &CredentialCandidate<'_>)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| granted(candidate) && rights.reach(candidate.owner) != Reach::Never)
        .filter(|(_, candidate)| candidate.bound_to.iter().any(|rule| covers(rule, target)))
        .collect();
    let nearest = fitting.iter().min_by_key(|(index, candidate)| {
        (rights.reach(candidate.owner), usize::MAX - closeness(candidate, target), *index)
    });
    let Some((index, candidate)) = nearest else { return without(rights, candidates) };
    let provider = candidate.provider.to_owned();
    if rights.reach(candidate.owner) == Reach::NotShared {
        return Err(NoCredential::NotShared { provider });
    }
    match candidate.unusable {
        None => Ok(Some(*index)),
        Some(why) => Err(NoCredential::Unusable { provider, why }),
    }
}

/// How near a credential is to a call; the nearest is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Own,
    Shared,
    NotShared,
    Never,
}

impl CredentialRights<'_> {
    /// Whether the call may use a credential of this provider and owner, for whatever request it is bound to.
    pub fn may_use(&self, provider: &str, owner: &CredentialOwner) -> bool {
        self.providers.iter().any(|granted| granted == provider) && self.reach(owner) < Reach::NotShared
    }

    fn reach(&self, owner: &CredentialOwner) -> Reach {
        match owner {
            CredentialOwner::User(owner) if self.user_credentials && self.user == Some(owner) => Reach::Own,
            CredentialOwner::User(_) => Reach::Never,
            CredentialOwner::Organization { shared } if *shared || self.user.is_none() => Reach::Shared,
            CredentialOwner::Organization { .. } => Reach::NotShared,
        }
    }
}

/// Nothing is bound to the request. It goes without where every granted provider has a credential in reach, which then
/// is for other requests.
fn without(
    rights: &CredentialRights<'_>,
    candidates: &[CredentialCandidate<'_>],
) -> Result<Option<usize>, NoCredential> {
    let reaches = |provider: &&String| {
        candidates.iter().any(|candidate| {
            candidate.provider == provider.as_str() && rights.reach(candidate.owner) < Reach::NotShared
        })
    };
    match rights.providers.iter().find(|provider| !reaches(provider)) {
        Some(provider) => Err(NoCredential::None { provider: provider.clone() }),
        None => Ok(None),
    }
}

/// The length of the longest path that binds the credential to this request: the closer binding wins.
fn closeness(candidate: &CredentialCandidate<'_>, target: &Target) -> usize {
    let paths = candidate.bound_to.iter().filter(|rule| covers(rule, target));
    paths.map(|rule| rule.path.as_deref().map_or(0, str::len)).max().unwrap_or(0)
}

fn covers(rule: &CredentialBinding, target: &Target) -> bool {
    let has_method = |methods: &Vec<String>| methods.iter().any(|name| name == target.method());
    rule.scheme == target.scheme()
        && target.host().is_canonical_form(&rule.host)
        && rule.port.unwrap_or(rule.scheme.default_port()) == target.port()
        && rule.methods.as_ref().is_none_or(has_method)
        && rule.path.as_deref().is_none_or(|prefix| is_within(target.path(), prefix))
}

/// Holds what a credential is to be bound to against the rules for that, and brings it to one form.
///
/// `plain_http` are the hosts that the operator lets credentials be sent to without TLS (K4): `host:port`, or `host` for
/// port 80.
pub fn check_bound_to(
    rules: &[CredentialBinding],
    plain_http: &[String],
) -> Result<Vec<CredentialBinding>, BindingError> {
    if rules.is_empty() {
        return Err(BindingError::new(
            "",
            "the credential is bound to nothing",
            "name at least one host in `bound_to`",
        ));
    }
    let checked = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| check_rule(rule, plain_http).map_err(|error| error.below(index)));
    checked.collect()
}

/// What is wrong with what a credential is bound to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BindingError {
    /// Where in the list: a JSON pointer.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub hint: String,
}

impl BindingError {
    fn new(place: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: hint.into() }
    }

    fn below(self, index: usize) -> Self {
        Self { place: format!("/{index}{}", self.place), ..self }
    }
}

fn check_rule(rule: &CredentialBinding, plain_http: &[String]) -> Result<CredentialBinding, BindingError> {
    let host = Host::parse(&rule.host).map_err(|_| {
        let hint = "write the name in full, like `api.stripe.com`; a pattern would send the secret to whoever gets such a name";
        BindingError::new("/host", "the host of a credential is one name or address", hint)
    })?;
    let host = host.to_string();
    let port = rule.port.unwrap_or(rule.scheme.default_port());
    if rule.scheme == NetworkScheme::Http && !is_named_place(plain_http, &host, port) {
        let hint =
            format!("use `https`, or let the operator name `{host}:{port}` in `credentials.plain_http`");
        return Err(BindingError::new("/scheme", "a credential does not travel over plain HTTP", hint));
    }
    check_methods(rule)?;
    if let Some(Err(why)) = rule.path.as_deref().map(validate_rule_path) {
        return Err(BindingError::new("/path", why, "write what the path begins with, like `/v1/`"));
    }
    Ok(CredentialBinding { host, port: Some(port), ..rule.clone() })
}

fn check_methods(rule: &CredentialBinding) -> Result<(), BindingError> {
    let is_sent = |name: &String| validate_method(name).is_ok();
    match &rule.methods {
        Some(methods) if methods.is_empty() || !methods.iter().all(is_sent) => Err(BindingError::new(
            "/methods",
            "methods are upper-case words, at least one",
            "write them like `[\"GET\", \"POST\"]`, or leave `methods` out for every one",
        )),
        _ => Ok(()),
    }
}

/// Whether the operator named a place in a list of `HOST:PORT`, or `HOST` for port 80.
pub fn is_named_place(plain_http: &[String], host: &str, port: u16) -> bool {
    plain_http.iter().any(|named| {
        named.eq_ignore_ascii_case(&format!("{host}:{port}"))
            || port == NetworkScheme::Http.default_port() && named.eq_ignore_ascii_case(host)
    })
}

impl From<NoCredential> for CallError {
    fn from(refused: NoCredential) -> Self {
        let missing = |message: String, hint: String| Self::new(ErrorType::CredentialMissing, message, hint);
        match refused {
            NoCredential::None { provider } => missing(
                format!("there is no credential of `{provider}` that this call could use"),
                format!(
                    "let the owner store one with `provider` `{provider}`, for the organization or for the session's user"
                ),
            ),
            NoCredential::NotShared { provider } => missing(
                format!("the organization's credential of `{provider}` is not for sessions of users"),
                "store one of the user's own, or set `shared` of the organization's to true".to_owned(),
            ),
            NoCredential::Unusable { why: Unusable::Sealed, .. } => Self::new(
                ErrorType::Unavailable,
                "the credential store is sealed",
                "the operator gives the root key with `POST /v1/unseal`",
            ),
            NoCredential::Unusable { provider, why } => {
                let (state, hint) = why.told();
                missing(format!("the credential of `{provider}` {state}"), hint.to_owned())
            }
        }
    }
}

impl Unusable {
    /// What is the matter, and the way out.
    fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Pending => ("is not connected yet", "follow the URL that `POST …/connect` answers"),
            Self::Expired => ("has expired", "connect it again, or rotate it to a new secret"),
            Self::Revoked => ("was revoked by its provider", "replace it with one that the provider takes"),
            Self::Sealed => ("is sealed", "the operator gives the root key with `POST /v1/unseal`"),
        }
    }
}

#[cfg(test)]
mod tests;
