//! The checked-in table of what customers say and tools call otherwise (`synonyms.txt`).
//!
//! Customers do not use the words of descriptions: they want to call something off that a tool cancels. The
//! table is general English of offices, shops and machines; it knows no tool. What only one organization says
//! belongs into its intents.

use super::words::pieces;

const TABLE: &str = include_str!("synonyms.txt");

/// What a word that means about the same counts beside the word itself.
const MUTUAL: f32 = 0.6;
/// What a word counts that was probably wanted.
const HINT: f32 = 0.4;

/// One entry of the table: who says `said` may mean `meant`.
pub(super) struct Synonym {
    /// A word, or a phrase of two to four.
    pub said: Vec<&'static str>,
    pub meant: &'static str,
    pub weight: f32,
}

/// Every entry of the table.
pub(super) fn synonyms() -> impl Iterator<Item = Synonym> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| match line.split_once('>') {
        Some((said, meant)) => pairs(said, meant, HINT),
        None => pairs(line, line, MUTUAL),
    })
}

fn pairs(said: &'static str, meant: &'static str, weight: f32) -> Vec<Synonym> {
    let mut pairs = Vec::new();
    for said in said.split_whitespace() {
        // A phrase is never meant: descriptions are looked through word by word.
        let meant = meant.split_whitespace().filter(|meant| *meant != said && !meant.contains('_'));
        pairs.extend(meant.map(|meant| Synonym { said: phrase(said), meant, weight }));
    }
    pairs
}

fn phrase(said: &'static str) -> Vec<&'static str> {
    match said.starts_with('@') {
        true => vec![said],
        false => said.split('_').flat_map(pieces).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::question::PHRASE_WORDS;
    use super::*;

    fn meant_by(said: &[&str]) -> Vec<&'static str> {
        synonyms().filter(|entry| entry.said == said).map(|entry| entry.meant).collect()
    }

    #[test]
    fn words_of_one_group_mean_each_other() {
        assert!(meant_by(&["picture"]).contains(&"photo") && meant_by(&["photo"]).contains(&"picture"));
    }

    #[test]
    fn a_hint_goes_one_way() {
        assert!(meant_by(&["owe"]).contains(&"invoice") && !meant_by(&["invoice"]).contains(&"owe"));
    }

    #[test]
    fn a_phrase_is_said_and_never_meant() {
        assert!(meant_by(&["get", "rid", "of"]).contains(&"delete"));
        assert!(synonyms().all(|entry| !entry.meant.contains('_')));
    }

    #[test]
    fn the_table_is_written_as_messages_are_read() {
        for entry in synonyms() {
            let written = entry.said.iter().chain([&entry.meant]);
            assert!(written.clone().all(|word| *word == word.to_lowercase()), "{:?}", entry.said);
            assert!((1..=PHRASE_WORDS).contains(&entry.said.len()), "{:?}", entry.said);
        }
    }
}
