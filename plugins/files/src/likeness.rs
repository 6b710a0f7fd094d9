//! How alike two short texts are, and the line of a file that is most like another.
//!
//! Counts the pairs of neighbouring bytes that both have (Dice's coefficient). Unlike an edit distance it takes one pass
//! over each text, so that the nearest line of a large file costs little.

/// Less than this is no likeness that helps.
pub const SOMEWHAT_ALIKE: f32 = 0.5;

/// Pairs fall into this many classes. Enough to tell lines apart.
const CLASSES: usize = 1024;

/// Longer texts are compared by their beginnings.
const MAX_BYTES: usize = 500;

/// Compares texts with one that is wanted.
pub struct Likeness {
    wanted: [u16; CLASSES],
    pairs: usize,
    touched: Vec<usize>,
}

impl Likeness {
    pub fn to(wanted: &[u8]) -> Self {
        let mut likeness = Self { wanted: [0; CLASSES], pairs: 0, touched: Vec::new() };
        for class in classes(wanted) {
            likeness.wanted[class] += 1;
            likeness.pairs += 1;
        }
        likeness
    }

    /// From 0 for nothing in common to 1 for the same.
    pub fn of(&mut self, text: &[u8]) -> f32 {
        let (mut pairs, mut common) = (0_u16, 0_u16);
        for class in classes(text) {
            pairs += 1;
            if let Some(left) = self.wanted[class].checked_sub(1) {
                self.wanted[class] = left;
                self.touched.push(class);
                common += 1;
            }
        }
        for class in self.touched.drain(..) {
            self.wanted[class] += 1;
        }
        let all = self.pairs + usize::from(pairs);
        #[expect(clippy::cast_precision_loss, reason = "no more than a thousand pairs")]
        if all == 0 { 0.0 } else { 2.0 * f32::from(common) / all as f32 }
    }
}

/// The pairs of a text. A mark before and after it makes pairs of its ends too.
fn classes(text: &[u8]) -> impl Iterator<Item = usize> {
    let text = &text[..text.len().min(MAX_BYTES)];
    let ends = if text.is_empty() { 0 } else { text.len() + 1 };
    (0..ends).map(|at| {
        let first = if at == 0 { 0 } else { text[at - 1] };
        let second = text.get(at).copied().unwrap_or(0);
        (usize::from(first) * 37 + usize::from(second)) % CLASSES
    })
}

/// The line of a text that is most like the one that is wanted, with its number.
pub fn nearest_line<'t>(text: &'t str, wanted: &str) -> Option<(usize, &'t str)> {
    let mut likeness = Likeness::to(wanted.trim().as_bytes());
    let mut best = (SOMEWHAT_ALIKE, None);
    for (index, line) in text.lines().enumerate() {
        let score = likeness.of(line.trim().as_bytes());
        if score > best.0 {
            best = (score, Some((index + 1, line)));
        }
    }
    best.1
}
