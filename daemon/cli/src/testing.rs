//! Parses a command, and runs it against a fake daemon with canned responses.

use clap::{Args, Parser};

use super::failure::Result;
use super::print::Printer;
use crate::client::Client;
use crate::client::testing::{Asked, Canned, FakeDaemon};

/// Result and output of a command.
pub(crate) struct Run {
    pub result: Result,
    pub out: String,
    pub notes: String,
    pub asked: Vec<Asked>,
}

#[derive(Parser)]
struct Line<T: Args> {
    #[command(flatten)]
    options: T,
}

/// Parses the words after the name of a command.
pub(crate) fn parse<T: Args>(words: &[&str]) -> T {
    Line::try_parse_from(["command"].iter().chain(words)).expect("understood").options
}

pub(crate) async fn run_with(
    answers: Vec<Canned>,
    json: bool,
    command: impl AsyncFnOnce(&Client, &mut Printer<'_>) -> Result,
) -> Run {
    let daemon = FakeDaemon::start(answers).await;
    let client = Client::new(daemon.server(), None, &crate::TlsFiles::default()).expect("a client");
    let (mut out, mut notes) =
        (anstream::StripStream::new(Vec::new()), anstream::StripStream::new(Vec::new()));
    let result = command(&client, &mut Printer::new(&mut out, &mut notes, json).assume_yes(true)).await;
    let text = |stream: anstream::StripStream<Vec<u8>>| String::from_utf8(stream.into_inner()).expect("text");
    Run { result, out: text(out), notes: text(notes), asked: daemon.requests() }
}
