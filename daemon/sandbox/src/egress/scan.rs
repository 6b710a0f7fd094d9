//! Finds secrets in what comes back, whatever chunks it comes in, and puts stars in their place.
//!
//! Each form of a secret (`forms.rs`) is looked for at once by the shift of Wu and Manber: two bytes at the end of a
//! window say how far the next place can be where anything begins, so most bytes are never looked at. What could be
//! the beginning of a form at the end of a chunk is held back until the next one, and nothing else is, so that a
//! stream that trickles is passed on as it comes. What is looked for is made with the injection, which answers share
//! that are read at the same time. The forms are wiped when dropped.

mod forms;

use std::sync::Arc;

use forms::Forms;
use zeroize::Zeroizing;

use super::inject::Injection;
use crate::secret::Secret;

/// Entries of the table of shifts: two bytes, folded. Small enough for the nearest cache, and for a thousand at once.
const SHIFTS: usize = 4096;

/// The forms of some secrets, ready to be looked for.
pub(super) struct Pattern {
    forms: Forms,
    shifts: Box<[u8; SHIFTS]>,
    /// Length of the shortest form, which is how far a window reaches. Where there is none nothing is that long.
    window: usize,
    longest: usize,
    /// The bytes that forms begin with.
    begins: [bool; 256],
}

/// Looks for the secrets of an injection in one answer.
pub(super) struct Scanner {
    injection: Arc<Injection>,
    held: Zeroizing<Vec<u8>>,
}

impl Scanner {
    pub(super) fn new(injection: Arc<Injection>) -> Self {
        // Room for all that is ever held back, so that no smaller copy is left behind unwiped.
        let held = Zeroizing::new(Vec::with_capacity(2 * injection.pattern().longest));
        Self { injection, held }
    }

    /// Takes a chunk and gives back what can be passed on. Empty where all of it is held back.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.held.len() + chunk.len());
        bytes.extend_from_slice(&self.held);
        bytes.extend_from_slice(chunk);
        let pattern = self.injection.pattern();
        let found = pattern.find(&bytes);
        // INVARIANT: nothing is passed on of what can still turn out to be a part of a form.
        let mut end = pattern.beginning_at_the_end(&bytes);
        if let Some(crossing) = found.iter().find(|found| found.start < end && end < found.end) {
            end = crossing.start;
        }
        self.held.clear();
        self.held.extend_from_slice(&bytes[end..]);
        bytes.truncate(end);
        blank(&mut bytes, &found);
        bytes
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut bytes = self.held.to_vec();
        self.held.clear();
        let found = self.injection.pattern().find(&bytes);
        blank(&mut bytes, &found);
        bytes
    }

    /// A whole text at once, blanked where it must be.
    pub(super) fn clean(&self, text: &[u8]) -> Option<Vec<u8>> {
        let found = self.injection.pattern().find(text);
        (!found.is_empty()).then(|| {
            let mut text = text.to_vec();
            blank(&mut text, &found);
            text
        })
    }
}

impl Pattern {
    /// For these secrets.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = &'a Secret> + Clone) -> Self {
        let forms = Forms::of(secrets);
        let window = forms.iter().map(<[u8]>::len).min().unwrap_or(usize::MAX);
        let longest = forms.iter().map(<[u8]>::len).max().unwrap_or(1);
        let mut begins = [false; 256];
        forms.iter().for_each(|form| begins[usize::from(form[0])] = true);
        Self { shifts: shifts(&forms, window), forms, window, longest, begins }
    }

    fn find(&self, bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
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
            let begins = self.begins[usize::from(bytes[start])];
            let mut forms = self.forms.iter().filter(|_| begins);
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
        let is_beginning =
            |end: &[u8]| self.forms.iter().any(|form| form.len() > end.len() && form.starts_with(end));
        let can_begin = |at: &usize| self.can_begin(&bytes[*at..]) && is_beginning(&bytes[*at..]);
        (first..bytes.len()).find(can_begin).unwrap_or(bytes.len())
    }

    /// Whether some form can begin like this, by its first letter and, as the shifts know it, the one behind.
    fn can_begin(&self, bytes: &[u8]) -> bool {
        self.begins[usize::from(bytes[0])]
            && bytes
                .get(1)
                .is_none_or(|next| usize::from(self.shifts[folded(bytes[0], *next)]) < self.window - 1)
    }
}

fn blank(bytes: &mut [u8], found: &[std::ops::Range<usize>]) {
    for range in found {
        let end = range.end.min(bytes.len());
        if let Some(secret) = bytes.get_mut(range.start..end) {
            secret.fill(b'*');
        }
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

#[cfg(test)]
mod tests;
