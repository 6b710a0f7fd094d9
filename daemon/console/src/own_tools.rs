//! Tools that an organization makes by hand (C1 C2 C3 M4): written in a form, imported from an OpenAPI document, or mounted from an
//! MCP server whose changes a person approves.

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use toolgate_api::custom_tool::{
    CustomState, CustomToolView, ImportRequest, ImportView, NoteView, WaitingView,
};
use toolgate_api::descriptor::LeftOut;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_core::identity::Access;
use toolgate_http::body::Json;
use toolgate_http::custom::own_tool;
use toolgate_http::custom_import;
use toolgate_http::extract::Path;
use toolgate_http::path_params::OrgPath;
use toolgate_http::plugins::parse_namespace;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, DocumentKind, Precondition, ToolKey, warning_view};

use super::changes::difference;
use super::credentials::address_for_plugin;
use super::document_form::{Draft, Sent, editor, suggestions};
use super::elements::{
    Filters, LIST_BYTES, ROWS, badge, digest, empty, facts, next_page, notice, number, short, table,
    warnings_list,
};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::hints;
use super::history::{self, HistoryQuery, Kept};
use super::page::Page;
use super::policies::can_be_corrected;
use super::text::{cut, indent_json};
use super::try_out;
use super::viewer::Viewer;

/// Notes and tools that were left out, as they are shown at most.
const NOTES: usize = 50;
/// Operations that are shown to choose from.
const OPERATIONS: usize = 400;
/// Providers without a credential that are linked.
const PROVIDERS: usize = 10;

/// The kinds of a definition, each with what a new one begins with.
const KINDS: [(&str, &str, &str); 3] = [
    (
        "http",
        "an API over HTTP",
        r#"{"kind": "http", "description": "", "base_url": "https://", "authentication": {"kind": "none"},
            "actions": [{"name": "", "description": "", "method": "GET", "path": "/"}]}"#,
    ),
    (
        "mcp",
        "a server of the Model Context Protocol",
        r#"{"kind": "mcp", "description": "", "url": "https://", "authentication": {"kind": "none"}}"#,
    ),
    (
        "shell",
        "commands of the shell",
        r#"{"kind": "shell", "description": "", "commands": [{"name": "", "description": "", "command": ""}]}"#,
    ),
];

/// The tool that an editor is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edited {
    name: String,
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    cursor: Option<String>,
}

fn list_address(organization: &Name) -> String {
    format!("/console/tools/{organization}")
}

fn address(key: &ToolKey) -> String {
    format!("/console/tools/{}/{}", key.organization, key.namespace)
}

fn edit_address(key: &ToolKey) -> String {
    format!("/console/define/{}?name={}", key.organization, key.namespace)
}

/// The tools of an organization, and the ways to a new one.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Path(organization): Path<Name>,
    Filters(Listed { cursor }): Filters<Listed>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let mut tools = app.admin().custom().list(&organization, cursor.as_deref(), ROWS + 1).await?;
    let has_more = tools.len() > ROWS as usize;
    tools.truncate(ROWS as usize);
    let next = tools.last().filter(|_| has_more).map(|tool| tool.namespace.clone());
    let rows = html! {
        @for tool in &tools {
            tr {
                th scope="row" { a href=(format!("{}/{}", list_address(&organization), tool.namespace)) { (short(&tool.namespace)) } }
                td { (short(&tool.kind)) }
                td { (state(tool)) }
                td.number { (tool.tools.len()) }
                td { @if let Some(purpose) = &tool.purpose { (short(purpose)) } }
            }
        }
    };
    let main = html! {
        @if tools.is_empty() { (empty("The organization has no tools of its own.", "Make one below, without code.", None)) }
        @else { (table("Tools", &["Tool", "Kind", "State", "#Actions", "Purpose"], &rows)) }
        (next_page(&uri, next.as_deref()))
        section aria-labelledby="new" {
            h2 id="new" { "Make a tool" }
            form.stack method="get" action={ "/console/define/" (organization) } {
                (Field::new("name", "Namespace").required(true).hint("Such as weather. Its actions are called weather/…"))
                label for="kind" { "What it calls" }
                select id="kind" name="kind" { @for (kind, words, _) in KINDS { option value=(kind) { (words) } } }
                button { "Describe it" }
            }
            p { a.button href={ "/console/import/" (organization) } { "Import an OpenAPI document" } }
        }
    };
    Ok(Page::new(format!("Tools of {organization}"), main))
}

fn state(tool: &CustomToolView) -> Markup {
    html! {
        @match tool.state {
            CustomState::Active => (badge("good", "active")),
            CustomState::Failed => (badge("bad", "failed")),
        }
        @if tool.waiting.is_some() { " " (badge("warn", "changes wait for approval")) }
    }
}

/// What a form of a definition came to.
enum Answer {
    None,
    Checked(Box<CustomToolView>, Markup),
    Refused(CallError),
}

fn edited(viewer: &Viewer, organization: Name, edited: &Edited) -> Result<ToolKey, Problem> {
    let namespace = parse_namespace(edited.name.trim())?;
    own_tool(&viewer.caller, ToolKey { organization, namespace })
}

/// The definition of a tool, as a form and as text.
pub(super) async fn edit(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    Filters(asked): Filters<Edited>,
) -> Result<Page, Problem> {
    let key = edited(&viewer, organization, &asked)?;
    let kind = asked.kind.as_deref().unwrap_or("http");
    let start = KINDS.iter().find(|(name, ..)| *name == kind).map_or("{}", |(.., start)| start);
    let draft = Draft::load(&app, &DocumentKey::Tool(key.clone()), &indent_json(start)).await?;
    Ok(definition(&app, &viewer, &key, &draft, &Answer::None))
}

/// Checks a definition, or stores it.
pub(super) async fn save(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    Filters(asked): Filters<Edited>,
    form: FormFields,
) -> Result<Response, Problem> {
    let key = edited(&viewer, organization, &asked)?;
    let draft = Draft::of(&form, DocumentKind::Tool)?;
    let is_check = form.text("act") == "check";
    let put = async {
        let precondition = draft.precondition()?;
        app.admin().put_custom_tool(viewer.actor(), &key, &draft.text, &precondition, is_check).await
    };
    let answer = match put.await {
        Ok(_) if !is_check => return Ok(SeeOther::to(&address(&key)).into_response()),
        Ok(put) => {
            let warnings: Vec<_> = put.warnings.into_iter().map(warning_view).collect();
            Answer::Checked(Box::new(put.view), warnings_list(&warnings))
        }
        Err(error) if !can_be_corrected(error.error_type) => return Err(error.into()),
        Err(error) => Answer::Refused(error),
    };
    let page = definition(&app, &viewer, &key, &draft, &answer);
    Ok(match &answer {
        Answer::Refused(error) => page.with_status_of(error).into_response(),
        _ => page.into_response(),
    })
}

fn definition(app: &App, viewer: &Viewer, key: &ToolKey, draft: &Draft, answer: &Answer) -> Page {
    let known = suggestions(app, Some(&key.organization));
    let action = edit_address(key);
    let sent =
        Sent { action: &action, buttons: &[("save", "Save the tool"), ("check", "Check it without saving")] };
    let main = html! {
        @match answer {
            Answer::None => p { "Only agents of " (key.organization) " can have it, once a policy enables it. Secrets are kept as credentials of the provider that the definition names." },
            Answer::Refused(error) => (notice(error)),
            Answer::Checked(view, warnings) => {
                div.notice role="status" { p { strong { "The definition is sound. Nothing was saved." } } (warnings) }
                (actions(key, view, false))
                (left_out(&view.left_out))
            }
        }
        (editor(viewer, DocumentKind::Tool, draft, &known, &sent))
        p { a href=(list_address(&key.organization)) { "Tools of " (key.organization) } }
    };
    Page::new(format!("Definition of {}", key.namespace), main)
}

/// One tool: its actions, what it lacks, and what waits for approval.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(Name, Namespace)>,
) -> Result<Page, Problem> {
    let key = own_tool(&viewer.caller, ToolKey { organization, namespace })?;
    show(&app, &viewer, &key, None).await
}

async fn show(app: &App, viewer: &Viewer, key: &ToolKey, error: Option<&CallError>) -> Result<Page, Problem> {
    let (view, warnings) = app.admin().custom().find(key).await?;
    let stored = Draft::load(app, &DocumentKey::Tool(key.clone()), "").await?;
    let warnings: Vec<_> = warnings.into_iter().map(warning_view).collect();
    let connected = app.services().registry.snapshot().connected_integrations(&key.organization);
    let lacks = view.capabilities.credentials.iter().filter(|provider| !connected.contains(&**provider));
    let texts = [("Publisher", &view.publisher), ("Category", &view.category), ("Purpose", &view.purpose)];
    let mut pairs = vec![
        ("Kind", html! { (short(&view.kind)) }),
        ("State", html! { (state(&view)) @if let Some(reason) = &view.reason { " " (short(reason)) } }),
        ("Version", html! { (short(&view.version)) ", " (digest(&view.digest)) }),
    ];
    let known = texts.into_iter().filter_map(|(term, text)| Some((term, text.as_deref()?)));
    pairs.extend(known.map(|(term, text)| (term, html! { (short(text)) })));
    let button = |act: &str, word: &str, class: &str, question: Option<&str>| {
        html! {
            (viewer.form(address(key), &[("act", &act), ("revision", &stored.revision)], html! {
                button class=(class) data-confirm=[question] data-busy="Working…" { (word) }
            }))
        }
    };
    let main = html! {
        @if let Some(error) = error { (notice(error)) }
        (facts(&pairs))
        @if !warnings.is_empty() { (warnings_list(&warnings)) }
        @for provider in lacks.take(PROVIDERS) {
            p { a.button href=(address_for_plugin(&key.organization, provider, &key.namespace)) { "Store a credential for " (short(provider)) } }
        }
        @if let Some(waiting) = &view.waiting { (consent(viewer, key, waiting)) }
        (actions(key, &view, true))
        (left_out(&view.left_out))
        (notes(&view.notes))
        p {
            a.button href=(edit_address(key)) { "Edit the definition" }
            a.button href={ (address(key)) "/history" } { "History" }
            @if viewer.may(Access::Operate) { a.button href={ (address(key)) "/grant" } { "Grant" } }
        }
        @if view.kind == "mcp" { (button("refresh", "Ask the server for its tools again", "", None)) }
        (button("delete", "Delete the tool", "danger", Some("Delete the tool with its definition? Agents lose its actions at once.")))
    };
    Ok(Page::new(key.namespace.to_string(), main))
}

fn actions(key: &ToolKey, view: &CustomToolView, is_served: bool) -> Markup {
    let rows = html! {
        @for tool in view.tools.iter().take(ROWS as usize) {
            tr {
                th scope="row" { code { (short(&tool.name)) } }
                td { (short(&tool.description)) }
                td { (hints::words(tool.details.hints)) }
                td {
                    @if is_served && view.state == CustomState::Active {
                        a href=(try_out::address(key.organization.as_str(), &format!("{}/{}", key.namespace, tool.name))) { "Try it" }
                    }
                }
            }
        }
    };
    html! {
        h2 { "Actions" }
        @if view.tools.is_empty() { p { "It has none." } }
        @else { (table("Actions", &["Action", "Description", "Effects, as it says", "Try"], &rows)) }
        @if view.tools.len() > ROWS as usize { p.quiet { (number(view.tools.len() as u64)) " actions in all." } }
    }
}

fn left_out(left_out: &[LeftOut]) -> Markup {
    html! {
        @if !left_out.is_empty() {
            details {
                summary { "Left out: " (number(left_out.len() as u64)) }
                ul { @for left in left_out.iter().take(NOTES) { li { code { (short(&left.name)) } ": " (short(&left.why)) } } }
            }
        }
    }
}

fn notes(notes: &[NoteView]) -> Markup {
    html! {
        @if !notes.is_empty() {
            details {
                summary { "Notes: " (number(notes.len() as u64)) }
                ul { @for note in notes.iter().take(NOTES) { li { code { (short(&note.about)) } ": " (cut(&note.text, LIST_BYTES)) } } }
            }
        }
    }
}

/// What the server changed, and the form that approves this list and no other.
fn consent(viewer: &Viewer, key: &ToolKey, waiting: &WaitingView) -> Markup {
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    let before = |tool: &Value| waiting.before.iter().find(|before| name(before) == name(tool));
    let text = |tool: Option<&Value>| tool.map(|tool| format!("{tool:#}")).unwrap_or_default();
    html! {
        section.notice aria-labelledby="waiting" {
            h2 id="waiting" { "The server has changed its tools" }
            p { "Calls go on with the tools that were approved, until you approve these." }
            @if !waiting.removed.is_empty() {
                p { "Gone: " (toolgate_api::text::list(waiting.removed.iter().map(String::as_str), NOTES)) "." }
            }
            @for tool in waiting.tools.iter().take(NOTES) {
                h3 { (short(&name(tool))) ": " @if before(tool).is_some() { "changed" } @else { "new" } }
                (difference(&text(before(tool)), &text(Some(tool))))
            }
            (left_out(&waiting.left_out))
            (viewer.form(address(key), &[("act", &"approve"), ("digest", &waiting.digest)], html! {
                button { "Approve these tools" }
            }))
        }
    }
}

/// Who changed the definition when, and the way back.
pub(super) async fn history(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(Name, Namespace)>,
    Filters(revision): Filters<HistoryQuery>,
) -> Result<Page, Problem> {
    let key = own_tool(&viewer.caller, ToolKey { organization, namespace })?;
    let (title, address) = (key.namespace.to_string(), address(&key));
    let kept = Kept { key: DocumentKey::Tool(key), title, address, act: "show" };
    history::show(&app, &viewer, kept, revision).await
}

/// Refreshes, approves or deletes a tool, or shows a draft of its definition.
pub(super) async fn act(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(Name, Namespace)>,
    form: FormFields,
) -> Result<Response, Problem> {
    let key = own_tool(&viewer.caller, ToolKey { organization, namespace })?;
    let admin = app.admin();
    let done = match form.text("act") {
        "refresh" => admin.refresh_custom_tool(viewer.actor(), &key).await.map(|_| address(&key)),
        "approve" => {
            let approved = admin.approve_custom_tool(viewer.actor(), &key, form.text("digest")).await;
            approved.map(|_| address(&key))
        }
        "show" => {
            let draft = Draft::of(&form, DocumentKind::Tool)?;
            return Ok(definition(&app, &viewer, &key, &draft, &Answer::None).into_response());
        }
        "delete" => {
            let precondition = Precondition::from_headers(Some(form.text("revision")), None)?;
            let deleted = admin.delete_custom_tool(viewer.actor(), &key, &precondition).await;
            deleted.map(|()| list_address(&key.organization))
        }
        _ => return Err(Problem::not_found("change of a tool")),
    };
    match done {
        Ok(address) => Ok(SeeOther::to(&address).into_response()),
        Err(error) if !can_be_corrected(error.error_type) => Err(error.into()),
        Err(error) => {
            let page = show(&app, &viewer, &key, Some(&error)).await?;
            Ok(page.with_status_of(&error).into_response())
        }
    }
}

/// The form of an import.
pub(super) async fn import(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    Ok(import_page(&viewer, &organization, &FormFields::default(), &html! {}))
}

/// Reads an OpenAPI document and shows its operations, or makes a tool of the chosen ones.
pub(super) async fn import_chosen(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    form: FormFields,
) -> Result<Response, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let is_choice = form.text("act") == "import";
    let outcome = match is_choice {
        true => make_chosen(&app, &viewer, &organization, &form).await,
        false => Ok(None),
    };
    let looked = match outcome {
        Ok(Some(key)) => return Ok(SeeOther::to(&address(&key)).into_response()),
        Ok(None) => look(&app, &viewer, &organization, &form).await,
        Err(problem) => Err(problem),
    };
    Ok(match looked {
        Ok(found) => {
            let shown = operations(&viewer, &organization, &form, &found);
            import_page(&viewer, &organization, &form, &shown).into_response()
        }
        Err(Problem(error)) if can_be_corrected(error.error_type) => {
            let page = import_page(&viewer, &organization, &form, &notice(&error));
            page.with_status_of(&error).into_response()
        }
        Err(problem) => return Err(problem),
    })
}

/// What an import would make.
async fn look(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    form: &FormFields,
) -> Result<ImportView, Problem> {
    let document = to_raw_value(form.text("document")).map_err(|error| {
        Problem::new(ErrorType::InvalidRequest, error.to_string(), "paste the document as text")
    })?;
    let request = ImportRequest {
        namespace: form.text("namespace").trim().to_owned(),
        document,
        base_url: form.filled_field("base_url").map(str::to_owned),
        select: Some(
            form.text("select")
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect(),
        ),
        deprecated: Some(form.is_checked("deprecated")),
        scheme: form.filled_field("scheme").map(str::to_owned),
        safe_methods: Some(form.is_checked("safe_methods")),
        output_schemas: Some(form.is_checked("output_schemas")),
        dry_run: Some(true),
    };
    let path = Path(OrgPath { organization: organization.clone() });
    let (_, found) = custom_import::post(viewer.client(app), path, Ok(Json(request))).await?;
    Ok(found.0)
}

/// Makes a tool of the chosen operations; none if the form names none.
async fn make_chosen(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    form: &FormFields,
) -> Result<Option<ToolKey>, Problem> {
    let chosen: Vec<&str> = form.all("chosen").collect();
    if chosen.is_empty() {
        let hint = "check the operations that agents may get";
        return Err(Problem::new(ErrorType::InvalidRequest, "no operation was chosen", hint));
    }
    let namespace = parse_namespace(form.text("namespace").trim())?;
    let key = own_tool(&viewer.caller, ToolKey { organization: organization.clone(), namespace })?;
    let mut definition = look(app, viewer, organization, form).await?.definition;
    if let Some(actions) = definition["actions"].as_array_mut() {
        actions.retain(|action| action["name"].as_str().is_some_and(|name| chosen.contains(&name)));
    }
    let (text, absent) = (format!("{definition:#}"), Precondition::Absent);
    app.admin().put_custom_tool(viewer.actor(), &key, &text, &absent, false).await?;
    Ok(Some(key))
}

fn import_page(viewer: &Viewer, organization: &Name, form: &FormFields, found: &Markup) -> Page {
    let field = |name, label| Field::new(name, label).value(short(form.text(name)));
    let choice = |name: &str, words: &str| {
        html! { label.choice { input type="checkbox" name=(name) checked[form.is_checked(name)]; (words) } }
    };
    let main = html! {
        (found)
        (viewer.form(format!("/console/import/{organization}"), &[("act", &"look")], html! {
            (field("namespace", "Namespace").required(true).hint("Such as shop. Its actions are called shop/…"))
            (Field::new("document", "OpenAPI document, as JSON or YAML").value(form.text("document")).lines(14).required(true))
            p.hint { "A document that is too large to paste: " code { "toolgate plugin import openapi FILE " (organization) "/NAMESPACE" } }
            details {
                summary { "More" }
                (Field::new("select", "Only these operations").value(form.text("select")).lines(3).hint("One on a line: tag:pets, path:/users, operation:users.*, method:GET"))
                (field("base_url", "Base URL").hint("In place of the document's server."))
                (field("scheme", "Security scheme").hint("If the document has several."))
                (choice("safe_methods", "GET, HEAD and OPTIONS change nothing"))
                (choice("output_schemas", "Check answers against the document's schemas"))
                (choice("deprecated", "Import deprecated operations, too"))
            }
            button data-busy="Reading…" { "Show its operations" }
        }))
        p { a href=(list_address(organization)) { "Tools of " (organization) } }
    };
    Page::new(format!("Import a tool for {organization}"), main)
}

/// The operations to choose from, and what of the document is not taken over.
fn operations(viewer: &Viewer, organization: &Name, form: &FormFields, found: &ImportView) -> Markup {
    let none = json!([]);
    let actions = found.definition.get("actions").unwrap_or(&none).as_array().map_or(&[][..], Vec::as_slice);
    let text = |action: &Value, member: &str| short(action[member].as_str().unwrap_or_default());
    let kept = ["select", "base_url", "scheme", "safe_methods", "output_schemas", "deprecated"];
    let kept = kept.into_iter().filter(|name| form.is_checked(name));
    let action = format!("/console/import/{organization}");
    html! {
        section aria-labelledby="operations" {
            h2 id="operations" { (number(actions.len() as u64)) " operations" }
            (viewer.form(action, &[("act", &"import"), ("namespace", &form.text("namespace"))], html! {
                @for name in kept { input type="hidden" name=(name) value=(form.text(name)); }
                textarea name="document" hidden { "\n" (form.text("document")) }
                ul.checklist {
                    @for action in actions.iter().take(OPERATIONS) {
                        li {
                            label.choice {
                                input type="checkbox" name="chosen" value=(action["name"].as_str().unwrap_or_default());
                                span { code { (text(action, "method")) " " (text(action, "path")) } " " (text(action, "name")) }
                            }
                            p { (text(action, "description")) }
                        }
                    }
                }
                @if actions.len() > OPERATIONS { p.quiet { "These are the first " (OPERATIONS) ". Say below which ones you want." } }
                button data-busy="Importing…" { "Import the chosen ones" }
            }))
            @if !found.left_out.is_empty() {
                details {
                    summary { "Not imported: " (number(found.left_out.len() as u64)) }
                    ul { @for left in found.left_out.iter().take(NOTES) { li { code { (short(&left.what)) } ": " (short(&left.why)) } } }
                }
            }
            (notes(&found.notes))
        }
    }
}
