//! The table of settings written out for people: the page `docs/config.md` and
//! the end of `toolgate serve --help`.
//!
//! The page is compared with the table by a test, which writes it anew when
//! `TOOLGATE_BLESS` is set.

use std::fmt::Write;

use toolgate_admission::LIMITS;

use super::keys::{Key, LIMITS_SECTION, SECTIONS, Section, Values};

const LIMITS_MEANING: &str = "The platform's limits of one call. A plugin, an organization and an \
     agent can narrow each of them, never widen it. What stands here takes the place of the default. A guest's \
     stack, 512 KiB, is none of them: it is a setting of the engine that they share.";

/// Width of a line of the help: any terminal has it, and what is laid out here is not wrapped once more.
const HELP_WIDTH: usize = 80;

const HELP_INDENT: &str = "      ";

/// The settings as `toolgate serve --help` lists them.
pub fn help_text() -> String {
    let mut text = String::from("Settings of the file given by --config (TOML, every key optional):\n");
    for section in SECTIONS {
        heading(&mut text, section.name);
        for key in section.keys {
            let _ = writeln!(text, "  {} = {}", key.name, default_and_range(key));
            for line in lines(&flow(key.meaning)) {
                let _ = writeln!(text, "{HELP_INDENT}{line}");
            }
        }
    }
    heading(&mut text, LIMITS_SECTION);
    for row in LIMITS {
        let _ = writeln!(
            text,
            "  {} = {} (at most {})",
            row.name,
            amount(row.name, row.default),
            amount(row.name, row.ceiling)
        );
    }
    text
}

/// The page `docs/config.md`.
pub fn markdown_page() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         `toolgate serve --config FILE` reads a TOML file. Every key is optional; an unknown one is an\n\
         error. The options `--data`, `--listen` and `--store` win over the file. This page is made from\n\
         the table in `src/config/keys.rs`; `TOOLGATE_BLESS=1 cargo test -p toolgate config` writes it anew.\n",
    );
    for section in SECTIONS {
        markdown_section(&mut page, section);
    }
    let _ = write!(
        page,
        "\n## `[{LIMITS_SECTION}]`\n\n{LIMITS_MEANING}\n\n| key | default | ceiling | meaning |\n|---|---|---|---|\n"
    );
    for row in LIMITS {
        let (default, ceiling) = (amount(row.name, row.default), amount(row.name, row.ceiling));
        let _ = writeln!(page, "| `{}` | {default} | {ceiling} | {} |", row.name, in_a_cell(row.why));
    }
    page
}

fn markdown_section(page: &mut String, section: &Section) {
    let title = if section.name.is_empty() { "At the top".into() } else { format!("`[{}]`", section.name) };
    let _ = write!(
        page,
        "\n## {title}\n\n{}\n\n| key | default | values | meaning |\n|---|---|---|---|\n",
        flow(section.meaning)
    );
    for key in section.keys {
        let default =
            shown_default(key).map_or_else(|| "see meaning".into(), |default| format!("`{default}`"));
        let _ = writeln!(
            page,
            "| `{}` | {default} | {} | {} |",
            key.name,
            values(key),
            in_a_cell(&flow(key.meaning))
        );
    }
}

fn heading(text: &mut String, section: &str) {
    if !section.is_empty() {
        let _ = writeln!(text, "\n[{section}]");
    }
}

fn default_and_range(key: &Key) -> String {
    let default = shown_default(key).unwrap_or_else(|| "…".into());
    match key.values {
        Values::Number { .. } | Values::OneOf(_) => format!("{default}, {}", values(key).replace('`', "")),
        _ => default,
    }
}

fn shown_default(key: &Key) -> Option<String> {
    let default = (key.default)()?;
    Some(match default.parse() {
        Ok(number) => amount(key.name, number),
        Err(_) => default,
    })
}

fn values(key: &Key) -> String {
    let short = |number| in_words(key.name, number).unwrap_or_else(|| with_unit(key.name, number));
    match key.values {
        Values::Number { least, most } => format!("{} to {}", short(least), short(most)),
        Values::OneOf(choices) => {
            choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ")
        }
        Values::Text => "text".into(),
        Values::Address => "address and port".into(),
        Values::Addresses => "list of addresses and ports".into(),
        Values::Hosts => "list of host names".into(),
        Values::Places => "list of hosts".into(),
        Values::Form(form) => form.name.into(),
    }
}

/// A number as it stands in the file, with what it amounts to where that is easier to read.
fn amount(key: &str, number: u64) -> String {
    match in_words(key, number) {
        Some(words) => format!("{number} ({words})"),
        None => number.to_string(),
    }
}

fn in_words(key: &str, number: u64) -> Option<String> {
    const SIZES: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    const TIMES: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let units = if key.ends_with("_bytes") {
        SIZES
    } else if key.ends_with("_seconds") {
        TIMES
    } else {
        return None;
    };
    let (size, unit) = units.into_iter().find(|(size, _)| number >= *size && number.is_multiple_of(*size))?;
    Some(format!("{} {unit}", number / size))
}

/// A number too small or too odd for words, with the unit that its name says.
fn with_unit(key: &str, number: u64) -> String {
    let units = [("_bytes", " B"), ("_seconds", " s"), ("_ms", " ms")];
    let unit = units.into_iter().find(|(ending, _)| key.ends_with(ending)).map_or("", |(_, unit)| unit);
    format!("{number}{unit}")
}

fn flow(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Text in lines that fit the help.
fn lines(text: &str) -> Vec<String> {
    let room = HELP_WIDTH - HELP_INDENT.len();
    let mut lines = Vec::<String>::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn in_a_cell(text: &str) -> String {
    flow(&text.lines().collect::<Vec<_>>()).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/config.md");

    #[test]
    fn the_settings_page_says_what_the_table_says() {
        if std::env::var_os("TOOLGATE_BLESS").is_some() {
            std::fs::write(PAGE, markdown_page()).expect("the page is written");
        }
        let page = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert!(
            page == markdown_page(),
            "docs/config.md is out of date: run this test with TOOLGATE_BLESS=1"
        );
    }

    #[test]
    fn the_page_and_the_help_name_every_key() {
        let (page, help) = (markdown_page(), help_text());
        for key in SECTIONS.iter().flat_map(|section| section.keys) {
            assert!(page.contains(&format!("| `{}` |", key.name)), "{}", key.name);
            assert!(help.contains(&format!("  {} = ", key.name)), "{}", key.name);
        }
        for row in LIMITS {
            assert!(page.contains(&format!("| `{}` |", row.name)), "{}", row.name);
        }
    }

    /// Hints and pages name settings as `section.key`.
    #[test]
    fn a_setting_that_is_named_anywhere_is_in_the_table() {
        let mut files = Vec::new();
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        for folder in ["src", "docs"] {
            text_files(&root.join(folder), &mut files);
        }
        let known = |section: &Section, name: &str| section.keys.iter().any(|key| key.name == name);
        let mut seen = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).expect("readable");
            for quoted in text.split('`') {
                let Some((section, name)) = quoted.split_once('.') else { continue };
                let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
                // Of `audit.verify` and the like, acts and files, none looks like a key with a unit.
                let Some(section) =
                    SECTIONS.iter().find(|known| known.name == section && !section.is_empty())
                else {
                    continue;
                };
                if !name.contains('_') || !name.bytes().all(is_word) {
                    continue;
                }
                assert!(known(section, name), "{}: `{quoted}`", file.display());
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
    }

    fn text_files(folder: &std::path::Path, into: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                text_files(&path, into);
            } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "md") {
                into.push(path);
            }
        }
    }

    #[test]
    fn the_help_fits_a_terminal_and_fills_its_lines() {
        let help = help_text();
        let wide = help.lines().find(|line| line.chars().count() > HELP_WIDTH);
        assert_eq!(wide, None);
        assert_eq!(lines("a b"), ["a b"]);
        let filled = lines(&"word ".repeat(40));
        assert!(filled[..filled.len() - 1].iter().all(|line| line.len() == 74), "{filled:?}");
    }

    #[test]
    fn an_amount_is_shown_in_the_unit_of_its_name() {
        assert_eq!(amount("body_bytes", 8 << 20), "8388608 (8 MiB)");
        assert_eq!(amount("idle_seconds", 86_400), "86400 (1 d)");
        assert_eq!(amount("connections", 1024), "1024");
    }
}
