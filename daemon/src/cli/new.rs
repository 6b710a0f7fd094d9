//! `toolgate new`: creates a plugin project from a template.

use std::path::PathBuf;

use clap::Args;
use toolgate_api::name::{Namespace, derive_namespace};
use toolgate_built_in::BUILT_IN;
use toolgate_cli::{Failure, Printer};

use crate::scaffold::{self, Language};

const EXAMPLES: &str = "\
Examples:
  toolgate new weather
  toolgate new weather --lang python
  toolgate new weather --into plugins/weather";

/// Rust keywords, and the crates that a plugin depends on: no package may have such a name.
const NO_PACKAGES: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "toolgate-sdk",
    "toolgate-sdk-macros",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct NewOptions {
    /// The plugin's name: lower-case letters and digits in words joined by `-`
    name: String,
    /// The programming language
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    lang: Language,
    /// The folder to create [default: the name]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

pub(super) fn run(options: NewOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let name = Namespace::parse(&options.name).map_err(|error| {
        // A name that is nearly right is offered as it would be.
        let offered = derive_namespace(&options.name).filter(|name| Namespace::parse(name).is_ok());
        let hint = offered.map_or_else(|| error.hint.to_owned(), |name| format!("did you mean `{name}`?"));
        Failure::wrong_usage(error.message, hint)
    })?;
    if BUILT_IN.iter().any(|taken| taken.name == name.as_str()) {
        let message = format!("`{name}` is reserved for a built-in plugin");
        return Err(Failure::wrong_usage(message, "choose another one"));
    }
    if options.lang == Language::Rust && NO_PACKAGES.contains(&name.as_str()) {
        let message = format!("cargo takes no package of the name `{name}` here");
        return Err(Failure::wrong_usage(message, "choose another one"));
    }
    let folder = options.into.unwrap_or_else(|| PathBuf::from(name.as_str()));
    scaffold::write(&folder, &name, options.lang).map_err(|error| {
        let message = format!("cannot write the plugin to `{}`: {error}", folder.display());
        Failure::new(message, "name another folder with `--into`")
    })?;
    printer.line(&format!("made plugin `{name}` in `{}`; its README says how to go on", folder.display()))?;
    Ok(())
}
