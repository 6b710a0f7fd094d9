//! The forms in which a secret comes back, escapes apart: as it is, and as common encoders write it.
//!
//! Base64 is the one that has no beginning: the same bytes look otherwise at each of three offsets, and the first and
//! the last letter also depend on what stands beside them. So each offset gives two forms: the letters that depend on the
//! secret alone, and the same with the last letter as it is where the secret ends the data.

use std::cmp::Reverse;
use std::ops::Range;

use zeroize::Zeroizing;

use crate::secret::Secret;

/// Shorter forms are not looked for: they would blank ordinary text. A secret that short is no secret, in bytes.
pub const SHORTEST: usize = 6;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Every form of some secrets, of each once, by the byte that it begins with and then the longest first.
pub(super) struct Forms {
    /// One behind the other. INVARIANT: never grown, so that no smaller copy is left behind unwiped.
    bytes: Zeroizing<Vec<u8>>,
    places: Vec<Range<usize>>,
    /// Where in `places` those of each byte begin, and behind the last where all end.
    begins: Box<[usize; 257]>,
}

impl Forms {
    pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a Secret> + Clone) -> Self {
        let most = secrets.clone().map(|secret| most_bytes(secret.expose())).sum();
        let mut forms = Self {
            bytes: Zeroizing::new(Vec::with_capacity(most)),
            places: Vec::with_capacity(32),
            begins: Box::new([0; 257]),
        };
        for secret in secrets {
            forms.add_all(secret.expose());
        }
        debug_assert!(forms.bytes.len() <= most, "it was grown");
        let Self { bytes, places, begins } = &mut forms;
        places.sort_unstable_by_key(|place| (bytes[place.start], Reverse(place.len())));
        places.iter().for_each(|place| begins[usize::from(bytes[place.start]) + 1] += 1);
        (0..256).for_each(|byte| begins[byte + 1] += begins[byte]);
        forms
    }

    /// Those that begin with a byte, the longest first.
    pub(super) fn beginning_with(&self, byte: u8) -> impl Iterator<Item = &[u8]> {
        let byte = usize::from(byte);
        let places = &self.places[self.begins[byte]..self.begins[byte + 1]];
        places.iter().map(|place| &self.bytes[place.clone()])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()])
    }

    fn add_all(&mut self, secret: &[u8]) {
        let first = self.places.len();
        self.add(first, |out| out.extend_from_slice(secret));
        // As forms write spaces; what else they write otherwise is escaped.
        self.add(first, |out| out.extend(secret.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte })));
        (0..3).for_each(|offset| self.add_base64(first, secret, offset));
        for digits in [LOWER, UPPER] {
            self.add(first, |out| out.extend(secret.iter().flat_map(|byte| hex(*byte, digits))));
        }
    }

    /// Adds a form, unless it is among those from `first` on or too short to be looked for.
    fn add(&mut self, first: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let form = &self.bytes[start..];
        let is_known = self.iter().skip(first).any(|other| other == form);
        match form.len() < SHORTEST || is_known {
            true => self.bytes.truncate(start),
            false => self.places.push(start..self.bytes.len()),
        }
    }

    /// The letters of a secret that stands so many bytes behind a border between groups of three, in both alphabets.
    fn add_base64(&mut self, first_form: usize, secret: &[u8], offset: usize) {
        let bits = (offset + secret.len()) * 8;
        let mut all = Zeroizing::new(Vec::with_capacity(bits / 6 + 3));
        let (mut left, mut count) = (0_u16, 0);
        for byte in [0, 0][..offset].iter().chain(secret).chain(&[0, 0]) {
            (left, count) = (left << 8 | u16::from(*byte), count + 8);
            while count >= 6 {
                count -= 6;
                all.push(STANDARD[usize::from(left >> count & 63)]);
            }
        }
        // The first letter that has no bit of what stands before, and one behind the last that has none of what follows.
        let first = (offset * 8).div_ceil(6);
        for end in [bits / 6, bits.div_ceil(6)] {
            let letters = &all[first.min(end)..end];
            self.add(first_form, |out| out.extend_from_slice(letters));
            if letters.iter().any(|letter| b"+/".contains(letter)) {
                self.add(first_form, |out| out.extend(letters.iter().copied().map(url_safe)));
            }
        }
    }
}

/// What the forms of a secret have together, or less.
fn most_bytes(secret: &[u8]) -> usize {
    let letters = 12 * ((secret.len() + 2) * 4 / 3 + 3);
    secret.len() * (2 + 2 * 2) + letters
}

fn url_safe(letter: u8) -> u8 {
    match letter {
        b'+' => b'-',
        b'/' => b'_',
        letter => letter,
    }
}

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}
