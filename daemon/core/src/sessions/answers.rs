//! Recorded answers on disk, so that they outlive a restart and the bounds of memory (R7).
//!
//! A call hands its outcome to one writer thread, which serializes, seals and appends it to the file of its session
//! (`file.rs`). Nothing waits for the disk, and nothing is synced: after a kill, an answer that was not yet written is
//! `EXPIRED`. The writer wakes once for all answers of some milliseconds, and writes those of a session at once. The queue is bounded by bytes, and by organization; an outcome that does not fit is dropped and counted.
//!
//! The files of one organization are bounded together: the oldest gives way. A file is removed with its session, and when
//! its last answer is older than the retention. The audit log may be cut earlier: then the ids in the file are all that is
//! known of the calls of earlier runs.

mod file;
mod record;
mod writer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, oneshot};
use toolgate_macros::boxed;
use toolgate_state::keys::KEY_BYTES;

use super::PendingCall;
use crate::call::CallOutcome;
use file::Owner;
use writer::{Append, Message};

pub use record::StoredAnswer;

/// Bytes of outcomes that may wait for the writer: more than a second of a busy daemon.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of outcomes of one organization that may wait.
const QUEUE_BYTES_PER_ORGANIZATION: usize = QUEUE_BYTES / 4;

/// Size of an answer that the writer takes at once.
const HURRIED_BYTES: usize = 64 * 1024;

/// The settings of stored answers.
pub struct AnswerSettings {
    /// The folder of the files.
    pub folder: PathBuf,
    /// The key that encrypts the data key of each file.
    pub key: [u8; KEY_BYTES],
    /// How long an answer is kept.
    pub kept_ms: u64,
    /// How long a file is kept after its last record: also until calls at clients have expired.
    pub file_kept_ms: u64,
    /// Bytes of the files of one organization.
    pub organization_bytes: u64,
}

/// The stored answers of all sessions. Cheap to clone.
#[derive(Clone)]
pub struct Answers {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

struct Shared {
    settings: Arc<AnswerSettings>,
    sender: Sender<Message>,
    /// The thread of the writer.
    thread: OnceLock<Thread>,
    queued: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

/// The stored answers of one session.
pub struct SessionAnswers {
    shared: Arc<Shared>,
    organization: Arc<str>,
    session: Arc<str>,
    /// Bytes of outcomes of the organization that wait for the writer.
    queued: Arc<AtomicUsize>,
    /// The ids in the file of an earlier run, read on first use, and again after a failure.
    earlier_ids: OnceCell<HashSet<Box<str>>>,
    /// The session has ended. Only the writer reads and writes it, so that no later answer makes the file again.
    removed: AtomicBool,
}

/// The file of a session's answers is there, and cannot be read. The log has the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored answers of the session cannot be read")]
pub struct UnreadableAnswers;

impl std::fmt::Debug for SessionAnswers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SessionAnswers").field("session", &self.session).finish_non_exhaustive()
    }
}

#[boxed]
impl Answers {
    /// Starts the writer.
    pub fn start(settings: AnswerSettings) -> std::io::Result<Self> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let shared = Shared {
            settings: Arc::new(settings),
            sender,
            thread: OnceLock::new(),
            queued: Arc::default(),
            dropped: Arc::default(),
        };
        let writer = writer::Writer::new(
            Arc::clone(&shared.settings),
            Arc::clone(&shared.queued),
            Arc::clone(&shared.dropped),
        );
        let thread =
            std::thread::Builder::new().name("answers".into()).spawn(move || writer.run(&receiver))?;
        // The thread is set once.
        let _ = shared.thread.set(thread.thread().clone());
        Ok(Self { shared: Arc::new(shared), thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// The stored answers of a session. `queued` counts the bytes of its organization that wait for the writer.
    pub(super) fn of_session(
        &self,
        organization: &str,
        session: &str,
        queued: Arc<AtomicUsize>,
    ) -> Arc<SessionAnswers> {
        Arc::new(SessionAnswers {
            shared: Arc::clone(&self.shared),
            organization: organization.into(),
            session: session.into(),
            queued,
            earlier_ids: OnceCell::new(),
            removed: AtomicBool::new(false),
        })
    }

    /// Takes over the files of an earlier run, and removes those without a session. Returns the sessions whose files may
    /// have calls that still wait for their client.
    pub(super) fn restore(
        &self,
        now_ms: u64,
        find: impl Fn(&str) -> Option<Arc<SessionAnswers>>,
    ) -> std::io::Result<Vec<Arc<str>>> {
        let mut known = Vec::new();
        for entry in std::fs::read_dir(&self.shared.settings.folder)? {
            let entry = entry?;
            let Some(answers) = entry.file_name().to_str().and_then(&find) else {
                if let Err(error) = std::fs::remove_file(entry.path()) {
                    tracing::warn!(%error, "the answers of an ended session cannot be removed");
                }
                continue;
            };
            let metadata = entry.metadata()?;
            let written = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            known.push((u64::try_from(written.as_millis()).unwrap_or(u64::MAX), metadata.len(), answers));
        }
        known.sort_by_key(|(written_ms, ..)| *written_ms);
        let oldest_ms = now_ms.saturating_sub(self.shared.settings.file_kept_ms);
        let recent = known.iter().filter(|(written_ms, ..)| *written_ms >= oldest_ms);
        let recent = recent.map(|(.., answers)| Arc::clone(&answers.session)).collect();
        for (last_ms, bytes, answers) in known {
            let _ = self.shared.sender.send(Message::Known { answers, bytes, last_ms });
        }
        Ok(recent)
    }

    /// Removes files whose answers are all older than the retention.
    pub fn remove_old(&self, now_ms: u64) {
        let _ = self.shared.sender.send(Message::RemoveOld { now_ms });
    }

    /// Writes what is queued.
    pub async fn flush(&self) {
        self.shared.flush().await;
    }

    /// Writes what is queued, and ends the writer.
    pub async fn close(&self) {
        self.shared.send_urgent(Message::Close);
        let thread = self.thread.lock().take();
        let joined = tokio::task::spawn_blocking(|| thread.map(JoinHandle::join)).await;
        if !matches!(joined, Ok(None | Some(Ok(())))) {
            tracing::error!("the writer of answers panicked");
        }
    }
}

impl Shared {
    async fn flush(&self) {
        let (done, written) = oneshot::channel();
        self.send_urgent(Message::Flush { done });
        let _ = written.await;
    }

    /// Sends a message whose sender waits for its effect.
    fn send_urgent(&self, message: Message) {
        let _ = self.sender.send(message);
        self.thread.get().inspect(|thread| thread.unpark());
    }
}

#[boxed]
impl SessionAnswers {
    /// Queues the answer of a call that ended. `arguments` is the SHA-256 of its arguments, `posted` the fingerprint of its
    /// client's result.
    pub(super) fn append_end(
        self: &Arc<Self>,
        outcome: Arc<CallOutcome>,
        arguments: [u8; 32],
        posted: Option<[u8; 32]>,
        at_ms: u64,
    ) {
        self.append(Append { outcome, arguments, posted, at_client: None, at_ms });
    }

    /// Queues a call that waits for its client.
    pub(super) fn append_at_client(self: &Arc<Self>, call: &Arc<PendingCall>, at_ms: u64) {
        let (outcome, at_client) = (Arc::clone(&call.outcome), Some(Arc::clone(call)));
        self.append(Append { outcome, arguments: call.arguments, posted: None, at_client, at_ms });
    }

    fn append(self: &Arc<Self>, append: Append) {
        let bytes = append.outcome.held_bytes();
        let is_full =
            |queued: &AtomicUsize, most| queued.load(Ordering::Relaxed).saturating_add(bytes) > most;
        if is_full(&self.shared.queued, QUEUE_BYTES) || is_full(&self.queued, QUEUE_BYTES_PER_ORGANIZATION) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.shared.queued.fetch_add(bytes, Ordering::Relaxed);
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        let message = Message::Append { to: Arc::clone(self), append, bytes };
        // Large answers must not fill the queue in the pause of the writer.
        match bytes > HURRIED_BYTES {
            true => self.shared.send_urgent(message),
            false => drop(self.shared.sender.send(message)),
        }
    }

    /// Removes the file of a session that ended. A later answer does not make it again.
    pub(super) async fn remove(self: &Arc<Self>) {
        let (done, removed) = oneshot::channel();
        self.shared.send_urgent(Message::Remove { answers: Arc::clone(self), done });
        let _ = removed.await;
    }

    /// The newest record of a call, unless its answer is older than the retention.
    pub async fn find(&self, id: &str, now_ms: u64) -> Option<StoredAnswer> {
        // The record may be queued still.
        self.shared.flush().await;
        let oldest_ms = now_ms.saturating_sub(self.shared.settings.kept_ms);
        let id = id.to_owned();
        let last = move |path: &Path, key: &[u8], owner: Owner<'_>| {
            Ok(file::read_last(path, key, owner, &id)?.into_iter().collect())
        };
        let read = self.read(last);
        let found = read.await.pop()?;
        (!found.has_ended() || found.at_ms() >= oldest_ms).then_some(found)
    }

    /// Whether the file had a record of this id when it was first asked, also one that is older than the retention.
    pub async fn had(&self, id: &str) -> Result<bool, UnreadableAnswers> {
        let read = || async {
            let ids = self.act_on_file(|path, _, _| file::read_ids(path)).await;
            ids.map(|ids| ids.into_iter().map(String::into_boxed_str).collect::<HashSet<_>>())
        };
        Ok(self.earlier_ids.get_or_try_init(read).await?.contains(id))
    }

    /// The calls that waited for their client when the daemon stopped.
    pub async fn calls_at_client(&self) -> Vec<PendingCall> {
        let found = self.read(file::read_at_client).await;
        found.into_iter().filter_map(StoredAnswer::into_pending).collect()
    }

    /// Reads records. One that cannot be read is left out, and so are all of a file that cannot be read.
    async fn read(
        &self,
        act: impl FnOnce(&Path, &[u8], Owner<'_>) -> std::io::Result<Vec<Vec<u8>>> + Send + 'static,
    ) -> Vec<StoredAnswer> {
        let parse = |record: Vec<u8>| serde_json::from_slice(&record).ok();
        let read = move |path: &Path, key: &[u8], owner: Owner<'_>| {
            Ok(act(path, key, owner)?.into_iter().filter_map(parse).collect())
        };
        self.act_on_file(read).await.unwrap_or_default()
    }

    /// Reads the file in a blocking thread. A file that does not exist has nothing.
    async fn act_on_file<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Path, &[u8], Owner<'_>) -> std::io::Result<Vec<T>> + Send + 'static,
    ) -> Result<Vec<T>, UnreadableAnswers> {
        let settings = Arc::clone(&self.shared.settings);
        let (organization, session) = (Arc::clone(&self.organization), Arc::clone(&self.session));
        let reading = tokio::task::spawn_blocking(move || {
            let owner = Owner { organization: &organization, session: &session };
            act(&settings.folder.join(&*session), &settings.key, owner)
        });
        match reading.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Ok(Err(error)) => {
                tracing::warn!(session = &*self.session, %error, "the stored answers of a session cannot be read");
                Err(UnreadableAnswers)
            }
            Err(_) => Err(UnreadableAnswers),
        }
    }
}

#[cfg(test)]
mod tests;
