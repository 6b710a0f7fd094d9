//! A backup as a download.

use std::io::{self, BufWriter, Write};

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc::{self, Sender};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_core::backup::{Backup, BackupSource};

use super::error_responses::{AuditUnavailable, BackupRuns};
use super::extract::Client;
use super::problem::Problem;
use super::schema::FileBytes;

/// Size of a chunk of the archive, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// Chunks that are written ahead of a slow client.
const CHUNKS: usize = 4;

/// Take a backup of the daemon.
///
/// The response is a compressed tar file with the store, the audit log, plugins, recorded answers and the files of
/// sessions, which `toolgate restore` takes. Calls run meanwhile: the store is a snapshot, and the log has every record
/// that was acknowledged before. The keys of the daemon are never in it: save the folder `keys` by itself, or use
/// `toolgate backup --data DIR --with-keys` on the host. A response that ends before its last entry,
/// `manifest.json`, is not complete.
#[utoipa::path(
    post, path = "/v1/backup", tag = "backup", operation_id = "take_backup",
    responses(
        (status = 200, description = "The archive.", body = FileBytes, content_type = "application/gzip",
            headers(("Content-Disposition" = String, description = "A name for the file."))),
        BackupRuns, AuditUnavailable,
    ),
)]
pub async fn post(Client { app, caller }: Client) -> Result<Response, Problem> {
    let settings = app.settings();
    let store = settings.store_path().map_err(|error| {
        CallError::new(ErrorType::Internal, error.to_string(), "look at the setting `store`")
    })?;
    let source = BackupSource { data: settings.data.clone(), store, with_keys: false, with_cache: false };
    let backup = app.admin().take_backup(app.actor(&caller), source).await?;
    let name = format!("attachment; filename=\"toolgate-{}.tar.gz\"", backup.header().backup);
    let (sender, receiver) = mpsc::channel(CHUNKS);
    app.0.background.spawn_blocking(move || write(backup, sender));
    let chunks = stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    });
    let body = Body::from_stream(chunks.take_until(caller.wait_for_end()));
    let headers = [
        (header::CONTENT_TYPE, "application/gzip"),
        (header::CONTENT_DISPOSITION, name.as_str()),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, body).into_response())
}

fn write(backup: Backup, sender: Sender<io::Result<Bytes>>) {
    let out = BufWriter::with_capacity(CHUNK_BYTES, ChunkWriter(sender.clone()));
    let written = backup.write(out).map_err(io::Error::other).and_then(|(mut out, _)| out.flush());
    if let Err(error) = written
        && !sender.is_closed()
    {
        tracing::error!(%error, "a backup was not sent to its end");
        // The client sees a broken connection.
        let _ = sender.blocking_send(Err(error));
    }
}

/// Sends what is written to the response.
struct ChunkWriter(Sender<io::Result<Bytes>>);

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
