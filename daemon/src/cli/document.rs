//! Documents from the command line: read from a file or standard input, written
//! over exactly what was read.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Failure;
use super::print::{Printer, time_text};
use crate::client::{Answer, Client, ClientError, escaped};

/// Text from `place`: `-` is standard input, everything else a file.
pub fn text_from(place: &str) -> Result<String, Failure> {
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

/// The arguments of a call: JSON as it was given, from `@FILE`, or from standard input for `-`.
pub fn arguments_from(word: &str) -> Result<String, Failure> {
    match (word, word.strip_prefix('@')) {
        ("-", _) => text_from("-"),
        (_, Some(file)) => text_from(file),
        (json, None) => Ok(json.to_owned()),
    }
}

/// A document from `place`. Its text is sent as it is: the daemon's check of it is
/// stricter than a parser here would be.
pub fn document_from(place: &str) -> Result<String, Failure> {
    let text = text_from(place)?;
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(_)) => Ok(text),
        Ok(_) => {
            Err(Failure::new(format!("`{place}` holds no document"), "a document is a JSON object: `{…}`"))
        }
        Err(error) => Err(Failure::new(
            format!("`{place}` is not JSON: {error}"),
            "mend it at that line; keys and texts stand in double quotes",
        )),
    }
}

/// Puts a document at `path` in place of the one that is there now, if any; what
/// somebody else writes in between is not overwritten.
pub async fn put(
    client: &Client,
    path: &str,
    body: impl FnOnce(Option<&Value>) -> String,
) -> Result<Answer, Failure> {
    put_with(client, path, "", body).await
}

/// The same, with a query like `?strict=true` for the write.
pub async fn put_with(
    client: &Client,
    path: &str,
    query: &str,
    body: impl FnOnce(Option<&Value>) -> String,
) -> Result<Answer, Failure> {
    let current = match client.get(path).send().await {
        Ok(answer) => Some(answer),
        Err(error) if error.status() == Some(404) => None,
        Err(error) => return Err(error.into()),
    };
    let known = current.as_ref().map(Answer::json).transpose()?;
    let body = body(known.as_ref());
    let etag = current.as_ref().and_then(|answer| answer.etag.as_deref());
    let put = client.put(&format!("{path}{query}")).body("application/json", body.into()).replacing(etag);
    Ok(put.send().await?)
}

/// Deletes the document at `path` as it is now.
pub async fn delete(client: &Client, path: &str) -> Result<(), Failure> {
    let current = client.get(path).send().await?;
    client.delete(path).replacing(current.etag.as_deref()).send().await?;
    Ok(())
}

/// Says what is odd about a document, with the place and the nearest right name.
pub fn warn(printer: &mut Printer<'_>, answer: &Value) -> Result<(), Failure> {
    for warning in answer.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        let mut text = field(warning, "/message");
        let part = |name: &str| warning.get(name).and_then(Value::as_str).filter(|part| !part.is_empty());
        if let Some(place) = part("path") {
            text += &format!(" (`{place}`)");
        }
        if let Some(nearest) = part("nearest") {
            text += &format!("; did you mean `{nearest}`?");
        }
        printer.warning(&text)?;
    }
    Ok(())
}

/// A page of a list.
#[derive(Deserialize)]
struct ListPage<T> {
    items: Vec<T>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// All items of a list, page after page.
pub async fn all_items(client: &Client, path: &str) -> Result<Vec<Value>, ClientError> {
    all_items_as(client, path).await
}

/// The same, each read as a `T`.
pub async fn all_items_as<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Vec<T>, ClientError> {
    let mut items = Vec::new();
    let mut cursor = None::<String>;
    let joint = if path.contains('?') { '&' } else { '?' };
    loop {
        let target = match &cursor {
            None => path.to_owned(),
            Some(cursor) => format!("{path}{joint}cursor={}", escaped(cursor)),
        };
        let page: ListPage<T> = read(&client.get(&target).send().await?)?;
        items.extend(page.items);
        match page.next_cursor {
            // A server that never ends its list would be followed for ever.
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => return Ok(items),
        }
    }
}

/// The body of an answer, read as what it should be.
pub fn read<T: DeserializeOwned>(answer: &Answer) -> Result<T, ClientError> {
    serde_json::from_slice(&answer.body).map_err(|_| ClientError::strange(answer.status, &answer.body))
}

/// A query of what was said, each value escaped; nothing where nothing was.
pub fn query(asked: &[(&str, Option<&str>)]) -> String {
    let said = asked.iter().filter_map(|(name, value)| Some(format!("{name}={}", escaped((*value)?))));
    let said = said.collect::<Vec<_>>().join("&");
    if said.is_empty() { said } else { format!("?{said}") }
}

/// A moment, in milliseconds since 1970, as text for a table; `-` where there is none.
pub fn moment(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_u64).map_or_else(|| "-".into(), time_text)
}

/// A field as text for a table; `-` where there is none.
pub fn field(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "-".into(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(","),
        Some(other) => other.to_string(),
    }
}
