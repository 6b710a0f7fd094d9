//! From the text of a filter to what `jaq` runs, and to words for what is wrong with it.

use jaq_core::compile::{self, Undefined};
use jaq_core::load::{self, Arena, File, Loader, span};
use jaq_core::{Compiler, Filter};
use toolgate_sdk::Error;

use super::functions::{self, Query};

/// Longer filters are no question about a document.
const MAX_CHARACTERS: usize = 20_000;

/// Deeper nesting would exhaust the stack of the parser.
const MAX_DEPTH: i32 = 100;

/// Enough of a filter to know the place by.
const MAX_QUOTED_CHARACTERS: usize = 40;

/// Definitions of `jaq` over functions that are not offered here, and one that writes texts without a limit.
const NOT_OFFERED: [&str; 7] = ["logb", "significand", "drem", "nexttoward", "gamma", "@htmld", "tostring"];

/// Compiles a filter that knows these variables, and `inputs` where there are many documents.
pub fn compile(filter: &str, variables: &[String], has_inputs: bool) -> Result<Filter<Query>, Error> {
    check_size(filter)?;
    let added = |code| load::parse(code, |parser| parser.defs()).unwrap_or_default();
    let definitions = jaq_core::defs().chain(added(include_str!("native.jq"))).chain(jaq_std::defs());
    let definitions = definitions.chain(jaq_json::defs()).chain(added(include_str!("defs.jq")));
    let definitions = definitions.filter(|known| !NOT_OFFERED.contains(&known.name));
    let arena = Arena::default();
    let modules = Loader::new(definitions)
        .load(&arena, File { code: filter, path: () })
        .map_err(|errors| explain_load(filter, errors))?;
    let functions = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
    let functions = functions.filter(|(name, ..)| *name != "tojson");
    // `native.jq` checks the text before it.
    let functions = functions
        .map(|(name, arity, run)| (if name == "fromjson" { "parse_json" } else { name }, arity, run));
    let functions = functions.chain(functions::functions());
    let functions = functions.chain(functions::inputs().filter(|_| has_inputs));
    Compiler::default()
        .with_funs(functions)
        .with_global_vars(variables.iter().map(String::as_str))
        .compile(modules)
        .map_err(explain_compile)
}

fn check_size(filter: &str) -> Result<(), Error> {
    if filter.trim().is_empty() {
        return Err(Error::invalid(
            "`filter` is empty: write a jq program, as `.items[].name`, or `.` for everything",
        ));
    }
    if filter.len() > MAX_CHARACTERS {
        return Err(Error::invalid(format!(
            "`filter` has more than {MAX_CHARACTERS} characters: put data into `value` or `variables`"
        )));
    }
    let depths = filter.bytes().scan(0_i32, |depth, sign| {
        let change = i32::from(b"([{".contains(&sign)) - i32::from(b")]}".contains(&sign));
        *depth = (*depth + change).max(0);
        Some(*depth)
    });
    if depths.max().is_some_and(|depth| depth > MAX_DEPTH) {
        return Err(Error::invalid(format!("`filter` is nested more than {MAX_DEPTH} deep: simplify it")));
    }
    Ok(())
}

fn explain_load(filter: &str, errors: load::Errors<&str, ()>) -> Error {
    if filter.trim().strip_prefix('$').is_some_and(|path| path.is_empty() || path.starts_with(['.', '['])) {
        return Error::invalid(
            "`filter` is JSONPath and no jq program: in jq `$` is `.`, `[*]` is `[]`, `..price` is `.. | .price? // empty`, \
             and `[?(@.price < 10)]` is `[] | select(.price < 10)`",
        );
    }
    let found = errors.into_iter().next().map(|(_, error)| match error {
        load::Error::Io(modules) => {
            modules.first().map(|(module, _)| format!("there is no module {module} here"))
        }
        load::Error::Lex(errors) => {
            errors.first().map(|(expected, rest)| place(filter, expected.as_str(), rest))
        }
        load::Error::Parse(errors) => {
            errors.first().map(|(expected, rest)| place(filter, expected.as_str(), rest))
        }
    });
    Error::invalid(format!("`filter` is no jq program: {}", found.flatten().unwrap_or_default()))
}

fn place(filter: &str, expected: &str, rest: &str) -> String {
    if rest.is_empty() {
        return format!("it ends where it needs {expected}");
    }
    // The lexer and the parser return parts of the text that they were given.
    let character = filter.get(..span(filter, rest).start).map_or(0, |before| before.chars().count()) + 1;
    let found: String = rest.chars().take(MAX_QUOTED_CHARACTERS).collect();
    format!("at character {character} it needs {expected}, and there is `{found}`")
}

fn explain_compile(errors: compile::Errors<&str, ()>) -> Error {
    let message = match errors.into_iter().flat_map(|(_, errors)| errors).next() {
        Some(("input" | "inputs", _)) => {
            "there is one document: set `slurp` for a list of all documents of `text`".to_owned()
        }
        Some((name, Undefined::Var)) => format!("there is no variable `{name}`: give it in `variables`"),
        Some((name, Undefined::Filter(0))) => format!(
            "there is no function `{name}`: quote it if it is a text, or the key if it has a hyphen, as `.\"foo-bar\"`"
        ),
        Some((name, Undefined::Filter(arity))) => {
            format!("there is no function `{name}` with {arity} arguments")
        }
        Some((name, other)) => format!("there is no {} `{name}`", other.as_str()),
        None => "it cannot be compiled".to_owned(),
    };
    Error::invalid(format!("in `filter` {message}"))
}
