//! The phases of a call over time, as bars: its parts, what it waited for between them, and the calls of its script.
//!
//! The log has times in milliseconds, and durations within a part in microseconds. So a part begins with its waits, and what it
//! prepared and recorded around the sandbox is one bar.

use maud::{Markup, html};
use toolgate_audit::{CallOutcome, Row, Status};

use crate::elements::{duration, short, table};

/// Calls of a script that have a bar.
const INNER: usize = 20;
const WIDTH: u64 = 600;
const US_OF_MS: u64 = 1_000;

/// A bar, by its time after the first one began, in microseconds.
#[derive(Debug, PartialEq, Eq)]
struct Bar {
    name: String,
    class: &'static str,
    start_us: u64,
    us: u64,
}

/// A row for each bar, with its name and duration; nothing for a call that has not ended.
pub(super) fn render(parts: &[Row], inner: &[Row]) -> Markup {
    let bars = bars(parts, inner);
    let whole = bars.iter().map(|bar| bar.start_us.saturating_add(bar.us)).max().unwrap_or(0);
    if whole == 0 {
        return html! { p { "The call has not ended, or took less time than the log tells apart." } };
    }
    let place = |us: u64| u128::from(us) * u128::from(WIDTH) / u128::from(whole);
    let rows = html! {
        @for bar in &bars {
            tr {
                th scope="row" { (bar.name) }
                td.number { (duration(bar.us)) }
                td.wide {
                    svg.waterfall viewBox=(format!("0 0 {WIDTH} 12")) preserveAspectRatio="none" aria-hidden="true" {
                        rect class=(bar.class) x=(place(bar.start_us)) y="0" width=(place(bar.us).max(2)) height="12" {
                            title { "after " (duration(bar.start_us)) }
                        }
                    }
                }
            }
        }
    };
    html! {
        (table("Phases", &["Phase", "#Duration", "Over time"], &rows))
        p.quiet { (duration(whole)) " in all." }
    }
}

fn bars(parts: &[Row], inner: &[Row]) -> Vec<Bar> {
    let timed: Vec<_> = parts.iter().filter_map(|part| Some((part, part_times(part)?))).collect();
    let Some(origin_us) = timed.first().map(|(_, times)| times.start_us) else { return Vec::new() };
    let mut bars = Vec::new();
    let mut waits_for: Option<(u64, &'static str)> = None;
    for (part, times) in &timed {
        if let Some((ended_us, what)) = waits_for {
            let us = times.start_us.saturating_sub(ended_us);
            push(&mut bars, what, "outside", ended_us.saturating_sub(origin_us), us);
        }
        let mut at_us = times.start_us.saturating_sub(origin_us);
        for (name, class, us) in times.phases() {
            push(&mut bars, name, class, at_us, us);
            at_us = at_us.saturating_add(us);
        }
        let what = match part.status {
            Some(Status::ApprovalRequired) => "waits for a person",
            _ => "waits for the client",
        };
        waits_for = Some((times.end_us, what));
    }
    for row in inner.iter().take(INNER) {
        if let (Some(call), Some(times)) = (&row.call, part_times(row)) {
            let start_us = times.start_us.saturating_sub(origin_us);
            let us = times.end_us.saturating_sub(times.start_us);
            push(&mut bars, &format!("calls {}", short(&call.tool)), "inner", start_us, us);
        }
    }
    bars
}

fn push(bars: &mut Vec<Bar>, name: &str, class: &'static str, start_us: u64, us: u64) {
    if us > 0 {
        bars.push(Bar { name: name.to_owned(), class, start_us, us });
    }
}

/// The times of one part of a call, in microseconds since 1970, and its durations.
struct PartTimes {
    start_us: u64,
    end_us: u64,
    before_us: u64,
    around_us: u64,
    waiting_us: u64,
    computing_us: u64,
}

impl PartTimes {
    fn phases(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("waits and decision", "outside", self.before_us),
            ("prepares, checks and records", "around", self.around_us),
            ("waits in the sandbox", "waiting", self.waiting_us),
            ("computes", "computing", self.computing_us),
        ]
    }
}

fn part_times(part: &Row) -> Option<PartTimes> {
    let (outcome, closed_ms): (&CallOutcome<'_>, u64) = (part.outcome.as_ref()?, part.closed_at_ms?);
    let whole = outcome.duration_us;
    let opened_us = part.at_ms.saturating_mul(US_OF_MS);
    let end_us = closed_ms.saturating_mul(US_OF_MS).max(opened_us);
    let start_us = end_us.saturating_sub(whole);
    let inside = outcome.usage.duration_us.min(whole);
    let computing_us = outcome.usage.cpu_us.min(inside);
    let outside = whole - inside;
    // A wait of less than the precision of the log is in the next bar.
    let before = opened_us.saturating_sub(start_us).min(outside);
    let before_us = if before < 2 * US_OF_MS { 0 } else { before };
    let around_us = outside - before_us;
    Some(PartTimes {
        start_us,
        end_us,
        before_us,
        around_us,
        waiting_us: inside - computing_us,
        computing_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_audit::{Executed, Kind, Usage};

    fn part(at_ms: u64, closed_at_ms: u64, status: Status, usage: Usage, duration_us: u64) -> Row {
        let outcome = CallOutcome {
            status,
            error_type: None,
            executed: Executed::Yes,
            usage,
            duration_us,
            output: None,
        };
        Row {
            status: Some(status),
            closed_at_ms: Some(closed_at_ms),
            outcome: Some(outcome),
            ..Row::new(1, at_ms, Kind::Call)
        }
    }

    #[test]
    fn o6_the_bars_of_a_part_are_its_duration() {
        let usage = Usage { duration_us: 20_000, cpu_us: 5_000, ..Usage::default() };
        // 30 ms in the queue, then 25 ms from intent to outcome.
        let bars = bars(&[part(1_030, 1_055, Status::Ok, usage, 55_000)], &[]);
        let known: Vec<_> = bars.iter().map(|bar| (bar.name.as_str(), bar.start_us, bar.us)).collect();
        assert_eq!(
            known,
            [
                ("waits and decision", 0, 30_000),
                ("prepares, checks and records", 30_000, 5_000),
                ("waits in the sandbox", 35_000, 15_000),
                ("computes", 50_000, 5_000),
            ]
        );
    }

    #[test]
    fn o6_the_wait_for_a_person_is_a_bar_between_the_parts() {
        let waits = part(1_000, 1_001, Status::ApprovalRequired, Usage::default(), 1_000);
        let usage = Usage { duration_us: 900, cpu_us: 900, ..Usage::default() };
        let runs = part(9_000, 9_001, Status::Ok, usage, 1_000);
        let parts = [waits, runs];
        let bars = bars(&parts, &[]);
        let wait = bars.iter().find(|bar| bar.name == "waits for a person").expect("a bar");
        assert_eq!((wait.start_us, wait.us), (1_000, 7_999_000));
        let text = render(&parts, &[]).into_string();
        for part in ["waits for a person", "7.9 s", "8.0 s in all", "class=\"waterfall\""] {
            assert!(text.contains(part) && !text.contains("style"), "{part}: {text}");
        }
        assert!(render(&[], &[]).into_string().contains("has not ended"));
    }
}
