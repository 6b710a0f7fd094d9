//! The quotas with their use.

use maud::{Markup, html};
use toolgate_admission::SavedCounter;
use toolgate_api::name::Name;
use toolgate_api::quota::Quota;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use crate::elements::{number, short, table};

/// Quotas that are listed.
const LISTED: usize = 10;
/// Counters of quotas that are read, to list the most used of them.
const COUNTERS: u32 = 1_000;

/// The use of a quota in its present period.
pub(super) struct QuotaUse {
    name: String,
    owner: String,
    /// The organization, agent, user … that it is for.
    of: String,
    measure: String,
    used: u64,
    amount: Option<u64>,
}

/// Loads the quotas with use in their present period, the most used first; for an organization, those of its own policies alone.
pub(super) async fn load(app: &App, organization: Option<&Name>) -> Result<Vec<QuotaUse>, Problem> {
    let counters = app.services().store.greatest_quota_use(organization, now_ms(), COUNTERS).await;
    let counters = counters?;
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
    let snapshot = app.services().registry.snapshot();
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

/// A table of quotas.
pub(super) fn render(quotas: &[QuotaUse]) -> Markup {
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
    table("Quotas", &["Quota", "Set by", "For", "Measure", "#Used", "#Of", "Share"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_the_key_of_a_counter_is_taken_apart() {
        assert_eq!(key_parts("8:platform3:a:b5:calls"), Some(vec!["platform", "a:b", "calls"]));
        for wrong in ["8platform", "9:platform", "x:y"] {
            assert_eq!(key_parts(wrong), None, "{wrong}");
        }
    }
}
