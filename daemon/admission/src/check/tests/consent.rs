//! The rule of consent (C6), and the settings of an organization (C5).

use super::*;
use crate::rules::{AcceptedPlugin, AgentRules, Consents, OrgFacts, OrgRules, PlatformRules};

/// Rules with `mail`, which the operator does not vouch for, and `crm`, which is built in.
fn rules_with(facts: impl FnOnce(&Catalogue<&'static str>) -> OrgFacts) -> Rules<&'static str> {
    let plugins = vec![plugin("mail", &["send"]), plugin("crm", &["search"])];
    let catalogue = Arc::new(Catalogue::new(LimitsPatch::new(), plugins));
    let platform = PlatformRules::compile(Arc::default(), &catalogue);
    let policy = Arc::new(OrgDocument::allow_all());
    let organization = OrgRules::compile(policy, facts(&catalogue), &platform, &catalogue);
    let document = AgentDocument::parse(r#"{"enabled":"*","autonomy":"autonomous"}"#).expect("an agent");
    let agent = AgentRules::compile(Arc::new(document), &organization, &platform, &catalogue);
    Rules {
        catalogue,
        platform: Arc::new(platform),
        organization: Arc::new(organization),
        agent: Arc::new(agent),
    }
}

fn consent_facts(accepted: BTreeMap<toolgate_api::name::Namespace, AcceptedPlugin>) -> OrgFacts {
    let crm = toolgate_api::name::Namespace::parse("crm").expect("a namespace");
    let exempt = Arc::new(BTreeSet::from([crm]));
    let consents = Consents { required: true, accepted: Arc::new(accepted), exempt };
    OrgFacts { consents, ..OrgFacts::default() }
}

fn runs(rules: &Rules<&'static str>, tool: &str) -> bool {
    matches!(check(rules, &SessionFacts::default(), call(tool, "{}")), Verdict::Run(_))
}

#[test]
fn c6_a_plugin_that_was_not_accepted_stays_out_until_it_is() {
    let without = rules_with(|_| consent_facts(BTreeMap::new()));
    let refused = refusal(&without, &SessionFacts::default(), "mail/send");
    assert_eq!((refused.reason.layer, refused.reason.rule), (Layer::Organization, "consent"));
    assert_eq!(refused.error.error_type, ErrorType::ToolDisabled);
    assert!(refused.error.message.contains("the plugin `mail`"), "{}", refused.error.message);
    assert!(refused.error.hint.contains("--accept"), "{}", refused.error.hint);
    assert!(runs(&without, "crm/search"));
    let with = rules_with(|catalogue| {
        let mail = catalogue.plugins().find(|plugin| plugin.descriptor.namespace.as_str() == "mail");
        let mail = mail.expect("it is loaded");
        consent_facts(BTreeMap::from([(mail.descriptor.namespace.clone(), AcceptedPlugin::of(mail))]))
    });
    assert!(runs(&with, "mail/send"));
    assert!(runs(&rules_with(|_| OrgFacts::default()), "mail/send"), "no consent is asked for");
}

#[test]
fn c6_a_tool_without_consent_is_neither_listed_nor_explained_as_callable() {
    let rules = rules_with(|_| consent_facts(BTreeMap::new()));
    let listed: Vec<String> =
        callable(&rules, &SessionFacts::default()).map(|(tool, _)| tool.id().to_string()).collect();
    assert_eq!(listed, ["crm/search"]);
    let steps = explain(&rules, &SessionFacts::default(), "mail/send");
    let refusing: Vec<_> = steps
        .iter()
        .filter(|step| step.verdict == StepVerdict::Refuses)
        .map(|step| step.reason.rule)
        .collect();
    assert_eq!(refusing, ["consent"]);
}

#[test]
fn c5_a_call_carries_the_settings_of_its_organization() {
    let rules = rules_with(|catalogue| {
        let crm = catalogue.find("crm/search").expect("it is loaded").id().namespace.clone();
        let settings = Arc::new(BTreeMap::from([(crm, Arc::from(r#"{"region":"eu"}"#))]));
        OrgFacts { settings, ..OrgFacts::default() }
    });
    let settings = |tool: &str| match check(&rules, &SessionFacts::default(), call(tool, "{}")) {
        Verdict::Run(checked) => checked.settings().map(ToString::to_string),
        other => panic!("{other:?}"),
    };
    assert_eq!(settings("crm/search").as_deref(), Some(r#"{"region":"eu"}"#));
    assert_eq!(settings("mail/send"), None);
}
