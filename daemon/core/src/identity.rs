//! Authentication: maps a bearer token to a [`Caller`].
//!
//! All tokens that are not revoked are held in memory, so a request costs one lookup and one hash, and no round trip
//! to the store. Creation and revocation update the store first and then the in-memory snapshot; a concurrent reader
//! sees the snapshot before or after the change, and never blocks.
//!
//! An unknown, a revoked and a wrong token get the same response. `caller` defines the permissions, `token` the
//! format of a token. `access_tokens` does the same for the access tokens of authorization servers, and `sign_in` for people
//! who sign in to the console by OpenID Connect.

mod caller;
mod token;
mod jwt;
mod issuer_keys;
mod access_tokens;
mod sign_in;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::network::Network;
use toolgate_api::token::Role;
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::store::{Store, StoreError, TokenRow};

pub use access_tokens::AccessTokens;
pub use caller::{Access, Caller, one_of};
pub use sign_in::{
    DeviceSignIn, PersonSignIn, SignInConnection, SignInPermit, SignInResponse, SignedInPerson,
};
pub use token::{Secret, TokenHash};

/// Longest label, in bytes; a label is for people, and the limit keeps a row small.
const LABEL_BYTES: usize = 200;
/// Longest user of a token, in bytes: as in a session.
const USER_BYTES: usize = 255;

/// More than a token and a line break have. A wrong file is not read completely.
const TOKEN_FILE_BYTES: u64 = 256;

/// Most networks of a token: each request is compared with them.
const ADDRESSES: usize = 64;

/// Most agents of a token: each request is compared with them, and each token is in memory.
const AGENTS: usize = 1_000;

/// Every valid token, with creation and revocation.
pub struct Identity {
    store: Store,
    live: ArcSwap<HashMap<String, Arc<Live>>>,
    /// Lock held while the store and the snapshot are updated together.
    changing: Mutex<()>,
    /// When the last use of tokens was stored.
    use_stored_ms: AtomicU64,
}

struct Live {
    /// 0 where it was not used.
    last_used_ms: AtomicU64,
    hash: TokenHash,
    caller: Arc<Caller>,
    label: String,
    created_ms: u64,
}

/// Parameters of a new token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    pub role: Role,
    pub organization: Option<Name>,
    pub agents: Option<Vec<Name>>,
    pub label: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The networks that it may be used from.
    pub addresses: Option<Vec<Network>>,
    /// The user that its calls are made for.
    pub user: Option<String>,
}

/// A new token. Its text is returned only once.
#[derive(Debug)]
pub struct MadeToken {
    pub summary: TokenSummary,
    pub secret: Secret,
}

/// A token as shown in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSummary {
    pub id: String,
    pub role: Role,
    pub organization: Option<Name>,
    pub agents: Option<Vec<Name>>,
    pub label: String,
    pub created_ms: u64,
    pub expires_ms: Option<u64>,
    pub addresses: Option<Vec<Network>>,
    pub user: Option<String>,
    pub last_used_ms: Option<u64>,
}

/// What a refused request presented.
#[derive(Clone, Copy)]
pub struct PresentedCredentials<'a> {
    /// The header `Authorization`.
    pub authorization: Option<&'a str>,
    /// The token of its client certificate.
    pub certificate: Option<&'a str>,
    /// Where it came from.
    pub address: Option<IpAddr>,
    /// What it asked for.
    pub access: Access,
}

/// Why a request was refused for its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCredentials {
    /// The reason.
    pub reason: RefusalReason,
    /// The id of the token, or what an unknown one has in the place of its id.
    pub token: Option<String>,
    /// The organization of a known token.
    pub organization: Option<Name>,
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The request has no token.
    NoToken,
    /// No token has this text: it is wrong, or was revoked.
    Unknown,
    /// The token has expired.
    Expired,
    /// The token may not be used from this address.
    Network,
    /// The token's role may not do this.
    Role,
    /// The access token of an authorization server is not taken.
    AccessToken,
}

impl RefusalReason {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::NoToken, Self::Unknown, Self::Expired, Self::Network, Self::Role, Self::AccessToken];

    /// The name in records, events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::Unknown => "unknown_token",
            Self::Expired => "expired",
            Self::Network => "network",
            Self::Role => "role",
            Self::AccessToken => "access_token",
        }
    }

    /// Whether the token is one of the store.
    pub fn is_of_known_token(self) -> bool {
        matches!(self, Self::Expired | Self::Network | Self::Role)
    }

    /// The error of the response.
    pub fn error_type(self) -> ErrorType {
        match self {
            Self::NoToken | Self::Unknown | Self::Expired | Self::AccessToken => ErrorType::Unauthenticated,
            Self::Network | Self::Role => ErrorType::Forbidden,
        }
    }
}

/// Error of the creation of the first operator token.
#[derive(Debug, thiserror::Error)]
pub enum FirstTokenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no random bytes are to be had")]
    Random,
    #[error("cannot write the operator token to `{}`: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
}

impl From<FirstTokenError> for CallError {
    fn from(error: FirstTokenError) -> Self {
        match error {
            FirstTokenError::Store(error) => error.into(),
            other => Self::new(ErrorType::Internal, other.to_string(), "see the daemon's log"),
        }
    }
}

impl FirstTokenError {
    /// Returns the hint.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Store(error) => error.hint(),
            Self::Random => "the system's random number generator fails; see the system's log",
            Self::File { .. } => {
                "move what is there out of the way, and see that this user may write the data folder"
            }
        }
    }
}

#[boxed]
impl Identity {
    /// Loads the tokens of `store`.
    pub async fn load(store: Store) -> Result<Self, StoreError> {
        let rows = store.live_tokens().await?;
        let live = rows.into_iter().map(|row| Ok((row.id.clone(), Arc::new(read(row)?))));
        let live = live.collect::<Result<HashMap<_, _>, StoreError>>()?;
        let (live, use_stored_ms) = (ArcSwap::from_pointee(live), AtomicU64::new(now_ms()));
        Ok(Self { store, live, changing: Mutex::new(()), use_stored_ms })
    }

    /// Returns the caller for the `Authorization` header of a request.
    pub fn authenticate(&self, authorization: Option<&str>) -> Result<Arc<Caller>, CallError> {
        let Some(authorization) = authorization else {
            return Err(authentication_error("no token was sent"));
        };
        let caller = bearer(authorization).and_then(|text| self.caller_of(text));
        caller.ok_or_else(|| authentication_error("the token is not valid"))
    }

    /// Why the credentials of a request do not suffice; none if they do, and the request was refused for something else.
    pub fn refusal(&self, request: &PresentedCredentials<'_>) -> Option<RefusedCredentials> {
        let of = |reason, token: Option<&str>| {
            Some(RefusedCredentials { reason, token: token.map(str::to_owned), organization: None })
        };
        let live = self.live.load();
        let found = match (request.authorization, request.certificate) {
            (None, None) => return of(RefusalReason::NoToken, None),
            (None, Some(id)) => live.get(id),
            (Some(authorization), _) => {
                let Some(secret) = bearer(authorization).and_then(Secret::parse) else {
                    return of(RefusalReason::Unknown, None);
                };
                // Hashed for an unknown id, too, as for the decision.
                let hash = secret.hash();
                let Some(found) = live.get(secret.id()).filter(|live| hash.equals(&live.hash)) else {
                    return of(RefusalReason::Unknown, Some(secret.id()));
                };
                Some(found)
            }
        };
        let Some(Live { caller, .. }) = found.map(|live| &**live) else {
            return of(RefusalReason::Unknown, request.certificate);
        };
        let reason = match caller {
            caller if !caller.is_valid(now_ms()) => RefusalReason::Expired,
            caller if caller.may_come_from(request.address).is_err() => RefusalReason::Network,
            caller if caller.may(request.access).is_err() => RefusalReason::Role,
            _ => return None,
        };
        let (token, organization) = (Some(caller.token_id.to_string()), caller.organization.clone());
        Some(RefusedCredentials { reason, token, organization })
    }

    /// Returns the caller for a client certificate that stands for the token with this id.
    pub fn authenticate_certificate(&self, id: &str) -> Result<Arc<Caller>, CallError> {
        let known = self.caller_with_id(id);
        known.ok_or_else(|| authentication_error("the token of the client certificate is not valid"))
    }

    /// Returns the caller of the token with this id, unless the token is revoked or has expired.
    pub fn caller_with_id(&self, id: &str) -> Option<Arc<Caller>> {
        self.live.load().get(id)?.use_at(now_ms())
    }

    /// The label of the token with this id, if it has one.
    pub fn label_of(&self, id: &str) -> Option<Arc<str>> {
        let live = self.live.load();
        live.get(id).map(|live| live.label.as_str()).filter(|label| !label.is_empty()).map(Into::into)
    }

    /// Creates a token, if `maker` has the permission to grant its role.
    pub async fn create(
        &self,
        maker: &Caller,
        wanted: NewToken,
        now_ms: u64,
    ) -> Result<MadeToken, CallError> {
        maker.may_issue(wanted.role, wanted.organization.as_ref())?;
        check(&wanted, now_ms)?;
        Ok(self.make(wanted, now_ms).await?)
    }

    /// Creates a token with the rights of a person who signed in, until the sign-in ends. Those of earlier sign-ins that ended are
    /// revoked, so that they do not pile up.
    pub async fn create_for_person(&self, person: &Caller, now_ms: u64) -> Result<MadeToken, CallError> {
        let person_id = &person.token_id;
        let label = person_id[..person_id.floor_char_boundary(LABEL_BYTES)].to_owned();
        let live = self.live.load_full();
        let is_ended = |live: &&Arc<Live>| live.label == label && !live.caller.is_valid(now_ms);
        for ended in live.values().filter(is_ended) {
            let _changing = self.changing.lock().await;
            self.store.revoke_token(&ended.caller.token_id, now_ms).await?;
            self.forget(&[ended.caller.token_id.to_string()]);
        }
        let wanted = NewToken {
            role: person.role,
            organization: person.organization.clone(),
            agents: person.agents.as_ref().map(|agents| agents.to_vec()),
            label,
            expires_ms: person.expires_ms,
            addresses: None,
            user: None,
        };
        Ok(self.make(wanted, now_ms).await?)
    }

    /// Revokes a token, effective when this call returns. A token of another organization is not found.
    pub async fn revoke(&self, caller: &Caller, id: &str, now_ms: u64) -> Result<(), CallError> {
        let organization = self.live.load().get(id).map(|live| live.caller.organization.clone());
        caller.may_see_token(id, organization.as_ref().map(Option::as_ref))?;
        let _changing = self.changing.lock().await;
        self.store.revoke_token(id, now_ms).await?;
        self.forget(&[id.to_owned()]);
        Ok(())
    }

    /// Removes tokens from memory that the store has revoked in another transaction.
    pub async fn drop_revoked(&self, ids: &[String]) {
        let _changing = self.changing.lock().await;
        self.forget(ids);
    }

    /// Lists the tokens that `caller` may see, oldest first, after the id `after`, at most `limit`.
    pub fn list(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TokenSummary>, CallError> {
        let scope = caller.token_scope()?;
        let live = self.live.load();
        let seen = live.values().filter(|live| scope.is_none() || scope == live.caller.organization.as_ref());
        let mut summaries: Vec<_> = seen.map(|live| live.summary()).collect();
        summaries.sort_by(|one, other| (one.created_ms, &one.id).cmp(&(other.created_ms, &other.id)));
        let start = match after {
            None => 0,
            Some(id) => summaries.iter().position(|summary| summary.id == id).map_or(0, |last| last + 1),
        };
        Ok(summaries.into_iter().skip(start).take(limit).collect())
    }

    /// On the first start, creates an operator token and writes it to `file`; returns whether it did. If any token
    /// was ever created, this creates none: otherwise the permission to delete a file would be enough to become
    /// operator.
    pub async fn make_first_token(&self, file: &Path, now_ms: u64) -> Result<bool, FirstTokenError> {
        if self.store.has_tokens().await? {
            return Ok(false);
        }
        let wanted = NewToken {
            role: Role::Operator,
            organization: None,
            agents: None,
            label: "made at the first start".into(),
            expires_ms: None,
            addresses: None,
            user: None,
        };
        // A start that was killed before it stored the token has left the file.
        let fresh = match read_token(file) {
            Some(secret) => Fresh::of(secret, wanted, now_ms),
            None => {
                let fresh = Fresh::new(wanted, now_ms)?;
                // The file is written first: a stored token that no file contains could not be created again.
                write_token(file, &fresh.secret)
                    .map_err(|source| FirstTokenError::File { path: file.to_owned(), source })?;
                fresh
            }
        };
        self.add(fresh).await?;
        Ok(true)
    }

    fn caller_of(&self, text: &str) -> Option<Arc<Caller>> {
        let secret = Secret::parse(text)?;
        let live = self.live.load();
        let found = live.get(secret.id());
        // An unknown id is hashed and compared as well, so that timing reveals nothing.
        let expected = found.map_or(TokenHash::NOBODYS, |live| live.hash);
        let matches = secret.hash().equals(&expected);
        found.filter(|_| matches)?.use_at(now_ms())
    }

    /// Stores when tokens were last used, of those that were used since the last time.
    pub async fn store_last_use(&self) -> Result<(), StoreError> {
        let (since_ms, now_ms) = (self.use_stored_ms.load(Ordering::Relaxed), now_ms());
        let live = self.live.load_full();
        let used = live.iter().map(|(id, live)| (id.clone(), live.last_used_ms.load(Ordering::Relaxed)));
        let used: Vec<(String, u64)> = used.filter(|(_, at_ms)| *at_ms >= since_ms).collect();
        self.store.note_token_use(&used).await?;
        self.use_stored_ms.store(now_ms, Ordering::Relaxed);
        Ok(())
    }

    async fn make(&self, wanted: NewToken, now_ms: u64) -> Result<MadeToken, FirstTokenError> {
        let fresh = Fresh::new(wanted, now_ms)?;
        Ok(self.add(fresh).await?)
    }

    async fn add(&self, fresh: Fresh) -> Result<MadeToken, StoreError> {
        let _changing = self.changing.lock().await;
        self.store.add_token(&fresh.row).await?;
        let live = Arc::new(read(fresh.row)?);
        let summary = live.summary();
        self.live.rcu(|tokens| {
            let mut tokens = HashMap::clone(tokens);
            tokens.insert(summary.id.clone(), live.clone());
            tokens
        });
        Ok(MadeToken { summary, secret: fresh.secret })
    }

    fn forget(&self, ids: &[String]) {
        let before = self.live.rcu(|tokens| {
            let mut tokens = HashMap::clone(tokens);
            tokens.retain(|id, _| !ids.contains(id));
            tokens
        });
        let gone = ids.iter().filter_map(|id| before.get(id));
        gone.for_each(|live| live.caller.revoked.cancel());
    }
}

/// A token that is not stored yet.
struct Fresh {
    row: TokenRow,
    secret: Secret,
}

impl Fresh {
    fn new(wanted: NewToken, now_ms: u64) -> Result<Self, FirstTokenError> {
        let secret = Secret::random().ok_or(FirstTokenError::Random)?;
        Ok(Self::of(secret, wanted, now_ms))
    }

    fn of(secret: Secret, wanted: NewToken, now_ms: u64) -> Self {
        let row = TokenRow {
            id: secret.id().to_owned(),
            hash: secret.hash().to_hex(),
            role: wanted.role.as_str().to_owned(),
            organization: wanted.organization,
            agents: wanted.agents,
            label: wanted.label,
            created_ms: now_ms,
            revoked_ms: None,
            expires_ms: wanted.expires_ms,
            addresses: wanted.addresses,
            user: wanted.user,
            last_used_ms: None,
        };
        Self { row, secret }
    }
}

impl Live {
    /// The caller, unless its token has expired.
    fn use_at(&self, now_ms: u64) -> Option<Arc<Caller>> {
        self.caller.is_valid(now_ms).then(|| {
            self.last_used_ms.store(now_ms, Ordering::Relaxed);
            Arc::clone(&self.caller)
        })
    }

    fn summary(&self) -> TokenSummary {
        TokenSummary {
            id: self.caller.token_id.to_string(),
            role: self.caller.role,
            organization: self.caller.organization.clone(),
            agents: self.caller.agents.as_deref().map(<[Name]>::to_vec),
            label: self.label.clone(),
            created_ms: self.created_ms,
            expires_ms: self.caller.expires_ms,
            addresses: self.caller.addresses.as_deref().map(<[Network]>::to_vec),
            user: self.caller.user.as_deref().map(str::to_owned),
            last_used_ms: Some(self.last_used_ms.load(Ordering::Relaxed)).filter(|at_ms| *at_ms > 0),
        }
    }
}

fn read(row: TokenRow) -> Result<Live, StoreError> {
    let hash = TokenHash::from_hex(&row.hash)
        .ok_or_else(|| StoreError::corrupt("a hash in `tokens` cannot be read"))?;
    let caller = Caller {
        token_id: row.id.into(),
        role: Role::parse(&row.role)
            .ok_or_else(|| StoreError::corrupt("a role in `tokens` cannot be read"))?,
        organization: row.organization,
        agents: row.agents.map(Arc::from),
        revoked: CancellationToken::new(),
        expires_ms: row.expires_ms,
        addresses: row.addresses.map(Arc::from),
        user: row.user.map(Arc::from),
    };
    let last_used_ms = AtomicU64::new(row.last_used_ms.unwrap_or(0));
    Ok(Live { last_used_ms, hash, caller: Arc::new(caller), label: row.label, created_ms: row.created_ms })
}

/// Parses a `Bearer` header (RFC 6750); the scheme is case-insensitive.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

fn check(wanted: &NewToken, now_ms: u64) -> Result<(), CallError> {
    let refuse = |message: &str, hint: &str| Err(CallError::new(ErrorType::InvalidRequest, message, hint));
    let role = wanted.role.as_str();
    match (wanted.role, &wanted.organization) {
        (Role::Operator, Some(_)) => {
            return refuse(
                "an operator's token is for the whole platform",
                "leave `organization` out, or make an `owner`",
            );
        }
        (Role::Owner | Role::Orchestrator | Role::Agent | Role::Approver, None) => {
            return refuse(
                &format!("a token of role `{role}` needs its organization"),
                "say which in `organization`",
            );
        }
        _ => {}
    }
    if wanted.label.len() > LABEL_BYTES {
        let message = format!("`label` has {} bytes and may have {LABEL_BYTES}", wanted.label.len());
        return refuse(&message, "say it in fewer words");
    }
    if wanted.expires_ms.is_some_and(|end| end <= now_ms) {
        return refuse(
            "`expires_at` is not in the future",
            "name a time in milliseconds since 1970, or leave it out",
        );
    }
    if wanted.addresses.as_ref().is_some_and(|networks| networks.is_empty() || networks.len() > ADDRESSES) {
        let hint = "leave `addresses` out for every address, or name at most 64 networks";
        return refuse("`addresses` has no entry, or too many", hint);
    }
    if let Some(user) = &wanted.user {
        if wanted.role != Role::Agent {
            return refuse(
                &format!("a token of role `{role}` acts for no user of its own"),
                "leave `user` out; an orchestrator names the user of each session",
            );
        }
        if user.is_empty() || user.len() > USER_BYTES || user.chars().any(char::is_control) {
            return refuse("`user` is no id", "write 1 to 255 bytes without control characters");
        }
    }
    match &wanted.agents {
        agents if wanted.role == Role::Agent => match agents.as_deref() {
            Some([_]) => Ok(()),
            _ => refuse("a token of role `agent` is for one agent", "name one in `agents`"),
        },
        Some(_) if wanted.role != Role::Orchestrator => refuse(
            &format!("a token of role `{role}` cannot be for single agents"),
            "leave `agents` out, or make an `orchestrator`",
        ),
        Some(agents) if agents.is_empty() => refuse(
            "`agents` is empty, so the token could not be used",
            "leave `agents` out for all agents, or name some",
        ),
        Some(agents) if agents.len() > AGENTS => refuse(
            &format!("`agents` has {} entries and may have {AGENTS}", agents.len()),
            "leave `agents` out for all agents, or make more tokens",
        ),
        _ => Ok(()),
    }
}

/// Writes the token to a temporary file and links it, so that the file appears with the whole token or not at all,
/// and an existing file is never overwritten.
fn write_token(file: &Path, secret: &Secret) -> io::Result<()> {
    let draft = file.with_extension("token.new");
    // A leftover draft comes from a start that ended before it linked its token.
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    writeln!(out, "{}", secret.text())?;
    out.sync_all()?;
    let linked = std::fs::hard_link(&draft, file);
    std::fs::remove_file(&draft)?;
    linked?;
    // Without its name on disk, a power failure would leave a stored token that no file contains.
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads the token of a private file; `None` if there is none, or something else.
fn read_token(file: &Path) -> Option<Secret> {
    let opened = File::open(file).ok()?;
    let found = opened.metadata().ok()?;
    let is_private = found.is_file() && found.permissions().mode() & 0o077 == 0;
    let mut text = String::new();
    opened.take(TOKEN_FILE_BYTES).read_to_string(&mut text).ok().filter(|_| is_private)?;
    Secret::parse(text.trim_end())
}

fn authentication_error(message: &str) -> CallError {
    CallError::new(
        ErrorType::Unauthenticated,
        message,
        "send `Authorization: Bearer TOKEN` with a token that is not revoked",
    )
}

#[cfg(test)]
mod tests;
