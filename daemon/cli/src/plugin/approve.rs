//! `toolgate plugin approve`: shows how a version that waits differs from the one that serves, and consents to it.

use clap::Args;
use toolgate_api::plugin::{
    GrantAfterApproval, PluginApproval, PluginApproved, PluginLoaded, PluginState, VersionDifference,
    VersionView,
};

use super::{path_in, show};
use crate::ask::asks;
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::print::Printer;

#[derive(Args)]
pub struct ApproveOptions {
    /// The plugin
    namespace: String,
    /// The digest of the version, to approve it without being asked [default: the one that waits]
    #[arg(long)]
    digest: Option<String>,
    /// Keep the plugin's grant although the version asks for other capabilities or limits
    #[arg(long, conflicts_with = "organization")]
    keep_grant: bool,
    /// Approve without asking what is shown
    #[arg(long)]
    yes: bool,
    /// The organization that has it for itself
    #[arg(long, visible_alias = "org", value_name = "ORG")]
    organization: Option<String>,
}

pub(super) async fn approve(client: &Client, printer: &mut Printer<'_>, options: &ApproveOptions) -> Result {
    let ApproveOptions { namespace, digest, keep_grant, yes, organization } = options;
    let path = path_in(organization.as_deref(), namespace);
    if let Some(digest) = digest {
        return send(client, printer, &path, digest, *keep_grant).await;
    }
    let shown: PluginLoaded = client.get(&path).send().await?.body;
    let waits =
        |version: &&VersionView| matches!(version.state, PluginState::Quarantined | PluginState::Canary);
    let Some(waiting) = shown.plugin.versions.iter().find(waits) else {
        let hint = "see the states of its versions with `toolgate plugin show`";
        return Err(Failure::new(format!("no version of `{namespace}` waits for consent"), hint));
    };
    printer.note(&format!("version {} ({})", waiting.version, waiting.digest))?;
    print_differences(printer, &waiting.diff)?;
    if *yes || asks("Serve this version? [y/N] ")? {
        return send(client, printer, &path, &waiting.digest, *keep_grant).await;
    }
    Err(Failure::new(
        "the version was not approved",
        format!("approve it with `{}`", command(organization.as_deref(), namespace, &waiting.digest)),
    ))
}

/// Asks at a terminal whether a version that was just loaded serves; elsewhere says how to approve it.
pub(super) async fn ask_for_consent(
    client: &Client,
    printer: &mut Printer<'_>,
    organization: Option<&str>,
    namespace: &str,
    digest: &str,
) -> Result {
    if asks("Serve this version? [y/N] ")? {
        return send(client, printer, &path_in(organization, namespace), digest, false).await;
    }
    let command = command(organization, namespace, digest);
    Ok(printer.note(&format!("the version before serves on; `{command}` approves this one"))?)
}

fn command(organization: Option<&str>, namespace: &str, digest: &str) -> String {
    let of = organization.map(|name| format!(" --organization {name}")).unwrap_or_default();
    format!("toolgate plugin approve {namespace} --digest {digest}{of}")
}

/// Prints each difference with the old and the new value.
pub(super) fn print_differences(printer: &mut Printer<'_>, differences: &[VersionDifference]) -> Result {
    for VersionDifference { tool, field, before, after } in differences {
        let tool = tool.as_ref().map(|tool| format!("{tool}: ")).unwrap_or_default();
        printer.note(&format!("{tool}{field}"))?;
        for (mark, value) in [("-", before), ("+", after)] {
            if let Some(value) = value {
                printer.note_lines(&format!("  {mark} "), value)?;
            }
        }
    }
    Ok(())
}

/// Approves the version with this digest.
pub(super) async fn send(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    digest: &str,
    keep_grant: bool,
) -> Result {
    let approval = PluginApproval { digest: digest.to_owned(), keep_grant };
    let post = client.post(&format!("{path}/approve")).json(&approval);
    let approved: PluginApproved = post.send().await?.body;
    if approved.grant == GrantAfterApproval::Removed {
        printer.warning(&format!(
            "the grant of `{}` is removed, since the version asks for other capabilities or limits: \
             grant anew what it needs with `toolgate plugin grant`",
            approved.plugin.namespace
        ))?;
    }
    show(printer, &approved.plugin, &approved)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::plugin;
    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::{Run, run_with};

    async fn run_command(digest: Option<&str>, yes: bool, answers: Vec<Canned>) -> Run {
        let digest = digest.map(str::to_owned);
        let options = ApproveOptions {
            namespace: "weather".into(),
            digest,
            keep_grant: false,
            yes,
            organization: None,
        };
        run_with(answers, false, async |client, printer| approve(client, printer, &options).await).await
    }

    fn waiting() -> Canned {
        let mut shown = plugin();
        shown["versions"] = json!([{"version": "2", "digest": "sha256:cd", "loaded_ms": 1, "state": "quarantined",
            "reason": null, "diff": [{"field": "purpose", "before": "Old.", "after": null}]}]);
        Canned::json(200, shown)
    }

    fn approval_response(grant: &str) -> Canned {
        let mut answer = plugin();
        answer["grant"] = json!(grant);
        Canned::json(200, answer)
    }

    #[tokio::test]
    async fn o2_what_waits_is_shown_and_approved_by_its_digest() {
        let run = run_command(None, true, vec![waiting(), approval_response("kept")]).await;
        run.result.expect("approved");
        assert!(run.notes.contains("purpose\n  - Old.\n"), "{}", run.notes);
        assert_eq!(run.asked[1].line(), "POST /v1/plugins/weather/approve");
        let body: Value = serde_json::from_str(&run.asked[1].body).expect("JSON");
        assert_eq!(body, json!({"digest": "sha256:cd", "keep_grant": false}));
    }

    #[tokio::test]
    async fn o2_nothing_is_approved_without_a_yes() {
        let run = run_command(None, false, vec![waiting()]).await;
        assert!(run.result.expect_err("asked").hint().contains("--digest sha256:cd"));
        assert_eq!(run.asked.len(), 1);
        let run = run_command(None, true, vec![Canned::json(200, plugin())]).await;
        assert!(run.result.expect_err("nothing").to_string().contains("no version of `weather` waits"));
    }

    #[tokio::test]
    async fn o2_a_grant_that_is_removed_is_told() {
        let run = run_command(Some("sha256:cd"), false, vec![approval_response("removed")]).await;
        run.result.expect("approved");
        assert_eq!(run.asked.len(), 1);
        assert!(run.notes.contains("the grant of `weather` is removed"), "{}", run.notes);
    }
}
