//! Runs the examples of a plugin before a version of it becomes active: a version that fails its own examples is refused,
//! and the one before serves on.
//!
//! They run in the sandbox like calls, by rules of their own, with an empty workspace, and without network, credentials
//! and other tools. No agent made them, so no record of a call is kept.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use toolgate_admission::{Catalogue, Plugin, Rules, ToolDescriptor};
use toolgate_api::descriptor::{Example, Mode};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{FilesystemAccess, Grant};
use toolgate_api::limits::{LimitName, Limits};
use toolgate_sandbox::Component;

use super::Plugins;
use crate::harness::example::{self, ExampleRunner};

/// Most examples that a load runs: the first of each tool before the second of any.
const EXAMPLES: usize = 20;
/// Deadline of one example. Its other limits are those of a call.
const DEADLINE_MS: u64 = 10_000;
/// Time for all of them. Those that are left then do not run, and fail no load.
const PATIENCE: Duration = Duration::from_secs(30);

impl Plugins {
    /// Runs the examples that need neither network nor credential, client or other tool. Fails with `INVALID_PLUGIN`, which
    /// names tool and example, if one ends in an error or with another output than it shows.
    pub(super) async fn check_examples(&self, plugin: &Plugin<Component>) -> Result<(), CallError> {
        let examples = runnable_examples(plugin);
        if examples.is_empty() {
            return Ok(());
        }
        // Instances of calls belong to the queue, in which an example has no place.
        let _instance = self.0.sandbox.reserved_instance().await;
        let rules = Rules::allow_all(self.catalogue_of_examples(plugin).into());
        let runner = ExampleRunner { sandbox: &self.0.sandbox, rules: &rules, files: None };
        let end = Instant::now() + PATIENCE;
        for (number, tool, example) in examples {
            let running = check_example(runner, plugin, tool, example);
            let Ok(checked) = timeout_at(end, running).await else {
                let namespace = &plugin.descriptor.namespace;
                tracing::warn!(%namespace, "the examples of a plugin take too long, and the rest of them is not run");
                return Ok(());
            };
            if let Some(fault) = checked? {
                return Err(refusal(tool, number, &fault));
            }
        }
        Ok(())
    }

    fn catalogue_of_examples(&self, plugin: &Plugin<Component>) -> Catalogue<Component> {
        let deadline_ms = Limits::platform(&self.0.limits).deadline_ms.min(DEADLINE_MS);
        let limits = self.0.limits.clone().with(LimitName::DeadlineMs, deadline_ms);
        let filesystem = plugin.descriptor.capabilities.filesystem;
        let granted = Grant { filesystem, ..Grant::default() }.into();
        let plugin = Plugin { granted, disabled: false, has_trusted_hints: true, ..plugin.clone() };
        Catalogue::new(limits, vec![plugin.into()])
    }
}

/// The examples that a load runs, each with its number in its tool.
fn runnable_examples(plugin: &Plugin<Component>) -> Vec<(usize, &ToolDescriptor, &Example)> {
    let asked = &plugin.descriptor.capabilities;
    if !asked.network.is_empty() || !asked.credentials.is_empty() || asked.calls || asked.messages {
        return Vec::new();
    }
    let runs = |tool: &&ToolDescriptor| tool.mode == Mode::Server && tool.required_integrations.is_empty();
    let tools = || plugin.descriptor.tools.iter().filter(runs);
    let most = tools().map(|tool| tool.examples.len()).max().unwrap_or_default();
    let numbered =
        (0..most).flat_map(|at| tools().filter_map(move |tool| Some((at, tool, tool.examples.get(at)?))));
    numbered.take(EXAMPLES).collect()
}

/// Runs one example. Returns its fault, or an error of this machine.
async fn check_example(
    runner: ExampleRunner<'_>,
    plugin: &Plugin<Component>,
    tool: &ToolDescriptor,
    example: &Example,
) -> Result<Option<String>, CallError> {
    if let Some(message) = example::input_fault(tool, example) {
        return Ok(Some(message));
    }
    // An example may read files that its author has and the empty workspace lacks.
    let needs_files = plugin.descriptor.capabilities.filesystem == FilesystemAccess::Workspace;
    match runner.run(tool, example, example::SEED).await?.outcome {
        Ok(output) => Ok(example::difference(example, &output).filter(|_| !needs_files)),
        Err(error) if is_of_host(error.error_type) => Err(error),
        Err(error) if needs_files && error.error_type == ErrorType::ToolFailed => Ok(None),
        Err(error) => Ok(Some(example::error_text(&error))),
    }
}

/// Whether an error says nothing about the plugin.
fn is_of_host(error: ErrorType) -> bool {
    matches!(error, ErrorType::Internal | ErrorType::Unavailable | ErrorType::Overloaded)
}

fn refusal(tool: &ToolDescriptor, number: usize, fault: &str) -> CallError {
    CallError::new(
        ErrorType::InvalidPlugin,
        format!("example {} of `{}` fails: {fault}", number + 1, tool.id),
        "fix the tool or the example; `toolgate check` runs the examples too",
    )
}
