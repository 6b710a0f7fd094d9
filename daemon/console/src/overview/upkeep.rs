//! What needs a person, and the state of what people look after, at a glance.

use std::sync::atomic::Ordering;

use maud::{Markup, html};
use toolgate_api::approval::ApprovalState;
use toolgate_api::name::Name;
use toolgate_core::identity::Access;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;
use toolgate_state::store::{ApprovalFilter, ApprovalRow, ENDING_MS, EndingKind, EndingRow};

use crate::approvals::{START_CHARS, wish_or_start};
use crate::elements::{bytes, number, percent_encode, short, time};
use crate::viewer::Viewer;

/// How far ahead the page looks for what ends: a month.
const AHEAD_MS: u64 = 31 * 24 * 3_600_000;
/// What ends that is listed.
const LISTED: usize = 20;
/// Free space below which the tile of the disk warns, and below which it is red.
const LOW_BYTES: [u64; 2] = [5 << 30, 1 << 30];
/// Age of the last backup from which its tile warns.
const BACKUP_MS: u64 = 7 * 24 * 3_600_000;
/// Approvals that are named, each with its link.
const FIRST: u32 = 5;
/// Approvals that are counted at most.
const COUNTED: u64 = 1_000;

/// What a person looks after, as far as the viewer may see it.
pub(super) struct Upkeep {
    /// None for those who do not decide.
    approvals: Option<Waiting>,
    /// The soonest first.
    ending: Vec<EndingRow>,
    platform: Option<OfPlatform>,
}

/// The calls that wait for a person.
struct Waiting {
    count: u64,
    /// The oldest.
    first: Vec<ApprovalRow>,
}

/// What operators look after.
struct OfPlatform {
    webhooks_failing: u64,
    /// Their organizations and names.
    failing: Vec<(String, String)>,
    credentials_expired: u64,
    assertions_broken: u64,
    free_bytes: Option<u64>,
    compiling: usize,
    /// In milliseconds since 1970; none without TLS.
    certificate_end_ms: Option<u64>,
    /// In milliseconds since 1970; none if there was none.
    last_backup_ms: Option<u64>,
}

/// One number with its state and the page that says more.
pub(super) struct Tile {
    pub label: &'static str,
    pub value: Markup,
    /// `good`, `warn`, `bad`, or empty for no judgement.
    pub tone: &'static str,
    pub href: Option<String>,
}

impl Upkeep {
    pub(super) async fn load(
        app: &App,
        viewer: &Viewer,
        organization: Option<&Name>,
    ) -> Result<Self, Problem> {
        let (services, now) = (app.services(), now_ms());
        let approvals = match viewer.may(Access::Decide) {
            true => Some(Waiting::load(app, organization, now).await?),
            false => None,
        };
        let mut ending = match viewer.may(Access::Own) {
            true => services.store.ending(now, AHEAD_MS).await?,
            false => Vec::new(),
        };
        ending
            .retain(|row| organization.is_none_or(|name| row.organization.as_deref() == Some(name.as_str())));
        let is_of_platform = viewer.may(Access::Operate) && organization.is_none();
        let platform = if is_of_platform { Some(OfPlatform::load(app, now).await?) } else { None };
        Ok(Self { approvals, ending, platform })
    }

    /// What is to be done, each with the page where it is done; nothing if there is nothing.
    pub(super) fn needs(&self) -> Markup {
        let now = now_ms();
        let soon = |row: &&EndingRow| row.ends_ms < now.saturating_add(ENDING_MS);
        let approvals = self.approvals.as_ref().map_or(0, |waiting| waiting.count);
        let first = self.approvals.as_ref().map_or(&[][..], |waiting| &waiting.first);
        let platform = self.platform.as_ref();
        let count = |pick: fn(&OfPlatform) -> u64| platform.map_or(0, pick);
        let (webhooks, expired) = (count(|of| of.webhooks_failing), count(|of| of.credentials_expired));
        let broken = count(|of| of.assertions_broken);
        let no_backup = platform.is_some_and(|of| of.last_backup_ms.is_none());
        let ending = self.ending.iter().filter(soon).count();
        if approvals + webhooks + expired + broken + ending as u64 == 0 && !no_backup {
            return html! {};
        }
        html! {
            section aria-labelledby="needs" {
                h2 id="needs" { "Needs a person" }
                ul.needs {
                    @for row in first {
                        li { a href={ "/console/approvals/" (row.id) } { (row.agent) " " (wish_or_start(row)) } }
                    }
                    @if approvals > first.len() as u64 {
                        li { a href="/console/approvals" { (number(approvals)) (if approvals == 1 { " call waits" } else { " calls wait" }) " for approval" } }
                    }
                    @if broken > 0 {
                        li { a href="/console/policies/platform/assertions" { (number(broken)) " assertions do not hold" } }
                    }
                    @if expired > 0 { li { a href="/console/organizations" { (number(expired)) " credentials have expired" } } }
                    @for (organization, name) in platform.iter().flat_map(|of| &of.failing).take(LISTED) {
                        li {
                            a href={ "/console/webhooks/" (percent_encode(organization)) "/" (percent_encode(name)) } {
                                "The webhook " (short(organization)) "/" (short(name)) " cannot be reached, and is tried again"
                            }
                        }
                    }
                    @for row in self.ending.iter().filter(soon).take(LISTED) { li { (ends(row)) } }
                    @if no_backup { li { a href="/console/installation" { "There is no backup" } } }
                }
            }
        }
    }

    /// What ends within a month, folded.
    pub(super) fn ending(&self) -> Markup {
        html! {
            @if !self.ending.is_empty() {
                details id="ending" {
                    summary { "Ends within a month: " (number(self.ending.len() as u64)) }
                    ul { @for row in self.ending.iter().take(LISTED) { li { (ends(row)) } } }
                }
            }
        }
    }

    pub(super) fn tiles(&self) -> Vec<Tile> {
        let mut tiles = Vec::new();
        if let Some(Waiting { count, .. }) = self.approvals {
            let tone = if count > 0 { "warn" } else { "good" };
            tiles.push(Tile::new("Waiting approvals", number(count), tone).to("/console/approvals"));
        }
        let within = |ahead_ms| {
            let end = now_ms().saturating_add(ahead_ms);
            self.ending.iter().filter(|row| row.ends_ms < end).count()
        };
        let tone = if within(ENDING_MS) > 0 { "warn" } else { "good" };
        tiles.push(Tile::new("End within a month", number(within(AHEAD_MS) as u64), tone).to("#ending"));
        if let Some(platform) = &self.platform {
            tiles.extend(platform.tiles());
        }
        tiles
    }
}

impl Waiting {
    async fn load(app: &App, organization: Option<&Name>, now: u64) -> Result<Self, Problem> {
        let store = &app.services().store;
        let filter = ApprovalFilter { organization, state: Some(ApprovalState::Pending), after: None };
        let mut first = store.inbox_approvals(filter, FIRST, START_CHARS + 1).await?;
        first.retain(|row| row.expires_ms > now);
        Ok(Self { count: store.count_open_approvals(organization, now, COUNTED).await?, first })
    }
}

impl OfPlatform {
    async fn load(app: &App, now: u64) -> Result<Self, Problem> {
        let services = app.services();
        let [webhooks_failing, credentials_expired, ..] =
            services.store.operator_counts(now, now.saturating_add(ENDING_MS)).await?;
        let observed = &services.metrics.observed;
        let seconds = |value: u64| (value > 0).then(|| value.saturating_mul(1_000));
        Ok(Self {
            webhooks_failing,
            failing: services.store.failing_webhooks(LISTED as u64).await?,
            credentials_expired,
            assertions_broken: observed.broken_assertions.load(Ordering::Relaxed),
            free_bytes: services.store.free_bytes(),
            compiling: services.registry.snapshot().compiling().len(),
            certificate_end_ms: seconds(observed.certificate_end.load(Ordering::Relaxed)),
            last_backup_ms: seconds(observed.last_backup.load(Ordering::Relaxed)),
        })
    }

    fn tiles(&self) -> Vec<Tile> {
        let now = now_ms();
        let none = |count: u64, tone: &'static str| if count == 0 { "good" } else { tone };
        let mut tiles = vec![
            Tile::new(
                "Webhooks that fail",
                number(self.webhooks_failing),
                none(self.webhooks_failing, "warn"),
            )
            .to("#needs"),
            Tile::new(
                "Expired credentials",
                number(self.credentials_expired),
                none(self.credentials_expired, "bad"),
            )
            .to("/console/organizations"),
            Tile::new(
                "Broken assertions",
                number(self.assertions_broken),
                none(self.assertions_broken, "bad"),
            )
            .to("/console/policies/platform/assertions"),
            Tile::new("Compiling", number(self.compiling as u64), none(self.compiling as u64, "warn"))
                .to("/console/plugins"),
        ];
        if let Some(free) = self.free_bytes {
            let tone = match free {
                free if free < LOW_BYTES[1] => "bad",
                free if free < LOW_BYTES[0] => "warn",
                _ => "good",
            };
            tiles.push(Tile::new("Free disk space", bytes(free), tone).to("/console/installation"));
        }
        if let Some(end) = self.certificate_end_ms {
            let tone = if end < now.saturating_add(ENDING_MS) { "bad" } else { "good" };
            tiles.push(
                Tile { value: time(end), ..Tile::new("Certificate ends", "", tone) }
                    .to("/console/installation"),
            );
        }
        let is_old = self.last_backup_ms.is_none_or(|at_ms| now.saturating_sub(at_ms) > BACKUP_MS);
        let value = self.last_backup_ms.map_or_else(|| html! { "none" }, time);
        tiles.push(
            Tile { value, ..Tile::new("Last backup", "", if is_old { "warn" } else { "good" }) }
                .to("/console/installation"),
        );
        tiles
    }
}

impl Tile {
    pub(super) fn new(label: &'static str, value: impl Into<String>, tone: &'static str) -> Self {
        let value = value.into();
        Self { label, value: html! { (value) }, tone, href: None }
    }

    /// The tile as a link.
    pub(super) fn to(self, href: impl Into<String>) -> Self {
        Self { href: Some(href.into()), ..self }
    }
}

pub(super) fn render(tiles: &[Tile]) -> Markup {
    let content =
        |tile: &Tile| html! { span.quiet { (tile.label) } strong.state class=(tile.tone) { (tile.value) } };
    html! {
        ul.tiles aria-label="State" {
            @for tile in tiles {
                li class=(tile.tone) {
                    @match &tile.href { Some(href) => { a href=(href) { (content(tile)) } }, None => { div { (content(tile)) } } }
                }
            }
        }
    }
}

fn ends(row: &EndingRow) -> Markup {
    html! {
        @match (row.kind, &row.organization) {
            (EndingKind::Credential, Some(organization)) => {
                a href={ "/console/credentials/" (percent_encode(organization)) "/" (percent_encode(&row.name)) } {
                    "Credential " (short(organization)) "/" (short(&row.name))
                }
            },
            (EndingKind::Credential, None) => { "Credential " (short(&row.name)) },
            (EndingKind::Token, _) => {
                a href="/console/tokens" { "Token " (short(if row.label.is_empty() { &row.name } else { &row.label })) }
            },
        }
        " ends " (time(row.ends_ms))
    }
}
