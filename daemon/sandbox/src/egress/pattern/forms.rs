//! The forms in which a secret comes back: as it is, and as common encoders write it.
//!
//! Base64 is the one that has no beginning: the same bytes look otherwise at each of three offsets, and the first and
//! the last letter also depend on what stands beside them. So each offset gives two forms: the letters that depend on the
//! secret alone, and the same with the last letter as it is where the secret ends the data.

use std::cmp::Reverse;
use std::ops::Range;

use zeroize::Zeroizing;

use crate::secret::Secret;

/// Shorter forms are not looked for: they would blank ordinary text. A secret that short is no secret.
const SHORTEST: usize = 6;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// What no encoder writes otherwise, unless it writes every byte otherwise. Common tokens have nothing else.
const PLAIN: &[u8] = b"-._";

/// How one byte is written: at most six bytes, and how many.
type Written = ([u8; 6], usize);

/// Every form of some secrets once, the longest first.
pub(super) struct Forms {
    /// One behind the other. INVARIANT: never grown, so that no smaller copy is left behind unwiped.
    bytes: Zeroizing<Vec<u8>>,
    places: Vec<Range<usize>>,
}

impl Forms {
    pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a Secret> + Clone) -> Self {
        let most = secrets.clone().map(|secret| most_bytes(secret.expose())).sum();
        let mut forms =
            Self { bytes: Zeroizing::new(Vec::with_capacity(most)), places: Vec::with_capacity(32) };
        for secret in secrets {
            forms.add_all(secret.expose());
        }
        debug_assert!(forms.bytes.len() <= most, "it was grown");
        forms.places.sort_unstable_by_key(|place| Reverse(place.len()));
        forms
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()])
    }

    fn add_all(&mut self, secret: &[u8]) {
        self.add(|out| out.extend_from_slice(secret));
        (0..3).for_each(|offset| self.add_base64(secret, offset));
        for digits in [LOWER, UPPER] {
            self.add_each(secret, |byte| written(&hex(byte, digits)));
            self.add_each(secret, |byte| percent(byte, digits));
        }
        if secret.iter().all(|byte| is_plain(*byte)) {
            return;
        }
        for digits in [LOWER, UPPER] {
            self.add_url_encoded(secret, digits);
            self.add_json_escaped(secret, digits);
        }
    }

    /// Adds a form, unless it is there or too short to be looked for.
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let form = &self.bytes[start..];
        match form.len() < SHORTEST || self.iter().any(|other| other == form) {
            true => self.bytes.truncate(start),
            false => self.places.push(start..self.bytes.len()),
        }
    }

    /// The secret with each byte written in some way.
    fn add_each(&mut self, secret: &[u8], write: impl Fn(u8) -> Written) {
        self.add(|out| {
            for byte in secret {
                let (written, length) = write(*byte);
                out.extend_from_slice(&written[..length]);
            }
        });
    }

    /// As in a URL: what must be encoded, what a careful encoder does, and a form's spaces.
    fn add_url_encoded(&mut self, secret: &[u8], digits: &[u8; 16]) {
        let keeping = |marks: &'static [u8], space: &'static [u8]| {
            move |byte| match byte {
                b' ' if !space.is_empty() => written(space),
                byte if is_kept(byte, marks) => written(&[byte]),
                byte => percent(byte, digits),
            }
        };
        self.add_each(secret, keeping(b"-._~", b""));
        self.add_each(secret, keeping(b"-._~!*'()", b""));
        self.add_each(secret, keeping(b"-._*", b"+"));
    }

    /// As in a JSON string: the short escapes, with and without one for `/`, and everything that is no letter as `\u`.
    fn add_json_escaped(&mut self, secret: &[u8], digits: &[u8; 16]) {
        let unicode = |byte| {
            let [high, low] = hex(byte, digits);
            written(&[b'\\', b'u', b'0', b'0', high, low])
        };
        let short = |escapes_slash: bool| {
            move |byte| match byte {
                b'"' | b'\\' => written(&[b'\\', byte]),
                b'/' if escapes_slash => written(b"\\/"),
                b'\n' => written(b"\\n"),
                b'\r' => written(b"\\r"),
                b'\t' => written(b"\\t"),
                byte if byte < 0x20 => unicode(byte),
                byte => written(&[byte]),
            }
        };
        self.add_each(secret, short(false));
        self.add_each(secret, short(true));
        // As some encoders write what could end a script: `<`, `>`, `&`, `'`, `+`, `=`.
        self.add_each(secret, |byte| match byte {
            byte if is_kept(byte, b"-._~/:, ") || byte >= 0x80 => written(&[byte]),
            byte => unicode(byte),
        });
    }

    /// The letters of a secret that stands so many bytes behind a border between groups of three, in both alphabets.
    fn add_base64(&mut self, secret: &[u8], offset: usize) {
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
            self.add(|out| out.extend_from_slice(letters));
            if letters.iter().any(|letter| b"+/".contains(letter)) {
                self.add(|out| out.extend(letters.iter().copied().map(url_safe)));
            }
        }
    }
}

/// What the forms of a secret have together, or less.
fn most_bytes(secret: &[u8]) -> usize {
    let letters = 12 * ((secret.len() + 2) * 4 / 3 + 3);
    let special = secret.iter().filter(|byte| !is_plain(**byte)).count();
    let escaped = if special == 0 { 0 } else { 12 * secret.len() + 42 * special };
    secret.len() * (1 + 2 * 2 + 2 * 3) + letters + escaped
}

fn url_safe(letter: u8) -> u8 {
    match letter {
        b'+' => b'-',
        b'/' => b'_',
        letter => letter,
    }
}

fn is_plain(byte: u8) -> bool {
    is_kept(byte, PLAIN)
}

fn is_kept(byte: u8, marks: &[u8]) -> bool {
    byte.is_ascii_alphanumeric() || marks.contains(&byte)
}

fn written(bytes: &[u8]) -> Written {
    let mut written = [0; 6];
    written[..bytes.len()].copy_from_slice(bytes);
    (written, bytes.len())
}

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

fn percent(byte: u8, digits: &[u8; 16]) -> Written {
    let [high, low] = hex(byte, digits);
    written(&[b'%', high, low])
}
