//! Chooses the credential that is injected into a request (K2, K5).
//!
//! A credential is bound to requests by scheme, host, port, methods and path. Among those that are bound to a
//! request, one of the session's user comes before one of the organization; credentials of other users are ignored. If the
//! first one cannot be used there is no fallback, since the call would act under another identity.
//!
//! A binding has an exact host, never a pattern. Whether the request may be sent is decided in `egress`.

use toolgate_api::network::{
    CredentialBinding, Host, NetworkScheme, Target, is_within, validate_method, validate_rule_path,
};

use toolgate_api::error::{CallError, ErrorType};

/// The owner of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialOwner {
    /// The organization.
    Organization {
        /// Whether sessions of a user without a credential of this provider may use it.
        shared: bool,
    },
    /// One user.
    User(String),
}

/// The data of a credential that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct CredentialCandidate<'a> {
    /// The provider, like `stripe`.
    pub provider: &'a str,
    /// The owner.
    pub owner: &'a CredentialOwner,
    /// The requests that it is injected into.
    pub bound_to: &'a [CredentialBinding],
    /// Why it cannot be used now; none if it can.
    pub unusable: Option<Unusable>,
}

/// Why a credential cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Its OAuth connection is not complete.
    Pending,
    /// The credential has expired.
    Expired,
    /// Its provider has revoked it.
    Revoked,
    /// The daemon has no root key to decrypt it.
    Sealed,
}

/// The credentials that a call may use.
#[derive(Clone, Copy, Debug)]
pub struct CredentialRights<'a> {
    /// The granted providers.
    pub providers: &'a [String],
    /// The session's user.
    pub user: Option<&'a str>,
    /// Whether a call without a user speaks for the organization itself. An MCP client does not say for whom it calls, so what is not
    /// shared never serves it.
    pub speaks_for_organization: bool,
    /// Whether the grant includes credentials of users.
    pub user_credentials: bool,
}

/// Why a request has no credential although one is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCredential {
    /// There is no credential of a granted provider that the call may use.
    None {
        /// The provider.
        provider: String,
    },
    /// The organization has one that is not shared with sessions of users.
    NotShared {
        /// The provider.
        provider: String,
    },
    /// There is one that cannot be used now.
    Unusable {
        /// The provider.
        provider: String,
        /// The reason.
        why: Unusable,
    },
}

/// Returns the index of the credential for this request; none if the request is sent without one.
pub fn choose_credential(
    rights: &CredentialRights<'_>,
    target: &Target,
    candidates: &[CredentialCandidate<'_>],
) -> Result<Option<usize>, NoCredential> {
    let is_granted = |candidate: &CredentialCandidate<'_>| {
        rights.providers.iter().any(|provider| provider == candidate.provider)
    };
    let fitting: Vec<(usize, &CredentialCandidate<'_>)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| {
            is_granted(candidate) && rights.precedence(candidate.owner) != Precedence::Never
        })
        .filter(|(_, candidate)| candidate.bound_to.iter().any(|rule| covers(rule, target)))
        .collect();
    let first = fitting.iter().min_by_key(|(index, candidate)| {
        (rights.precedence(candidate.owner), usize::MAX - longest_path(candidate, target), *index)
    });
    let Some((index, candidate)) = first else { return no_binding(rights, candidates) };
    let provider = candidate.provider.to_owned();
    if rights.precedence(candidate.owner) == Precedence::NotShared {
        return Err(NoCredential::NotShared { provider });
    }
    match candidate.unusable {
        None => Ok(Some(*index)),
        Some(why) => Err(NoCredential::Unusable { provider, why }),
    }
}

/// Precedence of a credential for a call; the smallest is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Own,
    Shared,
    NotShared,
    Never,
}

impl CredentialRights<'_> {
    /// Whether the call may use a credential of this provider and owner for some request.
    pub fn may_use(&self, provider: &str, owner: &CredentialOwner) -> bool {
        self.providers.iter().any(|granted| granted == provider)
            && self.precedence(owner) < Precedence::NotShared
    }

    fn precedence(&self, owner: &CredentialOwner) -> Precedence {
        match owner {
            CredentialOwner::User(owner) if self.user_credentials && self.user == Some(owner) => {
                Precedence::Own
            }
            CredentialOwner::User(_) => Precedence::Never,
            CredentialOwner::Organization { shared }
                if *shared || self.user.is_none() && self.speaks_for_organization =>
            {
                Precedence::Shared
            }
            CredentialOwner::Organization { .. } => Precedence::NotShared,
        }
    }
}

/// The result if no credential is bound to the request. The request is sent without one if the call may use a credential of
/// every granted provider, since these are bound to other requests.
fn no_binding(
    rights: &CredentialRights<'_>,
    candidates: &[CredentialCandidate<'_>],
) -> Result<Option<usize>, NoCredential> {
    let has_credential = |provider: &&String| {
        candidates.iter().any(|candidate| {
            candidate.provider == provider.as_str()
                && rights.precedence(candidate.owner) < Precedence::NotShared
        })
    };
    match rights.providers.iter().find(|provider| !has_credential(provider)) {
        Some(provider) => Err(NoCredential::None { provider: provider.clone() }),
        None => Ok(None),
    }
}

/// Returns the length of the longest path that binds the credential to this request: the more specific binding wins.
fn longest_path(candidate: &CredentialCandidate<'_>, target: &Target) -> usize {
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

/// Validates and normalizes the bindings of a credential.
///
/// `plain_http` lists the hosts that credentials may be sent to without TLS (K4): `host:port`, or `host` for port 80.
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
        .map(|(index, rule)| check_rule(rule, plain_http).map_err(|error| error.with_index(index)));
    checked.collect()
}

/// Why a binding of a credential is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BindingError {
    /// JSON pointer into the list.
    pub place: String,
    /// The error message.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

impl BindingError {
    fn new(place: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: hint.into() }
    }

    fn with_index(self, index: usize) -> Self {
        Self { place: format!("/{index}{}", self.place), ..self }
    }
}

fn check_rule(rule: &CredentialBinding, plain_http: &[String]) -> Result<CredentialBinding, BindingError> {
    let host = Host::parse(&rule.host).map_err(|_| {
        let hint = "write the name in full, like `api.stripe.com`; a pattern would send the secret to every owner of such a name";
        BindingError::new("/host", "the host of a credential is one name or address", hint)
    })?;
    let host = host.to_string();
    let port = rule.port.unwrap_or(rule.scheme.default_port());
    if rule.scheme == NetworkScheme::Http && !lists_host(plain_http, &host, port) {
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

/// Whether a list of `HOST:PORT`, or `HOST` for port 80, contains a host and port.
pub fn lists_host(plain_http: &[String], host: &str, port: u16) -> bool {
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
                format!("the organization's credential of `{provider}` is not shared with this caller"),
                "store one of the user's own and name the user, or set `shared` of the organization's to true".to_owned(),
            ),
            NoCredential::Unusable { provider, why } => {
                let (state, hint) = match why {
                    Unusable::Pending => {
                        ("is not connected yet", "follow the URL that `POST …/connect` answers")
                    }
                    Unusable::Expired => ("has expired", "connect it again, or rotate it to a new secret"),
                    Unusable::Revoked => {
                        ("was revoked by its provider", "replace it with one that the provider takes")
                    }
                    Unusable::Sealed => {
                        let hint = "the operator gives the root key with `toolgate credential unseal`";
                        return Self::new(ErrorType::Unavailable, "the credential store is sealed", hint);
                    }
                };
                missing(format!("the credential of `{provider}` {state}"), hint.to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests;
