//! Runs the examples of a plugin before a version of it becomes active: a version that fails its own examples is refused,
//! and the one before serves on.
//!
//! Examples run in the sandbox like calls, by rules of their own, with an empty workspace, and without network, credentials
//! and other tools. No agent made them, so no record of a call is kept.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use toolgate_admission::{Catalogue, Plugin, Rules, ToolDescriptor};
use toolgate_api::descriptor::{Example, Mode};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{FilesystemAccess, Grant};
use toolgate_api::limits::{LimitName, Limits, LimitsPatch};
use toolgate_api::name::Name;
use toolgate_sandbox::Component;

use super::Plugins;
use crate::harness::example::{self, ExampleInputs, ExampleRunner};

/// Most examples that a load runs: the first of each tool before the second of any.
const EXAMPLES: usize = 20;
/// Deadline of one example. Its other limits are those of a call.
const DEADLINE_MS: u64 = 4_000;
/// Time that all of them run: other loads wait for the instance. Examples that are left then do not run, and fail no load.
const PATIENCE: Duration = Duration::from_secs(5);
/// The organization of the platform's examples. No organization has this name.
const PLATFORM: &str = "";

impl Plugins {
    /// Runs the examples that need neither network nor credential, client or other tool. Fails with `INVALID_PLUGIN`, which
    /// names tool and example, if one ends in an error or with another output than it shows.
    pub(super) async fn check_examples(
        &self,
        plugin: &Plugin<Component>,
        owner: Option<&Name>,
    ) -> Result<(), CallError> {
        let examples = runnable_examples(plugin);
        if examples.is_empty() {
            return Ok(());
        }
        let rules = Rules::allow_all(self.catalogue_of_examples(plugin, owner).into());
        let organization = owner.map_or(PLATFORM, Name::as_str);
        let inputs = ExampleInputs::default();
        let runner = ExampleRunner { sandbox: &self.0.sandbox, rules: &rules, inputs: &inputs, organization };
        let mut left = PATIENCE;
        for (number, tool, example) in examples {
            // Instances of calls belong to the queue, in which an example has no place. Other loads take turns with it.
            let instance = self.0.sandbox.reserved_instance().await;
            let began = Instant::now();
            let checked = timeout(left, check_example(runner, plugin, tool, example)).await;
            drop(instance);
            left = left.saturating_sub(began.elapsed());
            let Ok(checked) = checked else {
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

    /// The plugin alone, under the platform's limits and those of its owner.
    fn catalogue_of_examples(
        &self,
        plugin: &Plugin<Component>,
        owner: Option<&Name>,
    ) -> Catalogue<Component> {
        let of_owner = owner.and_then(|owner| self.0.registry.snapshot().organization(owner));
        let of_owner = of_owner.map(|rules| rules.document().limits.clone()).unwrap_or_default();
        let limits = limits_of_examples(&self.0.limits, &of_owner);
        let filesystem = plugin.descriptor.capabilities.filesystem;
        let granted = Grant { filesystem, ..Grant::default() }.into();
        let plugin = Plugin { granted, disabled: false, has_trusted_hints: true, ..plugin.clone() };
        Catalogue::new(limits, vec![plugin.into()])
    }
}

fn limits_of_examples(platform: &LimitsPatch, owner: &LimitsPatch) -> LimitsPatch {
    let deadline = LimitsPatch::new().with(LimitName::DeadlineMs, DEADLINE_MS);
    let limits = Limits::platform(platform).narrow(&deadline).narrow(owner);
    LimitName::ALL.iter().map(|name| (*name, limits.get(*name))).collect()
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
    // An example may need files or settings that its author has.
    let needs_inputs = plugin.descriptor.capabilities.filesystem == FilesystemAccess::Workspace
        || plugin.descriptor.config_schema.is_some();
    match runner.run(tool, example, example::SEED).await?.outcome {
        Ok(output) => Ok(example::difference(example, &output).filter(|_| !needs_inputs)),
        Err(error) if is_of_host(error.error_type) => Err(error),
        Err(error) if needs_inputs && error.error_type == ErrorType::ToolFailed => Ok(None),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_examples_run_under_the_narrower_limits_of_platform_and_owner() {
        let limits = |fuel, deadline_ms| {
            LimitsPatch::new().with(LimitName::Fuel, fuel).with(LimitName::DeadlineMs, deadline_ms)
        };
        for (platform, owner, fuel, deadline_ms) in [
            (limits(9, 60_000), LimitsPatch::new(), 9, DEADLINE_MS),
            (limits(9, 60_000), limits(5, 70_000), 5, DEADLINE_MS),
            (limits(9, 50), limits(20, 40), 9, 40),
        ] {
            let found = Limits::platform(&limits_of_examples(&platform, &owner));
            assert_eq!((found.fuel, found.deadline_ms), (fuel, deadline_ms));
        }
    }
}
