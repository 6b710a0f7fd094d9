//! The tools of a session over HTTP: list the callable tools, select those relevant to a message, disable and enable.

use std::collections::HashMap;
use std::fmt::Write as _;
use toolgate_api::descriptor::Mode;
use toolgate_api::plugin::ToolDetails;
use toolgate_api::session::{SelectRequest, SelectedTool, SelectedTools, ToolList, ToolSwitch};
use toolgate_core::dispatch::refuse_in_script;
use toolgate_core::plugins::tool_details;
use toolgate_core::registry::Shortlist;
use toolgate_core::sessions::Session;
use toolgate_core::signature::signature;

use axum::http::StatusCode;
use serde::Deserialize;
use toolgate_admission::{self as admission, Digest, Rules, SessionFacts, Tool};
use toolgate_sandbox::Component;
use utoipa::IntoParams;

use super::body::Json;
use super::dialects::tools::{Deferral, Format, ListForm, Listed, list as list_as};
use super::error_responses::{AuditUnavailable, NoSession, NoTool, SessionEnded};
use super::extract::{Client, Path, Query};
use super::path_params::{SessionPath, ToolPath};
use super::problem::Problem;
use super::state::App;
use crate::prompt::system_prompt;

/// The query of a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The format. Default: Toolgate's own.
    #[serde(default)]
    #[param(required = false, inline)]
    format: Format,
    /// Whether to write the strict form of OpenAI or Anthropic for the tools whose schemas can be said in it. The list says
    /// of each other tool why not. Formats without a strict form ignore it. Default: false.
    #[serde(default)]
    #[param(required = false)]
    strict: bool,
    /// Whether the model loads tools on demand, with Anthropic's `defer_loading` or OpenAI's `tool_search`. Universal tools, and
    /// those that the organization always shows, are in the list; the model finds the others by a search, whose call is
    /// posted like any other. Formats without deferred tools ignore it. Default: false.
    #[serde(default)]
    #[param(required = false)]
    deferred: bool,
    /// Whether the list has only the tool that runs scripts, whose description then has the signatures of the others. Without
    /// such a tool this has no effect. Default: false.
    #[serde(default)]
    #[param(required = false)]
    code: bool,
}

impl ListQuery {
    fn list<'a>(&self, tools: impl IntoIterator<Item = Listed<'a>>) -> ToolList {
        let deferral = match self.deferred && self.format.has_deferred_form() {
            true => Deferral::Search,
            false => Deferral::None,
        };
        let strict = self.strict && self.format.has_strict_form();
        list_as(ListForm { format: self.format, strict, deferral }, tools)
    }
}

/// List the callable tools of a session.
///
/// Returns the names, descriptions and JSON Schemas for a model, in the format of its provider. The schemas are written so
/// that the provider accepts each of them; the differences from the enforced ones are named beside the list.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/tools", tag = "sessions", operation_id = "list_session_tools", params(SessionPath, ListQuery),
    responses((status = 200, description = "The callable tools.", body = ToolList), NoSession, SessionEnded),
)]
pub(crate) async fn list(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<ToolList>, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let tools = tools_of(&app, &session).await;
    let tools = if query.code { only_scripts(tools) } else { tools };
    Ok(axum::Json(query.list(tools.iter().map(VisibleTool::to_listed))))
}

/// Select the tools that matter for a message.
///
/// Selects from the callable tools, by the intents of the platform's policy and by words. Recently used tools,
/// universal tools and the tools that the organization always shows are included. The selection does not restrict
/// access: every callable tool can still be called.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/tools/select", tag = "sessions", operation_id = "select_session_tools", params(SessionPath, ListQuery),
    request_body = SelectRequest,
    responses((status = 200, description = "The tools to show.", body = SelectedTools), NoSession, SessionEnded),
)]
pub(crate) async fn select(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
    Query(query): Query<ListQuery>,
    Json(request): Json<SelectRequest>,
) -> Result<axum::Json<SelectedTools>, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let setup = &session.setup;
    app.services().registry.wait_for_tools_of(&setup.organization, &setup.agent).await;
    let snapshot = app.services().registry.snapshot();
    let rules = snapshot.rules(&setup.organization, &setup.agent).unwrap_or_else(|| snapshot.denying_rules());
    let facts = session.state.facts();
    let all = VisibleTool::all(&rules, &facts);
    let shortlist = if rules.organization.document().broker.enabled {
        let recent = session.state.recent();
        snapshot.shortlist(&rules, &facts, &request.message, &recent, &session.setup.organization).await
    } else {
        Shortlist::all(all.iter().map(|shown| shown.tool.index()))
    };
    let by_number: HashMap<usize, &VisibleTool> =
        all.iter().map(|shown| (shown.tool.index(), shown)).collect();
    let picked = |(number, why)| Some((*by_number.get(&number)?, why));
    let chosen: Vec<(&VisibleTool, Vec<String>)> = shortlist.tools.into_iter().filter_map(picked).collect();
    let listed = chosen.iter().map(|(shown, _)| *shown);
    let script = all.iter().find(|tool| tool.runs_scripts()).filter(|_| query.code);
    let script = script.map(|script| script.with_signatures(listed.clone()));
    let ToolList { tools, changed, left_out } = match &script {
        Some(script) => query.list([script.to_listed()]),
        None => query.list(listed.map(VisibleTool::to_listed)),
    };
    let system_prompt = match &script {
        Some(script) => system_prompt([script.name()].into_iter(), all.len()),
        None => system_prompt(chosen.iter().map(|(shown, _)| shown.name()), all.len()),
    };
    Ok(axum::Json(SelectedTools {
        tools,
        changed,
        left_out,
        narrowed: chosen.len() < all.len(),
        system_prompt,
        why: chosen
            .iter()
            .map(|(shown, why)| SelectedTool { name: shown.name().to_owned(), why: why.clone() })
            .collect(),
    }))
}

/// Disable a tool in a session, or enable it again.
///
/// The operation also enables a tool that was disabled for repeated failures. Open calls of the tool continue.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/tools/{tool}", tag = "sessions", operation_id = "switch_session_tool", params(ToolPath),
    request_body(content = ToolSwitch, example = json!({"disabled": true})),
    responses((status = 204, description = "It is as asked."), NoTool, SessionEnded, AuditUnavailable),
)]
pub(crate) async fn switch(
    Client { app, caller }: Client,
    Path(ToolPath { id, tool }): Path<ToolPath>,
    Json(switch): Json<ToolSwitch>,
) -> Result<StatusCode, Problem> {
    let session = app.session_of(&caller, &id).await?;
    app.admin().switch_session_tool(app.actor(&caller), &session, &tool, switch.disabled).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Leaves the tool that runs scripts, if there is one.
pub(super) fn only_scripts(tools: Vec<VisibleTool>) -> Vec<VisibleTool> {
    let script = tools.iter().find(|tool| tool.runs_scripts());
    match script.map(|script| script.with_signatures(tools.iter())) {
        Some(script) => vec![script],
        None => tools,
    }
}

/// A callable tool with its description for a model.
#[derive(Clone)]
pub(super) struct VisibleTool {
    tool: Tool<Component>,
    description: String,
    details: ToolDetails,
    requires_approval: bool,
    always_shown: bool,
}

impl VisibleTool {
    pub(crate) fn all(rules: &Rules<Component>, facts: &SessionFacts) -> Vec<Self> {
        admission::callable(rules, facts)
            .map(|(tool, requires_approval)| {
                let described = tool.descriptor();
                let description = match described.usage == described.description {
                    true => described.description.clone(),
                    false => format!("{}\n\n{}", described.description, described.usage),
                };
                let index = tool.index();
                let always_shown =
                    rules.platform.is_universal(index) || rules.organization.always_shows(index);
                let details = tool_details(tool.plugin(), described);
                Self { tool: tool.clone(), description, details, requires_approval, always_shown }
            })
            .collect()
    }

    pub(crate) fn name(&self) -> &str {
        self.tool.descriptor().wire.as_str()
    }

    /// The tool's name, whether it needs an approval, and the digest of its plugin.
    pub(crate) fn key(&self) -> (String, bool, Digest) {
        (self.name().to_owned(), self.requires_approval, self.tool.plugin().digest.clone())
    }

    fn runs_scripts(&self) -> bool {
        self.tool.access().may_call_tools()
    }

    /// The same tool, described with the signatures of those that its scripts may call.
    fn with_signatures<'a>(&self, tools: impl Iterator<Item = &'a Self>) -> Self {
        let mut description = format!("{}\n\nThe script may call:", self.description);
        for tool in tools.filter(|tool| refuse_in_script(&tool.tool).is_none()) {
            let described = tool.tool.descriptor();
            let first_line = described.description.lines().next().unwrap_or_default();
            let _ = write!(description, "\n{} // {first_line}", signature(described));
        }
        Self { description, ..self.clone() }
    }

    /// Whether the client performs its calls.
    pub(crate) fn is_for_client(&self) -> bool {
        self.tool.descriptor().mode == Mode::Client
    }

    /// Whether every list shows it, also one that leaves the others to a search.
    pub(crate) fn is_always_shown(&self) -> bool {
        self.always_shown
    }

    pub(crate) fn to_listed(&self) -> Listed<'_> {
        let described = self.tool.descriptor();
        Listed {
            name: described.wire.as_str(),
            original: described.original_name.as_deref(),
            description: &self.description,
            details: &self.details,
            input: &described.input,
            output: described.output.as_deref(),
            hints: self.tool.hints(),
            requires_approval: self.requires_approval,
            mode: described.mode,
            deferred: !self.always_shown,
        }
    }
}

/// Lists the deferred tools that the broker finds for a query, as the answer of a search.
pub(super) async fn find(app: &App, session: &Session, format: Format, query: &str) -> ToolList {
    let setup = &session.setup;
    app.services().registry.wait_for_tools_of(&setup.organization, &setup.agent).await;
    let snapshot = app.services().registry.snapshot();
    let rules = snapshot.rules(&setup.organization, &setup.agent).unwrap_or_else(|| snapshot.denying_rules());
    let facts = session.state.facts();
    let shortlist = snapshot.shortlist(&rules, &facts, query, &[], &setup.organization).await;
    let all = VisibleTool::all(&rules, &facts);
    let deferred: HashMap<usize, &VisibleTool> =
        all.iter().filter(|tool| !tool.always_shown).map(|tool| (tool.tool.index(), tool)).collect();
    let found = shortlist.tools.iter().filter_map(|(index, _)| deferred.get(index));
    let form = ListForm { format, strict: false, deferral: Deferral::Found };
    list_as(form, found.map(|tool| tool.to_listed()))
}

/// Returns the callable tools of an open session; none if its agent was deleted.
pub(super) async fn tools_of(app: &App, session: &Session) -> Vec<VisibleTool> {
    let setup = &session.setup;
    app.services().registry.wait_for_tools_of(&setup.organization, &setup.agent).await;
    let rules = app.services().registry.snapshot().rules(&setup.organization, &setup.agent);
    rules.map(|rules| VisibleTool::all(&rules, &session.state.facts())).unwrap_or_default()
}
