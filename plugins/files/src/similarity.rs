//! How alike two short texts are, and the line of a file that is most like another.
//!
//! Counts the pairs of neighbouring bytes that both have (Dice's coefficient). Unlike an edit distance it takes one pass
//! over each text, so that the nearest line of a large file costs little. `strsim` has the same with a hash map for each
//! text.

/// Less than this is no likeness that helps.
pub const SOMEWHAT_ALIKE: f32 = 0.5;

/// Pairs fall into this many classes. Enough to tell lines apart.
const CLASSES: usize = 1024;

/// Longer texts are compared by their beginnings.
const MAX_BYTES: usize = 500;

/// How much of a large file is looked at for what may have been meant, so that fuel is left to tell it.
pub const MAX_LOOKED_AT_BYTES: usize = 1024 * 1024;

/// Compares texts with one that is wanted.
pub struct Similarity {
    /// How often each class is wanted, less how often the text at hand has it.
    wanted: [i16; CLASSES],
    pairs: u16,
}

impl Similarity {
    pub fn to(wanted: &str) -> Self {
        let mut likeness = Self { wanted: [0; CLASSES], pairs: 0 };
        for class in classes(wanted) {
            likeness.wanted[class] += 1;
            likeness.pairs += 1;
        }
        likeness
    }

    /// From 0 for nothing in common to 1 for the same.
    pub fn of(&mut self, text: &str) -> f32 {
        let (mut pairs, mut common) = (self.pairs, 0_u16);
        for class in classes(text) {
            pairs += 1;
            common += u16::from(self.wanted[class] > 0);
            self.wanted[class] -= 1;
        }
        // Taken back, since a copy of all classes for each line of a large file takes all fuel of a call.
        for class in classes(text) {
            self.wanted[class] += 1;
        }
        2.0 * f32::from(common) / f32::from(pairs.max(1))
    }
}

/// The pairs of a text. A mark before and after it makes pairs of its ends too.
fn classes(text: &str) -> impl Iterator<Item = usize> {
    let text = &text.as_bytes()[..text.len().min(MAX_BYTES)];
    let ends = if text.is_empty() { 0 } else { text.len() + 1 };
    (0..ends).map(|at| {
        let first = if at == 0 { 0 } else { text[at - 1] };
        let second = text.get(at).copied().unwrap_or(0);
        (usize::from(first) * 37 + usize::from(second)) % CLASSES
    })
}

/// The line that is most like the one that is wanted, with its index.
pub fn nearest_line<'t>(lines: impl Iterator<Item = &'t str>, wanted: &str) -> Option<(usize, &'t str)> {
    let mut likeness = Similarity::to(wanted.trim());
    let mut best = (SOMEWHAT_ALIKE, None);
    let mut left = MAX_LOOKED_AT_BYTES;
    for (index, line) in lines.enumerate() {
        left = left.saturating_sub(line.len() + 1);
        if left == 0 {
            break;
        }
        let score = likeness.of(line.trim());
        if score > best.0 {
            best = (score, Some((index, line)));
        }
    }
    best.1
}

/// Says in what a line of a file differs from the one that is wanted, where it is what models get wrong.
pub fn slip(line: &str, wanted: &str) -> Option<&'static str> {
    let without_number = without_number(wanted).unwrap_or(wanted);
    if line.trim_end_matches('\r') == wanted.trim_end_matches('\r') {
        Some("only their ends differ, `\\n` and `\\r\\n`; end each line as the file does")
    } else if line.trim_end() == wanted.trim_end() {
        Some("only spaces at the end differ")
    } else if line.split_whitespace().eq(wanted.split_whitespace()) {
        Some("only spaces or tabs differ")
    } else if fold_look_alikes(line).trim() == fold_look_alikes(wanted).trim() {
        Some("only signs that look alike differ, such as curly quotes or a no-break space")
    } else if line.split_whitespace().eq(without_number.split_whitespace()) {
        Some("the number before it is no part of the file; leave it out")
    } else {
        None
    }
}

/// A line without the number that tools write before it, as in `12: text`, `12\ttext` and `12→text`.
pub fn without_number(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|sign: char| sign.is_ascii_digit());
    if rest.len() == line.len() {
        return None;
    }
    rest.trim_start_matches(' ').strip_prefix([':', '\t', '|', '→'])
}

/// A text with one sign for all that look alike: quotes, dashes, spaces, wide forms, and letters with accents, which are one
/// character or two (NFC, NFD). Spaces and tabs in a row are one space, and signs without a width are left out.
pub fn fold_look_alikes(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let has_accent = signs.next_if(is_accent).is_some();
        while signs.next_if(is_accent).is_some() {}
        match sign {
            '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => folded.push(ACCENTED),
            _ if has_accent => folded.push(ACCENTED),
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => {}
            '`' | '´' | '‘'..='‛' | '′' | 'ʼ' => folded.push('\''),
            '“'..='‟' | '″' | '«' | '»' => folded.push('"'),
            '‐'..='―' | '−' => folded.push('-'),
            ' ' | '\t' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
                folded.push_str(if folded.ends_with(' ') { "" } else { " " });
            }
            '…' => folded.push_str("..."),
            '！'..='～' => folded.extend(char::from_u32(u32::from(sign) - WIDE_OFFSET)),
            _ => folded.push(sign),
        }
    }
    folded
}

/// Stands for any letter with an accent.
const ACCENTED: char = '\u{fffd}';

/// How far the wide forms of ASCII are from ASCII.
const WIDE_OFFSET: u32 = 0xfee0;

fn is_accent(sign: &char) -> bool {
    matches!(sign, '\u{300}'..='\u{36f}')
}
