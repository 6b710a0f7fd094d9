//! Inputs of calls without a daemon, for `toolgate run`, `check` and `dev`: files, settings, grant and credential.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::from_str;
use toolgate_admission::Descriptor;
use toolgate_api::grant::Grant;
use toolgate_api::json::PlainValue;
use toolgate_cli::Failure;
use toolgate_cli::credential::SecretSource;
use toolgate_cli::document::{arguments_from, document_from};
use toolgate_core::harness::{ExampleInputs, LocalCredential, check_workspace};

use super::run_grant::RunGrant;

#[derive(Args, Clone, Default)]
pub(super) struct InputOptions {
    /// The folder that a tool sees as /workspace, if its plugin requests files: each example gets a copy [default: an empty temporary
    /// folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// The settings that an organization would have set: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub settings: Option<String>,
    #[command(flatten)]
    grant: RunGrant,
    /// A credential for requests, as JSON without its secret, as `toolgate credential put` takes it
    #[arg(long, value_name = "FILE")]
    credential: Option<String>,
    #[command(flatten)]
    secret: SecretSource,
}

impl InputOptions {
    /// Checks what needs no plugin.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.credential.is_none() && self.secret.is_named() {
            let hint = "add `--credential FILE`, which says where requests carry the secret";
            return Err(Failure::wrong_usage("a secret is given without its credential", hint));
        }
        Ok(self.workspace.as_deref().map_or(Ok(()), check_workspace)?)
    }

    /// Reads the inputs for a plugin, and the grant of its calls.
    pub(super) fn read(&self, descriptor: &Descriptor) -> Result<(Grant, ExampleInputs), Failure> {
        let settings = self.settings.as_deref().map(|word| settings_from(word, descriptor)).transpose()?;
        let credential = self.credential.as_deref().map(|file| self.credential_from(file)).transpose()?;
        let inputs = ExampleInputs { workspace: self.workspace.clone(), settings, credential };
        Ok((self.grant.of(descriptor)?, inputs))
    }

    fn credential_from(&self, file: &str) -> Result<Arc<LocalCredential>, Failure> {
        Ok(Arc::new(LocalCredential::parse(&document_from(file)?, self.secret.require()?)?))
    }
}

/// Reads settings, which must be valid under the plugin's schema, as in a daemon.
fn settings_from(word: &str, descriptor: &Descriptor) -> Result<Arc<str>, Failure> {
    let text = arguments_from(word)?;
    let hint = "compare them with the plugin's `config_schema`; a plugin without one takes none";
    let Ok(PlainValue(settings)) = from_str(&text) else {
        return Err(Failure::new("the settings are not JSON", hint));
    };
    let checked = descriptor.config_schema.as_ref().map(|schema| schema.validate(&settings));
    match checked {
        Some(Ok(())) => Ok(text.into()),
        Some(Err(violations)) => {
            let why = violations.first().map_or("", |violation| violation.sentence());
            Err(Failure::new(format!("the plugin does not take these settings: {why}"), hint))
        }
        None => Err(Failure::new("the plugin has no settings", hint)),
    }
}
