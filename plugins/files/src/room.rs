//! How much of an answer is left to fill.

/// The limit of a result is 1 MiB. Half of it is more than a reader wants.
const MAX_ANSWER_BYTES: usize = 512 * 1024;

/// What an entry of a list needs beside its texts: names of fields, numbers, braces.
const FRAME_BYTES: usize = 96;

/// The room of one answer.
pub struct Room {
    left: usize,
}

impl Room {
    pub fn of_an_answer() -> Self {
        Self { left: MAX_ANSWER_BYTES }
    }

    /// Takes room for an entry with these texts. Gives false when there is not enough left.
    pub fn take(&mut self, texts: &[&str]) -> bool {
        let needed = FRAME_BYTES + texts.iter().map(|text| json_bytes(text)).sum::<usize>();
        let fits = needed <= self.left;
        if fits {
            self.left -= needed;
        }
        fits
    }
}

/// How long a text is as JSON, where a control character is six bytes.
fn json_bytes(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            0..=31 => 6,
            b'"' | b'\\' => 2,
            _ => 1,
        })
        .sum()
}

/// The beginning of a line, so much that a reader knows it. What cannot be seen is written out, for it may be all that
/// two lines differ in.
pub fn shorten(line: &str, characters: usize) -> String {
    let mut shown = String::new();
    let mut letters = line.chars();
    for letter in letters.by_ref().take(characters) {
        match letter {
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            letter if is_unseen(letter) => shown.extend(letter.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Whether a character is none that a reader can see, or a space that is not the usual one.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || (letter.is_whitespace() && letter != ' ')
        || matches!(letter,
            // Soft hyphen, grapheme joiner, fillers of Hangul, vowels of Khmer, separators of Mongolian.
            '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{ffa0}'
            // Zero-width characters, marks and overrides of the direction, invisible operators, the byte order mark.
            | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            // Annotations and tags. The common variation selector belongs to symbols.
            | '\u{fe00}'..='\u{fe0e}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
