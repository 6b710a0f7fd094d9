//! `xargs`

use crate::call::{Call, Options, text_of};
use crate::shell::{Outcome, fail};
use crate::stream::{Input, Streams};

/// Arguments of one call.
const MAX_ARGUMENTS: usize = 5_000;

const LONG: &str = "null=0 no-run-if-empty=r max-args=n delimiter=d replace=I max-procs=P";

pub fn xargs(call: &mut Call<'_>) -> Outcome {
    let options = call.options("0rn:I:d:L:tP:", LONG, true)?;
    let words = words(&options, &text_of(&call.io.input.read_all()))?;
    let command = if options.rest.is_empty() { vec!["echo".to_owned()] } else { options.rest.clone() };
    let streams = Streams { input: Input::default(), ..call.io.clone() };
    let mut status = 0;
    let mut run = |call: &mut Call<'_>, arguments: Vec<String>| -> Outcome<()> {
        if options.has('t') {
            call.io.errors.write(format!("{}\n", arguments.join(" ")).as_bytes())?;
        }
        let outcome = call
            .shell
            .subshell(&streams, |shell| shell.call_command(&arguments[0], &arguments[1..], &streams))?;
        status = match outcome {
            0 => status,
            126 | 127 => outcome,
            _ => 123,
        };
        Ok(())
    };
    if let Some(mark) = options.value('I') {
        for word in words {
            run(call, command.iter().map(|argument| argument.replace(mark, &word)).collect())?;
        }
        return Ok(status);
    }
    if words.is_empty() && options.has('r') {
        return Ok(0);
    }
    let count = options
        .value('n')
        .or(options.value('L'))
        .map_or(Ok(MAX_ARGUMENTS), |text| text.parse().or_else(|_| fail(format!("`{text}` is no count"))))?;
    if words.is_empty() {
        run(call, command.clone())?;
    }
    for chunk in words.chunks(count.max(1)) {
        let chunk = if options.has('L') { split(&chunk.join(" "))? } else { chunk.to_vec() };
        run(call, [command.clone(), chunk].concat())?;
    }
    Ok(status)
}

/// The words of an input, which options split otherwise than at blanks.
fn words(options: &Options, input: &str) -> Outcome<Vec<String>> {
    Ok(if options.has('0') {
        input.split_terminator('\0').map(str::to_owned).collect()
    } else if let Some(delimiter) = options.value('d') {
        split_at(input, delimiter)
    } else if options.has('I') || options.has('L') {
        input.lines().map(|line| line.trim_start().to_owned()).filter(|line| !line.is_empty()).collect()
    } else {
        split(input)?
    })
}

/// Words at each delimiter, which may be written with escapes.
fn split_at(text: &str, delimiter: &str) -> Vec<String> {
    let delimiter = crate::escape::decode(delimiter, crate::escape::Kind::Shell).0;
    text.strip_suffix(&delimiter).unwrap_or(text).split(&delimiter).map(str::to_owned).collect()
}

/// Words at blanks, with quotes.
fn split(text: &str) -> Outcome<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match signs.next() {
                        Some(next) if next == sign => break,
                        Some('\n') | None => {
                            return fail("unmatched quote; use -0, or -d '\\n' for lines as they are");
                        }
                        Some(next) => word.push(next),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(signs.next()),
            _ => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    Ok(words)
}
