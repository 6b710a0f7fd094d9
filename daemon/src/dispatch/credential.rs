//! The credentials of a call: for each request that it makes, the store is asked with what the call may use.
//!
//! What that is was decided when the call was: the providers that its plugin asks for and its operator granted, for the
//! session's organization and user (K2, K5). A call that may use none is not asked about.

use std::sync::Arc;

use toolgate_admission::{Admitted, CredentialRights, Permitted};
use toolgate_sandbox::{Component, Found};

use super::now_ms;
use crate::credentials::{CredentialRefusal, Credentials, Wanted};
use crate::sessions::Session;

/// What the sandbox asks about each permitted request of this call, those over plain HTTP too: a secret can come back with
/// any of them.
pub(super) fn of_call(
    store: &Credentials,
    session: &Arc<Session>,
    admitted: &Admitted<Component>,
) -> toolgate_sandbox::Credentials {
    let reach = admitted.reach();
    if reach.credentials().next().is_none() {
        return toolgate_sandbox::Credentials::NONE;
    }
    let providers: Arc<[String]> = reach.credentials().map(str::to_owned).collect();
    let user_credentials = reach.may_use_user_credentials();
    let (store, session) = (store.clone(), Arc::clone(session));
    let (told, organization) = (store.clone(), session.setup.organization.clone());
    let credentials = toolgate_sandbox::Credentials::new(move |permitted| {
        let (store, session, providers) = (store.clone(), Arc::clone(&session), Arc::clone(&providers));
        async move {
            let rights = CredentialRights {
                providers: &providers,
                user: session.setup.user.as_deref(),
                user_credentials,
            };
            Ok(find(&store, &session, rights, &permitted).await?)
        }
    });
    credentials.on_refusal(move |identity| told.refused(&organization, identity, now_ms()))
}

async fn find(
    store: &Credentials,
    session: &Session,
    rights: CredentialRights<'_>,
    permitted: &Permitted,
) -> Result<Found, CredentialRefusal> {
    let wanted = Wanted { organization: &session.setup.organization, rights, target: permitted.target() };
    store.for_request(&wanted, now_ms()).await
}
