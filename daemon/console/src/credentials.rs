//! Credentials of an organization: stored, replaced, rotated, deleted, and connected where a person consents (K3). No page has a
//! secret: a form sends it once, and its fields are wiped.

use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::credential::{CredentialKind, CredentialRotation, CredentialView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::network::NetworkRule;
use toolgate_api::page::List;
use toolgate_core::admin::CredentialKey;
use toolgate_core::credentials::{AuthorizationLink, Credential, new_credential, rotated_secret};
use toolgate_http::credentials as api;
use toolgate_http::extract::{Path, Query};
use toolgate_http::paging;
use toolgate_http::path_params::OrgPath;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{Precondition, Revision};
use url::Url;

use super::credential_form::{
    CredentialFields, KINDS, binding_line, expires_ms, kind, request, secret, secret_input,
};
use super::elements::{
    Filters, ROWS, badge, empty, facts, next_page, notice, number, percent_encode, short, table, time,
    time_or, whole,
};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::page::{Page, standalone};
use super::viewer::Viewer;

/// Most credentials that are searched for one of a provider.
const SEARCHED: usize = 10_000;

/// The provider or plugin that a new credential is for.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewQuery {
    provider: Option<String>,
    /// The namespace of the plugin that asks for it.
    plugin: Option<String>,
    cursor: Option<String>,
}

/// The page of an organization's credentials.
pub(super) fn list_address(organization: &Name) -> String {
    format!("/console/credentials/{organization}")
}

/// The page of one credential.
pub(super) fn address(organization: &Name, credential: &str) -> String {
    format!("/console/credentials/{organization}/{}", percent_encode(credential))
}

/// The credentials of an organization, with the kinds of a new one.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Path(organization): Path<Name>,
    Filters(query): Filters<NewQuery>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let page = Query(paging::Page { cursor: query.cursor.clone(), limit: Some(ROWS) });
    let path = Path(OrgPath { organization: organization.clone() });
    let found = api::list(viewer.client(&app), path, page).await?.0;
    let main = html! {
        (credentials_table(&organization, &found))
        (next_page(&uri, found.next_cursor.as_deref()))
        section aria-labelledby="new" {
            h2 id="new" { "New credential" }
            (kinds(&organization, &query))
            h3 { "Or find the provider of a service" }
            (discovery(&viewer, &organization, &query))
        }
        p { a.button href={ "/console/organizations/" (organization) } { "The organization" } }
    };
    Ok(Page::new(format!("Credentials of {organization}"), main))
}

/// The credentials with links to their pages.
pub(super) fn credentials_table(organization: &Name, credentials: &List<CredentialView>) -> Markup {
    let rows = html! {
        @for credential in &credentials.items {
            tr {
                th scope="row" { a href=(address(organization, &credential.name)) { (short(&credential.name)) } }
                td { (short(&credential.provider)) }
                td { (state_badge(&credential.state)) }
                td { @match &credential.user { Some(user) => (short(user)), None => "organization" } }
                td { (time(credential.changed_ms)) }
                td { (time_or(credential.last_used_ms, "never")) }
            }
        }
    };
    let headings = ["Credential", "Provider", "State", "Owner", "Changed", "Last used"];
    html! {
        @if credentials.items.is_empty() {
            (empty("There are no credentials.", "Choose a kind of credential, and store one whose secret no page and no plugin sees.", None))
        } @else {
            (table("Credentials", &headings, &rows))
        }
    }
}

fn state_badge(state: &str) -> Markup {
    badge(if state == "connected" { "good" } else { "warn" }, state)
}

/// Links to the form of each kind.
fn kinds(organization: &Name, query: &NewQuery) -> Markup {
    let given = [("provider", &query.provider), ("plugin", &query.plugin)];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let given: Vec<String> = given.map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    html! {
        @if let Some(provider) = &query.provider { p { "For the provider " code { (short(provider)) } ":" } }
        ul {
            @for (kind, words) in KINDS {
                li { a href={ (list_address(organization)) "/new/" (kind.as_str()) "?" (given.join("&")) } { (words) } }
            }
        }
    }
}

/// The form that asks for a service.
fn discovery(viewer: &Viewer, organization: &Name, query: &NewQuery) -> Markup {
    html! {
        (viewer.stacked_form(list_address(organization), &[("act", &"discover"), ("provider", &query.provider.as_deref().unwrap_or_default())], html! {
            (Field::new("url", "Address of the service").required(true)
                .hint("Such as https://mcp.example.com/mcp: the daemon asks it for its authorization server, and fills in the form."))
            button { "Find its provider" }
        }))
    }
}

/// Fills in the form of a credential with what a service says.
async fn discover(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    form: &FormFields,
) -> Result<Page, Problem> {
    let plain_http = app.settings().credentials.plain_http.as_deref().unwrap_or_default();
    let url = form.text("url").trim();
    let found = app.admin().discover(viewer.actor(), url, Some(organization), plain_http).await?;
    let attempts = html! {
        details {
            summary { (found.attempts.len()) " requests" }
            ul { @for attempt in &found.attempts { li { code { (short(&attempt.url)) } ": " (short(&attempt.result)) } } }
        }
    };
    let Some(draft) = &found.credential else {
        let main = html! {
            div.notice.warn { p { "The service names no authorization server that can be used." } }
            (attempts)
            p { a.button href=(list_address(organization)) { "Choose a kind of credential" } }
        };
        return Ok(Page::new("No provider found", main));
    };
    let provider = form.filled_field("provider");
    let fields = CredentialFields::of_draft(draft).with_provider(provider);
    let name = provider.unwrap_or(&draft.provider).replace('.', "-");
    let notes = html! { ul { @for note in &found.notes { li { (short(note)) } } } (attempts) };
    Ok(creation_page(app, viewer, organization, (draft.kind, &name, &fields), &notes))
}

/// The form of a new credential.
pub(super) async fn creation(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, kind_name)): Path<(Name, String)>,
    Filters(query): Filters<NewQuery>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let kind = kind(&kind_name).ok_or_else(|| Problem::not_found("kind of credential"))?;
    let network = asked_network(&app, &organization, query.plugin.as_deref());
    let fields = CredentialFields::suggest(query.provider.as_deref().unwrap_or_default(), &network);
    let name = query.provider.as_deref().unwrap_or_default();
    Ok(creation_page(&app, &viewer, &organization, (kind, name, &fields), &html! {}))
}

/// The requests that a plugin asks for, if the organization has it.
fn asked_network(app: &App, organization: &Name, plugin: Option<&str>) -> Vec<NetworkRule> {
    let snapshot = app.services().registry.snapshot();
    let namespace = plugin.and_then(|plugin| Namespace::parse(plugin).ok());
    let found = namespace.and_then(|namespace| {
        let catalogue = snapshot.catalogue_of(organization);
        catalogue.plugin(&namespace).map(|plugin| plugin.descriptor.capabilities.network.clone())
    });
    found.unwrap_or_default()
}

fn creation_page(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    (kind, name, fields): (CredentialKind, &str, &CredentialFields),
    notes: &Markup,
) -> Page {
    let main = html! {
        (notes)
        p { (words(kind)) "." }
        @if kind == CredentialKind::AuthorizationCode { (redirect_urls(app, organization)) }
        (viewer.stacked_form(list_address(organization), &[], html! {
            (Field::new("name", "Name (needed)").value(name).required(true).hint("By which people find it, such as the provider's."))
            (fields.inputs(kind, elsewhere(app)))
            button { "Store the credential" }
        }))
        p { a href=(list_address(organization)) { "All credentials, and the other kinds" } }
    };
    Page::new(format!("New credential of {organization}"), main)
}

fn words(kind: CredentialKind) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, words)| *words)
}

/// Whether secrets may stay in a vault, and in mounted files.
fn elsewhere(app: &App) -> [bool; 2] {
    let settings = &app.settings().credentials;
    [settings.vault_references.is_some(), settings.file_references.is_some()]
}

/// The redirect URLs to register with the provider.
fn redirect_urls(app: &App, organization: &Name) -> Markup {
    let (with_secret, without) = app.services().credentials.redirect_urls(organization);
    html! {
        p { "Register this redirect URL with the provider:" }
        (facts(&[
            ("Client with a secret", html! { code { (whole(&with_secret)) } }),
            ("Client without one", html! { code { (whole(&without)) } }),
        ]))
    }
}

/// Stores a new credential.
pub(super) async fn create(
    State(app): State<App>,
    viewer: Viewer,
    Path(organization): Path<Name>,
    form: FormFields,
) -> Result<Response, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    if form.text("act") == "discover" {
        return Ok(discover(&app, &viewer, &organization, &form).await?.into_response());
    }
    match put(&app, &viewer, &organization, form.text("name").trim(), &form, &Precondition::Absent).await {
        Ok(()) => Ok(SeeOther::to(&address(&organization, form.text("name").trim())).into_response()),
        Err(Problem(error)) if is_of_form(error.error_type) => {
            let kind = kind(form.text("kind")).unwrap_or(CredentialKind::Bearer);
            let fields = CredentialFields::of_form(&form);
            let shown = (kind, form.text("name"), &fields);
            let notes = html! {
                (notice(&error))
                p.quiet { "Nothing was stored. The page keeps no secret: type it again." }
            };
            let page = creation_page(&app, &viewer, &organization, shown, &notes);
            Ok(page.with_status_of(&error).into_response())
        }
        Err(problem) => Err(problem),
    }
}

async fn put(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    name: &str,
    form: &FormFields,
    precondition: &Precondition,
) -> Result<(), Problem> {
    let key = api::key(organization.as_str(), name)?;
    let plain_http = app.settings().credentials.plain_http.as_deref().unwrap_or_default();
    let new = new_credential(request(form)?, plain_http)?;
    app.admin().put_credential(viewer.actor(), &key, new, precondition).await?;
    Ok(())
}

/// Whether the form can be corrected.
fn is_of_form(error_type: ErrorType) -> bool {
    matches!(
        error_type,
        ErrorType::InvalidRequest
            | ErrorType::Conflict
            | ErrorType::TooLarge
            | ErrorType::QuotaExceeded
            | ErrorType::CredentialMissing
            | ErrorType::ApiUnavailable
            | ErrorType::Overloaded
    )
}

/// One credential.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, name)): Path<(Name, Name)>,
) -> Result<Page, Problem> {
    let key = CredentialKey { organization, name };
    let credential = app.admin().credential(&viewer.caller, &key)?;
    let fields = CredentialFields::of_document(&credential.document);
    Ok(show(&app, &viewer, &key, &credential, &fields, None))
}

/// The page of a credential; `refused` has the error of a form, and whether that form replaces the credential.
fn show(
    app: &App,
    viewer: &Viewer,
    key: &CredentialKey,
    credential: &Credential,
    fields: &CredentialFields,
    refused: Option<(&CallError, bool)>,
) -> Page {
    let view = api::to_view(app, credential);
    let revision = Revision(credential.row.revision).etag();
    let kind = view.kind;
    let form = |act: &str, content: Markup| {
        html! {
            (viewer.stacked_form(address(&key.organization, key.name.as_str()), &[("act", &act), ("revision", &revision)], html! {
                (content)
            }))
        }
    };
    let main = html! {
        @if let Some((error, _)) = refused { (notice(error)) }
        (about(&view))
        @if kind == CredentialKind::AuthorizationCode { (connection(&view, &form("connect", connect_button(&view)))) }
        @else if view.vault.is_none() && view.file.is_none() {
            h2 { "New secret" }
            (form("rotate", html! { (secret_input(kind, "new-secret")) (expiry_input(kind)) button { "Replace the secret" } }))
        }
        h2 { "Change" }
        details open[refused.is_some_and(|(_, is_replacing)| is_replacing)] {
            summary { "Replace the credential whole" }
            p.quiet { "With its secret: where a credential goes is changed by a person who knows the secret." }
            @if kind == CredentialKind::AuthorizationCode { (redirect_urls(app, &key.organization)) }
            (form("replace", html! { (fields.inputs(kind, elsewhere(app))) button { "Replace the credential" } }))
        }
        (form("delete", html! {
            button.danger data-confirm="Delete the credential? Tools that need it stop working." { "Delete the credential" }
        }))
        p { a href=(list_address(&key.organization)) { "All credentials" } }
    };
    Page::new(key.to_string(), main)
}

/// OAuth names the life of its tokens itself.
fn expiry_input(kind: CredentialKind) -> Markup {
    html! {
        @if kind != CredentialKind::ClientCredentials {
            (Field::new("days", "Days until it expires").id("new-days").number(1, None).hint("Empty for a secret that does not expire."))
        }
    }
}

fn about(view: &CredentialView) -> Markup {
    let bound_to =
        html! { ul { @for binding in &view.bound_to { li { code { (short(&binding_line(binding))) } } } } };
    let mut rows = vec![
        ("State", html! { (state_badge(&view.state)) }),
        ("Provider", html! { (short(&view.provider)) }),
        ("Kind", html! { (words(view.kind)) }),
        ("Goes to", bound_to),
        (
            "Owner",
            html! { @match &view.user { Some(user) => { "user " (short(user)) }, None => "the organization" } },
        ),
        ("Version", html! { (number(view.version)) }),
        ("Changed", html! { (time(view.changed_ms)) }),
        ("Last used", time_or(view.last_used_ms, "never")),
        ("Expires", time_or(view.expires_ms, "not known")),
    ];
    if let Some(scopes) = &view.scopes {
        rows.insert(3, ("Scopes", html! { (short(&scopes.join(" "))) }));
    }
    if let Some(vault) = &view.vault {
        rows.insert(3, ("In the vault", html! { code { (short(vault)) } }));
    }
    if let Some(file) = &view.file {
        rows.insert(3, ("In the file", html! { code { (short(file)) } }));
    }
    facts(&rows)
}

fn connection(view: &CredentialView, form: &Markup) -> Markup {
    html! {
        h2 { "Connection" }
        p {
            @if view.state == "connected" { "A person has consented. Connect it again to change the account or the scopes." }
            @else { "Tools cannot use it until a person consents at the provider." }
        }
        (form)
    }
}

fn connect_button(view: &CredentialView) -> Markup {
    html! { button { @if view.state == "connected" { "Connect again" } @else { "Connect" } } }
}

/// Changes one credential, or leads to its provider.
pub(super) async fn act(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, name)): Path<(Name, Name)>,
    form: FormFields,
) -> Result<Response, Problem> {
    let key = CredentialKey { organization, name };
    let stored = app.admin().credential(&viewer.caller, &key)?;
    match change(&app, &viewer, &key, &form).await {
        Ok(response) => Ok(response),
        Err(Problem(error)) if is_of_form(error.error_type) => {
            let fields = match form.text("act") {
                "replace" => CredentialFields::of_form(&form),
                _ => CredentialFields::of_document(&stored.document),
            };
            let refused = (&error, form.text("act") == "replace");
            let page = show(&app, &viewer, &key, &stored, &fields, Some(refused));
            Ok(page.with_status_of(&error).into_response())
        }
        Err(problem) => Err(problem),
    }
}

async fn change(
    app: &App,
    viewer: &Viewer,
    key: &CredentialKey,
    form: &FormFields,
) -> Result<Response, Problem> {
    let own = || SeeOther::to(&address(&key.organization, key.name.as_str())).into_response();
    let revision = || Precondition::from_headers(Some(form.text("revision")), None);
    match form.text("act") {
        "connect" => Ok(connect(app, viewer, key).await?.into_response()),
        "replace" => {
            put(app, viewer, &key.organization, key.name.as_str(), form, &revision()?).await?;
            Ok(own())
        }
        "rotate" => {
            let missing =
                || Problem::new(ErrorType::InvalidRequest, "there is no secret", "type the new secret");
            let secret = secret(form).ok_or_else(missing)?;
            let rotation = rotated_secret(CredentialRotation { secret, expires_ms: expires_ms(form)? })?;
            app.admin().rotate_credential(viewer.actor(), key, rotation, &revision()?).await?;
            Ok(own())
        }
        "delete" => {
            app.admin().delete_credential(viewer.actor(), key, &revision()?).await?;
            Ok(SeeOther::to(&list_address(&key.organization)).into_response())
        }
        _ => Err(Problem::new(
            ErrorType::InvalidRequest,
            "the form names no action",
            "use a button of the page",
        )),
    }
}

/// Begins the authorization. The page has a link and no redirect: the content policy keeps forms within the console.
pub(super) async fn connect(app: &App, viewer: &Viewer, key: &CredentialKey) -> Result<Page, Problem> {
    let link = app.admin().connect_credential(viewer.actor(), key).await?;
    Ok(consent_page(key, &link))
}

fn consent_page(key: &CredentialKey, link: &AuthorizationLink) -> Page {
    let host =
        Url::parse(&link.url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let main = html! {
        p { "The provider asks for your consent, and leads back here. Tools then act as the account that you choose there." }
        (facts(&[
            ("Provider", html! { (whole(&host)) }),
            ("Scopes", html! { @if link.scopes.is_empty() { "those that the provider chooses" } @else { (whole(&link.scopes.join(" "))) } }),
            ("Until", time(link.expires_ms)),
        ]))
        p { a.button href=(link.url) rel="noreferrer" { "Go on to " (short(&host)) } }
        p { a href=(address(&key.organization, key.name.as_str())) { "Back to the credential" } }
    };
    Page::new(format!("Connect {key}"), main)
}

/// The page that a provider leads back to. The browser comes from another site, without its session, and goes on from here.
pub(crate) fn connection_page(key: &CredentialKey, refused: Option<&CallError>) -> Response {
    let back = address(&key.organization, key.name.as_str());
    let link = html! { p { a.button href=(back) { "Back to the credential" } } };
    let page = match refused {
        None => Page::new(format!("{key} is connected"), link).going_on_to(back),
        Some(error) => Page::new(format!("{key} is not connected"), html! { (notice(error)) (link) })
            .with_status_of(error),
    };
    standalone(&page)
}

/// The organization's credential of this provider that waits for a person's consent.
pub(super) fn find_unconnected(app: &App, organization: &Name, provider: &str) -> Option<CredentialKey> {
    let credentials = &app.services().credentials;
    let found = credentials.list(organization, None, SEARCHED).into_iter().find(|credential| {
        let document = &credential.document;
        let is_of_person = document.authentication.kind() == CredentialKind::AuthorizationCode;
        let is_own = document.provider == provider && document.user.is_none();
        is_own && is_of_person && api::to_view(app, credential).state != "connected"
    });
    found.map(|credential| CredentialKey {
        organization: organization.clone(),
        name: credential.row.name.clone(),
    })
}

/// The page where a credential for a plugin is chosen.
pub(super) fn address_for_plugin(organization: &Name, provider: &str, namespace: &Namespace) -> String {
    let (provider, plugin) = (percent_encode(provider), percent_encode(namespace.as_str()));
    format!("{}?provider={provider}&plugin={plugin}", list_address(organization))
}
