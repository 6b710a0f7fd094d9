//! `toolgate check`: validates a plugin file locally, without a daemon.

use std::path::PathBuf;

use clap::Args;
use toolgate_cli::plugin::read_component;
use toolgate_cli::{Failure, Printer};
use toolgate_core::harness::check::{Finding, Inspected, Report, Severity, inspect};
use toolgate_core::harness::{CompileTools, UserCache};

use super::inputs::InputOptions;

const EXAMPLES: &str = "\
Examples:
  toolgate check target/wasm32-wasip2/release/weather.wasm
  toolgate check plugin.wasm --workspace testdata       examples start with these files
  toolgate check plugin.wasm --settings @settings.json --allow-network http://127.0.0.1:8080
  toolgate check plugin.wasm --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckOptions {
    /// The WebAssembly component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    #[command(flatten)]
    inputs: InputOptions,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl CheckOptions {
    /// Options that check a file with these inputs of its examples.
    pub(super) fn of(file: PathBuf, inputs: InputOptions) -> Self {
        Self { file, inputs, json: false }
    }
}

pub(super) async fn run(options: CheckOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let file = read_component(&options.file)?;
    options.inputs.check()?;
    let tools = CompileTools { worker: std::env::current_exe()?, cache: UserCache::from_environment() };
    let report = match inspect(&file, tools).await? {
        Inspected::Refused(report) => report,
        Inspected::Readable(inspection) => {
            let (granted, inputs) = options.inputs.read(&inspection.descriptor)?;
            inspection.run_examples(granted, &inputs).await?
        }
    };
    if printer.is_json() {
        printer.json(&report)?;
    } else {
        report.findings.iter().try_for_each(|finding| print(finding, printer))?;
        summary(&report, printer)?;
    }
    if report.passes() {
        return Ok(());
    }
    Err(Failure::new("the plugin does not pass", "fix the errors above; each line says how"))
}

fn print(finding: &Finding, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let place = if finding.place.is_empty() { "the file" } else { &finding.place };
    let text = format!("{} at {place}: {}", finding.code, finding.message);
    match finding.severity {
        Severity::Error => printer.error(&text)?,
        Severity::Warning => printer.warning(&text)?,
    }
    Ok(printer.note(&format!("  {}", finding.hint))?)
}

fn summary(report: &Report, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let name = match (&report.namespace, &report.version) {
        (Some(namespace), Some(version)) => format!("{namespace} {version}: "),
        _ => String::new(),
    };
    let (tools, examples) = (count_text(report.tools, "tool"), count_text(report.examples, "example"));
    let (errors, warnings) = (count_text(errors, "error"), count_text(warnings, "warning"));
    if !report.unused.is_empty() {
        let names = report.unused.join(" and ");
        printer.note(&format!("its runtime imports {names}, unused: nothing is asked for"))?;
    }
    Ok(printer.line(&format!("{name}{tools}, {examples} run, {errors}, {warnings}"))?)
}

fn count_text(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
