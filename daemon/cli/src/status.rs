//! `toolgate status`: whether a daemon takes work and, for an operator, its queue, audit log and disk.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use toolgate_api::health::{Health, Readiness};

use super::client::{Client, ClientError, body_of};
use super::failure::{Failure, Result};
use super::print::Printer;

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate status
  toolgate status --json
  toolgate status --server unix:/run/toolgate/toolgate.sock     exit status 0 if it takes work: a health check
  toolgate status --config /etc/toolgate/toolgate.toml          the same on its machine, with or without TLS";

/// Which daemon is asked.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StatusOptions {
    /// Ask the daemon of this machine that has these settings, and trust the certificate that they name
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "context"])]
    pub(crate) config: Option<PathBuf>,
}

/// The state of a daemon.
#[derive(Debug, Serialize)]
struct StatusReport {
    /// `ok`, `sealed` (it takes work that needs no secret) or `unavailable`.
    status: String,
    version: String,
    /// Why it takes no work, or not all.
    reasons: Vec<Reason>,
    /// Built-in plugins that are being compiled.
    compiling: Vec<String>,
    #[serde(skip)]
    compiling_text: Option<String>,
    /// Numbers for operators.
    #[serde(flatten)]
    numbers: Option<Numbers>,
}

#[derive(Debug, Serialize)]
struct Reason {
    message: String,
    hint: String,
}

/// Numbers of `GET /metrics`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Numbers {
    queue_running: Option<u64>,
    queue_waiting: Option<u64>,
    approvals_waiting: Option<u64>,
    audit_lag_records: Option<u64>,
    store_bytes: Option<u64>,
    disk_free_bytes: Option<u64>,
    credentials_expired: Option<u64>,
    credentials_ending: Option<u64>,
    tokens_ending: Option<u64>,
}

/// Prints the state. Fails if the daemon takes no work.
pub async fn show(client: &Client, printer: &mut Printer<'_>) -> Result {
    let health: Health = client.get("/healthz").send().await?.body;
    let mut report = StatusReport {
        status: "unavailable".into(),
        version: health.version.into_owned(),
        reasons: Vec::new(),
        compiling: Vec::new(),
        compiling_text: None,
        numbers: None,
    };
    match client.get("/readyz").send::<Readiness>().await {
        Ok(ready) => {
            report.status = ready.body.status.into_owned();
            if ready.body.audit_lost {
                report.reasons.push(Reason {
                    message: "records of the audit log are lost, as the last start found".into(),
                    hint: "`toolgate audit verify` tells which".into(),
                });
            }
            report.compiling = ready.body.compiling;
            report.compiling_text = ready.body.detail;
            report.numbers = numbers(client).await?;
        }
        Err(ClientError::Refused(problem)) => {
            report.reasons.push(Reason { message: problem.detail.clone(), hint: problem.hint.clone() });
        }
        Err(error) => return Err(error.into()),
    }
    if report.status == "sealed" {
        report.reasons.push(Reason {
            message: "the root key is not there, so credentials cannot be used".into(),
            hint: "see the log for the reason, or unseal it with `toolgate credential unseal`".into(),
        });
    }
    print(&report, printer)?;
    match report.reasons.first() {
        Some(reason) if report.status == "unavailable" => {
            Err(Failure::new(format!("the daemon takes no work: {}", reason.message), reason.hint.clone()))
        }
        _ => Ok(()),
    }
}

/// The numbers, if the token is an operator's.
async fn numbers(client: &Client) -> Result<Option<Numbers>, ClientError> {
    let (status, body) = body_of(client.get("/metrics").response().await?).await?;
    if !status.is_success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&body);
    let number = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse().ok())
    };
    Ok(Some(Numbers {
        queue_running: number("toolgate_queue_running"),
        queue_waiting: number("toolgate_queue_waiting"),
        approvals_waiting: number("toolgate_approvals_waiting"),
        audit_lag_records: number("toolgate_audit_lag_records"),
        store_bytes: number("toolgate_store_bytes"),
        disk_free_bytes: number("toolgate_disk_free_bytes"),
        credentials_expired: number("toolgate_credentials_expired"),
        credentials_ending: number("toolgate_credentials_ending"),
        tokens_ending: number("toolgate_tokens_ending"),
    }))
}

fn print(report: &StatusReport, printer: &mut Printer<'_>) -> Result {
    if printer.is_json() {
        return Ok(printer.json(report)?);
    }
    let StatusReport { status, version, reasons, compiling_text, numbers, .. } = report;
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let number = |of: fn(&Numbers) -> Option<u64>| numbers.as_ref().and_then(of);
    printer.fields(&[
        ("status", Some(status.clone())),
        ("version", Some(version.clone())),
        ("compiling", compiling_text.as_ref().map(|text| text.trim_start_matches("compiling ").to_owned())),
        ("calls running", number(|numbers| numbers.queue_running).map(|calls| calls.to_string())),
        ("calls waiting", number(|numbers| numbers.queue_waiting).map(|calls| calls.to_string())),
        ("approvals waiting", number(|numbers| numbers.approvals_waiting).map(|number| number.to_string())),
        (
            "audit lag",
            number(|numbers| numbers.audit_lag_records).map(|records| format!("{records} records")),
        ),
        ("store", number(|numbers| numbers.store_bytes).map(mib)),
        ("disk free", number(|numbers| numbers.disk_free_bytes).map(mib)),
    ])?;
    // The reason of a daemon that takes no work is that of the command's failure.
    for reason in reasons.iter().filter(|_| status != "unavailable") {
        printer.warning(&reason.message)?;
        printer.note(&format!("  {}", reason.hint))?;
    }
    numbers.as_ref().map_or(Ok(()), |numbers| warn_of_ends(numbers, printer))
}

/// Warns of credentials and tokens that ended, or end within a week.
fn warn_of_ends(numbers: &Numbers, printer: &mut Printer<'_>) -> Result {
    let credentials = "see `toolgate credential list ORG` of each organization, and the events `credential_ends` in the log";
    let tokens = "see EXPIRES in `toolgate token list`, and replace them with `toolgate token rotate`";
    for (count, what, hint) in [
        (numbers.credentials_expired, "credentials that have expired", credentials),
        (numbers.credentials_ending, "credentials that end within a week", credentials),
        (numbers.tokens_ending, "tokens that end within a week", tokens),
    ] {
        if let Some(count) = count.filter(|count| *count > 0) {
            printer.warning(&format!("{what}: {count}"))?;
            printer.note(&format!("  {hint}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_api::error::{CallError, ErrorType};

    use crate::client::testing::Canned;
    use crate::testing::{Run, run_with};

    async fn status(answers: Vec<Canned>, is_json: bool) -> Run {
        run_with(answers, is_json, async |client, printer| super::show(client, printer).await).await
    }

    fn health() -> Canned {
        Canned::json(200, json!({"status": "ok", "version": "1.2.3"}))
    }

    fn forbidden() -> Canned {
        Canned::json(403, json!({"error_type": "FORBIDDEN"}))
    }

    #[tokio::test]
    async fn a_daemon_that_takes_work_is_a_success() {
        let detail = "compiling 3 of 3 built-in plugins: text";
        let ready = json!({"status": "ok", "version": "1.2.3", "compiling": ["text"], "detail": detail});
        let run = status(vec![health(), Canned::json(200, ready), forbidden()], false).await;
        run.result.expect("it takes work");
        let words: Vec<&str> = run.out.split_whitespace().collect();
        assert_eq!(
            words,
            ["status", "ok", "version", "1.2.3", "compiling", "3", "of", "3", "built-in", "plugins:", "text"]
        );
    }

    #[tokio::test]
    async fn a_sealed_daemon_is_a_success_with_a_reason() {
        let ready = json!({"status": "sealed", "version": "1.2.3"});
        let run = status(vec![health(), Canned::json(200, ready), forbidden()], true).await;
        run.result.expect("it takes work");
        let report: Value = serde_json::from_str(&run.out).expect("json");
        assert_eq!(report["status"], "sealed");
        assert!(
            report["reasons"][0]["hint"].as_str().is_some_and(|hint| hint.contains("unseal")),
            "{report}"
        );
    }

    /// K1: a token that ends soon is told before it does.
    #[tokio::test]
    async fn k1_what_ends_within_a_week_is_a_warning() {
        let ready = || Canned::json(200, json!({"status": "ok", "version": "1.2.3"}));
        let metrics = |tokens: u64| {
            let body = format!("toolgate_tokens_ending {tokens}\ntoolgate_credentials_ending 0\n");
            Canned { content_type: "text/plain", body, ..Canned::empty(200) }
        };
        let run = status(vec![health(), ready(), metrics(2)], false).await;
        run.result.expect("it takes work");
        assert!(run.notes.contains("tokens that end within a week: 2"), "{}", run.notes);
        assert!(
            run.notes.contains("toolgate token list") && !run.notes.contains("credentials"),
            "{}",
            run.notes
        );
        let none = status(vec![health(), ready(), metrics(0)], false).await;
        assert!(!none.notes.contains("within a week"), "{}", none.notes);
    }

    #[tokio::test]
    async fn a_daemon_that_takes_no_work_is_a_failure_with_its_reason() {
        let error = CallError::new(ErrorType::Unavailable, "the disk is full", "free space");
        let run = status(vec![health(), Canned::refusal(error)], false).await;
        let failure = run.result.expect_err("no work");
        assert_eq!(failure.to_string(), "the daemon takes no work: the disk is full");
        assert!(run.out.contains("unavailable"), "{}", run.out);
    }
}
