//! `--watch`: lists that are printed again when they change.

use std::time::Duration;

use clap::Args;

use super::failure::Result;
use super::print::Printer;

/// Time between two requests.
const INTERVAL: Duration = Duration::from_secs(2);

/// Options of the commands that print a list.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct WatchOptions {
    /// Print the list again when it changes; ends with Ctrl-C
    #[arg(long)]
    pub watch: bool,
}

/// Prints a list once, or again after each change of its text.
pub(crate) async fn repeat(
    printer: &mut Printer<'_>,
    options: WatchOptions,
    list: impl AsyncFn(&mut Printer<'_>) -> Result,
) -> Result {
    if options.watch { repeat_every(INTERVAL, printer, list).await } else { list(printer).await }
}

async fn repeat_every(
    interval: Duration,
    printer: &mut Printer<'_>,
    list: impl AsyncFn(&mut Printer<'_>) -> Result,
) -> Result {
    let mut shown = None;
    loop {
        let mut text = (Vec::new(), Vec::new());
        printer.capture([&mut text.0, &mut text.1], &list).await?;
        if shown.as_ref() != Some(&text) {
            printer.redraw(&text.0, &text.1)?;
            shown = Some(text);
        }
        tokio::time::sleep(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::failure::Failure;

    #[tokio::test]
    async fn a_list_is_printed_again_only_when_it_changed() {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let asked = Cell::new(0);
        let list = async |printer: &mut Printer<'_>| {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 | 2 => Ok(printer.line("one")?),
                3 => Ok(printer.line("two")?),
                _ => Err(Failure::new("gone", "")),
            }
        };
        let mut printer = Printer::new(&mut out, &mut notes, false);
        repeat_every(Duration::ZERO, &mut printer, list).await.expect_err("ended");
        assert_eq!(String::from_utf8(out).expect("text"), "one\ntwo\n");
    }
}
