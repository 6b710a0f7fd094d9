//! Enabling a plugin for an organization: the policy's list, settings, consent and connections (`toolgate org enable`).

use std::collections::BTreeSet;

use clap::Args;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolgate_api::catalogue::{CatalogueEntry, EnabledDocument, EnabledView, PluginConsent, PluginFacts};
use toolgate_api::consent::ConsentState;
use toolgate_api::credential::{
    CredentialDraft, CredentialKind, CredentialView, DiscoveryRequest, DiscoveryView,
};
use toolgate_api::document::DocumentAccepted;
use toolgate_api::network::{HostPattern, NetworkRule, NetworkScheme};

use super::ask::asks;
use super::client::{Client, escape};
use super::credential::connect;
use super::document::{self, arguments_from};
use super::failure::{Failure, Result};
use super::print::{Printer, visible};

#[derive(Args, Default)]
pub struct EnableOptions {
    /// The organization
    pub name: String,
    /// The plugin
    pub namespace: String,
    /// Its settings: JSON text, `@FILE`, or `-` for standard input; replaces all of them
    #[arg(long, alias = "config", value_name = "JSON|@FILE")]
    pub settings: Option<String>,
    #[command(flatten)]
    pub consent: ConsentOptions,
}

#[derive(Args, Clone, Copy, Default)]
pub struct ConsentOptions {
    /// Accept what the plugin may reach, after it is shown
    #[arg(long)]
    pub accept: bool,
    /// Accept without a question
    #[arg(long, requires = "accept")]
    pub yes: bool,
}

/// Enables a plugin: adds its tools to the policy, sets it up, accepts it, and tells what must still be connected.
pub(crate) async fn enable(client: &Client, printer: &mut Printer<'_>, options: &EnableOptions) -> Result {
    let EnableOptions { name, namespace, settings, consent } = options;
    let path = enabled_path(name, namespace);
    let plugin: EnabledView = client.get(&path).send().await?.body;
    let settings = settings.as_deref().map(settings_from).transpose()?;
    let accepts = plugin.facts.consent.keeps_out();
    if accepts {
        if !consent.accept {
            show(&plugin.facts, printer)?;
            let hint = format!(
                "nothing is changed; accept it with `toolgate org enable {name} {namespace} --accept` (with `--yes` where nobody can be asked)"
            );
            return Err(Failure::new(format!("`{name}` has not accepted the plugin `{namespace}`"), hint));
        }
        confirm(&plugin.facts, printer, consent.yes)?;
    }
    if accepts || settings.is_some() {
        let digest = plugin.facts.digest.clone();
        put(client, &path, settings, accepts.then_some(PluginConsent { digest, accept: true })).await?;
    }
    if !plugin.enabled {
        let accepted = add_to_policy(client, name, format!("{namespace}/*")).await?;
        document::warn(printer, &accepted.warnings)?;
    }
    let missing = &plugin.missing_integrations;
    let result = json!({"organization": name, "enabled": namespace, "accepted": accepts, "missing_integrations": missing});
    printer.result(&result, &format!("`{name}` has the plugin `{namespace}`"))?;
    if printer.is_json() { Ok(()) } else { connect_missing(client, printer, name, &plugin).await }
}

/// Withdraws the consent to a plugin, and removes its settings.
pub(crate) async fn withdraw(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &str,
    namespace: &str,
) -> Result {
    // `If-Match: *` instead of a tag: the plugin may be gone, and then its view cannot be read.
    client.delete(&enabled_path(name, namespace)).replacing(Some("*")).send::<IgnoredAny>().await?;
    let line = format!("`{name}` has withdrawn its consent to the plugin `{namespace}`, and its settings");
    Ok(printer.result(&json!({"organization": name, "withdrawn": namespace}), &line)?)
}

/// Accepts each plugin that the policy enables and that waits for consent, or warns of it.
pub(crate) async fn accept_enabled(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &str,
    consent: ConsentOptions,
) -> Result {
    let catalogue = format!("/v1/catalogue?org={}&kind=third_party", escape(name));
    let plugins: Vec<CatalogueEntry> = client.list_all(&catalogue).await?;
    for plugin in plugins.iter().filter(|plugin| plugin.enabled && plugin.facts.consent.keeps_out()) {
        let namespace = &plugin.facts.namespace;
        if !consent.accept {
            printer.warning(&format!(
                "no agent has the tools of `{namespace}` until `{name}` accepts it: `toolgate org enable {name} {namespace} --accept`"
            ))?;
            continue;
        }
        confirm(&plugin.facts, printer, consent.yes)?;
        let accepted = PluginConsent { digest: plugin.facts.digest.clone(), accept: true };
        put(client, &enabled_path(name, namespace), None, Some(accepted)).await?;
    }
    Ok(())
}

/// Shows the facts that a person reads before accepting a plugin.
fn show(facts: &PluginFacts, printer: &mut Printer<'_>) -> Result {
    let proven = if facts.publisher_proven { "proven by a signature" } else { "not proven" };
    let publisher = facts.publisher.as_deref().map_or_else(|| "unknown".to_owned(), visible);
    let again = match facts.consent {
        ConsentState::Outdated => ", which asks for more than was accepted, or has another publisher",
        _ => "",
    };
    printer.note(&format!("plugin `{}` {}{again}", facts.namespace, visible(&facts.version)))?;
    printer.note(&format!("  publisher: {publisher}, {proven}"))?;
    printer.note(&format!("  file:      {}", facts.digest))?;
    for permission in &facts.permissions {
        printer.note(&format!("  it {}", visible(permission)))?;
    }
    printer.note(&format!("  risk: {}", facts.risk.level))?;
    for reason in &facts.risk.reasons {
        printer.note(&format!("    - {reason}"))?;
    }
    Ok(())
}

fn confirm(facts: &PluginFacts, printer: &mut Printer<'_>, yes: bool) -> Result {
    show(facts, printer)?;
    if yes || asks("Accept this? [y/N] ")? {
        return Ok(());
    }
    Err(Failure::new(
        format!("the plugin `{}` was not accepted", facts.namespace),
        "add `--yes` if you accept it",
    ))
}

/// Writes settings and consent; settings that are not given stay.
async fn put(
    client: &Client,
    path: &str,
    settings: Option<Map<String, Value>>,
    consent: Option<PluginConsent>,
) -> Result {
    let body = |current: Option<&EnabledView>| {
        let config = settings.or_else(|| Some(current?.config.clone())).unwrap_or_default();
        serde_json::to_string(&EnabledDocument { config, consent }).unwrap_or_default()
    };
    document::put::<_, IgnoredAny>(client, path, body).await?;
    Ok(())
}

/// Adds tools to `enabled` of the policy, and keeps its other fields. `"*"` stays as it is.
async fn add_to_policy(client: &Client, name: &str, tools: String) -> Result<DocumentAccepted> {
    let body = |current: Option<&Value>| {
        let mut policy = current.cloned().unwrap_or_else(|| json!({}));
        match &mut policy["enabled"] {
            Value::Array(enabled) if enabled.iter().any(|entry| *entry == *tools || entry == "*") => {}
            Value::Array(enabled) => enabled.push(tools.into()),
            Value::String(_) => {}
            nothing => *nothing = json!([tools]),
        }
        policy.to_string()
    };
    let path = format!("/v1/orgs/{}/policy", escape(name));
    Ok(document::put(client, &path, body).await?.body)
}

/// Prints where a person connects each missing integration. A credential that does not exist is made where its service needs no
/// secret for it; otherwise the command is printed that stores it.
async fn connect_missing(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &str,
    plugin: &EnabledView,
) -> Result {
    if plugin.missing_integrations.is_empty() {
        return Ok(());
    }
    let stored: Vec<CredentialView> = client.list_all(&credentials_path(name)).await?;
    for provider in &plugin.missing_integrations {
        let is_for = |credential: &&CredentialView| {
            credential.provider == *provider && credential.kind == CredentialKind::AuthorizationCode
        };
        let is_taken =
            |credential: &CredentialView| credential.provider == *provider || credential.name == *provider;
        let credential = match stored.iter().find(is_for) {
            Some(credential) => Some(credential.name.clone()),
            None if stored.iter().any(is_taken) => None,
            None => make_public_credential(client, printer, name, provider, plugin).await?,
        };
        match credential {
            Some(credential) => {
                printer.note(&format!("connect `{provider}`:"))?;
                connect(client, printer, &format!("{name}/{credential}")).await?;
            }
            None => printer.warning(&format!(
                "`{provider}` is not connected: store its credential with `{}`",
                put_command(name, provider, plugin)
            ))?,
        }
    }
    Ok(())
}

/// Makes the credential of a provider, if the authorization server of a host that the plugin reaches takes the daemon as a client
/// without a secret. Returns its name.
async fn make_public_credential(
    client: &Client,
    printer: &mut Printer<'_>,
    name: &str,
    provider: &str,
    plugin: &EnabledView,
) -> Result<Option<String>> {
    // With several providers, it is unknown which host belongs to which.
    if plugin.capabilities.credentials != [provider] {
        return Ok(None);
    }
    for url in addresses(plugin) {
        let organization = Some(name.to_owned());
        let request = client.post("/v1/oauth/discover").json(&DiscoveryRequest { url, organization });
        // A service that cannot be asked is set up by hand.
        let Ok(found) = request.send::<DiscoveryView>().await else { continue };
        let Some(draft) = found.body.credential.filter(|draft| draft.client_id.is_some()) else { continue };
        let credential = CredentialDraft { provider: provider.to_owned(), ..draft };
        let path = format!("{}/{}", credentials_path(name), escape(provider));
        client.put(&path).json(&credential).send::<IgnoredAny>().await?;
        printer.note(&format!("credential `{name}/{provider}` is made for `{}`", credential.token_url))?;
        return Ok(Some(provider.to_owned()));
    }
    Ok(None)
}

/// The command that stores the credential of a provider, complete for a token in `Authorization`.
fn put_command(name: &str, provider: &str, plugin: &EnabledView) -> String {
    // The command is for a shell, and the plugin chose the name.
    let is_plain =
        |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    let provider = if is_plain(provider) { provider } else { "PROVIDER" };
    let to: String = addresses(plugin).iter().map(|url| format!(" --to {url}")).collect();
    let to = if to.is_empty() { " --to https://HOST/".to_owned() } else { to };
    format!(
        "toolgate credential put {name}/{provider} --provider {provider} --kind bearer{to} --secret-file -"
    )
}

/// The addresses that the plugin names: hosts over TLS, each with its port and without a path.
fn addresses(plugin: &EnabledView) -> Vec<String> {
    let named = |rule: &NetworkRule| match &rule.host {
        HostPattern::Exact(host) if rule.scheme == NetworkScheme::Https => {
            let port = rule.port.map(|port| format!(":{port}")).unwrap_or_default();
            Some(format!("https://{host}{port}/"))
        }
        _ => None,
    };
    let mut addresses: Vec<String> = plugin.capabilities.network.iter().filter_map(named).collect();
    let mut seen = BTreeSet::new();
    addresses.retain(|address| seen.insert(address.clone()));
    addresses
}

fn credentials_path(name: &str) -> String {
    format!("/v1/orgs/{}/credentials", escape(name))
}

fn settings_from(word: &str) -> Result<Map<String, Value>> {
    let text = arguments_from(word)?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(settings)) => Ok(settings),
        _ => Err(Failure::wrong_usage(
            "the settings are not a JSON object",
            "write them like `--settings '{\"region\":\"eu\"}'`, or name a file with `--settings @FILE`",
        )),
    }
}

fn enabled_path(name: &str, namespace: &str) -> String {
    format!("/v1/orgs/{}/enabled/{}", escape(name), escape(namespace))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    const DIGEST: &str = "sha256:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9";

    fn view(consent: &str, enabled: bool) -> Value {
        json!({
            "namespace": "mail", "kind": "third_party", "version": "1.2.0", "digest": DIGEST, "publisher": "Ada",
            "publisher_proven": false, "permissions": ["sends requests to `api.example`"],
            "risk": {"level": "medium", "reasons": ["it sends what it is given to the hosts that it names"]},
            "missing_integrations": [], "enabled": enabled, "consent": consent, "accepted": null,
            "config": {"region": "eu"}, "config_error": null, "config_schema": null,
            "capabilities": {"filesystem": "none", "network": [{"host": "api.example"}], "credentials": ["mail"]},
        })
    }

    /// A plugin that is enabled, and whose service `mail` is not connected.
    fn unconnected_plugin() -> Canned {
        let mut view = view("not_needed", true);
        view["missing_integrations"] = json!(["mail"]);
        Canned::json(200, view)
    }

    fn page(items: Value) -> Canned {
        Canned::json(200, json!({"items": items, "next_cursor": null}))
    }

    fn discovery(credential: Value) -> Canned {
        Canned::json(
            200,
            json!({"resource": null, "server": null, "other_issuers": [], "credential": credential,
                "redirect_url": "https://daemon.example/v1/oauth/callback", "public_client_redirect_url": null,
                "notes": [], "attempts": []}),
        )
    }

    fn draft() -> Value {
        json!({"provider": "api.example", "kind": "oauth2_authorization_code",
            "authorization_url": "https://login.example/authorize", "token_url": "https://login.example/token",
            "scopes": ["read"], "bound_to": [{"scheme": "https", "host": "api.example", "path": "/"}]})
    }

    #[tokio::test]
    async fn c6_a_credential_without_a_secret_is_made_and_connected() {
        let mut credential = draft();
        credential["client_id"] = json!("https://daemon.example/v1/oauth/clients/acme");
        let url = "https://login.example/authorize?client_id=x";
        let connect = json!({"url": url, "scopes": ["read"], "expires_ms": 1});
        let answers = vec![
            unconnected_plugin(),
            page(json!([])),
            discovery(credential.clone()),
            Canned::json(201, json!({})),
            Canned::json(200, connect),
        ];
        let run = run_enable(options(false), answers).await;
        run.result.expect("done");
        let lines: Vec<String> = run.asked.iter().map(|asked| asked.line().to_owned()).collect();
        let credentials = "/v1/orgs/acme/credentials";
        assert_eq!(
            lines[1..],
            [
                format!("GET {credentials}"),
                "POST /v1/oauth/discover".to_owned(),
                format!("PUT {credentials}/mail"),
                format!("POST {credentials}/mail/connect")
            ]
        );
        let asked: Value = serde_json::from_str(&run.asked[2].body).expect("json");
        assert_eq!(asked, json!({"url": "https://api.example/", "organization": "acme"}));
        credential["provider"] = json!("mail");
        assert_eq!(serde_json::from_str::<Value>(&run.asked[3].body).expect("json"), credential);
        assert!(run.out.contains(url), "{}", run.out);
    }

    #[tokio::test]
    async fn c6_a_service_that_needs_a_secret_gets_one_whole_command() {
        let command = "toolgate credential put acme/mail --provider mail --kind bearer --to https://api.example/ --secret-file -";
        for found in [discovery(draft()), discovery(Value::Null), Canned::json(503, json!({}))] {
            let run = run_enable(options(false), vec![unconnected_plugin(), page(json!([])), found]).await;
            run.result.expect("done");
            assert_eq!(run.asked.len(), 3, "nothing is stored");
            assert!(run.notes.contains(command), "{}", run.notes);
        }
    }

    async fn run_enable(options: EnableOptions, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| enable(client, printer, &options).await).await
    }

    fn options(accept: bool) -> EnableOptions {
        let consent = ConsentOptions { accept, yes: accept };
        EnableOptions { name: "acme".into(), namespace: "mail".into(), settings: None, consent }
    }

    #[tokio::test]
    async fn c6_a_plugin_is_shown_and_not_accepted_without_a_word() {
        let run = run_enable(options(false), vec![Canned::json(200, view("missing", false))]).await;
        let refused = run.result.expect_err("not accepted");
        assert!(refused.hint().contains("--accept"), "{}", refused.hint());
        for words in
            ["publisher: Ada, not proven", "it sends requests to `api.example`", "risk: medium", DIGEST]
        {
            assert!(run.notes.contains(words), "{words}: {}", run.notes);
        }
        assert_eq!(run.asked.len(), 1, "nothing is changed");
    }

    #[tokio::test]
    async fn c6_an_accepted_plugin_goes_into_the_policy_and_keeps_its_settings() {
        let accepted = Canned::json(200, json!({"warnings": []}));
        let answers = vec![
            Canned::json(200, view("missing", false)),
            Canned::json(200, view("missing", false)).with_etag("\"3\""),
            Canned::json(200, view("accepted", false)),
            Canned::json(200, json!({"enabled": ["files/*"], "disabled": []})).with_etag("\"7\""),
            accepted,
        ];
        let run = run_enable(options(true), answers).await;
        run.result.expect("done");
        assert_eq!(run.asked[2].line(), "PUT /v1/orgs/acme/enabled/mail");
        assert_eq!(run.asked[2].header("if-match"), Some("\"3\""));
        let sent: Value = serde_json::from_str(&run.asked[2].body).expect("json");
        let consent = json!({"digest": DIGEST, "accept": true});
        assert_eq!(sent, json!({"config": {"region": "eu"}, "consent": consent}));
        let policy: Value = serde_json::from_str(&run.asked[4].body).expect("json");
        assert_eq!(policy["enabled"], json!(["files/*", "mail/*"]));
        assert!(run.out.contains("`acme` has the plugin `mail`"), "{}", run.out);
    }

    #[tokio::test]
    async fn c6_a_policy_that_lists_the_plugin_stays() {
        let policy = json!({"enabled": ["mail/*"], "disabled": ["mail/send"]});
        let answers = vec![
            Canned::json(200, view("not_needed", false)),
            Canned::json(200, policy.clone()).with_etag("\"7\""),
            Canned::json(200, json!({"warnings": []})),
        ];
        let run = run_enable(options(false), answers).await;
        run.result.expect("done");
        assert_eq!(serde_json::from_str::<Value>(&run.asked[2].body).expect("json"), policy);
    }

    #[tokio::test]
    async fn c5_settings_are_set_without_a_consent_where_none_is_needed() {
        let answers = vec![
            Canned::json(200, view("not_needed", true)),
            Canned::json(200, view("not_needed", true)),
            Canned::json(201, view("not_needed", true)),
        ];
        let settings = Some(r#"{"region":"us"}"#.to_owned());
        let run = run_enable(EnableOptions { settings, ..options(false) }, answers).await;
        run.result.expect("done");
        assert_eq!(run.asked[2].header("if-none-match"), Some("*"));
        let sent: Value = serde_json::from_str(&run.asked[2].body).expect("json");
        assert_eq!(sent, json!({"config": {"region": "us"}}));
        assert_eq!(run.asked.len(), 3, "the policy has it already");
    }
}
