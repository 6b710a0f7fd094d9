//! `toolgate credential`: manages credentials. A secret is read from a file, standard input or an environment
//! variable, and never printed.
//!
//! A secret is never an argument, since every user of the machine can read the arguments of a process and shells
//! store them in their history.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use toolgate_api::credential::{ConnectView, CredentialView, DiscoveryRequest, DiscoveryView};
use toolgate_api::hex;
use toolgate_api::root_key::RootKeyRotated;

use super::arguments::OrganizationArgument;
use super::ask;
use super::document::{document_from, text_from};
use super::failure::{Failure, Result};
use super::list;
use super::print::{Printer, cell, time_text};
use crate::client::{Client, escape};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate credential put acme/stripe --provider stripe --kind bearer --to https://api.stripe.com/v1/ --secret-file key
  toolgate credential put acme/mail --provider resend --kind api_key --header x-api-key --to https://api.resend.com --secret-env KEY
  toolgate credential put acme/stripe --provider stripe --kind bearer --to https://api.stripe.com --vault kv/tenants/acme/stripe#key
  toolgate credential put acme/drive drive.json --secret-file client-secret
  toolgate credential connect acme/drive
  toolgate credential discover https://mcp.example.com/mcp --organization acme > example.json
  pass show stripe | toolgate credential rotate acme/stripe --secret-file -
  toolgate credential list acme
  toolgate credential show acme/stripe
  toolgate credential remove acme/stripe
  toolgate credential unseal --secret-file root.key
  toolgate credential rotate-root";

#[derive(Subcommand)]
pub enum CredentialCommand {
    /// List the credentials of an organization
    List(OrganizationArgument),
    /// Show the provider, the allowed destinations and the state of a credential
    Show(CredentialName),
    /// Create a credential, or replace it whole
    Put(Box<Put>),
    /// Replace the secret of a credential
    Rotate {
        #[command(flatten)]
        credential: CredentialName,
        #[command(flatten)]
        secret: SecretSource,
    },
    /// Delete a credential
    Remove(CredentialName),
    /// Print the URL where a person connects a credential, and the requested scopes
    Connect(CredentialName),
    /// Find the authorization server of a service, such as an MCP server, and print the credential that uses it, to be saved
    /// as a document
    Discover {
        /// The URL of the service, or the issuer of an authorization server
        url: String,
        /// The organization that the credential is for; without it, the token's
        #[arg(long, visible_alias = "org", value_name = "ORG")]
        organization: Option<String>,
    },
    /// Unseal a daemon with its root key
    Unseal {
        #[command(flatten)]
        secret: SecretSource,
    },
    /// Rotate the root key: to the given key, to the current key of its source, or to a new key that the daemon
    /// generates
    RotateRoot {
        #[command(flatten)]
        secret: SecretSource,
    },
}

#[derive(Args)]
pub struct CredentialName {
    /// `organization/credential`
    name: String,
}

#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    credential: CredentialName,
    /// A file with the credential as JSON, without its secret; `-` for standard input
    #[arg(conflicts_with_all = ["provider", "kind", "to", "header", "query", "username"])]
    document: Option<String>,
    /// The provider, like `stripe`
    #[arg(long, required_unless_present = "document")]
    provider: Option<String>,
    /// `api_key`, `bearer` or `basic`; OAuth2 needs a document
    #[arg(long, required_unless_present = "document", value_parser = ["api_key", "bearer", "basic"])]
    kind: Option<String>,
    /// An allowed destination: scheme, host, port and path prefix
    #[arg(long, value_name = "URL", required_unless_present = "document")]
    to: Vec<String>,
    /// The header for an API key
    #[arg(long)]
    header: Option<String>,
    /// The query parameter for an API key
    #[arg(long)]
    query: Option<String>,
    /// The user name for Basic authentication
    #[arg(long)]
    username: Option<String>,
    /// The user who owns the credential; without it, the organization owns it
    #[arg(long)]
    user: Option<String>,
    /// Path of the secret in the daemon's vault, instead of the secret itself
    #[arg(long, value_name = "MOUNT/PATH#FIELD", conflicts_with_all = ["secret_file", "secret_env"])]
    vault: Option<String>,
    /// A file that the daemon reads, in the organization's folder of `credentials.file_references`, instead of the secret itself
    #[arg(long, value_name = "PATH", conflicts_with_all = ["secret_file", "secret_env", "vault"])]
    mounted_file: Option<String>,
    #[command(flatten)]
    secret: SecretSource,
}

/// Source of a secret.
#[derive(Args, Clone, Default)]
#[group(multiple = false)]
pub struct SecretSource {
    /// A file that contains only the secret; `-` for standard input
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// An environment variable that contains the secret
    #[arg(long, value_name = "VARIABLE")]
    secret_env: Option<String>,
}

impl SecretSource {
    /// Reads the secret, without its trailing line break; `None` if no source is given.
    fn read(&self) -> Result<Option<String>> {
        let text = match (&self.secret_file, &self.secret_env) {
            (Some(file), _) => text_from(&file.to_string_lossy())?,
            (None, Some(name)) => {
                let value = std::env::var_os(name).and_then(|value| value.into_string().ok());
                value.ok_or_else(|| {
                    let hint = "export it, or give a file with `--secret-file`";
                    Failure::new(format!("the variable `{name}` is not set, or is no text"), hint)
                })?
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// Whether a source is given.
    pub fn is_named(&self) -> bool {
        self.secret_file.is_some() || self.secret_env.is_some()
    }

    /// Reads a root key: text, or the raw bytes of a key file as the daemon writes it.
    fn root_key(&self) -> Result<String> {
        if let Some(file) = &self.secret_file
            && let Ok(bytes) = std::fs::read(file)
            && bytes.len() == 32
        {
            return Ok(hex::encode(&bytes));
        }
        self.require()
    }

    /// Reads the secret, and fails if no source is given.
    pub fn require(&self) -> Result<String> {
        self.read()?.ok_or_else(|| {
            let hint = "name it with `--secret-file` or `--secret-env`; `--secret-file -` is standard input";
            Failure::wrong_usage("there is no secret", hint)
        })
    }
}

pub(crate) async fn run(command: CredentialCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        CredentialCommand::List(organization) => {
            list::all(client, printer, &organization.list_path("credentials"), HEADINGS, row).await
        }
        CredentialCommand::Show(CredentialName { name }) => {
            let credential: CredentialView = client.get(&path(&name)?).send().await?.body;
            Ok(printer.json(&credential)?)
        }
        CredentialCommand::Put(put) => {
            let (body, name) = (put.body()?, &put.credential.name);
            client.put(&path(name)?).json_text(body).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"credential": name}), &format!("credential `{name}` is set"))?)
        }
        CredentialCommand::Rotate { credential: CredentialName { name }, secret } => {
            let body = json!({"secret": secret.require()?});
            client.post(&format!("{}/rotate", path(&name)?)).json(&body).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"rotated": name}), &format!("credential `{name}` has a new secret"))?)
        }
        CredentialCommand::Remove(CredentialName { name }) => {
            ask::before_removal(printer, &format!("credential `{name}`"))?;
            client.delete(&path(&name)?).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"removed": name}), &format!("credential `{name}` is removed"))?)
        }
        CredentialCommand::Connect(CredentialName { name }) => connect(client, printer, &name).await,
        CredentialCommand::Discover { url, organization } => {
            discover(client, printer, DiscoveryRequest { url, organization }).await
        }
        CredentialCommand::Unseal { secret } => {
            client.post("/v1/unseal").json(&json!({"key": secret.root_key()?})).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"status": "ok"}), "the daemon is unsealed")?)
        }
        CredentialCommand::RotateRoot { secret } => {
            let key = if secret.is_named() { Some(secret.root_key()?) } else { None };
            rotate_root(client, printer, key).await
        }
    }
}

const HEADINGS: [&str; 9] =
    ["NAME", "PROVIDER", "KIND", "USER", "STATE", "VERSION", "CHANGED", "LAST USED", "EXPIRES"];

fn row(credential: &CredentialView) -> [String; 9] {
    [
        credential.name.clone(),
        credential.provider.clone(),
        credential.kind.as_str().to_owned(),
        cell(credential.user.as_ref()),
        credential.state.to_string(),
        credential.version.to_string(),
        time_text(credential.changed_ms),
        cell(credential.last_used_ms.map(time_text).as_ref()),
        cell(credential.expires_ms.map(time_text).as_ref()),
    ]
}

/// Prints only the URL on standard output, so it can be piped to a browser.
pub(super) async fn connect(client: &Client, printer: &mut Printer<'_>, name: &str) -> Result {
    let request: ConnectView =
        client.post(&format!("{}/connect", path(name)?)).json(&json!({})).send().await?.body;
    if !printer.is_json() {
        let scopes = request.scopes.join(",");
        printer.note(&format!("open this address within ten minutes; it asks for: {scopes}"))?;
    }
    Ok(printer.result(&request, &request.url)?)
}

/// Prints only the credential on standard output, so it can be saved.
async fn discover(client: &Client, printer: &mut Printer<'_>, request: DiscoveryRequest) -> Result {
    let found: DiscoveryView = client.post("/v1/oauth/discover").json(&request).send().await?.body;
    if printer.is_json() {
        printer.json(&found)?;
    } else {
        for line in discovery_lines(&found) {
            printer.note(&line)?;
        }
        if let Some(credential) = &found.credential {
            printer.json(credential)?;
        }
    }
    match found.credential {
        Some(_) => Ok(()),
        None => Err(Failure::new(
            format!("no authorization server of `{}` can be used", request.url),
            "ask its provider for the authorization and token endpoints, and write the credential yourself",
        )),
    }
}

/// The attempts, the metadata and the notes as lines.
fn discovery_lines(found: &DiscoveryView) -> Vec<String> {
    let mut lines: Vec<String> =
        found.attempts.iter().map(|attempt| format!("{}: {}", attempt.url, attempt.result)).collect();
    if let Some(server) = &found.server {
        let list = |items: &[String]| Some(items.join(" ")).filter(|text| !text.is_empty());
        let yes_or_no = |flag| Some(if flag { "yes" } else { "no" }.to_owned());
        let fields = [
            ("resource", found.resource.clone()),
            ("issuer", Some(server.issuer.clone())),
            ("authorization endpoint", server.authorization_endpoint.clone()),
            ("token endpoint", server.token_endpoint.clone()),
            ("registration endpoint", server.registration_endpoint.clone()),
            ("scopes", list(&server.scopes_supported)),
            ("grant types", list(&server.grant_types_supported)),
            ("PKCE methods", list(&server.code_challenge_methods_supported)),
            ("client id metadata document", yes_or_no(server.client_id_metadata_document_supported)),
            ("redirect URL", Some(found.redirect_url.clone())),
            ("redirect URL without a secret", found.public_client_redirect_url.clone()),
            ("other issuers", list(&found.other_issuers)),
        ];
        lines.extend(fields.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?))));
    }
    lines.extend(found.notes.iter().map(|note| format!("note: {note}")));
    lines
}

async fn rotate_root(client: &Client, printer: &mut Printer<'_>, key: Option<String>) -> Result {
    let body = key.map_or_else(|| json!({}), |key| json!({"key": key}));
    let rotated: RootKeyRotated = client.post("/v1/keys/rotate").json(&body).send().await?.body;
    if rotated.going.is_some() {
        printer.warning(
            "the key before still opens everything: put the new one where the settings say, then ask again",
        )?;
    }
    Ok(printer.result(&rotated, &format!("the root key `{}` serves", rotated.serving))?)
}

impl Put {
    /// Returns the request body: the document with the secret in it.
    fn body(&self) -> Result<String> {
        let mut body = match &self.document {
            Some(place) => serde_json::from_str(&document_from(place)?).unwrap_or_default(),
            None => self.body_from_options()?,
        };
        // Every kind that has a command-line option has a secret; the daemon validates a document.
        let is_elsewhere = self.vault.is_some() || self.mounted_file.is_some();
        let secret = if self.document.is_none() && !is_elsewhere {
            Some(self.secret.require()?)
        } else {
            self.secret.read()?
        };
        if let Some(secret) = secret {
            body.insert("secret".to_owned(), secret.into());
        }
        if let Some(place) = &self.vault {
            body.insert("vault".to_owned(), place.as_str().into());
        }
        if let Some(path) = &self.mounted_file {
            body.insert("file".to_owned(), path.as_str().into());
        }
        Ok(Value::Object(body).to_string())
    }

    fn body_from_options(&self) -> Result<Map<String, Value>> {
        let bound_to = self.to.iter().map(|url| binding(url)).collect::<Result<Vec<_>, _>>()?;
        let fields = [
            ("provider", &self.provider),
            ("kind", &self.kind),
            ("header", &self.header),
            ("query", &self.query),
            ("username", &self.username),
            ("user", &self.user),
        ];
        let given =
            |(name, value): (&str, &Option<String>)| Some((name.to_owned(), Value::String(value.clone()?)));
        let mut body: Map<String, Value> = fields.into_iter().filter_map(given).collect();
        body.insert("bound_to".to_owned(), bound_to.into());
        Ok(body)
    }
}

/// Converts a URL to the allowed destination of a credential.
fn binding(text: &str) -> Result<Value> {
    let url = url::Url::parse(text).ok().filter(|url| url.has_host() && url.query().is_none());
    let url = url.ok_or_else(|| {
        Failure::wrong_usage(format!("`{text}` is no address"), "write it like `https://api.stripe.com/v1/`")
    })?;
    // A URL parser normalizes `/v1/../` to `/`, the whole host, which was not the intent.
    if text.splitn(4, '/').nth(3).is_some_and(|path| url.path()[1..] != *path) {
        let message = format!("the path of `{text}` would be `{}`", url.path());
        return Err(Failure::wrong_usage(message, "write it as it is meant"));
    }
    let mut binding = json!({"scheme": url.scheme(), "host": url.host_str(), "path": url.path()});
    if let Some(port) = url.port() {
        binding["port"] = port.into();
    }
    Ok(binding)
}

fn path(name: &str) -> Result<String> {
    let parts = name.split_once('/').filter(|(_, credential)| !credential.contains('/'));
    let (organization, credential) = parts.ok_or_else(|| {
        Failure::wrong_usage(format!("`{name}` is no credential"), "write `organization/credential`")
    })?;
    Ok(format!("/v1/orgs/{}/credentials/{}", escape(organization), escape(credential)))
}

#[cfg(test)]
mod tests;
