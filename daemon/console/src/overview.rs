//! The overview: health, calls of the last hour, day or month, phases, quotas.

mod rates;
mod quotas;
mod upkeep;

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_core::identity::Access;
use toolgate_core::metrics::PhaseCounts;
use toolgate_http::audit::readable_organization;
use toolgate_http::health;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use super::Console;
use super::elements::{Filters, badge, bytes, duration, empty, facts, number, short, table};
use super::page::Page;
use super::text::time;
use super::verification::LastVerification;
use super::viewer::Viewer;
use rates::{Range, Report};
use upkeep::Upkeep;

/// Query parameters of the page.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverviewQuery {
    #[serde(default)]
    range: Range,
    organization: Option<String>,
    tool: Option<String>,
}

/// The numbers of the page.
struct Overview {
    health: Health,
    report: Report,
    quotas: Vec<quotas::QuotaUse>,
    upkeep: Upkeep,
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
    audit_records: u64,
    audit_lag: u64,
    verified: Option<LastVerification>,
    /// Since the start of the range, or of the daemon.
    phases_since_ms: u64,
    phases: PhaseCounts,
}

/// The page of the viewer's organization, or of the platform. Roles that may not read the audit log see the health alone.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    uri: Uri,
    Filters(query): Filters<OverviewQuery>,
) -> Result<Page, Problem> {
    let main = match viewer.may(Access::Audit) {
        true => {
            let is_of_platform = viewer.caller.organization.is_none();
            render(&load(&app, &viewer, &console, query).await?, &uri, is_of_platform)
        }
        false => {
            let upkeep = Upkeep::load(&app, &viewer, viewer.caller.organization.as_ref()).await?;
            html! { (upkeep.needs()) (facts(&state(&health(&app).await))) }
        }
    };
    Ok(Page::new("Overview", main))
}

async fn load(
    app: &App,
    viewer: &Viewer,
    console: &Console,
    query: OverviewQuery,
) -> Result<Overview, Problem> {
    let OverviewQuery { range, organization, tool } = query;
    let organization = readable_organization(&viewer.caller, organization.as_deref())?;
    let (now, scope) = (now_ms(), organization.as_ref().map(ToString::to_string));
    let query = range.query(now, scope.clone(), tool);
    let report = Report::load(app, range, query, now).await?;
    // A page of a quiet hour is no page of an empty installation.
    let month = Range::Month.query(now, scope, None);
    let is_new = report.is_empty() && app.audit().rates(&month).await?.is_empty();
    let is_operator = viewer.may(Access::Operate);
    Ok(Overview {
        health: health(app).await,
        report,
        quotas: quotas::load(app, organization.as_ref()).await?,
        upkeep: Upkeep::load(app, viewer, organization.as_ref()).await?,
        platform: if is_operator { Some(platform(app, console, range, now).await?) } else { None },
        first: is_new.then(|| first_step(app, viewer.caller.organization.as_ref())),
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

async fn platform(app: &App, console: &Console, range: Range, now_ms: u64) -> Result<Platform, Problem> {
    let services = app.services();
    let (running, waiting) = services.queue.depth();
    let (phases_since_ms, phases) = console.phases.since(range.since_ms(now_ms), &services.metrics.phases());
    Ok(Platform {
        organizations: services.registry.snapshot().organizations(None).len(),
        plugins: services.plugins.list(None).len(),
        sessions: services.sessions.filter(|_| true).len(),
        running,
        waiting,
        store_bytes: services.store.bytes().await?,
        audit_records: services.audit.anchor().sequence,
        audit_lag: services.audit.lag(),
        verified: console.verifier.last(),
        phases_since_ms,
        phases,
    })
}

fn first_step(app: &App, own: Option<&Name>) -> String {
    let snapshot = app.services().registry.snapshot();
    let Some(organization) = snapshot.organizations(own).into_iter().next() else {
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

fn render(overview: &Overview, uri: &Uri, is_of_platform: bool) -> Markup {
    let mut known = state(&overview.health);
    known.extend(overview.platform.iter().flat_map(platform_facts));
    let mut tiles = overview.report.tiles();
    tiles.extend(overview.upkeep.tiles());
    html! {
        (overview.upkeep.needs())
        (upkeep::render(&tiles))
        (overview.upkeep.ending())
        @if let Some(command) = &overview.first {
            (empty("There were no calls in the last 30 days.", "Begin with:", Some(command)))
        }
        (overview.report.render(uri, is_of_platform))
        section aria-labelledby="daemon" {
            h2 id="daemon" { "Daemon" }
            (facts(&known))
        }
        @if let Some(platform) = &overview.platform {
            section aria-labelledby="phases" {
                h2 id="phases" { "Phases of calls" }
                p.quiet { "All organizations, since " (time(platform.phases_since_ms)) ". A restart begins anew." }
                (phases(&platform.phases))
            }
        }
        @if !overview.quotas.is_empty() {
            section aria-labelledby="quotas" {
                h2 id="quotas" { "Quotas" }
                (quotas::render(&overview.quotas))
            }
        }
    }
}

/// The health in words.
fn state(health: &Health) -> Vec<(&'static str, Markup)> {
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
    pairs
}

fn platform_facts(platform: &Platform) -> Vec<(&'static str, Markup)> {
    let mut pairs = vec![
        ("Organizations", html! { a href="/console/organizations" { (platform.organizations) } }),
        ("Plugins", html! { a href="/console/plugins" { (platform.plugins) } }),
        ("Open sessions", html! { a href="/console/sessions" { (platform.sessions) } }),
        ("Calls now", html! { (platform.running) " run, " (platform.waiting) " wait in the queue" }),
        ("Store", html! { (bytes(platform.store_bytes)) }),
    ];
    let lag = platform.audit_lag;
    pairs.push((
        "Audit records",
        html! { (number(platform.audit_records)) ", " (number(lag)) " not yet on disk" },
    ));
    pairs.push((
        "Audit verification",
        html! {
            @match &platform.verified { Some(last) => (last.summary()), None => "not since the start" }
            " · " a href="/console/audit/verification" { "Verify" }
        },
    ));
    pairs
}

fn phases(counts: &PhaseCounts) -> Markup {
    let bound = |us: Option<u64>| us.map_or_else(|| "–".to_owned(), |us| format!("≤ {}", duration(us)));
    let rows = html! {
        @for phase in counts.durations() {
            tr {
                th scope="row" { (phase.phase) }
                td.number { (number(phase.count)) }
                td.number { (bound(phase.half_us)) }
                td.number { (bound(phase.most_us)) }
            }
        }
    };
    table("Phases of calls", &["Phase", "#Number", "#50 %", "#99 %"], &rows)
}
