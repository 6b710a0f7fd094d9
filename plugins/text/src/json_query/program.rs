//! From the text of a filter to what `jaq` runs, and to words for what is wrong with it.

use jaq_core::compile::{self, Undefined};
use jaq_core::load::parse::Def;
use jaq_core::load::{self, Arena, File, Loader, span};
use jaq_core::{Compiler, Filter};
use toolgate_sdk::Error;

use super::functions::{self, Query};
use super::{dialect, strict};

/// Longer filters are no question about a document.
const MAX_CHARACTERS: usize = 20_000;

/// Deeper nesting would exhaust the stack of the parser.
const MAX_DEPTH: usize = 100;

/// Enough of a filter to know the place by.
const MAX_QUOTED_CHARACTERS: usize = 40;

/// Definitions of `jaq` over functions that nobody asked for here.
const WITHOUT_FUNCTION: [&str; 6] = ["logb", "significand", "drem", "nexttoward", "gamma", "@htmld"];

/// What `jaq` does in another way than `jq`, or in far more steps than it takes, and ours as `jq` does. Those that others call
/// must go, for they would still be called.
const REPLACED: [&str; 40] = [
    "tostring",
    "tojson",
    "fromjson",
    "delpaths",
    "getpath",
    "setpath",
    "index",
    "rindex",
    "null",
    "true",
    "false",
    "not",
    "empty",
    "type",
    "isboolean",
    "isnumber",
    "isstring",
    "isarray",
    "isobject",
    "join",
    "flatten",
    "to_entries",
    "from_entries",
    "split_matches",
    "capture_of_match",
    "test",
    "capture",
    "scan_",
    "scan",
    "sub",
    "gsub",
    "nulls",
    "booleans",
    "numbers",
    "strings",
    "arrays",
    "objects",
    "iterables",
    "scalars",
    "values",
];

/// A function of `jaq` that one of ours of this name calls, and the name that it has for that.
const RENAMED: (&str, &str) = ("indices", "_indices");

/// The definition that the filter becomes, for only definitions can be changed before they are compiled.
const MAIN: &str = "_filter";

/// Compiles a filter that knows these variables.
pub fn compile(filter: &str, variables: &[String]) -> Result<Filter<Query>, Error> {
    check_size(filter)?;
    let arena = Arena::default();
    let modules = match load::parse(filter, |parser| parser.term()) {
        Some(mut term) => {
            strict::rewrite(&mut term, strict::sets(filter));
            let mut known: Vec<Def<&str>> = definitions();
            known.push(Def { name: MAIN, args: Vec::new(), body: term });
            Loader::new(known).load(&arena, File { code: MAIN, path: () })
        }
        // It says what is wrong.
        None => Loader::new(definitions()).load(&arena, File { code: filter, path: () }),
    };
    let modules = modules.map_err(|errors| explain_load(filter, errors))?;
    let theirs = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
    let theirs = theirs.filter(|(name, ..)| !REPLACED.contains(name));
    let theirs = theirs
        .map(|(name, arity, function)| (if name == RENAMED.0 { RENAMED.1 } else { name }, arity, function));
    let functions = theirs.chain(functions::functions());
    Compiler::default()
        .with_funs(functions)
        .with_global_vars(variables.iter().map(String::as_str))
        .compile(modules)
        .map_err(|errors| explain_compile(filter, errors))
}

/// What a filter may call.
fn definitions() -> Vec<Def> {
    let ours = load::parse(include_str!("defs.jq"), |parser| parser.defs()).unwrap_or_default();
    let standard = jaq_std::defs().filter(|definition| !WITHOUT_FUNCTION.contains(&definition.name));
    let theirs = jaq_core::defs().chain(standard).chain(jaq_json::defs());
    theirs.filter(|definition| !REPLACED.contains(&definition.name)).chain(ours).collect()
}

fn check_size(filter: &str) -> Result<(), Error> {
    if filter.trim().is_empty() {
        return Err(Error::invalid(
            "`filter` is empty: write a jq program, as `.items[].name`, or `.` for everything",
        ));
    }
    let mut depth = 0_usize;
    for sign in filter.bytes() {
        match sign {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Error::invalid(format!(
                "`filter` is nested more than {MAX_DEPTH} deep: simplify it"
            )));
        }
    }
    if filter.len() > MAX_CHARACTERS {
        return Err(Error::invalid(format!(
            "`filter` has more than {MAX_CHARACTERS} characters: put data into `value` or `variables`"
        )));
    }
    Ok(())
}

fn explain_load(filter: &str, errors: load::Errors<&str, ()>) -> Error {
    if let Some(way_out) = dialect::explain_json_path(filter) {
        return Error::invalid(format!("`filter` is no jq program, this is JSONPath: {way_out}"));
    }
    let found = errors.into_iter().map(|(_, error)| match error {
        load::Error::Io(modules) => modules.into_iter().next().map(|(module, _)| {
            format!("there is no module {module}: a filter here has only what jq itself brings")
        }),
        load::Error::Lex(errors) => {
            errors.into_iter().next().map(|(expected, rest)| place(filter, expected.as_str(), rest))
        }
        load::Error::Parse(errors) => {
            errors.into_iter().next().map(|(expected, rest)| place(filter, expected.as_str(), rest))
        }
    });
    let message = found.flatten().next().unwrap_or_else(|| "it cannot be read".to_owned());
    Error::invalid(format!("`filter` is no jq program: {message}"))
}

fn place(filter: &str, expected: &str, rest: &str) -> String {
    // The lexer and the parser give back parts of the very text that they were given.
    let start = span(filter, rest).start;
    let character = filter.get(..start).map_or(0, |before| before.chars().count()) + 1;
    let found: String = rest.chars().take(MAX_QUOTED_CHARACTERS).collect();
    if found.is_empty() {
        return format!("it ends where it needs {expected}");
    }
    format!("at character {character} it needs {expected}, and there is `{found}`")
}

fn explain_compile(filter: &str, errors: compile::Errors<&str, ()>) -> Error {
    let first = errors.into_iter().flat_map(|(_, errors)| errors).next();
    let message = match first {
        Some((name, undefined)) => match dialect::way_out(filter, name) {
            Some(way_out) => format!("there is no `{name}`: {way_out}"),
            None => explain_undefined(name, undefined),
        },
        None => "it cannot be compiled".to_owned(),
    };
    Error::invalid(format!("in `filter` {message}"))
}

fn explain_undefined(name: &str, undefined: Undefined) -> String {
    match undefined {
        Undefined::Filter(0) => format!("there is no function `{name}`: quote it if it is a text"),
        Undefined::Filter(arity) => format!("there is no function `{name}` with {arity} arguments"),
        Undefined::Var => format!("there is no variable `{name}`: give it in `variables`"),
        other => format!("there is no {} `{name}`", other.as_str()),
    }
}
