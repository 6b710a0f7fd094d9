//! Policies of the platform, organizations and agents: edited, and put in force after the page has shown what would change (G16).

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::document::DocumentWarning;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::explain::ToolVerdict;
use toolgate_api::name::Name;
use toolgate_api::policy_diff::{Preview, ToolChange};
use toolgate_core::identity::Access;
use toolgate_core::registry::RuleKey;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::DocumentKey;

use super::document_form::{Draft, Sent, editor, put, suggestions};
use super::elements::warnings_list;
use super::elements::{ROWS, editable, notice, number, short, table, verdict, wait_for_compiling};
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::viewer::Viewer;

/// The answer of the daemon to a draft.
enum Answer {
    None,
    Preview(Preview),
    Refused(CallError),
}

/// The policy of the platform or of an organization, or the document of an agent.
#[derive(Deserialize)]
pub(super) struct PolicyPath {
    org: Option<Name>,
    agent: Option<Name>,
}

impl PolicyPath {
    pub(super) fn key(self) -> RuleKey {
        match (self.org, self.agent) {
            (Some(organization), Some(agent)) => RuleKey::Agent(organization, agent),
            (Some(organization), None) => RuleKey::Policy(organization),
            (None, _) => RuleKey::Platform,
        }
    }
}

/// The editor of a document.
pub(super) async fn edit(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<PolicyPath>,
) -> Result<Page, Problem> {
    let key = path.key();
    let document = DocumentKey::from(key.clone());
    expect_seen(&app, &viewer, &document)?;
    let draft = Draft::load(&app, &document, "{}").await?;
    Ok(page(&app, &viewer, &key, &draft, &Answer::None))
}

/// Checks that the viewer may see the document.
pub(super) fn expect_seen(app: &App, viewer: &Viewer, document: &DocumentKey) -> Result<(), Problem> {
    match document.organization() {
        Some(organization) => Ok(app.admin().expect_own(&viewer.caller, organization)?),
        None => Ok(viewer.caller.may(Access::Operate)?),
    }
}

/// Whether a form only asks what a text would change.
pub(super) fn is_preview(form: &FormFields) -> bool {
    !matches!(form.text("act"), "put" | "delete")
}

/// Previews a document, or puts it in force.
pub(super) async fn act(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<PolicyPath>,
    form: FormFields,
) -> Result<Response, Problem> {
    let key = path.key();
    let draft = Draft::of(&form, DocumentKey::from(key.clone()).kind())?;
    if is_preview(&form) {
        return show_changes(&app, &viewer, &key, draft).await;
    }
    match put(&app, &viewer, key.clone().into(), &draft).await {
        Ok(()) => Ok(SeeOther::to(&shown_at(&key)).into_response()),
        Err(error) => answer(&app, &viewer, &key, &draft, Answer::Refused(error)),
    }
}

/// Shows what a draft would change, with the form that puts it in force.
pub(super) async fn show_changes(
    app: &App,
    viewer: &Viewer,
    key: &RuleKey,
    draft: Draft,
) -> Result<Response, Problem> {
    if let Some(compiling) = wait_for_compiling(app).await {
        let hint = "look again in some seconds: the comparison needs the tools of all plugins";
        let error = CallError::new(ErrorType::Overloaded, format!("the daemon is {compiling}"), hint);
        return answer(app, viewer, key, &draft, Answer::Refused(error));
    }
    let preview = app.admin().preview(&viewer.caller, key.clone(), &draft.text).await;
    answer(app, viewer, key, &draft, preview.map_or_else(Answer::Refused, Answer::Preview))
}

fn answer(
    app: &App,
    viewer: &Viewer,
    key: &RuleKey,
    draft: &Draft,
    answer: Answer,
) -> Result<Response, Problem> {
    match answer {
        Answer::Refused(error) if !can_be_corrected(error.error_type) => Err(error.into()),
        Answer::Refused(ref error) => {
            Ok(page(app, viewer, key, draft, &answer).with_status_of(error).into_response())
        }
        answer => Ok(page(app, viewer, key, draft, &answer).into_response()),
    }
}

/// Whether the text is shown again with the error, so that nothing is lost.
pub(super) fn can_be_corrected(error_type: ErrorType) -> bool {
    !matches!(error_type, ErrorType::Forbidden | ErrorType::NotFound | ErrorType::Unauthenticated)
}

/// The address of the form.
pub(super) fn address(key: &RuleKey) -> String {
    match key {
        RuleKey::Platform => "/console/policies/platform".to_owned(),
        RuleKey::Policy(organization) => format!("/console/policies/organizations/{organization}"),
        RuleKey::Agent(organization, agent) => format!("/console/policies/agents/{organization}/{agent}"),
    }
}

/// The page that shows the document in force.
fn shown_at(key: &RuleKey) -> String {
    match key {
        RuleKey::Platform => address(key),
        RuleKey::Policy(organization) => format!("/console/organizations/{organization}"),
        RuleKey::Agent(organization, agent) => {
            format!("/console/organizations/{organization}/agents/{agent}")
        }
    }
}

/// The title of a document's pages.
pub(super) fn title(key: &RuleKey) -> String {
    match key {
        RuleKey::Platform => "Policy of the platform".to_owned(),
        RuleKey::Policy(organization) => format!("Policy of {organization}"),
        RuleKey::Agent(organization, agent) => format!("Document of {organization}/{agent}"),
    }
}

fn page(app: &App, viewer: &Viewer, key: &RuleKey, draft: &Draft, answer: &Answer) -> Page {
    let document = DocumentKey::from(key.clone());
    let known = suggestions(app, document.organization());
    let sent = Sent { action: &address(key), buttons: &[("preview", "Show what would change")] };
    let main = html! {
        @match answer {
            Answer::None => p { "Change the form or the text, and look at what it would change before you put it in force." },
            Answer::Refused(error) => (notice(error)),
            Answer::Preview(preview) => {
                (changes(preview))
                @if is_refused(key, preview) { p { "Change the text, or the assertions. Then look again at what it would change." } }
                @else { (confirmation(viewer, key, draft)) }
            },
        }
        (editor(viewer, document.kind(), draft, &known, &sent))
        p { a href={ (address(key)) "/history" } { "History, comparison and rollback" } }
        @match key {
            RuleKey::Platform => p { a href=(assertions_address(None)) { "Assertions of the platform" } },
            RuleKey::Policy(organization) | RuleKey::Agent(organization, _) => {
                p { a href=(assertions_address(Some(organization))) { "Assertions of " (organization) } }
            },
        }
    };
    Page::new(title(key), main)
}

/// Whether the daemon would refuse the draft for an assertion that it breaks. A change of the platform may break those of
/// organizations.
fn is_refused(key: &RuleKey, preview: &Preview) -> bool {
    !matches!(key, RuleKey::Platform) && preview.warnings.iter().any(is_of_assertion)
}

fn is_of_assertion(warning: &DocumentWarning) -> bool {
    warning.code.starts_with("ASSERTION_")
}

/// The assertions that a draft would break.
fn broken_assertions(warnings: &[DocumentWarning]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            div.notice.error {
                p { strong { "Assertions that would fail" } }
                p { "The change is refused for an assertion of its holder or of the platform. An assertion of an organization refuses no change of the platform." }
                (warnings_list(warnings))
            }
        }
    }
}

/// The form that puts in force what was shown, and nothing else.
fn confirmation(viewer: &Viewer, key: &RuleKey, draft: &Draft) -> Markup {
    html! {
        (viewer.form(address(key), &[("act", &"put"), ("revision", &draft.revision)], html! {
            textarea name="text" hidden { "\n" (editable(&draft.text)) }
            button.danger { "Put it in force" }
        }))
    }
}

fn changes(preview: &Preview) -> Markup {
    let groups = groups_of(preview);
    let count: usize = groups.iter().map(|group| group.tools.len()).sum();
    let rows = html! { @for group in groups.iter().take(ROWS as usize) { (group.row()) } };
    let (failing, others): (Vec<_>, Vec<_>) = preview.warnings.iter().cloned().partition(is_of_assertion);
    html! {
        h2 { "Changes of this draft" }
        (broken_assertions(&failing))
        @if !others.is_empty() { (warnings_list(&others)) }
        @if preview.members.is_empty() { p { "The text says what the document in force says." } }
        @else { p { "Changed members: " (toolgate_api::text::list(preview.members.iter().map(String::as_str), 50)) "." } }
        @if count == 0 { p { "No agent gains or loses a tool." } }
        @else {
            p { (number(count as u64)) (if count == 1 { " tool of an agent changes:" } else { " tools of agents change:" }) }
            (table("Changes", &["Agent", "Plugin", "Tools", "Now", "Then", "Decided by", "Channels"], &rows))
        }
        @if groups.len() > ROWS as usize { p.quiet { (number(groups.len() as u64)) " groups in all." } }
        @if !preview.complete { p.quiet { "There are too many agents and tools to compare them all." } }
        p.quiet { (number(preview.unchanged as u64)) " agents keep what they have." }
    }
}

/// The changed tools of one agent and plugin that have the same verdicts for the same reason.
struct ChangeGroup<'a> {
    agent: &'a str,
    namespace: &'a str,
    tools: Vec<&'a ToolChange>,
}

fn groups_of(preview: &Preview) -> Vec<ChangeGroup<'_>> {
    let mut groups: Vec<ChangeGroup<'_>> = Vec::new();
    for agent in &preview.agents {
        for tool in &agent.tools {
            let namespace = tool.tool.split('/').next().unwrap_or_default();
            let is_same = |group: &&mut ChangeGroup<'_>| {
                let Some(first) = group.tools.first() else { return false };
                group.agent == agent.agent
                    && group.namespace == namespace
                    && (first.before, first.after, &first.layer, &first.rule, &first.channels)
                        == (tool.before, tool.after, &tool.layer, &tool.rule, &tool.channels)
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.tools.push(tool),
                None => groups.push(ChangeGroup { agent: &agent.agent, namespace, tools: vec![tool] }),
            }
        }
    }
    groups
}

impl ChangeGroup<'_> {
    fn row(&self) -> Markup {
        let Some(first) = self.tools.first() else { return html! {} };
        let class = match first.after {
            ToolVerdict::Allowed => "added",
            ToolVerdict::NeedsApproval if first.before == ToolVerdict::Refused => "added",
            _ => "removed",
        };
        let names =
            self.tools.iter().map(|tool| tool.tool.split_once('/').map_or(&*tool.tool, |(_, name)| name));
        html! {
            tr class=(class) {
                th scope="row" { (short(self.agent)) }
                td { (short(self.namespace)) }
                td { code { (toolgate_api::text::list(names, ROWS as usize)) } }
                td { (verdict(first.before)) }
                td { (verdict(first.after)) }
                td { (first.layer) @if let Some(rule) = &first.rule { " · " (rule) } }
                td {
                    @match &first.channels {
                        Some(channels) => (toolgate_api::text::list(channels.iter().map(String::as_str), 10)),
                        None => "all",
                    }
                }
            }
        }
    }
}

/// The address of the page of assertions.
pub(super) fn assertions_address(organization: Option<&Name>) -> String {
    match organization {
        None => "/console/policies/platform/assertions".to_owned(),
        Some(organization) => format!("/console/policies/organizations/{organization}/assertions"),
    }
}
