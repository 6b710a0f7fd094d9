//! The risk of a plugin, and what it asks to reach, in the words that people read before they accept it (C4, C6).
//!
//! The risk is that of what the plugin asks for, not of what is granted now: a consent outlives a grant.

use toolgate_api::consent::{RiskLevel, RiskView};
use toolgate_api::grant::{Capabilities, FilesystemAccess};
use toolgate_api::network::{HostPattern, NetworkRule, NetworkScheme};
use toolgate_api::text::list;

use crate::rules::Plugin;

/// Says what a plugin asks to reach, a sentence each; nothing for one that only computes.
pub fn permissions_in_words(asked: &Capabilities) -> Vec<String> {
    let mut words = Vec::new();
    if asked.filesystem == FilesystemAccess::Workspace {
        words.push("reads and writes the files of the session's workspace".to_owned());
    }
    words.extend(asked.network.iter().map(rule_in_words));
    words.extend(asked.credentials.iter().map(|provider| format!("uses the credentials of `{provider}`")));
    if asked.calls {
        words.push("calls the agent's other tools".to_owned());
    }
    if asked.messages {
        words.push(
            "sends messages to other agents of the organization, and reads those to its own".to_owned(),
        );
    }
    words
}

fn rule_in_words(rule: &NetworkRule) -> String {
    let place = match &rule.host {
        HostPattern::Any => "any host".to_owned(),
        host => format!("`{host}`"),
    };
    let methods = match &rule.methods {
        Some(methods) => format!("{} requests", list(methods.iter().map(|method| &**method), usize::MAX)),
        None => "requests".to_owned(),
    };
    let port = if rule.port() == rule.scheme.default_port() {
        String::new()
    } else {
        format!(", port {}", rule.port())
    };
    let path = rule.path.as_deref().map(|path| format!(" below `{path}`")).unwrap_or_default();
    let plain = if rule.scheme == NetworkScheme::Http { ", without TLS" } else { "" };
    format!("sends {methods} to {place}{port}{path}{plain}")
}

/// Rates the risk of a plugin. `is_vouched_for` tells whether a signature proves its publisher, or the operator or the
/// organization answers for it.
pub fn risk<P>(plugin: &Plugin<P>, is_vouched_for: bool) -> RiskView {
    let mut reasons = reasons(plugin, is_vouched_for);
    // Stable: reasons of one level stay in the order of the table.
    reasons.sort_by(|(left, _), (right, _)| right.cmp(left));
    let level = reasons.first().map_or(RiskLevel::Low, |(level, _)| *level);
    RiskView { level, reasons: reasons.into_iter().map(|(_, reason)| reason).collect() }
}

fn reasons<P>(plugin: &Plugin<P>, is_vouched_for: bool) -> Vec<(RiskLevel, String)> {
    use RiskLevel::{High, Low, Medium};
    let asked = &plugin.descriptor.capabilities;
    let mut reasons = Vec::new();
    let mut add = |holds: bool, level, reason: &str| {
        if holds {
            reasons.push((level, reason.to_owned()));
        }
    };
    let has_network = !asked.network.is_empty();
    let has_files = asked.filesystem == FilesystemAccess::Workspace;
    let has_credentials = !asked.credentials.is_empty();
    let any_host = asked.network.iter().any(|rule| rule.host == HostPattern::Any);
    let changes = changing_tools(plugin);
    add(any_host, High, "it asks for any host, so data can go anywhere that the grant allows");
    add(has_files && has_network, High, "it reads files and sends requests, so it can carry files out");
    add(asked.calls, High, "it calls the agent's other tools, with all that these may do");
    add(
        has_credentials && changes,
        High,
        "it acts at a service in the organization's name, and may change things there",
    );
    add(has_credentials && !changes, Medium, "it reads at a service in the organization's name");
    add(
        has_network && !any_host && !has_files,
        Medium,
        "it sends what it is given to the hosts that it names",
    );
    add(has_files && !has_network && changes, Medium, "it may change or delete files of the session");
    add(has_files && !has_network && !changes, Low, "it reads files of the session");
    add(asked.messages, Medium, "it writes to other agents of the organization");
    // A plugin without any access has nothing to destroy, so unconfirmed hints are no risk.
    let unconfirmed = !plugin.has_confirmed_hints() && !asked.is_empty();
    add(
        unconfirmed,
        Medium,
        "no operator has confirmed what its tools say about their effects, so each counts as destructive",
    );
    let level = if asked.is_empty() { Low } else { Medium };
    add(!is_vouched_for, level, "no signature proves its publisher, and the operator does not vouch for it");
    add(asked.is_empty(), Low, "it only computes: no files, network, credentials or other tools");
    reasons
}

/// Whether one of its tools counts as changing something.
fn changing_tools<P>(plugin: &Plugin<P>) -> bool {
    let confirmed = plugin.has_confirmed_hints();
    plugin.descriptor.tools.iter().any(|tool| !confirmed || !tool.hints.read_only)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use toolgate_api::grant::Grant;

    use super::*;
    use crate::check::tests::plugin_from;

    fn plugin(capabilities: &Value, hints: &Value) -> Plugin<&'static str> {
        let schema = json!({"type": "object"});
        let tool =
            json!({"name": "t", "description": "D.", "usage": "U.", "input_schema": schema, "hints": hints});
        let description =
            json!({"name": "mail", "version": "1.0.0", "capabilities": capabilities, "tools": [tool]});
        let plugin = plugin_from(&description);
        Plugin { has_trusted_hints: false, granted: Arc::default(), ..Plugin::clone(&plugin) }
    }

    fn confirm_hints(plugin: &Plugin<&'static str>) -> Plugin<&'static str> {
        let confirmed_hints = Some(plugin.digest.to_string());
        plugin.with_grant(Arc::new(Grant { confirmed_hints, ..Grant::default() }))
    }

    #[test]
    fn c4_the_risk_is_that_of_what_is_asked_for() {
        let reads = json!({"read_only": true});
        let one = json!([{"host": "api.example"}]);
        for (capabilities, level) in [
            (json!({}), RiskLevel::Low),
            (json!({"filesystem": "workspace"}), RiskLevel::Low),
            (json!({"network": one}), RiskLevel::Medium),
            (json!({"network": one, "credentials": ["mail"]}), RiskLevel::Medium),
            (json!({"network": one, "filesystem": "workspace"}), RiskLevel::High),
            (json!({"network": [{"host": "*"}]}), RiskLevel::High),
            (json!({"calls": true}), RiskLevel::High),
            (json!({"messages": true}), RiskLevel::Medium),
        ] {
            let vetted = confirm_hints(&plugin(&capabilities, &reads));
            assert_eq!(risk(&vetted, true).level, level, "{capabilities}");
        }
    }

    #[test]
    fn c6_every_method_is_named() {
        let methods = ["GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "DELETE"];
        let asks = json!({"network": [{"host": "api.example", "methods": methods}]});
        let words = permissions_in_words(&plugin(&asks, &json!({})).descriptor.capabilities);
        assert!(methods.iter().all(|method| words[0].contains(&format!("`{method}`"))), "{words:?}");
    }

    #[test]
    fn c4_hints_that_nobody_confirmed_lower_no_risk() {
        let asks = json!({"network": [{"host": "api.example"}], "credentials": ["mail"]});
        let unconfirmed = plugin(&asks, &json!({"read_only": true}));
        assert_eq!(risk(&unconfirmed, true).level, RiskLevel::High);
        assert_eq!(risk(&confirm_hints(&unconfirmed), true).level, RiskLevel::Medium);
    }

    #[test]
    fn c6_a_publisher_that_nothing_proves_is_a_reason() {
        let asks = json!({"messages": true});
        let reasons =
            |is_vouched_for| risk(&confirm_hints(&plugin(&asks, &json!({}))), is_vouched_for).reasons;
        let names_publisher = |reasons: &[String]| reasons.iter().any(|reason| reason.contains("publisher"));
        assert!(names_publisher(&reasons(false)));
        assert!(!names_publisher(&reasons(true)));
    }

    #[test]
    fn c6_permissions_are_said_in_words() {
        let asks = json!({
            "network": [{"host": "api.example", "methods": ["GET"], "path": "/v1/"}, {"host": "*"}],
            "credentials": ["mail"], "filesystem": "workspace",
        });
        let words = permissions_in_words(&plugin(&asks, &json!({})).descriptor.capabilities);
        assert_eq!(
            words,
            [
                "reads and writes the files of the session's workspace",
                "sends `GET` requests to `api.example` below `/v1/`",
                "sends requests to any host",
                "uses the credentials of `mail`",
            ]
        );
        assert_eq!(permissions_in_words(&Capabilities::default()), [""; 0]);
    }
}
