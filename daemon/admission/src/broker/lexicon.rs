//! The words of one catalogue: which there are, what else means them, and which one a slip was for.
//!
//! Of the table of synonyms only what leads to a word of some tool is kept, so what a message costs depends on
//! the message and not on the table.

use std::collections::{BTreeMap, HashMap};

use super::synonyms::synonyms;
use super::words::{is_filler, is_stop_word, stem};

/// Shortest word in which a slip is looked for: of short ones too many are one letter apart.
const SLIP_LETTERS: usize = 5;
/// What a word counts that was probably misspelt.
const SLIP: f32 = 0.6;

/// How much more a phrase counts than a word that means the same: two words in a row are seldom an accident.
const PHRASE: f32 = 1.5;

/// A word of the catalogue, and how much it counts where another was said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Meaning {
    pub term: u32,
    pub weight: f32,
}

/// The words of one catalogue, numbered.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    /// By number: the first form in which the word was met.
    shown: Vec<Box<str>>,
    terms: HashMap<Box<str>, u32>,
    /// What a stem means beside itself.
    synonyms: HashMap<Box<str>, Vec<Meaning>>,
    /// Phrases by the stems of their words with spaces between, with and without fillers.
    phrases: HashMap<Box<str>, Vec<Meaning>>,
    /// Whole words by first letter and length, for slips.
    spellings: BTreeMap<(char, usize), Vec<Box<str>>>,
}

impl Lexicon {
    /// The number of a word, which may be a new one; none for a word that says nothing.
    pub fn learn(&mut self, word: &str) -> Option<u32> {
        if is_stop_word(word) || !word.contains(char::is_alphabetic) {
            return None;
        }
        let stem = stem(word);
        if let Some(term) = self.terms.get(stem.as_ref()) {
            return Some(*term);
        }
        let term = u32::try_from(self.shown.len()).ok()?;
        self.shown.push(word.into());
        self.terms.insert(stem.into(), term);
        self.spell(word);
        Some(term)
    }

    /// Adds the table of synonyms, once every word is learnt.
    pub fn learn_synonyms(&mut self) {
        for entry in synonyms() {
            let Some(term) = self.term(&stem(entry.meant)) else { continue };
            let meaning = Meaning { term, weight: entry.weight };
            if let [word] = entry.said.as_slice() {
                self.spell(word);
                add(self.synonyms.entry(stem(word).into()).or_default(), meaning);
                continue;
            }
            let core: Vec<&str> = entry.said.iter().copied().filter(|word| !is_filler(word)).collect();
            let forms = [Some(&entry.said), Some(&core).filter(|core| core.len() > 1)];
            for form in forms.into_iter().flatten() {
                let meaning = Meaning { weight: meaning.weight * PHRASE, ..meaning };
                add(self.phrases.entry(phrase_key(form.iter().copied()).into()).or_default(), meaning);
            }
        }
        for spellings in self.spellings.values_mut() {
            spellings.sort_unstable();
            spellings.dedup();
        }
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    /// A word as the first tool wrote it.
    pub fn shown(&self, term: u32) -> &str {
        self.shown.get(term as usize).map_or("", |word| word)
    }

    /// What a word of a message means, the word itself first.
    pub fn meanings(&self, word: &str) -> Vec<Meaning> {
        let stem = stem(word);
        let itself = self.term(&stem).filter(|_| !is_stop_word(word));
        let mut meanings: Vec<Meaning> =
            itself.map(|term| Meaning { term, weight: 1.0 }).into_iter().collect();
        let others = self.synonyms.get(stem.as_ref()).map(Vec::as_slice).unwrap_or_default();
        others.iter().for_each(|meaning| add(&mut meanings, *meaning));
        meanings
    }

    /// Whether some tool or the table has exactly this word.
    pub fn knows(&self, word: &str) -> bool {
        let Some(first) = word.chars().next() else { return false };
        let spellings = self.spellings.get(&(first, word.chars().count()));
        spellings.is_some_and(|words| words.binary_search_by(|known| known.as_ref().cmp(word)).is_ok())
    }

    /// What a phrase of a message means, given the stems of its words with spaces between.
    pub fn phrase(&self, stems: &str) -> &[Meaning] {
        self.phrases.get(stems).map(Vec::as_slice).unwrap_or_default()
    }

    /// What a word means that is one slip away from a known one. The first letter is taken to be right.
    pub fn meanings_of_slip(&self, word: &str) -> Vec<Meaning> {
        let length = word.chars().count();
        let Some(first) = word.chars().next().filter(|_| length >= SLIP_LETTERS) else { return Vec::new() };
        let near = self.spellings.range((first, length - 1)..=(first, length + 1));
        let Some(meant) = near.flat_map(|(_, words)| words).find(|known| is_one_slip_away(word, known))
        else {
            return Vec::new();
        };
        let weaker = |meaning: Meaning| Meaning { weight: meaning.weight * SLIP, ..meaning };
        self.meanings(meant).into_iter().map(weaker).collect()
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

/// Adds a meaning; of two for one word the stronger stays.
fn add(meanings: &mut Vec<Meaning>, meaning: Meaning) {
    match meanings.iter_mut().find(|known| known.term == meaning.term) {
        Some(known) => known.weight = known.weight.max(meaning.weight),
        None => meanings.push(meaning),
    }
}

/// Whether two words differ by one letter too many, missing, wrong or swapped with its neighbour.
fn is_one_slip_away(left: &str, right: &str) -> bool {
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
            lexicon.learn(word);
        }
        lexicon.learn_synonyms();
        lexicon
    }

    fn said(lexicon: &Lexicon, meanings: &[Meaning]) -> Vec<String> {
        meanings.iter().map(|meaning| lexicon.shown(meaning.term).to_owned()).collect()
    }

    #[test]
    fn forms_of_one_word_have_one_number() {
        let mut lexicon = lexicon(&["invoice"]);
        assert_eq!(lexicon.learn("invoices"), lexicon.learn("invoicing"));
        assert_eq!((lexicon.len(), lexicon.learn("the"), lexicon.learn("2024")), (1, None, None));
    }

    #[test]
    fn a_word_means_itself_before_anything_else() {
        let lexicon = lexicon(&["photo", "picture"]);
        let meanings = lexicon.meanings("pictures");
        assert_eq!(said(&lexicon, &meanings), ["picture", "photo"]);
        assert!(meanings[0].weight > meanings[1].weight);
    }

    #[test]
    fn a_phrase_means_what_the_table_says() {
        let lexicon = lexicon(&["delete"]);
        assert_eq!(said(&lexicon, lexicon.phrase("get rid of")), ["delete"]);
        assert!(lexicon.phrase("get rid").is_empty());
    }

    #[test]
    fn one_slip_is_forgiven_and_two_are_not() {
        let lexicon = lexicon(&["schedule"]);
        for slip in ["shedule", "scheduel", "schedulle", "schedale"] {
            assert_eq!(said(&lexicon, &lexicon.meanings_of_slip(slip)), ["schedule"], "{slip}");
        }
        for other in ["shedul", "xchedule", "schxdxle", "sch", "", "żółćżółć"] {
            assert!(lexicon.meanings_of_slip(other).is_empty(), "{other}");
        }
    }
}
