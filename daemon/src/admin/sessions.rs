//! Sessions: ended, and their tools switched.

use toolgate_api::error::CallError;

use super::{Actor, Admin};
use crate::clock::now_ms;
use crate::sessions::Session;
use crate::store::StoreError;

impl Admin {
    /// Ends a session: its running calls are cancelled, and its files removed.
    pub async fn end_session(&self, actor: Actor<'_>, session: &Session) -> Result<(), CallError> {
        let id = &session.setup.id;
        let ending = async {
            self.parts().store.end_session(id, now_ms()).await?;
            self.parts().dispatcher.end_session(&self.parts().sessions, id).await;
            Ok(())
        };
        self.run_audited(actor.action(Some(&session.setup.organization), "session.end", id), ending).await
    }

    /// Disables or enables a tool in a session, also one that was disabled for repeated failures.
    pub async fn switch_session_tool(
        &self,
        actor: Actor<'_>,
        session: &Session,
        tool: &str,
        disabled: bool,
    ) -> Result<(), CallError> {
        let (id, organization) = (&session.setup.id, &session.setup.organization);
        let catalogue = self.parts().registry.snapshot().catalogue_of(organization);
        let tool = catalogue
            .find(tool)
            .map(|tool| tool.id().clone())
            .ok_or_else(|| StoreError::not_found("such tool"))?;
        let action = if disabled { "session.tool.disable" } else { "session.tool.enable" };
        let target = format!("{id} {tool}");
        let switching = async {
            session.state.set_disabled(&tool, disabled);
            let (disabled, broken) = session.state.unavailable_tools();
            Ok(self.parts().store.set_tools_out(id, &disabled, &broken).await?)
        };
        self.run_audited(actor.action(Some(organization), action, &target), switching).await
    }
}
