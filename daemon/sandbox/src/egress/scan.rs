//! Finds secrets in what comes back, whatever chunks it comes in, and puts stars in their place.
//!
//! What could be the beginning of a form of a secret at the end of a chunk is held back until the next one, and nothing else
//! is, so that a stream that trickles is passed on as it comes. What is looked for is made with the injection, which answers
//! share that are read at the same time.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::inject::Injection;

/// Looks for the secrets of an injection in one answer.
pub(super) struct Scanner {
    injection: Arc<Injection>,
    held: Zeroizing<Vec<u8>>,
}

impl Scanner {
    pub(super) fn new(injection: Arc<Injection>) -> Self {
        // Room for what is held back where nothing is escaped.
        let held = Zeroizing::new(Vec::with_capacity(2 * injection.pattern().longest));
        Self { injection, held }
    }

    /// Takes a chunk and gives back what can be passed on. Empty where all of it is held back.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.held.len() + chunk.len());
        bytes.extend_from_slice(&self.held);
        bytes.extend_from_slice(chunk);
        // INVARIANT: nothing is passed on of what can still turn out to be a part of a form.
        let (found, end) = self.injection.pattern().look_at(&bytes);
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

    /// A whole text at once, blanked where it must be.
    pub(super) fn clean(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (found, _) = self.injection.pattern().look_at(text);
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
