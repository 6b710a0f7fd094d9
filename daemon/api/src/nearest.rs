//! "Did you mean": the known word nearest to an unknown one.
//!
//! The distance is the optimal string alignment distance (insertions, deletions, substitutions, transpositions) without
//! regard to ASCII case. The search stops at a cut-off that grows with the word: a far-fetched suggestion is worse than
//! none, and the work per candidate stays proportional to the word's length.

/// Longer words are not corrected: no name in this system is longer.
const WORD_BYTES: usize = 128;

/// One letter in three may differ.
const LETTERS_PER_MISTAKE: usize = 3;

/// Returns the word of `among` nearest to `word`, if one is near enough; the first among equals.
pub fn nearest<'a>(word: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_BYTES {
        return None;
    }
    let mut best: Option<&str> = None;
    let mut allowed = cut_off(word);
    for candidate in among {
        let Some(distance) = distance_within(word, candidate, allowed) else { continue };
        // One difference between words of one or two letters makes another word.
        if distance * LETTERS_PER_MISTAKE > word.len().max(candidate.len()) {
            continue;
        }
        best = Some(candidate);
        if distance == 0 {
            break;
        }
        // Only a strictly nearer word replaces this one.
        allowed = distance - 1;
    }
    best
}

/// Largest accepted distance for a word of this length.
fn cut_off(word: &str) -> usize {
    (word.len() / LETTERS_PER_MISTAKE).clamp(1, 5)
}

/// The optimal string alignment distance, or `None` if it exceeds `allowed`.
fn distance_within(left: &str, right: &str, allowed: usize) -> Option<usize> {
    if right.len() > WORD_BYTES || left.len().abs_diff(right.len()) > allowed {
        return None;
    }
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let width = right.len() + 1;
    let mut before = [0_usize; WORD_BYTES + 1];
    let mut above = [0_usize; WORD_BYTES + 1];
    let mut row = [0_usize; WORD_BYTES + 1];
    for (column, cell) in above.iter_mut().enumerate().take(width) {
        *cell = column;
    }
    for (line, letter) in left.iter().enumerate() {
        row[0] = line + 1;
        let mut least = row[0];
        for (column, other) in right.iter().enumerate() {
            let same = letter.eq_ignore_ascii_case(other);
            let mut cost =
                (above[column] + usize::from(!same)).min(above[column + 1] + 1).min(row[column] + 1);
            if line > 0 && column > 0 && letter == &right[column - 1] && &left[line - 1] == other {
                cost = cost.min(before[column - 1] + 1);
            }
            row[column + 1] = cost;
            least = least.min(cost);
        }
        if least > allowed {
            return None;
        }
        (before, above, row) = (above, row, before);
    }
    Some(above[right.len()]).filter(|distance| *distance <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_the_one_that_was_meant() {
        let known = ["fuel", "deadline_ms", "memory_bytes"];
        assert_eq!(nearest("deadline_sm", known.into_iter()), Some("deadline_ms"));
        assert_eq!(nearest("memroy_bytes", known.into_iter()), Some("memory_bytes"));
        assert_eq!(nearest("feul", known.into_iter()), Some("fuel"));
    }

    #[test]
    fn a_word_that_is_like_none_finds_none() {
        assert_eq!(nearest("xyzzy", ["fuel", "deadline_ms"].into_iter()), None);
    }

    #[test]
    fn a_word_of_a_letter_or_two_finds_only_what_has_most_of_it() {
        assert_eq!(nearest("x", ["a", "xy", "abc"].into_iter()), None);
        assert_eq!(nearest("ix", ["id"].into_iter()), None);
        assert_eq!(nearest("ul", ["id", "url"].into_iter()), Some("url"));
        assert_eq!(nearest("X", ["a", "x"].into_iter()), Some("x"));
    }

    #[test]
    fn case_is_no_difference() {
        assert_eq!(nearest("FUEL", ["fuel"].into_iter()), Some("fuel"));
    }

    #[test]
    fn of_two_equally_near_the_first_is_taken() {
        assert_eq!(nearest("cat", ["bat", "hat"].into_iter()), Some("bat"));
    }

    #[test]
    fn a_word_longer_than_any_name_is_not_looked_up() {
        let long = "a".repeat(WORD_BYTES + 1);
        assert_eq!(nearest(&long, [long.as_str()].into_iter()), None);
        assert_eq!(nearest("a", [long.as_str(), "a"].into_iter()), Some("a"));
    }

    #[test]
    fn the_distance_counts_each_kind_of_slip_once() {
        for (left, right) in
            [("path", "pth"), ("path", "paath"), ("path", "bath"), ("path", "apth"), ("é", "e")]
        {
            let most = distance_within(left, right, 2).expect("within two");
            assert!((1..=2).contains(&most), "{left} {right} {most}");
        }
        assert_eq!(distance_within("path", "path", 0), Some(0));
    }
}
