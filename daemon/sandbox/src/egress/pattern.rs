//! Searches text for all forms of a secret (`pattern/forms.rs`) at once, with the Wu-Manber algorithm: the last two
//! bytes of a window give the distance to the next possible match, so most bytes are never read. The forms are wiped
//! when dropped.
//!
//! Text with escapes (`pattern/escapes.rs`) is also searched unescaped, and unescaped twice: a URL in JSON is escaped
//! twice. Each of these is also searched with its lines joined, since Base64 is broken into lines.

mod escapes;
mod forms;

use std::ops::Range;

use escapes::Unescaped;
pub use forms::SHORTEST;

use forms::Forms;

use crate::secret::Secret;

/// Rounds of unescaping: text may be escaped twice.
const UNESCAPE_ROUNDS: usize = 2;

/// Entries of the shift table, indexed by a hash of two bytes. Small enough for the L1 cache, and for a thousand
/// concurrent responses.
const SHIFT_ENTRIES: usize = 4096;

/// The forms of some secrets, with their shift table.
pub(super) struct Pattern {
    forms: Forms,
    shifts: Box<[u8; SHIFT_ENTRIES]>,
    /// Length of the shortest form, the window of the search. `usize::MAX` without forms.
    window: usize,
    /// Length of the longest form, which bounds the bytes held back.
    pub(super) longest: usize,
}

impl Pattern {
    /// Builds the pattern of these secrets.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = &'a Secret> + Clone) -> Self {
        let forms = Forms::of(secrets);
        let window = forms.iter().map(<[u8]>::len).min().unwrap_or(usize::MAX);
        let longest = forms.iter().map(<[u8]>::len).max().unwrap_or(1);
        Self { shifts: shift_table(&forms, window), forms, window, longest }
    }

    /// Every form, for tests.
    #[cfg(test)]
    pub(super) fn forms(&self) -> impl Iterator<Item = &[u8]> {
        self.forms.iter()
    }

    /// Returns the ranges of secrets in a text, and the start of the tail that can still turn out to be part of another one. A
    /// range may reach into the tail.
    pub(super) fn search(&self, bytes: &[u8]) -> (Vec<Range<usize>>, usize) {
        let (mut found, mut end) = self.search_lines(bytes);
        let mut rounds: Vec<Unescaped> = Vec::new();
        for _ in 0..UNESCAPE_ROUNDS {
            let text = rounds.last().map_or(bytes, |round| &round.text);
            let Some(round) = Unescaped::parse(text) else { break };
            rounds.push(round);
            let original = |at: usize| rounds.iter().rev().fold(at, |at, round| round.original_position(at));
            let text = rounds.last().map_or(bytes, |round| &round.text);
            let (in_round, partial) = self.search_lines(text);
            found.extend(in_round.into_iter().map(|range| original(range.start)..original(range.end)));
            // A truncated match starts where the unescaped text ends.
            end = end.min(original(partial));
        }
        (found, end)
    }

    /// Searches a text as it is, and with its lines joined.
    fn search_lines(&self, bytes: &[u8]) -> (Vec<Range<usize>>, usize) {
        let (mut found, mut end) = (self.find(bytes), self.partial_match_start(bytes));
        if let Some(joined) = Unescaped::join_lines(bytes) {
            let original =
                |range: Range<usize>| joined.original_position(range.start)..joined.original_end(range.end);
            found.extend(self.find(&joined.text).into_iter().map(original));
            end = end.min(joined.original_position(self.partial_match_start(&joined.text)));
        }
        (found, end)
    }

    /// Whether a short text contains a form, ignoring ASCII case.
    pub(super) fn contains_ignoring_case(&self, bytes: &[u8]) -> bool {
        let is_in = |text: &[u8]| {
            let stands = |form: &[u8]| text.windows(form.len()).any(|part| part.eq_ignore_ascii_case(form));
            self.forms.iter().any(stands)
        };
        let unescaped = |text: &Unescaped| Unescaped::parse(&text.text);
        is_in(bytes)
            || std::iter::successors(Unescaped::parse(bytes), unescaped)
                .take(UNESCAPE_ROUNDS)
                .any(|text| is_in(&text.text))
    }

    /// The ranges of forms in a text, the longest one at each position.
    fn find(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        // The end of the window, exclusive.
        let mut end = self.window;
        while let Some(last) = bytes.get(end - 2..end) {
            let shift = usize::from(self.shifts[shift_index(last[0], last[1])]);
            if shift > 0 {
                end += shift;
                continue;
            }
            let start = end - self.window;
            // Sorted by length, longest first.
            let mut forms = self.forms.starting_with(bytes[start]);
            if let Some(form) = forms.find(|form| bytes[start..].starts_with(form)) {
                found.push(start..start + form.len());
            }
            end += 1;
        }
        found
    }

    /// The start of the longest suffix that is a proper prefix of a form.
    fn partial_match_start(&self, bytes: &[u8]) -> usize {
        let first = bytes.len().saturating_sub(self.longest - 1);
        let is_beginning = |end: &[u8]| {
            let mut forms = self.forms.starting_with(end[0]);
            forms.any(|form| form.len() > end.len() && form.starts_with(end))
        };
        let can_begin = |at: &usize| self.can_begin(&bytes[*at..]) && is_beginning(&bytes[*at..]);
        (first..bytes.len()).find(can_begin).unwrap_or(bytes.len())
    }

    /// Whether a form can begin with these bytes, by the shift table of their first two.
    fn can_begin(&self, bytes: &[u8]) -> bool {
        bytes
            .get(1)
            .is_none_or(|next| usize::from(self.shifts[shift_index(bytes[0], *next)]) < self.window - 1)
    }
}

fn shift_index(first: u8, second: u8) -> usize {
    ((usize::from(first) << 5) ^ usize::from(second)) & (SHIFT_ENTRIES - 1)
}

/// The distance that the window can move for each pair of its last two bytes: to their last position in the window of
/// any form.
fn shift_table(forms: &Forms, window: usize) -> Box<[u8; SHIFT_ENTRIES]> {
    let most = u8::try_from(window - 1).unwrap_or(u8::MAX);
    let mut shifts = Box::new([most; SHIFT_ENTRIES]);
    for form in forms.iter() {
        for (at, pair) in form[..window].windows(2).enumerate() {
            let shift = u8::try_from(window - 2 - at).unwrap_or(u8::MAX);
            let known = &mut shifts[shift_index(pair[0], pair[1])];
            *known = (*known).min(shift);
        }
    }
    shifts
}
