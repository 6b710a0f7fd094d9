//! Live pages: a stream of server-sent events for each open page (WHATWG HTML, section 9.2).
//!
//! A [`Channel`] renders what changes, once for each organization and filter, and every page that looks at it sends the same
//! bytes. It follows the index of the audit log, so that nothing is done for it on the path of a call, and looks at most once a
//! second. A page that cannot keep up skips states, and is given the whole list where it has missed one; a list of calls is
//! rendered whole when a page asks for it.

mod calls;
mod inbox;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_core::identity::Access;
use toolgate_http::audit::{self, AuditQuery};
use toolgate_http::extract::Query;
use toolgate_http::header::header;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use super::Console;
use super::approvals::InboxQuery;
use super::elements::Filters;
use super::session::SessionHash;
use super::viewer::Viewer;

/// Rows that a stream sends in a second.
const ROWS_A_SECOND: usize = 20;
/// Time between two looks of a channel.
const PERIOD: Duration = Duration::from_secs(1);
/// Time after which a channel looks again although nothing was recorded, since approvals expire. Also the interval of keep-alive
/// comments.
const QUIET: Duration = Duration::from_secs(15);
/// Time after which a channel tries again when the store or the index failed.
const RETRY: Duration = Duration::from_secs(5);
/// Channels of one organization, and of the platform. Each costs a look a second.
const CHANNELS: usize = 32;
/// Streams of one session.
const STREAMS: u64 = 16;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The channels that pages look at, and the number of streams of each holder.
#[derive(Default)]
pub(super) struct LiveHub {
    channels: Mutex<HashMap<ChannelKey, Weak<Channel>>>,
    streams: Arc<Mutex<HashMap<StreamHolder, u64>>>,
}

/// Holds a limited number of streams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StreamHolder {
    Session(SessionHash),
    Organization(Name),
}

/// Identifies a channel by everything that its list depends on: no other property of a viewer changes a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ChannelKey {
    /// The organization of the viewer; none for the platform.
    organization: Option<String>,
    topic: &'static str,
    /// The filters, in the order of their names.
    filter: String,
}

/// Renders one list while a page looks at it.
struct Channel {
    states: watch::Receiver<Arc<LiveState>>,
    /// Told of a page that needs the whole list.
    whole_wanted: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

/// The sender to which the task of a channel puts its states.
struct StateSink {
    states: watch::Sender<Arc<LiveState>>,
    whole_wanted: Arc<Notify>,
}

/// A state of a list as bytes of a stream, which pages share.
#[derive(Clone, Default)]
struct LiveState {
    /// Grows from state to state.
    id: u64,
    previous: u64,
    /// The change from the previous state.
    change: Bytes,
    /// The whole list; empty before it was rendered.
    whole: Bytes,
}

/// A part of a stream: what one page has of a channel.
struct Feed {
    states: watch::Receiver<Arc<LiveState>>,
    sent: Option<u64>,
    channel: Arc<Channel>,
}

/// Counts a stream of its holders; dropped with the stream.
struct StreamPermit {
    streams: Arc<Mutex<HashMap<StreamHolder, u64>>>,
    holders: Vec<StreamHolder>,
}

/// Data of the event `rows`.
#[derive(Serialize)]
struct RowsChange<'a> {
    /// Rows to put in place of those with the same key, or to add.
    rows: &'a str,
    /// Keys of rows to remove.
    removed: &'a [String],
    /// The number of rows that matched and were not sent.
    left_out: u64,
}

/// Data of the event `whole`.
#[derive(Serialize)]
struct WholeList<'a> {
    html: &'a str,
}

/// The stream of a page without a list: the number of approvals that wait.
pub(super) async fn badge(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
) -> Result<Response, Problem> {
    viewer.caller.may(Access::Decide)?;
    let permit = permit(&app, &viewer, &console)?;
    let badge = badge_feed(&app, &viewer, &console)?;
    Ok(respond(&app, &viewer, LiveStream::new(&viewer, console, permit, None, badge), None))
}

/// The stream of the list of calls. The cursor is the id of the last event of an earlier stream.
pub(super) async fn of_calls(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    headers: HeaderMap,
    uri: Uri,
    Filters(query): Filters<AuditQuery>,
) -> Result<Response, Problem> {
    let permit = permit(&app, &viewer, &console)?;
    let resumed = last_event(&headers, query.cursor.as_deref())?;
    let query = calls::channel_query(audit::scope_query(&viewer.caller, query)?);
    let key = ChannelKey::new(&viewer, "calls", &uri);
    let is_tenant = viewer.caller.organization.is_some();
    let channel = console.hub.channel(key, |sink| {
        let follower = calls::Follower::new(app.clone(), query.clone(), is_tenant);
        follower.run(sink)
    })?;
    let feed = Feed::new(channel, resumed);
    let left_out = match resumed {
        Some(since) if !feed.knows(since) => calls::count_since(&app, &query, since).await?,
        _ => None,
    };
    let badge = badge_feed(&app, &viewer, &console)?;
    Ok(respond(&app, &viewer, LiveStream::new(&viewer, console, permit, Some(feed), badge), left_out))
}

/// The stream of the inbox.
pub(super) async fn of_inbox(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    headers: HeaderMap,
    uri: Uri,
    Query(query): Query<InboxQuery>,
) -> Result<Response, Problem> {
    viewer.caller.may(Access::Decide)?;
    let permit = permit(&app, &viewer, &console)?;
    let resumed = last_event(&headers, query.cursor())?;
    let scope = query.without_cursor().check_scope(&app, &viewer.caller)?;
    let key = ChannelKey::new(&viewer, "approvals", &uri);
    let channel = console.hub.channel(key, |sink| inbox::follow_list(app.clone(), scope, sink))?;
    let feed = Feed::new(channel, resumed);
    let badge = badge_feed(&app, &viewer, &console)?;
    Ok(respond(&app, &viewer, LiveStream::new(&viewer, console, permit, Some(feed), badge), None))
}

/// Counts a stream of the viewer. Each uses a connection, of which one organization leaves some for the others; its event streams
/// have twice as many.
fn permit(app: &App, viewer: &Viewer, console: &Console) -> Result<StreamPermit, CallError> {
    let most = app.settings().streams_per_organization().div_ceil(2);
    console.hub.permit(viewer.session.hash, viewer.caller.organization.as_ref(), most)
}

/// The number in the navigation; none for roles that do not see it.
fn badge_feed(app: &App, viewer: &Viewer, console: &Console) -> Result<Option<Feed>, CallError> {
    if !viewer.may(Access::Decide) {
        return Ok(None);
    }
    let organization = viewer.caller.organization.clone();
    let scope = organization.as_ref().map(ToString::to_string);
    let key = ChannelKey { organization: scope, topic: "badge", filter: String::new() };
    let channel = console.hub.channel(key, |sink| inbox::follow_count(app.clone(), organization, sink))?;
    Ok(Some(Feed::new(channel, None)))
}

/// The id of the last event that the page has: the browser's, or the script's.
fn last_event(headers: &HeaderMap, cursor: Option<&str>) -> Result<Option<u64>, Problem> {
    let known = header(headers, &LAST_EVENT_ID)?.or(cursor).filter(|text| !text.is_empty());
    known.map(str::parse).transpose().map_err(|_| {
        Problem::new(
            ErrorType::InvalidRequest,
            "the stream cannot go on from there: the cursor is no number",
            "open the page again",
        )
    })
}

/// Answers with a stream, until the session, the token or the daemon ends.
fn respond(app: &App, viewer: &Viewer, live: LiveStream, first: Option<Bytes>) -> Response {
    let pending = app.services().events.pending().clone();
    let token_ends = viewer.caller.wait_for_end();
    let ends = async move {
        tokio::select! {
            () = token_ends => {}
            () = pending.wait() => {}
        }
    };
    let events = stream::unfold(live, |mut live| async move {
        let bytes = live.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), live))
    });
    let opened = std::iter::once(Bytes::from_static(b": listening\n\n")).chain(first).map(Ok);
    let body = Body::from_stream(stream::iter(opened).chain(events.take_until(Box::pin(ends))));
    // Without the second, nginx keeps fragments back until its buffer is full.
    let fields = [(CONTENT_TYPE, "text/event-stream"), (HeaderName::from_static("x-accel-buffering"), "no")];
    (fields, body).into_response()
}

/// The stream of one page: its list, if it has one, and the number in the navigation.
struct LiveStream {
    console: Console,
    session: SessionHash,
    list: Option<Feed>,
    badge: Option<Feed>,
    _permit: StreamPermit,
}

impl LiveStream {
    fn new(
        viewer: &Viewer,
        console: Console,
        permit: StreamPermit,
        list: Option<Feed>,
        badge: Option<Feed>,
    ) -> Self {
        Self { console, session: viewer.session.hash, list, badge, _permit: permit }
    }

    /// The next bytes; none when the session has ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // A stream is no use of its session, and does not outlive it.
            if !self.console.sessions.is_open(&self.session, now_ms()) {
                return None;
            }
            let ready = [&mut self.list, &mut self.badge].into_iter().flatten().find_map(Feed::next);
            if ready.is_some() {
                return ready;
            }
            let (list, badge) = (&mut self.list, &mut self.badge);
            let changed = async {
                tokio::select! {
                    goes_on = wait_for_change(list) => goes_on,
                    goes_on = wait_for_change(badge) => goes_on,
                }
            };
            match timeout(QUIET, changed).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => return Some(Bytes::from_static(b": alive\n\n")),
            }
        }
    }
}

/// Waits for another state; false where the channel has ended.
async fn wait_for_change(feed: &mut Option<Feed>) -> bool {
    match feed {
        Some(feed) => feed.states.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

impl Feed {
    fn new(channel: Arc<Channel>, sent: Option<u64>) -> Self {
        Self { states: channel.states.clone(), sent, channel }
    }

    /// Whether the page that has this state needs nothing, or a change alone.
    fn knows(&self, id: u64) -> bool {
        let state = self.states.borrow();
        id == state.id || id == state.previous
    }

    /// The bytes that bring the page to the present state; none where it is there.
    fn next(&mut self) -> Option<Bytes> {
        let state = Arc::clone(&self.states.borrow_and_update());
        if state.id == 0 || self.sent == Some(state.id) {
            return None;
        }
        let follows = self.sent == Some(state.previous);
        let bytes = if follows { &state.change } else { &state.whole };
        if bytes.is_empty() {
            self.channel.whole_wanted.notify_one();
            return None;
        }
        self.sent = Some(state.id);
        Some(bytes.clone())
    }
}

impl StateSink {
    fn send(&self, state: &LiveState) {
        self.states.send_replace(Arc::new(state.clone()));
    }

    /// Waits for a page that needs the whole list.
    async fn wait_for_page(&self) {
        self.whole_wanted.notified().await;
    }
}

impl ChannelKey {
    fn new(viewer: &Viewer, topic: &'static str, uri: &Uri) -> Self {
        let organization = viewer.caller.organization.as_ref().map(ToString::to_string);
        Self { organization, topic, filter: canonical(uri.query().unwrap_or_default()) }
    }
}

/// The filters of an address in the order of their names, without empty ones and the cursor.
fn canonical(query: &str) -> String {
    let is_filter = |pair: &&str| !pair.is_empty() && !pair.ends_with('=') && !pair.starts_with("cursor=");
    let mut pairs: Vec<&str> = query.split('&').filter(is_filter).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

impl LiveHub {
    /// The channel of this key, whose task begins with the first page that looks at it.
    fn channel<F>(
        &self,
        key: ChannelKey,
        follow: impl FnOnce(StateSink) -> F,
    ) -> Result<Arc<Channel>, CallError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(&key).and_then(Weak::upgrade) {
            return Ok(channel);
        }
        channels.retain(|_, channel| channel.strong_count() > 0);
        let own = channels.keys().filter(|other| other.organization == key.organization).count();
        if own >= CHANNELS {
            let message = "the organization has as many different live lists open as it may have";
            return Err(too_many(message, "close a page, or watch a list that is open already"));
        }
        let (sender, states) = watch::channel(Arc::new(LiveState::default()));
        let whole_wanted = Arc::<Notify>::default();
        let sink = StateSink { states: sender, whole_wanted: Arc::clone(&whole_wanted) };
        let task = AbortOnDropHandle::new(tokio::spawn(follow(sink)));
        let channel = Arc::new(Channel { states, whole_wanted, _task: task });
        channels.insert(key, Arc::downgrade(&channel));
        Ok(channel)
    }

    /// Counts a stream of a session, and of its organization, which has at most `most`.
    fn permit(
        &self,
        session: SessionHash,
        organization: Option<&Name>,
        most: u64,
    ) -> Result<StreamPermit, CallError> {
        let mut holders = vec![StreamHolder::Session(session)];
        holders.extend(organization.cloned().map(StreamHolder::Organization));
        let mut streams = self.streams.lock();
        for holder in &holders {
            let (most, word) = match holder {
                StreamHolder::Session(_) => (STREAMS, "session"),
                StreamHolder::Organization(_) => (most, "organization"),
            };
            if streams.get(holder).is_some_and(|number| *number >= most) {
                let message = format!("the {word} has as many live pages open as it may have");
                return Err(too_many(&message, "close some of them"));
            }
        }
        for holder in &holders {
            *streams.entry(holder.clone()).or_default() += 1;
        }
        Ok(StreamPermit { streams: Arc::clone(&self.streams), holders })
    }
}

fn too_many(message: &str, hint: &str) -> CallError {
    CallError::new(ErrorType::QuotaExceeded, message, hint).with_retry_after_ms(1_000)
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut streams = self.streams.lock();
        for holder in self.holders.drain(..) {
            if let Entry::Occupied(mut number) = streams.entry(holder) {
                *number.get_mut() -= 1;
                if *number.get() == 0 {
                    number.remove();
                }
            }
        }
    }
}

/// An event with an id, from which a later stream goes on.
fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    // JSON text has no line breaks, so it fits one `data` line. Strings and numbers always serialize.
    let data = serde_json::to_string(data).unwrap_or_default();
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("{id}event: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(filter: &str) -> ChannelKey {
        ChannelKey { organization: Some("acme".into()), topic: "calls", filter: filter.into() }
    }

    fn state(previous: u64, id: u64) -> Arc<LiveState> {
        let bytes = |name: &str| Bytes::from(format!("{name} {id}"));
        Arc::new(LiveState { id, previous, change: bytes("change"), whole: bytes("whole") })
    }

    #[test]
    fn o6_the_order_of_filters_makes_no_other_channel() {
        assert_eq!(canonical("tool=a&agent=b&status=&cursor=7"), "agent=b&tool=a");
        assert_eq!(canonical(""), "");
    }

    #[tokio::test]
    async fn o6_pages_share_a_channel_while_one_looks_at_it() {
        let hub = LiveHub::default();
        let open = |filter: &str| hub.channel(key(filter), |_| std::future::pending::<()>());
        let (one, other) = (open("a").unwrap(), open("a").unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        let more: Vec<_> = (1..CHANNELS).map(|number| open(&number.to_string()).unwrap()).collect();
        assert!(open("too many").is_err());
        assert!(open("a").is_ok(), "a list that is watched already");
        drop(more);
        assert!(open("b").is_ok());
    }

    #[tokio::test]
    async fn o6_a_page_gets_changes_and_the_whole_list_where_it_missed_one() {
        let hub = LiveHub::default();
        let (states, received) = watch::channel(state(0, 0));
        let channel = hub.channel(key(""), |_| std::future::pending::<()>()).unwrap();
        let mut feed = Feed { states: received, sent: None, channel };
        states.send_replace(state(0, 5));
        assert_eq!(feed.next().unwrap(), "whole 5");
        assert_eq!(feed.next(), None);
        states.send_replace(state(5, 6));
        assert_eq!(feed.next().unwrap(), "change 6");
        states.send_replace(state(6, 7));
        states.send_replace(state(7, 8));
        assert_eq!(feed.next().unwrap(), "whole 8");
        assert!(feed.knows(7) && feed.knows(8) && !feed.knows(6));
        let changes_alone = |previous, id| {
            Arc::new(LiveState { whole: Bytes::new(), ..LiveState::clone(&state(previous, id)) })
        };
        states.send_replace(changes_alone(8, 9));
        assert_eq!(feed.next().unwrap(), "change 9");
        states.send_replace(changes_alone(10, 11));
        assert_eq!(feed.next(), None, "a list that must be rendered first");
        feed.channel.whole_wanted.notified().await;
        states.send_replace(state(10, 11));
        assert_eq!(feed.next().unwrap(), "whole 11");
    }

    #[test]
    fn o6_streams_of_a_session_and_of_an_organization_are_limited() {
        let hub = LiveHub::default();
        let (acme, rival) = (Name::parse("acme").unwrap(), Name::parse("rival").unwrap());
        let permit = |session, organization| hub.permit([session; 32], organization, STREAMS + 2);
        let permits: Vec<_> = (0..STREAMS).map(|_| permit(1, Some(&acme)).unwrap()).collect();
        assert!(permit(1, Some(&acme)).is_err(), "the session");
        let more: Vec<_> = (0..2).map(|_| permit(2, Some(&acme)).unwrap()).collect();
        assert!(permit(2, Some(&acme)).is_err(), "the organization");
        assert!(permit(3, Some(&rival)).is_ok() && permit(4, None).is_ok());
        drop(more);
        assert!(permit(2, Some(&acme)).is_ok());
        drop(permits);
        assert!(hub.streams.lock().is_empty(), "no stream is left");
    }
}
