//! Documents as forms: fields made from the schema of a document, and its text beside them. A person changes either; what comes
//! of it is one text, which both show.

use std::sync::LazyLock;

use maud::{Markup, Render, html};
use serde_json::{Map, Value};
use toolgate_api::assertion::AssertionsDocument;
use toolgate_api::definition::CustomToolDefinition;
use toolgate_api::document::OrganizationDocument;
use toolgate_api::error::CallError;
use toolgate_api::grant::Grant;
use toolgate_api::name::Name;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_api::publisher::PublisherKeyDocument;
use toolgate_core::admin::DocumentWrite;
use toolgate_http::problem::Problem;
use toolgate_http::schema::document_schema;
use toolgate_http::state::App;
use toolgate_state::documents::{DocumentKey, DocumentKind, Precondition};

use super::elements::editable;
use super::form::FormFields;
use super::schema_form::{SchemaForm, Suggestions};
use super::text::indent_json;
use super::viewer::Viewer;

/// Most names of a kind that are suggested.
const SUGGESTED: usize = 600;

/// A document as the form has it.
pub(super) struct Draft {
    pub text: String,
    /// The tag of the document that it replaces; empty for a new one.
    pub revision: String,
}

impl Draft {
    /// What a form says: its fields, or its text.
    ///
    /// # Errors
    ///
    /// `CONFLICT` where the fields are those of another schema.
    pub(super) fn of(form: &FormFields, kind: DocumentKind) -> Result<Self, Problem> {
        let filled = SchemaForm::read_shown(form, schema_form(kind))?;
        let text = filled.map_or_else(|| form.text("text").to_owned(), |text| indent_json(&text));
        Ok(Self { text, revision: form.text("revision").to_owned() })
    }

    /// The stored document; `start` where there is none.
    pub(super) async fn load(app: &App, key: &DocumentKey, start: &str) -> Result<Self, Problem> {
        let stored = app.services().store.find_document(key).await?;
        Ok(match stored {
            Some(stored) => Self { text: indent_json(&stored.body), revision: stored.revision.etag() },
            None => Self { text: start.to_owned(), revision: String::new() },
        })
    }

    /// The state that the draft replaces.
    ///
    /// # Errors
    ///
    /// `INVALID_REQUEST` where the revision is none.
    pub(super) fn precondition(&self) -> Result<Precondition, CallError> {
        match self.revision.as_str() {
            "" => Ok(Precondition::Absent),
            tag => Precondition::from_headers(Some(tag), None),
        }
    }
}

/// Puts a draft in force, if the document is still the one that it replaces.
pub(super) async fn put(
    app: &App,
    viewer: &Viewer,
    key: DocumentKey,
    draft: &Draft,
) -> Result<(), CallError> {
    let (text, precondition) = (draft.text.clone(), draft.precondition()?);
    let write = DocumentWrite { key, text, precondition, strict: false, dry_run: false };
    app.admin().put_document(viewer.actor(), write).await?;
    Ok(())
}

/// The form of a kind of document; none of one that people do not write.
fn schema_form(kind: DocumentKind) -> Option<&'static SchemaForm> {
    static FORMS: LazyLock<Vec<(DocumentKind, SchemaForm)>> = LazyLock::new(|| {
        let schemas = [
            (DocumentKind::Platform, document_schema::<PlatformDocument>()),
            (DocumentKind::Organization, document_schema::<OrganizationDocument>()),
            (DocumentKind::Policy, document_schema::<OrgDocument>()),
            (DocumentKind::Agent, document_schema::<AgentDocument>()),
            (DocumentKind::Grant, document_schema::<Grant>()),
            (DocumentKind::ToolGrant, document_schema::<Grant>()),
            (DocumentKind::Tool, document_schema::<CustomToolDefinition>()),
            (DocumentKind::Assertions, document_schema::<AssertionsDocument>()),
            (DocumentKind::PublisherKey, document_schema::<PublisherKeyDocument>()),
        ];
        schemas.into_iter().filter_map(|(kind, schema)| Some((kind, SchemaForm::parse(&schema)?))).collect()
    });
    FORMS.iter().find(|(own, _)| *own == kind).map(|(_, form)| form)
}

/// Where the forms of a document are sent, and their buttons: the act of each with its words.
pub(super) struct Sent<'a> {
    pub action: &'a str,
    pub buttons: &'a [(&'a str, &'a str)],
}

/// The fields of a draft, and its text beside them.
pub(super) fn editor(
    viewer: &Viewer,
    kind: DocumentKind,
    draft: &Draft,
    suggestions: &Suggestions,
    sent: &Sent<'_>,
) -> Markup {
    let values: Option<Map<String, Value>> = serde_json::from_str(&draft.text).ok();
    let fields = schema_form(kind).zip(values).and_then(|(form, values)| form.fields(&values, suggestions));
    let hidden: [(&str, &dyn Render); 1] = [("revision", &draft.revision)];
    let buttons = html! { @for (act, words) in sent.buttons { button name="act" value=(act) data-busy="Working…" { (words) } } };
    html! {
        div.beside {
            section aria-labelledby="as-form" {
                h2 id="as-form" { "As a form" }
                @match fields {
                    Some(fields) => (viewer.form(sent.action, &hidden, html! { (fields) (buttons) })),
                    None => p { "The text does not fit into a form: correct it, or go on with the text." },
                }
            }
            section aria-labelledby="as-text" {
                h2 id="as-text" { "As text" }
                (viewer.form(sent.action, &hidden, html! {
                    label for="text" { "Document, as JSON" }
                    textarea.tall id="text" name="text" spellcheck="false" rows="20" { "\n" (editable(&draft.text)) }
                    (buttons)
                }))
            }
        }
    }
}

/// Names that exist, as fields of a document suggest them.
pub(super) fn suggestions(app: &App, organization: Option<&Name>) -> Suggestions {
    let snapshot = app.services().registry.snapshot();
    let catalogue = match organization {
        Some(organization) => snapshot.catalogue_of(organization),
        None => std::sync::Arc::clone(snapshot.catalogue()),
    };
    let mut tools: Vec<String> = catalogue
        .tools()
        .iter()
        .flat_map(|tool| [format!("{}/*", tool.id().namespace), tool.id().to_string()])
        .collect();
    tools.sort_unstable();
    tools.dedup();
    tools.truncate(SUGGESTED);
    let mut plugins: Vec<String> =
        catalogue.tools().iter().map(|tool| tool.id().namespace.to_string()).collect();
    plugins.dedup();
    let names = |names: Vec<Name>| names.iter().take(SUGGESTED).map(ToString::to_string).collect();
    let own = organization.and_then(|organization| snapshot.organization(organization));
    let own = own.iter().flat_map(|rules| rules.document().profiles.keys());
    let policy = snapshot.policy();
    let profiles = policy.profiles.keys().chain(own).map(ToString::to_string).collect();
    let subtypes = policy.subtypes.keys().map(ToString::to_string).collect();
    let providers = organization.map(|name| snapshot.connected_integrations(name)).unwrap_or_default();
    Suggestions::from([
        ("tools", tools),
        ("plugins", plugins),
        ("agents", organization.map(|name| names(snapshot.agents(name))).unwrap_or_default()),
        ("profiles", profiles),
        ("subtypes", subtypes),
        ("providers", providers.into_iter().take(SUGGESTED).collect()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_each_kind_of_document_has_a_form() {
        let kinds = [
            (DocumentKind::Platform, "channel_required"),
            (DocumentKind::Organization, "display_name"),
            (DocumentKind::Policy, "enabled"),
            (DocumentKind::Agent, "require_approval_for"),
            (DocumentKind::Grant, "private_networks"),
            (DocumentKind::ToolGrant, "private_networks"),
            (DocumentKind::Tool, "base_url"),
            (DocumentKind::Assertions, "assertions"),
            (DocumentKind::PublisherKey, "public_key"),
        ];
        for (kind, member) in kinds {
            let form = schema_form(kind).unwrap_or_else(|| panic!("{kind:?} has no form"));
            let shown = form.fields(&Map::new(), &Suggestions::new()).expect("few fields").into_string();
            let label = super::super::text::sentence(&member.replace('_', " "));
            assert!(shown.contains(&format!(">{label}")), "{kind:?} {shown}");
        }
    }
}
