//! The effects that the tools of a version declare, and the confirmation by which the gate believes it (rule 9.11).

use axum::extract::State;
use maud::{Markup, html};
use serde_json::{Map, Value};
use toolgate_api::descriptor::Hints;
use toolgate_api::error::ErrorType;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{HintsState, PluginView, ToolView};
use toolgate_core::admin::DocumentWrite;
use toolgate_core::identity::Access;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, PluginKey, Precondition};

use super::elements::{ROWS, badge, number, short, table};
use super::form::{FormFields, SeeOther};
use super::plugin_uploads::Holder;
use super::viewer::Viewer;

/// The hints of a tool in words. The first one is the most that they say.
pub(super) fn words(hints: Hints) -> String {
    let words = [
        (hints.read_only, "changes nothing"),
        (!hints.read_only && hints.destructive, "may destroy things"),
        (!hints.read_only && !hints.destructive, "changes things, destroys nothing"),
        (hints.idempotent, "may be repeated"),
        (hints.open_world, "reaches outside"),
        (!hints.open_world, "reaches nothing outside"),
    ];
    let said: Vec<&str> = words.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect();
    said.join(", ")
}

/// Whether a tool says that it does less than the gate assumes.
fn loosens(tool: &ToolView) -> bool {
    let hints = tool.details.hints;
    hints.read_only || !hints.destructive || !hints.open_world
}

/// The hints that do not count yet, with the form that confirms them; nothing where there are none.
pub(super) fn confirmation(viewer: &Viewer, holder: &Holder, plugin: &PluginView) -> Markup {
    let is_open = |tool: &&ToolView| tool.details.hints_state == HintsState::Unconfirmed && loosens(tool);
    let tools: Vec<&ToolView> = plugin.tools.iter().filter(is_open).collect();
    if tools.is_empty() || plugin.built_in {
        return html! {};
    }
    let rows = html! {
        @for tool in tools.iter().take(ROWS as usize) {
            tr { th scope="row" { code { (short(&tool.name)) } } td { (short(&tool.description)) } td { (words(tool.details.hints)) } }
        }
    };
    html! {
        section aria-labelledby="hints" {
            h2 id="hints" { "Hints to confirm " (badge("warn", "they do not count yet")) }
            p { "These tools say of themselves that they do less than the gate assumes. Until you confirm it, they count as tools that change and destroy things and reach outside." }
            (table("Hints", &["Tool", "Description", "It says of itself"], &rows))
            @if tools.len() > ROWS as usize {
                p { strong { (number(tools.len() as u64)) " tools in all." } " Read the rest with " code { "toolgate plugin show " (short(&plugin.namespace)) } " before you confirm them, too." }
            }
            @match holder {
                Holder::Platform => {
                    (viewer.form(format!("{}/hints", holder.page_of(&plugin.namespace)), &[("digest", &plugin.digest)], html! {
                        button { "Confirm the hints of this version" }
                    }))
                },
                Holder::Organization(_) => {
                    p { a.button href=(holder.address_for(&plugin.namespace)) { "Load the file again, with its hints confirmed" } }
                },
            }
        }
    }
}

/// Writes the digest of the shown version into the plugin's grant, whose other members stay.
pub(super) async fn confirm(
    State(app): State<App>,
    viewer: Viewer,
    Path(namespace): Path<Namespace>,
    form: FormFields,
) -> Result<SeeOther, Problem> {
    viewer.caller.may(Access::Operate)?;
    let serving = app.services().plugins.find(&PluginKey::from(&namespace))?.digest;
    if serving != form.text("digest") {
        let message = "another version serves than the one whose hints you read";
        return Err(Problem::new(ErrorType::Conflict, message, "open the page again and read its hints"));
    }
    let key = DocumentKey::Grant(namespace.clone());
    let stored = app.services().store.find_document(&key).await?;
    let (mut grant, precondition) = match stored {
        Some(stored) => {
            let grant: Map<String, Value> = serde_json::from_str(&stored.body).unwrap_or_default();
            (grant, Precondition::OneOf(vec![stored.revision]))
        }
        None => (Map::new(), Precondition::Absent),
    };
    grant.insert("confirmed_hints".to_owned(), serving.into());
    let text = Value::Object(grant).to_string();
    let write = DocumentWrite { key, text, precondition, strict: false, dry_run: false };
    app.admin().put_document(viewer.actor(), write).await?;
    Ok(SeeOther::to(&Holder::Platform.page_of(namespace.as_str())))
}
