//! Imports documents and prints a line of figures for each, as `cargo run -p toolgate-openapi --example try -- FILE…`.
//!
//! `REASONS=1` prints why what is left out is left out, grouped; `NOTES=1` the notes; `DEFINITIONS=FOLDER` writes the definitions;
//! `SELECT=tag:pets,method:GET`, `BASE_URL=…`, `NAMESPACE=…` say what is wanted. That the daemon takes what
//! comes out is held by `tests/tests/egress/published.rs`.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for whoever works on this crate"
)]

use std::collections::BTreeMap;
use std::time::Instant;

use toolgate_openapi::{Selector, Wanted, import};

fn main() {
    println!(
        "| document | bytes | operations | selected | imported | left out | notes | ms | definition bytes |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for file in std::env::args().skip(1) {
        try_one(&file);
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn try_one(file: &str) {
    let text = std::fs::read_to_string(file).expect("a readable file");
    let select = env("SELECT").unwrap_or_default();
    let select: Vec<Selector> = select
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().expect("a selector"))
        .collect();
    let (namespace, base_url) = (env("NAMESPACE").unwrap_or_else(|| "api".to_owned()), env("BASE_URL"));
    let wanted = Wanted {
        base_url: base_url.as_deref(),
        select: &select,
        output_schemas: env("OUTPUT").is_some(),
        ..Wanted::all(&namespace)
    };
    let begun = Instant::now();
    let imported = import(&text, &wanted);
    let ms = begun.elapsed().as_millis();
    match imported {
        Err(error) => {
            println!("| {file} | {} | {error}; {} |", text.len(), error.hint);
            print_reasons(error.left_out.iter().map(|left_out| left_out.why.as_str()));
        }
        Ok(imported) => {
            let definition = imported.definition.to_string();
            println!(
                "| {file} | {} | {} | {} | {} | {} | {} | {ms} | {} |",
                text.len(),
                imported.operations,
                imported.selected,
                imported.definition["actions"].as_array().map_or(0, Vec::len),
                imported.left_out.len(),
                imported.notes.len(),
                definition.len(),
            );
            print_reasons(imported.left_out.iter().map(|left_out| left_out.why.as_str()));
            if env("NOTES").is_some() {
                print_reasons(imported.notes.iter().map(|note| note.text.as_str()));
            }
            if let Some(folder) = env("DEFINITIONS") {
                let path = format!("{folder}/{}", file.trim_start_matches(['.', '/']).replace('/', "_"));
                std::fs::write(path, imported.definition.to_string()).expect("written");
            }
        }
    }
}

fn print_reasons<'a>(reasons: impl Iterator<Item = &'a str>) {
    if env("REASONS").is_none() && env("NOTES").is_none() {
        return;
    }
    let mut grouped: BTreeMap<String, usize> = BTreeMap::new();
    for reason in reasons {
        *grouped.entry(without_names(reason)).or_default() += 1;
    }
    let mut grouped: Vec<_> = grouped.into_iter().collect();
    grouped.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (reason, count) in grouped.iter().take(25) {
        println!("    {count:6} {reason}");
    }
}

/// A reason with what stands in backticks left away, unless everything is wanted.
fn without_names(reason: &str) -> String {
    if env("REASONS").is_some_and(|reasons| reasons == "full") {
        return reason.to_owned();
    }
    reason.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "…" }).collect()
}
