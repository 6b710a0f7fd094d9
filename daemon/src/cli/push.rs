//! `toolgate plugin push`: puts a plugin file into an OCI registry. No daemon is needed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use toolgate_cli::plugin::{find_signature, read_component};
use toolgate_cli::{Failure, Printer};
use toolgate_core::credentials::read_password;
use toolgate_core::oci::{Endpoint, Login, Reference, RegistrySession, push, with_port};
use toolgate_sandbox::{HostClient, HostClientSettings};

/// Time for the whole push: a large file over a slow line.
const TIMEOUT: Duration = Duration::from_secs(900);

#[derive(Args)]
pub(super) struct PushOptions {
    /// The WebAssembly component; a signature in FILE.sig is pushed with it
    file: PathBuf,
    /// The place in the registry, like `oci://registry.example.org/tools/weather:1.2.0`
    reference: Reference,
    /// The user of a private registry
    #[arg(long, value_name = "NAME", requires = "password_file")]
    username: Option<String>,
    /// A file with the password or the access token of the user
    #[arg(long, value_name = "FILE", requires = "username")]
    password_file: Option<PathBuf>,
    /// Use the registry without TLS
    #[arg(long)]
    plain_http: bool,
    /// A file with CA certificates, in PEM, to trust in addition to the public ones
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

pub(super) async fn run(options: PushOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let PushOptions { file, reference, username, password_file, plain_http, ca_file } = options;
    let component = read_component(&file)?;
    let signature = find_signature(&file)?;
    let login = match username.zip(password_file) {
        Some((username, path)) => {
            let password = read_password(&path).map_err(|error| {
                let message = format!("cannot read the password in `{}`: {error}", path.display());
                Failure::new(message, "give a file with the password or the access token alone")
            })?;
            Some(Arc::new(Login::new(&username, &password)))
        }
        None => None,
    };
    // The person names the registry, so it may be in a private network.
    let plain = if plain_http { vec![with_port(&reference.host, plain_http)] } else { Vec::new() };
    let settings = HostClientSettings {
        plain_http: plain,
        public_plain_http: login.is_none(),
        allow_private: true,
        ca_file,
        ..Default::default()
    };
    let http = HostClient::new(settings).map_err(|error| Failure::new(error.to_string(), error.hint()))?;
    let endpoint = Endpoint { http, host: reference.host.clone(), plain_http, login };
    let mut session = RegistrySession::new(endpoint, &reference, "pull,push", TIMEOUT)?;
    let digest = push(&mut session, &reference, &component, signature.as_deref()).await?;
    let signed = signature.is_some();
    let with = if signed { " with its signature" } else { "" };
    let line = format!("pushed to {reference}{with}, as {digest}");
    Ok(printer.result(
        &json!({"reference": reference.to_string(), "digest": digest.as_str(), "signed": signed}),
        &line,
    )?)
}
