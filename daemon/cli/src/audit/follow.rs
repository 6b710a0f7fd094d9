//! `toolgate audit follow`: prints records as they become durable.
//!
//! A call or an act is printed once it has its outcome. After a lost connection the stream goes on behind the last record, and
//! it ends when the daemon refuses the token.

use std::collections::HashMap;

use serde::Deserialize;
use toolgate_api::audit::{AdminRecord, CallIntent, CallOutcome, EffectRecord, Kind, Row, Status};
use toolgate_api::audit_export::{ExportKind, ExportLine, ExportRecord};
use toolgate_api::error::{ErrorType, Fault};

use super::super::client::{Client, ClientError, RETRY_MAX, RETRY_MIN, SILENCE};
use super::super::document::query;
use super::super::failure::Result;
use super::super::print::{Printer, word};
use super::{Filters, When, now_ms, row};

pub(super) async fn follow(filters: &Filters, client: &Client, printer: &mut Printer<'_>) -> Result {
    let mut followed = Followed { filters, after: filters.since.map(|_| 0), open: HashMap::new() };
    let since_ms = filters.since.map(|when| when.ms(now_ms()));
    let mut retry = None;
    loop {
        match client.get(&followed.target(since_ms)).lines().await {
            Ok(mut lines) => {
                if retry.replace(RETRY_MIN).is_none() {
                    printer.note("following; end with Ctrl-C")?;
                }
                loop {
                    match tokio::time::timeout(SILENCE, lines.next()).await {
                        Ok(Ok(Some(line))) => followed.take(&line, printer)?,
                        Ok(Ok(None) | Err(ClientError::Lost { .. })) | Err(_) => break,
                        Ok(Err(error)) => return Err(error.into()),
                    }
                }
            }
            // The first attempt tells at once that there is no daemon.
            Err(error) if retry.is_some() && error.is_temporary() => {}
            Err(error) => return Err(error.into()),
        }
        let delay = retry.unwrap_or(RETRY_MIN);
        tokio::time::sleep(delay).await;
        retry = Some((delay * 2).min(RETRY_MAX));
    }
}

/// Records that were read so far.
struct Followed<'a> {
    filters: &'a Filters,
    /// Sequence of the last record that was read; none for only new ones.
    after: Option<u64>,
    /// Calls and acts without outcome that match the filters.
    open: HashMap<u64, Row>,
}

/// The outcome of an act or of a call.
#[derive(Deserialize)]
struct Outcome {
    status: Status,
    #[serde(default)]
    error_type: Option<String>,
    #[serde(default)]
    revision: Option<u64>,
}

impl Followed<'_> {
    fn target(&self, since_ms: Option<u64>) -> String {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let (after, since) = (number(self.after), number(since_ms));
        let until = number(self.filters.until.map(|when: When| when.ms(now_ms())));
        let filters = [
            ("follow", Some("true")),
            ("organization", self.filters.scope().0),
            ("since_ms", since.as_deref()),
            ("until_ms", until.as_deref()),
            ("after", after.as_deref()),
        ];
        format!("/v1/audit/export{}", query(&filters))
    }

    fn take(&mut self, line: &str, printer: &mut Printer<'_>) -> Result {
        if line.is_empty() {
            return Ok(());
        }
        let unexpected = |_| ClientError::unexpected_response(200, line.as_bytes());
        match serde_json::from_str(line).map_err(unexpected)? {
            ExportLine::Begin(begin) => self.after = begin.after.parse().ok().or(self.after),
            ExportLine::Record(record) => {
                self.after = Some(record.sequence);
                if let Some(row) = self.row(record).map_err(unexpected)? {
                    print(&row, printer)?;
                }
            }
            ExportLine::Gap(gap) => {
                self.after = Some(gap.to);
                printer.warning(&format!("records {} to {} are missing: {}", gap.from, gap.to, gap.what))?;
            }
            ExportLine::Segment(_) | ExportLine::End(_) => {}
        }
        Ok(())
    }

    /// The row that is complete with this record, if it matches the filters.
    fn row(&mut self, record: ExportRecord) -> Result<Option<Row>, serde_json::Error> {
        let payload = record.payload.get();
        match record.kind {
            ExportKind::Call => {
                let mut call: CallIntent<'static> = serde_json::from_str(payload)?;
                call.arguments = call.arguments.or(record.arguments.map(std::borrow::Cow::Owned));
                let row = Row {
                    call: Some(call),
                    arguments_deleted: record.arguments_deleted,
                    ..Row::new(record.sequence, record.at_ms, Kind::Call)
                };
                self.remember(row);
                Ok(None)
            }
            ExportKind::ActIntent | ExportKind::Act => {
                let mut admin: AdminRecord<'static> = serde_json::from_str(payload)?;
                admin.details = admin.details.or(record.arguments.map(std::borrow::Cow::Owned));
                let row = Row { admin: Some(admin), ..Row::new(record.sequence, record.at_ms, Kind::Admin) };
                if record.kind == ExportKind::Act {
                    let error =
                        row.admin.as_ref().map(|act| act.outcome.to_string()).filter(|text| text != "ok");
                    return Ok(Some(row)
                        .filter(|row| self.matches(row) && self.passes_end_filters(None, error.as_deref())));
                }
                self.remember(row);
                Ok(None)
            }
            ExportKind::Outcome => self.close(&record),
            ExportKind::Effect => self.effect(record),
            ExportKind::Recovery => {
                let recovery = Some(serde_json::from_str(payload)?);
                let row = Row { recovery, ..Row::new(record.sequence, record.at_ms, Kind::Recovery) };
                Ok(Some(row).filter(|row| {
                    self.is_kind(Kind::Recovery) && self.matches(row) && self.passes_end_filters(None, None)
                }))
            }
        }
    }

    fn effect(&self, record: ExportRecord) -> Result<Option<Row>, serde_json::Error> {
        let is_wanted = self.open.contains_key(&record.of) && self.is_kind(Kind::Effect);
        let mut effect: EffectRecord<'static> = serde_json::from_str(record.payload.get())?;
        effect.detail = record.detail.map_or(effect.detail, Into::into);
        let row = Row {
            of: Some(record.of),
            effect: Some(effect),
            arguments_deleted: record.arguments_deleted,
            ..Row::new(record.sequence, record.at_ms, Kind::Effect)
        };
        Ok(Some(row).filter(|_| is_wanted && self.passes_end_filters(None, None)))
    }

    fn remember(&mut self, row: Row) {
        if self.matches(&row) {
            self.open.insert(row.sequence, row);
        }
    }

    fn close(&mut self, record: &ExportRecord) -> Result<Option<Row>, serde_json::Error> {
        let Some(mut row) = self.open.remove(&record.of) else { return Ok(None) };
        let payload = record.payload.get();
        let Outcome { status, error_type, revision } = serde_json::from_str(payload)?;
        if !self.is_kind(row.kind) || !self.passes_end_filters(Some(status), error_type.as_deref()) {
            return Ok(None);
        }
        row.closed_at_ms = Some(record.at_ms);
        if let Some(act) = &mut row.admin {
            act.outcome = error_type.unwrap_or_else(|| "ok".to_owned()).into();
            act.revision = revision.or(act.revision);
        } else {
            row.status = Some(status);
            row.outcome = Some(serde_json::from_str::<CallOutcome<'static>>(payload)?);
        }
        Ok(Some(row))
    }

    fn is_kind(&self, kind: Kind) -> bool {
        self.filters.kind.as_ref().is_none_or(|wanted| *wanted == word(&kind))
    }

    /// Whether the filters of the end pass.
    fn passes_end_filters(&self, status: Option<Status>, error_type: Option<&str>) -> bool {
        let status = status.map(|status| word(&status));
        let passes = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let is_refusal = || {
            let code = error_type.and_then(|code| code.parse::<ErrorType>().ok());
            code.is_some_and(|code| code.fault() == Fault::Gate)
        };
        passes(&self.filters.status, status.as_deref())
            && passes(&self.filters.error_type, error_type)
            && (!self.filters.refused || is_refusal())
    }

    /// Whether the filters of the beginning pass. An effect is shown with its call, so a call passes for the kind `effect`.
    fn matches(&self, row: &Row) -> bool {
        let Filters { session, tool, user, principal, action, .. } = self.filters;
        let agent = self.filters.scope().1;
        let call = row.call.as_ref();
        let act = row.admin.as_ref();
        let passes = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        agent.is_none_or(|agent| call.is_some_and(|call| *call.agent == *agent))
            && passes(session, call.map(|call| &*call.session))
            && passes(tool, call.map(|call| &*call.tool))
            && passes(user, call.and_then(|call| call.user.as_deref()))
            && passes(principal, row.principal())
            && passes(action, act.map(|act| &*act.action))
            && (self.is_kind(row.kind) || (row.kind == Kind::Call && self.is_kind(Kind::Effect)))
    }
}

fn print(item: &Row, printer: &mut Printer<'_>) -> Result {
    if printer.is_json() {
        return Ok(printer.json_text(&serde_json::to_string(item).unwrap_or_default())?);
    }
    Ok(printer.line(&row(item).join("  "))?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_api::error::{CallError, ErrorType};

    use super::super::super::testing::{Run, run_with};
    use super::super::tests::{intent, search};
    use super::*;
    use crate::client::testing::Canned;

    fn record(sequence: u64, kind: &str, of: u64, payload: Value) -> Value {
        let hash = "0".repeat(64);
        json!({"record": {"sequence": sequence, "kind": kind, "of": of, "at_ms": 0, "durable": 0,
            "previous_hash": hash, "hash": hash, "payload": payload}})
    }

    fn stream(lines: &[Value]) -> Canned {
        let body = lines.iter().map(|line| format!("{line}\n\n")).collect();
        Canned { content_type: "application/jsonl", body, ..Canned::empty(200) }
    }

    fn token_revoked() -> Canned {
        Canned::refusal(CallError::new(ErrorType::Unauthenticated, "the token is not known", "use another"))
    }

    async fn run(words: &[&str], answers: Vec<Canned>) -> Run {
        let filters = search(words).filters;
        run_with(answers, false, async |client, printer| follow(&filters, client, printer).await).await
    }

    #[tokio::test]
    async fn o3_it_goes_on_after_a_lost_connection_and_ends_with_the_token() {
        let first = stream(&[
            json!({"begin": {"after": "4"}}),
            record(5, "call", 0, intent("files/read")),
            record(6, "effect", 5, json!({"effect": "network_denied", "detail": "https://a.example"})),
        ]);
        let outcome = json!({"status": "error", "executed": "no", "error_type": "ACCESS_DENIED"});
        let second = stream(&[json!({"begin": {"after": "6"}}), record(7, "outcome", 5, outcome)]);
        let starting =
            Canned::refusal(CallError::new(ErrorType::Unavailable, "the daemon is starting", "wait"));
        let run = run(&[], vec![first, starting, second, token_revoked()]).await;
        run.result.expect_err("the token was revoked");
        let asked: Vec<String> = run.asked.iter().map(|asked| asked.line()).collect();
        let after = |after: &str| format!("GET /v1/audit/export?follow=true{after}");
        assert_eq!(asked, [after(""), after("&after=6"), after("&after=6"), after("&after=7")]);
        let lines: Vec<&str> = run.out.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("network_denied https://a.example"), "{lines:?}");
        assert!(lines[1].contains("acme/bot") && lines[1].contains("ACCESS_DENIED"), "{lines:?}");
    }

    #[tokio::test]
    async fn filters_choose_what_is_printed() {
        let ok = json!({"status": "ok", "executed": "yes"});
        let act = json!({"principal": "ab", "action": "agent.put", "target": "acme/bot", "outcome": "ok", "source": "http"});
        let lines = [
            json!({"begin": {"after": "0"}}),
            record(1, "call", 0, intent("files/read")),
            record(2, "call", 0, intent("files/write")),
            record(3, "outcome", 2, ok.clone()),
            record(4, "outcome", 1, ok),
            record(5, "act", 0, act),
        ];
        let cases: [(&[&str], &[&str]); 4] = [
            (&[], &["files/write", "files/read", "agent.put"]),
            (&["--tool", "files/read"], &["files/read"]),
            (&["--kind", "admin"], &["agent.put"]),
            (&["--status", "error"], &[]),
        ];
        for (words, expected) in cases {
            let run = run(words, vec![stream(&lines), token_revoked()]).await;
            let printed: Vec<&str> = run.out.lines().collect();
            assert_eq!(printed.len(), expected.len(), "{words:?}: {printed:?}");
            for (line, part) in printed.iter().zip(expected) {
                assert!(line.contains(part), "{words:?}: {line}");
            }
        }
    }
}
