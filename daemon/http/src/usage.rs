//! Handler of usage reports.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use toolgate_api::error::ErrorType;
use toolgate_api::usage::{USAGE_ROWS, UsageBy, UsageReport, UsageRow, csv, json_lines};
use toolgate_audit::UsageQuery;
use toolgate_core::identity::Caller;
use utoipa::{IntoParams, ToSchema};

use super::audit::readable_organization;
use super::error_responses::{NoOrganization, StoreUnreadable};
use super::extract::{Client, Query};
use super::problem::Problem;
use super::state::App;

/// Filters and form of a report.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageParameters {
    /// Use of this organization. For owners, the filter is always their own organization.
    pub organization: Option<String>,
    /// Use of this agent.
    pub agent: Option<String>,
    /// Use of sessions that act for this user.
    pub user: Option<String>,
    /// Use of this tool, as `namespace/tool`.
    pub tool: Option<String>,
    /// From the day of this time on (UTC), in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub since_ms: Option<u64>,
    /// Up to the day of this time (UTC), this day included, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub until_ms: Option<u64>,
    /// The properties of a row, separated by commas: `organization`, `agent`, `user`, `tool`, `day`. Default: `organization`.
    #[param(pattern = "^(organization|agent|user|tool|day)(,(organization|agent|user|tool|day))*$")]
    pub by: Option<String>,
    /// The form of the answer. Default: `json`.
    #[serde(default)]
    #[param(inline, required = false)]
    pub format: UsageFormat,
}

/// The form of a report.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageFormat {
    /// One object with `items`.
    #[default]
    Json,
    /// One object a line, each a row.
    JsonLines,
    /// Comma-separated values (RFC 4180), with a row of names.
    Csv,
}

/// Report use, for accounting and billing.
///
/// The sums are those of the audit log, of every call that ended before the request. A call counts on the day on which it
/// ended. Owners, and auditors of one organization, see that organization only.
#[utoipa::path(
    get, path = "/v1/usage", tag = "audit", operation_id = "report_usage", params(UsageParameters),
    responses((status = 200, description = "The report.", content( (UsageReport = "application/json"), (String = "application/jsonl"), (String = "text/csv"), )), NoOrganization, StoreUnreadable),
)]
pub(crate) async fn report(
    Client { app, caller }: Client,
    Query(parameters): Query<UsageParameters>,
) -> Result<Response, Problem> {
    let format = parameters.format;
    let (items, by) = rows(&app, &caller, parameters).await?;
    Ok(match format {
        UsageFormat::Json => axum::Json(UsageReport { items }).into_response(),
        UsageFormat::JsonLines => ([(CONTENT_TYPE, "application/jsonl")], json_lines(&items)).into_response(),
        UsageFormat::Csv => ([(CONTENT_TYPE, "text/csv; charset=utf-8")], csv(&items, &by)).into_response(),
    })
}

/// The rows of a report that the caller may read, and the properties by which they are told apart.
pub async fn rows(
    app: &App,
    caller: &Caller,
    parameters: UsageParameters,
) -> Result<(Vec<UsageRow>, Vec<UsageBy>), Problem> {
    let organization = readable_organization(caller, parameters.organization.as_deref())?;
    let query = UsageQuery {
        organization: organization.map(|name| name.to_string()),
        agent: parameters.agent,
        user: parameters.user,
        tool: parameters.tool,
        since_ms: parameters.since_ms,
        until_ms: parameters.until_ms,
        by: properties(parameters.by.as_deref().unwrap_or(UsageBy::Organization.as_str()))?,
    };
    let items = app.audit().usage(&query).await?;
    let items = items.ok_or_else(|| {
        let message = format!("the report would have more than {USAGE_ROWS} rows");
        Problem::new(
            ErrorType::TooLarge,
            message,
            "ask for fewer days or properties, or for one organization",
        )
    })?;
    Ok((items, query.by))
}

fn properties(text: &str) -> Result<Vec<UsageBy>, Problem> {
    let named = |word: &str| UsageBy::ALL.into_iter().find(|by| by.as_str() == word);
    let mut properties = Vec::new();
    for word in text.split(',') {
        match named(word) {
            Some(by) if properties.contains(&by) => {}
            Some(by) => properties.push(by),
            None => {
                let message = "`by` names a property that usage does not have";
                let hint =
                    "write some of `organization`, `agent`, `user`, `tool`, `day`, separated by commas";
                return Err(Problem::new(ErrorType::InvalidRequest, message, hint));
            }
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o4_properties_are_read() {
        assert_eq!(properties("tool,day,tool").ok(), Some(vec![UsageBy::Tool, UsageBy::Day]));
        for wrong in ["", "tools", "tool, day"] {
            assert!(properties(wrong).is_err(), "{wrong}");
        }
    }
}
