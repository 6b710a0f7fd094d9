//! The audit log: a search of all records, and the link to its export.

use axum::extract::State;
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use maud::{Markup, html};
use toolgate_api::audit::DamagedRange;
use toolgate_api::error::ErrorType;
use toolgate_audit::{AdminRecord, Recovery, Row};
use toolgate_core::identity::{Access, Caller};
use toolgate_http::audit::{self, AuditQuery, ExportParameters};
use toolgate_http::extract::Query;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::calls;
use super::elements::{
    Filters, LIST_BYTES, ROWS, badge, choice, empty, filter, json, next_page, number, parameter, short,
    table, time, token,
};
use super::organizations;
use super::page::Page;
use super::viewer::Viewer;

const KINDS: [&str; 5] = ["call", "effect", "admin", "recovery", "damaged"];

/// The records that match the filters of the address.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(query): Filters<AuditQuery>,
) -> Result<Page, Problem> {
    let query = AuditQuery { limit: Some(query.limit.unwrap_or(50).min(ROWS)), ..query };
    let page = audit::search(viewer.client(&app), Query(query)).await?.0;
    let main = html! {
        @if let Some(step) = organizations::first_step(&app, &viewer) { (step) }
        (filters(&viewer.caller, &uri))
        p {
            a.button href="/console/audit/export" download="audit.jsonl" { "Export all records" }
            " Lines of JSON, with the hashes that prove each record."
            @if viewer.may(Access::Verify) { " " a href="/console/audit/verification" { "Verify the whole chain" } "." }
        }
        @if page.items.is_empty() {
            (empty("No record matches.", "Change the filters, or look at all records.", None))
        } @else {
            (records(&page.items))
        }
        (calls::older_note(&uri, page.items.len(), page.next_cursor.as_deref()))
        (next_page(&uri, page.next_cursor.as_deref()))
    };
    Ok(Page::new("Audit", main))
}

/// The records as lines of JSON, to save.
pub(super) async fn export(
    State(app): State<App>,
    viewer: Viewer,
    Filters(parameters): Filters<ExportParameters>,
) -> Result<Response, Problem> {
    if parameters.follow {
        // The stream would go on after the person signs out.
        let message = "the console does not follow the log";
        let hint = "leave `follow` out, or run `toolgate audit follow`";
        return Err(Problem::new(ErrorType::InvalidRequest, message, hint));
    }
    let mut response = audit::export(viewer.client(&app), Query(parameters)).await?;
    let saved = HeaderValue::from_static("attachment; filename=\"audit.jsonl\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, saved);
    Ok(response)
}

fn filters(caller: &Caller, uri: &Uri) -> Markup {
    let value = |name: &str| parameter(uri, name);
    html! {
        form.filters method="get" action="/console/audit" role="search" aria-label="Filter records" {
            (choice("kind", "Kind", value("kind").as_deref(), &KINDS))
            @if caller.organization.is_none() {
                (filter("organization", "Organization", value("organization").as_deref()))
            }
            (filter("action", "Action", value("action").as_deref()))
            (filter("principal", "Token", value("principal").as_deref()))
            (filter("agent", "Agent", value("agent").as_deref()))
            (filter("tool", "Tool", value("tool").as_deref()))
            (filter("session", "Session", value("session").as_deref()))
            button { "Filter" }
            a.button href="/console/audit" { "Reset" }
        }
    }
}

fn records(records: &[Row]) -> Markup {
    let rows = html! {
        @for row in records {
            tr {
                th scope="row" { (number(row.sequence)) }
                td { (time(row.at_ms)) }
                (what(row))
            }
        }
    };
    table("Records", &["Record", "Time", "Organization", "By", "What", "Outcome", "Details"], &rows)
}

/// The cells of a record, by its kind.
fn what(row: &Row) -> Markup {
    if let Some(call) = &row.call {
        return html! {
            td { (short(&call.organization)) }
            td { (token(&call.principal, row.principal_label.as_deref())) }
            td { "call of " code { (short(&call.tool)) } }
            td { (calls::status(row)) }
            td { a href=(calls::address(call)) { "See the call" } }
        };
    }
    if let Some(act) = &row.admin {
        return admin(act, row.principal_label.as_deref(), row.arguments_deleted);
    }
    if let Some(effect) = &row.effect {
        return html! {
            td {} td {}
            td { (short(&effect.effect)) }
            td {}
            td { code { (short(&effect.detail)) } @if let Some(of) = row.of { " of record " (number(of)) } }
        };
    }
    let (word, details) = match (&row.recovery, &row.damaged) {
        (Some(recovery), _) => ("recovery", recovery_findings(recovery)),
        (None, Some(damaged)) => ("damaged records", damage(damaged)),
        (None, None) => ("record", html! {}),
    };
    html! { td {} td {} td { (word) } td {} td { (details) } }
}

fn admin(act: &AdminRecord<'_>, label: Option<&str>, is_deleted: bool) -> Markup {
    let tone = match &*act.outcome {
        "ok" => "good",
        "UNKNOWN" => "warn",
        _ => "bad",
    };
    html! {
        td { @match &act.organization { Some(name) => (short(name)), None => "platform" } }
        td { (token(&act.principal, label)) }
        td { (short(&act.action)) " " code { (short(&act.target)) } }
        td { (badge(tone, &act.outcome)) }
        td {
            @match &act.details {
                Some(details) => details { summary { "Details" } (json(details, LIST_BYTES)) },
                None if is_deleted => { "deleted" },
                None => {},
            }
        }
    }
}

fn recovery_findings(recovery: &Recovery) -> Markup {
    html! {
        (number(recovery.unknown)) " calls and acts were running."
        @if let Some(cut) = &recovery.cut { " A torn end of " (number(cut.bytes)) " bytes was cut." }
        @if recovery.is_suspicious() { " " (badge("bad", "acknowledged records may be lost")) }
    }
}

fn damage(damaged: &DamagedRange) -> Markup {
    html! { (badge("bad", "damaged")) " " (number(damaged.records)) " records: " (short(&damaged.what)) }
}
