//! `jq`

mod output;

use formats::jq::{self, MAX_NESTING, Program};
use jaq_core::ValT as _;
use jaq_json::{Val, read};
use toolgate_sdk::serde_json;

use crate::call::{Call, long_options, paths_or_input, text_of};
use crate::shell::{Outcome, Stop};
use output::Style;

#[derive(Default)]
struct Arguments {
    flags: String,
    indent: usize,
    filter: Option<String>,
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
    let compiled = jq::compile(filter, &arguments.names, true)
        .or_else(|error| fault(3, error.message().replace("`filter`", "the filter")))?;
    let has = |flag: char| arguments.flags.contains(flag);
    // `jq -n` in a loop leaves the input to the loop.
    let is_read = !has('n') || filter.contains("input");
    let (documents, damage) = if is_read { read_documents(call, &arguments)? } else { Default::default() };
    let program = Program::new(compiled, arguments.values.clone(), documents.into(), output::check);
    let mut status = 0;
    let mut last = None;
    let mut first = has('n').then_some(Val::Null);
    while let Some(document) = first.take().or_else(|| if has('n') { None } else { program.next_input() }) {
        for result in program.run(document) {
            match result {
                Ok(value) => {
                    write(call, &arguments, &value)?;
                    last = Some(!matches!(value, Val::Null | Val::Bool(false)));
                }
                Err(jq::Stop::Failed(message)) => {
                    call.complain(&format!("error: {message}"))?;
                    status = 5;
                    break;
                }
                Err(jq::Stop::Halted(code)) => return Err(Stop::Exit(code)),
            }
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

fn write(call: &mut Call<'_>, arguments: &Arguments, value: &Val) -> Outcome<()> {
    let has = |flag: char| arguments.flags.contains(flag);
    match value {
        Val::TStr(text) | Val::BStr(text) if has('r') || has('j') => call.out(&text[..])?,
        _ => {
            let indent = (!has('c')).then_some(arguments.indent);
            let style = Style { indent, uses_tabs: has('T'), sorts: has('S'), is_ascii: has('a') };
            call.out(style.write(value)?)?;
        }
    }
    if has('j') { Ok(()) } else { call.out("\n") }
}

fn json(text: &str) -> Outcome<Val> {
    check_depth(text.as_bytes())?;
    read::parse_single(text.as_bytes()).or_else(|error| fault(2, format!("`{text}` is not JSON: {error}")))
}

/// Options without a value.
const FLAGS: &str = "--raw-output=r --compact-output=c --null-input=n --slurp=s --exit-status=e --sort-keys=S \
    --join-output=j --raw-input=R --tab=T --ascii-output=a --monochrome-output=M";

fn read_arguments(call: &mut Call<'_>) -> Outcome<Arguments> {
    let mut found = Arguments { indent: 2, ..Arguments::default() };
    let mut words = call.arguments.iter();
    let (mut named, mut filter_file) = (Vec::new(), None);
    let mut positional: Option<(bool, Vec<Val>)> = None;
    while let Some(word) = words.next() {
        let mut next =
            || words.next().cloned().map_or_else(|| fault(2, format!("`{word}` needs more words")), Ok);
        match word.as_str() {
            "--arg" => named.push((next()?, text(&next()?))),
            "--argjson" => named.push((next()?, json(&next()?)?)),
            "--slurpfile" | "--rawfile" => {
                named.push((next()?, file_value(call, word == "--rawfile", &next()?)?));
            }
            "--args" | "--jsonargs" => positional = Some((word == "--jsonargs", Vec::new())),
            "-f" | "--from-file" => filter_file = Some(next()?),
            "--indent" => found.indent = next()?.parse().unwrap_or(2).min(8),
            _ => match (read_flags(word)?, &mut positional) {
                (Some(flags), _) => found.flags.push_str(&flags),
                (None, _) if found.filter.is_none() => found.filter = Some(word.clone()),
                (None, Some((true, values))) => values.push(json(word)?),
                (None, Some((false, values))) => values.push(text(word)),
                (None, None) => found.paths.push(word.clone()),
            },
        }
    }
    if let Some(path) = filter_file {
        found.paths = found.filter.take().into_iter().chain(found.paths).collect();
        found.filter = Some(text_of(&call.read_or_fail(&path, 2)?));
    }
    let positional = positional.map(|(_, values)| values).unwrap_or_default();
    named.extend(shell_variables(call, positional, &named));
    for (name, value) in named {
        found.names.push(format!("${name}"));
        found.values.push(value);
    }
    Ok(found)
}

/// `$ARGS` and `$ENV`
fn shell_variables(call: &Call<'_>, positional: Vec<Val>, named: &[(String, Val)]) -> [(String, Val); 2] {
    let of_names = named.iter().map(|(name, value)| (text(name), value.clone()));
    let of_names = Val::from_map(of_names).unwrap_or(Val::Null);
    let all =
        Val::from_map([(text("positional"), positional.into_iter().collect()), (text("named"), of_names)]);
    let environment = call.shell.environment().into_iter().map(|(name, value)| (text(&name), text(&value)));
    let environment = Val::from_map(environment);
    [("ARGS", all), ("ENV", environment)].map(|(name, value)| (name.to_owned(), value.unwrap_or(Val::Null)))
}

fn text(text: &str) -> Val {
    Val::from(text.to_owned())
}

/// The text of a file, or the list of the documents in it.
fn file_value(call: &mut Call<'_>, is_raw: bool, path: &str) -> Outcome<Val> {
    let bytes = call.read_or_fail(path, 2)?;
    if is_raw {
        return Ok(text(&text_of(&bytes)));
    }
    check_depth(&bytes)?;
    let values: Result<Vec<Val>, _> = read::parse_many(&bytes).collect();
    let values = values.or_else(|error| fault(2, format!("{path} is not JSON: {error}")))?;
    Ok(values.into_iter().collect())
}

/// The letters of options without a value; none for a word that is no option.
fn read_flags(word: &str) -> Outcome<Option<String>> {
    if let Some((_, flag)) = long_options(FLAGS).find(|(long, _)| *long == word) {
        return Ok(Some(flag.to_string()));
    }
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else { return Ok(None) };
    match letters.chars().find(|letter| !"rcnseSjRaM".contains(*letter)) {
        None => Ok(Some(letters.to_owned())),
        Some(letter) => fault(
            2,
            format!(
                "option `-{letter}` is not supported by this shell: {} --arg --argjson --slurpfile --rawfile --args --from-file --indent are",
                long_options(FLAGS).map(|(name, _)| name).collect::<Vec<_>>().join(" ")
            ),
        ),
    }
}

/// The documents that the filter runs on, and what is wrong behind them.
fn read_documents(call: &mut Call<'_>, arguments: &Arguments) -> Outcome<(Vec<Val>, Option<String>)> {
    let has = |flag: char| arguments.flags.contains(flag);
    let mut bytes = Vec::new();
    for path in paths_or_input(&arguments.paths) {
        bytes.extend(call.read_or_fail(&path, 2)?);
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

fn check_depth(bytes: &[u8]) -> Outcome<()> {
    if jq::nesting(bytes) > MAX_NESTING {
        return fault(2, format!("the input is nested more than {MAX_NESTING} deep"));
    }
    Ok(())
}

/// A text as JSON.
fn quote(text: &[u8]) -> String {
    serde_json::to_string(&text_of(text)).unwrap_or_default()
}
