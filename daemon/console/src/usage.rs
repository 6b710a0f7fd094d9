//! Use and cost by organization, agent, user and tool, with a download (A3).

use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::usage::{UsageBy, UsageRow, csv};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_http::usage::{UsageParameters, rows};
use toolgate_state::clock::now_ms;

use super::elements::{
    Filters, ROWS, bytes, choice, duration, empty, filter, number, parameter, percent_encode, short, table,
};
use super::page::Page;
use super::viewer::Viewer;

/// Rows of a page; the download has all.
const SHOWN: usize = ROWS as usize;
const DAY_MS: u64 = 24 * 3_600_000;
/// What a report can be divided by.
const DIVISIONS: [&str; 7] =
    ["organization", "agent", "user", "tool", "agent,tool", "organization,agent", "day"];

/// Query parameters of the page.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UseQuery {
    organization: Option<String>,
    agent: Option<String>,
    user: Option<String>,
    tool: Option<String>,
    by: Option<String>,
    days: Option<u64>,
}

impl UseQuery {
    fn parameters(self, viewer: &Viewer) -> UsageParameters {
        let Self { organization, agent, user, tool, by, days } = self;
        let own = if viewer.caller.organization.is_some() { "agent" } else { "organization" };
        let since_ms = now_ms().saturating_sub(days.unwrap_or(30).saturating_sub(1).saturating_mul(DAY_MS));
        let by = Some(by.unwrap_or_else(|| own.to_owned()));
        UsageParameters {
            organization,
            agent,
            user,
            tool,
            by,
            since_ms: Some(since_ms),
            ..UsageParameters::default()
        }
    }
}

pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(query): Filters<UseQuery>,
) -> Result<Page, Problem> {
    let (mut items, by) = rows(&app, &viewer.caller, query.parameters(&viewer)).await?;
    if !by.contains(&UsageBy::Day) {
        items.sort_by_key(|row| std::cmp::Reverse((row.cost, row.calls)));
    }
    let export = format!("/console/usage/export?{}", uri.query().unwrap_or_default());
    let main = html! {
        (filters(&uri, viewer.caller.organization.is_none()))
        @if items.is_empty() { (empty("No call ended in this time.", "Choose more days.", None)) }
        @else {
            (list(&items, &by))
            @if items.len() > SHOWN { p.quiet { (number(items.len() as u64)) " rows in all: download them." } }
            p { a.button href=(export) download { "Download as CSV" } }
        }
    };
    Ok(Page::new("Use and cost", main))
}

/// The report as a file.
pub(super) async fn export(
    State(app): State<App>,
    viewer: Viewer,
    Filters(query): Filters<UseQuery>,
) -> Result<Response, Problem> {
    let (items, by) = rows(&app, &viewer.caller, query.parameters(&viewer)).await?;
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"toolgate-usage.csv\""),
    ];
    Ok((headers, csv(&items, &by)).into_response())
}

fn filters(uri: &Uri, is_of_platform: bool) -> Markup {
    let value = |name: &str| parameter(uri, name);
    html! {
        form.filters method="get" action="/console/usage" role="search" aria-label="Choose use" {
            (choice("by", "Divided by", value("by").as_deref(), &DIVISIONS))
            (choice("days", "Days", value("days").as_deref(), &["1", "7", "30", "90", "365"]))
            @if is_of_platform { (filter("organization", "Organization", value("organization").as_deref())) }
            (filter("agent", "Agent", value("agent").as_deref()))
            (filter("user", "User", value("user").as_deref()))
            (filter("tool", "Tool", value("tool").as_deref()))
            button { "Show" }
        }
    }
}

fn list(items: &[UsageRow], by: &[UsageBy]) -> Markup {
    let mut headings: Vec<&str> = by.iter().map(|by| by.as_str()).collect();
    headings.extend(["#Calls", "#Failed", "#Cost", "#Processor time", "#Instructions", "#Network"]);
    let rows = html! {
        @for row in items.iter().take(SHOWN) {
            tr {
                @for by in by { td { (property(row, *by)) } }
                td.number { (number(row.calls)) }
                td.number { (number(row.failed)) }
                td.number { (number(row.cost)) }
                td.number { (duration(row.cpu_us)) }
                td.number { (number(row.fuel)) }
                td.number { (bytes(row.egress_bytes)) }
            }
        }
    };
    table("Use", &headings, &rows)
}

/// A property of a row, which leads to its calls where there is a filter for it.
fn property(row: &UsageRow, by: UsageBy) -> Markup {
    let value = match by {
        UsageBy::Organization => &row.organization,
        UsageBy::Agent => &row.agent,
        UsageBy::User => &row.user,
        UsageBy::Tool => &row.tool,
        UsageBy::Day => &row.day,
    };
    let value = value.as_deref().unwrap_or_default();
    html! {
        @if value.is_empty() { "none" }
        @else if by == UsageBy::Day { (short(value)) }
        @else { a href={ "/console/calls?" (by.as_str()) "=" (percent_encode(value)) } { (short(value)) } }
    }
}
