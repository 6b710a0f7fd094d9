//! How much of an answer is left to fill.

/// The limit of a result is 1 MiB. Half of it is more than a reader wants.
const MAX_ANSWER_BYTES: usize = 512 * 1024;

/// Bytes of a list's entry beside its texts: names of fields, numbers, braces.
const FRAME_BYTES: usize = 96;

/// The bytes that are left in one answer.
pub struct OutputBudget {
    left: usize,
}

impl OutputBudget {
    pub fn of_an_answer() -> Self {
        Self { left: MAX_ANSWER_BYTES }
    }

    /// Takes the bytes of an entry with these texts. Gives false when there is not enough left.
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
    let bytes = text.bytes();
    bytes.map(|byte| if byte < 32 { 6 } else { 1 + usize::from(matches!(byte, b'"' | b'\\')) }).sum()
}

/// The beginning of a line, so much that a reader knows it, on one line. What cannot be seen is written out, for it may be
/// all that two lines differ in.
pub fn shorten(line: &str, characters: usize) -> String {
    let mut shown = String::new();
    let mut letters = line.chars();
    for letter in letters.by_ref().take(characters) {
        match letter {
            '"' | '\'' | '\\' => shown.push(letter),
            letter => shown.extend(letter.escape_debug()),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}
