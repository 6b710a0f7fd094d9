//! The table of synonyms (`synonyms.txt`): words that users write and tools describe with other words.
//!
//! The table is general English of offices, shops and machines and knows no tool: "call off" stands for "cancel". Terms
//! of one organization belong in its intents.

use super::words::{lines, split_words};

/// Weight of a word with about the same meaning.
const MUTUAL: f32 = 0.6;
/// Weight of a word that is probably meant.
const HINT: f32 = 0.4;

/// One entry of the table: `phrase` can stand for `target`.
pub(super) struct Synonym {
    /// One word, or two to four.
    pub phrase: Vec<&'static str>,
    pub target: &'static str,
    pub weight: f32,
}

/// Every entry of the table.
pub(super) fn synonyms() -> impl Iterator<Item = Synonym> {
    lines(include_str!("synonyms.txt")).flat_map(|line| match line.split_once('>') {
        Some((words, targets)) => pairs(words, targets, HINT),
        None => pairs(line, line, MUTUAL),
    })
}

fn pairs(words: &'static str, targets: &'static str, weight: f32) -> Vec<Synonym> {
    let mut pairs = Vec::new();
    for word in words.split_whitespace() {
        // A phrase is never a target: descriptions are indexed word by word.
        let targets = targets.split_whitespace().filter(|target| *target != word && !target.contains('_'));
        pairs.extend(targets.map(|target| Synonym { phrase: phrase(word), target, weight }));
    }
    pairs
}

fn phrase(word: &'static str) -> Vec<&'static str> {
    match word.starts_with('@') {
        true => vec![word],
        false => word.split('_').flat_map(split_words).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::PHRASE_WORDS;
    use super::*;

    fn targets_of(phrase: &[&str]) -> Vec<&'static str> {
        synonyms().filter(|entry| entry.phrase == phrase).map(|entry| entry.target).collect()
    }

    #[test]
    fn words_of_one_group_mean_each_other() {
        assert!(targets_of(&["picture"]).contains(&"photo") && targets_of(&["photo"]).contains(&"picture"));
    }

    #[test]
    fn a_hint_goes_one_way() {
        assert!(targets_of(&["owe"]).contains(&"invoice") && !targets_of(&["invoice"]).contains(&"owe"));
    }

    #[test]
    fn a_phrase_is_never_a_target() {
        assert!(targets_of(&["get", "rid", "of"]).contains(&"delete"));
        assert!(synonyms().all(|entry| !entry.target.contains('_')));
    }

    #[test]
    fn the_table_is_written_as_messages_are_read() {
        for entry in synonyms() {
            let written = entry.phrase.iter().chain([&entry.target]);
            assert!(written.clone().all(|word| *word == word.to_lowercase()), "{:?}", entry.phrase);
            assert!((1..=PHRASE_WORDS).contains(&entry.phrase.len()), "{:?}", entry.phrase);
        }
    }
}
