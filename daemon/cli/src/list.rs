//! Lists of the daemon, printed whole or page by page.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolgate_api::page::List;

use super::client::Client;
use super::failure::Result;
use super::print::Printer;

/// Prints every item of the list at `path`.
pub(crate) async fn all<T: Serialize + DeserializeOwned, const N: usize>(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    headings: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> Result {
    Ok(printer.list(headings, &client.list_all(path).await?, row)?)
}

/// Prints one page of the list at `path`, and the option that shows the next one.
pub(crate) async fn page<T: Serialize + DeserializeOwned, const N: usize>(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    headings: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> Result {
    let page: List<T> = client.get(path).send().await?.body;
    if printer.is_json() {
        return Ok(printer.json(&page)?);
    }
    printer.list(headings, &page.items, row)?;
    match page.next_cursor {
        Some(cursor) => Ok(printer.note(&format!("there is more: add `--cursor {cursor}`"))?),
        None => Ok(()),
    }
}
