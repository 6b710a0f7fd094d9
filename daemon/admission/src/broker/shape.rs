//! Recognizes words by their shape: email addresses, links, amounts, times, dates, file names and names.
//!
//! `dana@example.org` is in no dictionary, and yet the message is about a person who can be written to. The table of
//! synonyms has an entry for each shape.

/// Returns the words of a message that have a shape, with its name in the table of synonyms.
pub(super) fn shapes(message: &str) -> impl Iterator<Item = (&str, &'static str)> {
    let mut starts_sentence = true;
    message.split_whitespace().filter_map(move |word| {
        let inner = word.trim_matches(|letter: char| ".,;:!?()\"'".contains(letter));
        let shape = shape(inner).or_else(|| (!starts_sentence && is_name(inner)).then_some("@name"));
        starts_sentence = word.ends_with(['.', '!', '?', ':']);
        Some((inner, shape?))
    })
}

fn shape(word: &str) -> Option<&'static str> {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let has = |mark: char| word.contains(mark);
    let only = |letters: &str| word.chars().all(|letter| letter.is_ascii_digit() || letters.contains(letter));
    match digits {
        _ if has('@') && has('.') => Some("@email"),
        _ if word.starts_with("http") || word.starts_with("www.") => Some("@link"),
        0 => is_file(word).then_some("@file"),
        _ if has('$') || has('€') || has('£') => Some("@money"),
        _ if has('%') => Some("@percent"),
        _ if is_price(word) => Some("@money"),
        _ if is_time(word) => Some("@time"),
        _ if is_date(word) => Some("@date"),
        7.. if only("+-/.()") => Some("@phone"),
        _ if digits < 3 && ["st", "nd", "rd", "th"].iter().any(|ending| word.ends_with(ending)) => {
            Some("@date")
        }
        _ => is_file(word).then_some("@file"),
    }
}

fn is_time(word: &str) -> bool {
    let number = ["am", "pm", "AM", "PM", "h"].iter().find_map(|ending| word.strip_suffix(ending));
    let is_number = |text: &str| text.chars().all(|letter| letter.is_ascii_digit() || ":.".contains(letter));
    number.is_some_and(is_number) || word.contains(':') && is_number(word)
}

/// `14.90`, with two decimal places.
fn is_price(word: &str) -> bool {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once(['.', ','])
        .is_some_and(|(whole, cents)| cents.len() == 2 && is_number(whole) && is_number(cents))
}

/// `5/12`, `12.5.2026` or `2026-05-12`.
fn is_date(word: &str) -> bool {
    let is_of = |mark: char, least: usize| {
        let parts = || word.split(mark);
        let is_number =
            |part: &str| matches!(part.len(), 1 | 2 | 4) && part.bytes().all(|byte| byte.is_ascii_digit());
        (least..=3).contains(&parts().count()) && parts().all(is_number)
    };
    is_of('/', 2) || is_of('-', 3) || is_of('.', 3)
}

fn is_file(word: &str) -> bool {
    let ending = word.rsplit_once('.').filter(|(name, _)| !name.is_empty()).map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        (2..=4).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A capital letter within a sentence. `I` and abbreviations are no names.
fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_uppercase) && letters.next().is_some_and(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &str) -> Vec<&'static str> {
        shapes(message).map(|(_, shape)| shape).collect()
    }

    #[test]
    fn a_shape_is_recognized() {
        for (word, shape) in [
            ("dana@example.org", "@email"),
            ("https://example.org/a", "@link"),
            ("report.pdf", "@file"),
            ("$40", "@money"),
            ("14.90", "@money"),
            ("20%", "@percent"),
            ("555-010-4242", "@phone"),
            ("10:30", "@time"),
            ("3pm", "@time"),
            ("2026-05-01", "@date"),
            ("5/12", "@date"),
            ("1st", "@date"),
        ] {
            assert_eq!(of(word), [shape], "{word}");
            assert_eq!(of(&format!("about ({word}).")), [shape], "{word}");
        }
    }

    #[test]
    fn a_name_is_a_capital_within_a_sentence() {
        assert_eq!(of("Please ask Dana. She knows, and I do too"), ["@name"]);
        assert!(of("please ask dana 7").is_empty());
    }
}
