//! The organization's layer: its policy, and what it compiles to.
//!
//! Until the full gate exists a policy holds limits and nothing else: an organization passes every tool that
//! the platform has, and a policy that says more is refused (requirements 9.9).

use super::document::{DocumentError, Fields, Warning, field, limits_without_effect};
use crate::limits::LimitsPatch;

const FIELDS: Fields = Fields {
    whose: "an organization's policy",
    known: &["limits"],
    to_come: &["enabled", "disabled", "profiles", "channels", "integrations", "broker", "quotas"],
};

/// An organization's policy, as it is stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrgDocument {
    /// Its limits.
    pub limits: LimitsPatch,
}

impl OrgDocument {
    /// Reads a policy, or says what is wrong with it and where.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = FIELDS.read(json)?;
        Ok(Self { limits: field(&value, "limits")?.unwrap_or_default() })
    }

    /// What is accepted and probably not meant.
    pub fn warnings(&self) -> Vec<Warning> {
        limits_without_effect(&self.limits).collect()
    }
}

/// What the organization's layer says. It passes every tool and holds the organization's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrgRules {
    limits: LimitsPatch,
}

impl OrgRules {
    /// The rules of a policy. The default has none, and takes nothing away.
    pub fn compile(document: &OrgDocument) -> Self {
        Self { limits: document.limits.clone() }
    }

    /// The organization's limits.
    pub fn limits(&self) -> &LimitsPatch {
        &self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LimitName;

    #[test]
    fn a_policy_holds_limits() {
        let document = OrgDocument::parse(r#"{"limits":{"fuel":5}}"#).unwrap();
        assert_eq!(OrgRules::compile(&document).limits().get(LimitName::Fuel), Some(5));
        assert_eq!(document.warnings(), []);
        assert_eq!(OrgDocument::parse("{}").unwrap(), OrgDocument::default());
    }

    #[test]
    fn a_limit_above_its_ceiling_is_warned_of() {
        let document = OrgDocument::parse(r#"{"limits":{"memories":65}}"#).unwrap();
        assert_eq!(document.warnings()[0].path, "/limits/memories");
    }

    #[test]
    fn a_policy_that_says_more_than_is_held_is_refused() {
        for field in FIELDS.to_come {
            let refused = OrgDocument::parse(&format!("{{\"{field}\":[]}}")).unwrap_err();
            assert!(refused.message.contains("nothing enforces"), "{refused}");
        }
        let misspelt = OrgDocument::parse(r#"{"limit":{}}"#).unwrap_err();
        assert_eq!((misspelt.place.as_str(), misspelt.hint.as_str()), ("/limit", "did you mean `limits`?"));
    }
}
