//! Questions to the person at the terminal.

use std::io::{IsTerminal, Write};

use super::failure::Result;

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
