//! The known word that a misspelt one probably is.

/// Longer words are not corrected: no field is longer, and the work grows with the square.
const WORD_CHARS: usize = 64;

/// The nearest of some words, if one is near: about one letter in three may be wrong.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.len() / 3).clamp(1, 4);
    let near = known.map(|known| (distance(word, known), known)).filter(|(distance, _)| *distance <= allowed);
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Letters that have to be added, dropped, changed or swapped with their neighbour, without regard to ASCII case.
fn distance(left: &str, right: &str) -> usize {
    let letters = |word: &str| word.to_ascii_lowercase().chars().take(WORD_CHARS + 1).collect::<Vec<_>>();
    let (left, right) = (letters(left), letters(right));
    if left.len().max(right.len()) > WORD_CHARS {
        return usize::MAX;
    }
    let first_row: Vec<usize> = (0..=right.len()).collect();
    let (mut above, mut row) = (Vec::new(), first_row);
    for (line, letter) in left.iter().enumerate() {
        let mut next = vec![line + 1];
        for (column, other) in right.iter().enumerate() {
            let changed = row[column] + usize::from(letter != other);
            let mut cost = changed.min(next[column] + 1).min(row[column + 1] + 1);
            if line > 0 && column > 0 && letter == &right[column - 1] && &left[line - 1] == other {
                cost = cost.min(above[column - 1] + 1);
            }
            next.push(cost);
        }
        (above, row) = (row, next);
    }
    row[right.len()]
}
