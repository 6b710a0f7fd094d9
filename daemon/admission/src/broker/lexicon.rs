//! The vocabulary of one catalogue: its words by stem, their synonyms, and their spellings for typo correction.
//!
//! Of the table of synonyms only entries that lead to a word of some tool are kept, so the cost of a query depends on the
//! message and not on the table.

use std::collections::{BTreeMap, HashMap};

use super::synonyms::synonyms;
use super::words::{is_filler, is_stop_word, stem};

/// Shortest word that typo correction applies to: too many short words differ by one letter.
const TYPO_LETTERS: usize = 5;
/// Weight of the correction of a typo.
const TYPO: f32 = 0.6;

/// Weight of a phrase relative to a single word with the same sense: two matching words in a row are seldom chance.
const PHRASE: f32 = 1.5;

/// A term of the catalogue that a word can stand for, and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sense {
    pub term: u32,
    pub weight: f32,
}

/// The terms of one catalogue, numbered.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    /// By term: its first form in the catalogue.
    display_forms: Vec<Box<str>>,
    terms: HashMap<Box<str>, u32>,
    /// By stem: its other senses.
    synonyms: HashMap<Box<str>, Vec<Sense>>,
    /// Phrases by the stems of their words, joined with spaces, with and without filler words.
    phrases: HashMap<Box<str>, Vec<Sense>>,
    /// Whole words by first letter and length, for typos.
    spellings: BTreeMap<(char, usize), Vec<Box<str>>>,
}

impl Lexicon {
    /// Adds a word and returns its term; none for a stop word or a number.
    pub(super) fn add_word(&mut self, word: &str) -> Option<u32> {
        if is_stop_word(word) || !word.contains(char::is_alphabetic) {
            return None;
        }
        let stem = stem(word);
        if let Some(term) = self.terms.get(stem.as_ref()) {
            return Some(*term);
        }
        let term = u32::try_from(self.display_forms.len()).ok()?;
        self.display_forms.push(word.into());
        self.terms.insert(stem.into(), term);
        self.spell(word);
        Some(term)
    }

    /// Adds the table of synonyms. Call it after every word is added.
    pub(super) fn add_synonyms(&mut self) {
        for entry in synonyms() {
            let Some(term) = self.term(&stem(entry.target)) else { continue };
            let sense = Sense { term, weight: entry.weight };
            if let [word] = entry.phrase.as_slice() {
                self.spell(word);
                add(self.synonyms.entry(stem(word).into()).or_default(), sense);
                continue;
            }
            let core: Vec<&str> = entry.phrase.iter().copied().filter(|word| !is_filler(word)).collect();
            let forms = [Some(&entry.phrase), Some(&core).filter(|core| core.len() > 1)];
            for form in forms.into_iter().flatten() {
                let sense = Sense { weight: sense.weight * PHRASE, ..sense };
                add(self.phrases.entry(phrase_key(form.iter().copied()).into()).or_default(), sense);
            }
        }
        for spellings in self.spellings.values_mut() {
            spellings.sort_unstable();
            spellings.dedup();
        }
    }

    /// The number of terms.
    pub(super) fn len(&self) -> usize {
        self.display_forms.len()
    }

    /// Returns the first form of a term in the catalogue.
    pub(super) fn display_form(&self, term: u32) -> &str {
        self.display_forms.get(term as usize).map_or("", |word| word)
    }

    /// Returns the senses of a word of a message, the word itself first.
    pub(super) fn senses(&self, word: &str) -> Vec<Sense> {
        let stem = stem(word);
        let itself = self.term(&stem).filter(|_| !is_stop_word(word));
        let mut senses: Vec<Sense> = itself.map(|term| Sense { term, weight: 1.0 }).into_iter().collect();
        let others = self.synonyms.get(stem.as_ref()).map(Vec::as_slice).unwrap_or_default();
        others.iter().for_each(|sense| add(&mut senses, *sense));
        senses
    }

    /// Whether some tool or the table of synonyms has exactly this word.
    pub(super) fn contains(&self, word: &str) -> bool {
        let Some(first) = word.chars().next() else { return false };
        let spellings = self.spellings.get(&(first, word.chars().count()));
        spellings.is_some_and(|words| words.binary_search_by(|known| known.as_ref().cmp(word)).is_ok())
    }

    /// Returns the senses of a phrase, given the stems of its words, joined with spaces.
    pub(super) fn phrase(&self, stems: &str) -> &[Sense] {
        self.phrases.get(stems).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the senses of a known word that differs by one typo. The first letter must be the same.
    pub(super) fn senses_of_typo(&self, word: &str) -> Vec<Sense> {
        let length = word.chars().count();
        let Some(first) = word.chars().next().filter(|_| length >= TYPO_LETTERS) else { return Vec::new() };
        let near = self.spellings.range((first, length - 1)..=(first, length + 1));
        let Some(known) = near.flat_map(|(_, words)| words).find(|known| is_one_typo_away(word, known))
        else {
            return Vec::new();
        };
        let weaker = |sense: Sense| Sense { weight: sense.weight * TYPO, ..sense };
        self.senses(known).into_iter().map(weaker).collect()
    }

    fn term(&self, stem: &str) -> Option<u32> {
        self.terms.get(stem).copied()
    }

    fn spell(&mut self, word: &str) {
        if let Some(first) = word.chars().next() {
            self.spellings.entry((first, word.chars().count())).or_default().push(word.into());
        }
    }
}

fn phrase_key<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| stem(word).into_owned()).collect::<Vec<_>>().join(" ")
}

/// Adds a sense; if the term has one already, the larger weight stays.
fn add(senses: &mut Vec<Sense>, sense: Sense) {
    match senses.iter_mut().find(|known| known.term == sense.term) {
        Some(known) => known.weight = known.weight.max(sense.weight),
        None => senses.push(sense),
    }
}

/// Whether two words differ by one inserted, missing, wrong or transposed letter (Damerau-Levenshtein distance 1).
fn is_one_typo_away(left: &str, right: &str) -> bool {
    let (left, right) = match left.len() <= right.len() {
        true => (left.as_bytes(), right.as_bytes()),
        false => (right.as_bytes(), left.as_bytes()),
    };
    let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let (left, right) = (left.get(same..).unwrap_or_default(), right.get(same..).unwrap_or_default());
    match (left, right) {
        ([], []) => false,
        (left, [_, rest @ ..]) if left.len() == rest.len() => left == rest,
        ([a, b, left @ ..], [c, d, right @ ..]) if a == d && b == c => left == right,
        ([_, left @ ..], [_, right @ ..]) => left == right,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexicon(words: &[&str]) -> Lexicon {
        let mut lexicon = Lexicon::default();
        for word in words {
            lexicon.add_word(word);
        }
        lexicon.add_synonyms();
        lexicon
    }

    fn display_forms(lexicon: &Lexicon, senses: &[Sense]) -> Vec<String> {
        senses.iter().map(|sense| lexicon.display_form(sense.term).to_owned()).collect()
    }

    #[test]
    fn forms_of_one_word_have_one_number() {
        let mut lexicon = lexicon(&["invoice"]);
        assert_eq!(lexicon.add_word("invoices"), lexicon.add_word("invoicing"));
        assert_eq!((lexicon.len(), lexicon.add_word("the"), lexicon.add_word("2024")), (1, None, None));
    }

    #[test]
    fn a_word_means_itself_before_anything_else() {
        let lexicon = lexicon(&["photo", "picture"]);
        let senses = lexicon.senses("pictures");
        assert_eq!(display_forms(&lexicon, &senses), ["picture", "photo"]);
        assert!(senses[0].weight > senses[1].weight);
    }

    #[test]
    fn a_phrase_means_what_the_table_says() {
        let lexicon = lexicon(&["delete"]);
        assert_eq!(display_forms(&lexicon, lexicon.phrase("get rid of")), ["delete"]);
        assert!(lexicon.phrase("get rid").is_empty());
    }

    #[test]
    fn one_typo_is_corrected_and_two_are_not() {
        let lexicon = lexicon(&["schedule"]);
        for typo in ["shedule", "scheduel", "schedulle", "schedale"] {
            assert_eq!(display_forms(&lexicon, &lexicon.senses_of_typo(typo)), ["schedule"], "{typo}");
        }
        for other in ["shedul", "xchedule", "schxdxle", "sch", "", "żółćżółć"] {
            assert!(lexicon.senses_of_typo(other).is_empty(), "{other}");
        }
    }
}
