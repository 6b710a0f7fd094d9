//! `jq`, run by `jaq` with the functions that the plugin `text` has for it.

#[path = "../../../text/src/json_query/functions.rs"]
mod functions;
#[path = "../../../text/src/json_query/program.rs"]
mod program;

mod output;

use jaq_core::{Ctx, ValT as _, Vars};
use jaq_json::{Val, read};
use toolgate_sdk::serde_json;

use crate::call::{Call, text_of};
use crate::shell::{Outcome, Stop};
use functions::{Data, Query};
use output::Style;

struct Arguments {
    flags: String,
    indent: usize,
    filter: Option<String>,
    /// The file of `-f`, which has the filter.
    filter_file: Option<String>,
    paths: Vec<String>,
    names: Vec<String>,
    values: Vec<Val>,
}

fn fault<T>(status: i32, message: impl Into<String>) -> Outcome<T> {
    Err(Stop::Fail(status, message.into()))
}

pub fn jq(call: &mut Call<'_>) -> Outcome {
    let arguments = read_arguments(call)?;
    let Some(filter) = &arguments.filter else { return fault(2, "usage: jq [options] filter [file…]") };
    let program = program::compile(filter, &arguments.names, true)
        .or_else(|error| fault(3, error.message().replace("`filter`", "the filter")))?;
    let has = |flag: char| arguments.flags.contains(flag);
    // `jq -n` in a loop leaves the input to the loop.
    let is_read = !has('n') || filter.contains("input");
    let (documents, damage) = if is_read { read_documents(call, &arguments)? } else { Default::default() };
    let data = Data::new(program.lut, documents.into());
    let context = Ctx::<Query>::new(&data, Vars::new(arguments.values.clone()));
    let style = Style {
        indent: if has('c') { None } else { Some(arguments.indent) },
        uses_tabs: has('T'),
        sorts: has('S'),
        is_ascii: has('a'),
    };
    let mut status = 0;
    let mut last = None;
    let mut first = has('n').then_some(Val::Null);
    while let Some(document) = first.take().or_else(|| if has('n') { None } else { data.next_input() }) {
        for result in program.id.run((context.clone(), document)) {
            let value = match result {
                Ok(value) => value,
                Err(exception) => {
                    let message = match exception.get_err().map(jaq_core::Error::into_val) {
                        Ok(Val::TStr(text)) => text_of(&text),
                        Ok(other) => other.to_string(),
                        Err(exception) => match exception.get_halt() {
                            Ok(code) => return Err(Stop::Exit(code)),
                            Err(_) => "the filter stopped".to_owned(),
                        },
                    };
                    let message: String = message.chars().take(300).collect();
                    call.complain(&format!("error: {message}"))?;
                    status = 5;
                    break;
                }
            };
            match &value {
                Val::TStr(text) | Val::BStr(text) if has('r') || has('j') => call.out(&text[..])?,
                _ => call.out(style.write(&value)?)?,
            }
            if !has('j') {
                call.out("\n")?;
            }
            last = Some(!matches!(value, Val::Null | Val::Bool(false)));
        }
    }
    if let Some(message) = damage {
        call.complain(&format!("error: {message}"))?;
        return Ok(2);
    }
    Ok(match (has('e') && status == 0, last) {
        (true, Some(holds)) => i32::from(!holds),
        (true, None) => 4,
        _ => status,
    })
}

fn json(text: &str) -> Outcome<Val> {
    read::parse_single(text.as_bytes()).or_else(|error| fault(2, format!("`{text}` is not JSON: {error}")))
}

fn read_arguments(call: &mut Call<'_>) -> Outcome<Arguments> {
    let mut found = Arguments {
        flags: String::new(),
        indent: 2,
        filter: None,
        filter_file: None,
        paths: Vec::new(),
        names: Vec::new(),
        values: Vec::new(),
    };
    let mut words = call.arguments.iter();
    let mut named = Vec::new();
    let mut positional: Option<(bool, Vec<Val>)> = None;
    let text = |text: &str| Val::from(text.to_owned());
    while let Some(word) = words.next() {
        let mut next =
            || words.next().cloned().map_or_else(|| fault(2, format!("`{word}` needs more words")), Ok);
        let (name, value) = match word.as_str() {
            "--arg" => (next()?, text(&next()?)),
            "--argjson" => (next()?, json(&next()?)?),
            "--slurpfile" | "--rawfile" => {
                let (name, path) = (next()?, next()?);
                let bytes = call.read_or_fail(&path, 2)?;
                let values: Result<Vec<Val>, _> = read::parse_many(&bytes).collect();
                let value = match word.as_str() {
                    "--rawfile" => text(&text_of(&bytes)),
                    _ => values
                        .or_else(|error| fault(2, format!("{path} is not JSON: {error}")))?
                        .into_iter()
                        .collect(),
                };
                (name, value)
            }
            "--args" | "--jsonargs" => {
                positional = Some((word == "--jsonargs", Vec::new()));
                continue;
            }
            "-f" | "--from-file" => {
                found.filter_file = Some(next()?);
                continue;
            }
            "--indent" => {
                found.indent = next()?.parse().unwrap_or(2).min(8);
                continue;
            }
            _ => {
                let long = [
                    ("--raw-output", 'r'),
                    ("--compact-output", 'c'),
                    ("--null-input", 'n'),
                    ("--slurp", 's'),
                    ("--exit-status", 'e'),
                    ("--sort-keys", 'S'),
                    ("--join-output", 'j'),
                    ("--raw-input", 'R'),
                    ("--tab", 'T'),
                    ("--ascii-output", 'a'),
                    ("--monochrome-output", 'M'),
                ];
                if let Some((_, flag)) = long.iter().find(|(long, _)| long == word) {
                    found.flags.push(*flag);
                } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                    if let Some(letter) = letters.chars().find(|letter| !"rcnseSjRaM".contains(*letter)) {
                        let known = long.map(|(name, _)| name).join(" ");
                        return fault(
                            2,
                            format!(
                                "option `-{letter}` is not supported by this shell: {known} --arg --argjson --slurpfile --rawfile --args --indent are"
                            ),
                        );
                    }
                    found.flags.push_str(letters);
                } else if found.filter.is_none() {
                    found.filter = Some(word.clone());
                } else if let Some((is_json, values)) = &mut positional {
                    values.push(if *is_json { json(word)? } else { text(word) });
                } else {
                    found.paths.push(word.clone());
                }
                continue;
            }
        };
        named.push((text(&name), value.clone()));
        found.names.push(format!("${name}"));
        found.values.push(value);
    }
    if let Some(path) = &found.filter_file {
        drop(found.paths.splice(0..0, found.filter.take()));
        found.filter = Some(text_of(&call.read_or_fail(path, 2)?));
    }
    let positional = positional.map(|(_, values)| values).unwrap_or_default();
    let named = Val::from_map(named).unwrap_or(Val::Null);
    let all = Val::from_map([(text("positional"), positional.into_iter().collect()), (text("named"), named)]);
    let environment = call.shell.environment().into_iter().map(|(name, value)| (text(&name), text(&value)));
    for (name, value) in [("$ARGS", all), ("$ENV", Val::from_map(environment))] {
        found.names.push(name.to_owned());
        found.values.push(value.unwrap_or(Val::Null));
    }
    Ok(found)
}

/// The documents that the filter runs on, and what is wrong behind them.
fn read_documents(call: &mut Call<'_>, arguments: &Arguments) -> Outcome<(Vec<Val>, Option<String>)> {
    let has = |flag: char| arguments.flags.contains(flag);
    let stdin = ["-".to_owned()];
    let paths = if arguments.paths.is_empty() { &stdin[..] } else { &arguments.paths };
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend(call.read_or_fail(path, 2)?);
    }
    if has('R') {
        let text = text_of(&bytes);
        let lines = text.lines().map(|line| Val::from(line.to_owned()));
        return Ok((if has('s') { vec![Val::from(text.clone())] } else { lines.collect() }, None));
    }
    check_depth(&bytes)?;
    let (mut documents, mut damage) = (Vec::new(), None);
    for document in read::parse_many(&bytes) {
        match document {
            Ok(document) => documents.push(document),
            Err(error) => {
                damage = Some(format!("the input is not JSON: {error}"));
                break;
            }
        }
    }
    if has('s') && damage.is_none() {
        documents = vec![documents.into_iter().collect()];
    }
    Ok((documents, damage))
}

/// Deeper documents would exhaust the stack of the reader.
fn check_depth(bytes: &[u8]) -> Outcome<()> {
    const MAX_DEPTH: i32 = 200;
    let (mut depth, mut in_text, mut is_escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return fault(2, format!("the input is nested more than {MAX_DEPTH} deep"));
        }
    }
    Ok(())
}

/// A text as JSON.
fn quote(text: &[u8]) -> String {
    serde_json::to_string(&text_of(text)).unwrap_or_default()
}
