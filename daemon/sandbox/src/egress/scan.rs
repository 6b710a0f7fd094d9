//! Streaming scan of a response: finds secrets across chunk boundaries and masks them with `*`.
//!
//! Only a tail that may be the beginning of a secret is held back until the next chunk, so a slow stream is passed on
//! as it arrives.

use zeroize::Zeroizing;

use super::inject::ScanSecrets;

/// The scanner of one response.
pub(super) struct Scanner {
    secrets: ScanSecrets,
    held: Zeroizing<Vec<u8>>,
}

impl Scanner {
    pub(super) fn new(secrets: ScanSecrets) -> Self {
        // Enough for the held bytes of text without escapes.
        let held = Zeroizing::new(Vec::with_capacity(2 * secrets.pattern().longest));
        Self { secrets, held }
    }

    /// Takes a chunk and returns the bytes that can be passed on, possibly none.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.held.len() + chunk.len());
        bytes.extend_from_slice(&self.held);
        bytes.extend_from_slice(chunk);
        // INVARIANT: bytes that can still turn out to be part of a form are not passed on.
        let (found, end) = self.secrets.pattern().search(&bytes);
        if bytes.len() - end > self.held.capacity() {
            // A new allocation, since growing this one would leave an unwiped copy behind.
            self.held = Zeroizing::new(Vec::with_capacity(bytes.len() - end));
        }
        self.held.clear();
        self.held.extend_from_slice(&bytes[end..]);
        bytes.truncate(end);
        mask(&mut bytes, &found);
        bytes
    }

    /// Returns the held bytes at the end.
    pub(super) fn finish(self) -> Vec<u8> {
        self.clean(&self.held).unwrap_or_else(|| self.held.to_vec())
    }

    /// Whether a field name contains a secret, ignoring case.
    pub(super) fn is_in_name(&self, name: &[u8]) -> bool {
        self.secrets.pattern().contains_ignoring_case(name)
    }

    /// Masks a whole text. `None` if it contains no secret.
    pub(super) fn clean(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (found, _) = self.secrets.pattern().search(text);
        (!found.is_empty()).then(|| {
            let mut text = text.to_vec();
            mask(&mut text, &found);
            text
        })
    }
}

fn mask(bytes: &mut [u8], found: &[std::ops::Range<usize>]) {
    for range in found {
        let end = range.end.min(bytes.len());
        if let Some(secret) = bytes.get_mut(range.start..end) {
            secret.fill(b'*');
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
