//! Authorization: the permissions of a caller.
//!
//! `operator` includes `owner`, which includes `orchestrator` within its organization; `auditor` is separate.
//! [`Access`] is the table of these roles. Each check first tests the role and returns `FORBIDDEN`, identical for
//! every organization. It then tests the ownership, and returns for another organization's object the same error as
//! for one that does not exist (requirements, 9.5).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::network::Network;
use toolgate_api::token::Role;
use toolgate_state::clock::now_ms;
use toolgate_state::documents::DocumentKey;

/// Identity that a token authenticates.
#[derive(Clone, Debug)]
pub struct Caller {
    pub token_id: Arc<str>,
    pub role: Role,
    /// `None` for the whole platform.
    pub organization: Option<Name>,
    /// The agents that an orchestrator may act for; `None` means all of its organization.
    pub agents: Option<Arc<[Name]>>,
    /// Cancelled when the token is revoked, for streams and tasks that outlive the request with it.
    pub revoked: CancellationToken,
    /// The time at which the token expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The networks that the token may be used from; `None` means every one.
    pub addresses: Option<Arc<[Network]>>,
    /// The user that the calls of a token of role `agent` are made for.
    pub user: Option<Arc<str>>,
}

/// Kinds of access that a role has or lacks.
///
/// INVARIANT: this is the only table of the permissions of each role. The middleware of the HTTP interface checks it
/// before a request is read, the checks below test it again for callers by other interfaces, and the OpenAPI document
/// shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The platform: plugins and organizations.
    Operate,
    /// An organization's own objects: its agents, policies and tokens.
    Own,
    /// The approvals of an organization.
    Decide,
    /// Sessions, their calls and their files.
    Orchestrate,
    /// The tools of an agent over MCP.
    UseTools,
    /// Read access to the audit log.
    Audit,
    /// Verification of the audit log's hash chain.
    Verify,
}

impl Access {
    /// Returns the roles with this access, the least privileged last.
    pub fn roles(self) -> &'static [Role] {
        match self {
            Self::Operate => &[Role::Operator],
            Self::Own => &[Role::Operator, Role::Owner],
            Self::Decide => &[Role::Operator, Role::Owner, Role::Approver],
            Self::Orchestrate => &[Role::Operator, Role::Owner, Role::Orchestrator],
            Self::UseTools => &[Role::Operator, Role::Owner, Role::Orchestrator, Role::Agent],
            Self::Audit => &[Role::Operator, Role::Owner, Role::Auditor],
            Self::Verify => &[Role::Operator, Role::Auditor],
        }
    }
}

impl Caller {
    /// The approver that a webhook is (G18). Ids of tokens have no colon.
    pub fn of_webhook(organization: &Name, webhook: &Name) -> Self {
        Self {
            token_id: format!("webhook:{webhook}").into(),
            role: Role::Approver,
            organization: Some(organization.clone()),
            agents: None,
            revoked: CancellationToken::new(),
            expires_ms: None,
            addresses: None,
            user: None,
        }
    }

    /// The daemon itself, which acts as an operator where the settings ask for an act. No token has its id.
    pub fn daemon() -> Self {
        Self {
            token_id: "toolgate".into(),
            role: Role::Operator,
            organization: None,
            agents: None,
            revoked: CancellationToken::new(),
            expires_ms: None,
            addresses: None,
            user: None,
        }
    }

    /// Whether the token is neither revoked nor expired.
    pub fn is_valid(&self, now_ms: u64) -> bool {
        !self.revoked.is_cancelled() && self.expires_ms.is_none_or(|end| now_ms < end)
    }

    /// The time at which the token expires. None if it does not, or not within the range of the clock.
    pub fn expiry(&self) -> Option<Instant> {
        let left = self.expires_ms?.saturating_sub(now_ms());
        Instant::now().checked_add(Duration::from_millis(left))
    }

    /// Waits until the token is revoked or expires.
    pub fn wait_for_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let (revoked, expiry) = (self.revoked.clone(), self.expiry());
        async move {
            match expiry {
                Some(expiry) => drop(timeout_at(expiry, revoked.cancelled()).await),
                None => revoked.cancelled().await,
            }
        }
    }

    /// Checks that the role has this access.
    pub fn may(&self, access: Access) -> Result<(), CallError> {
        let roles = access.roles();
        if roles.contains(&self.role) {
            return Ok(());
        }
        Err(CallError::new(
            ErrorType::Forbidden,
            format!("a token of role `{}` may not do this", self.role.as_str()),
            format!("use a token of role {}", one_of(roles)),
        ))
    }

    /// Checks that the token may be used from this address. A token that is bound to addresses is refused if none is
    /// known.
    pub fn may_come_from(&self, address: Option<IpAddr>) -> Result<(), CallError> {
        let Some(networks) = self.addresses.as_deref() else { return Ok(()) };
        let address = address.map(|address| address.to_canonical());
        if address.is_some_and(|address| networks.iter().any(|network| network.contains(address))) {
            return Ok(());
        }
        let shown = address.map_or_else(|| "an unknown address".to_owned(), |address| format!("`{address}`"));
        Err(CallError::new(
            ErrorType::Forbidden,
            format!("this token may not be used from {shown}"),
            "use it from an address of its `addresses`, or create another token",
        ))
    }

    /// Checks access to the approvals of an organization.
    pub fn may_decide(&self, organization: &Name) -> Result<(), CallError> {
        self.may(Access::Decide)?;
        self.need_scope(organization, || DocumentKey::Organization(organization.clone()).to_string())
    }

    /// Checks access to an organization's own objects: its agents and policies.
    pub fn may_own(&self, organization: &Name) -> Result<(), CallError> {
        self.may(Access::Own)?;
        self.need_scope(organization, || DocumentKey::Organization(organization.clone()).to_string())
    }

    /// Checks access to a document. An operator's grant to a tool of an organization is no object of the organization.
    pub fn may_change(&self, key: &DocumentKey) -> Result<(), CallError> {
        match (key, key.organization()) {
            (DocumentKey::ToolGrant(_), _) | (_, None) => self.may(Access::Operate),
            (_, Some(organization)) => self.may_own(organization),
        }
    }

    /// Checks that the caller may open sessions for an agent.
    pub fn may_orchestrate(&self, organization: &Name, agent: &Name) -> Result<(), CallError> {
        self.may(Access::Orchestrate)?;
        self.need_scope(organization, || DocumentKey::agent(organization, agent).to_string())?;
        if self.speaks_for(agent) {
            return Ok(());
        }
        Err(CallError::new(
            ErrorType::Forbidden,
            format!("this token does not speak for agent `{organization}/{agent}`"),
            "use a token that names the agent in `agents`",
        ))
    }

    /// Checks that the caller may use an agent's tools over MCP.
    pub fn may_use_tools(&self, organization: &Name, agent: &Name) -> Result<(), CallError> {
        self.may(Access::UseTools)?;
        match self.covers(organization) && self.speaks_for(agent) {
            true => Ok(()),
            false => Err(not_found(&DocumentKey::agent(organization, agent).to_string())),
        }
    }

    /// Checks access to a session, given its owner. `None` stands for a session that does not exist, which gets the
    /// same error as one that the caller may not use.
    pub fn may_use_session(&self, session: &str, agent: Option<(&Name, &Name)>) -> Result<(), CallError> {
        self.may(Access::Orchestrate)?;
        match agent {
            Some((organization, agent)) if self.covers(organization) && self.speaks_for(agent) => Ok(()),
            _ => Err(not_found(&format!("session `{session}`"))),
        }
    }

    /// Checks that the caller may list sessions, of one organization or of all that it may use. Returns the organization
    /// to list, or `None` for all. For a token for some agents, the list has the sessions of these alone.
    pub fn may_list_sessions(&self, organization: Option<&Name>) -> Result<Option<Name>, CallError> {
        self.may(Access::Orchestrate)?;
        match organization {
            None => Ok(self.organization.clone()),
            Some(asked) => {
                self.need_scope(asked, || DocumentKey::Organization(asked.clone()).to_string())?;
                Ok(Some(asked.clone()))
            }
        }
    }

    /// Checks read access to the audit log, of one organization or of all that the caller may read. Returns the
    /// organization to search in, or `None` for all.
    pub fn may_audit(&self, organization: Option<&Name>) -> Result<Option<Name>, CallError> {
        self.may(Access::Audit)?;
        match organization {
            None => Ok(self.organization.clone()),
            Some(asked) => {
                self.need_scope(asked, || DocumentKey::Organization(asked.clone()).to_string())?;
                Ok(Some(asked.clone()))
            }
        }
    }

    /// Checks that the caller may create a token of `role` for `organization`; a new token never exceeds the
    /// permissions of its creator.
    pub fn may_issue(&self, role: Role, organization: Option<&Name>) -> Result<(), CallError> {
        match (role, organization) {
            (_, Some(organization)) if role != Role::Operator => self.may_own(organization),
            _ => self.may(Access::Operate),
        }
    }

    /// Checks that the caller may revoke the token `id`, given its organization; the outer `None` stands for a token
    /// that does not exist.
    pub fn may_see_token(&self, id: &str, organization: Option<Option<&Name>>) -> Result<(), CallError> {
        let scope = self.token_scope()?;
        match organization {
            Some(organization) if scope.is_none() || scope == organization => Ok(()),
            _ => Err(not_found(&format!("token `{id}`"))),
        }
    }

    /// Returns the organization whose tokens the caller may list; `None` for all of them.
    pub fn token_scope(&self) -> Result<Option<&Name>, CallError> {
        self.may(Access::Own)?;
        Ok(self.organization.as_ref())
    }

    fn need_scope(&self, organization: &Name, what: impl Fn() -> String) -> Result<(), CallError> {
        if self.covers(organization) { Ok(()) } else { Err(not_found(&what())) }
    }

    fn covers(&self, organization: &Name) -> bool {
        self.organization.as_ref().is_none_or(|own| own == organization)
    }

    fn speaks_for(&self, agent: &Name) -> bool {
        self.agents.as_deref().is_none_or(|agents| agents.contains(agent))
    }
}

/// Formats roles for hints and for the OpenAPI document, each in backticks: `operator`, `owner` or `auditor`.
pub fn one_of(roles: &[Role]) -> String {
    let quoted: Vec<String> = roles.iter().map(|role| format!("`{}`", role.as_str())).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// INVARIANT: the wording is that of the store for objects that really do not exist.
fn not_found(what: &str) -> CallError {
    toolgate_state::store::StoreError::not_found(what).into()
}

#[cfg(test)]
mod tests {
    use toolgate_api::name::Namespace;

    use super::*;
    use toolgate_state::documents::ToolKey;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn caller(role: Role, organization: Option<&str>) -> Caller {
        Caller {
            token_id: "t".into(),
            role,
            organization: organization.map(name),
            agents: None,
            revoked: CancellationToken::new(),
            expires_ms: None,
            addresses: None,
            user: None,
        }
    }

    fn every_caller() -> [Caller; 5] {
        [
            caller(Role::Operator, None),
            caller(Role::Owner, Some("acme")),
            caller(Role::Orchestrator, Some("acme")),
            caller(Role::Auditor, Some("acme")),
            caller(Role::Auditor, None),
        ]
    }

    fn answers<T>(ask: impl Fn(&Caller) -> Result<T, CallError>) -> [Option<ErrorType>; 5] {
        every_caller().map(|caller| ask(&caller).err().map(|error| error.error_type))
    }

    const OK: Option<ErrorType> = None;
    const FORBIDDEN: Option<ErrorType> = Some(ErrorType::Forbidden);
    const NOT_FOUND: Option<ErrorType> = Some(ErrorType::NotFound);

    // The columns: operator, owner, orchestrator, auditor of `acme`, auditor of all.

    #[test]
    fn r9_16_what_an_operator_grants_is_changed_by_operators_alone() {
        let namespace = Namespace::parse("shop").expect("a namespace");
        let tool =
            |organization: &str| ToolKey { organization: name(organization), namespace: namespace.clone() };
        let change = |key: DocumentKey| answers(|caller| caller.may_change(&key));
        let of_operators = [OK, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN];
        assert_eq!(change(DocumentKey::ToolGrant(tool("acme"))), of_operators);
        assert_eq!(change(DocumentKey::Grant(namespace.clone())), of_operators);
        let of_owners = [OK, OK, FORBIDDEN, FORBIDDEN, FORBIDDEN];
        assert_eq!(change(DocumentKey::Enabled(tool("acme"))), of_owners);
        let of_others = [OK, NOT_FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN];
        assert_eq!(change(DocumentKey::Enabled(tool("rival"))), of_others);
    }

    #[test]
    fn a_token_that_is_bound_to_addresses_is_refused_where_none_is_known() {
        let network = Network::parse("10.0.0.0/8").expect("a network");
        let bound = Caller { addresses: Some(Arc::from([network])), ..caller(Role::Operator, None) };
        assert!(bound.may_come_from("10.1.2.3".parse().ok()).is_ok());
        assert!(bound.may_come_from("::ffff:10.1.2.3".parse().ok()).is_ok());
        assert!(bound.may_come_from("11.1.2.3".parse().ok()).is_err());
        assert!(bound.may_come_from(None).is_err());
        assert!(caller(Role::Operator, None).may_come_from(None).is_ok());
    }

    #[test]
    fn only_operators_operate() {
        assert_eq!(
            answers(|caller| caller.may(Access::Operate)),
            [OK, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN]
        );
    }

    #[test]
    fn owners_own_their_organization_and_see_no_other() {
        assert_eq!(
            answers(|caller| caller.may_own(&name("acme"))),
            [OK, OK, FORBIDDEN, FORBIDDEN, FORBIDDEN]
        );
        assert_eq!(
            answers(|caller| caller.may_own(&name("other"))),
            [OK, NOT_FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]
        );
    }

    #[test]
    fn orchestrators_speak_for_the_agents_of_their_organization_and_see_no_other() {
        let (acme, other, bot) = (name("acme"), name("other"), name("bot"));
        assert_eq!(answers(|caller| caller.may_orchestrate(&acme, &bot)), [OK, OK, OK, FORBIDDEN, FORBIDDEN]);
        assert_eq!(
            answers(|caller| caller.may_orchestrate(&other, &bot)),
            [OK, NOT_FOUND, NOT_FOUND, FORBIDDEN, FORBIDDEN]
        );
    }

    #[test]
    fn owners_and_auditors_read_the_audit_of_their_organization() {
        let (acme, other) = (name("acme"), name("other"));
        assert_eq!(answers(|caller| caller.may_audit(Some(&acme))), [OK, OK, FORBIDDEN, OK, OK]);
        assert_eq!(
            answers(|caller| caller.may_audit(Some(&other))),
            [OK, NOT_FOUND, FORBIDDEN, NOT_FOUND, OK]
        );
    }

    #[test]
    fn an_audit_search_that_names_no_organization_stays_within_the_callers() {
        let scope = |caller: Caller| caller.may_audit(None).expect("may read");
        assert_eq!(scope(caller(Role::Owner, Some("acme"))), Some(name("acme")));
        assert_eq!(scope(caller(Role::Auditor, Some("acme"))), Some(name("acme")));
        assert_eq!(scope(caller(Role::Auditor, None)), None);
        assert_eq!(scope(caller(Role::Operator, None)), None);
    }

    #[test]
    fn operators_and_auditors_verify() {
        assert_eq!(answers(|caller| caller.may(Access::Verify)), [OK, FORBIDDEN, FORBIDDEN, OK, OK]);
    }

    #[test]
    fn nobody_makes_a_token_that_may_do_more_than_they() {
        let acme = name("acme");
        let other = name("other");
        for role in [Role::Owner, Role::Orchestrator, Role::Auditor] {
            assert_eq!(
                answers(|caller| caller.may_issue(role, Some(&acme))),
                [OK, OK, FORBIDDEN, FORBIDDEN, FORBIDDEN]
            );
            assert_eq!(
                answers(|caller| caller.may_issue(role, Some(&other))),
                [OK, NOT_FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]
            );
            assert_eq!(
                answers(|caller| caller.may_issue(role, None)),
                [OK, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN]
            );
        }
        for organization in [None, Some(&acme)] {
            assert_eq!(
                answers(|caller| caller.may_issue(Role::Operator, organization)),
                [OK, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN]
            );
        }
    }

    #[test]
    fn a_token_for_named_agents_speaks_for_no_other() {
        let (acme, bot, clerk) = (name("acme"), name("bot"), name("clerk"));
        let mut caller = caller(Role::Orchestrator, Some("acme"));
        caller.agents = Some(Arc::from([bot.clone()]));
        caller.may_orchestrate(&acme, &bot).expect("named");
        let error = caller.may_orchestrate(&acme, &clerk).expect_err("not named");
        assert_eq!(error.error_type, ErrorType::Forbidden);
        caller.may_use_session("s", Some((&acme, &bot))).expect("its session");
    }

    #[test]
    fn a_session_that_one_may_not_use_looks_like_none() {
        let (acme, other, bot, clerk) = (name("acme"), name("other"), name("bot"), name("clerk"));
        let mut caller = caller(Role::Orchestrator, Some("acme"));
        caller.agents = Some(Arc::from([bot.clone()]));
        let none = caller.may_use_session("s", None).expect_err("no session");
        assert_eq!(none.error_type, ErrorType::NotFound);
        for owner in [(&other, &bot), (&acme, &clerk)] {
            assert_eq!(caller.may_use_session("s", Some(owner)).expect_err("not its session"), none);
        }
    }

    #[test]
    fn what_another_organization_owns_gets_the_stores_answer_for_what_is_not_there() {
        let (acme, bot) = (name("acme"), name("bot"));
        let stranger = caller(Role::Owner, Some("other"));
        let absent = |key: DocumentKey| CallError::from(toolgate_state::store::StoreError::no_document(&key));
        assert_eq!(
            stranger.may_own(&acme).expect_err("foreign"),
            absent(DocumentKey::Organization(acme.clone()))
        );
        assert_eq!(
            stranger.may_orchestrate(&acme, &bot).expect_err("foreign"),
            absent(DocumentKey::agent(&acme, &bot))
        );
    }

    #[test]
    fn a_refusal_names_the_roles_that_would_do() {
        let error = caller(Role::Owner, Some("acme")).may(Access::Verify).expect_err("no auditor");
        assert_eq!(error.hint, "use a token of role `operator` or `auditor`");
        let error = caller(Role::Auditor, None).may(Access::Operate).expect_err("no operator");
        assert_eq!(error.hint, "use a token of role `operator`");
    }

    #[test]
    fn every_role_reads_back() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("Operator"), None);
    }
}
