//! `toolgate apply`: brings the documents of a daemon to those of a folder.
//!
//! Every file is parsed and checked, and every document is read with its entity tag, before the first write. Each write
//! carries the tag that was read, so that a change in between is not overwritten. A write that the daemon refuses takes
//! those before it back: a folder is applied whole, or not at all. Only a command that is killed between two writes leaves the
//! first ones in force; the next apply shows and writes the rest.

mod plan;
mod write;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::ask::asks;
use super::client::Client;
use super::failure::{Failure, Result};
use super::folder;
use super::policy::diff;
use super::print::Printer;
use plan::{Change, Deletion, Plan};

const EXAMPLES: &str = "\
Examples:
  toolgate apply -f policies --dry-run                 what would change
  toolgate apply -f policies
  toolgate apply -f policies --prune --yes             also delete what the folder does not have
  toolgate apply -f policies --prune --owner pipeline  but leave alone what others wrote by commands";

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", folder::LAYOUT))]
pub struct FolderOptions {
    /// The folder; `--help` shows its files
    #[arg(short = 'f', long = "folder", value_name = "DIR")]
    folder: PathBuf,
    /// Show the changes and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete agents, tools, webhooks, keys and assertions of the organizations in the folder that the folder does not have
    #[arg(long)]
    prune: bool,
    /// Delete only what a token with this label wrote last, such as the token of a pipeline
    #[arg(long, requires = "prune", value_name = "LABEL")]
    owner: Option<String>,
}

pub(crate) async fn run(options: FolderOptions, client: &Client, printer: &mut Printer<'_>) -> Result {
    let folder = read_folder(&options, printer)?;
    let mut plan = Plan::read(client, folder, options.prune, options.owner.as_deref()).await?;
    plan.check(client, printer).await?;
    if !printer.is_json() {
        show(&plan, printer)?;
    }
    if plan.is_empty() {
        return finish(&plan, false, &[], "nothing to change", printer);
    }
    if options.dry_run {
        return finish(&plan, false, &[], "nothing was changed, as asked by `--dry-run`", printer);
    }
    let question =
        format!("Write {} and delete {} documents? [y/N] ", plan.changes.len(), plan.deletions.len());
    if !printer.assumes_yes() && !asks(&question)? {
        return Err(Failure::new("nothing was applied", "add `--yes` to apply without a question"));
    }
    let notes = write::all(client, &plan, printer).await?;
    let line = format!("{} written, {} deleted", plan.changes.len(), plan.deletions.len());
    finish(&plan, true, &notes, &line, printer)
}

/// Reads the folder; a single wrong file ends the command before anything is sent.
fn read_folder(options: &FolderOptions, printer: &mut Printer<'_>) -> Result<folder::Folder> {
    if !options.folder.is_dir() {
        return Err(Failure::wrong_usage(
            format!("`{}` is not a folder", options.folder.display()),
            "name a folder; `toolgate apply --help` lists its files",
        ));
    }
    let found = folder::read(&options.folder);
    found.check("nothing was applied", printer)?;
    if found.documents.is_empty() {
        return Err(Failure::wrong_usage(
            format!("`{}` has no documents", options.folder.display()),
            "`toolgate apply --help` lists the files of a folder",
        ));
    }
    Ok(found)
}

fn show(plan: &Plan, printer: &mut Printer<'_>) -> Result {
    for change in &plan.changes {
        printer.line(&format!("{} {}", change.verb(), change.document.label))?;
        let decisions = change.preview.as_ref().map(diff::lines).unwrap_or_default();
        for line in change.differences().iter().chain(&decisions) {
            printer.line(&format!("    {line}"))?;
        }
    }
    for deletion in &plan.deletions {
        printer.line(&format!("delete {}", deletion.document.label))?;
    }
    if plan.unchanged > 0 {
        printer.note(&format!("{} documents are as in the folder", plan.unchanged))?;
    }
    Ok(())
}

fn finish(plan: &Plan, applied: bool, notes: &[String], line: &str, printer: &mut Printer<'_>) -> Result {
    let change = |change: &Change| {
        let decisions = change.preview.as_ref().map(|preview| &preview.agents);
        json!({"document": change.document.label, "change": change.verb(), "differences": change.differences(), "decisions": decisions})
    };
    let deletion = |deletion: &Deletion| json!({"document": deletion.document.label, "change": "delete"});
    let changes: Vec<Value> =
        plan.changes.iter().map(change).chain(plan.deletions.iter().map(deletion)).collect();
    let shown = json!({"applied": applied, "changes": changes, "unchanged": plan.unchanged, "notes": notes});
    printer.result(&shown, line)?;
    if printer.is_json() { Ok(()) } else { Ok(notes.iter().try_for_each(|note| printer.line(note))?) }
}

#[cfg(test)]
mod tests;
