//! The installation, for operators: the settings in force, and backups.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use toolgate_core::backup::last_taken;
use toolgate_core::identity::Access;
use toolgate_http::backups;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::config::Config;

use super::elements::{badge, short, table, time};
use super::page::Page;
use super::text::cut;
use super::viewer::Viewer;

/// Longest value of a setting, in characters.
const VALUE_CHARS: usize = 2_000;

/// The settings in force and the last backup.
pub(super) async fn page(State(app): State<App>, viewer: Viewer) -> Result<Page, Problem> {
    viewer.caller.may(Access::Operate)?;
    let settings = app.settings();
    let last_backup_ms = last_taken(&settings.data).map(|seconds| seconds.saturating_mul(1_000));
    let main = html! {
        section aria-labelledby="backup" {
            h2 id="backup" { "Backup" }
            p { @match last_backup_ms { None => "There was none yet.", Some(at_ms) => { "The last one: " (time(at_ms)) "." } } }
            p.hint { "A backup has no keys of the daemon: keep the folder " code { "keys" } " by itself." }
            (viewer.form("/console/installation/backup", &[], html! { button { "Download a backup" } }))
        }
        section aria-labelledby="settings" {
            h2 id="settings" { "Settings in force" }
            p {
                @match &settings.file {
                    Some(file) => { "Read from " code { (short(&file.display().to_string())) } "." },
                    None => { "There is no file of settings." },
                }
                " Those that differ from the defaults are marked."
            }
            (sections(settings))
        }
        p { a.button href="/console/publisher-keys" { "Publishers' keys" } }
    };
    Ok(Page::new("Installation", main))
}

/// The sections, of which those with own settings are open.
fn sections(settings: &Config) -> Markup {
    let own = settings.differing_keys(&Config::default());
    let values = settings.values();
    html! {
        @for (section, values) in &values {
            @let name = |key: &str| if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
            @let keys: Vec<(String, &Value)> = values.as_object().into_iter().flatten().map(|(key, value)| (name(key), value))
                .filter(|(name, value)| own.contains(name) || !value.is_null()).collect();
            @if !keys.is_empty() {
                details open[keys.iter().any(|(name, _)| own.contains(name))] {
                    summary { (if section.is_empty() { "the daemon" } else { section }) }
                    (settings_table(&keys, &own))
                }
            }
        }
    }
}

fn settings_table(keys: &[(String, &Value)], own: &[String]) -> Markup {
    let rows = html! {
        @for (name, value) in keys {
            tr {
                th scope="row" { code { (short(name)) } @if own.contains(name) { " " (badge("warn", "set")) } }
                td.wide { code { @match value { Value::String(text) => (cut(text, VALUE_CHARS)), value => (cut(&value.to_string(), VALUE_CHARS)) } } }
            }
        }
    };
    table("Settings", &["Setting", "Value"], &rows)
}

/// A backup as a download.
pub(super) async fn back_up(State(app): State<App>, viewer: Viewer) -> Result<Response, Problem> {
    viewer.caller.may(Access::Operate)?;
    backups::post(viewer.client(&app)).await
}
