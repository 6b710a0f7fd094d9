//! Questions to the person at the terminal.

use std::io::{IsTerminal, Write};

use super::failure::{Failure, Result};
use super::print::Printer;

/// Asks before something is removed, at a terminal and without `--yes`. A script that removes something means it.
pub(crate) fn before_removal(printer: &Printer<'_>, what: &str) -> Result {
    let is_asked = !printer.assumes_yes() && std::io::stdin().is_terminal();
    if is_asked && !asks(&format!("Remove {what}? [y/N] "))? {
        return Err(Failure::new("nothing is removed", "add `--yes` to remove it without a question"));
    }
    Ok(())
}

/// Asks at a terminal; elsewhere the answer is no.
pub(crate) fn asks(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    write!(anstream::stderr(), "{question}")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
