//! The thread that writes answers to disk. Only it changes the files and counts their bytes.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;
use toolgate_sandbox::Secret;
use toolgate_state::clock::now_ms;

use super::file::{self, Opened, Owner, RECORD_OVERHEAD};
use super::record::StoredAnswer;
use super::{AnswerSettings, SessionAnswers};
use crate::call::CallOutcome;
use crate::sessions::PendingCall;

/// Files that stay open between two answers.
const OPEN_FILES: usize = 64;

/// Time that files stay open while no answer comes. To open one for each answer would cost more than to write it.
const IDLE: Duration = Duration::from_secs(1);

/// Time in which answers come together. One wake-up and one write for each of them took a twentieth of the CPU time of a call.
const PAUSE: Duration = Duration::from_millis(50);

/// A record to write.
pub(super) struct Append {
    pub outcome: Arc<CallOutcome>,
    /// SHA-256 of the arguments.
    pub arguments: [u8; 32],
    pub posted: Option<[u8; 32]>,
    /// The call, if it waits for its client.
    pub at_client: Option<Arc<PendingCall>>,
    pub at_ms: u64,
}

pub(super) enum Message {
    Append {
        to: Arc<SessionAnswers>,
        append: Append,
        bytes: usize,
    },
    /// A file of an earlier run.
    Known {
        answers: Arc<SessionAnswers>,
        bytes: u64,
        last_ms: u64,
    },
    Remove {
        answers: Arc<SessionAnswers>,
        done: oneshot::Sender<()>,
    },
    RemoveOld {
        now_ms: u64,
    },
    Flush {
        done: oneshot::Sender<()>,
    },
    Close,
}

pub(super) struct Writer {
    settings: Arc<AnswerSettings>,
    queued: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
    organizations: HashMap<Arc<str>, OrganizationFiles>,
    files: HashMap<Arc<str>, SessionFile>,
    /// The sessions whose files are open.
    open: Vec<Arc<str>>,
    /// The sessions that have records in memory.
    unwritten: Vec<Arc<str>>,
    /// The last write failed, which was logged.
    is_failing: bool,
}

#[derive(Default)]
struct OrganizationFiles {
    bytes: u64,
    oldest_first: VecDeque<Arc<str>>,
}

struct SessionFile {
    organization: Arc<str>,
    bytes: u64,
    last_ms: u64,
    /// Known once this run has opened the file.
    key: Option<Secret>,
    file: Option<File>,
    /// Records that are counted in `bytes` and not yet in the file.
    unwritten: Vec<u8>,
}

impl Writer {
    pub(super) fn new(
        settings: Arc<AnswerSettings>,
        queued: Arc<AtomicUsize>,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        let (organizations, files) = (HashMap::new(), HashMap::new());
        let (open, unwritten) = (Vec::new(), Vec::new());
        Self { settings, queued, dropped, organizations, files, open, unwritten, is_failing: false }
    }

    /// Writes until it is closed.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        while let Some(message) = self.next(messages) {
            match message {
                Message::Append { to, append, bytes } => {
                    self.append(&to, &append);
                    self.queued.fetch_sub(bytes, Ordering::Relaxed);
                    to.queued.fetch_sub(bytes, Ordering::Relaxed);
                }
                Message::Known { answers, bytes, last_ms } => self.insert(&answers, bytes, last_ms),
                Message::Remove { answers, done } => {
                    answers.removed.store(true, Ordering::Relaxed);
                    self.remove(&answers.session);
                    let _ = done.send(());
                }
                Message::RemoveOld { now_ms } => self.remove_old(now_ms),
                Message::Flush { done } => {
                    self.write();
                    let _ = done.send(());
                }
                Message::Close => return self.write(),
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(
                    dropped,
                    "answers came faster than they could be stored; a restart loses them"
                );
            }
        }
    }

    /// Waits for a message; none if there will be no more. Writes what came before if there is none at once, and closes the
    /// files if there is none for a while.
    fn next(&mut self, messages: &Receiver<Message>) -> Option<Message> {
        if let Ok(message) = messages.try_recv() {
            return Some(message);
        }
        self.write();
        match messages.recv_timeout(IDLE) {
            Ok(message) => {
                // A message that hurries ends the pause.
                if matches!(message, Message::Append { .. }) {
                    std::thread::park_timeout(PAUSE);
                }
                Some(message)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.close_files();
                messages.recv().ok()
            }
        }
    }

    /// Stores an answer. A failure loses it: after a restart, its call is `EXPIRED`.
    fn append(&mut self, to: &SessionAnswers, append: &Append) {
        if to.removed.load(Ordering::Relaxed) {
            return;
        }
        let appended = self.try_append(to, append);
        self.report(appended);
    }

    fn report(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "answers cannot be stored; a restart loses them");
                }
            }
        }
    }

    /// Writes the records in memory.
    fn write(&mut self) {
        for session in std::mem::take(&mut self.unwritten) {
            let written = self.write_file(&session);
            self.report(written);
        }
    }

    fn write_file(&mut self, session: &Arc<str>) -> io::Result<()> {
        let path = self.path(session);
        let Some(known) = self.files.get_mut(session) else { return Ok(()) };
        let Some(file) = &mut known.file else { return Ok(()) };
        let records = std::mem::take(&mut known.unwritten);
        let Err(error) = file.write_all(&records) else { return Ok(()) };
        // A part of a record may be there, and no later one could be read.
        let before = known.bytes.saturating_sub(records.len() as u64);
        match file.set_len(before) {
            Ok(()) => {
                known.bytes = before;
                if let Some(organization) = self.organizations.get_mut(&known.organization) {
                    organization.bytes = organization.bytes.saturating_sub(records.len() as u64);
                }
            }
            Err(_) => self.remove(session),
        }
        Err(io::Error::new(error.kind(), format!("`{}`: {error}", path.display())))
    }

    fn try_append(&mut self, to: &SessionAnswers, append: &Append) -> io::Result<()> {
        let plain = serde_json::to_vec(&StoredAnswer::of(append))?;
        let id = &append.outcome.id;
        self.make_room(&to.organization, (plain.len() + id.len() + RECORD_OVERHEAD) as u64)?;
        let owner = Owner { organization: &to.organization, session: &to.session };
        self.open(to)?;
        let Some(SessionFile { key: Some(key), file: Some(_), bytes, last_ms, unwritten, .. }) =
            self.files.get_mut(&to.session)
        else {
            return Ok(());
        };
        let record = file::seal(key, owner, append.at_client.is_some(), id, &plain)?;
        if unwritten.is_empty() {
            self.unwritten.push(Arc::clone(&to.session));
        }
        unwritten.extend_from_slice(&record);
        *bytes += record.len() as u64;
        *last_ms = append.at_ms;
        if let Some(organization) = self.organizations.get_mut(&to.organization) {
            organization.bytes += record.len() as u64;
        }
        Ok(())
    }

    /// Removes the organization's oldest files until `more` bytes fit.
    fn make_room(&mut self, organization: &str, more: u64) -> io::Result<()> {
        let most = self.settings.organization_bytes;
        if more > most {
            return Err(io::Error::other("an answer is larger than `calls.recorded_bytes_per_organization`"));
        }
        while let Some(files) = self.organizations.get(organization)
            && files.bytes.saturating_add(more) > most
            && let Some(oldest) = files.oldest_first.front().cloned()
        {
            self.remove(&oldest);
        }
        Ok(())
    }

    /// Opens the file of a session.
    fn open(&mut self, answers: &SessionAnswers) -> io::Result<()> {
        let path = self.path(&answers.session);
        if let Some(known) = self.files.get_mut(&answers.session) {
            match (&known.file, &known.key) {
                (Some(_), _) => return Ok(()),
                (None, Some(_)) => match file::reopen(&path) {
                    Ok(file) => {
                        known.file = Some(file);
                        self.limit_open(&answers.session);
                        return Ok(());
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                },
                (None, None) => {}
            }
        }
        let owner = Owner { organization: &answers.organization, session: &answers.session };
        let Opened { file, key, bytes } = file::open(&path, &self.settings.key, owner)?;
        let last_ms = self.files.get(&answers.session).map_or_else(now_ms, |known| known.last_ms);
        self.insert(answers, bytes, last_ms);
        if let Some(known) = self.files.get_mut(&answers.session) {
            (known.file, known.key) = (Some(file), Some(key));
        }
        self.limit_open(&answers.session);
        Ok(())
    }

    /// Counts a file as open, and closes the others where too many are.
    fn limit_open(&mut self, session: &Arc<str>) {
        if self.open.len() >= OPEN_FILES {
            self.close_files();
        }
        self.open.push(Arc::clone(session));
    }

    fn close_files(&mut self) {
        self.write();
        for session in self.open.drain(..) {
            if let Some(known) = self.files.get_mut(&session) {
                known.file = None;
            }
        }
    }

    /// Counts a file; one that was counted before is counted anew, in its old place.
    fn insert(&mut self, answers: &SessionAnswers, bytes: u64, last_ms: u64) {
        let organization = self.organizations.entry(Arc::clone(&answers.organization)).or_default();
        let file = SessionFile {
            organization: Arc::clone(&answers.organization),
            bytes,
            last_ms,
            key: None,
            file: None,
            unwritten: Vec::new(),
        };
        match self.files.insert(Arc::clone(&answers.session), file) {
            Some(before) => organization.bytes = organization.bytes.saturating_sub(before.bytes),
            None => organization.oldest_first.push_back(Arc::clone(&answers.session)),
        }
        organization.bytes += bytes;
    }

    fn remove_old(&mut self, now_ms: u64) {
        let oldest_ms = now_ms.saturating_sub(self.settings.file_kept_ms);
        let old = self.files.iter().filter(|(_, file)| file.last_ms < oldest_ms);
        let old: Vec<Arc<str>> = old.map(|(session, _)| Arc::clone(session)).collect();
        for session in old {
            self.remove(&session);
        }
    }

    fn remove(&mut self, session: &Arc<str>) {
        let Some(file) = self.files.remove(session) else { return };
        if let Some(organization) = self.organizations.get_mut(&file.organization) {
            organization.bytes = organization.bytes.saturating_sub(file.bytes);
            organization.oldest_first.retain(|other| other != session);
            if organization.oldest_first.is_empty() {
                self.organizations.remove(&file.organization);
            }
        }
        self.open.retain(|other| other != session);
        self.unwritten.retain(|other| other != session);
        match std::fs::remove_file(self.path(session)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(session = &**session, %error, "the answers of a session cannot be removed");
            }
            _ => {}
        }
    }

    fn path(&self, session: &str) -> PathBuf {
        self.settings.folder.join(session)
    }
}
