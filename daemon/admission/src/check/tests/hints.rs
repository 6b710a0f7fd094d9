//! Hints that loosen the gate count once they are confirmed (9.11).

use toolgate_api::grant::Grant;

use super::*;

const DIGEST: [u8; 32] = [7; 32];

/// The verdict on a call of a tool that declares `read_only`, from an uploaded plugin with this confirmation.
fn verdict(confirmed: Option<[u8; 32]>, autonomy: &str) -> Verdict<&'static str> {
    let described = json!({"name": "notes", "version": "1.0.0", "tools": [
        {"name": "read", "description": "Reads.", "usage": "Use it.", "input_schema": {"type": "object"},
         "hints": {"read_only": true, "destructive": false}}]});
    let mut plugin = Arc::into_inner(plugin_from(&described)).expect("the only one");
    plugin.has_trusted_hints = false;
    let confirmed_hints = confirmed.map(|sum| Digest::from_sha256(sum).to_string());
    plugin.granted = Arc::new(Grant { confirmed_hints, ..Grant::default() });
    let agent = format!(r#"{{"enabled":"*","autonomy":"{autonomy}"}}"#);
    check(&rules_of(vec![Arc::new(plugin)], &agent), &SessionFacts::default(), call("notes/read", "{}"))
}

#[test]
fn r9_11_an_uploads_hint_lifts_no_approval_until_it_is_confirmed_for_its_digest() {
    assert!(matches!(verdict(None, "supervised"), Verdict::NeedsApproval(_)));
    assert!(matches!(verdict(Some([8; 32]), "supervised"), Verdict::NeedsApproval(_)), "of another version");
    assert!(matches!(verdict(Some(DIGEST), "supervised"), Verdict::Run(_)));
}

#[test]
fn r9_11_an_agent_that_only_drafts_calls_no_tool_with_unconfirmed_hints() {
    assert!(matches!(verdict(None, "draft_only"), Verdict::Refused(_)));
    assert!(matches!(verdict(Some(DIGEST), "draft_only"), Verdict::Run(_)));
}
