//! `toolgate audit`: searches, follows, exports and verifies the audit log.

pub(crate) mod export;
mod follow;
mod verify;

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use jiff::{Span, SpanRelativeTo, Timestamp};
use serde::de::DeserializeOwned;
use toolgate_api::audit::{DamagedRange, Kind, PAGE_ROWS_MAX, Row, Status, VerifyReport};
use toolgate_api::error::ErrorType;

use super::client::Client;
use super::document::query;
use super::failure::{Failure, Result};
use super::list;
use super::print::{Printer, time_from, time_text, token_text, word};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate audit search --organization acme --status error --since 2h
  toolgate audit search --tool files/write --limit 500 --json
  toolgate audit follow --organization acme --json
  toolgate audit export --out /var/backups/toolgate-audit
  toolgate audit verify
  toolgate audit verify --file /var/backups/toolgate-audit
  toolgate audit verify --data /var/lib/toolgate            of a daemon that does not start
  toolgate audit export --data /var/lib/toolgate --out /var/backups/toolgate-audit";

#[derive(Subcommand)]
pub enum AuditCommand {
    /// Show a page of the log, newest first
    Search(Box<Search>),
    /// Print new records as they become durable, also after a lost connection
    Follow(Box<Follow>),
    /// Write the log to files, and go on where an earlier export in the folder ended
    Export(Box<export::Export>),
    /// Verify the whole log, or an exported one: every record is present and unchanged
    Verify {
        /// An exported file, or a folder of them; verified without a daemon
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
        /// The data folder of a stopped daemon, whose log is verified without one
        #[arg(long, value_name = "DIR", conflicts_with = "file")]
        data: Option<PathBuf>,
    },
}

/// A command that reads the log in a data folder, without a daemon.
pub enum LogOfFolder<'a> {
    /// Verify it.
    Verify(&'a Path),
    /// Export its intact records.
    Export(&'a Path, &'a export::Export),
}

impl AuditCommand {
    /// What is done with the log of a data folder, without a daemon.
    pub(crate) fn of_folder(&self) -> Option<LogOfFolder<'_>> {
        match self {
            Self::Verify { data, .. } => data.as_deref().map(LogOfFolder::Verify),
            Self::Export(export) => export.data().map(|data| LogOfFolder::Export(data, export)),
            _ => None,
        }
    }
}

#[derive(Args)]
pub struct Search {
    #[command(flatten)]
    filters: Filters,
    /// Rows per page, at most 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_ROWS_MAX)))]
    limit: Option<u32>,
    /// The cursor of the next page, from the page before
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
pub struct Follow {
    #[command(flatten)]
    filters: Filters,
}

/// Filters of rows; a row must match all of them.
#[derive(Args)]
pub(crate) struct Filters {
    /// Only rows of this organization
    #[arg(long, visible_alias = "org", value_name = "ORG")]
    organization: Option<String>,
    /// Only rows of this agent: its name, or `ORG/AGENT`
    #[arg(long)]
    agent: Option<String>,
    /// Only rows of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only rows of this tool, `namespace/tool`
    #[arg(long)]
    tool: Option<String>,
    /// Only rows of sessions on behalf of this user
    #[arg(long)]
    user: Option<String>,
    /// Only requests and changes by the token of this id; `toolgate` is the daemon itself
    #[arg(long, value_name = "TOKEN_ID")]
    principal: Option<String>,
    /// Only changes of this administrative action, like `agent.put`
    #[arg(long)]
    action: Option<String>,
    /// Only rows with this status: `ok`, `error`, `cancelled`, `unknown`, …
    #[arg(long, value_parser = one_of::<Status>)]
    status: Option<String>,
    /// Only rows with this error type, like `ACCESS_DENIED`
    #[arg(long, hide_possible_values = true, value_parser = error_types())]
    error_type: Option<String>,
    /// Only calls that the gate refused
    #[arg(long, conflicts_with = "error_type")]
    refused: bool,
    /// Only rows of this kind: `call`, `effect`, `admin`, `recovery` or `damaged`
    #[arg(long, value_parser = one_of::<Kind>)]
    kind: Option<String>,
    /// Only rows at or after this time: an age like `30m`, `2h`, `7d`, a time like `2026-11-26T08:00:00Z`, or
    /// milliseconds since 1970
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Only rows before this time, in the same format
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

/// Parses a word that `T`, a type of the audit log, deserializes; clap rejects any other word.
fn one_of<T: DeserializeOwned>(word: &str) -> Result<String, serde_json::Error> {
    serde_json::from_value::<T>(word.into()).map(|_| word.to_owned())
}

fn error_types() -> PossibleValuesParser {
    ErrorType::ALL.iter().map(|error_type| error_type.as_str()).collect::<Vec<_>>().into()
}

/// A point in time, or an age relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(u64),
    Ago(u64),
}

impl std::str::FromStr for When {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write an age like `30m`, `2h` or `7d`, a time like `2026-11-26T08:00:00Z`, or milliseconds since 1970";
        if let Ok(at_ms) = time_from(text) {
            return Ok(Self::At(at_ms));
        }
        let age = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
        let age_ms = age.map_err(|_| WRONG)?.as_millis();
        u64::try_from(age_ms).map(Self::Ago).map_err(|_| WRONG)
    }
}

impl When {
    pub(crate) fn ms(self, now_ms: u64) -> u64 {
        match self {
            Self::At(at_ms) => at_ms,
            Self::Ago(age_ms) => now_ms.saturating_sub(age_ms),
        }
    }
}

pub(crate) async fn run(command: AuditCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match &command {
        AuditCommand::Search(search) => search.filters.check()?,
        AuditCommand::Follow(options) => options.filters.check()?,
        AuditCommand::Export(_) | AuditCommand::Verify { .. } => {}
    }
    match command {
        AuditCommand::Search(search) => {
            list::page(client, printer, &search.target(now_ms()), HEADINGS, row).await
        }
        AuditCommand::Follow(options) => follow::follow(&options.filters, client, printer).await,
        AuditCommand::Export(options) => export::export(&options, client, printer).await,
        AuditCommand::Verify { file: Some(path), .. } => verify::verify_files(&path, printer),
        AuditCommand::Verify { .. } => {
            let report = client.get("/v1/audit/verify").send().await?.body;
            show_verify_report(&report, printer)
        }
    }
}

/// Shows what a verification found. The findings of recoveries are reported even if the log is intact, since records may have been
/// lost before them.
///
/// # Errors
///
/// The log is not what was written.
pub fn show_verify_report(report: &VerifyReport, printer: &mut Printer<'_>) -> Result {
    let VerifyReport { records, segments, .. } = report;
    if !report.ok && printer.is_json() {
        printer.json(report)?;
    }
    check_verify_report(report, printer)?;
    let files = if *segments == 1 { "file" } else { "files" };
    let line = format!("audit log verified: {records} records in {segments} {files}");
    Ok(printer.result(report, &line)?)
}

/// Tells of the findings of a verification that are no damage.
///
/// # Errors
///
/// The log is not what was written.
pub fn check_verify_report(report: &VerifyReport, printer: &mut Printer<'_>) -> Result {
    for noted in &report.suspicious {
        printer.warning(&format!(
            "the start of {} found more than a crash explains: {} (record {})",
            time_text(noted.at_ms),
            noted.recovery,
            noted.sequence,
        ))?;
    }
    for noted in &report.restores {
        printer.note(&format!(
            "the log was restored on {} from a backup of {} with the records up to {}: what was recorded after that backup \
             is in the original log alone",
            time_text(noted.at_ms),
            time_text(noted.from.made_at_ms),
            noted.from.head.sequence,
        ))?;
    }
    if let Some(cut) = &report.cut {
        printer.note(&format!(
            "the log begins after record {}: older records were cut, as a record of the log says",
            cut.sequence
        ))?;
    }
    if report.ok { Ok(()) } else { Err(verify_failure(report)) }
}

/// Says what is wrong with a log, and the way out.
fn verify_failure(report: &VerifyReport) -> Failure {
    let records = report.records;
    let Some(bad) = &report.first_bad else {
        if report.suspicious.iter().all(|noted| noted.recovery.lost.is_none() || noted.recovery.copied) {
            return Failure::new(
                format!(
                    "the data folder is a copy that lacks records of the original; the chain of the {records} records in it \
                     is whole"
                ),
                "make copies with `toolgate backup`, or of a stopped daemon; this log tells of the gap from now on, and the missing records are in the original",
            );
        }
        return Failure::new(
            format!(
                "acknowledged records of the log are gone; the chain of the {records} records left is whole"
            ),
            "restore the audit folder from a backup while the daemon is stopped, or keep a copy and find out who could write to it",
        );
    };
    Failure::new(
        format!(
            "the log is not what was written: {} (`{}` at byte {}, after {records} good records)",
            bad.what,
            bad.file.display(),
            bad.offset
        ),
        "keep a copy of the folder before anything else, and find out who could write to it",
    )
}

impl Filters {
    /// The organization and the agent of the filters. An agent may be written with its organization.
    fn scope(&self) -> (Option<&str>, Option<&str>) {
        match self.agent.as_deref().and_then(|agent| agent.split_once('/')) {
            Some((organization, agent)) => (self.organization.as_deref().or(Some(organization)), Some(agent)),
            None => (self.organization.as_deref(), self.agent.as_deref()),
        }
    }

    /// Refuses two different organizations, which would match no row.
    fn check(&self) -> Result {
        let named = self.agent.as_deref().and_then(|agent| agent.split_once('/'));
        match (named, self.organization.as_deref()) {
            (Some((of_agent, _)), Some(organization)) if of_agent != organization => Err(Failure::new(
                format!("`--agent` is of `{of_agent}`, and `--organization` is `{organization}`"),
                "leave `--organization` out: `--agent ORG/AGENT` names it",
            )),
            _ => Ok(()),
        }
    }
}

impl Search {
    fn target(&self, now_ms: u64) -> String {
        let Self { filters, .. } = self;
        let time = |when: Option<When>| when.map(|when| when.ms(now_ms).to_string());
        let (organization, agent) = filters.scope();
        let filters = [
            ("organization", organization.map(str::to_owned)),
            ("agent", agent.map(str::to_owned)),
            ("session", filters.session.clone()),
            ("tool", filters.tool.clone()),
            ("user", filters.user.clone()),
            ("principal", filters.principal.clone()),
            ("action", filters.action.clone()),
            ("status", filters.status.clone()),
            ("error_type", filters.error_type.clone()),
            ("refused", filters.refused.then(|| "true".to_owned())),
            ("kind", filters.kind.clone()),
            ("since_ms", time(filters.since)),
            ("until_ms", time(filters.until)),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("cursor", self.cursor.clone()),
        ];
        format!("/v1/audit{}", query(&filters))
    }
}

const HEADINGS: [&str; 6] = ["TIME", "KIND", "STATUS", "WHO", "WHAT", "ERROR"];

fn row(item: &Row) -> [String; 6] {
    let dash = || "-".to_owned();
    let (who, what, error) = if let Some(call) = &item.call {
        let error = item.outcome.as_ref().and_then(|outcome| outcome.error_type.as_deref());
        let who = format!("{}/{}", call.organization, call.agent);
        (who, call.tool.to_string(), error.map_or_else(dash, str::to_owned))
    } else if let Some(act) = &item.admin {
        let error = if act.outcome == "ok" { dash() } else { act.outcome.to_string() };
        (
            token_text(&act.principal, item.principal_label.as_deref()),
            format!("{} {}", act.action, act.target),
            error,
        )
    } else if let Some(effect) = &item.effect {
        let call = item.of.map_or_else(dash, |of| of.to_string());
        (format!("call {call}"), format!("{} {}", effect.effect, effect.detail), dash())
    } else {
        (dash(), item.recovery.as_ref().map_or_else(dash, ToString::to_string), dash())
    };
    let what = match &item.damaged {
        Some(damaged) => damage_text(item, damaged, &what),
        None => what,
    };
    let status = item.status.map_or_else(dash, |status| word(&status));
    [time_text(item.at_ms), word(&item.kind), status, who, what, error]
}

/// Describes which part of a row is unreadable, and its position, which tenants do not see. For a call with a
/// readable intent the unreadable part is its outcome.
fn damage_text(item: &Row, damaged: &DamagedRange, what: &str) -> String {
    let lost = match (item.kind, &item.call) {
        (Kind::Damaged, _) => format!("damaged records: {}", damaged.records),
        (Kind::Call | Kind::Admin, _) if item.call.is_some() || item.admin.is_some() => {
            format!("{what} (its outcome can no longer be read)")
        }
        _ => "it can no longer be read".into(),
    };
    match (damaged.segment, damaged.offset) {
        (Some(segment), Some(offset)) => format!("{lost}, segment {segment} at byte {offset}"),
        _ => lost,
    }
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use serde_json::Value;

    use super::super::testing::{Run, parse, run_with};
    use super::*;
    use crate::client::testing::Canned;

    pub(super) fn search(words: &[&str]) -> Search {
        parse(words)
    }

    async fn run_command(command: AuditCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    #[test]
    fn what_is_asked_becomes_the_query() {
        assert_eq!(search(&[]).target(0), "/v1/audit");
        let asked = search(&[
            "--organization",
            "acme",
            "--tool",
            "files/write",
            "--user",
            "u 1",
            "--principal",
            "ab12",
            "--action",
            "agent.put",
            "--since",
            "2h",
            "--until",
            "7000",
            "--limit",
            "9",
        ]);
        assert_eq!(
            asked.target(10_000_000),
            "/v1/audit?organization=acme&tool=files%2Fwrite&user=u%201&principal=ab12&action=agent.put&since_ms=2800000&until_ms=7000&limit=9"
        );
    }

    #[tokio::test]
    async fn an_agent_is_named_alone_or_with_its_organization() {
        let asked = search(&["--agent", "acme/mcp", "--since", "1970-01-01T00:00:07.000Z"]);
        assert_eq!(asked.target(9_000), "/v1/audit?organization=acme&agent=mcp&since_ms=7000");
        assert_eq!(search(&["--agent", "mcp"]).target(0), "/v1/audit?agent=mcp");
        let other = search(&["--agent", "acme/mcp", "--organization", "rival"]);
        let run = run_command(AuditCommand::Search(Box::new(other)), Vec::new()).await;
        assert!(run.result.expect_err("two organizations").to_string().contains("`--agent` is of `acme`"));
        assert!(run.asked.is_empty());
    }

    #[test]
    fn a_time_is_an_age_or_a_moment() {
        assert_eq!("7d".parse(), Ok(When::Ago(604_800_000)));
        assert_eq!("1795309323045".parse(), Ok(When::At(1_795_309_323_045)));
        assert_eq!("1.5h".parse(), Ok(When::Ago(5_400_000)));
        assert_eq!("2026-11-22T01:02:03.045Z".parse(), Ok(When::At(1_795_309_323_045)));
        for text in
            ["", "h", "-1h", "2mo", "1969-12-31T00:00:00Z", "yesterday", "99999999999999999999d", "1é"]
        {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }

    pub(super) fn intent(tool: &str) -> Value {
        json!({"organization": "acme", "session": "s_1", "call": "c_1", "agent": "bot", "tool": tool, "wire_name": tool,
            "arguments_sha256": "0".repeat(64), "verdict": "run", "reason": {"layer": "agent"}, "policy_revision": 1,
            "source": "http", "principal": "ab"})
    }

    #[tokio::test]
    async fn a_page_shows_calls_effects_and_acts() {
        let items = json!([
            {"kind": "call", "at_ms": 0, "status": "error", "sequence": 1, "call": intent("files/read"),
             "outcome": {"status": "error", "executed": "no", "error_type": "ACCESS_DENIED"}},
            {"kind": "admin", "at_ms": 0, "sequence": 2, "admin": {"source": "http", "principal": "ab", "action": "plugin.load", "target": "files", "outcome": "ok"}},
            {"kind": "damaged", "at_ms": 0, "sequence": 9, "damaged": {"records": 4, "segment": 3, "offset": 112, "what": "no record"}},
            {"kind": "damaged", "at_ms": 0, "sequence": 20, "damaged": {"records": 5, "what": "no record"}},
            {"kind": "recovery", "at_ms": 0, "sequence": 3, "recovery": {"cut": {"segment": 2, "offset": 96, "bytes": 17}, "anchor_missing": false, "unknown": 3}},
            {"kind": "effect", "at_ms": 0, "sequence": 4, "of": 7, "effect": {"effect": "file_denied", "detail": "../x\u{1b}[2J"}},
        ]);
        let page = Canned::json(200, json!({"items": items, "next_cursor": "7"}));
        let run = run_command(AuditCommand::Search(Box::new(search(&[]))), vec![page]).await;
        run.result.expect("shown");
        for part in [
            "acme/bot",
            "files/read",
            "ACCESS_DENIED",
            "plugin.load files",
            "damaged records: 4, segment 3 at byte 112",
            "damaged records: 5",
            "17 torn bytes cut off segment 2 at byte 96; calls and acts that ended as unknown: 3",
            "file_denied ../x\\u{1b}[2J",
        ] {
            assert!(run.out.contains(part), "{part}: {}", run.out);
        }
        assert_eq!(run.notes, "there is more: add `--cursor 7`\n");
    }

    /// Tenants see a damaged row without its segment, for every kind of loss.
    #[test]
    fn a_damaged_row_says_what_was_lost_and_where_if_that_is_known() {
        let what = |members: Value| {
            let mut item = json!({"sequence": 1, "at_ms": 0});
            item.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
            row(&serde_json::from_value(item).expect("a row"))[4].clone()
        };
        let damaged = json!({"records": 1, "what": "no complete record is there"});
        let call = intent("files/read");
        assert_eq!(
            what(json!({"kind": "call", "call": call, "damaged": damaged})),
            "files/read (its outcome can no longer be read)"
        );
        for kind in ["call", "effect", "admin", "recovery"] {
            assert_eq!(what(json!({"kind": kind, "of": 7, "damaged": damaged})), "it can no longer be read");
        }
        let placed =
            json!({"records": 1, "segment": 3, "offset": 112, "what": "no complete record is there"});
        assert_eq!(
            what(json!({"kind": "call", "call": call, "damaged": placed})),
            "files/read (its outcome can no longer be read), segment 3 at byte 112"
        );
        assert_eq!(
            what(json!({"kind": "admin", "damaged": placed})),
            "it can no longer be read, segment 3 at byte 112"
        );
    }

    /// A report with these members.
    fn report(members: Value) -> Value {
        let head = json!({"sequence": 1, "segment": 1, "offset": 0, "hash": "0".repeat(64)});
        let mut report = json!({"head": head, "anchor": "daemon", "suspicious": []});
        report.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        report
    }

    #[tokio::test]
    async fn a_whole_log_is_said_to_be_and_a_broken_one_is_a_failure() {
        let whole = Canned::json(200, report(json!({"ok": true, "records": 12, "segments": 2})));
        let run = run_command(AuditCommand::Verify { file: None, data: None }, vec![whole]).await;
        run.result.expect("whole");
        assert_eq!(run.out, "audit log verified: 12 records in 2 files\n");

        let bad = json!({"what": "a changed record", "file": "1.seg", "offset": 99});
        let broken =
            Canned::json(200, report(json!({"ok": false, "records": 3, "segments": 1, "first_bad": bad})));
        let run = run_command(AuditCommand::Verify { file: None, data: None }, vec![broken]).await;
        let failure = run.result.expect_err("broken");
        assert!(
            failure.to_string().contains("a changed record (`1.seg` at byte 99, after 3 good records)"),
            "{failure}"
        );
    }

    /// A script must not treat such a log as intact, and the message must be visible to a person.
    #[tokio::test]
    async fn a_log_that_lost_what_it_acknowledged_is_a_failure_that_says_what_is_gone() {
        let noted = |recovery: Value| json!([{"sequence": 7, "at_ms": 0, "recovery": recovery}]);
        let lost = noted(json!({
            "lost": {"after_sequence": 5, "acknowledged_sequence": 9000, "acknowledged_hash": "00"},
            "anchor_missing": false, "unknown": 0,
        }));
        let report = report(json!({"ok": false, "records": 8, "segments": 1, "suspicious": lost}));
        let run =
            run_command(AuditCommand::Verify { file: None, data: None }, vec![Canned::json(200, report)])
                .await;
        let failure = run.result.expect_err("records are gone");
        assert!(failure.to_string().contains("acknowledged records of the log are gone"), "{failure}");
        let what = "acknowledged records behind 5 are gone, up to 9000 (record 7)";
        assert!(run.notes.contains(what), "{}", run.notes);

        let unsure = noted(json!({"anchor_missing": true, "unknown": 0}));
        let report =
            super::tests::report(json!({"ok": true, "records": 8, "segments": 1, "suspicious": unsure}));
        let run =
            run_command(AuditCommand::Verify { file: None, data: None }, vec![Canned::json(200, report)])
                .await;
        run.result.expect("nothing is known to be gone");
        assert!(run.out.contains("audit log verified") && run.notes.contains("the `head` file was missing"));
    }
}
