//! Policy assertions, put in force and deleted (G17). `registry::assertions` checks every other change against them.

use toolgate_admission::Warning;
use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;

use super::{Actor, Admin, DocumentWrite};
use crate::clock::now_ms;
use crate::documents::{DocumentKey, Precondition};
use crate::registry::{ChangeScope, Replacement};
use crate::store::WriteResult;

impl Admin {
    /// Deletes the assertions of the platform or of an organization.
    pub async fn delete_assertions(
        &self,
        actor: Actor<'_>,
        organization: Option<&Name>,
        precondition: &Precondition,
    ) -> Result<(), CallError> {
        let key = DocumentKey::Assertions(organization.cloned());
        self.check_owner(actor, &key)?;
        let target = organization.map_or("platform", Name::as_str);
        self.run_audited(actor.action(organization, "assertions.delete", target), async {
            let _in_order = self.0.documents.lock().await;
            self.parts().store.delete_document(&key, precondition, now_ms()).await?;
            let none = AssertionsDocument::default();
            self.parts().registry.put(Replacement::Assertions(organization.cloned(), none));
            Ok(())
        })
        .await
    }

    /// Stores a document of assertions, if all of them hold.
    pub(super) async fn put_assertions(
        &self,
        organization: Option<&Name>,
        write: &DocumentWrite,
        sees_platform: bool,
    ) -> Result<(WriteResult, Vec<Warning>), CallError> {
        let (holder, scope) = match organization {
            None => (AssertionHolder::Platform, ChangeScope::PLATFORM),
            Some(name) => (AssertionHolder::Organization, ChangeScope::organization(name, sees_platform)),
        };
        let document = AssertionsDocument::parse(&write.text, holder)
            .map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?;
        let registry = &self.parts().registry;
        let _checked = registry.check_assertions(scope, &document).await?;
        let written = self.store_document(write).await?;
        registry.put(Replacement::Assertions(organization.cloned(), document));
        Ok((written, Vec::new()))
    }
}
