//! `toolgate plugin load`: sends a file with its signature, and asks whether the hints of its tools count.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use hyper::header::HeaderName;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{
    HintsState, PluginLoaded, PluginState, PluginView, RegistryLoad, ToolView, VersionView,
};

use super::approve::{ask_for_consent, print_differences, send};
use super::{find_signature, path_in, read_component, read_signature, show};
use crate::ask::asks;
use crate::client::Client;
use crate::document::{self, query};
use crate::failure::{Failure, Result};
use crate::print::Printer;

#[derive(Args, Default)]
pub struct LoadOptions {
    /// The WebAssembly component, or `oci://HOST/REPOSITORY:TAG` in a registry of the daemon's settings
    pub file: PathBuf,
    /// The namespace in its description [default: from the name of the file or repository]
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// The signature of `toolgate plugin sign` [default: the file with `.sig` at its end, if there is one]
    #[arg(long, value_name = "FILE")]
    pub signature: Option<PathBuf>,
    /// Confirm the hints of its tools without asking
    #[arg(long)]
    pub yes: bool,
    /// Give a new version this percentage of the calls at first; it must look the same to models
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=50))]
    pub canary: Option<u8>,
    /// Load it for this organization alone, where the platform's policy allows it
    #[arg(long, visible_alias = "org", value_name = "ORG")]
    pub organization: Option<String>,
}

pub(super) async fn load(client: &Client, printer: &mut Printer<'_>, options: &LoadOptions) -> Result {
    let upload = Upload::read(options)?;
    upload.announce(printer)?;
    let mut loaded = upload.send(client, options.yes).await?;
    document::warn(printer, &loaded.warnings)?;
    let is_confirmed = confirms_hints(printer, &loaded.plugin, options.yes)?;
    if is_confirmed && !options.yes {
        loaded = upload.send(client, true).await?;
    }
    show(printer, &loaded.plugin, &loaded)?;
    note_canary(printer, &loaded.plugin)?;
    if loaded.plugin.state != PluginState::Quarantined {
        return Ok(());
    }
    print_differences(printer, &loaded.plugin.diff)?;
    let PluginView { namespace, digest, .. } = &loaded.plugin;
    ask_for_consent(client, printer, upload.organization.as_deref(), namespace, digest).await
}

/// Loads a file for its author: confirms the hints of its tools, approves its differences and keeps its grant.
pub async fn reload(client: &Client, printer: &mut Printer<'_>, file: &Path) -> Result {
    let upload = Upload::read(&LoadOptions { file: file.to_owned(), ..LoadOptions::default() })?;
    upload.announce(printer)?;
    let loaded = upload.send(client, true).await?;
    document::warn(printer, &loaded.warnings)?;
    let PluginView { namespace, digest, state, .. } = &loaded.plugin;
    match state {
        PluginState::Quarantined => {
            print_differences(printer, &loaded.plugin.diff)?;
            send(client, printer, &path_in(None, namespace), digest, true).await
        }
        _ => show(printer, &loaded.plugin, &loaded),
    }
}

/// Tells of a version on trial, beside which the shown one serves.
fn note_canary(printer: &mut Printer<'_>, plugin: &PluginView) -> Result {
    let on_trial = |version: &&VersionView| version.state == PluginState::Canary;
    let Some(version) = plugin.versions.iter().find(on_trial) else { return Ok(()) };
    let percent = version.canary.map_or(0, |canary| canary.percent);
    let (namespace, version) = (&plugin.namespace, &version.version);
    let fate = format!("`toolgate plugin approve {namespace}` gives it all, `rollback` none");
    Ok(printer.note(&format!("version {version} gets {percent} percent of the calls; {fate}"))?)
}

/// A plugin to be loaded.
struct Upload {
    namespace: String,
    organization: Option<String>,
    canary: Option<u8>,
    body: Body,
    /// The envelope in base64.
    signature: Option<String>,
}

enum Body {
    File(bytes::Bytes),
    Registry(RegistryLoad),
}

impl Upload {
    fn read(options: &LoadOptions) -> Result<Self> {
        let file = &options.file;
        let namespace = match &options.namespace {
            Some(namespace) => namespace.clone(),
            None => namespace_of(file)?,
        };
        let body = match reference(file) {
            Some(source) => Body::Registry(RegistryLoad { source: source.to_owned() }),
            None => Body::File(read_component(file)?.into()),
        };
        let signature = signature(options)?.map(|envelope| STANDARD.encode(envelope));
        let (organization, canary) = (options.organization.clone(), options.canary);
        Ok(Self { namespace, organization, canary, body, signature })
    }

    fn announce(&self, printer: &mut Printer<'_>) -> Result {
        let namespace = &self.namespace;
        let text = match &self.body {
            Body::Registry(_) => {
                format!("loading `{namespace}`; the daemon gets it from the registry and compiles it")
            }
            Body::File(component) => {
                let kib = component.len().div_ceil(1024);
                let signed = if self.signature.is_some() { ", signed" } else { "" };
                format!("loading `{namespace}` ({kib} KiB{signed}); the daemon compiles it")
            }
        };
        Ok(printer.note(&text)?)
    }

    async fn send(&self, client: &Client, confirm_hints: bool) -> Result<PluginLoaded> {
        let canary = self.canary.map(|percent| percent.to_string());
        let confirm = confirm_hints.then_some("hints");
        let query = query(&[("canary", canary.as_deref()), ("confirm", confirm)]);
        let path = path_in(self.organization.as_deref(), &self.namespace);
        let put = client.put(&format!("{path}{query}"));
        let put = match &self.body {
            Body::Registry(load) => put.json(load),
            Body::File(component) => put.body("application/wasm", component.clone()),
        };
        let put = match &self.signature {
            Some(envelope) => put.header(HeaderName::from_static("toolgate-signature"), envelope),
            None => put,
        };
        Ok(put.send().await?.body)
    }
}

/// Shows the hints that loosen the gate, and asks whether they count for this file (9.11).
fn confirms_hints(printer: &mut Printer<'_>, plugin: &PluginView, yes: bool) -> Result<bool> {
    let loosens = |tool: &&ToolView| {
        let hints = tool.details.hints;
        let is_open = yes || tool.details.hints_state == HintsState::Unconfirmed;
        is_open && (hints.read_only || !hints.destructive || !hints.open_world)
    };
    let tools: Vec<String> = plugin.tools.iter().filter(loosens).map(hints_line).collect();
    // Consent to a version confirms its hints.
    if tools.is_empty() || plugin.state == PluginState::Quarantined {
        return Ok(false);
    }
    printer.note("its tools say of themselves:")?;
    tools.iter().try_for_each(|tool| printer.note(&format!("  {tool}")))?;
    if yes || asks("Do these hints count? [y/N] ")? {
        return Ok(true);
    }
    printer.note(
        "they count as tools that change something; load the file again with `--yes` to confirm its hints",
    )?;
    Ok(false)
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

/// The given signature, or the one beside the component.
fn signature(options: &LoadOptions) -> Result<Option<Vec<u8>>> {
    match &options.signature {
        Some(file) => read_signature(file).map(Some),
        None if reference(&options.file).is_some() => Ok(None),
        None => find_signature(&options.file),
    }
}

/// The reference to a plugin in a registry, if it is none to a file.
fn reference(file: &Path) -> Option<&str> {
    file.to_str().filter(|text| text.starts_with("oci://"))
}

/// Derives the namespace from a file name: Cargo writes `my_plugin.wasm` for the package of the plugin `my-plugin`. For a
/// reference it is the end of the repository's path.
fn namespace_of(file: &Path) -> Result<String> {
    let stem = match reference(file).and_then(|reference| reference.split('@').next()?.rsplit('/').next()) {
        Some(repository) => repository.split(':').next(),
        None => file.file_stem().and_then(|stem| stem.to_str()),
    };
    let stem = stem.unwrap_or_default().replace('_', "-");
    match Namespace::parse(&stem) {
        Ok(_) => Ok(stem),
        Err(_) => Err(Failure::wrong_usage(
            format!("the name of `{}` is not a namespace", file.display()),
            "say which it is with `--namespace NS`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::plugin;
    use super::*;
    use crate::client::testing::Canned;
    use crate::testing::{Run, run_with};

    async fn run_command(options: LoadOptions, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| load(client, printer, &options).await).await
    }

    fn weather() -> Canned {
        Canned::json(200, plugin())
    }

    /// A folder with the file of a plugin.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("weather.wasm");
        std::fs::write(&file, "\0asm").expect("written");
        (folder, file)
    }

    #[tokio::test]
    async fn o2_a_signature_beside_the_file_is_sent() {
        let (folder, file) = folder();
        let run =
            run_command(LoadOptions { file: file.clone(), ..Default::default() }, vec![weather()]).await;
        run.result.expect("loaded");
        assert_eq!(run.asked[0].header("toolgate-signature"), None);
        std::fs::write(folder.path().join("weather.wasm.sig"), "{}").expect("written");
        let run =
            run_command(LoadOptions { file: file.clone(), ..Default::default() }, vec![weather()]).await;
        run.result.expect("loaded");
        assert_eq!(run.asked[0].header("toolgate-signature"), Some("e30="));
        let signature = Some(folder.path().join("other.sig"));
        let run = run_command(LoadOptions { file, signature, ..Default::default() }, vec![]).await;
        assert!(run.result.expect_err("no such file").to_string().contains("other.sig"));
    }

    fn with_hints(state: &str) -> Value {
        let mut answer = plugin();
        answer["tools"][0]["hints"] = json!({"read_only": true});
        answer["tools"][0]["hints_state"] = json!(state);
        answer
    }

    #[tokio::test]
    async fn r9_11_hints_are_shown_and_confirmed_for_the_file_with_yes_alone() {
        let (_folder, file) = folder();
        let options = |yes| LoadOptions { file: file.clone(), yes, ..Default::default() };
        let run = run_command(options(false), vec![Canned::json(200, with_hints("unconfirmed"))]).await;
        run.result.expect("loaded");
        assert_eq!((run.asked.len(), &*run.asked[0].line()), (1, "PUT /v1/plugins/weather"));
        assert!(run.notes.contains("changes nothing") && run.notes.contains("--yes"), "{}", run.notes);
        let run = run_command(options(true), vec![Canned::json(200, with_hints("confirmed"))]).await;
        run.result.expect("loaded");
        assert_eq!((run.asked.len(), &*run.asked[0].line()), (1, "PUT /v1/plugins/weather?confirm=hints"));
        assert!(run.notes.contains("changes nothing") && !run.notes.contains("--yes"), "{}", run.notes);
        assert!(run.notes.contains("of themselves:\n  call_weather_current: "), "{}", run.notes);
    }

    #[tokio::test]
    async fn o2_the_differences_of_a_version_that_waits_are_shown() {
        let (_folder, file) = folder();
        let mut answer = plugin();
        answer["state"] = json!("quarantined");
        answer["diff"] =
            json!([{"tool": "current", "field": "description", "before": "Old.", "after": "New."}]);
        let run =
            run_command(LoadOptions { file, ..Default::default() }, vec![Canned::json(200, answer)]).await;
        run.result.expect("loaded");
        for words in ["current: description", "- Old.", "+ New.", "plugin approve weather --digest sha256:ab"]
        {
            assert!(run.notes.contains(words), "no `{words}`: {}", run.notes);
        }
    }

    #[tokio::test]
    async fn a_file_is_loaded_under_its_own_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("my_weather.wasm");
        std::fs::write(&file, "\0asm").expect("written");
        let run = run_command(LoadOptions { file, ..Default::default() }, vec![weather()]).await;
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
        let load = LoadOptions { file, ..Default::default() };
        let run = run_command(load, vec![Canned::json(200, answer)]).await;
        run.result.expect("loaded");
        assert!(run.notes.contains("with a `fuel` of 0 no call can run (`/limits/fuel`)"), "{}", run.notes);
    }

    #[tokio::test]
    async fn o1_a_canary_is_asked_for_with_its_share() {
        let (_folder, file) = folder();
        let load = LoadOptions { file, canary: Some(10), yes: true, ..Default::default() };
        let mut answer = with_hints("confirmed");
        let counts =
            json!({"percent": 10, "calls": 0, "failures": 0, "serving_calls": 0, "serving_failures": 0});
        answer["versions"] = json!([{"version": "1.3.0", "digest": "sha256:cd", "loaded_ms": 1, "state": "canary",
            "reason": null, "canary": counts}]);
        let run = run_command(load, vec![Canned::json(200, answer)]).await;
        run.result.expect("loaded");
        assert_eq!(run.asked[0].line(), "PUT /v1/plugins/weather?canary=10&confirm=hints");
        assert!(run.notes.contains("version 1.3.0 gets 10 percent"), "{}", run.notes);
    }

    #[tokio::test]
    async fn r9_16_a_file_is_loaded_for_an_organization() {
        let (_folder, file) = folder();
        let load = LoadOptions { file, organization: Some("acme".into()), ..Default::default() };
        let run = run_command(load, vec![weather()]).await;
        run.result.expect("loaded");
        assert_eq!(run.asked[0].line(), "PUT /v1/orgs/acme/plugins/weather");
    }

    #[tokio::test]
    async fn o1_a_reference_is_loaded_by_the_daemon() {
        for (text, namespace) in [
            ("oci://127.0.0.1:5000/tools/my_weather:1.2.0", "my-weather"),
            ("oci://registry.example.org/weather@sha256:ab", "weather"),
            ("oci://registry.example.org/weather:1@sha256:ab", "weather"),
        ] {
            let load = LoadOptions { file: text.into(), ..Default::default() };
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
        let run = run_command(LoadOptions { file: file.clone(), ..Default::default() }, vec![]).await;
        assert!(run.result.expect_err("no namespace").hint().contains("--namespace"));
        let run = run_command(
            LoadOptions { file, namespace: Some("weather".into()), ..Default::default() },
            vec![weather()],
        )
        .await;
        run.result.expect("loaded");
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_named_and_nothing_is_asked() {
        let run =
            run_command(LoadOptions { file: "/no/such.wasm".into(), ..Default::default() }, vec![]).await;
        assert!(run.result.expect_err("no file").to_string().contains("`/no/such.wasm`"));
        assert!(run.asked.is_empty());
    }
}
