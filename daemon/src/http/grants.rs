//! What operators grant to plugins, over HTTP.
//!
//! A grant holds for calls that begin from now on; what is under way ends as it began. It goes with its plugin.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::address::{PluginAddress, WriteHeaders};
use super::documents::{self, DocumentAccepted, Strictness, stored};
use super::extract::{Path, Query};
use super::plugins::named;
use super::problem::Problem;
use super::refusal::{Changed, NoGrant, NoPlugin, NothingSaid, Unreadable, Unrecordable, UnsoundDocument};
use super::schema::GrantForm;
use super::{App, Authenticated};
use crate::documents::DocumentKey;

/// Get what a plugin is granted.
///
/// Its `ETag` is what `PUT` asks for in `If-Match`. A plugin without a grant has the files that it asks for and reaches
/// nothing else.
#[utoipa::path(
    get, path = "/v1/plugins/{namespace}/grant", tag = "plugins", operation_id = "get_plugin_grant",
    params(PluginAddress),
    responses((status = 200, description = "The document.", body = GrantForm, headers(("ETag" = String, description = "The tag to replace it by."))), NoGrant, Unreadable),
)]
pub async fn get(
    State(app): State<App>,
    _: Authenticated,
    Path(namespace): Path<String>,
) -> Result<Response, Problem> {
    stored(&app, &DocumentKey::Grant(named(&namespace)?)).await
}

/// Grant a plugin what its calls may reach.
///
/// It is replaced whole and holds at once. A call gets what the plugin asks for, this grants, and `network` of the
/// organization's policy and of the agent's document leave; what the plugin does not ask for is warned of. Removing the
/// plugin removes it.
#[utoipa::path(
    put, path = "/v1/plugins/{namespace}/grant", tag = "plugins", operation_id = "put_plugin_grant",
    params(PluginAddress, WriteHeaders, Strictness),
    request_body(content = GrantForm, example = json!({"filesystem": "workspace", "network": [{"host": "api.example.com", "methods": ["GET"], "path": "/points/"}]})),
    responses(
        (status = 200, description = "It is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "It is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        NoPlugin, Changed, UnsoundDocument, NothingSaid, Unrecordable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::Grant(named(&namespace)?);
    documents::put(&app, &caller, key, &strictness, &headers, body).await
}
