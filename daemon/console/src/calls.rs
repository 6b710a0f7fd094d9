//! Calls: a search of their records, and one call with its way through the gate and the sandbox.

mod waterfall;

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_audit::{
    AuditError, CallIntent, CallOutcome, CallRecord, EffectRecord, Executed, Kind, Order, Query, Row, Status,
    Usage, Verdict,
};
use toolgate_core::identity::{Access, Caller};
use toolgate_http::audit::{self, AuditQuery};
use toolgate_http::extract::{Path, Query as QueryParameters};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use super::Console;
use super::elements::{
    Filters, PAGE_BYTES, ROWS, badge, bytes, choice, digest, duration, empty, facts, filter, json,
    label_cells, next_page, number, parameter, percent_encode, short, table, time, token,
};
use super::page::Page;
use super::viewer::Viewer;

/// Columns of a list of calls.
const HEADINGS: [&str; 6] = ["Time", "Agent", "Tool", "Outcome", "Decided by", "#Took"];

/// Statuses, as filters and pages name them.
pub(crate) const STATUSES: [(Status, &str, &str); 8] = [
    (Status::Running, "running", "warn"),
    (Status::Ok, "ok", "good"),
    (Status::Error, "error", "bad"),
    (Status::ClientRequired, "client_required", "warn"),
    (Status::ApprovalRequired, "approval_required", "warn"),
    (Status::Cancelled, "cancelled", ""),
    (Status::Crashed, "crashed", "bad"),
    (Status::Unknown, "unknown", "bad"),
];

/// The records of one call, the oldest first.
struct CallRecords {
    /// The intent with its outcome; for a call that was pending, one for each part of it.
    parts: Vec<Row>,
    effects: Vec<Row>,
    /// The calls that its script made.
    inner: Vec<Row>,
    /// Every record with its hash; empty where a rule of the platform is hidden.
    proof: Vec<CallRecord>,
}

/// The calls that match the filters of the address.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(query): Filters<AuditQuery>,
) -> Result<Page, Problem> {
    let page = audit::search(viewer.client(&app), QueryParameters(of_calls(query))).await?.0;
    // A later page, one of a time that is over, and one of more rows than a stream keeps do not change.
    let is_live = ["cursor", "until_ms", "order", "limit"].iter().all(|name| parameter(&uri, name).is_none());
    let main = html! {
        (filters(&viewer.caller, &uri))
        @if is_live {
            @let address = |part: &str| format!("/console/calls/{part}?{}", uri.query().unwrap_or(""));
            div data-live=(address("live/fragment")) data-refresh=(address("fragment")) data-order="newest" {
                (rows_or_hint(&page.items))
            }
        } @else {
            (rows_or_hint(&page.items))
        }
        (older_note(&uri, page.items.len(), page.next_cursor.as_deref()))
        (next_page(&uri, page.next_cursor.as_deref()))
    };
    Ok(Page::new("Calls", main))
}

/// The newest calls of a list, which the script asks for again and again.
pub(super) async fn fragment(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    uri: Uri,
    Filters(query): Filters<AuditQuery>,
) -> Result<Page, Problem> {
    let query = audit::scope_query(&viewer.caller, of_calls(query))?;
    let organization = viewer.caller.organization.as_ref();
    let key = format!("calls {} {}", organization.map_or("", Name::as_str), uri.query().unwrap_or(""));
    // Reads what is indexed, since pages that ask again and again would hurry the indexer.
    let rendering = async {
        let page = app.audit().search_indexed(&query).await;
        let mut rows = page?.rows;
        if organization.is_some() {
            rows.iter_mut().for_each(audit::hide_platforms);
        }
        Ok(rows_or_hint(&rows))
    };
    Ok(Page::fragment(console.rendered.get(key, rendering).await?))
}

fn of_calls(query: AuditQuery) -> AuditQuery {
    AuditQuery { kind: Some(Kind::Call), limit: Some(query.limit.unwrap_or(50).min(ROWS)), ..query }
}

fn rows_or_hint(calls: &[Row]) -> Markup {
    let rows: Vec<Markup> = calls.iter().map(row).collect();
    call_list(rows.iter())
}

/// The note of a page that ends before its rows do, since it looked through many of them. With the oldest first each page has a
/// next one, for records that come.
pub(super) fn older_note(uri: &Uri, rows: usize, next: Option<&str>) -> Markup {
    let is_cut = rows == 0 && next.is_some() && parameter(uri, "order").as_deref() != Some("oldest_first");
    html! { @if is_cut { p.quiet { "Older ones may match: see the next page." } } }
}

/// A list of rendered calls.
pub(crate) fn call_list<'a>(rows: impl ExactSizeIterator<Item = &'a Markup>) -> Markup {
    if rows.len() == 0 {
        return empty(
            "No call matches.",
            "Calls come from orchestrators and from the command line:",
            Some("toolgate call acme/helper arithmetic/evaluate '{\"expression\": \"6 * 7\"}'"),
        );
    }
    table("Calls", &HEADINGS, &html! { @for row in rows { (row) } })
}

fn filters(caller: &Caller, uri: &Uri) -> Markup {
    let value = |name: &str| parameter(uri, name);
    let statuses: Vec<&str> = STATUSES.iter().map(|(_, word, _)| *word).collect();
    let codes: Vec<&str> = ErrorType::ALL.iter().map(|code| code.as_str()).collect();
    html! {
        form.filters method="get" action="/console/calls" role="search" aria-label="Filter calls" {
            @if caller.organization.is_none() {
                (filter("organization", "Organization", value("organization").as_deref()))
            }
            (filter("agent", "Agent", value("agent").as_deref()))
            (filter("tool", "Tool", value("tool").as_deref()))
            (filter("session", "Session", value("session").as_deref()))
            (filter("call", "Call", value("call").as_deref()))
            (filter("user", "User", value("user").as_deref()))
            (filter("principal", "Token", value("principal").as_deref()))
            (choice("status", "Status", value("status").as_deref(), &statuses))
            (choice("error_type", "Error", value("error_type").as_deref(), &codes))
            @for name in ["since_ms", "until_ms"] {
                @if let Some(value) = value(name) { input type="hidden" name=(name) value=(short(&value)); }
            }
            button { "Filter" }
            a.button href="/console/calls" { "Reset" }
        }
        (days(uri))
    }
}

/// The same calls of some days, in UTC.
fn days(uri: &Uri) -> Markup {
    const DAY_MS: u64 = 24 * 3_600_000;
    let now = now_ms();
    let today = now - now % DAY_MS;
    let kept = uri.query().unwrap_or("").split('&').filter(|pair| {
        !pair.is_empty() && ["since_ms=", "until_ms=", "cursor="].iter().all(|name| !pair.starts_with(name))
    });
    let kept: String = kept.map(|pair| format!("&{pair}")).collect();
    let link = |word: &str, since: u64, until: Option<u64>| {
        let until = until.map(|until| format!("&until_ms={until}")).unwrap_or_default();
        html! { li { a href=(format!("/console/calls?since_ms={since}{until}{kept}")) { (word) } } }
    };
    html! {
        ul.links aria-label="Days, in UTC" {
            (link("today", today, None))
            (link("yesterday", today - DAY_MS, Some(today)))
            (link("7 days", today - 6 * DAY_MS, None))
        }
    }
}

/// One call of a list.
pub(crate) fn row(row: &Row) -> Markup {
    let cells = html! {
        tr data-row=(row.sequence) {
            @match &row.call {
                Some(call) => {
                    th scope="row" { a href=(address(call)) { (time(row.at_ms)) } }
                    td { (short(&call.organization)) "/" (short(&call.agent)) }
                    td { code { (short(&call.tool)) } }
                    td { (status(row)) }
                    td { (decision(call)) }
                    td.number { @if let Some(outcome) = &row.outcome { (duration(outcome.duration_us)) } }
                },
                None => {
                    th scope="row" { (time(row.at_ms)) }
                    td colspan="5" { (badge("bad", "damaged")) " The record cannot be read. See the audit log." }
                },
            }
        }
    };
    label_cells(&HEADINGS, &cells)
}

/// The address of a call's page.
pub(crate) fn address(call: &CallIntent<'_>) -> String {
    format!("/console/calls/{}/{}", percent_encode(&call.session), percent_encode(&call.call))
}

/// The status of a call, with the code of one that failed.
pub(crate) fn status(row: &Row) -> Markup {
    let known = STATUSES.iter().find(|(status, ..)| Some(*status) == row.status);
    let (word, tone) = known.map_or(("running", "warn"), |(_, word, tone)| (*word, *tone));
    let code = row.outcome.as_ref().and_then(|outcome| outcome.error_type.as_deref());
    html! { (badge(tone, code.unwrap_or(word))) }
}

/// The layer and the rule that decided. The platform's rules are hidden from tenants.
fn decision(call: &CallIntent<'_>) -> Markup {
    html! {
        (short(&call.reason.layer))
        @if !call.reason.rule.is_empty() { " · " (short(&call.reason.rule)) }
        @if let Some(why) = &call.reason.why { ": " (short(why)) }
    }
}

/// One call.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((session, call)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let records = records(&app, &viewer.caller, &session, &call).await?;
    let Some(row) = records.parts.first() else { return Err(Problem::not_found("call")) };
    Ok(match &row.call {
        Some(intent) => {
            Page::new(format!("Call of {}", short(&intent.tool)), render(&records, row, intent, &viewer))
        }
        None => Page::new(
            "Call",
            html! { p { (badge("bad", "damaged")) " The record of the call cannot be read." } },
        ),
    })
}

async fn records(app: &App, caller: &Caller, session: &str, call: &str) -> Result<CallRecords, Problem> {
    let of_session = || AuditQuery { session: Some(session.to_owned()), ..AuditQuery::default() };
    let own = AuditQuery { call: Some(call.to_owned()), ..of_session() };
    let scoped = |query| {
        let query = audit::scope_query(caller, query)?;
        Ok::<_, Problem>(Query { limit: Some(ROWS), order: Order::OldestFirst, ..query })
    };
    let (own, inner) = (scoped(own)?, scoped(of_session())?);
    let mut rows = search(app, caller, &own).await?;
    audit::name_principals(app, &mut rows).await?;
    let (parts, effects): (Vec<Row>, Vec<Row>) =
        rows.into_iter().filter(|row| row.kind != Kind::Damaged).partition(|row| row.kind == Kind::Call);
    let inner = Query { kind: Some(Kind::Call), parent: Some(call.to_owned()), ..inner };
    let inner = search(app, caller, &inner).await?;
    let hides_rule = caller.organization.is_some()
        && parts.iter().any(|row| row.call.as_ref().is_some_and(|call| call.reason.rule.is_empty()));
    let proof = match hides_rule {
        true => Vec::new(),
        false => {
            let records = app.audit().records(&own).await?;
            records.into_iter().filter(|record| record.kind != "record").collect()
        }
    };
    Ok(CallRecords { parts, effects, inner, proof })
}

async fn search(app: &App, caller: &Caller, query: &Query) -> Result<Vec<Row>, AuditError> {
    let mut rows = app.audit().search(query).await?.rows;
    if caller.organization.is_some() {
        rows.iter_mut().for_each(audit::hide_platforms);
    }
    Ok(rows)
}

/// The page of a call. Auditors get no links to pages of owners.
fn render(records: &CallRecords, row: &Row, call: &CallIntent<'_>, viewer: &Viewer) -> Markup {
    let is_owner = viewer.may(Access::Own);
    html! {
        (facts(&summary(row, call, is_owner)))
        section aria-labelledby="gate" { h2 id="gate" { "Gate" } (gate(call, is_owner)) }
        section aria-labelledby="arguments" { h2 id="arguments" { "Arguments" } (arguments(row, call)) }
        section aria-labelledby="run" {
            h2 id="run" { "Run" }
            @for part in &records.parts {
                @match &part.outcome {
                    Some(outcome) => (ran(part, outcome)),
                    None => p { "The call has not ended." },
                }
            }
        }
        section aria-labelledby="phases" {
            h2 id="phases" { "Phases" }
            (waterfall::render(&records.parts, &records.inner))
        }
        section aria-labelledby="requests" { h2 id="requests" { "Requests" } (requests(&records.effects)) }
        section aria-labelledby="effects" {
            h2 id="effects" { "Effects" }
            (effects(row, &records.effects))
        }
        @if !records.inner.is_empty() {
            section aria-labelledby="inner" {
                h2 id="inner" { "Calls of its script" }
                (rows_or_hint(&records.inner))
            }
        }
        section aria-labelledby="records" {
            h2 id="records" { "Audit records" }
            (proof(records, viewer.may(Access::Verify)))
        }
    }
}

fn summary(row: &Row, call: &CallIntent<'_>, is_owner: bool) -> Vec<(&'static str, Markup)> {
    let agent = format!(
        "/console/organizations/{}/agents/{}",
        percent_encode(&call.organization),
        percent_encode(&call.agent)
    );
    let name = format!("{}/{}", short(&call.organization), short(&call.agent));
    let mut pairs = vec![
        ("Outcome", status(row)),
        ("Time", time(row.at_ms)),
        (
            "Tool",
            html! { code { (short(&call.tool)) } @if call.tool != call.wire_name { " called as " code { (short(&call.wire_name)) } } },
        ),
        (
            "Agent",
            if is_owner {
                html! { a href=(agent) { (name) } }
            } else {
                html! { (name) }
            },
        ),
        (
            "Session",
            html! { a href=(format!("/console/calls?session={}", percent_encode(&call.session))) { (short(&call.session)) } },
        ),
        ("Call", html! { code { (short(&call.call)) } }),
    ];
    if let Some(parent) = &call.parent {
        let address = format!("/console/calls/{}/{}", percent_encode(&call.session), percent_encode(parent));
        pairs.push(("Made by the script of", html! { a href=(address) { (short(parent)) } }));
    }
    let optional = [("User", &call.user), ("Conversation", &call.conversation), ("Channel", &call.channel)];
    let known = optional.into_iter().filter_map(|(term, text)| Some((term, text.as_deref()?)));
    pairs.extend(known.map(|(term, text)| (term, html! { (short(text)) })));
    pairs.push((
        "Asked by",
        html! { (token(&call.principal, row.principal_label.as_deref())) " over " (short(&call.source)) },
    ));
    pairs
}

fn gate(call: &CallIntent<'_>, is_owner: bool) -> Markup {
    let verdict = match call.verdict {
        Verdict::Run => badge("good", "runs"),
        Verdict::NeedsApproval => badge("warn", "waits for a person"),
        Verdict::Refused => badge("bad", "refused"),
    };
    let explain = format!(
        "/console/explain/{}/{}?tool={}",
        percent_encode(&call.organization),
        percent_encode(&call.agent),
        percent_encode(&call.tool)
    );
    let mut pairs = vec![
        ("Verdict", verdict),
        ("Decided by", decision(call)),
        (
            "Rules",
            html! {
                "revision " (number(call.policy_revision))
                @if is_owner { " · " a href=(explain) { "explain with the present rules" } }
            },
        ),
    ];
    pairs.insert(2, ("Arguments", validation(call)));
    if let Some(repeated) = call.repeated {
        pairs.push(("Stands for", html! { (number(repeated)) " equal refusals" }));
    }
    if let Some(plugin) = &call.plugin {
        pairs.push(("Plugin", html! { "version " (short(&plugin.version)) ", " (digest(&plugin.digest)) }));
    }
    facts(&pairs)
}

/// Whether the arguments were held against the schema of the tool, which comes after the rules.
fn validation(call: &CallIntent<'_>) -> Markup {
    match (call.verdict, &*call.reason.layer) {
        (Verdict::Run | Verdict::NeedsApproval, _) => badge("good", "fit the schema"),
        (Verdict::Refused, "schema") => badge("bad", "do not fit the schema"),
        (Verdict::Refused, "rate") => badge("good", "fit the schema"),
        (Verdict::Refused, _) => html! { "not validated: a rule before refused the call" },
    }
}

fn arguments(row: &Row, call: &CallIntent<'_>) -> Markup {
    html! {
        @match &call.arguments {
            Some(arguments) => (json(arguments, PAGE_BYTES)),
            None if row.arguments_deleted => p { "The organization's data was deleted, so the arguments cannot be read any more." },
            None => p { "They are not recorded: the tool is not known, or they were not JSON." },
        }
        @if !call.nulls_removed.is_empty() {
            p.quiet { "Removed, since null stands for absent: " code { (short(&call.nulls_removed.join(", "))) } }
        }
        p.quiet { "Secrets are redacted. SHA-256 of what was sent: " code { (call.arguments_sha256) } }
    }
}

fn ran(row: &Row, outcome: &CallOutcome<'_>) -> Markup {
    let executed = match outcome.executed {
        Executed::Yes => "the code of the plugin ran",
        Executed::No => "no code of the plugin ran",
        Executed::Unknown => "unknown whether code of the plugin ran",
    };
    let mut pairs = vec![("Outcome", html! { (status(row)) ", " (executed) })];
    if let Some(ended_ms) = row.closed_at_ms {
        pairs.push(("Ended", time(ended_ms)));
    }
    if let Some(output) = &outcome.output {
        pairs.push(("Output", html! { (bytes(output.bytes)) ", SHA-256 " code { (output.sha256) } " · outputs are not recorded" }));
    }
    html! {
        (facts(&pairs))
        @if outcome.executed != Executed::No { (usage(&outcome.usage)) }
    }
}

fn usage(usage: &Usage) -> Markup {
    facts(&[
        ("Instructions", html! { (number(usage.fuel)) }),
        ("Memory at most", html! { (bytes(usage.memory_bytes)) }),
        ("Processor time", html! { (duration(usage.cpu_us)) }),
        ("Host calls", html! { (number(usage.host_calls)) }),
        ("Network", html! { (bytes(usage.egress_bytes)) }),
        ("Log", html! { (bytes(usage.log_bytes)) }),
        ("Cost", html! { (number(usage.cost)) }),
    ])
}

/// The requests to upstreams, and those that the gate of hosts denied.
fn requests(effects: &[Row]) -> Markup {
    let is_request = |effect: &&EffectRecord<'_>| effect.effect.starts_with("network_");
    let rows = html! {
        @for effect in effects.iter().filter_map(|row| row.effect.as_ref()).filter(is_request) {
            // The address has no space after its colon.
            @let (request, answer) = effect.detail.split_once(": ").unwrap_or((&*effect.detail, ""));
            tr {
                th scope="row" { code { (short(request)) } }
                td { @if effect.effect == "network_denied" { (badge("bad", "denied")) " " } (short(answer)) }
            }
        }
    };
    html! {
        @if rows.0.is_empty() { p { "The call sent no request." } }
        @else { (table("Requests", &["Request", "Answer"], &rows)) }
    }
}

fn effects(row: &Row, effects: &[Row]) -> Markup {
    let known = effects.iter().filter_map(|row| Some((row.at_ms, row.effect.as_ref()?)));
    let known: Vec<_> = known.filter(|(_, effect)| !effect.effect.starts_with("network_")).collect();
    let rows = html! {
        @for (at_ms, effect) in &known {
            tr { th scope="row" { (time(*at_ms)) } td { (short(&effect.effect)) } td { code { (short(&effect.detail)) } } }
        }
    };
    html! {
        @if known.is_empty() { p { "The call had no other effect outside of the sandbox." } }
        @else { (table("Effects", &["Time", "Effect", "Detail"], &rows)) }
        @if let Some(lost) = row.effects_lost { p.quiet { (number(lost)) " effects more did not fit into the log." } }
    }
}

/// The records of the call, each with its hash. The hash of a record with a hidden rule would tell the rule.
fn proof(records: &CallRecords, may_verify: bool) -> Markup {
    let rows = html! {
        @for record in records.proof.iter().take(ROWS as usize) {
            tr {
                th scope="row" { (number(record.sequence)) }
                td { (record.kind) }
                td { (time(record.at_ms)) }
                td { code { (record.hash) } }
            }
        }
    };
    let first = records.parts.first().map_or(0, |row| row.sequence).saturating_sub(1);
    let last_ms = records.proof.last().map(|record| record.at_ms.saturating_add(1));
    html! {
        @if records.proof.is_empty() { p { "The hashes are hidden: a rule of the platform decided." } }
        @else { (table("Records", &["Record", "Kind", "Time", "SHA-256"], &rows)) }
        @if records.proof.len() > ROWS as usize { p.quiet { (number(records.proof.len() as u64)) " records in all." } }
        p {
            "Each hash covers its record and the hash before it, so that no record can be changed without all that follow. "
            @if may_verify { a href="/console/audit/verification" { "Verify the whole chain" } "." }
        }
        @if let Some(last_ms) = last_ms {
            p {
                a.button href=(format!("/console/audit/export?after={first}&until_ms={last_ms}")) download="call.jsonl" {
                    "Save the records with their hashes"
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_audit::sha256;

    #[test]
    fn o6_a_call_of_many_records_has_few_rows() {
        let record = |sequence| CallRecord { sequence, kind: "effect", at_ms: 1, hash: sha256(b"") };
        let shown = |count| {
            let proof_of = (1..=count).map(record).collect();
            let records = CallRecords { parts: vec![], effects: vec![], inner: vec![], proof: proof_of };
            let text = proof(&records, false).into_string();
            (text.matches("<th scope=\"row\"").count(), text.contains("records in all"))
        };
        assert_eq!((shown(100), shown(101)), ((100, false), (100, true)));
    }

    #[test]
    fn o6_each_status_has_the_word_of_documents() {
        for (status, word, _) in STATUSES {
            assert_eq!(serde_json::to_value(status).unwrap(), word);
        }
    }
}
