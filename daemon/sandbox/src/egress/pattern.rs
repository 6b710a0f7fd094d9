//! What is looked for: each form of a secret (`pattern/forms.rs`) at once, by the shift of Wu and Manber. Two bytes at the end
//! of a window say how far the next place can be where anything begins, so most bytes are never looked at. The forms are
//! wiped when dropped.
//!
//! It is looked for in the text as it stands and, where that has escapes (`pattern/escapes.rs`), as it is meant, and as that
//! is meant: a URL in JSON is escaped twice.

mod escapes;
mod forms;

use std::ops::Range;

use escapes::Unescaped;
pub use forms::SHORTEST;

use forms::Forms;

use crate::secret::Secret;

/// How often escapes are put back: for what is escaped twice.
const ROUNDS: usize = 2;

/// Entries of the table of shifts: two bytes, folded. Small enough for the nearest cache, and for a thousand at once.
const SHIFTS: usize = 4096;

/// The forms of some secrets, ready to be looked for.
pub(super) struct Pattern {
    forms: Forms,
    shifts: Box<[u8; SHIFTS]>,
    /// Length of the shortest form, which is how far a window reaches. Where there is none nothing is that long.
    window: usize,
    /// Length of the longest form, which is what can be held back.
    pub(super) longest: usize,
}

impl Pattern {
    /// For these secrets.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = &'a Secret> + Clone) -> Self {
        let forms = Forms::of(secrets);
        let window = forms.iter().map(<[u8]>::len).min().unwrap_or(usize::MAX);
        let longest = forms.iter().map(<[u8]>::len).max().unwrap_or(1);
        Self { shifts: shifts(&forms, window), forms, window, longest }
    }

    /// Every form, for tests.
    #[cfg(test)]
    pub(super) fn forms(&self) -> impl Iterator<Item = &[u8]> {
        self.forms.iter()
    }

    /// Where secrets stand in a text, and where the end begins that can still turn out to be a part of one.
    pub(super) fn look_at(&self, bytes: &[u8]) -> (Vec<Range<usize>>, usize) {
        let (mut found, mut end) = (self.find(bytes), self.beginning_at_the_end(bytes));
        let mut rounds: Vec<Unescaped> = Vec::new();
        for _ in 0..ROUNDS {
            let text = rounds.last().map_or(bytes, |round| &round.text);
            let Some(round) = Unescaped::of(text) else { break };
            rounds.push(round);
            let original = |at: usize| rounds.iter().rev().fold(at, |at, round| round.original(at));
            let text = rounds.last().map_or(bytes, |round| &round.text);
            found.extend(self.find(text).into_iter().map(|range| original(range.start)..original(range.end)));
            // What the end cuts off begins where the text that is meant ends.
            end = end.min(original(self.beginning_at_the_end(text)));
        }
        // INVARIANT: nothing of what was found lies on both sides.
        while let Some(crossing) = found.iter().find(|found| found.start < end && end < found.end) {
            end = crossing.start;
        }
        (found, end)
    }

    /// Whether a form stands in a short text, in letters of any case.
    pub(super) fn is_in_any_case(&self, bytes: &[u8]) -> bool {
        let is_in = |text: &[u8]| {
            let stands = |form: &[u8]| text.windows(form.len()).any(|part| part.eq_ignore_ascii_case(form));
            self.forms.iter().any(stands)
        };
        let unescaped = |text: &Unescaped| Unescaped::of(&text.text);
        is_in(bytes)
            || std::iter::successors(Unescaped::of(bytes), unescaped)
                .take(ROUNDS)
                .any(|text| is_in(&text.text))
    }

    /// Where forms stand in a text; the longest where several begin.
    fn find(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        // The end of the window, one behind its last byte.
        let mut end = self.window;
        while let Some(last) = bytes.get(end - 2..end) {
            let shift = usize::from(self.shifts[folded(last[0], last[1])]);
            if shift > 0 {
                end += shift;
                continue;
            }
            let start = end - self.window;
            // The longest comes first.
            let mut forms = self.forms.beginning_with(bytes[start]);
            if let Some(form) = forms.find(|form| bytes[start..].starts_with(form)) {
                found.push(start..start + form.len());
            }
            end += 1;
        }
        found
    }

    /// Where the longest end begins that is the beginning of a form, whole forms apart.
    fn beginning_at_the_end(&self, bytes: &[u8]) -> usize {
        let first = bytes.len().saturating_sub(self.longest - 1);
        let is_beginning = |end: &[u8]| {
            let mut forms = self.forms.beginning_with(end[0]);
            forms.any(|form| form.len() > end.len() && form.starts_with(end))
        };
        let can_begin = |at: &usize| self.can_begin(&bytes[*at..]) && is_beginning(&bytes[*at..]);
        (first..bytes.len()).find(can_begin).unwrap_or(bytes.len())
    }

    /// Whether some form can begin like this, as the shifts know it by two letters.
    fn can_begin(&self, bytes: &[u8]) -> bool {
        bytes.get(1).is_none_or(|next| usize::from(self.shifts[folded(bytes[0], *next)]) < self.window - 1)
    }
}

fn folded(first: u8, second: u8) -> usize {
    ((usize::from(first) << 5) ^ usize::from(second)) & (SHIFTS - 1)
}

/// How far the window can move when it ends in two bytes: to where they stand last in the beginning of any form.
fn shifts(forms: &Forms, window: usize) -> Box<[u8; SHIFTS]> {
    let most = u8::try_from(window - 1).unwrap_or(u8::MAX);
    let mut shifts = Box::new([most; SHIFTS]);
    for form in forms.iter() {
        for (at, pair) in form[..window].windows(2).enumerate() {
            let shift = u8::try_from(window - 2 - at).unwrap_or(u8::MAX);
            let known = &mut shifts[folded(pair[0], pair[1])];
            *known = (*known).min(shift);
        }
    }
    shifts
}
