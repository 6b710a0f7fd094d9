//! Calls of the last hour, day or month: a chart, sums, and the organizations and tools with the most calls.

use axum::http::Uri;
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_audit::{AuditError, RateBy, RatePhase, RateQuery, RateSpan, RateSums};
use toolgate_http::state::App;

use super::upkeep::Tile;
use crate::elements::{bytes, duration, facts, filter, number, percent_encode, short, table};
use crate::text::date_time;

/// Organizations and tools that are listed.
const LISTED: u32 = 10;

/// The time that a report is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Range {
    #[default]
    Hour,
    Day,
    Month,
}

impl Range {
    const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Hour => "The last hour",
            Self::Day => "The last day",
            Self::Month => "The last 30 days",
        }
    }

    /// The span of a bar, and the number of bars.
    fn bars(self) -> (RateSpan, u64) {
        match self {
            Self::Hour => (RateSpan::Minute, 60),
            Self::Day => (RateSpan::Hour, 24),
            Self::Month => (RateSpan::Day, 30),
        }
    }

    /// The start of the range, in milliseconds since 1970.
    pub(super) fn since_ms(self, now_ms: u64) -> u64 {
        let (span, bars) = self.bars();
        now_ms.saturating_sub((bars - 1) * span.length_ms())
    }

    /// The query of this range.
    pub(super) fn query(self, now_ms: u64, organization: Option<String>, tool: Option<String>) -> RateQuery {
        RateQuery { span: self.bars().0, since_ms: self.since_ms(now_ms), organization, tool }
    }
}

/// The numbers of a range.
pub(super) struct Report {
    range: Range,
    now_ms: u64,
    query: RateQuery,
    bars: Vec<(u64, RateSums)>,
    /// Empty where the report is of one organization.
    organizations: Vec<(String, RateSums)>,
    /// Empty where the report is of one tool.
    tools: Vec<(String, RateSums)>,
}

impl Report {
    pub(super) async fn load(
        app: &App,
        range: Range,
        query: RateQuery,
        now_ms: u64,
    ) -> Result<Self, AuditError> {
        let audit = app.audit();
        let ranking = async |by, is_wanted: bool| match is_wanted {
            true => audit.ranking(&query, by, LISTED).await,
            false => Ok(Vec::new()),
        };
        let organizations = ranking(RateBy::Organization, query.organization.is_none()).await?;
        let tools = ranking(RateBy::Tool, query.tool.is_none()).await?;
        let bars = all_bars(range, now_ms, audit.rates(&query).await?);
        Ok(Self { range, now_ms, query, bars, organizations, tools })
    }

    /// Calls, refusals and failures of the range, each with those calls.
    pub(super) fn tiles(&self) -> Vec<Tile> {
        let all = self.sums();
        let bad = |count: u64, tone| if count == 0 { "good" } else { tone };
        let filters = [("organization", &self.query.organization), ("tool", &self.query.tool)];
        let chosen: String = filters
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}&", percent_encode(value.as_deref()?))))
            .collect();
        let calls = |more: &str| format!("/console/calls?{chosen}{more}");
        vec![
            Tile::new("Calls", number(all.calls), "").to(calls("")),
            Tile::new("Refused", number(all.refused), bad(all.refused, "warn")).to(calls("refused=true")),
            Tile::new("Failed", number(all.failed), bad(all.failed, "bad")).to(calls("status=error")),
        ]
    }

    fn sums(&self) -> RateSums {
        let mut all = RateSums::default();
        self.bars.iter().for_each(|(_, sums)| all.add(sums));
        all
    }

    /// Whether there was no call.
    pub(super) fn is_empty(&self) -> bool {
        self.bars.iter().all(|(_, sums)| sums.calls == 0)
    }

    /// The filter form and the numbers.
    pub(super) fn render(&self, uri: &Uri, is_of_platform: bool) -> Markup {
        let all = self.sums();
        let first_ms = self.bars.first().map_or(self.now_ms, |(start_ms, _)| *start_ms);
        let seconds = (self.now_ms.saturating_sub(first_ms) / 1_000).max(1);
        html! {
            section aria-labelledby="calls" {
                h2 id="calls" { (self.range.heading()) }
                (filters(self.range, &self.query, uri, is_of_platform))
                (chart(self.range, &self.bars))
                (sums_of(&all, seconds))
                (bar_table(self.range, &self.bars))
            }
            @if !self.organizations.is_empty() {
                section aria-labelledby="organizations" {
                    h2 id="organizations" { "Organizations" }
                    (ranking(self.range, &self.organizations, "organization", self.query.tool.as_deref()))
                }
            }
            @if !self.tools.is_empty() {
                section aria-labelledby="tools" {
                    h2 id="tools" { "Most used tools" }
                    (ranking(self.range, &self.tools, "tool", self.query.organization.as_deref()))
                }
            }
        }
    }
}

/// One entry for each bar of the chart, also for those without calls.
fn all_bars(range: Range, now_ms: u64, found: Vec<(u64, RateSums)>) -> Vec<(u64, RateSums)> {
    let (span, bars) = range.bars();
    let newest = now_ms / span.length_ms();
    let starts = (newest.saturating_sub(bars - 1)..=newest).map(|start| start * span.length_ms());
    let mut found = found.into_iter().peekable();
    let mut sums_at = |start_ms: u64| {
        while found.next_if(|(known, _)| *known < start_ms).is_some() {}
        found.next_if(|(known, _)| *known == start_ms).map(|(_, sums)| sums).unwrap_or_default()
    };
    starts.map(|start_ms| (start_ms, sums_at(start_ms))).collect()
}

fn filters(range: Range, query: &RateQuery, uri: &Uri, is_of_platform: bool) -> Markup {
    html! {
        form.filters method="get" action=(uri.path()) role="search" aria-label="Choose calls" {
            div {
                label for="range" { "Time" }
                select id="range" name="range" {
                    @for known in Range::ALL {
                        option value=(known.as_str()) selected[known == range] { (known.heading()) }
                    }
                }
            }
            @if is_of_platform { (filter("organization", "Organization", query.organization.as_deref())) }
            (filter("tool", "Tool", query.tool.as_deref()))
            button { "Show" }
        }
    }
}

/// Calls a second with two digits after the point.
fn rate(calls: u64, seconds: u64) -> String {
    let hundredths = u128::from(calls) * 100 / u128::from(seconds.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// The bounds of half and of 99 % of the durations.
fn percentiles(sums: &RateSums, phase: RatePhase) -> String {
    let bound = |percent| match sums.percentile_us(phase, percent) {
        Some(us) => format!("≤ {}", duration(us)),
        None => "–".to_owned(),
    };
    format!("{}, {}", bound(50), bound(99))
}

fn sums_of(all: &RateSums, seconds: u64) -> Markup {
    facts(&[
        ("Calls", html! { (number(all.calls)) ", " (rate(all.calls, seconds)) " a second" }),
        ("Refused by a rule", html! { (number(all.refused)) }),
        ("Failed", html! { (number(all.failed)) }),
        ("Duration, 50 and 99 %", html! { (percentiles(all, RatePhase::Whole)) }),
        ("In the sandbox", html! { (percentiles(all, RatePhase::Sandbox)) }),
        ("Waits, decision, records", html! { (percentiles(all, RatePhase::Outside)) }),
        ("Instructions", html! { (number(all.fuel)) }),
        ("Processor time", html! { (duration(all.cpu_us)) }),
        ("Memory of a call at most", html! { (bytes(all.memory_bytes)) }),
        ("Network", html! { (bytes(all.egress_bytes)) }),
    ])
}

/// The start of a bar in words.
fn bar_name(range: Range, start_ms: u64) -> String {
    let text = date_time(start_ms);
    let (day, time) = text.split_once(' ').unwrap_or((&text, ""));
    match range {
        Range::Month => day.to_owned(),
        Range::Hour | Range::Day => time.get(..5).unwrap_or(time).to_owned(),
    }
}

/// Bars of calls, and of those that were refused or failed, with axes. The table below has the same numbers as text.
fn chart(range: Range, bars: &[(u64, RateSums)]) -> Markup {
    const HEIGHT: u64 = 120;
    const WIDTH: usize = 600;
    /// Room for the numbers of the axes.
    const LEFT: usize = 60;
    const BELOW: u64 = 18;
    let most = bars.iter().map(|(_, sums)| sums.calls).max().unwrap_or(0).max(1);
    let height = |calls: u64| {
        let share = u128::from(calls.min(most)) * u128::from(HEIGHT) / u128::from(most);
        share.max(u128::from(calls > 0))
    };
    let step = WIDTH / bars.len().max(1);
    let left = |at: usize| LEFT + at * step;
    let named = [0, bars.len() / 2, bars.len().saturating_sub(1)];
    html! {
        svg.chart viewBox=(format!("0 0 {} {}", LEFT + WIDTH, HEIGHT + BELOW)) role="img"
            aria-label=(format!("Calls: {}. At most {} at once.", range.heading(), number(most))) {
            @for (at, (start_ms, sums)) in bars.iter().enumerate() {
                @let not_done = sums.refused.saturating_add(sums.failed);
                @let (calls, failed) = (height(sums.calls), height(not_done));
                g {
                    title { (bar_name(range, *start_ms)) ": " (number(sums.calls)) " calls, " (number(not_done)) " refused or failed" }
                    rect.bar x=(left(at) + 1) y=(u128::from(HEIGHT) - calls) width=(step - 2) height=(calls) {}
                    rect.refused x=(left(at) + 1) y=(u128::from(HEIGHT) - failed) width=(step - 2) height=(failed) {}
                }
                @if named.contains(&at) {
                    text x=(left(at) + step / 2) y=(HEIGHT + BELOW - 4) text-anchor=(if at == 0 { "start" } else { "middle" }) { (bar_name(range, *start_ms)) }
                }
            }
            line.axis x1=(LEFT) x2=(LEFT + WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
            line.axis x1=(LEFT) x2=(LEFT) y1="0" y2=(HEIGHT) {}
            text x=(LEFT - 6) y="11" text-anchor="end" { (number(most)) }
            text x=(LEFT - 6) y=(HEIGHT) text-anchor="end" { "0" }
        }
    }
}

fn bar_table(range: Range, bars: &[(u64, RateSums)]) -> Markup {
    let rows = html! {
        @for (start_ms, sums) in bars.iter().rev().filter(|(_, sums)| sums.calls > 0) {
            tr { th scope="row" { (bar_name(range, *start_ms)) } (cells(sums)) }
        }
    };
    html! {
        details {
            summary { "The same as a table" }
            (table("Calls", &HEADINGS, &rows))
        }
    }
}

const HEADINGS: [&str; 8] = [
    "Time (UTC)",
    "#Calls",
    "#Refused",
    "#Failed",
    "#50 %, 99 %",
    "#Instructions",
    "#Memory at most",
    "#Network",
];

fn cells(sums: &RateSums) -> Markup {
    html! {
        td.number { (number(sums.calls)) }
        td.number { (number(sums.refused)) }
        td.number { (number(sums.failed)) }
        td.number { (percentiles(sums, RatePhase::Whole)) }
        td.number { (number(sums.fuel)) }
        td.number { (bytes(sums.memory_bytes)) }
        td.number { (bytes(sums.egress_bytes)) }
    }
}

/// Organizations or tools. Each leads to its own numbers; `other` is the filter that stays.
fn ranking(range: Range, ranked: &[(String, RateSums)], by: &str, other: Option<&str>) -> Markup {
    let (heading, kept) = if by == "tool" { ("Tool", "organization") } else { ("Organization", "tool") };
    let kept = other.map_or_else(String::new, |other| format!("&{kept}={}", percent_encode(other)));
    let address =
        |name: &str| format!("/console?range={}&{by}={}{kept}", range.as_str(), percent_encode(name));
    let rows = html! {
        @for (name, sums) in ranked {
            tr { th scope="row" { a href=(address(name)) { (short(name)) } } (cells(sums)) }
        }
    };
    let mut headings = HEADINGS;
    headings[0] = heading;
    table(heading, &headings, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(calls: u64) -> RateSums {
        RateSums { calls, ..RateSums::default() }
    }

    #[test]
    fn o6_every_bar_has_an_entry() {
        // 2026-11-27 12:34:56.
        let now_ms = 1_795_782_896_000;
        let hour = now_ms / 3_600_000 * 3_600_000;
        let found = vec![(hour - 40 * 3_600_000, sums(9)), (hour - 3_600_000, sums(2)), (hour, sums(3))];
        let bars = all_bars(Range::Day, now_ms, found);
        assert_eq!(bars.len(), 24);
        let calls: Vec<u64> = bars.iter().map(|(_, sums)| sums.calls).collect();
        assert_eq!((&calls[..22], &calls[22..]), (&[0; 22][..], &[2, 3][..]));
        assert_eq!(bars[23].0, hour);
    }

    #[test]
    fn o6_a_chart_has_no_style_and_shows_small_numbers() {
        let bars = [1_000_000, 1, 0].map(|calls| (0, sums(calls)));
        let text = chart(Range::Hour, &bars).into_string();
        assert!(
            text.contains("height=\"120\"") && text.contains("height=\"1\"") && !text.contains("style"),
            "{text}"
        );
    }

    #[test]
    fn o6_rates_have_two_digits() {
        assert_eq!(
            (rate(7, 60), rate(0, 0), rate(12_345, 10)),
            ("0.11".into(), "0.00".into(), "1234.50".into())
        );
    }
}
