//! `toolgate plugin`: manages the plugins of a running daemon.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use toolgate_api::name::Namespace;

use super::document::{self, field};
use super::failure::Failure;
use super::organization::done;
use super::print::Printer;
use crate::client::{Client, escape};

/// Examples of the subcommands.
pub const EXAMPLES: &str = "\
Examples:
  toolgate plugin load target/wasm32-wasip2/release/weather.wasm
  toolgate plugin load build/plugin.wasm --namespace weather
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
        /// The WebAssembly component
        file: PathBuf,
        /// The namespace in its description [default: from the file name]
        #[arg(long, value_name = "NS")]
        namespace: Option<String>,
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
        PluginCommand::List => list(client, printer).await,
        PluginCommand::Load { file, namespace } => load(client, printer, &file, namespace).await,
        PluginCommand::Show { namespace } => {
            let answer = client.get(&path(&namespace)).send::<Value>().await?;
            Ok(printer.json(&answer.body)?)
        }
        PluginCommand::Grant { namespace, file: None, .. } => {
            show_grant(client, printer, &path(&namespace)).await
        }
        PluginCommand::Grant { namespace, file: Some(file), add } => {
            let answer = grant(client, printer, &path(&namespace), &file, add).await?;
            done(printer, &answer, &format!("plugin `{namespace}` has its grant, for calls from now on"))
        }
        PluginCommand::Remove { namespace } => {
            client.delete(&path(&namespace)).send::<IgnoredAny>().await?;
            done(printer, &json!({"removed": namespace}), &format!("plugin `{namespace}` is removed"))
        }
        PluginCommand::Rollback { namespace } => act(client, printer, &namespace, "rollback").await,
        PluginCommand::Enable { namespace } => act(client, printer, &namespace, "enable").await,
        PluginCommand::Disable { namespace } => act(client, printer, &namespace, "disable").await,
    }
}

async fn list(client: &Client, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let items = client.list_all::<Value>("/v1/plugins").await?;
    if printer.is_json() {
        return Ok(printer.json(&json!({"items": items}))?);
    }
    let rows: Vec<_> = items.iter().map(row).collect();
    Ok(printer.table(["NAMESPACE", "VERSION", "STATE", "TOOLS", "PURPOSE"], &rows)?)
}

async fn load(
    client: &Client,
    printer: &mut Printer<'_>,
    file: &Path,
    namespace: Option<String>,
) -> Result<(), Failure> {
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => namespace_of(file)?,
    };
    let component = read_component(file)?;
    let kib = component.len().div_ceil(1024);
    printer.note(&format!("loading `{namespace}` ({kib} KiB); the daemon compiles it"))?;
    let put = client.put(&path(&namespace)).body("application/wasm", component.into());
    let plugin = put.send::<Value>().await?.body;
    document::warn(printer, &plugin)?;
    show(printer, &plugin)
}

/// Prints the grant of the plugin or tool at a path.
pub async fn show_grant(client: &Client, printer: &mut Printer<'_>, path: &str) -> Result<(), Failure> {
    let answer = client.get(&format!("{path}/grant")).send::<Value>().await?;
    Ok(printer.json(&answer.body)?)
}

/// Replaces the grant of the plugin or tool at a path with the document of a file, or merges that into it.
pub async fn grant(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    file: &str,
    add: bool,
) -> Result<Value, Failure> {
    let text = document::document_from(file)?;
    let body = |before: Option<&Value>| match before.filter(|_| add) {
        Some(before) => with(before, &text),
        None => text,
    };
    let answer = document::put::<Value, Value>(client, &format!("{path}/grant"), body).await?.body;
    document::warn(printer, &answer)?;
    Ok(answer)
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

async fn act(client: &Client, printer: &mut Printer<'_>, namespace: &str, verb: &str) -> Result<(), Failure> {
    let answer = client.post(&format!("{}/{verb}", path(namespace))).send::<Value>().await?;
    show(printer, &answer.body)
}

fn show(printer: &mut Printer<'_>, plugin: &Value) -> Result<(), Failure> {
    let text = |pointer| field(plugin, pointer);
    let tools: Vec<_> = tools(plugin).map(|tool| field(tool, "/wire_name")).collect();
    let (namespace, version, state) = (text("/namespace"), text("/version"), text("/state"));
    let asks = asks(plugin);
    let asks = if asks.is_empty() { asks } else { format!("; asks for {asks}") };
    done(printer, plugin, &format!("{namespace} {version} is {state}: {}{asks}", tools.join(", ")))
}

fn row(plugin: &Value) -> [String; 5] {
    let text = |pointer| field(plugin, pointer);
    [
        text("/namespace"),
        text("/version"),
        text("/state"),
        tools(plugin).count().to_string(),
        text("/purpose"),
    ]
}

/// Describes the capabilities that a plugin requests; empty if it requests none.
pub fn asks(plugin: &Value) -> String {
    let list = |pointer: &str| plugin.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let files = (field(plugin, "/capabilities/filesystem") == "workspace").then(|| "files".to_owned());
    let rules = list("/capabilities/network").map(|rule| {
        let scheme = rule.get("scheme").and_then(Value::as_str).unwrap_or("https");
        let port = rule.get("port").map(|port| format!(":{port}")).unwrap_or_default();
        let path = rule.get("path").and_then(Value::as_str).unwrap_or_default();
        format!("{scheme}://{}{port}{path}", field(rule, "/host"))
    });
    let credentials = list("/capabilities/credentials").filter_map(Value::as_str);
    let credentials = credentials.map(|provider| format!("credentials of {provider}"));
    files.into_iter().chain(rules).chain(credentials).collect::<Vec<_>>().join(", ")
}

/// Returns the tools of a plugin response.
pub fn tools(plugin: &Value) -> impl Iterator<Item = &Value> {
    plugin.get("tools").and_then(Value::as_array).into_iter().flatten()
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

/// Derives the namespace from a file name: Cargo writes `my_plugin.wasm` for the package of the plugin `my-plugin`.
fn namespace_of(file: &Path) -> Result<String, Failure> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().replace('_', "-");
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

    fn weather() -> Canned {
        Canned::json(
            200,
            json!({"namespace": "weather", "version": "1.2.0", "state": "active", "purpose": "Weather",
            "tools": [{"wire_name": "call_weather_current"}, {"wire_name": "call_weather_forecast"}]}),
        )
    }

    #[tokio::test]
    async fn a_file_is_loaded_under_its_own_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("my_weather.wasm");
        std::fs::write(&file, "\0asm").expect("written");
        let run = run_command(PluginCommand::Load { file, namespace: None }, vec![weather()]).await;
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
        let mut answer: Value = serde_json::from_str(&weather().body).expect("json");
        answer["warnings"] =
            json!([{"message": "with a `fuel` of 0 no call can run", "path": "/limits/fuel"}]);
        let load = PluginCommand::Load { file, namespace: None };
        let run = run_command(load, vec![Canned::json(200, answer)]).await;
        run.result.expect("loaded");
        assert!(run.notes.contains("with a `fuel` of 0 no call can run (`/limits/fuel`)"), "{}", run.notes);
    }

    #[tokio::test]
    async fn a_file_whose_name_is_no_namespace_needs_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("Weather (1).wasm");
        std::fs::write(&file, "\0asm").expect("written");
        let run = run_command(PluginCommand::Load { file: file.clone(), namespace: None }, vec![]).await;
        assert!(run.result.expect_err("no namespace").hint().contains("--namespace"));
        let run =
            run_command(PluginCommand::Load { file, namespace: Some("weather".into()) }, vec![weather()])
                .await;
        run.result.expect("loaded");
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_named_and_nothing_is_asked() {
        let run =
            run_command(PluginCommand::Load { file: "/no/such.wasm".into(), namespace: None }, vec![]).await;
        assert!(run.result.expect_err("no file").to_string().contains("`/no/such.wasm`"));
        assert!(run.asked.is_empty());
    }

    #[tokio::test]
    async fn a_list_shows_each_plugin_with_its_state() {
        let item: Value = serde_json::from_str(&weather().body).expect("json");
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
