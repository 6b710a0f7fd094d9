//! Plugins of the platform: versions, signatures, differences that wait for consent; approve, roll back, disable, enable, remove.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{
    CanaryView, HintsState, PluginApproval, PluginLoaded, PluginSource, PluginState, PluginView, SignerView,
    ToolView, VersionDifference, VersionView,
};
use toolgate_core::identity::Access;
use toolgate_http::extract::{Path, Query};
use toolgate_http::paging;
use toolgate_http::path_params::{OwnedPluginPath, OwnerPath};
use toolgate_http::plugins as api;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::PluginKey;

use super::elements::warnings_list;
use super::elements::{
    Filters, LIST_BYTES, ROWS, badge, block, digest, facts, next_page, number, short, table, time_or,
};
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::plugin_uploads::{self, Holder};
use super::viewer::Viewer;
use super::{Console, hints};

/// The loaded plugins.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(page): Filters<paging::Page>,
) -> Result<Page, Problem> {
    viewer.caller.may(Access::Operate)?;
    let page = paging::Page { limit: Some(ROWS), ..page };
    let found = api::list(viewer.client(&app), Path(OwnerPath { organization: None }), Query(page)).await?.0;
    let is_no_upload = |plugin: &PluginView| plugin.built_in || plugin.state == PluginState::Compiling;
    let has_only_built_in = found.items.iter().all(is_no_upload);
    let rows = html! {
        @for plugin in &found.items {
            tr {
                th scope="row" { a href=(address(&plugin.namespace)) { (short(&plugin.namespace)) } }
                td { (short(&plugin.version)) }
                td { (digest(&plugin.digest)) }
                td {
                    (state_badge(plugin.state))
                    @if waiting(plugin).is_some() { " " (badge("warn", "a version waits for consent")) }
                }
                td { (signer(plugin.signed_by.as_ref(), plugin.built_in)) }
                td.number { (plugin.tools.len()) }
            }
        }
    };
    let main = html! {
        @if has_only_built_in {
            div.empty { p { "Only plugins that are part of the daemon are loaded. " a href="#load" { "Load one of your own" } ", or write one with " code { "toolgate new" } "." } }
        }
        @if !found.items.is_empty() { (table("Plugins", &["Plugin", "Version", "Digest", "State", "Signed by", "#Tools"], &rows)) }
        (next_page(&uri, found.next_cursor.as_deref()))
        section aria-labelledby="compiling" {
            h2 id="compiling" { "Plugins that are being compiled" }
            div data-refresh="/console/compiling/fragment" { (compiling(&app)) }
        }
        section aria-labelledby="load" {
            h2 id="load" { "Load a plugin" }
            (plugin_uploads::form(&app, &viewer, &Holder::Platform, &FormFields::default()))
        }
    };
    Ok(Page::new("Plugins", main))
}

/// The plugins that compile, for the script.
pub(super) async fn compiling_fragment(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
) -> Result<Page, Problem> {
    viewer.caller.may(Access::Operate)?;
    let rendering = async { Ok(compiling(&app)) };
    Ok(Page::fragment(console.rendered.get("compiling".to_owned(), rendering).await?))
}

fn compiling(app: &App) -> Markup {
    let plugins = app.services().plugins.list(None);
    let is_compiling = |plugin: &&PluginView| {
        let states = plugin.versions.iter().map(|version| version.state);
        states.chain([plugin.state]).any(|state| state == PluginState::Compiling)
    };
    let names: Vec<&str> = plugins
        .iter()
        .filter(is_compiling)
        .map(|plugin| plugin.namespace.as_str())
        .take(ROWS as usize)
        .collect();
    html! {
        @if names.is_empty() { p { "No plugin compiles now." } }
        @else { ul { @for name in names { li { a href=(address(name)) { (short(name)) } } } } }
    }
}

fn address(namespace: &str) -> String {
    Holder::Platform.page_of(namespace)
}

/// The state of a version in a word.
pub(super) fn state_badge(state: PluginState) -> Markup {
    let (tone, word) = match state {
        PluginState::Compiling => ("warn", "compiling"),
        PluginState::Active => ("good", "active"),
        PluginState::Canary => ("warn", "canary"),
        PluginState::Quarantined => ("warn", "waits for consent"),
        PluginState::Failed => ("bad", "failed"),
        PluginState::Disabled => ("", "disabled"),
    };
    badge(tone, word)
}

fn signer(signer: Option<&SignerView>, built_in: bool) -> Markup {
    html! {
        @match signer {
            Some(signer) => { (short(&signer.publisher)) " " code title=(short(&signer.public_key)) { (short(&signer.key)) } },
            None if built_in => "part of the daemon",
            None => "no signature",
        }
    }
}

/// The version that waits for consent.
fn waiting(plugin: &PluginView) -> Option<&VersionView> {
    plugin.versions.iter().find(|version| version.state == PluginState::Quarantined)
}

/// One plugin.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path(namespace): Path<Namespace>,
) -> Result<Page, Problem> {
    viewer.caller.may(Access::Operate)?;
    let path = OwnedPluginPath { organization: None, namespace };
    let loaded = api::get(viewer.client(&app), Path(path)).await?.0;
    Ok(Page::new(loaded.plugin.namespace.clone(), show(&viewer, &Holder::Platform, &loaded)))
}

/// A plugin with the changes that its holder can make.
pub(super) fn show(viewer: &Viewer, holder: &Holder, loaded: &PluginLoaded) -> Markup {
    let PluginLoaded { plugin, warnings } = loaded;
    html! {
        (about(plugin))
        @if let Some(version) = waiting(plugin) { (consent(viewer, holder, plugin, version)) }
        @if !warnings.is_empty() { h2 { "Warnings" } (warnings_list(warnings)) }
        (hints::confirmation(viewer, holder, plugin))
        section aria-labelledby="versions" {
            h2 id="versions" { "Versions" }
            (versions(plugin))
            p {
                @if !plugin.built_in { a.button href=(holder.address_for(&plugin.namespace)) { "Load another version" } }
                @if matches!(holder, Holder::Platform) { a.button href={ (address(&plugin.namespace)) "/grant" } { "Grant" } }
            }
            (changes(viewer, holder, plugin))
        }
        section aria-labelledby="capabilities" {
            h2 id="capabilities" { "Capabilities that it requests" }
            (block(&serde_json::to_string_pretty(&plugin.capabilities).unwrap_or_default(), LIST_BYTES))
        }
        section aria-labelledby="tools" { h2 id="tools" { "Tools" } (tools(&plugin.tools)) }
    }
}

fn about(plugin: &PluginView) -> Markup {
    let mut pairs = vec![
        (
            "State",
            html! { (state_badge(plugin.state)) @if let Some(reason) = &plugin.reason { " " (short(reason)) } },
        ),
        ("Version", html! { (short(&plugin.version)) ", " (digest(&plugin.digest)) }),
        ("Signed by", signer(plugin.signed_by.as_ref(), plugin.built_in)),
    ];
    let texts =
        [("Publisher", &plugin.publisher), ("Category", &plugin.category), ("Purpose", &plugin.purpose)];
    let known = texts.into_iter().filter_map(|(term, text)| Some((term, text.as_deref()?)));
    pairs.extend(known.map(|(term, text)| (term, html! { (short(text)) })));
    facts(&pairs)
}

fn consent(viewer: &Viewer, holder: &Holder, plugin: &PluginView, version: &VersionView) -> Markup {
    html! {
        section aria-labelledby="consent" {
            h2 id="consent" { "Version " (short(&version.version)) " waits for consent" }
            (facts(&[("Digest", digest(&version.digest)), ("Signed by", signer(version.signed_by.as_ref(), false))]))
            (differences(&version.diff))
            p.quiet { "Approving it confirms the hints of its tools, too." }
            (viewer.form(format!("{}/approve", holder.page_of(&plugin.namespace)), &[("digest", &version.digest)], html! {
                @if matches!(holder, Holder::Platform) {
                    label.choice {
                        input type="checkbox" name="keep_grant";
                        "Keep the grant, although the version may ask for other capabilities or limits"
                    }
                }
                button { "Approve this version" }
            }))
        }
    }
}

/// Each change, as it was and as it is.
fn differences(differences: &[VersionDifference]) -> Markup {
    let rows = html! {
        @for difference in differences.iter().take(ROWS as usize) {
            tr {
                th scope="row" { @match &difference.tool { Some(tool) => (short(tool)), None => "the plugin" } }
                td { (short(&difference.field)) }
                td { (value(difference.before.as_deref(), "new")) }
                td { (value(difference.after.as_deref(), "gone")) }
            }
        }
    };
    html! {
        @if differences.is_empty() { p { "Nothing that a person should see differs from the serving version." } }
        @else { (table("Differences", &["Tool", "What", "Before", "After"], &rows)) }
        @if differences.len() > ROWS as usize {
            p.quiet { (number(differences.len() as u64)) " differences in all. See the rest with " code { "toolgate plugin show" } "." }
        }
    }
}

fn value(text: Option<&str>, word: &str) -> Markup {
    match text {
        Some(text) => html! { (super::text::cut(text, LIST_BYTES)) },
        None => html! { em { (word) } },
    }
}

fn versions(plugin: &PluginView) -> Markup {
    let rows = html! {
        @for version in plugin.versions.iter().take(ROWS as usize) {
            tr {
                th scope="row" { (short(&version.version)) }
                td { (digest(&version.digest)) }
                td { (state_badge(version.state)) @if let Some(reason) = &version.reason { " " (short(reason)) } @if let Some(canary) = &version.canary { (share(canary)) } }
                td { (time_or(version.loaded_ms, "")) }
                td { (source(version.source.as_ref())) }
                td { (signer(version.signed_by.as_ref(), plugin.built_in && version.digest == plugin.digest)) }
            }
        }
    };
    table("Versions", &["Version", "Digest", "State", "Loaded", "From", "Signed by"], &rows)
}

fn share(canary: &CanaryView) -> Markup {
    html! {
        " " (canary.percent) " % of the calls: " (number(canary.failures)) " of " (number(canary.calls)) " failed; of the rest, "
        (number(canary.serving_failures)) " of " (number(canary.serving_calls))
    }
}

fn source(source: Option<&PluginSource>) -> Markup {
    match source {
        None => html! {},
        Some(PluginSource::Upload) => html! { "upload" },
        Some(PluginSource::Folder) => html! { "folder" },
        Some(PluginSource::Registry { reference, digest: manifest }) => {
            html! { (short(reference)) " " (digest(manifest)) }
        }
    }
}

fn changes(viewer: &Viewer, holder: &Holder, plugin: &PluginView) -> Markup {
    let address = holder.page_of(&plugin.namespace);
    let button = |act: &str, question: &str, word: &str| {
        html! {
            (viewer.form(format!("{address}/{act}"), &[("running", &running(plugin))], html! {
                button.danger data-confirm=(question) { (word) }
            }))
        }
    };
    html! {
        @if plugin.versions.len() > 1 {
            (button("rollback", "Roll back to the version before?", "Roll back to the version before"))
        }
        @match plugin.state {
            PluginState::Disabled => (button("enable", "Enable the plugin for every agent?", "Enable")),
            PluginState::Active | PluginState::Canary => (button("disable", "Disable the plugin for every agent?", "Disable")),
            _ => {},
        }
        @if !plugin.built_in {
            (button("remove", "Remove the plugin with all its versions?", "Remove"))
        }
    }
}

/// The digests of the versions that calls run: the serving one, and a canary.
fn running(plugin: &PluginView) -> String {
    let canary = plugin.versions.iter().find(|version| version.state == PluginState::Canary);
    let canary = canary.map(|version| format!(" {}", version.digest));
    format!("{}{}", plugin.digest, canary.unwrap_or_default())
}

fn tools(tools: &[ToolView]) -> Markup {
    let rows = html! {
        @for tool in tools.iter().take(ROWS as usize) {
            tr {
                th scope="row" { code { (short(&tool.name)) } }
                td { (short(&tool.description)) }
                td {
                    (hints::words(tool.details.hints))
                    @if tool.details.hints_state == HintsState::Unconfirmed { " " (badge("warn", "not confirmed")) }
                }
            }
        }
    };
    html! {
        (table("Tools", &["Tool", "Description", "Effects, as it says"], &rows))
        @if tools.len() > ROWS as usize { p.quiet { (number(tools.len() as u64)) " tools in all." } }
    }
}

/// Changes a plugin of the platform.
pub(super) async fn act(
    State(app): State<App>,
    viewer: Viewer,
    Path((namespace, act)): Path<(Namespace, String)>,
    form: FormFields,
) -> Result<SeeOther, Problem> {
    viewer.caller.may(Access::Operate)?;
    let key = PluginKey::from(&namespace);
    change(&app, &viewer, &Holder::Platform, key, &act, &form).await
}

/// Makes the change that a form names, and leads back to the plugin.
pub(super) async fn change(
    app: &App,
    viewer: &Viewer,
    holder: &Holder,
    key: PluginKey,
    act: &str,
    form: &FormFields,
) -> Result<SeeOther, Problem> {
    let (admin, actor, page) = (app.admin(), viewer.actor(), holder.page_of(key.namespace.as_str()));
    match act {
        // The version that waits, if it is the one that was shown.
        "approve" => {
            let (digest, keep_grant) = (form.text("digest").to_owned(), form.is_checked("keep_grant"));
            admin.approve_plugin(actor, key, &PluginApproval { digest, keep_grant }).await?;
        }
        // Of two people who roll back the same version, the second would go one further.
        "rollback" => {
            if running(&app.services().plugins.find(&key)?) != form.text("running") {
                let message = "other versions run than when the page was opened";
                let hint = "open the page again, and roll back if it is still the wrong version";
                return Err(Problem::new(ErrorType::Conflict, message, hint));
            }
            admin.roll_back_plugin(actor, key, None).await?;
        }
        "disable" | "enable" => {
            admin.switch_plugin(actor, key, act == "disable").await?;
        }
        "remove" => {
            admin.remove_plugin(actor, key).await?;
            return Ok(SeeOther::to(&holder.list()));
        }
        _ => return Err(Problem::not_found("change of a plugin")),
    }
    Ok(SeeOther::to(&page))
}
