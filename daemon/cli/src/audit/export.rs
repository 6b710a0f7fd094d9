//! `toolgate audit export`: writes the log to files, and goes on where the files end.
//!
//! A file has the name `audit-FROM-TO.jsonl`, with the sequences of its records. It is written under another name, synced and
//! renamed, so that a file with such a name is complete. Records from before a broken
//! connection are kept: the next export goes on there.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolgate_api::audit_export::{ExportBegin, ExportEnd, ExportLine};

use super::super::client::{Client, ClientError, LineStream};
use super::super::document::query;
use super::super::failure::{Failure, Result};
use super::super::print::Printer;
use super::{When, now_ms};

/// Default size of a file.
const FILE_BYTES: u64 = 64 << 20;

/// Name of a file that is being written.
const PART: &str = ".audit.part";

#[derive(Args)]
pub struct Export {
    /// The folder of the files, made if it is missing; an earlier export in it is continued
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Size above which another file is begun
    #[arg(long, value_name = "BYTES", default_value_t = FILE_BYTES)]
    max_bytes: u64,
    /// Only records of this organization
    #[arg(long, visible_alias = "org", value_name = "ORG")]
    organization: Option<String>,
    /// Only records at or after this time: an age like `7d`, or a time like `2026-11-01T00:00:00Z`
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Only records before this time, in the same format
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

/// An exported file, and the sequences that its name tells.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExportedFile {
    pub from: u64,
    pub to: u64,
    pub path: PathBuf,
}

/// Lists the exported files of a folder, in the order of their records.
pub(super) fn exported_files(folder: &Path) -> Result<Vec<ExportedFile>> {
    let mut files = Vec::new();
    let listing = std::fs::read_dir(folder).map_err(|error| cannot_use(folder, &error))?;
    for entry in listing {
        let path = entry.map_err(|error| cannot_use(folder, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let range = name.strip_prefix("audit-").and_then(|name| name.strip_suffix(".jsonl"));
        let range = range.and_then(|range| range.split_once('-'));
        if let Some((Ok(from), Ok(to))) = range.map(|(from, to)| (from.parse(), to.parse())) {
            files.push(ExportedFile { from, to, path });
        }
    }
    files.sort();
    Ok(files)
}

pub(super) async fn export(export: &Export, client: &Client, printer: &mut Printer<'_>) -> Result {
    std::fs::create_dir_all(&export.out).map_err(|error| cannot_use(&export.out, &error))?;
    let earlier = exported_files(&export.out)?.pop();
    let after = earlier.as_ref().map(|file| file.to);
    let mut lines = client.get(&export.target(after, now_ms())).lines().await?;
    let mut files = Files::new(export, after.unwrap_or(0));
    let received = receive(&mut lines, &mut files, earlier.as_ref()).await;
    let records = files.records;
    // Complete lines are kept, also after an error of the stream.
    let closed = files.close(received.as_ref().ok().and_then(Option::as_ref));
    let end = received?;
    closed.map_err(|error| cannot_use(&export.out, &error))?;
    let Some(end) = end else {
        return Err(Failure::new(
            format!("the export ended early, after {records} records"),
            "run the command again: it goes on where the files end",
        ));
    };
    let shown = json!({"records": records, "cursor": end.cursor, "folder": export.out});
    let line = format!("{records} records were exported to `{}`", export.out.display());
    Ok(printer.result(&shown, &line)?)
}

/// Writes the lines of a stream to files. Returns its last line; `None` where the connection was lost before.
async fn receive(
    lines: &mut LineStream,
    files: &mut Files<'_>,
    earlier: Option<&ExportedFile>,
) -> Result<Option<ExportEnd>> {
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) if line.is_empty() => continue,
            Ok(Some(line)) => line,
            Ok(None) | Err(ClientError::Lost { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let parsed: ExportLine = serde_json::from_str(&line)
            .map_err(|_| ClientError::unexpected_response(200, line.as_bytes()))?;
        let written = match parsed {
            ExportLine::Begin(begin) => {
                if let Some(earlier) = earlier {
                    check_same(&begin, earlier)?;
                }
                files.begin = begin;
                Ok(())
            }
            ExportLine::Segment(segment) => files.write(&line, segment.first_sequence, None),
            ExportLine::Record(record) => {
                files.records += 1;
                files.write(&line, record.sequence, Some(record.sequence))
            }
            ExportLine::Gap(gap) => files.write(&line, gap.from, Some(gap.to)),
            ExportLine::End(end) => return Ok(Some(end)),
        };
        written.map_err(|error| cannot_use(files.folder, &error))?;
    }
}

/// Refuses to continue an export of other records.
fn check_same(begin: &ExportBegin, earlier: &ExportedFile) -> Result {
    let file = File::open(&earlier.path).map_err(|error| cannot_use(&earlier.path, &error))?;
    let mut line = String::new();
    BufReader::new(file).read_line(&mut line).map_err(|error| cannot_use(&earlier.path, &error))?;
    let Ok(ExportLine::Begin(before)) = serde_json::from_str(&line) else {
        let message = format!("`{}` is not an exported file", earlier.path.display());
        return Err(Failure::new(message, "export into another folder"));
    };
    if before.organization == begin.organization {
        return Ok(());
    }
    let named = |begin: &ExportBegin| match &begin.organization {
        Some(organization) => format!("of `{organization}`"),
        None => "of all organizations".to_owned(),
    };
    Err(Failure::new(
        format!("the folder has an export {}, and this one would be {}", named(&before), named(begin)),
        "export into another folder",
    ))
}

impl Export {
    fn target(&self, after: Option<u64>, now_ms: u64) -> String {
        let time = |when: Option<When>| when.map(|when| when.ms(now_ms).to_string());
        let filters = [
            ("organization", self.organization.clone()),
            ("since_ms", time(self.since)),
            ("until_ms", time(self.until)),
            ("after", after.map(|after| after.to_string())),
        ];
        format!("/v1/audit/export{}", query(&filters))
    }
}

/// The files of an export.
struct Files<'a> {
    folder: &'a Path,
    max_bytes: u64,
    begin: ExportBegin,
    /// Sequence of the last record in a file.
    last: u64,
    records: u64,
    part: Option<Part>,
}

/// The file that is being written.
struct Part {
    file: BufWriter<File>,
    from: u64,
    bytes: u64,
    /// The file has more than the header of a segment.
    has_records: bool,
}

impl<'a> Files<'a> {
    fn new(export: &'a Export, last: u64) -> Self {
        let (folder, begin) = (export.out.as_path(), ExportBegin::default());
        Self { folder, max_bytes: export.max_bytes, begin, last, records: 0, part: None }
    }

    /// Writes a line that begins with the record `from`; `to` is the last record that it stands for.
    fn write(&mut self, line: &str, from: u64, to: Option<u64>) -> std::io::Result<()> {
        let part = match &mut self.part {
            Some(part) => part,
            None => {
                let file = BufWriter::new(File::create(self.folder.join(PART))?);
                let mut part = Part { file, from, bytes: 0, has_records: false };
                let begin = ExportBegin { after: self.last.to_string(), ..self.begin.clone() };
                part.write(&serde_json::to_string(&ExportLine::Begin(begin))?)?;
                self.part.insert(part)
            }
        };
        part.write(line)?;
        let Some(to) = to else { return Ok(()) };
        (part.has_records, self.last) = (true, to);
        if part.bytes >= self.max_bytes { self.finish() } else { Ok(()) }
    }

    /// Ends the last file, with the last line of the stream if it came.
    fn close(&mut self, end: Option<&ExportEnd>) -> std::io::Result<()> {
        let Some(part) = &mut self.part else { return Ok(()) };
        if !part.has_records {
            // The header of the segment comes again.
            self.part = None;
            return std::fs::remove_file(self.folder.join(PART));
        }
        if let Some(end) = end {
            part.write(&serde_json::to_string(&ExportLine::End(end.clone()))?)?;
            self.last = end.cursor.parse().unwrap_or(self.last);
        }
        self.finish()
    }

    fn finish(&mut self) -> std::io::Result<()> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let from = part.from;
        let file = part.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let name = format!("audit-{from:012}-{:012}.jsonl", self.last);
        std::fs::rename(self.folder.join(PART), self.folder.join(name))?;
        File::open(self.folder)?.sync_all()
    }
}

impl Part {
    fn write(&mut self, line: &str) -> std::io::Result<()> {
        self.bytes += line.len() as u64 + 1;
        writeln!(self.file, "{line}")
    }
}

fn cannot_use(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot use `{}`: {error}", path.display()),
        "name a folder that this user may write to, on a disk with space",
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Run, run_with};
    use super::super::verify::tests::files;
    use super::super::verify::verify_files;
    use super::*;
    use crate::client::testing::Canned;

    fn to(folder: &Path, max_bytes: u64) -> Export {
        Export { out: folder.to_owned(), max_bytes, organization: None, since: None, until: None }
    }

    fn stream(lines: &[String]) -> Canned {
        let body = lines.iter().map(|line| format!("{line}\n")).collect();
        Canned { content_type: "application/jsonl", body, ..Canned::empty(200) }
    }

    async fn run(options: &Export, lines: &[String]) -> Run {
        run_with(vec![stream(lines)], false, async |client, printer| export(options, client, printer).await)
            .await
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = exported_files(folder).expect("a folder");
        files
            .iter()
            .map(|file| file.path.file_name().expect("a name").to_string_lossy().into_owned())
            .collect()
    }

    #[tokio::test]
    async fn o3_a_lost_connection_keeps_what_came_and_the_next_export_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second] = files();
        let lost = run(&to(folder.path(), FILE_BYTES), &first).await;
        lost.result.expect_err("no last line");
        assert_eq!(names(folder.path()), ["audit-000000000001-000000000002.jsonl"]);
        let rest = run(&to(folder.path(), FILE_BYTES), &second).await;
        rest.result.expect("complete");
        assert_eq!(rest.asked[0].line(), "GET /v1/audit/export?after=2");
        assert_eq!(names(folder.path()).len(), 2);
        let verified = run_with(vec![], false, async |_, printer| verify_files(folder.path(), printer)).await;
        verified.result.expect("whole");
        assert!(verified.out.contains("3 records in 2 files"), "{}", verified.out);
    }

    #[tokio::test]
    async fn files_are_rotated_by_size_and_none_is_made_for_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second] = files();
        let all: Vec<String> = first.into_iter().chain(second.into_iter().skip(1)).collect();
        run(&to(folder.path(), 1), &all).await.result.expect("complete");
        assert_eq!(names(folder.path()).len(), 3);
        let nothing = [all[0].clone(), all.last().expect("the end").clone()];
        run(&to(folder.path(), 1), &nothing).await.result.expect("complete");
        assert_eq!(names(folder.path()).len(), 3);
        assert!(!folder.path().join(PART).exists());
    }

    #[tokio::test]
    async fn an_export_of_other_records_is_not_mixed_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, _] = files();
        run(&to(folder.path(), 1), &first).await.result.expect_err("no last line");
        let other = [json!({"begin": {"after": "2", "organization": "acme"}}).to_string()];
        let failure = run(&to(folder.path(), 1), &other).await.result.expect_err("another export");
        assert!(failure.to_string().contains("of all organizations"), "{failure}");
    }
}
