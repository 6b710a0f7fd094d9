//! Every row of the table is documented, and valid by itself.

use super::*;

fn keys() -> impl Iterator<Item = (&'static Section, &'static Key)> {
    SECTIONS.iter().flat_map(|section| section.keys.iter().map(move |key| (section, key)))
}

#[test]
fn every_key_has_a_description() {
    for (section, key) in keys() {
        assert!(key.meaning.concat().trim().len() > 8, "{}.{}", section.name, key.name);
        assert!(key.meaning.concat().trim_end().ends_with('.'), "{}.{}", section.name, key.name);
    }
}

#[test]
fn every_default_that_is_a_number_is_within_its_range() {
    for (section, key) in keys() {
        let (ValueKind::Number { least, most }, Some(default)) = (key.values, (key.default)()) else {
            continue;
        };
        let default: u64 = default.parse().expect("a number");
        assert!((least..=most).contains(&default), "{}.{}", section.name, key.name);
    }
}

#[test]
fn every_default_reads_back_as_a_setting() {
    let mut text = String::new();
    // The settings of an issuer need one.
    for section in SECTIONS.iter().filter(|section| !section.name.contains('.')) {
        if !section.name.is_empty() {
            text += &format!("[{}]\n", section.name);
        }
        for key in section.keys {
            if let Some(default) = (key.default)() {
                text += &format!("{} = {default}\n", key.name);
            }
        }
    }
    Config::parse(&text, std::path::Path::new("defaults.toml")).expect("the defaults are valid");
}

#[test]
fn every_listed_choice_of_a_key_is_accepted() {
    for (section, key) in keys() {
        let ValueKind::OneOf(choices) = key.values else { continue };
        for choice in choices {
            let head = if section.name.is_empty() { String::new() } else { format!("[{}]\n", section.name) };
            let text = format!("{head}{} = \"{choice}\"", key.name);
            Config::parse(&text, std::path::Path::new("choice.toml")).expect("a choice");
        }
    }
}
