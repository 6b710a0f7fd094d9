//! Publishers' keys: stored as documents, and in force for the next load (O2).

use toolgate_admission::Warning;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_state::store::WriteResult;

use super::documents::check_strict;
use super::{Actor, Admin, DocumentWrite};
use crate::plugins::PublisherKey;

impl Admin {
    /// Checks a key of the platform (`None`) or of an organization, stores it and puts it in force.
    pub(super) async fn put_publisher_key(
        &self,
        actor: Actor<'_>,
        owner: Option<&Name>,
        name: &Name,
        write: &DocumentWrite,
    ) -> Result<(Option<WriteResult>, Vec<Warning>), CallError> {
        let key = PublisherKey::parse(&write.text)
            .map_err(|error| error.into_call_error(ErrorType::InvalidRequest))?;
        let covers_nothing = || Warning::new("NO_EFFECT", "/namespaces", "the key may publish no namespace");
        let warnings: Vec<_> = key.covers_nothing().then(covers_nothing).into_iter().collect();
        check_strict(&warnings, write.strict)?;
        let written = self.store_document(actor, write).await?;
        if written.is_some() {
            self.services().plugins.put_publisher_key(owner.cloned(), name.clone(), key);
        }
        Ok((written, warnings))
    }
}
