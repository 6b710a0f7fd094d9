//! Quotas in policies: how much may be used in a period of time, or at once (O4).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::name::Name;
use crate::read::{invalid, invalid_at, list_of, null_is_default, whole_number};
use crate::tools::ToolList;
use crate::words::words;

/// Most quotas of one policy. A call looks at each.
const QUOTAS: usize = 32;
/// Most properties by which a quota is divided.
const DIMENSIONS: usize = 6;
/// Greatest amount.
const AMOUNT: u64 = 1 << 53;
/// Longest period: a leap year.
const SECONDS: u64 = 366 * 86_400;
/// Longest period of a quota whose refusal is `RATE_LIMITED`, which callers answer by waiting.
const RATE_SECONDS: u32 = 60;

/// A quota: a bound on what calls use together. Each quota of each layer counts, so a layer can only narrow.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Quota {
    /// The name, which refusals and usage show. One of a kind in its policy.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: Name,
    /// The counted use.
    pub measure: Measure,
    /// The most in a period, or at once. 0 allows no call.
    #[serde(deserialize_with = "whole_number::<_, _, 0, AMOUNT>")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9_007_199_254_740_992u64))]
    pub amount: u64,
    /// The period, in seconds. Periods begin at multiples of it since 1970-01-01 UTC, so 86,400 is a day. Absent for
    /// `running` alone.
    #[serde(default, deserialize_with = "seconds")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 31_622_400))]
    pub seconds: Option<u32>,
    /// The quota is for each of these apart. Default: one for all that the policy is for.
    #[serde(default, deserialize_with = "per")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<QuotaPer>>, max_items = 6))]
    pub per: Vec<QuotaPer>,
    /// The tools whose calls count. Default: all.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolList>))]
    pub tools: Option<ToolList>,
    /// The end of a call that would exceed the quota. Default: `reject`.
    #[serde(default, deserialize_with = "null_is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QuotaAction>))]
    pub action: QuotaAction,
}

words! {
    /// A use that a quota counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub enum Measure {
        /// Calls.
        Calls = "calls",
        /// Calls at once. The calls that a script makes run in its place and do not count.
        Running = "running",
        /// Guest instructions.
        Fuel = "fuel",
        /// Processor time of guests, in milliseconds.
        CpuMs = "cpu_ms",
        /// Bytes sent and received over the network.
        EgressBytes = "egress_bytes",
        /// Units that the called tools declare as their `cost`.
        Cost = "cost",
    }
}

impl Measure {
    /// Whether a call gets what is left of it, up to its own limit.
    pub fn is_bound(self) -> bool {
        matches!(self, Self::Fuel | Self::CpuMs | Self::EgressBytes)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Calls => "calls",
            Self::Running => "calls at once",
            Self::Fuel => "units of fuel",
            Self::CpuMs => "ms of processor time",
            Self::EgressBytes => "bytes over the network",
            Self::Cost => "units of cost",
        })
    }
}

/// A property of calls by which a quota is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[allow(missing_docs, reason = "the words say it, and their schema is one list")]
pub enum QuotaPer {
    Organization,
    Agent,
    /// The session's user. Calls of sessions without a user share one quota.
    User,
    Tool,
    Plugin,
    /// The token of the request.
    Token,
}

/// The end of a call that would exceed a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum QuotaAction {
    /// The call is refused.
    #[default]
    Reject,
    /// The call waits until its deadline for the next period, or the end of a running call.
    Wait,
}

impl Quota {
    /// Whether it bounds a rate, whose refusal is `RATE_LIMITED`; that of any other is `QUOTA_EXCEEDED`.
    pub fn is_rate(&self) -> bool {
        self.seconds.is_none_or(|seconds| seconds <= RATE_SECONDS)
    }

    /// Whether waiting can help at all.
    pub fn is_ever_open(&self) -> bool {
        self.amount > 0
    }
}

fn per<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<QuotaPer>, D::Error> {
    let Some(Dimensions(mut per)) = Option::deserialize(from)? else { return Ok(Vec::new()) };
    per.sort_unstable();
    per.dedup();
    Ok(per)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Dimensions(#[serde(deserialize_with = "list_of::<_, _, DIMENSIONS>")] Vec<QuotaPer>);

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let seconds = Option::<u64>::deserialize(from)?;
    let whole = |number: u64| u32::try_from(number).ok().filter(|_| (1..=SECONDS).contains(&number));
    match seconds.map(|number| whole(number).ok_or(number)).transpose() {
        Ok(seconds) => Ok(seconds),
        Err(number) => {
            let hint = format!("write a whole number from 1 to {SECONDS}");
            Err(invalid(format_args!("{number} is not a period in seconds"), hint))
        }
    }
}

/// For `deserialize_with`: the quotas of a policy.
pub fn quotas<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[Quota]>, D::Error> {
    let quotas: Vec<Quota> = match Option::<List>::deserialize(from)? {
        Some(List(quotas)) => quotas,
        None => Vec::new(),
    };
    for (index, quota) in quotas.iter().enumerate() {
        let at = |field: &str| format!("/{index}/{field}");
        match (quota.measure, quota.seconds) {
            (Measure::Running, Some(_)) => {
                let message = "calls at once have no period";
                return Err(invalid_at(at("seconds"), message, "leave out `seconds`, or count `calls`"));
            }
            (Measure::Running, None) | (_, Some(_)) => {}
            (_, None) => {
                let hint = "add `seconds`, such as 86400 for a day";
                return Err(invalid_at(at("seconds"), "the field `seconds` is missing", hint));
            }
        }
        if quotas[..index].iter().any(|earlier| earlier.name == quota.name) {
            let message = format!("two quotas are called `{}`", quota.name);
            return Err(invalid_at(at("name"), message, "give each quota a name of its own"));
        }
    }
    Ok(quotas.into())
}

#[derive(Deserialize)]
#[serde(transparent)]
struct List(#[serde(deserialize_with = "list_of::<_, _, QUOTAS>")] Vec<Quota>);

#[cfg(test)]
mod tests {
    use crate::policy::OrgDocument;

    fn parse(quotas: &str) -> Result<OrgDocument, (String, String)> {
        let document = OrgDocument::parse(&format!(r#"{{"quotas":{quotas}}}"#));
        document.map_err(|error| (error.place, error.message))
    }

    #[test]
    fn o4_a_quota_has_a_period_unless_it_counts_what_runs() {
        let document = parse(
            r#"[{"name":"daily","measure":"calls","amount":5,"seconds":86400,"per":["user"],"tools":["crm/*"],"action":"wait"},
                {"name":"few","measure":"running","amount":0},
                {"name":"minute","measure":"fuel","amount":1,"seconds":60}]"#,
        );
        let quotas = document.unwrap().quotas;
        let rates: Vec<_> = quotas.iter().map(|quota| (quota.is_rate(), quota.is_ever_open())).collect();
        assert_eq!(rates, [(false, true), (true, false), (true, true)]);
        for (quotas, place) in [
            (r#"[{"name":"a","measure":"calls","amount":5}]"#, "/quotas/0/seconds"),
            (r#"[{"name":"a","measure":"running","amount":5,"seconds":1}]"#, "/quotas/0/seconds"),
            (r#"[{"name":"a","measure":"calls","amount":5,"seconds":0}]"#, "/quotas/0/seconds"),
            (r#"[{"name":"a","measure":"calls","amount":-1,"seconds":1}]"#, "/quotas/0/amount"),
            (r#"[{"name":"a","measure":"calls","amount":1,"seconds":1,"per":["team"]}]"#, "/quotas/0/per/0"),
            (
                r#"[{"name":"a","measure":"running","amount":1},{"name":"a","measure":"running","amount":2}]"#,
                "/quotas/1/name",
            ),
        ] {
            assert_eq!(parse(quotas).map_err(|(place, _)| place).unwrap_err(), place);
        }
        assert!(parse("null").unwrap().quotas.is_empty());
        assert!(parse("[]").unwrap().quotas.is_empty());
    }
}
