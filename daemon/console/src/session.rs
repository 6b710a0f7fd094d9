//! Sessions of the console: a random cookie that stands for a token, or for a person whom a provider knows.
//!
//! Sessions are in memory only, by the hash of their cookie, so neither a dump of the store nor a backup has one. A
//! restart signs every user out.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::hex;
use toolgate_api::name::Name;
use toolgate_audit::sha256;
use toolgate_core::identity::Caller;
use toolgate_core::registry::Registry;
use toolgate_state::config::Config;

/// Bytes of a cookie, and of the key of CSRF tokens.
const RANDOM_BYTES: usize = 32;

/// Most sessions of one token or person. The oldest ends where another begins.
const SESSIONS_PER_TOKEN: usize = 8;

/// The message that a CSRF token signs.
const CSRF_MESSAGE: &[u8] = b"form";

/// The SHA-256 of a cookie.
pub(super) type SessionHash = [u8; 32];

/// The sessions, with the form of their cookie.
pub(super) struct ConsoleSessions {
    sessions: Mutex<HashMap<SessionHash, Session>>,
    idle_ms: u64,
    longest_ms: u64,
    /// Longest session of a person, whose role the provider decides.
    longest_of_person_ms: u64,
    is_secure: bool,
}

struct Session {
    who: SignedIn,
    csrf_key: hmac::Key,
    created_ms: u64,
    used_ms: u64,
}

/// The identity of a session.
#[derive(Clone)]
pub(super) enum SignedIn {
    /// The id of a token, which is looked up at each request.
    Token(Arc<str>),
    Person(Person),
}

/// A person whom a provider knows. The end of the session revokes the caller, and so does that of the organization.
#[derive(Clone)]
pub(super) struct Person {
    pub caller: Arc<Caller>,
    /// What the provider calls the person.
    pub name: Option<Arc<str>>,
    _end: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Person {
    /// A person whose organization is known to the registry. Another one that gets its name later is none of this person's.
    pub(super) fn new(caller: Arc<Caller>, name: Option<String>, registry: &Registry) -> Self {
        let end = caller.organization.clone().map(|organization| {
            let ending = revoke_with(registry.clone(), organization, caller.revoked.clone());
            Arc::new(AbortOnDropHandle::new(tokio::spawn(ending)))
        });
        Self { caller, name: name.map(Into::into), _end: end }
    }
}

async fn revoke_with(registry: Registry, organization: Name, revoked: CancellationToken) {
    let mut changes = registry.changes();
    while registry.snapshot().knows(&organization) {
        if changes.changed().await.is_err() {
            return;
        }
    }
    revoked.cancel();
}

impl SignedIn {
    /// The principal, which has a limited number of sessions.
    fn principal(&self) -> &str {
        match self {
            Self::Token(id) => id,
            Self::Person(person) => &person.caller.token_id,
        }
    }
}

/// Ends streams and tasks that outlive their request.
impl Drop for Session {
    fn drop(&mut self) {
        if let SignedIn::Person(person) = &self.who {
            person.caller.revoked.cancel();
        }
    }
}

/// A session that has not ended.
pub(super) struct LiveSession {
    pub hash: SessionHash,
    pub who: SignedIn,
    /// The key of its CSRF token.
    csrf_key: hmac::Key,
}

impl LiveSession {
    /// The CSRF token of the session's forms.
    pub(super) fn csrf(&self) -> String {
        hex::encode(hmac::sign(&self.csrf_key, CSRF_MESSAGE).as_ref())
    }

    /// Compares a CSRF token in constant time.
    pub(super) fn is_csrf(&self, sent: &str) -> bool {
        hex::decode(sent.as_bytes())
            .is_some_and(|tag| hmac::verify(&self.csrf_key, CSRF_MESSAGE, &tag).is_ok())
    }
}

impl ConsoleSessions {
    pub(super) fn new(config: &Config) -> Self {
        let console = &config.console;
        Self {
            sessions: Mutex::default(),
            idle_ms: console.idle_seconds.saturating_mul(1_000),
            longest_ms: console.longest_seconds.saturating_mul(1_000),
            longest_of_person_ms: console.person_seconds().saturating_mul(1_000),
            is_secure: is_secure(config),
        }
    }

    /// Begins a session. Returns the `Set-Cookie` header; the id is always new, so that none can be fixed before.
    pub(super) fn begin(&self, who: SignedIn, now_ms: u64) -> Result<String, CallError> {
        let (cookie, csrf_key) = (random()?, random()?);
        let text = BASE64_URL_SAFE_NO_PAD.encode(cookie);
        let csrf_key = hmac::Key::new(hmac::HMAC_SHA256, &csrf_key);
        let session = Session { who, csrf_key, created_ms: now_ms, used_ms: now_ms };
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| self.is_live(session, now_ms));
        let principal = session.who.principal();
        let own = sessions.iter().filter(|(_, session)| session.who.principal() == principal);
        let mut own: Vec<_> = own.map(|(hash, session)| (session.created_ms, *hash)).collect();
        own.sort_unstable();
        let surplus = (own.len() + 1).saturating_sub(SESSIONS_PER_TOKEN);
        for (_, hash) in own.iter().take(surplus) {
            sessions.remove(hash);
        }
        sessions.insert(hash_of(&text), session);
        Ok(self.cookie(&text, self.longest_ms / 1_000))
    }

    /// Returns the session of a request's `Cookie` headers. A use extends it, unless it is of the page's script.
    pub(super) fn find<'a>(
        &self,
        cookies: impl Iterator<Item = &'a str>,
        is_use: bool,
        now_ms: u64,
    ) -> Option<LiveSession> {
        let hash = hash_of(cookie_value(cookies, self.cookie_name())?);
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(&hash)?;
        if !self.is_live(session, now_ms) {
            sessions.remove(&hash);
            return None;
        }
        if is_use {
            session.used_ms = now_ms;
        }
        let (who, csrf_key) = (session.who.clone(), session.csrf_key.clone());
        Some(LiveSession { hash, who, csrf_key })
    }

    /// Whether a session has not ended. To ask is no use of it.
    pub(super) fn is_open(&self, hash: &SessionHash, now_ms: u64) -> bool {
        self.sessions.lock().get(hash).is_some_and(|session| self.is_live(session, now_ms))
    }

    /// Ends a session. Returns the `Set-Cookie` header that removes its cookie.
    pub(super) fn end(&self, hash: &SessionHash) -> String {
        self.sessions.lock().remove(hash);
        self.cookie("", 0)
    }

    /// The `Set-Cookie` header of a sign-in that waits for its provider. It is sent to the pages of the sign-in alone where the
    /// browser allows that.
    pub(super) fn begin_sign_in(&self, value: &str, seconds: u64) -> String {
        let place = if self.is_secure { "Path=/; Secure" } else { "Path=/console/sign-in" };
        let name = self.sign_in_cookie_name();
        format!("{name}={value}; {place}; Max-Age={seconds}; HttpOnly; SameSite=Strict")
    }

    /// The `Set-Cookie` header that removes the cookie of a sign-in.
    pub(super) fn end_sign_in(&self) -> String {
        self.begin_sign_in("", 0)
    }

    /// The cookie of a sign-in that waits for its provider.
    pub(super) fn find_sign_in<'a>(&self, cookies: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        cookie_value(cookies, self.sign_in_cookie_name())
    }

    /// The time at which the session of a person that begins now ends at the latest.
    pub(super) fn end_of_person_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_add(self.longest_of_person_ms)
    }

    fn sign_in_cookie_name(&self) -> &'static str {
        if self.is_secure { "__Host-toolgate-sign-in" } else { "toolgate-sign-in" }
    }

    fn is_live(&self, session: &Session, now_ms: u64) -> bool {
        now_ms.saturating_sub(session.used_ms) < self.idle_ms
            && now_ms.saturating_sub(session.created_ms) < self.longest_ms
    }

    /// Browsers take a cookie with the prefix only over TLS, with `Secure` and `Path=/`, and of no other host.
    fn cookie_name(&self) -> &'static str {
        if self.is_secure { "__Host-toolgate-console" } else { "toolgate-console" }
    }

    fn cookie(&self, value: &str, seconds: u64) -> String {
        let name = self.cookie_name();
        let place = if self.is_secure { "Path=/; Secure" } else { "Path=/console" };
        format!("{name}={value}; {place}; Max-Age={seconds}; HttpOnly; SameSite=Strict")
    }
}

/// Whether browsers use TLS: all but those on this machine, where no proxy in front is configured.
fn is_secure(config: &Config) -> bool {
    let public_url = config.credentials.public_url.as_deref().and_then(|url| url::Url::parse(url).ok());
    config.tls.certificate.is_some()
        || config.insecure_listen
        || !config.listen.is_local()
        || public_url.is_some_and(|url| url.scheme() == "https")
        || !config.hosts().iter().all(|host| is_loopback(host))
}

fn is_loopback(host: &str) -> bool {
    match url::Host::parse(host) {
        Ok(url::Host::Domain(name)) => name == "localhost",
        Ok(url::Host::Ipv4(address)) => address.is_loopback(),
        Ok(url::Host::Ipv6(address)) => address.is_loopback(),
        Err(_) => false,
    }
}

/// The value of the cookie; none if it is there twice, since another site of the host can add one.
fn cookie_value<'a>(cookies: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    values.next().filter(|_| values.next().is_none())
}

fn hash_of(cookie: &str) -> SessionHash {
    sha256(cookie.as_bytes()).0
}

fn random() -> Result<[u8; RANDOM_BYTES], CallError> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        CallError::new(ErrorType::Unavailable, "the system gives no random bytes", "try again later")
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use tokio::time::timeout;
    use toolgate_api::limits::LimitsPatch;

    use super::*;

    fn sessions() -> ConsoleSessions {
        let text = "[console]\nidle_seconds = 60\nlongest_seconds = 120\n";
        ConsoleSessions::new(&Config::parse(text, Path::new("test.toml")).expect("settings"))
    }

    fn begin(sessions: &ConsoleSessions, now_ms: u64) -> String {
        let cookie = sessions.begin(SignedIn::Token("t".into()), now_ms).expect("a session");
        cookie.split(';').next().unwrap_or_default().to_owned()
    }

    fn is_live(sessions: &ConsoleSessions, cookie: &str, is_use: bool, now_ms: u64) -> bool {
        sessions.find([cookie].into_iter(), is_use, now_ms).is_some()
    }

    #[test]
    fn a_session_ends_when_it_is_idle_or_too_long() {
        let sessions = sessions();
        let cookie = begin(&sessions, 0);
        assert!(is_live(&sessions, &cookie, true, 59_000));
        assert!(is_live(&sessions, &cookie, true, 118_000));
        assert!(!is_live(&sessions, &cookie, true, 120_000), "longest");
        let cookie = begin(&sessions, 0);
        assert!(is_live(&sessions, &cookie, false, 59_000), "a refresh is no use");
        let hash = hash_of(cookie.split_once('=').expect("a pair").1);
        assert!(sessions.is_open(&hash, 59_000) && !sessions.is_open(&hash, 60_000), "of its streams");
        assert!(!is_live(&sessions, &cookie, false, 60_000), "idle");
    }

    #[test]
    fn o6_a_person_signs_in_again_after_a_time_of_their_own() {
        let end_ms = |own: &str, longest: &str| {
            let text = format!(
                "[console]\n{longest}\n[console.oidc]\nissuer = \"https://login.example\"\nclient_id = \"toolgate\"\n{own}\n\
                 [[console.oidc.roles]]\nvalue = \"a\"\nrole = \"operator\"\n"
            );
            ConsoleSessions::new(&Config::parse(&text, Path::new("test.toml")).expect("settings"))
                .end_of_person_ms(5)
        };
        assert_eq!(end_ms("", ""), 3_600_005);
        assert_eq!(end_ms("session_seconds = 7200", ""), 7_200_005);
        assert_eq!(end_ms("session_seconds = 7200", "longest_seconds = 60"), 60_005);
    }

    #[test]
    fn a_token_has_a_limited_number_of_sessions_and_the_oldest_ends() {
        let sessions = sessions();
        let cookies: Vec<String> = (0..=SESSIONS_PER_TOKEN as u64).map(|ms| begin(&sessions, ms)).collect();
        assert!(!is_live(&sessions, &cookies[0], true, 100));
        assert!(cookies[1..].iter().all(|cookie| is_live(&sessions, cookie, true, 100)));
    }

    #[test]
    fn a_session_that_was_ended_and_a_cookie_that_is_there_twice_are_not_found() {
        let sessions = sessions();
        let cookie = begin(&sessions, 0);
        assert!(sessions.find([cookie.as_str(), "toolgate-console=x"].into_iter(), true, 1).is_none());
        let live = sessions.find(["a=b; ", cookie.as_str()].into_iter(), true, 1).expect("live");
        assert!(sessions.end(&live.hash).contains("Max-Age=0"));
        assert!(!is_live(&sessions, &cookie, true, 2));
    }

    #[tokio::test]
    async fn o6_a_person_ends_with_the_organization_also_where_another_one_gets_its_name() {
        let registry = Registry::new(LimitsPatch::default(), Default::default());
        let acme = Name::parse("acme").expect("a name");
        registry.put_organization(acme.clone(), Default::default());
        let person = |organization: Option<Name>| {
            let caller = Caller { organization, ..Caller::daemon() };
            Person::new(Arc::new(caller), None, &registry)
        };
        let (bob, ann) = (person(Some(acme.clone())), person(None));
        registry.put_organization(acme.clone(), Default::default());
        tokio::task::yield_now().await;
        assert!(!bob.caller.revoked.is_cancelled(), "a change of the organization");
        registry.remove_organization(&acme);
        timeout(Duration::from_secs(10), bob.caller.revoked.cancelled()).await.expect("revoked");
        registry.put_organization(acme, Default::default());
        assert!(!bob.caller.is_valid(0) && ann.caller.is_valid(0));
    }

    #[test]
    fn a_csrf_token_is_of_one_session() {
        let sessions = sessions();
        let (one, other) = (begin(&sessions, 0), begin(&sessions, 0));
        let live = |cookie: &str| sessions.find([cookie].into_iter(), true, 1).expect("live");
        let (one, other) = (live(&one), live(&other));
        assert!(one.is_csrf(&one.csrf()));
        assert!(!other.is_csrf(&one.csrf()));
        assert!(!one.is_csrf("") && !one.is_csrf("x"));
    }

    #[test]
    fn a_cookie_is_secure_unless_the_listener_is_plain_on_loopback() {
        let cookie = |text: &str| {
            let config = Config::parse(text, Path::new("test.toml")).expect("settings");
            ConsoleSessions::new(&config).begin(SignedIn::Token("t".into()), 0).expect("a session")
        };
        let plain = cookie("");
        assert!(plain.starts_with("toolgate-console=") && !plain.contains("Secure"), "{plain}");
        let local = cookie("allowed_hosts = [\"localhost\", \"127.0.0.1\", \"[::1]\"]\n");
        assert!(local.starts_with("toolgate-console="), "{local}");
        assert!(
            plain.contains("; Path=/console;") && plain.contains("; HttpOnly; SameSite=Strict"),
            "{plain}"
        );
        let public_url =
            "allowed_hosts = [\"localhost\"]\n[credentials]\npublic_url = \"https://localhost\"\n";
        for text in [
            "insecure_listen = true\nlisten = \"0.0.0.0:7300\"\n",
            "allowed_hosts = [\"localhost\", \"tools.example\"]\n",
            public_url,
        ] {
            let proxied = cookie(text);
            assert!(proxied.starts_with("__Host-toolgate-console="), "{text}: {proxied}");
            for part in ["; Path=/; Secure;", "; HttpOnly; SameSite=Strict"] {
                assert!(proxied.contains(part), "{text}: {proxied}");
            }
            assert!(!proxied.contains("Domain"), "{text}: {proxied}");
        }
    }
}
