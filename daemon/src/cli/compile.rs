//! `toolgate compile`: the compiled code of plugins, before a start or for a package.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolgate_api::embedded::Embedded;
use toolgate_built_in::BUILT_IN;
use toolgate_cli::{Failure, Printer};
use toolgate_core::compile::write_packaged;
use toolgate_core::plugins::BuiltInCompiled;

use super::serve::{self, OverrideOptions};

const EXAMPLES: &str = "\
Examples:
  toolgate compile --data /var/lib/toolgate              before the first start, or after an upgrade
  toolgate compile --config /etc/toolgate/toolgate.toml
  toolgate compile --package build/lib/toolgate          for a package, which installs it beside the program

The daemon compiles plugins when it starts for the first time, and after each upgrade: built-in ones while it serves, so that their calls wait,
and those of its data folder before. This command does it while no daemon runs, as the daemon's user.

The files of `--package` run on every processor of this architecture (x86-64-v2). A program in `/usr/bin` uses those in
`/usr/lib/toolgate`, if only root can write that folder.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompileOptions {
    /// The settings file of the daemon
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: OverrideOptions,
    /// Write the code of the built-in plugins and its list into this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "data", "listen", "store"])]
    package: Option<PathBuf>,
    /// Only these built-in plugins
    #[arg(value_name = "PLUGIN", requires = "package")]
    plugins: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Compiles plugins for a start or a package.
pub(super) async fn run(options: CompileOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    match &options.package {
        Some(folder) => package(folder, &options.plugins, printer),
        None => prepare(&options, printer).await,
    }
}

fn package(folder: &Path, names: &[String], printer: &mut Printer<'_>) -> Result<(), Failure> {
    let find = |name: &String| {
        let found = BUILT_IN.iter().find(|plugin| plugin.name == name);
        let all = || BUILT_IN.iter().map(|plugin| plugin.name).collect::<Vec<_>>().join(", ");
        let unknown = || Failure::wrong_usage(format!("there is no built-in plugin `{name}`"), all());
        found.ok_or_else(unknown)
    };
    let plugins: Vec<&Embedded> = match names {
        [] => BUILT_IN.iter().collect(),
        names => names.iter().map(find).collect::<Result<_, _>>()?,
    };
    let written = write_packaged(folder, &plugins);
    let written =
        written.map_err(|error| Failure::new(error.to_string(), "give a folder that can be written"))?;
    let told = format!("compiled {} plugins into `{}`", written.len(), folder.display());
    Ok(printer.result(&json!(written), &told)?)
}

async fn prepare(options: &CompileOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let config = serve::load(options.config.as_deref(), &options.overrides)?;
    let data = config.data.clone();
    let report = |BuiltInCompiled { namespace, took, done, of }: BuiltInCompiled<'_>| {
        let seconds = took.as_secs_f64();
        // A closed terminal is no error.
        let _ = writeln!(anstream::stderr(), "compiled `{namespace}` in {seconds:.1} s, {done} of {of}");
    };
    let program = PathBuf::from(toolgate_core::wall::PROGRAM);
    crate::serve::compile(config, program, Box::new(report)).await.map_err(super::failure::of_start)?;
    let told =
        format!("the plugins of `{}` are compiled: its daemon starts without compiling", data.display());
    Ok(printer.result(&json!({"data": data}), &told)?)
}
