//! The records of one call with their hashes, as the chain has them.

use std::fs::File;
use std::io;

use sqlx::SqlitePool;

use super::error::AuditError;
use super::format::{LogPosition, RecordKind};
use super::query::Query;
use super::reader::read_from;
use super::record::Sha256;
use super::search::{Hit, LogContent, hits};

/// A record of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    pub sequence: u64,
    /// `intent`, `effect` or `outcome`.
    pub kind: &'static str,
    /// The time at which it was appended, in milliseconds since 1970.
    pub at_ms: u64,
    /// SHA-256 over the record and the hash before it.
    pub hash: Sha256,
}

/// Returns the records of the rows that match, in their order. Damaged ones are left out.
pub(crate) async fn records(
    reading: &SqlitePool,
    content: &LogContent,
    query: &Query,
) -> Result<Vec<CallRecord>, AuditError> {
    let (found, content) = (hits(reading, query, None).await?, content.clone());
    let read = tokio::task::spawn_blocking(move || {
        let positions = found.iter().flat_map(Hit::positions);
        let mut records: Vec<_> = positions.filter_map(|position| record(&content, position).ok()).collect();
        records.sort_by_key(|record| record.sequence);
        records
    });
    read.await.map_err(AuditError::index)
}

fn record(content: &LogContent, position: LogPosition) -> io::Result<CallRecord> {
    let (header, _) = read_from(&File::open(content.folder.segment(position.segment))?, position.offset)?;
    let kind = match header.kind {
        RecordKind::CallOpen => "intent",
        RecordKind::Close => "outcome",
        RecordKind::Effect => "effect",
        RecordKind::Admin | RecordKind::AdminOpen | RecordKind::Recovery => "record",
    };
    Ok(CallRecord { sequence: header.sequence, kind, at_ms: header.at_ms, hash: Sha256(header.hash) })
}
