//! The clients of the MCP server, and the session in which each makes its calls.
//!
//! A client of revision 2026-07-28 has no session of its own, so all requests of one token for one agent share one. In older
//! revisions each `initialize` begins a session, whose id works for the same token and agent alone. With a conversation in the
//! address, all requests of it share one session in each revision. A session opens with the first call, so that a flood of
//! `initialize` opens none, and a client that comes back after a restart goes on with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::Semaphore;
use toolgate_admission::SessionFacts;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_audit::{Sha256, sha256};
use toolgate_core::admin::Actor;
use toolgate_core::dispatch::MCP;
use toolgate_core::identity::Caller;
use toolgate_core::sessions::{Session, SessionSetup};
use toolgate_state::clock::now_ms;
use toolgate_state::identifier;

use super::ToolsShown;
use super::tasks::Tasks;
use crate::problem::Problem;
use crate::sessions::open;
use crate::state::App;
use crate::tools::VisibleTool;

/// Calls of a session whose ids are remembered while they wait.
const WAITING_CALLS: usize = 256;

/// Calls after which a client gets a new session: fewer than a session remembers.
const CALLS_PER_SESSION: u64 = 30_000;

/// Sessions of one token in older revisions. The oldest gives way to a new one.
const SESSIONS_PER_TOKEN: usize = 64;

/// The conversation of the session that requests without one share.
const SHARED: &str = "mcp";

/// Sessions of one organization in older revisions, since it may have any number of tokens.
const SESSIONS_PER_ORGANIZATION: usize = 1_024;

/// The sender of a request, and its agent. An extension of the request.
#[derive(Clone)]
pub(super) struct Client {
    pub app: App,
    pub clients: Arc<Clients>,
    pub caller: Arc<Caller>,
    pub organization: Name,
    pub agent: Name,
    pub channel: Option<String>,
    /// The user that the client's program acts for.
    pub user: Option<String>,
    /// The conversation in the address.
    pub conversation: Option<String>,
    pub shown: ToolsShown,
    /// How long a call waits for a person, in milliseconds, as the address says.
    pub wait_ms: Option<u64>,
    /// The id of a session of an older revision; empty in the newer one.
    pub mcp_session: Arc<str>,
}

/// The key of a client: its token, and whose tools it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    token: Arc<str>,
    organization: Name,
    agent: Name,
    channel: Option<String>,
    user: Option<String>,
}

/// The place of a client's session; empty until its first call.
type Place = Arc<tokio::sync::Mutex<Option<Arc<Opened>>>>;

/// The known clients.
pub(super) struct Clients {
    /// The sessions of older revisions.
    mcp_sessions: Arc<LocalSessionManager>,
    bound: Mutex<BoundSessions>,
    /// The session of each client. Opening one delays no other client.
    open: Mutex<HashMap<(Key, Arc<str>), Place>>,
}

/// The sessions of older revisions with their clients, the oldest first.
#[derive(Default)]
struct BoundSessions(Vec<BoundSession>);

struct BoundSession {
    id: Arc<str>,
    owner: Key,
    /// Whether its client resumes streams.
    resumes: bool,
    /// Whether a task tells the client of changes of its list.
    is_followed: bool,
}

/// A tool and its arguments, by their hash: the arguments can have megabytes.
pub(super) type CallKey = Sha256;

/// The key of a call of this tool with these arguments.
pub(super) fn call_key(tool: &str, arguments: &str) -> CallKey {
    // No name of a tool has a NUL.
    sha256(&[tool.as_bytes(), &[0], arguments.as_bytes()].concat())
}

/// An open session.
pub(super) struct Opened {
    calls: AtomicU64,
    pub session: Arc<Session>,
    /// The ids of calls that wait for a person, by tool and arguments: a client that calls again means the same call.
    pub waiting: Mutex<HashMap<CallKey, String>>,
    /// Permits of calls whose requests wait for a person. In older revisions they go on waiting when their client disconnects.
    pub waits: Semaphore,
    /// The tasks of the client. They outlive the session, which gives way to another after many calls.
    pub tasks: Arc<Tasks>,
}

impl Opened {
    /// Remembers a call that waits. A client that leaves too many behind begins anew.
    pub(super) fn remember(&self, call: CallKey, id: String) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_CALLS {
            waiting.clear();
        }
        waiting.insert(call, id);
    }
}

impl Client {
    fn key(&self) -> Key {
        Key {
            token: Arc::clone(&self.caller.token_id),
            organization: self.organization.clone(),
            agent: self.agent.clone(),
            channel: self.channel.clone(),
            user: self.user.clone(),
        }
    }

    /// The conversation of the client's session: that of the address, else of the MCP session, else the shared one.
    fn conversation(&self) -> Arc<str> {
        match &self.conversation {
            Some(conversation) => conversation.as_str().into(),
            None if self.mcp_session.is_empty() => SHARED.into(),
            None => Arc::clone(&self.mcp_session),
        }
    }

    pub(super) fn actor(&self) -> Actor<'_> {
        Actor { caller: &self.caller, source: MCP }
    }

    /// The callable tools, in the order of their names.
    pub(super) async fn tools(&self) -> Vec<VisibleTool> {
        let registry = &self.app.services().registry;
        registry.wait_for_tools_of(&self.organization, &self.agent).await;
        let facts = match self.clients.session_of(self).await {
            Some(opened) => opened.session.state.facts(),
            None => Arc::new(SessionFacts { channel: self.channel.clone(), ..SessionFacts::default() }),
        };
        let rules = registry.snapshot().rules(&self.organization, &self.agent);
        let mut tools = rules.map(|rules| VisibleTool::all(&rules, &facts)).unwrap_or_default();
        tools.sort_by(|left, right| left.name().cmp(right.name()));
        tools
    }

    /// The session of the client; it is opened if there is none.
    pub(super) async fn session(&self) -> Result<Arc<Opened>, Problem> {
        let place = self.clients.place_of(self);
        let mut place = place.lock().await;
        if let Some(opened) = place.as_ref().filter(|opened| self.has_room(opened)) {
            opened.session.touch(now_ms());
            return Ok(Arc::clone(opened));
        }
        let earlier = if place.is_none() { self.earlier_session() } else { None };
        let session = match earlier {
            Some(session) => session,
            None => {
                let setup = SessionSetup {
                    id: identifier::fresh("s"),
                    organization: self.organization.clone(),
                    agent: self.agent.clone(),
                    user: self.user.clone(),
                    conversation: Some(self.conversation().to_string()),
                    channel: self.channel.clone(),
                    principal: self.caller.token_id.to_string(),
                    created_ms: now_ms(),
                };
                open(&self.app, self.actor(), setup).await?.0
            }
        };
        let tasks = place.as_ref().map(|opened| Arc::clone(&opened.tasks)).unwrap_or_default();
        let (waiting, waits) = (Mutex::default(), Semaphore::new(WAITING_CALLS));
        let opened = Arc::new(Opened { calls: AtomicU64::new(1), session, waiting, waits, tasks });
        *place = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The open session of the client's conversation of an earlier run of the daemon.
    fn earlier_session(&self) -> Option<Arc<Session>> {
        let conversation = self.conversation();
        let is_own = |session: &Session| {
            let setup = &session.setup;
            setup.organization == self.organization
                && setup.agent == self.agent
                && setup.channel == self.channel
                && setup.user == self.user
                && setup.conversation.as_deref() == Some(&*conversation)
                && *setup.principal == *self.caller.token_id
        };
        let sessions = self.app.services().sessions.filter(is_own).into_iter();
        sessions.filter(|session| self.is_open(session)).max_by_key(|session| session.last_used_ms())
    }

    /// The tasks of the client; none before its first call.
    pub(super) async fn tasks(&self) -> Arc<Tasks> {
        let opened = self.clients.session_of(self).await;
        opened.map(|opened| Arc::clone(&opened.tasks)).unwrap_or_default()
    }

    /// Whether the session takes one more call.
    fn has_room(&self, opened: &Opened) -> bool {
        opened.calls.fetch_add(1, Ordering::Relaxed) < CALLS_PER_SESSION && self.is_open(&opened.session)
    }

    /// Whether the session can take calls: it has neither ended nor been idle for too long.
    fn is_open(&self, session: &Session) -> bool {
        let idle_ms = now_ms().saturating_sub(session.last_used_ms());
        self.app.services().sessions.find(&session.setup.id).is_some()
            && idle_ms < self.app.settings().sessions.idle_seconds.saturating_mul(1000)
    }
}

impl Clients {
    pub(super) fn new(mcp_sessions: Arc<LocalSessionManager>) -> Self {
        Self { mcp_sessions, bound: Mutex::default(), open: Mutex::default() }
    }

    /// Whether a session of an older revision is this client's.
    pub(super) fn is_session_of(&self, id: &str, client: &Client) -> bool {
        let key = client.key();
        self.bound.lock().0.iter().any(|session| *session.id == *id && session.owner == key)
    }

    /// Whether the client of a session of an older revision resumes streams.
    pub(super) fn resumes(&self, id: &str) -> bool {
        self.bound.lock().0.iter().any(|session| *session.id == *id && session.resumes)
    }

    /// Whether the caller is the first to follow the list of this client, as a task of each message would be too many.
    pub(super) fn begin_following(&self, client: &Client) -> bool {
        self.bound.lock().begin_following(&client.mcp_session)
    }

    /// Binds a session of an older revision to its client, which resumes streams or does not.
    pub(super) async fn bind(&self, id: &str, client: &Client, resumes: bool) {
        let (id, key) = (Arc::<str>::from(id), client.key());
        // Before the first wait: a client that disconnects meanwhile leaves no session that is not counted.
        if !self.bound.lock().add(&id, &key, resumes) {
            return;
        }
        let known: Vec<Arc<str>> =
            self.bound.lock().0.iter().map(|session| Arc::clone(&session.id)).collect();
        // Sessions that were idle for too long are gone.
        let mut gone = Vec::new();
        for id in known {
            if !self.mcp_sessions.has_session(&Arc::clone(&id)).await.unwrap_or(false) {
                gone.push(id);
            }
        }
        let surplus = {
            let mut bound = self.bound.lock();
            bound.0.retain(|session| !gone.contains(&session.id));
            bound.remove_surplus(&key)
        };
        for id in surplus {
            let _ = self.mcp_sessions.close_session(&id).await;
        }
    }

    /// Ends the session of a client of an older revision. The session of a conversation goes on.
    pub(super) async fn end(&self, client: &Client) -> Result<(), CallError> {
        self.bound.lock().0.retain(|session| session.id != client.mcp_session);
        if client.conversation.is_some() {
            return Ok(());
        }
        let place = self.open.lock().remove(&(client.key(), client.conversation()));
        let opened = match place {
            Some(place) => place.lock().await.take(),
            None => None,
        };
        match opened {
            Some(opened) if client.is_open(&opened.session) => {
                client.app.admin().end_session(client.actor(), &opened.session).await
            }
            _ => Ok(()),
        }
    }

    async fn session_of(&self, client: &Client) -> Option<Arc<Opened>> {
        let place = self.open.lock().get(&(client.key(), client.conversation())).cloned();
        place?.lock().await.clone()
    }

    /// The place of the client's session. A new place removes those whose sessions have ended.
    fn place_of(&self, client: &Client) -> Place {
        let key = (client.key(), client.conversation());
        let mut places = self.open.lock();
        if let Some(place) = places.get(&key) {
            return Arc::clone(place);
        }
        let is_open = |opened: &Option<Arc<Opened>>| {
            opened.as_ref().is_some_and(|opened| client.is_open(&opened.session))
        };
        // A place that is locked is in use.
        places.retain(|_, place| place.try_lock().map_or(true, |opened| is_open(&opened)));
        Arc::clone(places.entry(key).or_default())
    }
}

impl BoundSessions {
    /// Adds a session. Returns false where it is known.
    fn add(&mut self, id: &Arc<str>, owner: &Key, resumes: bool) -> bool {
        let is_new = self.0.iter().all(|session| session.id != *id);
        if is_new {
            let (id, owner) = (Arc::clone(id), owner.clone());
            self.0.push(BoundSession { id, owner, resumes, is_followed: false });
        }
        is_new
    }

    /// Marks a session as followed. Returns false where it is already, or is unknown.
    fn begin_following(&mut self, id: &str) -> bool {
        let session = self.0.iter_mut().find(|session| *session.id == *id);
        session.is_some_and(|session| !std::mem::replace(&mut session.is_followed, true))
    }

    /// Removes the oldest sessions over the limits of the owner's token and organization. Returns their ids.
    fn remove_surplus(&mut self, owner: &Key) -> Vec<Arc<str>> {
        let of_token = |session: &BoundSession| session.owner.token == owner.token;
        let of_organization = |session: &BoundSession| session.owner.organization == owner.organization;
        let mut removed = self.remove_oldest(SESSIONS_PER_TOKEN, of_token);
        removed.extend(self.remove_oldest(SESSIONS_PER_ORGANIZATION, of_organization));
        removed
    }

    fn remove_oldest(&mut self, most: usize, is_counted: impl Fn(&BoundSession) -> bool) -> Vec<Arc<str>> {
        let counted = self.0.iter().filter(|session| is_counted(session)).count();
        let mut surplus = counted.saturating_sub(most);
        let mut removed = Vec::new();
        self.0.retain(|session| {
            let is_surplus = surplus > 0 && is_counted(session);
            if is_surplus {
                surplus -= 1;
                removed.push(Arc::clone(&session.id));
            }
            !is_surplus
        });
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(organization: &str, token: &str) -> Key {
        let name = |text| Name::parse(text).expect("a name");
        let (organization, agent) = (name(organization), name("bot"));
        Key { token: token.into(), organization, agent, channel: None, user: None }
    }

    #[test]
    fn m2_the_oldest_sessions_of_a_token_and_of_an_organization_give_way() {
        let mut bound = BoundSessions::default();
        let mut add = |organization: &str, token: usize, number: usize| {
            let owner = key(organization, &format!("t{token}"));
            assert!(bound.add(&format!("{organization}-{token}-{number}").into(), &owner, true));
            bound.remove_surplus(&owner)
        };
        assert!(add("rival", 0, 0).is_empty());
        let tokens = SESSIONS_PER_ORGANIZATION / SESSIONS_PER_TOKEN;
        for token in 1..=tokens {
            for number in 0..SESSIONS_PER_TOKEN {
                assert!(add("acme", token, number).is_empty(), "{token} {number}");
            }
        }
        assert_eq!(add("acme", 2, SESSIONS_PER_TOKEN), [Arc::<str>::from("acme-2-0")], "of the token");
        assert_eq!(add("acme", tokens + 1, 0), [Arc::<str>::from("acme-1-0")], "of the organization");
        assert!(add("rival", 0, 1).is_empty());
    }

    #[test]
    fn m2_a_session_is_followed_once_however_often_its_client_says_that_it_began() {
        let mut bound = BoundSessions::default();
        let (id, owner) = ("s".into(), key("acme", "t"));
        assert!(bound.add(&id, &owner, true) && !bound.add(&id, &owner, true));
        assert!(bound.begin_following("s") && !bound.begin_following("s"));
        assert!(!bound.begin_following(""), "a client without a session");
    }

    #[test]
    fn m2_a_waiting_call_is_known_by_its_tool_and_arguments() {
        let known = call_key("call_mail_send", "{}");
        assert!(known == call_key("call_mail_send", "{}"));
        assert!(known != call_key("call_mail_send", "{ }") && known != call_key("call_mail_sen", "d{}"));
    }
}
