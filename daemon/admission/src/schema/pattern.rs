//! Estimates the number of states of a compiled regular expression, with little or no underestimation.
//!
//! The engine takes time linear in the text, times the number of states of the pattern, and a pattern of ten characters can
//! have ten thousand (`(a{100}){100}`). The factor has to be known before a text is validated. Repetition makes it grow, so
//! this counts repetition; the engine reports invalid patterns.

/// States of a Unicode character class.
const CLASS_STATES: u64 = 16;

/// Returns the approximate number of states of a pattern.
pub(super) fn states(pattern: &str) -> u64 {
    let mut counter = Counter { groups: vec![Group::default()] };
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let escaped = letters.next();
                let is_class = matches!(escaped, Some('p' | 'P'));
                if matches!(escaped, Some('p' | 'P' | 'u' | 'x')) && letters.peek() == Some(&'{') {
                    skip_past(&mut letters, '}');
                }
                counter.atom(if is_class { CLASS_STATES } else { 1 });
            }
            '[' => {
                skip_past(&mut letters, ']');
                counter.atom(CLASS_STATES / 4);
            }
            '(' => counter.groups.push(Group::default()),
            ')' => counter.close(),
            '{' => {
                let times = repetition(&mut letters);
                counter.repeat(times);
            }
            '*' | '+' | '?' | '|' | '^' | '$' => counter.add(1),
            letter => counter.atom(letter.len_utf8() as u64),
        }
    }
    while counter.groups.len() > 1 {
        counter.close();
    }
    counter.groups.first().map_or(1, |group| group.states.max(1))
}

#[derive(Default)]
struct Group {
    states: u64,
    /// States of the last atom, which a repetition would repeat; `states` includes them.
    last: u64,
}

struct Counter {
    /// INVARIANT: never empty.
    groups: Vec<Group>,
}

impl Counter {
    fn atom(&mut self, states: u64) {
        self.add(states);
        if let Some(group) = self.groups.last_mut() {
            group.last = states;
        }
    }

    fn add(&mut self, states: u64) {
        if let Some(group) = self.groups.last_mut() {
            group.states = group.states.saturating_add(states);
        }
    }

    fn repeat(&mut self, times: u64) {
        if let Some(group) = self.groups.last_mut() {
            let more = group.last.saturating_mul(times.saturating_sub(1));
            group.states = group.states.saturating_add(more);
            group.last = group.last.saturating_add(more);
        }
    }

    fn close(&mut self) {
        if self.groups.len() > 1
            && let Some(group) = self.groups.pop()
        {
            self.atom(group.states);
        }
    }
}

fn skip_past(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, end: char) {
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            letter if letter == end => return,
            _ => {}
        }
    }
}

/// Parses the larger number of `{2}`, `{2,}` or `{2,5}`, after the opening brace.
fn repetition(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> u64 {
    let (mut most, mut number) = (1_u64, 0_u64);
    while let Some(letter) = letters.next_if(|letter| letter.is_ascii_digit() || *letter == ',') {
        match letter.to_digit(10) {
            Some(digit) => number = number.saturating_mul(10).saturating_add(u64::from(digit)),
            None => number = 0,
        }
        most = most.max(number);
    }
    letters.next_if_eq(&'}');
    most
}

#[cfg(test)]
mod tests {
    use super::states;

    #[test]
    fn a_plain_pattern_has_about_a_state_a_letter() {
        assert_eq!(states("abc"), 3);
        assert!((3..10).contains(&states("^a+b$")));
        assert!(states(r"^\d{4}-\d{2}-\d{2}$") < 20);
    }

    #[test]
    fn repetition_multiplies_also_when_it_is_nested() {
        assert_eq!(states("a{100}"), 100);
        assert_eq!(states("(ab){2,50}"), 100);
        assert_eq!(states("(a{100}){100}"), 10_000);
        assert_eq!(states("((a{9}){9,}){9}"), 729);
    }

    #[test]
    fn a_brace_of_a_class_or_an_escape_is_no_repetition() {
        assert!(states(r"\p{L}") < 20);
        assert!(states(r"[{100}]") < 20);
        assert_eq!(states(r"a\{100}"), 6);
    }

    #[test]
    fn a_malformed_pattern_has_a_count() {
        for pattern in
            ["", ")", "((((", "{", "a{", "a{,", "[", "\\", "a{99999999999999999999}{9999999999}", "]}"]
        {
            assert!(states(pattern) >= 1, "{pattern}");
        }
    }
}
