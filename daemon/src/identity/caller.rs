//! What a caller may do.
//!
//! `operator` includes `owner`, which includes `orchestrator` within its
//! organization; `auditor` stands apart. Each question looks at the role first
//! and answers `FORBIDDEN`, the same for whatever organization was named. Then it
//! looks at whose the thing is, and answers for another organization's what it
//! answers for one that does not exist (requirements, 9.5).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_admission::{CallError, ErrorType, Name};

use crate::documents::DocumentKey;

/// Who a token speaks for.
#[derive(Clone, Debug)]
pub struct Caller {
    pub token_id: Arc<str>,
    pub role: Role,
    /// None for the whole platform.
    pub organization: Option<Name>,
    /// The agents that an orchestrator may speak for; none named means all of its organization.
    pub agents: Option<Arc<[Name]>>,
    /// Cancelled when the token is revoked, for what outlives the request that brought it.
    pub revoked: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Operator,
    Owner,
    Orchestrator,
    Auditor,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Operator, Self::Owner, Self::Orchestrator, Self::Auditor];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Owner => "owner",
            Self::Orchestrator => "orchestrator",
            Self::Auditor => "auditor",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    fn includes(self, needed: Self) -> bool {
        match needed {
            Self::Operator => self == Self::Operator,
            Self::Owner => matches!(self, Self::Operator | Self::Owner),
            Self::Orchestrator => matches!(self, Self::Operator | Self::Owner | Self::Orchestrator),
            Self::Auditor => self == Self::Auditor,
        }
    }
}

impl Caller {
    /// The platform: plugins, organizations.
    pub fn may_operate(&self) -> Result<(), CallError> {
        self.need(Role::Operator)
    }

    /// What an organization owns: its agents and policies.
    pub fn may_own(&self, organization: &Name) -> Result<(), CallError> {
        self.need(Role::Owner)?;
        self.need_scope(organization, || DocumentKey::Organization(organization.clone()).to_string())
    }

    /// Opening sessions for an agent.
    pub fn may_orchestrate(&self, organization: &Name, agent: &Name) -> Result<(), CallError> {
        self.need(Role::Orchestrator)?;
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

    /// Using a session, given whose it is; none for a session that is not there,
    /// which gets the very answer of one that the caller may not use.
    pub fn may_use_session(&self, session: &str, agent: Option<(&Name, &Name)>) -> Result<(), CallError> {
        self.need(Role::Orchestrator)?;
        match agent {
            Some((organization, agent)) if self.covers(organization) && self.speaks_for(agent) => Ok(()),
            _ => Err(not_found(&format!("session `{session}`"))),
        }
    }

    /// Reading the audit log, of one organization or of all that the caller may
    /// read; answers the organization to search in, none for every one.
    pub fn may_audit(&self, organization: Option<&Name>) -> Result<Option<Name>, CallError> {
        if !matches!(self.role, Role::Operator | Role::Owner | Role::Auditor) {
            return Err(self.forbidden("owner` or `auditor"));
        }
        match organization {
            None => Ok(self.organization.clone()),
            Some(asked) => {
                self.need_scope(asked, || DocumentKey::Organization(asked.clone()).to_string())?;
                Ok(Some(asked.clone()))
            }
        }
    }

    /// Verifying the audit log's chain.
    pub fn may_verify(&self) -> Result<(), CallError> {
        match self.role {
            Role::Operator | Role::Auditor => Ok(()),
            Role::Owner | Role::Orchestrator => Err(self.forbidden("operator` or `auditor")),
        }
    }

    /// Making a token of `role` for `organization`: nobody gives away more than they have.
    pub fn may_issue(&self, role: Role, organization: Option<&Name>) -> Result<(), CallError> {
        match (role, organization) {
            (_, Some(organization)) if role != Role::Operator => self.may_own(organization),
            _ => self.may_operate(),
        }
    }

    /// Revoking the token `id`, given its organization; none for a token that is not there.
    pub fn may_see_token(&self, id: &str, organization: Option<Option<&Name>>) -> Result<(), CallError> {
        let scope = self.token_scope()?;
        match organization {
            Some(organization) if scope.is_none() || scope == organization => Ok(()),
            _ => Err(not_found(&format!("token `{id}`"))),
        }
    }

    /// The organization whose tokens the caller may list; none for all of them.
    pub fn token_scope(&self) -> Result<Option<&Name>, CallError> {
        self.need(Role::Owner)?;
        Ok(self.organization.as_ref())
    }

    fn need(&self, role: Role) -> Result<(), CallError> {
        if self.role.includes(role) { Ok(()) } else { Err(self.forbidden(role.as_str())) }
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

    fn forbidden(&self, needed: &str) -> CallError {
        CallError::new(
            ErrorType::Forbidden,
            format!("a token of role `{}` may not do this", self.role.as_str()),
            format!("use a token of role `{needed}`"),
        )
    }
}

/// INVARIANT: worded as the store words it, for things that are really not there.
fn not_found(what: &str) -> CallError {
    crate::store::StoreError::NotFound { what: what.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn only_operators_operate() {
        assert_eq!(answers(Caller::may_operate), [OK, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN]);
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
        assert_eq!(answers(Caller::may_verify), [OK, FORBIDDEN, FORBIDDEN, OK, OK]);
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
        let absent =
            |key: DocumentKey| CallError::from(crate::store::StoreError::NotFound { what: key.to_string() });
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
    fn every_role_reads_back() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("Operator"), None);
    }
}
