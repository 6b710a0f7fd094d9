//! The catalogue (C4), and a plugin as an organization has it: its settings (C5) and its consent (C6).

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use toolgate_api::catalogue::{
    CatalogueEntry, CatalogueTool, EnabledDocument, EnabledView, PluginConsent, PluginKind,
};
use toolgate_api::consent::{ConsentState, RiskLevel, RiskView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::name::Namespace;
use toolgate_core::admin::DocumentWrite;
use toolgate_core::catalogue::CatalogueQuery;
use toolgate_http::catalogue::{self as api, CatalogueParameters};
use toolgate_http::custom::own_tool;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, Precondition, Revision, ToolKey};
use toolgate_state::store::TokenLabels;

use super::credentials::{address as credential_address, address_for_plugin, connect, find_unconnected};
use super::elements::{
    Filters, LIST_BYTES, ROWS, badge, block, choice, compiling_note, digest, editable, empty, facts, filter,
    next_page, notice, number, parameter, percent_encode, short, time, token, wait_for_compiling, whole,
};
use super::form::{FormFields, SeeOther};
use super::hints;
use super::organizations;
use super::page::Page;
use super::schema_form::{SchemaForm, Suggestions};
use super::text::indent_json;
use super::try_out;
use super::viewer::Viewer;

/// Entries of a page: each has the tools of a plugin.
const ENTRIES: u32 = 20;
/// Providers of a plugin that a page offers to connect.
const PROVIDERS: usize = 20;
/// Tools of an entry that are listed.
const TOOLS: usize = 20;

/// The plugins that match the filters of the address.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(mut query): Filters<CatalogueParameters>,
) -> Result<Page, Problem> {
    query.limit = Some(query.limit.unwrap_or(ENTRIES).min(ENTRIES));
    let own = viewer.caller.organization.as_ref().map(Name::to_string);
    let organization = own.or_else(|| query.org.clone());
    let compiling = wait_for_compiling(&app).await;
    let query = CatalogueQuery { partial: true, ..api::query(query)? };
    let found = app.admin().catalogue(&viewer.caller, query).await?;
    let categories: Vec<&str> = found.categories.iter().map(|category| category.category.as_str()).collect();
    let main = html! {
        @if let Some(step) = organizations::first_step(&app, &viewer) { (step) }
        (filters(&viewer, &uri, &categories))
        (compiling_note(compiling.as_deref()))
        @if organization.is_none() {
            p.quiet { "These are the platform's plugins. Name an organization, to see what it may use and has accepted." }
        }
        @if let Some(organization) = &organization {
            p {
                a.button href={ "/console/tools/" (percent_encode(organization)) } { "Make a tool" }
                a.button href={ "/console/try/" (percent_encode(organization)) } { "Try a definition that is not saved" }
            }
        }
        @if found.items.is_empty() {
            (empty("No plugin matches.", "Change the filters, or have the operator load one:", Some("toolgate plugin load FILE.wasm")))
        }
        div.cards { @for plugin in &found.items { (entry(plugin, organization.as_deref())) } }
        (next_page(&uri, found.next_cursor.as_deref()))
    };
    Ok(Page::new("Catalogue", main))
}

fn filters(viewer: &Viewer, uri: &Uri, categories: &[&str]) -> Markup {
    let value = |name: &str| parameter(uri, name);
    let categories: Vec<&str> = categories.iter().copied().filter(|category| !category.is_empty()).collect();
    html! {
        form.filters method="get" action="/console/catalogue" role="search" aria-label="Filter the catalogue" {
            (filter("q", "Search", value("q").as_deref()))
            @if viewer.caller.organization.is_none() { (filter("org", "Organization", value("org").as_deref())) }
            (choice("kind", "Kind", value("kind").as_deref(), &["standard", "custom", "third_party"]))
            (choice("category", "Category", value("category").as_deref(), &categories))
            (choice("risk", "Risk", value("risk").as_deref(), &["low", "medium", "high"]))
            (filter("publisher", "Publisher", value("publisher").as_deref()))
            (choice("sort", "Order", value("sort").as_deref(), &["name", "popular", "recent"]))
            button { "Filter" }
            a.button href="/console/catalogue" { "Reset" }
        }
    }
}

fn entry(plugin: &CatalogueEntry, organization: Option<&str>) -> Markup {
    let name = short(&plugin.facts.namespace);
    html! {
        article {
            h2 {
                @match organization {
                    Some(organization) => { a href=(address(organization, &plugin.facts.namespace)) { (name) } },
                    None => (name),
                }
            }
            @if let Some(purpose) = &plugin.purpose { p { (short(purpose)) } }
            (facts(&[
                ("Kind", html! { (kind(plugin.facts.kind)) @if let Some(category) = &plugin.category { ", " (short(category)) } }),
                ("Publisher", publisher(plugin.facts.publisher.as_deref(), plugin.facts.publisher_proven)),
                ("Risk", html! { (risk_badge(plugin.facts.risk.level)) }),
                ("Consent", html! { (consent_badge(plugin.facts.consent)) @if plugin.enabled { ", enabled" } }),
                ("Calls in 30 days", html! { (number(plugin.calls_30d)) }),
            ]))
            details { summary { (plugin.tools.len()) " tools" } (tools(&plugin.tools)) }
        }
    }
}

fn tools(tools: &[CatalogueTool]) -> Markup {
    html! {
        ul {
            @for tool in tools.iter().take(TOOLS) { li { code { (short(&tool.tool)) } ": " (short(&tool.description)) } }
        }
        @if tools.len() > TOOLS { p.quiet { "See the rest with " code { "toolgate catalogue --show" } "." } }
    }
}

fn address(organization: &str, namespace: &str) -> String {
    format!("/console/catalogue/{}/{}", percent_encode(organization), percent_encode(namespace))
}

fn kind(kind: PluginKind) -> &'static str {
    match kind {
        PluginKind::Standard => "the operator vouches for it",
        PluginKind::Custom => "the organization's own",
        PluginKind::ThirdParty => "third party",
    }
}

fn publisher(publisher: Option<&str>, is_proven: bool) -> Markup {
    html! {
        (short(publisher.unwrap_or("not named"))) ", "
        @if is_proven { (badge("good", "proven")) } @else { (badge("warn", "not proven by a signature")) }
    }
}

fn risk_badge(level: RiskLevel) -> Markup {
    match level {
        RiskLevel::Low => badge("good", "low"),
        RiskLevel::Medium => badge("warn", "medium"),
        RiskLevel::High => badge("bad", "high"),
    }
}

fn consent_badge(state: ConsentState) -> Markup {
    match state {
        ConsentState::NotNeeded => badge("", "not needed"),
        ConsentState::Accepted => badge("good", "accepted"),
        ConsentState::Missing => badge("warn", "missing: no agent has its tools"),
        ConsentState::Outdated => badge("warn", "outdated: no agent has its tools"),
    }
}

/// A form that was refused, so that nothing of it is lost.
struct Refused {
    /// None of a form whose fields are those of another schema.
    config: Option<String>,
    error: CallError,
}

/// A plugin as an organization has it.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(Name, Namespace)>,
) -> Result<Page, Problem> {
    let key = own_tool(&viewer.caller, ToolKey { organization, namespace })?;
    show(&app, &viewer, &key, None).await
}

async fn show(app: &App, viewer: &Viewer, key: &ToolKey, refused: Option<&Refused>) -> Result<Page, Problem> {
    let (view, revision) = app.admin().enabled_plugin(&viewer.caller, key).await?;
    let acceptor = view.accepted.iter().map(|accepted| &*accepted.by).collect();
    let labels = app.services().store.token_labels(&acceptor).await?;
    let main = html! {
        @if let Some(refused) = refused { (notice(&refused.error)) }
        (about(&view))
        @if !view.missing_integrations.is_empty() { (integrations(app, viewer, key, &view.missing_integrations)) }
        (purpose(app, key))
        (reach(&view, &labels))
        (settings(viewer, key, &view, revision, refused))
        (enabling(viewer, key, &view))
    };
    Ok(Page::new(format!("{} of {}", key.namespace, key.organization), main))
}

fn about(view: &EnabledView) -> Markup {
    facts(&[
        ("Kind", html! { (kind(view.facts.kind)) }),
        ("Publisher", publisher(view.facts.publisher.as_deref(), view.facts.publisher_proven)),
        ("Version", html! { (short(&view.facts.version)) ", " (digest(&view.facts.digest)) }),
        (
            "Enabled",
            html! { @if view.enabled { (badge("good", "yes")) } @else { (badge("warn", "no: the policy does not enable all of its tools")) } },
        ),
        ("Consent", consent_badge(view.facts.consent)),
    ])
}

/// What a person reads before accepting: the purpose, and each tool with what it does, the steps that come first, an example, and its
/// try.
fn purpose(app: &App, key: &ToolKey) -> Markup {
    let snapshot = app.services().registry.snapshot();
    let (catalogue, rules) =
        (snapshot.catalogue_of(&key.organization), snapshot.organization(&key.organization));
    let tools = catalogue.tools().iter().filter(|tool| tool.id().namespace == key.namespace);
    let tools = tools.filter(|tool| rules.as_ref().is_some_and(|rules| rules.is_available(tool.index())));
    let tools: Vec<_> = tools.take(ROWS as usize).collect();
    let purpose = tools.first().and_then(|tool| tool.plugin().descriptor.purpose.as_ref());
    html! {
        @if let Some(purpose) = purpose { p.lead { (short(purpose)) } }
        h2 { "Tools" }
        ul.checklist {
            @for tool in tools {
                @let (id, described) = (tool.id().to_string(), tool.descriptor());
                li {
                    code { (short(&id)) } " " span.quiet { (hints::words(described.hints)) } " "
                    a href=(try_out::address(key.organization.as_str(), &id)) { "Try " (short(&id)) }
                    p { (short(&described.description)) }
                    @if !described.prerequisites.is_empty() { p { "First: " } (words(&described.prerequisites)) }
                    @if let Some(example) = described.examples.first() {
                        p.quiet { "Example: " code { (short(&example.input.to_string())) } }
                    }
                }
            }
        }
    }
}

/// The providers that the plugin lacks, each with the way to connect it.
fn integrations(app: &App, viewer: &Viewer, key: &ToolKey, missing: &[String]) -> Markup {
    html! {
        div.notice.warn {
            p { "Not all of its tools work until these are connected:" }
            @for provider in missing.iter().take(PROVIDERS) {
                @match find_unconnected(app, &key.organization, provider) {
                    Some(credential) => {
                        (viewer.form(credential_address(&credential.organization, credential.name.as_str()), &[("act", &"connect")], html! {
                            button { "Connect " (short(provider)) }
                        }))
                    }
                    None => {
                        p { a.button href=(address_for_plugin(&key.organization, provider, &key.namespace)) { "Store a credential for " (short(provider)) } }
                    }
                }
            }
        }
    }
}

/// The access that the plugin asks for and its risk, beside those that were accepted.
fn reach(view: &EnabledView, labels: &TokenLabels) -> Markup {
    let RiskView { level, reasons } = &view.facts.risk;
    html! {
        h2 { "Access" }
        @if view.facts.permissions.is_empty() { p { "It only computes." } } @else { (words(&view.facts.permissions)) }
        h2 { "Risk: " (risk_badge(*level)) }
        (words(reasons))
        @if let Some(accepted) = &view.accepted {
            h2 { "Accepted last" }
            (facts(&[
                ("By", html! { (token(&accepted.by, labels.get(&accepted.by).as_deref())) ", " (time(accepted.at_ms)) }),
                ("Version", digest(&accepted.digest)),
                ("Publisher", html! { (short(accepted.publisher.as_deref().unwrap_or("not named"))) }),
            ]))
            @if accepted.permissions != view.facts.permissions { p { "It might reach then:" } (words(&accepted.permissions)) }
        }
    }
}

/// Permissions or reasons, each whole: a consent accepts them all.
fn words(words: &[String]) -> Markup {
    html! { ul { @for word in words { li { (whole(word)) } } } }
}

/// The form of settings and consent.
fn settings(
    viewer: &Viewer,
    key: &ToolKey,
    view: &EnabledView,
    revision: Option<Revision>,
    refused: Option<&Refused>,
) -> Markup {
    let config = serde_json::to_string_pretty(&view.config).unwrap_or_default();
    let config = refused.and_then(|refused| refused.config.as_deref()).unwrap_or(&config);
    html! {
        h2 { "Settings and consent" }
        @if let Some(error) = &view.config_error { p { (badge("warn", "the settings do not reach the plugin")) " " (short(error)) } }
        (viewer.form(address(key.organization.as_str(), key.namespace.as_str()), &[("digest", &view.facts.digest), ("revision", &revision.map(Revision::etag).unwrap_or_default())], html! {
            @match &view.config_schema {
                Some(schema) => (config_fields(schema, config)),
                None => p { "The plugin has no settings." },
            }
            @if view.facts.consent != ConsentState::NotNeeded {
                label.choice {
                    input type="checkbox" name="accept" checked[view.facts.consent == ConsentState::Accepted];
                    "The organization accepts what this version may reach, its publisher and its risk"
                }
            }
            button name="act" value="save" { "Save" }
            @if !view.enabled || !view.missing_integrations.is_empty() {
                button name="act" value="all" { "Save, enable and connect" }
            }
        }))
    }
}

/// The fields of the settings; one for all of them as JSON where the schema or the settings do not fit into fields.
fn config_fields(schema: &Value, config: &str) -> Markup {
    let values: Option<Map<String, Value>> = serde_json::from_str(config).ok();
    let fields = values.and_then(|values| SchemaForm::of(schema)?.fields(&values, &Suggestions::new()));
    html! {
        @match fields {
            Some(fields) => (fields),
            None => {
                label for="config" { "Settings, as JSON" }
                textarea id="config" name="config" spellcheck="false" aria-describedby="config-hint" { "\n" (editable(config)) }
            }
        }
        p.hint id="config-hint" { "Secrets are no settings: keep them as credentials." }
        details { summary { "The schema of the settings" } (block(&format!("{schema:#}"), LIST_BYTES)) }
    }
}

/// The form that adds the plugin's tools to the policy.
fn enabling(viewer: &Viewer, key: &ToolKey, view: &EnabledView) -> Markup {
    html! {
        @if !view.enabled {
            h2 { "Enable its tools" }
            p { "This adds " code { (key.namespace) "/*" } " to the tools that the organization's policy enables. Each agent enables its own of them." }
            (viewer.form(address(key.organization.as_str(), key.namespace.as_str()), &[("act", &"enable")], html! {
                button { "Enable its tools" }
            }))
        }
    }
}

/// Stores settings and consent, or enables the tools.
pub(super) async fn put(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, namespace)): Path<(Name, Namespace)>,
    form: FormFields,
) -> Result<Response, Problem> {
    let key = own_tool(&viewer.caller, ToolKey { organization, namespace })?;
    let own = || SeeOther::to(&address(key.organization.as_str(), key.namespace.as_str())).into_response();
    let done = match form.text("act") {
        "enable" => enable_tools(&app, &viewer, &key).await.map(|()| own()),
        "all" => save_and_connect(&app, &viewer, &key, &form).await,
        _ => save(&app, &viewer, &key, &form).await.map(|()| own()),
    };
    match done {
        Ok(response) => Ok(response),
        Err(Problem(error)) if is_of_form(error.error_type) => {
            let refused = Refused { config: config_text(&app, &viewer, &key, &form).await.ok(), error };
            let page = show(&app, &viewer, &key, Some(&refused)).await?;
            Ok(page.with_status_of(&refused.error).into_response())
        }
        Err(problem) => Err(problem),
    }
}

/// Whether the form can be corrected.
fn is_of_form(error_type: ErrorType) -> bool {
    matches!(
        error_type,
        ErrorType::InvalidPolicy | ErrorType::InvalidRequest | ErrorType::Conflict | ErrorType::TooLarge
    )
}

/// The settings of the form as JSON text.
async fn config_text(
    app: &App,
    viewer: &Viewer,
    key: &ToolKey,
    form: &FormFields,
) -> Result<String, Problem> {
    let (view, _) = app.admin().enabled_plugin(&viewer.caller, key).await?;
    let shown = view.config_schema.as_ref().and_then(SchemaForm::of);
    let filled = SchemaForm::read_shown(form, shown.as_ref())?;
    Ok(filled.map_or_else(|| form.text("config").to_owned(), |text| indent_json(&text)))
}

async fn save(app: &App, viewer: &Viewer, key: &ToolKey, form: &FormFields) -> Result<(), Problem> {
    let (view, _) = app.admin().enabled_plugin(&viewer.caller, key).await?;
    let config = config_text(app, viewer, key, form).await?;
    let config = match config.trim() {
        "" => Map::new(),
        text => serde_json::from_str(text).map_err(|error| {
            let message = format!("the settings are no JSON object: {error}");
            Problem::new(
                ErrorType::InvalidPolicy,
                message,
                "write them by name, like {\"unit\": \"celsius\"}",
            )
        })?,
    };
    let accept = form.is_checked("accept");
    let consent = match view.facts.consent {
        ConsentState::NotNeeded => None,
        ConsentState::Missing | ConsentState::Outdated if !accept => None,
        _ => Some(PluginConsent { digest: form.text("digest").to_owned(), accept }),
    };
    let text = serde_json::to_string(&EnabledDocument { config, consent }).unwrap_or_default();
    let precondition = match form.filled_field("revision") {
        None => Precondition::Absent,
        Some(tag) => Precondition::from_headers(Some(tag), None)?,
    };
    app.admin().put_enabled(viewer.actor(), key, &text, &precondition, false).await?;
    Ok(())
}

/// Stores settings and consent, enables the tools, and leads to the first provider that is not connected.
async fn save_and_connect(
    app: &App,
    viewer: &Viewer,
    key: &ToolKey,
    form: &FormFields,
) -> Result<Response, Problem> {
    save(app, viewer, key, form).await?;
    let (view, _) = app.admin().enabled_plugin(&viewer.caller, key).await?;
    if !view.enabled {
        enable_tools(app, viewer, key).await?;
    }
    let Some(provider) = view.missing_integrations.first() else {
        let page = address(key.organization.as_str(), key.namespace.as_str());
        return Ok(SeeOther::to(&page).into_response());
    };
    match find_unconnected(app, &key.organization, provider) {
        Some(credential) => Ok(connect(app, viewer, &credential).await?.into_response()),
        None => {
            Ok(SeeOther::to(&address_for_plugin(&key.organization, provider, &key.namespace)).into_response())
        }
    }
}

/// Adds the tools to `enabled` of the policy, and keeps its other fields.
async fn enable_tools(app: &App, viewer: &Viewer, key: &ToolKey) -> Result<(), Problem> {
    app.admin().expect_own(&viewer.caller, &key.organization)?;
    let document = DocumentKey::Policy(key.organization.clone());
    let stored = app.services().store.find_document(&document).await?;
    let (mut policy, precondition) = match stored {
        Some(stored) => {
            let policy = serde_json::from_str(&stored.body).unwrap_or_else(|_| json!({}));
            (policy, Precondition::OneOf(vec![stored.revision]))
        }
        None => (json!({}), Precondition::Absent),
    };
    add_tools(&mut policy, &format!("{}/*", key.namespace));
    let text = policy.to_string();
    let write = DocumentWrite { key: document, text, precondition, strict: false, dry_run: false };
    app.admin().put_document(viewer.actor(), write).await?;
    Ok(())
}

fn add_tools(policy: &mut Value, tools: &str) {
    match &mut policy["enabled"] {
        Value::Array(enabled) if enabled.iter().any(|entry| *entry == *tools || *entry == *"*") => {}
        Value::Array(enabled) => enabled.push(tools.into()),
        Value::String(_) => {}
        missing => *missing = json!([tools]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_a_consent_shows_every_permission_whole() {
        let permissions: Vec<String> = (0..204).map(|at| format!("{} host-{at};", "x".repeat(300))).collect();
        let shown = words(&permissions).into_string();
        assert!(permissions.iter().all(|permission| shown.contains(permission)), "{shown}");
        assert!(words(&["<b>\u{202e}".to_owned()]).into_string().contains("&lt;b&gt;\\u{202e}"));
    }

    #[test]
    fn o6_tools_are_added_once_and_the_rest_of_a_policy_stays() {
        let mut policy = json!({"disabled": ["mail/send"], "enabled": ["files/*"]});
        add_tools(&mut policy, "mail/*");
        add_tools(&mut policy, "mail/*");
        assert_eq!(policy, json!({"disabled": ["mail/send"], "enabled": ["files/*", "mail/*"]}));
        let mut all = json!({"enabled": ["*"]});
        add_tools(&mut all, "mail/*");
        assert_eq!(all, json!({"enabled": ["*"]}));
        let mut empty = json!({});
        add_tools(&mut empty, "mail/*");
        assert_eq!(empty, json!({"enabled": ["mail/*"]}));
    }
}
