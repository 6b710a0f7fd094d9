//! Streaming scan of a response: finds secrets across chunk boundaries and masks them with `*`.
//!
//! Only a tail that may be the beginning of a secret is held back until the next chunk, so a slow stream is passed on
//! as it arrives.

use zeroize::Zeroizing;

use super::inject::ScanSecrets;

/// Held bytes that are searched again with every chunk. More are searched again when an eighth was added, since an upstream
/// that sends single bytes would otherwise make the search quadratic.
const EAGER_BYTES: usize = 4 * 1024;

/// The scanner of one response.
pub(super) struct Scanner {
    secrets: ScanSecrets,
    held: Zeroizing<Vec<u8>>,
    /// Held bytes at the start that are part of a secret, of which the first bytes were passed on.
    masked: usize,
    /// Held bytes after the last search.
    searched: usize,
}

impl Scanner {
    pub(super) fn new(secrets: ScanSecrets) -> Self {
        // Enough for the held bytes of text without escapes.
        let held = Zeroizing::new(Vec::with_capacity(2 * secrets.pattern().longest));
        Self { secrets, held, masked: 0, searched: 0 }
    }

    /// Takes a chunk and returns the bytes that can be passed on, possibly none.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let added = self.held.len() + chunk.len() - self.searched;
        if self.searched > EAGER_BYTES && added < self.searched / 8 {
            self.hold(chunk);
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(self.held.len() + chunk.len());
        bytes.extend_from_slice(&self.held);
        bytes.extend_from_slice(chunk);
        // INVARIANT: bytes that can still turn out to be part of a form are not passed on.
        let (mut found, end) = self.secrets.pattern().search(&bytes);
        let crossing = found.iter().filter(|range| range.start < end).map(|range| range.end.min(bytes.len()));
        let masked_to = crossing.max().unwrap_or(0).max(self.masked);
        found.push(0..self.masked);
        self.masked = masked_to.saturating_sub(end);
        self.held.clear();
        self.hold(&bytes[end..]);
        self.searched = self.held.len();
        bytes.truncate(end);
        mask(&mut bytes, &found);
        bytes
    }

    /// Adds to the held bytes.
    fn hold(&mut self, bytes: &[u8]) {
        let needed = self.held.len() + bytes.len();
        if needed > self.held.capacity() {
            // A new allocation, since growing this one would leave an unwiped copy behind.
            let mut held = Zeroizing::new(Vec::with_capacity(needed.max(2 * self.held.len())));
            held.extend_from_slice(&self.held);
            self.held = held;
        }
        self.held.extend_from_slice(bytes);
    }

    /// Returns the held bytes at the end.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut rest = self.clean(&self.held).unwrap_or_else(|| self.held.to_vec());
        mask(&mut rest, std::slice::from_ref(&(0..self.masked)));
        rest
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
