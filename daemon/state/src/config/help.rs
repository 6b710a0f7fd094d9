//! Renders the table of settings: for `toolgate serve --list-settings`, and in a test as the page `docs/config.md`, which the test
//! compares and, with `TOOLGATE_BLESS` set, writes.

use std::fmt::Write;

use toolgate_api::limits::LIMITS;

use super::keys::{Key, LIMITS_SECTION, SECTIONS, Section};
use super::values::ValueKind;

/// Line width of the help. Every terminal has it, so the lines are not wrapped again.
const HELP_WIDTH: usize = 80;

const HELP_INDENT: &str = "      ";

/// The settings as `toolgate serve --list-settings` lists them.
pub fn help_text() -> String {
    let mut text = String::from("Settings of the file given by --config (TOML, every key optional):\n");
    for section in SECTIONS {
        if !section.name.is_empty() {
            let _ = writeln!(text, "\n{}", title(section));
        }
        push_wrapped(&mut text, "  # ", section.meaning);
        for key in section.keys {
            let _ = writeln!(text, "  {} = {}", key.name, default_and_range(key));
            push_wrapped(&mut text, HELP_INDENT, key.meaning);
        }
    }
    let _ = writeln!(text, "\n[{LIMITS_SECTION}]");
    for row in LIMITS {
        let (default, ceiling) = (amount(row.name, row.default), amount(row.name, row.ceiling));
        let _ = writeln!(text, "  {} = {default} (at most {ceiling})", row.name);
    }
    text
}

/// The line that begins a section in the file.
fn title(section: &Section) -> String {
    let mut keys = SECTIONS.iter().flat_map(|section| section.keys);
    let is_list = keys.any(|key| matches!(key.values, ValueKind::Tables(of) if of.name == section.name));
    if is_list { format!("[[{}]]", section.name) } else { format!("[{}]", section.name) }
}

fn push_wrapped(text: &mut String, indent: &str, lines: &[&str]) {
    for line in wrap(&join_lines(lines)) {
        let _ = writeln!(text, "{indent}{line}");
    }
}

fn default_and_range(key: &Key) -> String {
    let default = default_text(key).unwrap_or_else(|| "…".into());
    match key.values {
        ValueKind::Number { .. } | ValueKind::OneOf(_) => {
            format!("{default}, {}", values(key).replace('`', ""))
        }
        _ => default,
    }
}

fn default_text(key: &Key) -> Option<String> {
    let default = (key.default)()?;
    Some(match default.parse() {
        Ok(number) => amount(key.name, number),
        Err(_) => default,
    })
}

fn values(key: &Key) -> String {
    let short = |number| in_words(key.name, number).unwrap_or_else(|| with_unit(key.name, number));
    match key.values {
        ValueKind::Number { least, most } => format!("{} to {}", short(least), short(most)),
        ValueKind::OneOf(choices) => {
            choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ")
        }
        ValueKind::Switch => "`true` or `false`".into(),
        ValueKind::Text => "text".into(),
        ValueKind::Address => "address and port, or Unix socket".into(),
        ValueKind::SocketAddress => "address and port".into(),
        ValueKind::Organizations => "list of organizations".into(),
        ValueKind::Addresses => "list of addresses and ports".into(),
        ValueKind::Hosts => "list of host names".into(),
        ValueKind::HostsWithPorts => "list of hosts".into(),
        ValueKind::TokenIds => "table of names and token ids".into(),
        ValueKind::Share => "0 to 1".into(),
        ValueKind::Words => "list of texts".into(),
        ValueKind::Table(section) => format!("table `[{}]`", section.name),
        ValueKind::Tables(section) => format!("tables `[[{}]]`", section.name),
        ValueKind::TextFormat(form) => form.name.into(),
    }
}

/// A number as written in the file, with a larger unit if there is one.
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

/// A number with the unit in the key's name.
fn with_unit(key: &str, number: u64) -> String {
    let units = [("_bytes", " B"), ("_seconds", " s"), ("_ms", " ms")];
    let unit = units.into_iter().find(|(ending, _)| key.ends_with(ending)).map_or("", |(_, unit)| unit);
    format!("{number}{unit}")
}

fn join_lines(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Wraps text to the lines of the help.
fn wrap(text: &str) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.md");

    const LIMITS_MEANING: &str = "The platform's limits of one call. A value here replaces the default. A plugin, an \
         organization and an agent can narrow each limit, never widen it. A guest's stack of 512 KiB is not among them: it \
         is a setting of the engine that all guests share.";

    /// The page `docs/config.md`.
    fn markdown_page() -> String {
        let mut page = String::from(
            "# Settings\n\n\
             `toolgate serve --config FILE` reads a TOML file. Every key is optional; an unknown one is an\n\
             error. The options `--data`, `--listen` and `--store` override the file. This page is generated from\n\
             the table in `src/config/keys.rs` by `TOOLGATE_BLESS=1 cargo test -p toolgate config`.\n",
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
            let _ = writeln!(page, "| `{}` | {default} | {ceiling} | {} |", row.name, table_cell(row.why));
        }
        page
    }

    fn markdown_section(page: &mut String, section: &Section) {
        let title =
            if section.name.is_empty() { "Top level".into() } else { format!("`{}`", title(section)) };
        let _ = write!(
            page,
            "\n## {title}\n\n{}\n\n| key | default | values | meaning |\n|---|---|---|---|\n",
            join_lines(section.meaning)
        );
        for key in section.keys {
            let default =
                default_text(key).map_or_else(|| "see meaning".into(), |default| format!("`{default}`"));
            let _ = writeln!(
                page,
                "| `{}` | {default} | {} | {} |",
                key.name,
                values(key),
                table_cell(&join_lines(key.meaning))
            );
        }
    }

    fn table_cell(text: &str) -> String {
        join_lines(&text.lines().collect::<Vec<_>>()).replace('|', "\\|")
    }

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
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for folder in ["state", "audit", "core", "http", "console", "src", "docs"] {
            text_files(&root.join(folder), &mut files);
        }
        let known = |section: &Section, name: &str| section.keys.iter().any(|key| key.name == name);
        let mut seen = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).expect("readable");
            for quote_list in text.split('`') {
                let Some((section, name)) = quote_list.split_once('.') else { continue };
                let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
                // Actions and files like `audit.verify` have no underscore in their name.
                let Some(section) =
                    SECTIONS.iter().find(|known| known.name == section && !section.is_empty())
                else {
                    continue;
                };
                if !name.contains('_') || !name.bytes().all(is_word) {
                    continue;
                }
                assert!(known(section, name), "{}: `{quote_list}`", file.display());
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
        assert_eq!(wrap("a b"), ["a b"]);
        let filled = wrap(&"word ".repeat(40));
        assert!(filled[..filled.len() - 1].iter().all(|line| line.len() == 74), "{filled:?}");
    }

    #[test]
    fn an_amount_is_shown_in_the_unit_of_its_name() {
        assert_eq!(amount("body_bytes", 8 << 20), "8388608 (8 MiB)");
        assert_eq!(amount("idle_seconds", 86_400), "86400 (1 d)");
        assert_eq!(amount("connections", 1024), "1024");
    }
}
