//! `toolgate plugin`: manages the plugins of a running daemon.

mod approve;
pub(crate) mod grant;
mod key;
mod load;
mod show;
mod signature;

use std::path::Path;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use toolgate_api::descriptor::LeftOut;
use toolgate_api::plugin::{CapabilitiesView, PluginLoaded, PluginView};

use super::ask;
use super::client::{Client, escape};
use super::document::query;
use super::failure::{Failure, Result};
use super::history::DocumentName;
use super::list;
use super::print::{Printer, cell, word};
use super::watch::{WatchOptions, repeat};
use approve::ApproveOptions;
use grant::GrantOptions;
use key::KeyCommand;
pub use load::{LoadOptions, reload};
pub use signature::{find_signature, read_signature, signature_beside};

/// Examples of the subcommands.
pub const EXAMPLES: &str = "\
Examples:
  toolgate plugin load target/wasm32-wasip2/release/weather.wasm
  toolgate plugin load build/plugin.wasm --namespace weather --yes
  toolgate plugin load oci://registry.example.org/tools/weather:1.2.0
  toolgate plugin load weather.wasm --signature weather.wasm.sig
  toolgate plugin load weather.wasm --canary 10
  toolgate plugin load ours.wasm --organization acme
  toolgate plugin approve weather
  toolgate plugin approve weather --digest sha256:21fe… --keep-grant
  toolgate plugin key put acme-2026 --publisher acme --public-key ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= --namespace crm --namespace 'billing-*'
  toolgate plugin key list --organization acme
  toolgate plugin key show acme-2026
  toolgate plugin key revoke acme-2026
  toolgate plugin key remove acme-2026
  toolgate plugin list
  toolgate plugin show weather
  toolgate plugin grant weather grant.json
  toolgate plugin grant http hosts.json --add
  toolgate plugin grant weather --as-asked
  toolgate plugin grant weather --rollback
  toolgate plugin rollback weather
  toolgate plugin use weather@1.2.0
  toolgate plugin rollback ours --organization acme
  toolgate plugin disable weather
  toolgate plugin enable weather
  toolgate plugin remove weather";

/// Size limit of a plugin file, above the ceiling of `http.plugin_bytes`; a larger file is not read.
const FILE_BYTES: u64 = 512 << 20;

/// Subcommands of `toolgate plugin` that are requests. `import`, which reads OpenAPI documents, is the daemon's.
#[derive(Subcommand)]
pub enum PluginCommand {
    /// List the loaded plugins
    List {
        /// Only the plugins that this organization loaded for itself
        #[arg(long, visible_alias = "org", value_name = "ORG")]
        organization: Option<String>,
        #[command(flatten)]
        watch: WatchOptions,
    },
    /// Load a plugin file, or a new version of a loaded plugin
    Load(LoadOptions),
    /// Approve the version of a plugin that waits for consent, after a look at its differences
    Approve(ApproveOptions),
    /// List, add, revoke and remove the keys that prove who published a plugin file
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Show a plugin: its tools, its requested capabilities, its versions
    Show(PluginName),
    /// Replace the grant of a plugin, which limits what its calls may reach; without a file, show the grant
    Grant {
        /// The plugin
        namespace: String,
        #[command(flatten)]
        options: GrantOptions,
    },
    /// Remove a plugin with all its versions
    Remove(PluginName),
    /// Return to the version before the current one
    Rollback(PluginName),
    /// Serve a kept version of a plugin, before or after the current one
    Use {
        /// The plugin and the version, or its digest: `weather@1.2.0`
        #[arg(value_name = "NAME@VERSION", value_parser = parse_version)]
        version: PluginVersion,
        #[command(flatten)]
        owner: Owner,
    },
    /// Enable the tools of a disabled plugin
    Enable(PluginName),
    /// Disable the tools of a plugin, which stays loaded
    Disable(PluginName),
}

/// A plugin of the platform, or of an organization.
#[derive(Args, Clone, Debug)]
pub struct PluginName {
    /// The plugin
    namespace: String,
    #[command(flatten)]
    owner: Owner,
}

#[derive(Args, Clone, Debug)]
pub struct Owner {
    /// The organization that has it for itself
    #[arg(long, visible_alias = "org", value_name = "ORG")]
    organization: Option<String>,
}

impl PluginName {
    fn path(&self) -> String {
        path_in(self.owner.organization.as_deref(), &self.namespace)
    }
}

/// A plugin and one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginVersion {
    namespace: String,
    version: String,
}

fn parse_version(text: &str) -> Result<PluginVersion, String> {
    match text.split_once('@') {
        Some((namespace, version)) if !namespace.is_empty() && !version.is_empty() => {
            Ok(PluginVersion { namespace: namespace.to_owned(), version: version.to_owned() })
        }
        _ => {
            Err("write it like `weather@1.2.0`; `toolgate plugin show weather` lists the kept versions"
                .into())
        }
    }
}

pub async fn run(command: PluginCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        PluginCommand::List { organization, watch } => {
            let path = folder(organization.as_deref());
            let list =
                async |printer: &mut Printer<'_>| list::all(client, printer, &path, HEADINGS, row).await;
            repeat(printer, watch, list).await
        }
        PluginCommand::Load(options) => load::load(client, printer, &options).await,
        PluginCommand::Approve(options) => approve::approve(client, printer, &options).await,
        PluginCommand::Key { command } => key::run(command, client, printer).await,
        PluginCommand::Show(name) => {
            let plugin: PluginLoaded = client.get(&name.path()).send().await?.body;
            show::run(printer, &plugin)
        }
        PluginCommand::Grant { namespace, options } => {
            let name = DocumentName::grant(&namespace);
            let asked = async || {
                let plugin: PluginLoaded = client.get(&path(&namespace)).send().await?.body;
                Ok::<_, Failure>(plugin.plugin.capabilities)
            };
            grant::run(client, printer, &name, &format!("plugin `{namespace}`"), &options, asked).await
        }
        PluginCommand::Use { version, owner } => {
            let path = path_in(owner.organization.as_deref(), &version.namespace);
            let query = query(&[("version", Some(&version.version))]);
            let plugin: PluginView = client.post(&format!("{path}/rollback{query}")).send().await?.body;
            show(printer, &plugin, &plugin)
        }
        PluginCommand::Remove(name) => {
            ask::before_removal(printer, &format!("plugin `{}` with all its versions", name.namespace))?;
            client.delete(&name.path()).send::<IgnoredAny>().await?;
            let line = format!("plugin `{}` is removed", name.namespace);
            Ok(printer.result(&json!({"removed": name.namespace}), &line)?)
        }
        PluginCommand::Rollback(name) => post(client, printer, &name, "rollback").await,
        PluginCommand::Enable(name) => post(client, printer, &name, "enable").await,
        PluginCommand::Disable(name) => post(client, printer, &name, "disable").await,
    }
}

async fn post(client: &Client, printer: &mut Printer<'_>, name: &PluginName, verb: &str) -> Result {
    let plugin: PluginView = client.post(&format!("{}/{verb}", name.path())).send().await?.body;
    show(printer, &plugin, &plugin)
}

/// Prints a plugin; with `--json`, the whole response.
pub(crate) fn show(printer: &mut Printer<'_>, plugin: &PluginView, response: &impl Serialize) -> Result {
    let tools: Vec<_> = plugin.tools.iter().map(|tool| tool.wire_name.as_str()).collect();
    let asks = capabilities_text(&plugin.capabilities);
    let asks = if asks.is_empty() { asks } else { format!("; asks for {asks}") };
    let unused = match &plugin.capabilities.unused[..] {
        [] => String::new(),
        names => format!("; its runtime imports {}, unused", names.join(" and ")),
    };
    let PluginView { namespace, version, state, .. } = plugin;
    let line = format!("{namespace} {version} is {}: {}{asks}{unused}", word(state), tools.join(", "));
    printer.result(response, &line)?;
    if !printer.is_json() {
        for LeftOut { name, why } in &plugin.left_out {
            printer.line(&format!("  left out: {name}: {why}"))?;
        }
    }
    Ok(())
}

const HEADINGS: [&str; 5] = ["NAMESPACE", "VERSION", "STATE", "TOOLS", "PURPOSE"];

fn row(plugin: &PluginView) -> [String; 5] {
    [
        plugin.namespace.clone(),
        plugin.version.clone(),
        word(&plugin.state),
        plugin.tools.len().to_string(),
        cell(plugin.purpose.as_ref()),
    ]
}

/// Describes requested capabilities; empty if there are none.
pub(crate) fn capabilities_text(capabilities: &CapabilitiesView) -> String {
    let files = (capabilities.filesystem == "workspace").then(|| "files".to_owned());
    let rules = capabilities.network.iter().map(|rule| {
        let port = rule.port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = rule.path.as_deref().unwrap_or_default();
        format!("{}://{}{port}{path}", rule.scheme.as_str(), rule.host)
    });
    let credentials = capabilities.credentials.iter().map(|provider| format!("credentials of {provider}"));
    let calls = capabilities.calls.then(|| "calls of other tools".to_owned());
    let messages = capabilities.messages.then(|| "messages to agents".to_owned());
    let words = files.into_iter().chain(rules).chain(credentials).chain(calls).chain(messages);
    words.collect::<Vec<_>>().join(", ")
}

/// Reads the component from a file.
pub fn read_component(file: &Path) -> Result<Vec<u8>> {
    read_limited(
        file,
        FILE_BYTES,
        "give the component that `cargo build --target wasm32-wasip2 --release` made",
    )
}

fn read_limited(file: &Path, limit_bytes: u64, hint: &str) -> Result<Vec<u8>> {
    let cannot = |reason: String| Failure::new(format!("cannot read `{}`: {reason}", file.display()), hint);
    let bytes = file.metadata().map_err(|error| cannot(error.to_string()))?.len();
    if bytes > limit_bytes {
        return Err(cannot(format!("it has more than {limit_bytes} bytes")));
    }
    std::fs::read(file).map_err(|error| cannot(error.to_string()))
}

pub(crate) fn path(namespace: &str) -> String {
    path_in(None, namespace)
}

/// The path of a plugin of the platform, or of one that an organization loaded for itself.
pub(crate) fn path_in(organization: Option<&str>, namespace: &str) -> String {
    format!("{}/{}", folder(organization), escape(namespace))
}

fn folder(organization: Option<&str>) -> String {
    match organization {
        None => "/v1/plugins".to_owned(),
        Some(organization) => format!("/v1/orgs/{}/plugins", escape(organization)),
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::Value;

    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn run_command(command: PluginCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    pub fn plugin() -> Value {
        let tool = |name: &str| {
            json!({"name": name, "wire_name": format!("call_weather_{name}"), "original_name": null, "description": "",
                "read_only": true})
        };
        json!({"namespace": "weather", "version": "1.2.0", "digest": "sha256:ab", "publisher": null, "category": null,
            "purpose": "Weather", "built_in": false, "tools": [tool("current"), tool("forecast")],
            "capabilities": {"filesystem": "none", "network": [], "credentials": []}, "state": "active",
            "reason": null, "ignored_fields": [], "versions": [], "warnings": []})
    }

    fn weather() -> Canned {
        Canned::json(200, plugin())
    }

    #[tokio::test]
    async fn a_list_shows_each_plugin_with_its_state() {
        let item = plugin();
        let run = run_command(
            PluginCommand::List { organization: None, watch: WatchOptions::default() },
            vec![Canned::json(200, json!({"items": [item], "next_cursor": null}))],
        )
        .await;
        run.result.expect("listed");
        assert!(run.out.contains("weather    1.2.0    active  2      Weather"), "{}", run.out);
    }

    #[tokio::test]
    async fn each_act_has_its_address() {
        let name = |organization: Option<&str>| PluginName {
            namespace: "weather".to_owned(),
            owner: Owner { organization: organization.map(str::to_owned) },
        };
        let grant =
            PluginCommand::Grant { namespace: "weather".to_owned(), options: GrantOptions::default() };
        let network = Canned::json(200, json!({"network": []}));
        let cases = [
            (PluginCommand::Show(name(None)), weather(), "GET /v1/plugins/weather"),
            (grant, network, "GET /v1/plugins/weather/grant"),
            (PluginCommand::Rollback(name(None)), weather(), "POST /v1/plugins/weather/rollback"),
            (
                PluginCommand::Enable(name(Some("acme"))),
                weather(),
                "POST /v1/orgs/acme/plugins/weather/enable",
            ),
            (PluginCommand::Disable(name(None)), weather(), "POST /v1/plugins/weather/disable"),
            (PluginCommand::Remove(name(None)), Canned::empty(204), "DELETE /v1/plugins/weather"),
        ];
        for (command, answer, line) in cases {
            let run = run_command(command, vec![answer]).await;
            run.result.expect("done");
            assert_eq!(run.asked[0].line(), line);
        }
    }
}
