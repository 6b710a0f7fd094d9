//! Custom tools of an organization: defined, imported, refreshed, approved and deleted.

use std::borrow::Cow;
use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use toolgate_api::custom_tool::CustomToolView;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_audit::AdminRecord;
use toolgate_macros::boxed;
use toolgate_openapi::Imported;
use toolgate_state::documents::{Precondition, ToolKey};

use super::{Actor, Admin};
use crate::custom::PutTool;

/// Limit on concurrent imports. A large document uses a processor for a second, and 300 MB of memory while it is parsed: its
/// objects and arrays are bounded, and take some hundred bytes each.
static IMPORTS: Semaphore = Semaphore::const_new(2);

/// The organizations with an import, which have one at a time: two of one would keep all others out.
static IMPORTING: Mutex<BTreeSet<Name>> = Mutex::new(BTreeSet::new());

/// The import of an organization.
struct Importing(Name);

impl Importing {
    fn begin(organization: &Name) -> Result<Self, CallError> {
        match IMPORTING.lock().insert(organization.clone()) {
            true => Ok(Self(organization.clone())),
            false => Err(CallError::new(
                ErrorType::Overloaded,
                format!("another import of `{organization}` runs"),
                "send it again when that one has ended",
            )),
        }
    }
}

impl Drop for Importing {
    fn drop(&mut self) {
        IMPORTING.lock().remove(&self.0);
    }
}

#[boxed]
impl Admin {
    /// Creates or replaces a tool. A mounted server is asked for its tools first. A dry run checks the tool alone.
    pub async fn put_custom_tool(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        definition: &str,
        precondition: &Precondition,
        dry_run: bool,
    ) -> Result<PutTool, CallError> {
        let origin = actor.origin();
        let stamp = (!dry_run).then(|| actor.stamp());
        let putting = self.custom().put(key, definition, precondition, &origin, stamp);
        if dry_run {
            actor.caller.may_own(&key.organization)?;
            return putting.await;
        }
        self.change_custom_tool(actor, key, "tool.put", putting).await
    }

    /// Imports an OpenAPI document, which `import` converts, and creates the tool unless `is_dry`.
    pub async fn import_custom_tool(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        import: impl FnOnce() -> Result<Imported, CallError> + Send + 'static,
        is_dry: bool,
    ) -> Result<(Imported, Option<CustomToolView>), CallError> {
        self.expect_own(actor.caller, &key.organization)?;
        // A blocking task cannot be aborted: if the client disconnects, it runs to its end and keeps its permit until
        // then.
        let own = Importing::begin(&key.organization)?;
        let permit = IMPORTS.acquire().await;
        let importing = tokio::task::spawn_blocking(move || {
            let _permits = (permit, own);
            import()
        });
        let imported = importing.await.map_err(|_| {
            let hint = "tell the operator; the daemon's log says more";
            CallError::new(ErrorType::Internal, "the import failed", hint)
        })??;
        if is_dry {
            return Ok((imported, None));
        }
        let (text, origin) = (imported.definition.to_string(), actor.origin());
        let putting = self.custom().put(key, &text, &Precondition::Absent, &origin, Some(actor.stamp()));
        let put = self.change_custom_tool(actor, key, "tool.import", putting).await?;
        Ok((imported, Some(put.view)))
    }

    /// Deletes a tool.
    pub async fn delete_custom_tool(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        precondition: &Precondition,
    ) -> Result<(), CallError> {
        let deleting = self.custom().remove(key, precondition, actor.stamp());
        self.change_custom_tool(actor, key, "tool.remove", deleting).await
    }

    /// Asks a mounted server for its tools again. Changes wait for consent.
    pub async fn refresh_custom_tool(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
    ) -> Result<CustomToolView, CallError> {
        let origin = actor.origin();
        let refreshing = self.custom().refresh(key, &origin);
        self.change_custom_tool(actor, key, "tool.refresh", refreshing).await
    }

    /// Consents to the changed tools of a mounted server, if their digest is this one.
    pub async fn approve_custom_tool(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        digest: &str,
    ) -> Result<CustomToolView, CallError> {
        let approving = self.custom().approve(key, digest);
        self.change_custom_tool(actor, key, "tool.approve", approving).await
    }

    async fn change_custom_tool<T>(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        action: &'static str,
        change: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        actor.caller.may_own(&key.organization)?;
        let changed = self
            .run_audited(actor.action(Some(&key.organization), action, key.namespace.as_str()), change)
            .await;
        if let Some(details) = changed.as_ref().err().and_then(left_out) {
            self.record_left_out(actor, key, &details).await?;
        }
        changed
    }

    /// Records why no tool of a server can be mounted, as an act of its own: the outcome of the act that found it out has no
    /// room for it.
    async fn record_left_out(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        details: &RawValue,
    ) -> Result<(), CallError> {
        let act = AdminRecord {
            organization: Some(key.organization.as_str().into()),
            principal: Cow::Borrowed(&actor.caller.token_id),
            action: "tool.left_out".into(),
            target: key.namespace.as_str().into(),
            outcome: ErrorType::InvalidPolicy.as_str().into(),
            revision: None,
            details: Some(Cow::Borrowed(details)),
            source: actor.source.into(),
        };
        let recorded = self.services().audit.admin(act).await;
        recorded.map_err(CallError::from)
    }
}

/// The left-out tools in the details of an error.
fn left_out(error: &CallError) -> Option<Box<RawValue>> {
    let details = error.details_json()?;
    serde_json::value::to_raw_value(&json!({"left_out": details.get("left_out")?})).ok()
}
