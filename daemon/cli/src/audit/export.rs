//! `toolgate audit export`: writes the log to files, and goes on where the files end.
//!
//! A file has the name `audit-FROM-TO.jsonl`, with the sequences of its records. It is written under another name, synced and
//! renamed, so that a file with such a name is complete. Records from before a broken
//! connection are kept: the next export goes on there. The lines of a stopped daemon come from the program itself.

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
    /// The data folder of a stopped daemon, whose log is exported without one, also if it is damaged
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Export {
    /// The data folder whose log is exported without a daemon.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }
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
    let mut folder = ExportFolder::open(export)?;
    let mut lines = client.get(&target(folder.range())).lines().await?;
    let received = receive(&mut lines, &mut folder).await;
    folder.close(received, printer)
}

/// Writes the lines of a stream to files, until its end or the loss of the connection.
async fn receive(lines: &mut LineStream, folder: &mut ExportFolder<'_>) -> Result {
    loop {
        match lines.next().await {
            Ok(Some(line)) => folder.write_line(&line)?,
            Ok(None) | Err(ClientError::Lost { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if folder.end.is_some() {
            return Ok(());
        }
    }
}

/// The records that an export has.
pub struct ExportRange {
    /// Only records of this organization.
    pub organization: Option<String>,
    /// Only records from this time on.
    pub since_ms: Option<u64>,
    /// Only records before this time.
    pub until_ms: Option<u64>,
    /// Only records after this one, the last of the files in the folder.
    pub after: Option<u64>,
}

/// The folder of an export, to which lines are added.
pub struct ExportFolder<'a> {
    options: &'a Export,
    files: Files<'a>,
    earlier: Option<ExportedFile>,
    end: Option<ExportEnd>,
}

impl<'a> ExportFolder<'a> {
    /// Makes the folder of an export if it is missing, and finds where the files in it end.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or read.
    pub fn open(options: &'a Export) -> Result<Self> {
        std::fs::create_dir_all(&options.out).map_err(|error| cannot_use(&options.out, &error))?;
        let earlier = exported_files(&options.out)?.pop();
        let files = Files::new(options, earlier.as_ref().map_or(0, |file| file.to));
        Ok(Self { options, files, earlier, end: None })
    }

    /// The records that are not in the folder yet.
    pub fn range(&self) -> ExportRange {
        let now_ms = now_ms();
        let time = |when: Option<When>| when.map(|when| when.ms(now_ms));
        ExportRange {
            organization: self.options.organization.clone(),
            since_ms: time(self.options.since),
            until_ms: time(self.options.until),
            after: self.earlier.as_ref().map(|file| file.to),
        }
    }

    /// Adds a line; an empty one counts as none.
    ///
    /// # Errors
    ///
    /// It is not a line of an export or of another one than the files in the folder, or cannot be written.
    pub fn write_line(&mut self, line: &str) -> Result {
        if line.is_empty() {
            return Ok(());
        }
        let parsed: ExportLine =
            serde_json::from_str(line).map_err(|_| ClientError::unexpected_response(200, line.as_bytes()))?;
        let files = &mut self.files;
        let written = match parsed {
            ExportLine::Begin(begin) => {
                if let Some(earlier) = &self.earlier {
                    check_same(&begin, earlier)?;
                }
                files.begin = begin;
                Ok(())
            }
            ExportLine::Segment(segment) => files.write(line, segment.first_sequence, None),
            ExportLine::Record(record) => {
                files.records += 1;
                files.write(line, record.sequence, Some(record.sequence))
            }
            ExportLine::Gap(gap) => files.write(line, gap.from, Some(gap.to)),
            ExportLine::End(end) => {
                self.end = Some(end);
                Ok(())
            }
        };
        written.map_err(|error| cannot_use(files.folder, &error))
    }

    /// Completes the last file, also after an error of the lines, and shows the number of records.
    ///
    /// # Errors
    ///
    /// The lines ended with an error or too early, or the file cannot be written.
    pub fn close(mut self, received: Result, printer: &mut Printer<'_>) -> Result {
        let Self { options: Export { out, .. }, files, end, .. } = &mut self;
        let records = files.records;
        let closed = files.close(end.as_ref().filter(|_| received.is_ok()));
        received?;
        closed.map_err(|error| cannot_use(out, &error))?;
        let Some(end) = end else {
            return Err(Failure::new(
                format!("the export ended early, after {records} records"),
                "run the command again: it goes on where the files end",
            ));
        };
        let shown = json!({"records": records, "cursor": end.cursor, "folder": out});
        let line = format!("{records} records were exported to `{}`", out.display());
        Ok(printer.result(&shown, &line)?)
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

fn target(range: ExportRange) -> String {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let filters = [
        ("organization", range.organization),
        ("since_ms", number(range.since_ms)),
        ("until_ms", number(range.until_ms)),
        ("after", number(range.after)),
    ];
    format!("/v1/audit/export{}", query(&filters))
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
        Export { out: folder.to_owned(), max_bytes, organization: None, since: None, until: None, data: None }
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
