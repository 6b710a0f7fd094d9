//! `toolgate usage`: reports of use, for accounting and billing.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use toolgate_api::usage::{UsageBy, UsageReport, UsageRow, csv, json_lines};

use super::audit::{When, now_ms};
use super::client::Client;
use super::document::query;
use super::failure::Result;
use super::print::Printer;

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate usage --since 7d --by organization,day
  toolgate usage --organization acme --by agent,tool
  toolgate usage --since 31d --by organization,user --format csv > usage.csv";

#[derive(Args)]
pub struct Report {
    /// Only this organization
    #[arg(long, visible_alias = "org", value_name = "ORG")]
    organization: Option<String>,
    /// Only this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only sessions on behalf of this user
    #[arg(long)]
    user: Option<String>,
    /// Only this tool, `namespace/tool`
    #[arg(long)]
    tool: Option<String>,
    /// From the day of this time on: an age like `7d`, or a time like `2026-11-01T00:00:00Z`
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Up to the day of this time, included
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// What each row is for
    #[arg(long, value_delimiter = ',', default_value = "organization", value_parser = property())]
    by: Vec<UsageBy>,
    /// The form of the output
    #[arg(long, default_value = "table", value_enum)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Csv,
    JsonLines,
}

/// Parses the name of a property.
fn property() -> impl TypedValueParser<Value = UsageBy> {
    PossibleValuesParser::new(UsageBy::ALL.map(UsageBy::as_str))
        .try_map(|word| serde_json::from_value(word.into()))
}

pub(crate) async fn run(report: Report, client: &Client, printer: &mut Printer<'_>) -> Result {
    let UsageReport { items } = client.get(&report.target(now_ms())).send().await?.body;
    match report.format {
        Format::Csv => Ok(printer.json_text(&csv(&items, &report.by))?),
        Format::JsonLines => Ok(printer.json_text(&json_lines(&items))?),
        Format::Table => Ok(printer.list(HEADINGS, &items, row)?),
    }
}

impl Report {
    fn target(&self, now_ms: u64) -> String {
        let time = |when: Option<When>| when.map(|when| when.ms(now_ms).to_string());
        let by = self.by.iter().map(|by| by.as_str()).collect::<Vec<_>>().join(",");
        let filters = [
            ("organization", self.organization.clone()),
            ("agent", self.agent.clone()),
            ("user", self.user.clone()),
            ("tool", self.tool.clone()),
            ("since_ms", time(self.since)),
            ("until_ms", time(self.until)),
            ("by", Some(by)),
        ];
        format!("/v1/usage{}", query(&filters))
    }
}

const HEADINGS: [&str; 7] = ["FOR", "CALLS", "FAILED", "FUEL", "CPU MS", "BYTES", "COST"];

fn row(item: &UsageRow) -> [String; 7] {
    let properties = [&item.organization, &item.agent, &item.user, &item.tool, &item.day];
    let named = properties.into_iter().flatten().map(|text| if text.is_empty() { "-" } else { text });
    let sums = [item.calls, item.failed, item.fuel, item.cpu_us / 1_000, item.egress_bytes, item.cost];
    let [calls, failed, fuel, cpu_ms, bytes, cost] = sums.map(|sum| sum.to_string());
    [named.collect::<Vec<_>>().join(" "), calls, failed, fuel, cpu_ms, bytes, cost]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{parse, run_with};
    use super::*;
    use crate::client::testing::Canned;

    fn report(words: &[&str]) -> Report {
        parse(words)
    }

    #[test]
    fn o4_filters_and_properties_are_asked_for() {
        let report = report(&["--organization", "acme", "--by", "agent,day", "--since", "1d"]);
        assert_eq!(report.target(90_000_000), "/v1/usage?organization=acme&since_ms=3600000&by=agent%2Cday");
    }

    #[tokio::test]
    async fn o4_a_report_is_a_table_or_comma_separated_values() {
        let answer = || {
            json!({"items": [{"agent": "bot", "calls": 3, "failed": 1, "fuel": 5, "cpu_us": 7_000,
            "duration_us": 1, "egress_bytes": 9, "cost": 4}]})
        };
        for (words, expected) in [
            (&["--by", "agent"][..], "bot  3      1       5     7       9      4"),
            (&["--by", "agent", "--format", "csv"][..], "\"bot\",3,1,5,7000,1,9,4"),
        ] {
            let report = report(words);
            let answers = vec![Canned::json(200, answer())];
            let run =
                run_with(answers, false, async |client, printer| run(report, client, printer).await).await;
            assert!(run.out.contains(expected), "{}", run.out);
        }
    }
}
