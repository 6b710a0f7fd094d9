//! What one call did on the network: counted against its limits, and kept for the audit.
//!
//! A request is written down before it leaves and completed as it goes, so that one that is under way when the call ends
//! is in the record too. Of its address there is no query, of its content nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolgate_admission::{CallError, ErrorType, LimitName, Limits, NetworkDenial, Permitted, Target};
use toolgate_api::text::escape_for_display;

use super::trace::Exchange;
use crate::effect::Effect;

/// Requests and refusals of one call that are written down. Further ones are counted and otherwise forgotten: the limit
/// on requests bounds what was made, and this bounds what was only tried.
const RECORDED: usize = 1_000;

/// When a call may be made again that found no connection: most requests take less.
const RETRY_AFTER_MS: u64 = 1_000;

/// Of a traced call, requests that are kept whole: a person reads them, and each is half a megabyte at most.
const TRACED: usize = 32;

/// Longest destination in a record, in characters.
const DETAIL_CHARS: usize = 500;

/// The record of one call, shared by its requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<Kept>>);

struct Kept {
    requests_left: u64,
    bytes_left: u64,
    bytes: u64,
    entries: Vec<Entry>,
    /// Whether requests are kept whole.
    is_traced: bool,
    /// The last answer that came.
    last_status: Option<u16>,
    limit_refused: Option<LimitName>,
    /// The intent of the call could not be written down.
    unrecordable: bool,
    trouble: Option<CallError>,
}

enum Entry {
    Other(Effect),
    Refused(Effect, Option<Box<Exchange>>),
    Request(Request),
}

struct Request {
    target: String,
    credential: Option<String>,
    status: Option<u16>,
    sent: u64,
    received: u64,
    failed: Option<&'static str>,
    exchange: Option<Box<Exchange>>,
}

/// The limit on bytes is used up.
#[derive(Debug)]
pub(super) struct TooManyBytes;

/// A request that is written down.
#[derive(Clone)]
pub(super) struct Noted {
    record: Record,
    target: Arc<Target>,
    at: Option<usize>,
    is_traced: bool,
}

impl Record {
    pub(crate) fn new(limits: &Limits, is_traced: bool) -> Self {
        Self(Arc::new(Mutex::new(Kept {
            requests_left: limits.requests,
            bytes_left: limits.egress_bytes,
            bytes: 0,
            entries: Vec::new(),
            is_traced,
            last_status: None,
            limit_refused: None,
            unrecordable: false,
            trouble: None,
        })))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that is about to be decided about; none is left where it says false.
    pub(super) fn take_request(&self) -> bool {
        let mut kept = self.kept();
        let left = kept.requests_left.checked_sub(1);
        match left {
            Some(left) => kept.requests_left = left,
            None => kept.limit_refused = Some(LimitName::Requests),
        }
        left.is_some()
    }

    pub(super) fn denied(&self, destination: &str, denied: &NetworkDenial) {
        let detail = format!(
            "{}: {}",
            escape_for_display(destination, DETAIL_CHARS),
            escape_for_display(&denied.message, DETAIL_CHARS)
        );
        let mut kept = self.kept();
        kept.trouble = Some(CallError::from(denied));
        let effect = Effect { kind: "network_denied", detail };
        let exchange = kept.has_room_to_trace().then(|| Box::new(Exchange::refused(destination, denied)));
        kept.push(Entry::Refused(effect, exchange));
    }

    pub(super) fn unrecordable(&self) {
        self.kept().unrecordable = true;
    }

    /// Something about a request that somebody may ask for later.
    pub(super) fn note(&self, kind: &'static str, detail: String) {
        self.kept().push(Entry::Other(Effect { kind, detail }));
    }

    pub(super) fn trouble(&self, error: CallError) {
        self.kept().trouble = Some(error);
    }

    /// Writes down a request that is about to leave.
    pub(super) fn begin(&self, permitted: &Permitted, credential: Option<&str>) -> Noted {
        let mut kept = self.kept();
        let request = Request {
            target: escape_for_display(&permitted.target().to_string(), DETAIL_CHARS),
            credential: credential.map(|name| escape_for_display(name, 100)),
            status: None,
            sent: 0,
            received: 0,
            failed: None,
            exchange: kept.has_room_to_trace().then(|| Box::new(Exchange::begin(permitted, credential))),
        };
        let is_traced = kept.is_traced;
        let at = kept.push(Entry::Request(request));
        Noted { record: self.clone(), target: Arc::clone(permitted.target()), at, is_traced }
    }

    pub(crate) fn limit_refused(&self) -> Option<LimitName> {
        self.kept().limit_refused
    }

    pub(crate) fn is_unrecordable(&self) -> bool {
        self.kept().unrecordable
    }

    /// What the host saw go wrong last, where nothing went well after it.
    pub(crate) fn seen(&self) -> Option<CallError> {
        self.kept().trouble.clone()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.kept().bytes
    }

    /// Whether the last answer says that its server has trouble, or is asked too much (RFC 9110, 15.5 and 15.6).
    pub(crate) fn upstream_is_failing(&self) -> bool {
        self.kept().last_status.is_some_and(|status| matches!(status, 408 | 425 | 429 | 500..=599))
    }

    /// Whether the last request carried a credential, and its server says that this does not let it in (RFC 9110, 15.5.2
    /// and 15.5.4).
    pub(crate) fn credential_is_refused(&self) -> bool {
        let kept = self.kept();
        let last = kept.entries.iter().rev().find_map(|entry| match entry {
            Entry::Request(request) => Some(request),
            _ => None,
        });
        last.is_some_and(|request| request.credential.is_some() && matches!(request.status, Some(401 | 403)))
    }

    /// What was done, and how it looked where that was kept.
    pub(crate) fn take(&self) -> (Vec<Effect>, Vec<Exchange>) {
        let entries = std::mem::take(&mut self.kept().entries);
        let mut exchanges = Vec::new();
        let effects = entries.into_iter().map(|entry| entry.into_effect(&mut exchanges)).collect();
        (effects, exchanges)
    }
}

impl Kept {
    fn has_room_to_trace(&self) -> bool {
        self.is_traced && self.entries.len() < TRACED
    }

    /// Counts bytes, whichever way they go.
    fn take_bytes(&mut self, bytes: u64) -> Result<(), TooManyBytes> {
        self.bytes = self.bytes.saturating_add(bytes);
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or(0);
        if left.is_none() {
            self.limit_refused = Some(LimitName::EgressBytes);
        }
        left.map(drop).ok_or(TooManyBytes)
    }

    fn request(&mut self, at: Option<usize>) -> Option<&mut Request> {
        match self.entries.get_mut(at?) {
            Some(Entry::Request(request)) => Some(request),
            _ => None,
        }
    }

    fn push(&mut self, entry: Entry) -> Option<usize> {
        let at = self.entries.len();
        (at < RECORDED).then(|| {
            self.entries.push(entry);
            at
        })
    }
}

impl Noted {
    fn update(&self, change: impl FnOnce(&mut Request)) {
        if let Some(request) = self.record.kept().request(self.at) {
            change(request);
        }
    }

    pub(super) fn sent(&self, bytes: usize) -> Result<(), TooManyBytes> {
        self.moved(bytes, |request| &mut request.sent)
    }

    pub(super) fn received(&self, bytes: usize) -> Result<(), TooManyBytes> {
        self.moved(bytes, |request| &mut request.received)
    }

    fn moved(&self, bytes: usize, count: impl Fn(&mut Request) -> &mut u64) -> Result<(), TooManyBytes> {
        let (mut kept, bytes) = (self.record.kept(), bytes as u64);
        kept.request(self.at).into_iter().for_each(|request| *count(request) += bytes);
        kept.take_bytes(bytes)
    }

    /// The upstream answered. What went wrong before is not why the call ends.
    pub(super) fn answered(&self, status: u16) {
        let mut kept = self.record.kept();
        kept.request(self.at).into_iter().for_each(|request| request.status = Some(status));
        kept.trouble = None;
        kept.last_status = Some(status);
    }

    /// Adds to what is kept of a traced request.
    pub(super) fn trace(&self, add: impl FnOnce(&mut Exchange)) {
        if !self.is_traced {
            return;
        }
        self.update(|request| {
            if let Some(exchange) = &mut request.exchange {
                add(exchange);
            }
        });
    }

    pub(super) fn failed(&self, why: &'static str) {
        self.update(|request| request.failed = Some(why));
        self.record.trouble(unavailable(why, &self.target.host().to_string()));
    }

    /// It was not sent for want of a connection: the daemon's trouble, and not the upstream's.
    pub(super) fn crowded_out(&self, why: &'static str) {
        self.update(|request| request.failed = Some(why));
        self.record.trouble(overloaded(why));
    }
}

impl Entry {
    fn into_effect(self, exchanges: &mut Vec<Exchange>) -> Effect {
        let request = match self {
            Self::Other(effect) => return effect,
            Self::Refused(effect, exchange) => {
                exchanges.extend(exchange.map(|exchange| *exchange));
                return effect;
            }
            Self::Request(request) => request,
        };
        let Request { target, credential, status, sent, received, failed, exchange } = request;
        exchanges.extend(exchange.map(|exchange| Exchange {
            status,
            failed: failed.map(str::to_owned),
            ..*exchange
        }));
        let answer = match (status, failed) {
            (Some(status), None) => status.to_string(),
            (Some(status), Some(why)) => format!("{status}, then {why}"),
            (None, Some(why)) => why.to_owned(),
            (None, None) => "no answer".to_owned(),
        };
        let credential = credential.map(|name| format!(", credential {name}")).unwrap_or_default();
        let detail = format!("{target}: {answer}, {sent} bytes out, {received} bytes in{credential}");
        Effect { kind: "network_request", detail }
    }
}

fn unavailable(why: &str, host: &str) -> CallError {
    CallError::new(
        ErrorType::ApiUnavailable,
        format!("the tool could not use `{}`: {why}", escape_for_display(host, 253)),
        "call again later; if it stays, tell the operator",
    )
    .retryable(true)
}

fn overloaded(why: &str) -> CallError {
    CallError::new(
        ErrorType::Overloaded,
        format!("the request could not be sent: {why}, and none ended in time"),
        "call again in a moment; an operator can raise `egress.connections` and `egress.connections_per_organization`",
    )
    .retryable(true)
    .with_retry_after_ms(RETRY_AFTER_MS)
}
