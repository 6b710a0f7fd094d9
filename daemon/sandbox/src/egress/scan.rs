//! Finds secrets in what comes back, whatever chunks it comes in, and puts stars in their place.
//!
//! What could be the beginning of a form of a secret at the end of a chunk is held back until the next one, and nothing else
//! is, so that a stream that trickles is passed on as it comes.

use zeroize::Zeroizing;

use super::inject::Hidden;

/// Looks for secrets in one answer.
pub(super) struct Scanner {
    hidden: Hidden,
    held: Zeroizing<Vec<u8>>,
}

impl Scanner {
    pub(super) fn new(hidden: Hidden) -> Self {
        // Room for what is held back where nothing is escaped.
        let held = Zeroizing::new(Vec::with_capacity(2 * hidden.pattern().longest));
        Self { hidden, held }
    }

    /// Takes a chunk and gives back what can be passed on. Empty where all of it is held back.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.held.len() + chunk.len());
        bytes.extend_from_slice(&self.held);
        bytes.extend_from_slice(chunk);
        // INVARIANT: nothing is passed on of what can still turn out to be a part of a form.
        let (found, end) = self.hidden.pattern().look_at(&bytes);
        if bytes.len() - end > self.held.capacity() {
            // Another one, and not this one grown: that would leave a copy behind unwiped.
            self.held = Zeroizing::new(Vec::with_capacity(bytes.len() - end));
        }
        self.held.clear();
        self.held.extend_from_slice(&bytes[end..]);
        bytes.truncate(end);
        blank(&mut bytes, &found);
        bytes
    }

    /// What is left at the end.
    pub(super) fn finish(self) -> Vec<u8> {
        self.clean(&self.held).unwrap_or_else(|| self.held.to_vec())
    }

    /// Whether a secret stands in the name of a field, in letters of any case.
    pub(super) fn is_in_name(&self, name: &[u8]) -> bool {
        self.hidden.pattern().is_in_any_case(name)
    }

    /// A whole text at once, blanked where it must be.
    pub(super) fn clean(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (found, _) = self.hidden.pattern().look_at(text);
        (!found.is_empty()).then(|| {
            let mut text = text.to_vec();
            blank(&mut text, &found);
            text
        })
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

#[cfg(test)]
mod tests;
