//! Documents: read, checked, stored and put in force, in one order for all of them.

use std::sync::Arc;

use serde_json::json;
use toolgate_admission::{Warning, description_warnings, grant_warnings, unconfirmed_hints};
use toolgate_api::assertion::AssertionsDocument;
use toolgate_api::document::OrganizationDocument;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::Grant;
use toolgate_api::name::Name;
use toolgate_audit::ORGANIZATION_DELETE;
use toolgate_macros::boxed;
use toolgate_state::documents::{DocumentKey, Precondition, ToolKey};
use toolgate_state::store::{Deleted, WriteResult};

use super::{Actor, Admin};
use crate::identity::Access;
use crate::registry::{ChangeScope, Replacement, RuleKey, Snapshot, left_with_nothing};
use crate::services::Services;

/// A document to be written.
pub struct DocumentWrite {
    /// The document.
    pub key: DocumentKey,
    /// Its whole text, which is stored as it is.
    pub text: String,
    /// The state that it replaces.
    pub precondition: Precondition,
    /// Refuse what would be a warning.
    pub strict: bool,
    /// Check the document as for a write, and change nothing.
    pub dry_run: bool,
}

/// A document that was written and is in force, or that a dry run accepts.
pub struct DocumentWritten {
    /// `None` of a dry run.
    pub written: Option<WriteResult>,
    /// Names that resolve to nothing, and the like.
    pub warnings: Vec<Warning>,
}

#[boxed]
impl Admin {
    /// Checks a document, stores it and puts it in force.
    pub async fn put_document(
        &self,
        actor: Actor<'_>,
        write: DocumentWrite,
    ) -> Result<DocumentWritten, CallError> {
        actor.caller.may_change(&write.key)?;
        let (action, target) = action_and_target(&write.key);
        let action = actor.action(write.key.organization(), action, &target);
        self.run_audited_unless_dry(write.dry_run, action, async {
            self.wait_until_checkable(&write).await;
            let _in_order = self.0.documents.lock().await;
            let (written, warnings) = match (&write.key, RuleKey::of(&write.key)) {
                (_, Some(key)) => self.put_rules(actor, key, &write).await?,
                (DocumentKey::Grant(_), _) => self.put_grant(actor, &write).await?,
                (DocumentKey::ToolGrant(key), _) => self.put_tool_grant(actor, key, &write).await?,
                (DocumentKey::PublisherKey(owner, name), _) => {
                    self.put_publisher_key(actor, owner.as_ref(), name, &write).await?
                }
                (DocumentKey::Assertions(organization), _) => {
                    self.put_assertions(actor, organization.as_ref(), &write).await?
                }
                (key, None) => return Err(not_written_whole(key)),
            };
            Ok(DocumentWritten { written, warnings })
        })
        .await
    }

    /// Checks an organization's document, stores it and puts it in force. A dry run does the first alone, and returns `None`.
    pub async fn put_organization(
        &self,
        actor: Actor<'_>,
        name: &Name,
        document: &OrganizationDocument,
        precondition: &Precondition,
        dry_run: bool,
    ) -> Result<Option<WriteResult>, CallError> {
        actor.caller.may(Access::Operate)?;
        let action = actor.action(Some(name), "organization.put", name.as_str());
        self.run_audited_unless_dry(dry_run, action, async {
            toolgate_state::documents::check_organization(document)?;
            let text = serde_json::to_string(document).map_err(|error| {
                CallError::new(ErrorType::Internal, error.to_string(), "tell the operator")
            })?;
            let _in_order = self.0.documents.lock().await;
            let key = DocumentKey::Organization(name.clone());
            if dry_run {
                self.services().store.check_put(&key, precondition).await?;
                return Ok(None);
            }
            self.make_data_key_if_missing(name).await?;
            let written =
                self.services().store.put_document(&key, &text, precondition, actor.stamp()).await?;
            self.services()
                .registry
                .put_organization(name.clone(), document.connected.iter().cloned().collect());
            Ok(Some(written))
        })
        .await
    }

    /// Deletes an agent, whose sessions end and running calls are cancelled; assertions, a publisher's key, or what an organization
    /// has set for a plugin. The rules that it had in force end with it.
    pub async fn delete_document(
        &self,
        actor: Actor<'_>,
        key: &DocumentKey,
        precondition: &Precondition,
    ) -> Result<(), CallError> {
        actor.caller.may_change(key)?;
        let action = match key {
            DocumentKey::Agent { .. } => "agent.delete",
            DocumentKey::Assertions(_) => "assertions.delete",
            DocumentKey::PublisherKey(..) => "publisher_key.delete",
            DocumentKey::Enabled(_) => "enabled.delete",
            _ => return Err(not_written_whole(key)),
        };
        let (_, target) = action_and_target(key);
        self.run_audited(actor.action(key.organization(), action, &target), async {
            let _in_order = self.0.documents.lock().await;
            let Services { store, registry, plugins, .. } = self.services();
            let deleted = store.delete_document(key, precondition, actor.stamp()).await?;
            match key.clone() {
                DocumentKey::Agent { organization, agent } => registry.remove_agent(&organization, &agent),
                DocumentKey::Assertions(holder) => {
                    registry.put(Replacement::Assertions(holder, AssertionsDocument::default()));
                }
                DocumentKey::PublisherKey(owner, name) => plugins.remove_publisher_key(owner, name),
                DocumentKey::Enabled(ToolKey { organization, namespace }) => {
                    registry.put(Replacement::Enabled(organization, namespace, None));
                }
                _ => {}
            }
            self.end_dependents(deleted).await;
            Ok(())
        })
        .await
    }

    /// Deletes an organization with its agents, sessions, credentials and tokens.
    pub async fn delete_organization(
        &self,
        actor: Actor<'_>,
        name: &Name,
        precondition: &Precondition,
    ) -> Result<(), CallError> {
        actor.caller.may(Access::Operate)?;
        self.run_audited(actor.action(Some(name), ORGANIZATION_DELETE, name.as_str()), async {
            let _in_order = self.0.documents.lock().await;
            let key = DocumentKey::Organization(name.clone());
            let deleted = self.services().store.delete_document(&key, precondition, actor.stamp()).await?;
            self.services().registry.remove_organization(name);
            self.services().plugins.remove_publisher_keys(name);
            self.services().plugins.forget_organization(name).await;
            // Sessions end before the credentials, which may wait for a vault.
            self.end_dependents(deleted).await;
            self.services().credentials.forget_organization(name).await;
            self.erase_data(name, false).await
        })
        .await
    }

    /// The present warnings of a document in force.
    pub async fn document_warnings(&self, key: RuleKey) -> Result<Vec<Warning>, CallError> {
        let document = self.services().store.document(&key.clone().into()).await?;
        let snapshot = self.services().registry.snapshot();
        let mut warnings = key.warnings(&document.body, &snapshot);
        warnings.extend(agents_without_tools(key, None, Snapshot::clone(&snapshot)).await);
        Ok(warnings)
    }

    async fn put_rules(
        &self,
        actor: Actor<'_>,
        key: RuleKey,
        write: &DocumentWrite,
    ) -> Result<(Option<WriteResult>, Vec<Warning>), CallError> {
        let before = self.services().registry.snapshot();
        let sound = key
            .read(&write.text, &before)
            .map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?;
        let after = before.with_document(sound.replacement.clone());
        let mut warnings = sound.warnings;
        warnings.extend(agents_without_tools(key, Some(before), after).await);
        check_strict(&warnings, write.strict)?;
        let scope = change_scope(actor, write.key.organization());
        let change = |rules: &Snapshot| rules.with_document(sound.replacement.clone());
        let checked = self.services().registry.check_change(scope, change).await?;
        check_strict(&checked.warnings, write.strict)?;
        let written = self.store_document(actor, write).await?;
        if written.is_some() {
            self.services().registry.put(sound.replacement);
        }
        warnings.extend(checked.warnings);
        Ok((written, warnings))
    }

    async fn put_grant(
        &self,
        actor: Actor<'_>,
        write: &DocumentWrite,
    ) -> Result<(Option<WriteResult>, Vec<Warning>), CallError> {
        let DocumentKey::Grant(namespace) = &write.key else { return Err(not_written_whole(&write.key)) };
        let grant = parse_grant(&write.text)?;
        let plugin = self.services().plugins.under_grant(namespace, &grant).await?;
        let mut warnings = grant_warnings(&grant, &plugin.descriptor.capabilities);
        warnings.extend(description_warnings(&grant, Some(&plugin.descriptor)));
        warnings.extend(unconfirmed_hints(&plugin));
        check_strict(&warnings, write.strict)?;
        let storing = |broken: Vec<Warning>| async move {
            check_strict(&broken, write.strict)?;
            self.store_document(actor, write).await
        };
        let (written, broken) = self.services().plugins.grant_and_store(namespace, grant, storing).await?;
        warnings.extend(broken);
        Ok((written, warnings))
    }

    async fn put_tool_grant(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        write: &DocumentWrite,
    ) -> Result<(Option<WriteResult>, Vec<Warning>), CallError> {
        let grant = parse_grant(&write.text)?;
        let served = self.custom().descriptor(key);
        let loaded = self.services().plugins.owned_under(key, &Arc::new(grant.clone()));
        let mut warnings = description_warnings(&grant, loaded.as_deref().map(|plugin| &*plugin.descriptor));
        warnings.extend(loaded.as_deref().and_then(unconfirmed_hints));
        warnings.extend(served.iter().flat_map(|served| grant_warnings(&grant, &served.capabilities)));
        check_strict(&warnings, write.strict)?;
        let custom = &self.custom();
        let stamp = (!write.dry_run).then(|| actor.stamp());
        let written = custom.grant(key, &write.text, grant, &write.precondition, stamp).await?;
        Ok((written, warnings))
    }

    /// Stores a checked document; a dry run only checks that it could be stored, and returns `None`.
    pub(super) async fn store_document(
        &self,
        actor: Actor<'_>,
        write: &DocumentWrite,
    ) -> Result<Option<WriteResult>, CallError> {
        let (store, DocumentWrite { key, text, precondition, .. }) = (&self.services().store, write);
        if write.dry_run {
            store.check_put(key, precondition).await?;
            return Ok(None);
        }
        Ok(Some(store.put_document(key, text, precondition, actor.stamp()).await?))
    }

    /// Ends in memory the tokens and sessions that were deleted with a document.
    async fn end_dependents(&self, deleted: Deleted) {
        self.services().identity.drop_revoked(&deleted.tokens).await;
        for session in &deleted.sessions {
            self.dispatcher().end_session(&self.services().sessions, session).await;
        }
    }
}

/// The part of the platform that a change of a document affects, and who is told why it is refused.
pub(super) fn change_scope<'a>(actor: Actor<'_>, organization: Option<&'a Name>) -> ChangeScope<'a> {
    let sees_platform = actor.caller.organization.is_none();
    organization.map_or(ChangeScope::PLATFORM, |name| ChangeScope::organization(name, sees_platform))
}

/// The action of a write and its target, as the audit log names them.
fn action_and_target(key: &DocumentKey) -> (&'static str, String) {
    match key {
        DocumentKey::Platform => ("policy.put", "platform".to_owned()),
        DocumentKey::Policy(organization) => ("policy.put", organization.to_string()),
        DocumentKey::Agent { organization, agent } => ("agent.put", format!("{organization}/{agent}")),
        DocumentKey::Organization(name) => ("organization.put", name.to_string()),
        DocumentKey::Grant(namespace) => ("plugin.grant", namespace.to_string()),
        DocumentKey::ToolGrant(key) => ("tool.grant", key.namespace.to_string()),
        DocumentKey::PublisherKey(_, name) => ("publisher_key.put", name.to_string()),
        DocumentKey::Assertions(organization) => {
            ("assertions.put", organization.as_ref().map_or("platform", Name::as_str).to_owned())
        }
        DocumentKey::Tool(key) | DocumentKey::Mount(key) => ("tool.put", key.namespace.to_string()),
        DocumentKey::Enabled(key) => ("enabled.put", key.namespace.to_string()),
    }
}

/// Organizations, tools and mounts have functions of their own.
fn not_written_whole(key: &DocumentKey) -> CallError {
    CallError::new(
        ErrorType::Internal,
        format!("the document `{key}` is not written as a text"),
        "tell the operator",
    )
}

/// The warning about agents that a policy leaves without tools, computed on a blocking thread beside running calls.
async fn agents_without_tools(
    key: RuleKey,
    before: Option<Arc<Snapshot>>,
    after: Snapshot,
) -> Option<Warning> {
    if matches!(key, RuleKey::Agent(..)) {
        return None;
    }
    let compare = move || left_with_nothing(&key, before.as_deref(), &after);
    // The task fails where the runtime shuts down; then no caller is left.
    tokio::task::spawn_blocking(compare).await.ok().flatten()
}

/// Refuses a document with warnings where the caller asked for it (`strict=true`).
pub(super) fn check_strict(warnings: &[Warning], strict: bool) -> Result<(), CallError> {
    let Some(first) = warnings.first().filter(|_| strict) else { return Ok(()) };
    let hint = match &first.nearest {
        Some(nearest) => format!("did you mean `{nearest}`? Or send it without `strict=true`"),
        None => "correct the document, or send it without `strict=true`".to_owned(),
    };
    let details = json!({"pointer": first.path, "code": first.code});
    Err(CallError::new(ErrorType::InvalidPolicy, first.message.clone(), hint).with_details(details))
}

/// Parses a grant and checks that its certificates can be used.
fn parse_grant(text: &str) -> Result<Grant, CallError> {
    let grant = Grant::parse(text).map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?;
    match grant.extra_ca.iter().position(|pem| !toolgate_sandbox::is_certificate(pem)) {
        None => Ok(grant),
        Some(index) => {
            let hint = "give the certificate of the authority itself, as PEM";
            Err(CallError::new(ErrorType::InvalidPolicy, "the certificate cannot be used", hint)
                .with_pointer(format!("/extra_ca/{index}")))
        }
    }
}
