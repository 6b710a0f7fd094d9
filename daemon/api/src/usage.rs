//! Reports of use, summed from the audit log (O4).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::words;

/// Most rows of a report.
pub const USAGE_ROWS: u32 = 10_000;

/// Use by organization, agent, user, tool or day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    /// The rows, in the order of their names.
    pub items: Vec<UsageRow>,
}

/// The use of the calls that have these properties. A property that the report is not by is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// The organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The user that sessions acted for; empty for sessions without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tool, as `namespace/tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The day on which the calls ended, in UTC, as `2026-11-27`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// Calls that ran.
    pub calls: u64,
    /// Calls among them that did not end with `ok`.
    pub failed: u64,
    /// Executed guest instructions.
    pub fuel: u64,
    /// Processor time of guests, in microseconds.
    pub cpu_us: u64,
    /// Time in the sandbox, in microseconds.
    pub duration_us: u64,
    /// Bytes sent and received over the network.
    pub egress_bytes: u64,
    /// Units that the tools declare as their cost.
    pub cost: u64,
}

words! {
    /// A property that a report is by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
    #[allow(missing_docs, reason = "see `UsageRow`")]
    pub enum UsageBy {
        Organization = "organization",
        Agent = "agent",
        User = "user",
        Tool = "tool",
        Day = "day",
    }
}

/// Writes one row a line, each as a JSON object.
pub fn json_lines(items: &[UsageRow]) -> String {
    let line = |item| serde_json::to_string(item).unwrap_or_default() + "\n";
    items.iter().map(line).collect()
}

/// Writes comma-separated values (RFC 4180), with the names of the columns first.
pub fn csv(items: &[UsageRow], by: &[UsageBy]) -> String {
    const SUMS: &str = "calls,failed,fuel,cpu_us,duration_us,egress_bytes,cost";
    let names: Vec<&str> = by.iter().map(|by| by.as_str()).chain([SUMS]).collect();
    let mut text = names.join(",") + "\r\n";
    for item in items {
        for by in by {
            let property = match by {
                UsageBy::Organization => &item.organization,
                UsageBy::Agent => &item.agent,
                UsageBy::User => &item.user,
                UsageBy::Tool => &item.tool,
                UsageBy::Day => &item.day,
            };
            text += &field(property.as_deref().unwrap_or_default());
            text += ",";
        }
        let UsageRow { calls, failed, fuel, cpu_us, duration_us, egress_bytes, cost, .. } = item;
        // A String takes all that is written.
        let _ = write!(text, "{calls},{failed},{fuel},{cpu_us},{duration_us},{egress_bytes},{cost}\r\n");
    }
    text
}

/// A field, quoted. A spreadsheet would take a user's name that begins like a formula for one, so a quote mark stands before it.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("\"{}{}\"", if is_formula { "'" } else { "" }, text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o4_a_name_cannot_leave_its_field_or_become_a_formula() {
        let row = UsageRow { user: Some("=1,\"a\"\n".to_owned()), calls: 2, ..UsageRow::default() };
        let text = csv(&[row], &[UsageBy::User]);
        assert_eq!(
            text,
            "user,calls,failed,fuel,cpu_us,duration_us,egress_bytes,cost\r\n\"'=1,\"\"a\"\"\n\",2,0,0,0,0,0,0\r\n"
        );
    }
}
