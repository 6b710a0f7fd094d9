//! `toolgate plugin keygen`, `sign` and `verify`: signatures of plugin files, without a daemon.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolgate_admission::Descriptor;
use toolgate_api::error::ErrorType;
use toolgate_cli::plugin::{read_component, read_signature, signature_beside};
use toolgate_cli::{Failure, Printer};
use toolgate_core::digest::digest_of;
use toolgate_core::harness::{CompileTools, PluginHarness, UserCache};
use toolgate_core::signing::{Envelope, KeyFileError, PublicKey, SignatureError, SigningKey, Statement};

pub(super) const EXAMPLES: &str = "
  toolgate plugin keygen acme.key
  toolgate plugin sign weather.wasm --key acme.key
  toolgate plugin sign weather.wasm --key acme.key --publisher acme --out weather.wasm.sig
  toolgate plugin verify weather.wasm --public-key ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

#[derive(Args)]
pub(super) struct Keygen {
    /// The new file for the private key, which only you can read
    file: PathBuf,
}

#[derive(Args)]
pub(super) struct Sign {
    /// The WebAssembly component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The private key, a file of `toolgate plugin keygen`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The publisher, as the document of the key names it [default: the publisher in its description]
    #[arg(long)]
    publisher: Option<String>,
    /// The namespace of a component that does not describe itself
    #[arg(long, value_name = "NS")]
    namespace: Option<String>,
    /// The version of a component that does not describe itself
    #[arg(long)]
    version: Option<String>,
    /// The file for the signature [default: FILE.wasm.sig]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct Verify {
    /// The WebAssembly component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The signature [default: FILE.wasm.sig]
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// The publisher's key
    #[arg(long, value_name = "ed25519:BASE64")]
    public_key: String,
}

/// Generates a key, and prints its public part for `toolgate plugin key put`.
pub(super) fn keygen(options: &Keygen, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let public = SigningKey::generate(&options.file).map_err(key_failure)?.public();
    printer.note(&format!(
        "the private key {} is in `{}`: keep it secret",
        public.id(),
        options.file.display()
    ))?;
    let shown = json!({"public_key": public.to_string(), "key": public.id()});
    Ok(printer.result(&shown, &public.to_string())?)
}

/// Signs a plugin file under the namespace and version that it describes.
pub(super) async fn sign(options: &Sign, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let key = SigningKey::read(&options.key).map_err(key_failure)?;
    let file = read_component(&options.file)?;
    let tools = CompileTools { worker: std::env::current_exe()?, cache: UserCache::from_environment() };
    let harness = PluginHarness::open(&file, tools).await?;
    let (namespace, version) = (options.namespace.as_deref(), options.version.as_deref());
    let descriptor = Descriptor::parse(&harness.describe_as(namespace, version).await?)
        .map_err(|error| error.into_call_error(ErrorType::InvalidPlugin))?;
    let Some(publisher) = options.publisher.clone().or(descriptor.publisher) else {
        let hint = "name it with `--publisher`, as the document of the key does";
        return Err(Failure::new("the file does not say who publishes it", hint));
    };
    let statement = Statement {
        namespace: descriptor.namespace.to_string(),
        version: descriptor.version,
        publisher,
        digest: digest_of(&file).to_string(),
    };
    let out = options.out.clone().unwrap_or_else(|| signature_beside(&options.file));
    write(&out, &statement.sign(&key))?;
    let Statement { namespace, version, publisher, .. } = &statement;
    let line = format!("`{namespace}` {version} of `{publisher}` is signed in `{}`", out.display());
    Ok(printer.result(&json!({"signature": out.display().to_string(), "statement": statement}), &line)?)
}

/// Checks that the signature is of this file and by this key.
pub(super) fn verify(options: &Verify, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let file = read_component(&options.file)?;
    let key = PublicKey::parse(&options.public_key).map_err(signature_failure)?;
    let signature = options.signature.clone().unwrap_or_else(|| signature_beside(&options.file));
    let envelope = Envelope::parse(&read_signature(&signature)?).map_err(signature_failure)?;
    if !envelope.is_signed_by(&key) {
        let hint = "give the key of its publisher, or get the file and its signature again";
        return Err(Failure::new(format!("the signature is not by the key {}", key.id()), hint));
    }
    let statement = envelope.statement().map_err(signature_failure)?;
    if statement.digest != digest_of(&file).as_str() {
        let hint = "get the file that was signed";
        return Err(Failure::new("the signature is of another file", hint));
    }
    let Statement { namespace, version, publisher, .. } = &statement;
    let line = format!("`{namespace}` {version} is signed by `{publisher}` with the key {}", key.id());
    Ok(printer.result(&statement, &line)?)
}

fn write(out: &Path, envelope: &str) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create(true).truncate(true).open(out);
    opened.and_then(|mut file| writeln!(file, "{envelope}")).map_err(|error| {
        Failure::new(format!("cannot write `{}`: {error}", out.display()), "name another file with `--out`")
    })
}

fn key_failure(error: KeyFileError) -> Failure {
    let hint = match &error {
        KeyFileError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            "name a new file: a key is never overwritten"
        }
        _ => "name the file that `toolgate plugin keygen` made",
    };
    Failure::new(error.to_string(), hint)
}

fn signature_failure(error: SignatureError) -> Failure {
    Failure::new(error.message, error.hint)
}
