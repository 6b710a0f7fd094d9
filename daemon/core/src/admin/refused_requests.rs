//! Requests whose token is refused leave a record, an event and a metric (9.18, O3, O5): a token that is wrong, has ended, comes from a
//! foreign network or has another role.
//!
//! Equal ones are counted ([`RecentRefusals`](super::recent::RecentRefusals)): a stranger can send any number of them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use serde_json::json;
use serde_json::value::RawValue;
use toolgate_api::name::Name;
use toolgate_audit::AdminRecord;

use super::Admin;
use crate::identity::{RefusalReason, RefusedCredentials};

/// The principal of requests whose token stands for nobody.
const NOBODY: &str = "unknown";

/// Bits of an IPv6 address that one client has.
const CLIENT_BITS_V6: u128 = 64;

/// Refusals are equal if these are. The rest of too many has no address and no token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestKind {
    token: Option<String>,
    organization: Option<Name>,
    reason: RefusalReason,
    /// Of IPv6, the network of the client.
    address: Option<IpAddr>,
    source: &'static str,
}

impl Admin {
    /// Tells of a request that was refused for its credentials. `route` is its method and the path of its route.
    pub fn refuse_request(
        &self,
        refused: RefusedCredentials,
        address: Option<IpAddr>,
        route: &str,
        source: &'static str,
    ) {
        let RefusedCredentials { reason, token, organization } = refused;
        let services = self.services();
        services.metrics.count_refused_request(reason);
        // Clients begin without a token, to be told which one they need.
        if reason == RefusalReason::NoToken {
            return;
        }
        let (address, now) = (address.map(network_of), Instant::now());
        services.log.request_refused(reason.as_str(), token.as_deref(), address);
        let rest = RequestKind { token: None, organization: None, reason, address: None, source };
        let kind = RequestKind { token, organization, reason, address, source };
        if let Some(kind) = self.0.refused_requests.to_record(kind, rest, now) {
            self.record_refused_request(&kind, Some(route), None);
        }
    }

    /// Records the counts of refused requests whose minute is over, or all without `now`.
    pub(super) fn record_refused_requests(&self, now: Option<Instant>) {
        for (kind, count) in self.0.refused_requests.take_ended(now) {
            self.record_refused_request(&kind, None, Some(count));
        }
    }

    fn record_refused_request(&self, kind: &RequestKind, route: Option<&str>, repeated: Option<u64>) {
        let RequestKind { token, organization, reason, address, source } = kind;
        let mut details = json!({"reason": reason.as_str(), "address": address});
        // What a stranger calls his token proves nothing.
        if !reason.is_of_known_token() {
            details["claimed"] = json!(token);
        }
        if let Some(count) = repeated {
            details["repeated"] = json!(count);
        }
        let principal = token.as_deref().filter(|_| reason.is_of_known_token()).unwrap_or(NOBODY);
        // Nothing has happened: the next sync of the log has the record.
        drop(self.services().audit.admin(AdminRecord {
            organization: organization.as_ref().map(|organization| organization.as_str().into()),
            principal: principal.into(),
            action: "request.refuse".into(),
            target: route.unwrap_or_default().into(),
            outcome: reason.error_type().as_str().into(),
            revision: None,
            details: RawValue::from_string(details.to_string()).ok().map(Cow::Owned),
            source: (*source).into(),
        }));
    }
}

/// The network of one client: an IPv4 address, or the first half of an IPv6 address.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> CLIENT_BITS_V6 << CLIENT_BITS_V6).into(),
        address => address,
    }
}
