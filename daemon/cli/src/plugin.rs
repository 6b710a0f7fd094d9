//! `toolgate plugin`: manages the plugins of a running daemon.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolgate_api::descriptor::LeftOut;
use toolgate_api::document::DocumentAccepted;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{CapabilitiesView, HintsState, PluginLoaded, PluginView, RegistryLoad, ToolView};

use super::client::{Client, escape};
use super::document;
use super::failure::Failure;
use super::print::{Printer, cell, word};

/// Examples of the subcommands.
pub const EXAMPLES: &str = "\
Examples:
  toolgate plugin load target/wasm32-wasip2/release/weather.wasm
  toolgate plugin load build/plugin.wasm --namespace weather --yes
  toolgate plugin load oci://registry.example.org/tools/weather:1.2.0
  toolgate plugin list
  toolgate plugin show weather
  toolgate plugin grant weather grant.json
  toolgate plugin grant http hosts.json --add
  toolgate plugin rollback weather
  toolgate plugin disable weather
  toolgate plugin enable weather
  toolgate plugin remove weather";

/// Size limit of a plugin file, above the ceiling of `http.plugin_bytes`; a larger file is not read.
const FILE_BYTES: u64 = 512 << 20;

/// Subcommands of `toolgate plugin` that are requests. `import`, which reads OpenAPI documents, is the daemon's.
#[derive(Subcommand)]
pub enum PluginCommand {
    /// List the loaded plugins
    List,
    /// Load a plugin file, or a new version of a loaded plugin
    Load {
        /// The WebAssembly component, or `oci://HOST/REPOSITORY:TAG` in a registry of the daemon's settings
        file: PathBuf,
        /// The namespace in its description [default: from the name of the file or repository]
        #[arg(long, value_name = "NS")]
        namespace: Option<String>,
        /// Confirm the hints of its tools without asking
        #[arg(long)]
        yes: bool,
    },
    /// Show a plugin: its tools, its requested capabilities, its versions
    Show {
        /// The plugin
        namespace: String,
    },
    /// Replace the grant of a plugin, which limits what its calls may reach; without a file, show the grant
    Grant {
        /// The plugin
        namespace: String,
        /// A JSON file, or `-` for standard input
        file: Option<String>,
        /// Add to the current grant instead of replacing it
        #[arg(long, requires = "file")]
        add: bool,
    },
    /// Remove a plugin with all its versions
    Remove {
        /// The plugin
        namespace: String,
    },
    /// Return to the version before the current one
    Rollback {
        /// The plugin
        namespace: String,
    },
    /// Enable the tools of a disabled plugin
    Enable {
        /// The plugin
        namespace: String,
    },
    /// Disable the tools of a plugin, which stays loaded
    Disable {
        /// The plugin
        namespace: String,
    },
}

pub async fn run(command: PluginCommand, client: &Client, printer: &mut Printer<'_>) -> Result<(), Failure> {
    match command {
        PluginCommand::List => {
            let plugins: Vec<PluginView> = client.list_all("/v1/plugins").await?;
            Ok(printer.list(["NAMESPACE", "VERSION", "STATE", "TOOLS", "PURPOSE"], &plugins, row)?)
        }
        PluginCommand::Load { file, namespace, yes } => load(client, printer, &file, namespace, yes).await,
        PluginCommand::Show { namespace } => {
            let plugin: PluginLoaded = client.get(&path(&namespace)).send().await?.body;
            Ok(printer.json(&plugin)?)
        }
        PluginCommand::Grant { namespace, file: None, .. } => {
            show_grant(client, printer, &path(&namespace)).await
        }
        PluginCommand::Grant { namespace, file: Some(file), add } => {
            let accepted = grant(client, printer, &path(&namespace), &file, add).await?;
            let line = format!("plugin `{namespace}` has its grant, for calls from now on");
            Ok(printer.result(&accepted, &line)?)
        }
        PluginCommand::Remove { namespace } => {
            client.delete(&path(&namespace)).send::<IgnoredAny>().await?;
            let line = format!("plugin `{namespace}` is removed");
            Ok(printer.result(&json!({"removed": namespace}), &line)?)
        }
        PluginCommand::Rollback { namespace } => post(client, printer, &namespace, "rollback").await,
        PluginCommand::Enable { namespace } => post(client, printer, &namespace, "enable").await,
        PluginCommand::Disable { namespace } => post(client, printer, &namespace, "disable").await,
    }
}

async fn load(
    client: &Client,
    printer: &mut Printer<'_>,
    file: &Path,
    namespace: Option<String>,
    yes: bool,
) -> Result<(), Failure> {
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => namespace_of(file)?,
    };
    let put = client.put(&path(&namespace));
    let put = match reference(file) {
        Some(source) => {
            printer.note(&format!("loading `{namespace}`; the daemon gets it from the registry and compiles it"))?;
            put.json(&RegistryLoad { source: source.to_owned() })
        }
        None => {
            let component = read_component(file)?;
            let kib = component.len().div_ceil(1024);
            printer.note(&format!("loading `{namespace}` ({kib} KiB); the daemon compiles it"))?;
            put.body("application/wasm", component.into())
        }
    };
    let loaded: PluginLoaded = put.send().await?.body;
    document::warn(printer, &loaded.warnings)?;
    confirm_hints(client, printer, &loaded.plugin, yes).await?;
    show(printer, &loaded.plugin, &loaded)
}

/// Confirms the hints that loosen the gate, for the loaded file alone, if the operator says so (9.11).
async fn confirm_hints(
    client: &Client,
    printer: &mut Printer<'_>,
    plugin: &PluginView,
    yes: bool,
) -> Result<(), Failure> {
    let loosens = |tool: &&ToolView| {
        let hints = tool.details.hints;
        tool.details.hints_state == HintsState::Unconfirmed
            && (hints.read_only || !hints.destructive || !hints.open_world)
    };
    let tools: Vec<String> = plugin.tools.iter().filter(loosens).map(hints_line).collect();
    if tools.is_empty() {
        return Ok(());
    }
    printer.note(&format!("its tools say of themselves:\n  {}", tools.join("\n  ")))?;
    if !yes && !asks("Do these hints count? [y/N] ")? {
        let hint = "they count as tools that change something, until `--yes` or the grant's `confirmed_hints` confirms them";
        return Ok(printer.note(hint)?);
    }
    let added = json!({"confirmed_hints": plugin.digest}).to_string();
    let body = |before: Option<&Value>| before.map_or_else(|| added.clone(), |before| with(before, &added));
    let path = format!("{}/grant", path(&plugin.namespace));
    document::put::<Value, IgnoredAny>(client, &path, body).await?;
    Ok(())
}

fn hints_line(tool: &ToolView) -> String {
    let hints = tool.details.hints;
    let words = [
        (hints.read_only, "changes nothing"),
        (!hints.read_only && !hints.destructive, "destroys nothing"),
        (!hints.open_world, "reaches nothing outside"),
    ];
    let words: Vec<&str> = words.into_iter().filter_map(|(holds, word)| holds.then_some(word)).collect();
    format!("{}: {}", tool.wire_name, words.join(", "))
}

/// Asks at a terminal; elsewhere the answer is no.
pub fn asks(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    write!(anstream::stderr(), "{question}")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Prints the grant of the plugin or tool at a path.
pub async fn show_grant(client: &Client, printer: &mut Printer<'_>, path: &str) -> Result<(), Failure> {
    let grant: Value = client.get(&format!("{path}/grant")).send().await?.body;
    Ok(printer.json(&grant)?)
}

/// Replaces the grant of the plugin or tool at a path with the document of a file, or merges that into it.
pub async fn grant(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    file: &str,
    add: bool,
) -> Result<DocumentAccepted, Failure> {
    let text = document::document_from(file)?;
    let body = |before: Option<&Value>| match before.filter(|_| add) {
        Some(before) => with(before, &text),
        None => text,
    };
    let accepted: DocumentAccepted = document::put(client, &format!("{path}/grant"), body).await?.body;
    document::warn(printer, &accepted.warnings)?;
    Ok(accepted)
}

/// Merges two grants: lists are joined, and other fields of the added grant replace those of the first.
fn with(before: &Value, added: &str) -> String {
    let Ok(Value::Object(added_members)) = serde_json::from_str(added) else { return added.to_owned() };
    let mut grant = before.as_object().cloned().unwrap_or_default();
    for (name, value) in added_members {
        match (grant.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => {
                let new: Vec<Value> = more.into_iter().filter(|item| !list.contains(item)).collect();
                list.extend(new);
            }
            (_, value) => drop(grant.insert(name, value)),
        }
    }
    Value::Object(grant).to_string()
}

async fn post(
    client: &Client,
    printer: &mut Printer<'_>,
    namespace: &str,
    verb: &str,
) -> Result<(), Failure> {
    let plugin: PluginView = client.post(&format!("{}/{verb}", path(namespace))).send().await?.body;
    show(printer, &plugin, &plugin)
}

/// Prints a plugin; with `--json`, the whole response.
fn show(printer: &mut Printer<'_>, plugin: &PluginView, response: &impl Serialize) -> Result<(), Failure> {
    let tools: Vec<_> = plugin.tools.iter().map(|tool| tool.wire_name.as_str()).collect();
    let asks = capabilities_text(&plugin.capabilities);
    let asks = if asks.is_empty() { asks } else { format!("; asks for {asks}") };
    let unused = match &plugin.capabilities.unused[..] {
        [] => String::new(),
        names => format!("; its runtime imports {} without using them", names.join(" and ")),
    };
    let PluginView { namespace, version, state, .. } = plugin;
    let mut line = format!("{namespace} {version} is {}: {}{asks}{unused}", word(state), tools.join(", "));
    for LeftOut { name, why } in &plugin.left_out {
        line += &format!("\n  left out: {name}: {why}");
    }
    Ok(printer.result(response, &line)?)
}

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
pub fn capabilities_text(capabilities: &CapabilitiesView) -> String {
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
pub fn read_component(file: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |reason: String| {
        let hint = "give the component that `cargo build --target wasm32-wasip2 --release` made";
        Failure::new(format!("cannot read `{}`: {reason}", file.display()), hint)
    };
    let bytes = file.metadata().map_err(|error| cannot(error.to_string()))?.len();
    if bytes > FILE_BYTES {
        return Err(cannot(format!("it is larger than {} MiB", FILE_BYTES >> 20)));
    }
    std::fs::read(file).map_err(|error| cannot(error.to_string()))
}

/// The reference to a plugin in a registry, if it is none to a file.
fn reference(file: &Path) -> Option<&str> {
    file.to_str().filter(|text| text.starts_with("oci://"))
}

/// Derives the namespace from a file name: Cargo writes `my_plugin.wasm` for the package of the plugin `my-plugin`. For a
/// reference it is the end of the repository's path.
fn namespace_of(file: &Path) -> Result<String, Failure> {
    let stem = match reference(file).and_then(|reference| reference.split('@').next()?.rsplit('/').next()) {
        Some(repository) => repository.split(':').next(),
        None => file.file_stem().and_then(|stem| stem.to_str()),
    };
    let stem = stem.unwrap_or_default().replace('_', "-");
    match Namespace::parse(&stem) {
        Ok(_) => Ok(stem),
        Err(_) => Err(Failure::wrong_usage(
            format!("the name of `{}` is no namespace", file.display()),
            "say which it is with `--namespace NS`",
        )),
    }
}

fn path(namespace: &str) -> String {
    format!("/v1/plugins/{}", escape(namespace))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn run_command(command: PluginCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    fn plugin() -> Value {
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
    async fn a_file_is_loaded_under_its_own_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("my_weather.wasm");
        std::fs::write(&file, "\0asm").expect("written");
        let run =
            run_command(PluginCommand::Load { file, namespace: None, yes: false }, vec![weather()]).await;
        run.result.expect("loaded");
        assert_eq!(run.asked[0].line(), "PUT /v1/plugins/my-weather");
        assert_eq!(run.asked[0].header("content-type"), Some("application/wasm"));
        assert_eq!(run.asked[0].body, "\0asm");
        assert_eq!(run.out, "weather 1.2.0 is active: call_weather_current, call_weather_forecast\n");
    }

    #[tokio::test]
    async fn what_is_odd_about_a_plugin_is_said_when_it_is_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("weather.wasm");
        std::fs::write(&file, "\0asm").expect("written");
        let mut answer = plugin();
        answer["warnings"] = json!([{"code": "NOTHING_RUNS", "message": "with a `fuel` of 0 no call can run", "path": "/limits/fuel"}]);
        let load = PluginCommand::Load { file, namespace: None, yes: false };
        let run = run_command(load, vec![Canned::json(200, answer)]).await;
        run.result.expect("loaded");
        assert!(run.notes.contains("with a `fuel` of 0 no call can run (`/limits/fuel`)"), "{}", run.notes);
    }

    #[tokio::test]
    async fn o1_a_reference_is_loaded_by_the_daemon() {
        for (text, namespace) in [
            ("oci://127.0.0.1:5000/tools/my_weather:1.2.0", "my-weather"),
            ("oci://registry.example.org/weather@sha256:ab", "weather"),
            ("oci://registry.example.org/weather:1@sha256:ab", "weather"),
        ] {
            let load = PluginCommand::Load { file: text.into(), namespace: None, yes: false };
            let run = run_command(load, vec![weather()]).await;
            run.result.expect("loaded");
            assert_eq!(run.asked[0].line(), format!("PUT /v1/plugins/{namespace}"));
            assert_eq!(run.asked[0].header("content-type"), Some("application/json"));
            assert_eq!(run.asked[0].body, format!(r#"{{"source":"{text}"}}"#));
        }
    }

    #[tokio::test]
    async fn a_file_whose_name_is_no_namespace_needs_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("Weather (1).wasm");
        std::fs::write(&file, "\0asm").expect("written");
        let run =
            run_command(PluginCommand::Load { file: file.clone(), namespace: None, yes: false }, vec![])
                .await;
        assert!(run.result.expect_err("no namespace").hint().contains("--namespace"));
        let run = run_command(
            PluginCommand::Load { file, namespace: Some("weather".into()), yes: false },
            vec![weather()],
        )
        .await;
        run.result.expect("loaded");
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_named_and_nothing_is_asked() {
        let run = run_command(
            PluginCommand::Load { file: "/no/such.wasm".into(), namespace: None, yes: false },
            vec![],
        )
        .await;
        assert!(run.result.expect_err("no file").to_string().contains("`/no/such.wasm`"));
        assert!(run.asked.is_empty());
    }

    #[tokio::test]
    async fn a_list_shows_each_plugin_with_its_state() {
        let item = plugin();
        let run = run_command(
            PluginCommand::List,
            vec![Canned::json(200, json!({"items": [item], "next_cursor": null}))],
        )
        .await;
        run.result.expect("listed");
        assert!(run.out.contains("weather    1.2.0    active  2      Weather"), "{}", run.out);
    }

    #[tokio::test]
    async fn each_act_has_its_address() {
        let namespace = || "weather".to_owned();
        let gone = Canned::empty(204);
        let cases = [
            (PluginCommand::Show { namespace: namespace() }, weather(), "GET /v1/plugins/weather"),
            (
                PluginCommand::Grant { namespace: namespace(), file: None, add: false },
                Canned::json(200, json!({"network": []})),
                "GET /v1/plugins/weather/grant",
            ),
            (
                PluginCommand::Rollback { namespace: namespace() },
                weather(),
                "POST /v1/plugins/weather/rollback",
            ),
            (PluginCommand::Enable { namespace: namespace() }, weather(), "POST /v1/plugins/weather/enable"),
            (
                PluginCommand::Disable { namespace: namespace() },
                weather(),
                "POST /v1/plugins/weather/disable",
            ),
            (PluginCommand::Remove { namespace: namespace() }, gone, "DELETE /v1/plugins/weather"),
        ];
        for (command, answer, line) in cases {
            let run = run_command(command, vec![answer]).await;
            run.result.expect("done");
            assert_eq!(run.asked[0].line(), line);
        }
    }
}
