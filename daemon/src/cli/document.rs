//! Documents from the command line: read from a file or standard input, written
//! over exactly what was read.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::failure::Failure;
use crate::client::{Answer, Client, ClientError};

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
    let current = match client.get(path).send().await {
        Ok(answer) => Some(answer),
        Err(error) if error.status() == Some(404) => None,
        Err(error) => return Err(error.into()),
    };
    let known = current.as_ref().map(Answer::json).transpose()?;
    let body = body(known.as_ref());
    let etag = current.as_ref().and_then(|answer| answer.etag.as_deref());
    let put = client.put(path).body("application/json", body.into()).replacing(etag);
    Ok(put.send().await?)
}

/// Deletes the document at `path` as it is now.
pub async fn delete(client: &Client, path: &str) -> Result<(), Failure> {
    let current = client.get(path).send().await?;
    client.delete(path).replacing(current.etag.as_deref()).send().await?;
    Ok(())
}

/// All items of a list, page after page.
pub async fn all_items(client: &Client, path: &str) -> Result<Vec<Value>, ClientError> {
    let mut items = Vec::new();
    let mut cursor = None::<String>;
    loop {
        let target = match &cursor {
            None => path.to_owned(),
            Some(cursor) => format!("{path}?cursor={}", crate::client::escaped(cursor)),
        };
        let answer = client.get(&target).send().await?;
        let mut page = answer.json()?;
        let Some(Value::Array(more)) = page.get_mut("items").map(Value::take) else {
            return Err(ClientError::strange(answer.status, &answer.body));
        };
        items.extend(more);
        match page.get("next_cursor").and_then(Value::as_str) {
            // A server that never ends its list would be followed for ever.
            Some(next) if cursor.as_deref() != Some(next) => cursor = Some(next.to_owned()),
            _ => return Ok(items),
        }
    }
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
