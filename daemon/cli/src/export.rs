//! `toolgate export`: writes the documents of a daemon into the folder that `toolgate apply` reads.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::client::{Client, escape};
use super::failure::{Failure, Result};
use super::folder::{FolderDocument, Kind, Stored};
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  toolgate export policies                             everything, with an operator's token
  toolgate export policies --organization acme         with the token of an owner
  toolgate apply -f policies --dry-run                 nothing to change

It writes policies, agents, grants, definitions of tools, settings, webhooks, assertions and publishers' keys. Files of plugins, credentials,
tokens, secrets of webhooks and what organizations accepted are not in it: a backup has them.";

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExportOptions {
    /// The folder to write; it must be empty or not exist. Hidden files may be in it
    folder: PathBuf,
    /// Only this organization, without the documents of the platform; may be repeated
    #[arg(long = "organization", visible_alias = "org", value_name = "ORG")]
    organizations: Vec<String>,
}

pub(crate) async fn run(options: ExportOptions, client: &Client, printer: &mut Printer<'_>) -> Result {
    let ExportOptions { folder, organizations } = options;
    check_folder(&folder)?;
    let mut places = Vec::new();
    let organizations = match organizations.is_empty() {
        true => {
            add_platform(client, &mut places).await?;
            names(client, "/v1/orgs").await?
        }
        false => organizations,
    };
    for organization in &organizations {
        add_organization(client, organization, &mut places).await?;
    }
    let mut written = Vec::new();
    for place in places {
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let Some(document) = FolderDocument::at(&place) else { continue };
        let Some(stored) = Stored::read(client, &document).await? else { continue };
        if let Some(text) = text_of(document.kind, &stored) {
            let file = folder.join(&document.file).with_added_extension("json");
            write(&file, &text)?;
            written.push(document.label);
        }
    }
    let line = format!("{} documents are in `{}`", written.len(), folder.display());
    Ok(printer.result(&json!({"folder": folder, "documents": written}), &line)?)
}

/// Refuses a folder with files: some could be of documents that the daemon no longer has.
fn check_folder(folder: &Path) -> Result {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| unwritable(folder, &error))?,
    };
    let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    match names.find(|name| !name.as_encoded_bytes().starts_with(b".")) {
        None => Ok(()),
        Some(name) => Err(Failure::new(
            format!("nothing was written: `{}` has `{}`", folder.display(), name.to_string_lossy()),
            "give an empty folder, and compare the two with `diff -r`",
        )),
    }
}

async fn add_platform(client: &Client, places: &mut Vec<Vec<String>>) -> Result {
    places.extend([vec!["platform".to_owned()], vec!["assertions".to_owned()]]);
    for (list, folder) in [("/v1/platform/publisher-keys", "publisher-keys"), ("/v1/plugins", "grants")] {
        let found = names(client, list).await?;
        places.extend(found.into_iter().map(|name| vec![folder.to_owned(), name]));
    }
    Ok(())
}

async fn add_organization(client: &Client, organization: &str, places: &mut Vec<Vec<String>>) -> Result {
    let base = format!("/v1/orgs/{}", escape(organization));
    let mut add = |rest: &[&str]| {
        places.push(["orgs", organization].iter().chain(rest).map(|part| (*part).to_owned()).collect());
    };
    ["organization", "policy", "assertions"].iter().for_each(|document| add(&[*document]));
    let catalogue = format!("/v1/catalogue?limit=1000&org={}", escape(organization));
    for (list, folders) in [
        (format!("{base}/agents"), &["agents"][..]),
        (format!("{base}/tools"), &["tools", "grants"]),
        (format!("{base}/plugins"), &["grants"]),
        (catalogue, &["settings"]),
        (format!("{base}/webhooks"), &["webhooks"]),
        (format!("{base}/publisher-keys"), &["publisher-keys"]),
    ] {
        for name in names(client, &list).await? {
            folders.iter().for_each(|folder| add(&[*folder, name.as_str()]));
        }
    }
    Ok(())
}

/// The names in a list. One that is not there is empty.
async fn names(client: &Client, list: &str) -> Result<Vec<String>> {
    let items: Vec<Value> = match client.list_all(list).await {
        Err(error) if error.status() == Some(404) => Vec::new(),
        items => items?,
    };
    let name = |item: &Value| Some(item.get("name").or_else(|| item.get("namespace"))?.as_str()?.to_owned());
    Ok(items.iter().filter_map(name).collect())
}

/// The text of the file; none for what holds by default.
fn text_of(kind: Kind, stored: &Stored) -> Option<String> {
    match kind {
        Kind::Webhook => Some(pretty(&stored.text)),
        Kind::Settings => {
            let config = stored.value.get("config").filter(|config| **config != json!({}))?;
            Some(pretty(&config.to_string()))
        }
        _ => stored.etag.as_ref().map(|_| pretty(&stored.text)),
    }
}

/// JSON with lines and indents, its members in their order and its numbers as they were written.
fn pretty(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut escaped) = (String::new(), 0_usize, false, false);
    let mut characters = json.chars().filter(|letter| *letter != '\n').peekable();
    while let Some(letter) = characters.next() {
        if in_string || letter == '"' {
            in_string = !in_string || escaped || letter != '"';
            escaped = letter == '\\' && !escaped;
            text.push(letter);
            continue;
        }
        let break_line = |text: &mut String, depth: usize| {
            text.push('\n');
            text.extend(std::iter::repeat_n("  ", depth));
        };
        match letter {
            ' ' | '\t' | '\r' => {}
            '{' | '[' => {
                text.push(letter);
                while characters.next_if(|next| next.is_whitespace()).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        break_line(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut text, depth);
                text.push(letter);
            }
            ',' => {
                text.push(letter);
                break_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => text.push(letter),
        }
    }
    text.push('\n');
    text
}

fn write(file: &Path, text: &str) -> Result {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    fs::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let hint = "check the path, its permissions and the space on the disk";
    Failure::new(format!("`{}` cannot be written: {error}", path.display()), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_lines_and_is_the_same() {
        let text = r#"{"b":[1.50,{"\"{a\\":"x, y"}],"a":{},"c":[]}"#;
        let lines = "{\n  \"b\": [\n    1.50,\n    {\n      \"\\\"{a\\\\\": \"x, y\"\n    }\n  ],\n  \"a\": {},\n  \"c\": []\n}\n";
        assert_eq!(pretty(text), lines);
        assert_eq!(pretty(lines), lines);
    }
}
