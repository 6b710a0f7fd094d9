//! Runs the examples that a plugin carries, for `toolgate check` and before a daemon serves a new version.
//!
//! An example runs with a stopped clock and fixed random numbers, so it has one right output.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolgate_admission::{Rules, ToolDescriptor, Violation};
use toolgate_api::descriptor::Example;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::FilesystemAccess;
use toolgate_sandbox::{CallClock, Component, Sandbox};

use super::{CallEnvironment, HarnessResult, LocalCredential, call, temporary_folder};

/// The stopped clock of examples: 2025-01-01T00:00:00Z. An example of a tool that reads the clock has one right output.
const TIME: Duration = Duration::from_secs(1_735_689_600);
/// The fixed seed of examples, for the same reason.
pub(crate) const SEED: [u8; 32] = [0; 32];

/// Longest excerpt of a value in a message, in characters.
const EXCERPT_CHARS: usize = 200;

/// Inputs of examples besides their arguments.
#[derive(Clone, Debug, Default)]
pub struct ExampleInputs {
    /// The folder whose copy is the workspace of each run; otherwise that is empty.
    pub workspace: Option<PathBuf>,
    /// The settings of the plugin, as JSON text.
    pub settings: Option<Arc<str>>,
    /// The credential of requests.
    pub credential: Option<Arc<LocalCredential>>,
}

/// The means to run examples of one plugin.
#[derive(Clone, Copy)]
pub(crate) struct ExampleRunner<'a> {
    pub sandbox: &'a Sandbox,
    /// Rules for this plugin alone, which require no approval.
    pub rules: &'a Rules<Component>,
    /// The inputs of the examples.
    pub inputs: &'a ExampleInputs,
    /// The organization that the calls are of.
    pub organization: &'a str,
}

impl ExampleRunner<'_> {
    /// Runs an example, with a workspace of its own if its plugin asks for files. Fails by a fault of this machine alone.
    pub(crate) async fn run(
        &self,
        tool: &ToolDescriptor,
        example: &Example,
        seed: [u8; 32],
    ) -> Result<HarnessResult, CallError> {
        let folder = self.asks_for_files().then(temporary_folder).transpose()?;
        if let (Some(files), Some(folder)) = (&self.inputs.workspace, &folder) {
            copy_folder(files, folder.path()).map_err(|error| copy_error(files, &error))?;
        }
        let workspace = folder.as_ref().map(|folder| folder.path().to_owned());
        let clock = CallClock::Stopped { at: TIME };
        let environment = CallEnvironment {
            workspace,
            clock,
            seed,
            settings: self.inputs.settings.clone(),
            credential: self.inputs.credential.clone(),
            organization: self.organization.into(),
        };
        let input = example.input.to_string();
        Ok(call(self.sandbox, self.rules, tool.wire.as_str(), &input, &environment).await)
    }

    fn asks_for_files(&self) -> bool {
        let mut plugins = self.rules.catalogue.plugins();
        plugins.any(|plugin| plugin.descriptor.capabilities.filesystem == FilesystemAccess::Workspace)
    }
}

/// The sentence about an input that the tool's schema refuses.
pub(crate) fn input_fault(tool: &ToolDescriptor, example: &Example) -> Option<String> {
    let violations = tool.input.validate(&example.input).err()?;
    Some(violations.first().map_or_else(String::new, |first| Violation::sentence(first).to_owned()))
}

/// The difference between the output that an example shows and the one that its tool returned; none if it shows none.
pub(crate) fn difference(example: &Example, output: &str) -> Option<String> {
    let (shown, given) = (example.output.as_ref()?, serde_json::from_str::<Value>(output).ok()?);
    (*shown != given)
        .then(|| format!("the example shows `{}`, the tool returns `{}`", excerpt(shown), excerpt(&given)))
}

/// An error in one line.
pub(crate) fn error_text(error: &CallError) -> String {
    format!("{}: {}", error.error_type.as_str(), error.message)
}

/// The first characters of a value.
pub(crate) fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Copies files and folders. Symbolic links are skipped, since a workspace has none.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            std::fs::create_dir(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn copy_error(files: &Path, error: &std::io::Error) -> CallError {
    CallError::new(
        ErrorType::InvalidRequest,
        format!("`{}` cannot be copied for an example: {error}", files.display()),
        "let `--workspace` name a folder whose files you may read, and the variable `TMPDIR` a folder outside of it with enough free space for a copy",
    )
}
