//! The forms in which a secret comes back: as it is, and as common encoders write it.
//!
//! Base64 is the one that has no beginning: the same bytes look otherwise at each of three offsets, and the first and
//! the last letter also depend on what stands beside them. So each offset gives two forms: the letters that depend on the
//! secret alone, and the same with the last letter as it is where the secret ends the data.

use zeroize::Zeroizing;

use crate::secret::Secret;

/// Shorter forms are not looked for: they would blank ordinary text. A secret that short is no secret.
pub(super) const SHORTEST: usize = 6;

type Bytes = Zeroizing<Vec<u8>>;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Every form of every secret once, the longest first.
pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Vec<Bytes> {
    let mut forms = Vec::new();
    for secret in secrets {
        let secret = secret.expose();
        forms.push(Bytes::new(secret.to_vec()));
        for alphabet in [STANDARD, URL_SAFE] {
            (0..3).for_each(|offset| forms.extend(base64(secret, offset, alphabet)));
        }
        for digits in [LOWER, UPPER] {
            forms.push(each(secret, |byte, out| out.extend(hex(byte, digits))));
            forms.extend(url_encoded(secret, digits));
            forms.extend(json_escaped(secret, digits));
        }
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
    forms.dedup();
    forms
}

fn each(secret: &[u8], write: impl Fn(u8, &mut Vec<u8>)) -> Bytes {
    // Room for the widest form of a byte, so that no smaller copy is left behind unwiped.
    let mut form = Bytes::new(Vec::with_capacity(secret.len() * 6));
    secret.iter().for_each(|byte| write(*byte, &mut form));
    form
}

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// As in a URL: what must be encoded, what a careful encoder does, a form's spaces, and everything.
fn url_encoded(secret: &[u8], digits: &'static [u8; 16]) -> [Bytes; 4] {
    let escape = |byte, out: &mut Vec<u8>| {
        out.push(b'%');
        out.extend(hex(byte, digits));
    };
    let kept = |marks: &'static [u8], space_as_plus: bool| {
        each(secret, move |byte, out| match byte {
            b' ' if space_as_plus => out.push(b'+'),
            byte if byte.is_ascii_alphanumeric() || marks.contains(&byte) => out.push(byte),
            byte => escape(byte, out),
        })
    };
    [kept(b"-._~", false), kept(b"-._~!*'()", false), kept(b"-._*", true), each(secret, escape)]
}

/// As in a JSON string: the short escapes, with and without one for `/`, and everything that is no letter as `\u`.
fn json_escaped(secret: &[u8], digits: &'static [u8; 16]) -> [Bytes; 3] {
    let unicode = |byte, out: &mut Vec<u8>| {
        out.extend(b"\\u00");
        out.extend(hex(byte, digits));
    };
    let short = |escapes_slash: bool| {
        each(secret, move |byte, out| match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'/' if escapes_slash => out.extend(b"\\/"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            byte if byte < 0x20 => unicode(byte, out),
            byte => out.push(byte),
        })
    };
    // As some encoders write what could end a script: `<`, `>`, `&`, `'`, `+`, `=`.
    let careful = each(secret, |byte, out| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~/:, ".contains(&byte) || byte >= 0x80 => out.push(byte),
        byte => unicode(byte, out),
    });
    [short(false), short(true), careful]
}

/// The letters of a secret that stands so many bytes behind a border between groups of three.
fn base64(secret: &[u8], offset: usize, alphabet: &[u8; 64]) -> [Bytes; 2] {
    let mut bits = Zeroizing::new(vec![0; offset]);
    bits.reserve_exact(secret.len() + 2);
    bits.extend_from_slice(secret);
    let used = bits.len() * 8;
    bits.extend([0, 0]);
    let letter = |at: usize| {
        let (byte, bit) = (at * 6 / 8, at * 6 % 8);
        let pair = u16::from(bits[byte]) << 8 | u16::from(bits.get(byte + 1).copied().unwrap_or(0));
        alphabet[usize::from((pair >> (10 - bit)) & 63)]
    };
    // The first letter that has no bit of what stands before, and one behind the last that has none of what follows.
    let first = (offset * 8).div_ceil(6);
    let letters = |end: usize| Bytes::new((first..end).map(letter).collect());
    [letters(used / 6), letters(used.div_ceil(6))]
}
