//! Documents on the command line: read from a file or standard input, and written with the entity tag that was read
//! before (optimistic locking).

use std::io::Read;
use std::path::Path;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use toolgate_api::document::{DocumentAccepted, DocumentWarning};

use super::client::{Client, Response, escape};
use super::failure::{Failure, Result};
use super::print::Printer;

/// Reads text from `place`: standard input for `-`, else a file.
pub fn text_from(place: &str) -> Result<String> {
    let read = match place {
        "-" => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        file => std::fs::read_to_string(Path::new(file)),
    };
    read.map_err(|error| {
        let place = if place == "-" { "standard input" } else { place };
        Failure::new(format!("cannot read `{place}`: {error}"), "give a text file, or `-` for standard input")
    })
}

/// Reads the arguments of a call: JSON text as given, `@FILE`, or `-` for standard input.
pub fn arguments_from(word: &str) -> Result<String> {
    match (word, word.strip_prefix('@')) {
        ("-", _) => text_from("-"),
        (_, Some(file)) => text_from(file),
        (json, None) => Ok(json.to_owned()),
    }
}

/// Reads a document from `place`. The text is sent unchanged: the daemon's validation is stricter than a parser here
/// would be.
pub fn document_from(place: &str) -> Result<String> {
    let text = text_from(place)?;
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(_)) => Ok(text),
        Ok(_) => {
            Err(Failure::new(format!("`{place}` holds no document"), "a document is a JSON object: `{…}`"))
        }
        Err(error) => Err(Failure::new(
            format!("`{place}` is not JSON: {error}"),
            "fix it at that line; keys and texts stand in double quotes",
        )),
    }
}

/// Creates or replaces the document at `path`, which may have a query for the write alone. The `If-Match` header of the
/// write has the current entity tag, so a concurrent change is not overwritten.
pub(crate) async fn put<D: DeserializeOwned, T: DeserializeOwned>(
    client: &Client,
    path: &str,
    body: impl FnOnce(Option<&D>) -> String,
) -> Result<Response<T>> {
    let document = path.split_once('?').map_or(path, |(document, _)| document);
    let current = current(client, document).await?;
    let body = body(current.as_ref().map(|current| &current.body));
    let etag = current.as_ref().and_then(|current| current.etag.as_deref());
    Ok(client.put(path).json_text(body).replacing(etag).send().await?)
}

/// Creates or replaces the document at `path` with that of a file, and prints `line`.
pub(crate) async fn put_file(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    file: &str,
    line: &str,
) -> Result {
    let body = document_from(file)?;
    let answer = put::<IgnoredAny, DocumentAccepted>(client, path, |_| body).await?;
    let warnings = &answer.body.warnings;
    warn(printer, warnings)?;
    Ok(printer.result(&json!({"etag": answer.etag, "warnings": warnings}), line)?)
}

/// Reads the document at `path`; `None` if there is none.
pub(crate) async fn current<D: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<Response<D>>> {
    match client.get(path).send().await {
        Ok(response) => Ok(Some(response)),
        Err(error) if error.status() == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Prints the document at `path`.
pub(crate) async fn print(client: &Client, printer: &mut Printer<'_>, path: &str) -> Result {
    let document: Value = client.get(path).send().await?.body;
    Ok(printer.document(&document)?)
}

/// Deletes the document at `path`, if it is still the revision that was just read.
pub(crate) async fn delete(client: &Client, path: &str) -> Result {
    let current = client.get(path).send::<IgnoredAny>().await?;
    client.delete(path).replacing(current.etag.as_deref()).send::<IgnoredAny>().await?;
    Ok(())
}

/// Prints warnings, each with its JSON pointer and a hint.
pub(crate) fn warn(printer: &mut Printer<'_>, warnings: &[DocumentWarning]) -> Result {
    for DocumentWarning { message, path, nearest, .. } in warnings {
        let place = if path.is_empty() { String::new() } else { format!(" (`{path}`)") };
        let hint = nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        printer.warning(&format!("{message}{place}{hint}"))?;
    }
    Ok(())
}

/// Builds a query string from the parameters that have a value, each escaped; empty if none has.
pub(crate) fn query<T: AsRef<str>>(parameters: &[(&str, Option<T>)]) -> String {
    let pair = |(name, value): &(_, Option<T>)| Some(format!("{name}={}", escape(value.as_ref()?.as_ref())));
    let pairs = parameters.iter().filter_map(pair);
    let pairs = pairs.collect::<Vec<_>>().join("&");
    if pairs.is_empty() { pairs } else { format!("?{pairs}") }
}
