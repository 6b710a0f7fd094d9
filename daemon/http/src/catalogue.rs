//! Handler of the catalogue.

use serde::Deserialize;
use toolgate_api::catalogue::{CatalogueView, PluginKind};
use toolgate_api::consent::RiskLevel;
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_core::catalogue::{CatalogueQuery, CatalogueSort};
use utoipa::{IntoParams, ToSchema};

use super::error_responses::{NoOrganization, StoreUnreadable};
use super::extract::{Client, Query};
use super::problem::Problem;

/// Entries of a page by default: each has all tools of a plugin.
const ENTRIES: u32 = 20;
/// Longest words of a search, in characters.
const WORDS_CHARS: usize = 1_000;

/// Filters and order of the catalogue.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CatalogueParameters {
    /// The organization whose catalogue this is. For owners always their own. Default for operators: the platform's plugins.
    pub org: Option<String>,
    /// Words to search for in names, search words, categories, purposes and descriptions.
    #[param(max_length = 1000)]
    q: Option<String>,
    /// Only entries of this category.
    category: Option<String>,
    /// Only entries of this kind. `custom` has third-party plugins too: all that the operator does not vouch for.
    #[param(inline)]
    kind: Option<KindFilter>,
    /// Only entries of this publisher.
    publisher: Option<String>,
    /// Only entries of this level of risk.
    #[param(inline)]
    risk: Option<RiskLevel>,
    /// The order. Default: the best match first, and by name without `q`.
    #[param(inline)]
    sort: Option<SortParameter>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of entries on a page.
    #[serde(default, deserialize_with = "super::paging::page_limit::<1000, _>")]
    #[param(minimum = 1, maximum = 1000, default = 20)]
    pub limit: Option<u32>,
}

/// The kinds that are listed.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum KindFilter {
    /// The operator vouches for them.
    Standard,
    /// All others.
    Custom,
    /// An operator loaded them, and does not vouch for them.
    ThirdParty,
}

/// The order of the entries.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SortParameter {
    /// By namespace.
    Name,
    /// The most called in the last 30 days first.
    Popular,
    /// The last loaded first.
    Recent,
}

/// List the tools that an organization may use.
///
/// Each entry is a plugin: its purpose, its tools, what it asks to reach, its risk, whether the organization has enabled and
/// accepted it, and how much it is used. Plugins that the platform blocks or disables, and those of other organizations, are
/// not in the list. Owners see their organization's catalogue, operators one organization's or all plugins of the platform.
#[utoipa::path(
    get, path = "/v1/catalogue", tag = "catalogue", operation_id = "list_catalogue", params(CatalogueParameters),
    responses((status = 200, description = "A page of the catalogue.", body = CatalogueView), NoOrganization, StoreUnreadable),
)]
pub async fn list(
    Client { app, caller }: Client,
    Query(parameters): Query<CatalogueParameters>,
) -> Result<axum::Json<CatalogueView>, Problem> {
    Ok(axum::Json(app.admin().catalogue(&caller, query(parameters)?).await?))
}

/// The query that the parameters ask for.
///
/// # Errors
///
/// `NOT_FOUND` for an organization that cannot exist, `INVALID_REQUEST` for too many words.
pub fn query(parameters: CatalogueParameters) -> Result<CatalogueQuery, Problem> {
    let organization = match &parameters.org {
        None => None,
        Some(text) => Some(Name::parse(text).map_err(|_| Problem::not_found("organization"))?),
    };
    let words = parameters.q.filter(|words| !words.trim().is_empty());
    if words.as_ref().is_some_and(|words| words.chars().count() > WORDS_CHARS) {
        let message = format!("`q` has more than {WORDS_CHARS} characters");
        return Err(Problem::new(ErrorType::InvalidRequest, message, "search for some words"));
    }
    Ok(CatalogueQuery {
        organization,
        words,
        category: parameters.category,
        kinds: parameters.kind.map(kinds),
        publisher: parameters.publisher,
        risk: parameters.risk,
        sort: parameters.sort.map(|sort| match sort {
            SortParameter::Name => CatalogueSort::Name,
            SortParameter::Popular => CatalogueSort::Popular,
            SortParameter::Recent => CatalogueSort::Recent,
        }),
        cursor: parameters.cursor,
        limit: parameters.limit.unwrap_or(ENTRIES),
        partial: false,
    })
}

fn kinds(filter: KindFilter) -> Vec<PluginKind> {
    match filter {
        KindFilter::Standard => vec![PluginKind::Standard],
        KindFilter::Custom => vec![PluginKind::Custom, PluginKind::ThirdParty],
        KindFilter::ThirdParty => vec![PluginKind::ThirdParty],
    }
}
