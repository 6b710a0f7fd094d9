//! The overview: health, calls of the last hour and days, the most used tools, quotas.

use axum::extract::State;
use maud::{Markup, html};
use toolgate_admission::SavedCounter;
use toolgate_api::error::{CallError, ErrorType, Fault};
use toolgate_api::name::Name;
use toolgate_api::quota::Quota;
use toolgate_api::usage::{UsageBy, UsageRow};

use super::elements::{badge, bytes, duration, empty, facts, number, percent_encode, short, table};
use super::guard::Viewer;
use super::page::Page;
use super::text::date_time;
use crate::admin::audit_failure;
use crate::audit::{RECENT_CALLS, RecentCalls, Status, UsageQuery};
use crate::clock::now_ms;
use crate::http::health;
use crate::http::problem::Problem;
use crate::http::state::App;
use crate::identity::{Access, Caller};
use crate::metrics::PhaseDurations;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 86_400_000;
/// Days of the chart.
const DAYS: u64 = 30;
/// Tools and quotas that are listed.
const LISTED: usize = 10;
/// Counters of quotas that are read, to list the most used of them.
const COUNTERS: u32 = 1_000;

/// The numbers of the page.
struct Overview {
    health: Health,
    hour: Vec<RecentCalls>,
    days: Vec<UsageRow>,
    /// None where there are too many tools for a report.
    tools: Option<Vec<UsageRow>>,
    quotas: Vec<QuotaUse>,
    platform: Option<Platform>,
    /// The first steps in an installation without calls.
    first: Option<String>,
}

struct Health {
    /// The state in a word, or why the daemon takes no work.
    status: Result<String, CallError>,
    version: String,
    compiling: usize,
}

/// The numbers that operators alone see.
struct Platform {
    organizations: usize,
    plugins: usize,
    sessions: usize,
    running: usize,
    waiting: usize,
    store_bytes: u64,
    audit_lag: u64,
    phases: Vec<PhaseDurations>,
}

/// The use of a quota in its present period.
struct QuotaUse {
    name: String,
    owner: String,
    /// The organization, agent, user … that it is for.
    of: String,
    measure: String,
    used: u64,
    amount: Option<u64>,
}

/// The page of the viewer's organization, or of the platform. Roles that may not read the audit log see the health alone.
pub(super) async fn page(State(app): State<App>, viewer: Viewer) -> Result<Page, Problem> {
    let main = match viewer.may(Access::Audit) {
        true => render(&load(&app, &viewer.caller).await?),
        false => state(&health(&app).await),
    };
    Ok(Page::new("Overview", main))
}

async fn load(app: &App, caller: &Caller) -> Result<Overview, Problem> {
    let scope = caller.may_audit(None)?.map(|name| name.to_string());
    let now = now_ms();
    let query = |by, days: u64| UsageQuery {
        organization: scope.clone(),
        since_ms: Some(now.saturating_sub(days * DAY_MS)),
        by: vec![by],
        ..UsageQuery::default()
    };
    let failed = |error| audit_failure(&error);
    let days = app.audit().usage(&query(UsageBy::Day, DAYS - 1)).await.map_err(failed)?.unwrap_or_default();
    let mut tools = app.audit().usage(&query(UsageBy::Tool, DAYS - 1)).await.map_err(failed)?;
    if let Some(tools) = &mut tools {
        tools.sort_by_key(|row| std::cmp::Reverse(row.calls));
        tools.truncate(LISTED);
    }
    let hour = app.audit().recent_calls(scope.as_deref(), now.saturating_sub(HOUR_MS)).await;
    let is_new = days.is_empty();
    Ok(Overview {
        health: health(app).await,
        hour: hour.map_err(failed)?,
        days: all_days(now / DAY_MS, days),
        tools,
        quotas: quotas(app, caller).await?,
        platform: if caller.may(Access::Operate).is_ok() { Some(platform(app).await?) } else { None },
        first: is_new.then(|| first_step(app, caller)),
    })
}

async fn health(app: &App) -> Health {
    match health::readyz(State(app.clone())).await {
        Ok(axum::Json(ready)) => Health {
            status: Ok(ready.status.into()),
            version: ready.version.into(),
            compiling: ready.compiling.len(),
        },
        Err(Problem(error)) => {
            Health { status: Err(error), version: env!("CARGO_PKG_VERSION").to_owned(), compiling: 0 }
        }
    }
}

async fn platform(app: &App) -> Result<Platform, Problem> {
    let parts = app.parts();
    let dispatch = parts.dispatcher.parts();
    let (running, waiting) = dispatch.queue.depth();
    Ok(Platform {
        organizations: parts.registry.snapshot().organizations(None).len(),
        plugins: parts.plugins.list(None).len(),
        sessions: parts.sessions.filter(|_| true).len(),
        running,
        waiting,
        store_bytes: parts.store.bytes().await.map_err(CallError::from)?,
        audit_lag: dispatch.audit.lag(),
        phases: dispatch.metrics.phases().collect(),
    })
}

fn first_step(app: &App, caller: &Caller) -> String {
    let snapshot = app.parts().registry.snapshot();
    let Some(organization) = snapshot.organizations(caller.organization.as_ref()).into_iter().next() else {
        return "toolgate org put acme --enabled 'arithmetic/*'".to_owned();
    };
    match snapshot.agents(&organization).first() {
        None => format!("toolgate agent put {organization}/helper --enabled 'arithmetic/*'"),
        Some(agent) => {
            format!(
                "toolgate call {organization}/{agent} arithmetic/evaluate '{{\"expression\": \"6 * 7\"}}'"
            )
        }
    }
}

/// One row for each day of the chart, also for those without calls.
fn all_days(today: u64, found: Vec<UsageRow>) -> Vec<UsageRow> {
    let mut found = found.into_iter().peekable();
    let days = today.saturating_sub(DAYS - 1)..=today;
    let names = days
        .map(|day| date_time(day * DAY_MS).chars().take_while(|letter| *letter != ' ').collect::<String>());
    let row_of = |name: String| {
        while found.next_if(|row| row.day.as_deref() < Some(name.as_str())).is_some() {}
        found
            .next_if(|row| row.day.as_ref() == Some(&name))
            .unwrap_or_else(|| UsageRow { day: Some(name), ..UsageRow::default() })
    };
    names.map(row_of).collect()
}

/// The quotas with use in their present period, the most used first. Tenants see those of their own policies.
async fn quotas(app: &App, caller: &Caller) -> Result<Vec<QuotaUse>, Problem> {
    let organization = caller.organization.as_ref();
    let counters = app.parts().store.greatest_quota_use(organization, now_ms(), COUNTERS).await;
    let counters = counters.map_err(CallError::from)?;
    let mut found: Vec<QuotaUse> = counters.iter().filter_map(|counter| quota_use(app, counter)).collect();
    // Thousandths, so that quotas of any measure compare.
    let share = |quota: &QuotaUse| quota.used.saturating_mul(1_000) / quota.amount.unwrap_or(u64::MAX).max(1);
    found.sort_by_key(|quota| std::cmp::Reverse(share(quota)));
    found.truncate(LISTED);
    Ok(found)
}

/// Takes a counter's key apart: owner, its names, the quota, its measure, and what the quota is divided by.
fn quota_use(app: &App, counter: &SavedCounter) -> Option<QuotaUse> {
    let parts = key_parts(&counter.key)?;
    let (owner, rest) = parts.split_first()?;
    let names = match *owner {
        "organization" => 1,
        "agent" => 2,
        _ => 0,
    };
    let (of, rest) = rest.split_at_checked(names)?;
    let [name, measure, divided @ ..] = rest else { return None };
    let snapshot = app.parts().registry.snapshot();
    let names: Vec<Name> = of.iter().filter_map(|name| Name::parse(name).ok()).collect();
    let amount =
        |quotas: &[Quota]| quotas.iter().find(|quota| quota.name.as_str() == *name).map(|quota| quota.amount);
    let amount = match names.as_slice() {
        [] => amount(&snapshot.policy().quotas),
        [organization] => {
            snapshot.organization(organization).and_then(|rules| amount(&rules.document().quotas))
        }
        [organization, agent, ..] => {
            snapshot.rules(organization, agent).and_then(|rules| amount(&rules.agent.document().quotas))
        }
    };
    // Processor time is counted in microseconds, and written in milliseconds in policies.
    let used = if *measure == "cpu_ms" { counter.used / 1_000 } else { counter.used };
    let of = [of, divided].concat().join(" / ");
    Some(QuotaUse {
        name: (*name).to_owned(),
        owner: (*owner).to_owned(),
        of,
        measure: (*measure).to_owned(),
        used,
        amount,
    })
}

/// The parts of a key: each with its length in bytes and a colon before it.
fn key_parts(key: &str) -> Option<Vec<&str>> {
    let (mut rest, mut parts) = (key, Vec::new());
    while !rest.is_empty() {
        let (length, after) = rest.split_once(':')?;
        let (part, after) = after.split_at_checked(length.parse().ok()?)?;
        parts.push(part);
        rest = after;
    }
    Some(parts)
}

fn render(overview: &Overview) -> Markup {
    html! {
        (state(&overview.health))
        @if let Some(command) = &overview.first {
            (empty("There were no calls in the last 30 days.", "Begin with:", Some(command)))
        }
        @if let Some(platform) = &overview.platform { (platform_facts(platform)) }
        section aria-labelledby="hour" {
            h2 id="hour" { "The last hour" }
            (last_hour(&overview.hour))
        }
        section aria-labelledby="days" {
            h2 id="days" { "Calls a day" }
            (chart(&overview.days))
            (days_table(&overview.days))
        }
        section aria-labelledby="tools" {
            h2 id="tools" { "Most used tools" }
            (tools_table(overview.tools.as_deref()))
        }
        @if let Some(platform) = &overview.platform {
            section aria-labelledby="phases" {
                h2 id="phases" { "Phases of calls since the start" }
                (phases(&platform.phases))
            }
        }
        @if !overview.quotas.is_empty() {
            section aria-labelledby="quotas" {
                h2 id="quotas" { "Quotas" }
                (quota_table(&overview.quotas))
            }
        }
    }
}

fn state(health: &Health) -> Markup {
    let word = match &health.status {
        Ok(status) if status == "ok" => badge("good", "takes work"),
        Ok(status) => {
            html! { (badge("warn", status)) " Secrets cannot be used until the root key is given: " code { "toolgate root-key unseal" } }
        }
        Err(error) => {
            html! { (badge("bad", "takes no work")) " " (short(&error.message)) ". " (short(&error.hint)) "." }
        }
    };
    let mut pairs = vec![("State", word), ("Version", html! { (health.version) })];
    if health.compiling > 0 {
        pairs.push(("Compiling", html! { (health.compiling) " plugins" }));
    }
    facts(&pairs)
}

fn platform_facts(platform: &Platform) -> Markup {
    facts(&[
        ("Organizations", html! { a href="/console/organizations" { (platform.organizations) } }),
        ("Plugins", html! { a href="/console/plugins" { (platform.plugins) } }),
        ("Open sessions", html! { a href="/console/sessions" { (platform.sessions) } }),
        ("Calls now", html! { (platform.running) " run, " (platform.waiting) " wait" }),
        ("Store", html! { (bytes(platform.store_bytes)) }),
        ("Audit records not yet on disk", html! { (number(platform.audit_lag)) }),
    ])
}

fn phases(phases: &[PhaseDurations]) -> Markup {
    let bound = |us: Option<u64>| us.map_or_else(|| "–".to_owned(), |us| format!("≤ {}", duration(us)));
    let rows = html! {
        @for phase in phases {
            tr {
                th scope="row" { (phase.phase) }
                td.number { (number(phase.count)) }
                td.number { (bound(phase.half_us)) }
                td.number { (bound(phase.most_us)) }
            }
        }
    };
    table("Phases of calls", &["Phase", "Number", "Half", "99 %"], &rows)
}

fn last_hour(counts: &[RecentCalls]) -> Markup {
    let sum = |fits: &dyn Fn(&RecentCalls) -> bool| {
        counts.iter().filter(|count| fits(count)).map(|count| count.calls).sum::<u64>()
    };
    let fault = |count: &RecentCalls| {
        let code: Option<ErrorType> = count.error_type.as_deref().and_then(|code| code.parse().ok());
        code.map(ErrorType::fault)
    };
    let all = sum(&|_| true);
    let refused = sum(&|count| fault(count) == Some(Fault::Gate));
    let failed = sum(&|count| fault(count).is_some_and(|fault| fault != Fault::Gate));
    html! {
        (facts(&[
            ("Calls", html! { (number(all)) @if all >= RECENT_CALLS { " or more" } }),
            ("Succeeded", html! { (number(sum(&|count| count.status == Some(Status::Ok)))) }),
            ("Refused by a rule", html! { (number(refused)) }),
            ("Failed", html! { (number(failed)) }),
            ("Wait for a person", html! { (number(sum(&|count| count.status == Some(Status::ApprovalRequired)))) }),
        ]))
        @if all > 0 { p { a href="/console/calls" { "See the calls" } } }
    }
}

/// Bars of calls and failures. The table below has the same numbers as text.
fn chart(days: &[UsageRow]) -> Markup {
    const HEIGHT: u64 = 120;
    const STEP: usize = 20;
    let most = days.iter().map(|day| day.calls).max().unwrap_or(0).max(1);
    let height =
        |calls: u64| (u128::from(calls) * u128::from(HEIGHT) / u128::from(most)).max(u128::from(calls > 0));
    let width = days.len() * STEP;
    html! {
        svg.chart viewBox=(format!("0 0 {width} {}", HEIGHT + 1)) role="img" aria-label="Calls a day, in the last 30 days" {
            @for (at, day) in days.iter().enumerate() {
                @let (calls, failed) = (height(day.calls), height(day.failed));
                g {
                    title { (day.day.as_deref().unwrap_or_default()) ": " (number(day.calls)) " calls, " (number(day.failed)) " failed" }
                    rect.bar x=(at * STEP + 2) y=(u128::from(HEIGHT) - calls) width=(STEP - 4) height=(calls) {}
                    rect.refused x=(at * STEP + 2) y=(u128::from(HEIGHT) - failed) width=(STEP - 4) height=(failed) {}
                }
            }
            line.axis x1="0" x2=(width) y1=(HEIGHT) y2=(HEIGHT) {}
        }
    }
}

fn days_table(days: &[UsageRow]) -> Markup {
    let rows = html! {
        @for day in days.iter().rev().filter(|day| day.calls > 0) {
            tr { th scope="row" { (day.day.as_deref().unwrap_or_default()) } (sums(day)) }
        }
    };
    html! {
        details {
            summary { "The same as a table" }
            (table("Calls a day", &["Day (UTC)", "Calls", "Failed", "Processor time", "Network"], &rows))
        }
    }
}

fn tools_table(tools: Option<&[UsageRow]>) -> Markup {
    let Some(tools) = tools else {
        return html! { p.quiet { "There are too many tools for this list. See " code { "toolgate usage --by tool" } "." } };
    };
    let rows = html! {
        @for tool in tools {
            @let name = tool.tool.as_deref().unwrap_or_default();
            tr {
                th scope="row" { a href=(format!("/console/calls?tool={}", percent_encode(name))) { (short(name)) } }
                (sums(tool))
            }
        }
    };
    match tools {
        [] => html! { p { "No tool was called in the last 30 days." } },
        _ => table("Most used tools", &["Tool", "Calls", "Failed", "Processor time", "Network"], &rows),
    }
}

fn sums(row: &UsageRow) -> Markup {
    html! {
        td.number { (number(row.calls)) }
        td.number { (number(row.failed)) }
        td.number { (duration(row.cpu_us)) }
        td.number { (bytes(row.egress_bytes)) }
    }
}

fn quota_table(quotas: &[QuotaUse]) -> Markup {
    let rows = html! {
        @for quota in quotas {
            tr {
                th scope="row" { (short(&quota.name)) }
                td { (short(&quota.owner)) }
                td { (short(&quota.of)) }
                td { (short(&quota.measure)) }
                td.number { (number(quota.used)) }
                td.number { @match quota.amount { Some(amount) => { (number(amount)) }, None => { "no longer set" } } }
                td { @if let Some(amount) = quota.amount { meter aria-label="Share" min="0" max=(amount.max(1)) value=(quota.used) { (quota.used) " of " (amount) } } }
            }
        }
    };
    table("Quotas", &["Quota", "Set by", "For", "Measure", "Used", "Of", "Share"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_every_day_has_a_row() {
        let row = |day: &str| UsageRow { day: Some(day.to_owned()), calls: 3, ..UsageRow::default() };
        // 2026-11-27 and what the report has of the days before.
        let days = all_days(20_784, vec![row("2026-10-01"), row("2026-11-20"), row("2026-11-27")]);
        assert_eq!(days.len(), 30);
        let of = |at: usize| (days[at].day.as_deref().unwrap(), days[at].calls);
        assert_eq!((of(0), of(22), of(29)), (("2026-10-29", 0), ("2026-11-20", 3), ("2026-11-27", 3)));
    }

    #[test]
    fn o6_the_key_of_a_counter_is_taken_apart() {
        assert_eq!(key_parts("8:platform3:a:b5:calls"), Some(vec!["platform", "a:b", "calls"]));
        for wrong in ["8platform", "9:platform", "x:y"] {
            assert_eq!(key_parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn o6_a_chart_has_no_style_and_shows_small_numbers() {
        let rows = [1_000_000, 1, 0].map(|calls| UsageRow { calls, ..UsageRow::default() });
        let text = chart(&rows).into_string();
        assert!(
            text.contains("height=\"120\"") && text.contains("height=\"1\"") && !text.contains("style"),
            "{text}"
        );
    }
}
