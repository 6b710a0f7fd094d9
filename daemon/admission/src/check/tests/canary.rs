//! A canary takes its share of the calls, by the same decision as the serving version (O1).

use super::*;
use crate::rules::Canary;

/// A plugin whose canary has the digest `[8; 32]` and its tools in another order.
fn rules_with_canary(agent: &str) -> Rules<&'static str> {
    let canary =
        Plugin { digest: Digest::from_sha256([8; 32]), ..Plugin::clone(&plugin("crm", &["b", "a"])) };
    let canary = Some(Canary { plugin: Arc::new(canary), percent: 50 });
    rules_of(vec![Arc::new(Plugin { canary, ..Plugin::clone(&plugin("crm", &["a", "b"])) })], agent)
}

fn call_with(draw: CanaryDraw) -> ToolCall {
    ToolCall { draw, ..call("crm/a", "{}") }
}

fn draws() -> impl Iterator<Item = CanaryDraw> {
    (0..100).map(CanaryDraw::of_hash)
}

#[test]
fn o1_a_call_runs_on_the_version_that_it_draws() {
    let rules = rules_with_canary(r#"{"enabled":"*"}"#);
    let mut taken = 0;
    for draw in draws() {
        let Verdict::Run(checked) = check(&rules, &SessionFacts::default(), call_with(draw)) else {
            panic!("the call is refused");
        };
        assert_eq!(checked.id().to_string(), "crm/a", "the tool keeps its name in another order");
        let is_canary = *checked.digest() == Digest::from_sha256([8; 32]);
        assert_eq!(is_canary, draw.is_within(50));
        taken += u32::from(is_canary);
    }
    assert_eq!(taken, 50);
}

#[test]
fn o1_a_call_that_needs_an_approval_runs_on_the_serving_version() {
    let rules = rules_with_canary(r#"{"enabled":"*","autonomy":"supervised"}"#);
    for draw in draws() {
        let Verdict::NeedsApproval(unapproved) = check(&rules, &SessionFacts::default(), call_with(draw))
        else {
            panic!("no approval is needed");
        };
        assert_eq!(*unapproved.digest(), Digest::from_sha256([7; 32]));
    }
}

#[test]
fn o1_without_a_canary_every_call_runs_on_the_serving_version() {
    let rules = rules(r#"{"enabled":"*"}"#);
    for draw in draws() {
        let call = ToolCall { draw, ..call("crm/search", "{}") };
        let Verdict::Run(checked) = check(&rules, &SessionFacts::default(), call) else {
            panic!("the call is refused");
        };
        assert_eq!(*checked.digest(), Digest::from_sha256([7; 32]));
    }
}
