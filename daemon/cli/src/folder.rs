//! Documents of a folder: found, parsed and checked, for `toolgate apply` and `toolgate policy test`.
//!
//! A file that is not read would be a document that the folder does not have, and `apply --prune` would delete it: so each file that is
//! no document is an error.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};
use toolgate_api::definition::{CustomToolDefinition, DefinitionKind};
use toolgate_api::document::OrganizationDocument;
use toolgate_api::grant::Grant;
use toolgate_api::name::{Name, Namespace};
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_api::publisher::PublisherKeyDocument;
use toolgate_api::read::ReadError;

use crate::client::{Client, escape};
use crate::{Failure, Printer, document};

/// The files of a folder, for the help.
pub const LAYOUT: &str = "\
Files of the folder, all of them optional:
  platform.json                     the policy of the platform
  assertions.json                   the assertions of the platform
  grants/PLUGIN.json                the grant of a plugin
  publisher-keys/NAME.json          a publisher's key of the platform
  orgs/ORG/organization.json        the organization
  orgs/ORG/policy.json              its policy
  orgs/ORG/assertions.json          its assertions
  orgs/ORG/agents/AGENT.json        an agent
  orgs/ORG/tools/NAMESPACE.json     the definition of a tool
  orgs/ORG/grants/NAMESPACE.json    the grant of a tool
  orgs/ORG/settings/PLUGIN.json     its settings of a plugin
  orgs/ORG/webhooks/NAME.json       a webhook, without its secret
  orgs/ORG/publisher-keys/NAME.json a publisher's key of the organization

Files end in `.json`, `.yaml` or `.yml`. The folder `plugins`, hidden files and files that end in `.md` are passed over; any other
file is an error.";

/// Limit of a file, above every limit of a body; a larger file is not read.
const FILE_BYTES: u64 = 16 << 20;

/// Levels of folders, as in `orgs/ORG/agents`. Links could make endless ones.
const DEPTH: usize = 3;

/// Kinds of documents, in the order in which they are written: each after those that it may refer to, and a tool after its
/// grant and the policies, so that no agent calls it without its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Platform,
    PublisherKey,
    Grant,
    Organization,
    OrganizationKey,
    ToolGrant,
    /// Settings of a plugin, without the consent to it: that is a person's decision.
    Settings,
    Policy,
    Agent,
    Tool,
    Webhook,
    Assertions,
}

/// A document of the folder.
#[derive(Clone, Debug)]
pub struct FolderDocument {
    pub file: PathBuf,
    pub kind: Kind,
    /// The name of the file without its ending.
    pub name: String,
    /// The path of the document in the HTTP interface.
    pub path: String,
    /// The words of messages, such as ``agent `acme/bot` ``.
    pub label: String,
    /// The organization that it belongs to.
    pub organization: Option<String>,
    pub text: String,
    pub value: Value,
}

/// A document as the daemon has it.
pub struct Stored {
    /// The entity tag; `None` for a default that was never written, and for a webhook.
    pub etag: Option<String>,
    pub text: String,
    pub value: Value,
}

/// A file that is wrong.
#[derive(Debug)]
pub struct WrongFile {
    pub file: PathBuf,
    pub message: String,
    pub hint: String,
}

/// The documents and the wrong files of a folder.
#[derive(Debug, Default)]
pub struct Folder {
    /// In the order of their kinds.
    pub documents: Vec<FolderDocument>,
    pub wrong: Vec<WrongFile>,
}

/// Reads every document of a folder.
pub fn read(folder: &Path) -> Folder {
    let mut found = Folder::default();
    found.walk(folder, &mut Vec::new());
    found.documents.sort_by(|one, other| (one.kind, &one.path).cmp(&(other.kind, &other.path)));
    found
}

impl Folder {
    /// Names of the organizations that have a folder.
    pub fn organizations(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.documents.iter().filter_map(|document| document.organization.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Prints the wrong files.
    ///
    /// # Errors
    ///
    /// There are some; `undone` is what was not done for it.
    pub fn check(&self, undone: &str, printer: &mut Printer<'_>) -> Result<(), Failure> {
        for wrong in &self.wrong {
            printer.error(&format!("`{}`: {} ({})", wrong.file.display(), wrong.message, wrong.hint))?;
        }
        if self.wrong.is_empty() {
            return Ok(());
        }
        let message = format!("{undone}: {} of the files are wrong", self.wrong.len());
        Err(Failure::new(message, "fix the errors above; each line says how"))
    }

    fn walk(&mut self, folder: &Path, place: &mut Vec<String>) {
        let entries = match fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) => return self.add_wrong(folder, format!("cannot be read: {error}"), PERMISSIONS),
        };
        for entry in entries {
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            if name.starts_with('.') || (place.is_empty() && name == "plugins") {
                continue;
            }
            match (path.is_dir(), Format::of(&name)) {
                (true, _) if place.len() >= DEPTH => {
                    self.add_wrong(&path, "is not a folder of documents".to_owned(), SEE_LAYOUT);
                }
                (true, _) => {
                    place.push(name);
                    self.walk(&path, place);
                    place.pop();
                }
                (false, Some((stem, format))) => {
                    place.push(stem.to_owned());
                    self.add(&path, place, format);
                    place.pop();
                }
                (false, None) if name.ends_with(".md") => {}
                (false, None) => {
                    let message = "is not the file of a document".to_owned();
                    self.add_wrong(
                        &path,
                        message,
                        "let it end in `.json`, `.yaml` or `.yml`, or move it out of the folder",
                    );
                }
            }
        }
    }

    fn add(&mut self, file: &Path, place: &[String], format: Format) {
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let Some((kind, path, label, organization)) = document_at(&place) else {
            let message = "is not the file of a document".to_owned();
            return self.add_wrong(file, message, SEE_LAYOUT);
        };
        if let Some(error) = wrong_name(kind, &place) {
            return self.add_wrong(file, error.0, error.1);
        }
        let text = match read_text(file) {
            Ok(text) => text,
            Err(reason) => return self.add_wrong(file, format!("cannot be read: {reason}"), PERMISSIONS),
        };
        let (text, value) = match format.read(text) {
            Ok(read) => read,
            Err((message, hint)) => return self.add_wrong(file, message, hint),
        };
        if let Some(same) = self.documents.iter().find(|other| other.path == path) {
            let message = format!("is the same document as `{}`", same.file.display());
            return self.add_wrong(file, message, "remove one of the files");
        }
        match check(kind, &text, &value, organization.is_some()) {
            Ok(()) => {
                let (text, value) = as_stored(kind, text, value);
                let (file, name) = (file.to_owned(), place.last().copied().unwrap_or_default().to_owned());
                self.documents.push(FolderDocument {
                    file,
                    kind,
                    name,
                    path,
                    label,
                    organization,
                    text,
                    value,
                });
            }
            Err(error) => {
                let place =
                    if error.place.is_empty() { String::new() } else { format!(" (`{}`)", error.place) };
                self.add_wrong(file, format!("{}{place}", error.message), error.hint);
            }
        }
    }

    fn add_wrong(&mut self, file: &Path, message: String, hint: impl Into<String>) {
        self.wrong.push(WrongFile { file: file.to_owned(), message, hint: hint.into() });
    }
}

impl FolderDocument {
    /// The document at a place in the folder, such as `["orgs", "acme", "policy"]`, without its text.
    pub fn at(place: &[&str]) -> Option<Self> {
        let (kind, path, label, organization) = document_at(place)?;
        let (file, name) = (place.iter().collect(), place.last().copied().unwrap_or_default().to_owned());
        Some(Self { file, kind, name, path, label, organization, text: String::new(), value: Value::Null })
    }
}

impl Stored {
    /// Reads a document of the daemon, with what a folder has of it; `None` if there is none.
    pub(crate) async fn read(client: &Client, document: &FolderDocument) -> Result<Option<Self>, Failure> {
        let current = document::current::<Box<RawValue>>(client, &document.path).await?;
        let Some(current) = current else { return Ok(None) };
        let text = current.body.get().to_owned();
        let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
        let Some(members) = value.as_object_mut() else {
            return Ok(Some(Self { etag: current.etag, text, value }));
        };
        match document.kind {
            // The view lists the assertions that do not hold at present; the document has no such list.
            Kind::Assertions => drop(members.remove("broken")),
            // The view of a plugin has more than the settings.
            Kind::Settings => members.retain(|name, _| name == "config"),
            Kind::Webhook => members.retain(|name, _| name == "url" || name == "events"),
            _ => return Ok(Some(Self { etag: current.etag, text, value })),
        }
        Ok(Some(Self { etag: current.etag, text: value.to_string(), value }))
    }
}

/// How a file is written.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Yaml,
}

impl Format {
    /// The format of a file by its name, and the name without its ending.
    fn of(name: &str) -> Option<(&str, Self)> {
        let endings = [(".json", Self::Json), (".yaml", Self::Yaml), (".yml", Self::Yaml)];
        endings.into_iter().find_map(|(ending, format)| Some((name.strip_suffix(ending)?, format)))
    }

    /// The document as JSON. The error has its hint.
    fn read(self, text: String) -> Result<(String, Value), (String, &'static str)> {
        match self {
            Self::Json => match serde_json::from_str(&text) {
                Ok(value) => Ok((text, value)),
                Err(error) => Err((format!("is not JSON: {error}"), FIX_JSON)),
            },
            Self::Yaml => {
                // `no` is a text here, as in YAML 1.2.
                let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
                match serde_saphyr::from_str_with_options::<Value>(&text, options) {
                    Ok(value) => Ok((value.to_string(), value)),
                    Err(error) => Err((format!("is not YAML: {error}"), FIX_YAML)),
                }
            }
        }
    }
}

/// The text to send, and the value that the daemon returns for it.
fn as_stored(kind: Kind, text: String, mut value: Value) -> (String, Value) {
    if let Some(members) = value.as_object_mut() {
        match kind {
            // The daemon stores an organization with all of its fields.
            Kind::Organization => {
                members.entry("display_name").or_insert(Value::Null);
                members.entry("connected").or_insert_with(|| json!([]));
            }
            Kind::Assertions => drop(members.remove("broken")),
            _ => {}
        }
    }
    match kind {
        Kind::Settings => (format!(r#"{{"config":{text}}}"#), json!({"config": value})),
        _ => (text, value),
    }
}

const SEE_LAYOUT: &str = "`toolgate apply --help` lists the files of a folder";
const PERMISSIONS: &str = "check the path and its permissions";
const FIX_YAML: &str = "fix it at that line; names of tools such as `files/*` stand in quotes";
const FIX_JSON: &str = "fix it at that line; keys and texts stand in double quotes";

fn read_text(file: &Path) -> Result<String, String> {
    let bytes = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if bytes > FILE_BYTES {
        return Err(format!("it has {bytes} bytes, more than a document can have"));
    }
    fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Kind, path, label and organization of the document at a place in the folder.
fn document_at(place: &[&str]) -> Option<(Kind, String, String, Option<String>)> {
    if let ["orgs", organization, rest @ ..] = place {
        let (kind, path, label) = document_of_organization(organization, rest)?;
        return Some((kind, path, label, Some((*organization).to_owned())));
    }
    let (kind, path, label) = match place {
        ["platform"] => (Kind::Platform, "policy".to_owned(), "policy of the platform".to_owned()),
        ["assertions"] => {
            (Kind::Assertions, "policy/assertions".to_owned(), "assertions of the platform".to_owned())
        }
        ["publisher-keys", name] => {
            let label = format!("publisher key `{name}`");
            (Kind::PublisherKey, format!("publisher-keys/{}", escape(name)), label)
        }
        ["grants", plugin] => {
            let path = format!("/v1/plugins/{}/grant", escape(plugin));
            return Some((Kind::Grant, path, format!("grant of plugin `{plugin}`"), None));
        }
        _ => return None,
    };
    Some((kind, format!("/v1/platform/{path}"), label, None))
}

fn document_of_organization(organization: &str, place: &[&str]) -> Option<(Kind, String, String)> {
    let base = format!("/v1/orgs/{}", escape(organization));
    let only = |kind, path: &str, label: &str| {
        Some((kind, format!("{base}{path}"), format!("{label} `{organization}`")))
    };
    let named = |kind, list: &str, label: &str, name: &str| {
        Some((kind, format!("{base}/{list}/{}", escape(name)), format!("{label} `{organization}/{name}`")))
    };
    match place {
        ["organization"] => only(Kind::Organization, "", "organization"),
        ["policy"] => only(Kind::Policy, "/policy", "policy of"),
        ["assertions"] => only(Kind::Assertions, "/policy/assertions", "assertions of"),
        ["agents", name] => named(Kind::Agent, "agents", "agent", name),
        ["tools", name] => named(Kind::Tool, "tools", "tool", name),
        ["grants", name] => {
            let (kind, tool, label) = named(Kind::ToolGrant, "tools", "grant of tool", name)?;
            Some((kind, format!("{tool}/grant"), label))
        }
        ["settings", name] => named(Kind::Settings, "enabled", "settings of plugin", name),
        ["webhooks", name] => named(Kind::Webhook, "webhooks", "webhook", name),
        ["publisher-keys", name] => named(Kind::OrganizationKey, "publisher-keys", "publisher key", name),
        _ => None,
    }
}

/// Message and hint of a name that no daemon takes.
fn wrong_name(kind: Kind, place: &[&str]) -> Option<(String, String)> {
    let organization = match place {
        ["orgs", organization, ..] => Name::parse(organization).err(),
        _ => None,
    };
    let last = place.last().copied().unwrap_or_default();
    let own = match kind {
        Kind::Grant | Kind::Tool | Kind::ToolGrant | Kind::Settings => Namespace::parse(last).err(),
        Kind::PublisherKey | Kind::OrganizationKey | Kind::Agent | Kind::Webhook => Name::parse(last).err(),
        Kind::Platform | Kind::Organization | Kind::Policy | Kind::Assertions => None,
    };
    organization.or(own).map(|error| (error.message, error.hint.to_owned()))
}

/// Checks what can be checked without the state of a daemon.
fn check(kind: Kind, text: &str, value: &Value, of_organization: bool) -> Result<(), ReadError> {
    match kind {
        Kind::Platform => PlatformDocument::parse(text).map(drop),
        Kind::Policy => OrgDocument::parse(text).map(drop),
        Kind::Agent => AgentDocument::parse(text).map(drop),
        Kind::Grant | Kind::ToolGrant => Grant::parse(text).map(drop),
        Kind::PublisherKey | Kind::OrganizationKey => PublisherKeyDocument::parse(text).map(drop),
        Kind::Assertions => {
            let holder =
                if of_organization { AssertionHolder::Organization } else { AssertionHolder::Platform };
            AssertionsDocument::parse(text, holder).map(drop)
        }
        Kind::Organization => serde_json::from_value::<OrganizationDocument>(value.clone())
            .map(drop)
            .map_err(|error| ReadError::new("", error.to_string(), "write `display_name` and `connected`")),
        Kind::Tool => {
            let kind = value.get("kind").cloned().map(serde_json::from_value::<DefinitionKind>);
            let kind = kind.transpose().map_err(|error| {
                ReadError::new("/kind", error.to_string(), "write `http`, `mcp` or `shell`")
            })?;
            CustomToolDefinition::read(value, kind.unwrap_or_default()).map(drop)
        }
        Kind::Settings if value.is_object() => Ok(()),
        Kind::Settings => {
            Err(ReadError::new("", "settings are an object", "write them by name: `{\"region\": \"eu\"}`"))
        }
        Kind::Webhook => check_webhook(value),
    }
}

/// A secret belongs into no folder that is kept with others under version control.
fn check_webhook(value: &Value) -> Result<(), ReadError> {
    let url = value.get("url").and_then(Value::as_str);
    let unknown = value
        .as_object()
        .and_then(|members| members.keys().find(|name| !matches!(name.as_str(), "url" | "events")));
    match (url, unknown) {
        (_, Some(name)) if name == "secret" => Err(ReadError::new(
            "/secret",
            "a webhook of a folder has no secret",
            "leave it out: a new webhook gets one, and `toolgate webhook put --secret-file` sets another",
        )),
        (_, Some(name)) => Err(ReadError::new(
            format!("/{name}"),
            format!("unknown field `{name}`"),
            "write `url` and `events`",
        )),
        (None, None) => Err(ReadError::new("", "a webhook has a `url`", "write {\"url\": \"https://…\"}")),
        (Some(_), None) => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The definition of a tool.
    pub(crate) const TOOL: &str =
        r#"{"kind": "mcp", "description": "The shop.", "url": "https://api.shop.example/mcp"}"#;

    pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("written");
        }
        folder
    }

    #[test]
    fn documents_come_in_the_order_in_which_they_can_be_written() {
        let folder = folder(&[
            ("orgs/acme/agents/bot.json", r#"{"enabled": ["files/*"]}"#),
            ("orgs/acme/policy.json", r#"{"enabled": "*"}"#),
            ("orgs/acme/organization.json", "{}"),
            ("orgs/acme/tools/shop.json", TOOL),
            ("orgs/acme/grants/shop.json", r#"{"network": [{"host": "api.shop.example"}]}"#),
            ("orgs/acme/assertions.json", r#"{"assertions": []}"#),
            ("platform.json", "{}"),
            ("README.md", "no document"),
            ("orgs/acme/agents/clerk.yaml", "# a clerk\nenabled: [\"files/*\"]\n"),
            ("plugins/pay.json", "not looked at"),
        ]);
        let found = read(folder.path());
        assert!(found.wrong.is_empty(), "{:?}", found.wrong);
        let paths: Vec<_> = found.documents.iter().map(|document| document.path.as_str()).collect();
        let expected = [
            "/v1/platform/policy",
            "/v1/orgs/acme",
            "/v1/orgs/acme/tools/shop/grant",
            "/v1/orgs/acme/policy",
            "/v1/orgs/acme/agents/bot",
            "/v1/orgs/acme/agents/clerk",
            "/v1/orgs/acme/tools/shop",
            "/v1/orgs/acme/policy/assertions",
        ];
        assert_eq!(paths, expected);
        assert_eq!(found.organizations(), ["acme"]);
        // As the daemon returns it, so that an unchanged organization is not written again.
        assert_eq!(found.documents[1].value, json!({"display_name": null, "connected": []}));
    }

    #[test]
    fn every_wrong_file_is_named_with_its_place() {
        let folder = folder(&[
            ("platform.json", "{"),
            ("polcy.json", "{}"),
            ("orgs/acme/policy.json", r#"{"enabeld": []}"#),
            ("orgs/Acme Inc/policy.json", "{}"),
            ("orgs/acme/webhooks/chat.json", r#"{"url": "https://a.example", "secret": "s"}"#),
            ("orgs/acme/agents/ok.json", r#"{"enabled": []}"#),
            ("orgs/acme/agents/ok.yml", "enabled: []"),
            ("orgs/acme/agents/clerk.yaml", "enabled: *files"),
            ("orgs/acme/agents/notes.txt", "later"),
        ]);
        let found = read(folder.path());
        let wrong: Vec<_> = found.wrong.iter().map(|wrong| format!("{}", wrong.file.display())).collect();
        for file in [
            "platform.json",
            "polcy.json",
            "acme/policy.json",
            "Acme Inc/policy.json",
            "chat.json",
            "clerk.yaml",
            "notes.txt",
        ] {
            assert!(wrong.iter().any(|wrong| wrong.ends_with(file)), "{file}: {wrong:?}");
        }
        assert_eq!((wrong.len(), found.documents.len()), (8, 1));
    }
}
