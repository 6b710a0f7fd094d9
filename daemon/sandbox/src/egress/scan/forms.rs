//! The forms in which a secret comes back: as it is, and as common encoders write it.
//!
//! Base64 is the one that has no beginning: the same bytes look otherwise at each of three offsets, and the first and
//! the last letter also depend on what stands beside them. So each offset gives two forms: the letters that depend on the
//! secret alone, and the same with the last letter as it is where the secret ends the data.

use std::cmp::Reverse;

use zeroize::Zeroizing;

use crate::secret::Secret;

/// Shorter forms are not looked for: they would blank ordinary text. A secret that short is no secret.
pub(super) const SHORTEST: usize = 6;

type Bytes = Zeroizing<Vec<u8>>;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// What no encoder writes otherwise, unless it writes every byte otherwise. Common tokens have nothing else.
const PLAIN: &[u8] = b"-._";

/// How one byte is written: at most six bytes, and how many.
type Written = ([u8; 6], usize);

/// Every form of every secret once, the longest first.
pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Vec<Bytes> {
    let mut forms = Forms(Vec::new());
    for secret in secrets {
        forms.add_all(secret.expose());
    }
    let Forms(mut forms) = forms;
    forms.sort_unstable_by_key(|form| Reverse(form.len()));
    forms
}

/// Those that were found, each once.
struct Forms(Vec<Bytes>);

impl Forms {
    fn add_all(&mut self, secret: &[u8]) {
        self.add(Bytes::new(secret.to_vec()));
        (0..3).for_each(|offset| self.add_base64(secret, offset));
        for digits in [LOWER, UPPER] {
            self.add_each(secret, |byte| written(&hex(byte, digits)));
            self.add_each(secret, |byte| percent(byte, digits));
        }
        if secret.iter().all(|byte| is_kept(*byte, PLAIN)) {
            return;
        }
        for digits in [LOWER, UPPER] {
            self.add_url_encoded(secret, digits);
            self.add_json_escaped(secret, digits);
        }
    }

    fn add(&mut self, form: Bytes) {
        if form.len() >= SHORTEST && !self.0.contains(&form) {
            self.0.push(form);
        }
    }

    /// The secret with each byte written in some way. Sized before it is written, so that no smaller copy is left behind
    /// unwiped and nothing beyond it has to be wiped.
    fn add_each(&mut self, secret: &[u8], write: impl Fn(u8) -> Written) {
        let length = secret.iter().map(|byte| write(*byte).1).sum();
        let mut form = Bytes::new(Vec::with_capacity(length));
        for byte in secret {
            let (written, length) = write(*byte);
            form.extend_from_slice(&written[..length]);
        }
        self.add(form);
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
        let mut all = Bytes::new(Vec::with_capacity(bits / 6 + 3));
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
            let letters = &all[first..end];
            self.add(Bytes::new(letters.to_vec()));
            if letters.iter().any(|letter| b"+/".contains(letter)) {
                self.add(url_safe(letters));
            }
        }
    }
}

fn url_safe(letters: &[u8]) -> Bytes {
    let other = |letter: &u8| match letter {
        b'+' => b'-',
        b'/' => b'_',
        letter => *letter,
    };
    Bytes::new(letters.iter().map(other).collect())
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
