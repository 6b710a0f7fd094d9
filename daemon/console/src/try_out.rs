//! A try of one tool for an organization: a form of its arguments, the requests that it sent, and what came of it (C3).

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::{Map, Value};
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_api::text::escape_for_display;
use toolgate_core::custom::Tryout;
use toolgate_core::dispatch::TestCallResult;
use toolgate_http::documents::own_organization;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::sessions::label;
use toolgate_http::state::App;
use toolgate_sandbox::{Excerpt, Exchange};

use super::elements::{
    LIST_BYTES, PAGE_BYTES, ROWS, badge, block, editable, facts, json, notice, number, percent_encode, short,
    table,
};
use super::fields::Field;
use super::form::FormFields;
use super::page::Page;
use super::schema_form::{SchemaForm, Suggestions};
use super::viewer::Viewer;

/// Requests of a try that are shown.
const EXCHANGES: usize = 20;
/// Longest tool in an error, in characters.
const TOOL_CHARS: usize = 200;

/// A tool that is tried, and the schema of its arguments.
struct Tried {
    organization: Name,
    /// `namespace/tool`.
    tool: String,
    description: String,
    schema: Value,
}

/// The form of a tool's arguments.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<(String, String, String)>,
) -> Result<Page, Problem> {
    let tried = find(&app, &viewer, &path)?;
    Ok(Page::new(title(&tried), form(&viewer, &tried, "{}", &html! {})))
}

/// Runs the tool once.
pub(super) async fn run(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<(String, String, String)>,
    fields: FormFields,
) -> Result<Response, Problem> {
    let tried = find(&app, &viewer, &path)?;
    let shown = SchemaForm::of(&tried.schema);
    let (arguments, done) = match SchemaForm::read_shown(&fields, shown.as_ref()) {
        Ok(filled) => {
            let written = || fields.filled_field("arguments").unwrap_or("{}").to_owned();
            let arguments = filled.unwrap_or_else(written);
            let done = call(&app, &viewer, &tried, &fields, &arguments).await;
            (arguments, done)
        }
        Err(Problem(error)) => ("{}".to_owned(), Err(error)),
    };
    Ok(match done {
        Ok(result) => {
            Page::new(title(&tried), form(&viewer, &tried, &arguments, &outcome(&result))).into_response()
        }
        Err(error) => {
            let page = Page::new(title(&tried), form(&viewer, &tried, &arguments, &notice(&error)));
            page.with_status_of(&error).into_response()
        }
    })
}

async fn call(
    app: &App,
    viewer: &Viewer,
    tried: &Tried,
    fields: &FormFields,
    arguments: &str,
) -> Result<TestCallResult, CallError> {
    let user =
        label("user", fields.filled_field("user").map(str::to_owned)).map_err(|Problem(error)| error)?;
    let origin = viewer.actor().origin();
    let tryout = Tryout::Saved(&tried.tool);
    app.admin().custom().try_out(&tried.organization, user, tryout, arguments.into(), &origin).await
}

fn title(tried: &Tried) -> String {
    format!("Try {}", short(&tried.tool))
}

fn find(
    app: &App,
    viewer: &Viewer,
    (organization, namespace, tool): &(String, String, String),
) -> Result<Tried, Problem> {
    let organization = own_organization(app, &viewer.caller, organization)?;
    let snapshot = app.services().registry.snapshot();
    let (catalogue, rules) = (snapshot.catalogue_of(&organization), snapshot.organization(&organization));
    let tool = escape_for_display(&format!("{namespace}/{tool}"), TOOL_CHARS);
    // A tool that the platform keeps from the organization does not exist for it.
    let found = catalogue.find(&tool);
    let found = found.filter(|tool| rules.is_some_and(|rules| rules.is_available(tool.index())));
    let found = found.ok_or_else(|| Problem::not_found("tool"))?;
    let descriptor = found.descriptor();
    Ok(Tried {
        organization,
        description: descriptor.description.clone(),
        schema: descriptor.input.source().clone(),
        tool,
    })
}

fn form(viewer: &Viewer, tried: &Tried, arguments: &str, result: &Markup) -> Markup {
    let values: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
    let fields =
        values.and_then(|values| SchemaForm::of(&tried.schema)?.fields(&values, &Suggestions::new()));
    let address = address(tried.organization.as_str(), &tried.tool);
    html! {
        (result)
        p { (short(&tried.description)) }
        p.quiet { "The tool runs for " (tried.organization) " with its credentials and settings, and what it does is done." }
        (viewer.stacked_form(address, &[], html! {
            @match fields {
                Some(fields) => (fields),
                None => {
                    label for="arguments" { "Arguments, as JSON" }
                    textarea id="arguments" name="arguments" spellcheck="false" { "\n" (editable(arguments)) }
                }
            }
            (Field::new("user", "User").hint("Credentials of this user are preferred. Empty for none."))
            button { "Call the tool" }
        }))
        details { summary { "The schema of the arguments" } (block(&format!("{:#}", tried.schema), LIST_BYTES)) }
    }
}

/// The address of a tool's try.
pub(super) fn address(organization: &str, tool: &str) -> String {
    let (namespace, tool) = tool.split_once('/').unwrap_or((tool, ""));
    format!(
        "/console/try/{}/{}/{}",
        percent_encode(organization),
        percent_encode(namespace),
        percent_encode(tool)
    )
}

/// The result of a try: the answer as the model gets it, and each request with its raw answer.
pub(super) fn outcome(result: &TestCallResult) -> Markup {
    let TestCallResult { outcome, exchanges } = result;
    let status = outcome.status().as_str();
    html! {
        section role="status" aria-label="Result" {
            h2 { "Result: " (badge(if status == "ok" { "good" } else { "warn" }, status)) }
            @if let Some(error) = outcome.error() { (notice(error)) }
            @if let Some(output) = outcome.output() {
                h3 { "Parsed answer" }
                (json(output, PAGE_BYTES))
            }
            @if let Some(text) = outcome.pending_text() { p { (text) } }
        }
        section aria-labelledby="requests" {
            h2 id="requests" { "Requests to upstreams" }
            @if exchanges.is_empty() { p { "The tool sent no request." } }
            @for (at, exchange) in exchanges.iter().take(EXCHANGES).enumerate() { (exchange_part(at + 1, exchange)) }
            @if exchanges.len() > EXCHANGES { p.quiet { (number(exchanges.len() as u64)) " requests in all." } }
        }
    }
}

fn exchange_part(at: usize, exchange: &Exchange) -> Markup {
    let mut pairs = vec![(
        "Status",
        html! { @match exchange.status { Some(status) => (status), None => (badge("bad", "no answer")) } },
    )];
    if let Some(rule) = exchange.rule.as_ref().and_then(|rule| serde_json::to_string(rule).ok()) {
        pairs.push(("Permitted by", html! { code { (short(&rule)) } }));
    }
    if let Some(credential) = &exchange.credential {
        pairs.push(("Credential", html! { (short(credential)) ", whose secret is left out" }));
    }
    if let Some(failed) = &exchange.failed {
        pairs.push(("Failed", html! { (short(failed)) }));
    }
    html! {
        details open[at == 1] {
            summary { (at) ". " code { (short(&exchange.request)) } }
            (facts(&pairs))
            h3 { "Request as it was sent" }
            (headers("Fields of the request", &exchange.headers))
            (content(&exchange.body))
            h3 { "Raw answer" }
            (headers("Fields of the answer", &exchange.answer_headers))
            (content(&exchange.answer))
        }
    }
}

/// The start of a body.
fn content(excerpt: &Excerpt) -> Markup {
    let kept = excerpt.bytes.len() as u64;
    html! {
        @if excerpt.length == 0 { p.quiet { "No content." } }
        @else { (block(&String::from_utf8_lossy(&excerpt.bytes), LIST_BYTES)) }
        @if kept < excerpt.length { p.quiet { "The first " (number(kept)) " of " (number(excerpt.length)) " bytes were kept." } }
    }
}

fn headers(label: &str, headers: &[(String, String)]) -> Markup {
    let rows = html! {
        @for (name, value) in headers.iter().take(ROWS as usize) {
            tr { th scope="row" { (short(name)) } td { (short(value)) } }
        }
    };
    html! { @if !headers.is_empty() { (table(label, &["Field", "Value"], &rows)) } }
}
