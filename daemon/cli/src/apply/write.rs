//! Writes the changes of a plan, and takes them back if one is refused.

use serde::de::IgnoredAny;
use serde_json::Value;
use toolgate_api::document::DocumentWarning;

use super::super::client::{Client, ClientError};
use super::super::document;
use super::super::failure::{Failure, Result};
use super::super::print::Printer;
use super::plan::{Change, Deletion, Plan, empty_text, refusal};
use crate::folder::{FolderDocument, Kind};

/// A change that is in force.
struct Written<'plan> {
    change: &'plan Change,
    etag: Option<String>,
}

/// Writes all changes, then deletes. Returns what a person must know, such as the secret of a new webhook.
///
/// Output that cannot be printed, such as into a closed pipe, does not end the command between two writes.
pub(super) async fn all(client: &Client, plan: &Plan, printer: &mut Printer<'_>) -> Result<Vec<String>> {
    let (mut written, mut notes, mut unsettled) = (Vec::new(), Vec::new(), Vec::new());
    for change in &plan.changes {
        match change.put(client, "").send::<Value>().await {
            Ok(response) => {
                notes.extend(secret(change, &response.body));
                let all = warnings(&response.body);
                let lasting = plan.lasting_warnings(&change.document, all.clone());
                let _ = document::warn(printer, &lasting);
                if lasting.len() < all.len() {
                    unsettled.push((&change.document, lasting));
                }
                written.push(Written { change, etag: response.etag });
            }
            Err(error) => {
                let failure = failure(change, error);
                return Err(take_back(client, written, printer)
                    .await
                    .map_or_else(|stays| stays, |()| failure));
            }
        }
    }
    warn_of_tools(client, unsettled, printer).await;
    if let Err(failure) = delete(client, &plan.deletions).await {
        // No later request returns the secret of a webhook.
        notes.iter().for_each(|note| drop(printer.note(note)));
        return Err(failure);
    }
    Ok(notes)
}

/// Shows the warnings about tools that documents have once the tools after them are written, without those that were shown.
async fn warn_of_tools(
    client: &Client,
    unsettled: Vec<(&FolderDocument, Vec<DocumentWarning>)>,
    printer: &mut Printer<'_>,
) {
    for (written, shown) in unsettled {
        let asked = client.get(&format!("{}/warnings", written.path)).send::<Value>().await;
        let Ok(response) = asked else { continue };
        let mut left = warnings(&response.body);
        left.retain(|warning| {
            let is_shown =
                |other: &DocumentWarning| (&other.message, &other.path) == (&warning.message, &warning.path);
            matches!(&*warning.code, "UNRESOLVED_TOOL" | "NO_TOOLS") && !shown.iter().any(is_shown)
        });
        let _ = document::warn(printer, &left);
    }
}

async fn delete(client: &Client, deletions: &[Deletion]) -> Result {
    for (index, deletion) in deletions.iter().enumerate() {
        let mut request = client.delete(&deletion.document.path);
        if let Some(etag) = &deletion.etag {
            request = request.replacing(Some(etag));
        }
        if let Err(error) = request.send::<IgnoredAny>().await {
            let failure = Failure::from(error);
            return Err(Failure::new(
                format!(
                    "everything is written, {index} documents are deleted, and {} is not: {failure}",
                    deletion.document.label
                ),
                "look at it, and apply the folder again",
            ));
        }
    }
    Ok(())
}

/// The failure of an apply whose earlier writes are taken back. Without a response, the daemon may have written the document.
fn failure(change: &Change, error: ClientError) -> Failure {
    let label = &change.document.label;
    match error {
        ClientError::Lost { .. } | ClientError::LostOnLarge { .. } | ClientError::Unexpected { .. } => {
            Failure::new(
                format!("{label} may be written, and no other document is: {error}"),
                "apply the folder again once the daemon answers; its changes are shown anew",
            )
        }
        _ => refusal(label, error),
    }
}

/// Takes changes back, the last one first. The failure names those that stay.
async fn take_back(client: &Client, written: Vec<Written<'_>>, printer: &mut Printer<'_>) -> Result {
    let (mut stays, mut deleted) = (Vec::new(), Vec::new());
    for Written { change, etag } in written.into_iter().rev() {
        let document = &change.document;
        let (label, is_new_grant) =
            (&document.label, document.kind == Kind::ToolGrant && change.before.is_none());
        // The grant of a tool is deleted with it.
        if is_new_grant && deleted.iter().any(|tool| document.path == format!("{tool}/grant")) {
            drop(printer.note(&format!("{label} is as it was before")));
            continue;
        }
        match restore(client, change, etag.as_deref()).await {
            Ok(()) if is_new_grant => drop(printer.note(&format!("{label} stays, and allows nothing"))),
            Ok(()) => {
                deleted.extend(change.creates().then_some(&document.path));
                drop(printer.note(&format!("{label} is as it was before")));
            }
            Err(failure) => stays.push(format!("{label} ({failure})")),
        }
    }
    if stays.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        format!("the folder is applied in part, and these changes stay: {}", stays.join(", ")),
        "return to the revisions before with the `rollback` of each document",
    ))
}

async fn restore(client: &Client, change: &Change, etag: Option<&str>) -> Result {
    let document = &change.document;
    let before = match (&change.before, change.creates()) {
        (Some(before), false) => Some(before.text.clone()),
        (before, _) => empty_text(document.kind, before.as_ref()),
    };
    let request = match before {
        Some(text) => client.put(&document.path).json_text(text),
        None => client.delete(&document.path),
    };
    let request = match etag {
        Some(etag) => request.replacing(Some(etag)),
        None => request,
    };
    request.send::<IgnoredAny>().await?;
    Ok(())
}

fn warnings(response: &Value) -> Vec<DocumentWarning> {
    let warnings = response.get("warnings").cloned();
    warnings.and_then(|warnings| serde_json::from_value(warnings).ok()).unwrap_or_default()
}

fn secret(change: &Change, response: &Value) -> Option<String> {
    let secret = response.get("secret").filter(|_| change.document.kind == Kind::Webhook)?.as_str()?;
    Some(format!("{}: its secret, shown once: {secret}", change.document.label))
}
