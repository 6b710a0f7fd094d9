//! The encoded forms in which a secret can come back: plain, form-encoded, hexadecimal and Base64.
//!
//! Base64 has no fixed form: the encoding differs at each of three offsets, and the first and last letters also depend
//! on the adjacent bytes. So each offset gives two forms: the letters that depend on the secret alone, and the same
//! plus the last letter for a secret at the end of the data.

use std::cmp::Reverse;
use std::ops::Range;

use zeroize::Zeroizing;

use crate::secret::Secret;

/// Minimum length of a form, in bytes: shorter ones would mask ordinary text. A shorter value is not treated as a
/// secret.
pub const SHORTEST: usize = 6;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// The distinct forms of some secrets, sorted by first byte and then by length, longest first.
pub(super) struct Forms {
    /// The forms, concatenated. INVARIANT: never reallocated, so that no unwiped copy is left behind.
    bytes: Zeroizing<Vec<u8>>,
    places: Vec<Range<usize>>,
    /// Index of the first of `places` for each first byte; the last entry is the end.
    begins: Box<[usize; 257]>,
}

impl Forms {
    pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a Secret> + Clone) -> Self {
        let most = secrets.clone().map(|secret| max_form_bytes(secret.expose())).sum();
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

    /// The forms that begin with a byte, longest first.
    pub(super) fn starting_with(&self, byte: u8) -> impl Iterator<Item = &[u8]> {
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
        // Form encoding writes spaces as `+`; its other escapes are undone before the search.
        self.add(first, |out| out.extend(secret.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte })));
        (0..3).for_each(|offset| self.add_base64(first, secret, offset));
        for digits in [LOWER, UPPER] {
            self.add(first, |out| out.extend(secret.iter().flat_map(|byte| hex(*byte, digits))));
        }
    }

    /// Adds a form, unless it is a duplicate of one from `first` on or too short.
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

    /// Adds the Base64 letters of a secret at this offset within a group of three, in both alphabets.
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
        // The first letter without bits of the byte before, and the end of those without bits of the byte after.
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

/// Upper bound of the length of all forms of a secret.
fn max_form_bytes(secret: &[u8]) -> usize {
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
