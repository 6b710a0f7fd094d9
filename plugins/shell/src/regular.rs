//! POSIX regular expressions, basic and extended with what GNU adds, on the engines of `regex` and, for back-references,
//! `fancy-regex`. The first alternative that matches wins, not the longest.

use crate::shell::{Outcome, Stop};
use crate::wildcard::MAX_REGEX_BYTES;

/// Steps back before a pattern with back-references is given up.
const MAX_BACKTRACKS: usize = 200_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flavor {
    Basic,
    Extended,
    /// Extended, with the escapes of awk.
    Awk,
    Fixed,
    Perl,
}

#[derive(Clone)]
pub enum Regular {
    Linear(regex::bytes::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// The places of a match and its groups.
pub type Groups = Vec<Option<(usize, usize)>>;

impl Regular {
    pub fn new(pattern: &str, flavor: Flavor, ignores_case: bool) -> Outcome<Self> {
        let (translated, has_references) = match flavor {
            Flavor::Fixed => (regex::escape(pattern), false),
            Flavor::Perl => (pattern.to_owned(), true),
            _ => Translation::run(pattern, flavor),
        };
        let source = format!("(?s{}){translated}", if ignores_case { "i" } else { "" });
        let explain = |message: String| {
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let shown: String = pattern.chars().take(100).collect();
            Stop::Fail(2, format!("invalid regular expression `{shown}`: {reason}"))
        };
        if has_references {
            let built = fancy_regex::RegexBuilder::new(&source).backtrack_limit(MAX_BACKTRACKS).build();
            return built
                .map(|regex| Self::Backtracking(Box::new(regex)))
                .map_err(|error| explain(error.to_string()));
        }
        let built = regex::bytes::RegexBuilder::new(&source).size_limit(MAX_REGEX_BYTES).build();
        built.map(Self::Linear).map_err(|error| explain(error.to_string()))
    }

    pub fn is_match(&self, text: &[u8]) -> bool {
        match self {
            Self::Linear(regex) => regex.is_match(text),
            Self::Backtracking(_) => self.groups(text, 0).is_some(),
        }
    }

    /// The first match from a place on.
    pub fn find(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        match self {
            Self::Linear(regex) => regex.find_at(text, start).map(|found| (found.start(), found.end())),
            Self::Backtracking(_) => self.groups(text, start)?.first().copied().flatten(),
        }
    }

    pub fn groups(&self, text: &[u8], start: usize) -> Option<Groups> {
        match self {
            Self::Linear(regex) => {
                let found = regex.captures_at(text, start)?;
                Some(found.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect())
            }
            Self::Backtracking(regex) => {
                let text = std::str::from_utf8(text).ok()?;
                let start = (start..=text.len()).find(|index| text.is_char_boundary(*index))?;
                let found = regex.captures_from_pos(text, start).ok()??;
                Some(found.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect())
            }
        }
    }
}

/// A text as an extended expression that matches the text alone.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        if "\\.[]*^$+?{}()|".contains(sign) {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

struct Translation<'p> {
    signs: &'p [char],
    position: usize,
    flavor: Flavor,
    regex: String,
    /// Whether an expression begins here, so that `*` and `^` mean what they mean there.
    at_start: bool,
    has_references: bool,
}

impl<'p> Translation<'p> {
    fn run(pattern: &str, flavor: Flavor) -> (String, bool) {
        let signs: Vec<char> = pattern.chars().collect();
        let mut translation = Translation {
            signs: &signs,
            position: 0,
            flavor,
            regex: String::new(),
            at_start: true,
            has_references: false,
        };
        while translation.position < translation.signs.len() {
            translation.step();
        }
        (translation.regex, translation.has_references)
    }

    fn step(&mut self) {
        let sign = self.signs[self.position];
        self.position += 1;
        let was_start = std::mem::take(&mut self.at_start);
        let is_basic = self.flavor == Flavor::Basic;
        match sign {
            '\\' => self.escape(was_start),
            '[' => match class(&self.signs[self.position..], self.flavor == Flavor::Awk) {
                Some((class, length)) => {
                    self.regex.push_str(&class);
                    self.position += length;
                }
                None => self.regex.push_str("\\["),
            },
            '*' if was_start => {
                self.regex.push_str("\\*");
            }
            '^' if is_basic && !was_start => self.regex.push_str("\\^"),
            '$' if is_basic && !self.is_end() => self.regex.push_str("\\$"),
            '^' => {
                self.regex.push('^');
                self.at_start = true;
            }
            '*' | '.' | '$' => self.regex.push(sign),
            '(' | '|' if !is_basic => self.open(sign),
            ')' | '+' | '?' if !is_basic => self.regex.push(sign),
            '{' if !is_basic => self.interval(),
            _ => self.push_literal(sign),
        }
    }

    fn open(&mut self, sign: char) {
        self.regex.push(sign);
        self.at_start = true;
    }

    fn push_literal(&mut self, sign: char) {
        self.regex.push_str(&regex::escape(sign.encode_utf8(&mut [0; 4])));
    }

    /// Whether a basic expression ends here.
    fn is_end(&self) -> bool {
        matches!(self.signs[self.position..], [] | ['\\', ')' | '|', ..])
    }

    fn escape(&mut self, was_start: bool) {
        let Some(sign) = self.signs.get(self.position).copied() else { return self.regex.push_str("\\\\") };
        self.position += 1;
        let is_basic = self.flavor == Flavor::Basic;
        match sign {
            '(' | '|' if is_basic => self.open(sign),
            ')' | '+' | '?' if is_basic && !was_start => self.regex.push(sign),
            ')' if is_basic => self.regex.push(sign),
            '{' if is_basic => self.interval(),
            '1'..='9' if self.flavor != Flavor::Awk => {
                self.has_references = true;
                // Braces keep a digit that follows apart.
                self.regex.push_str(&format!("(?:\\{sign})"));
            }
            'w' | 'W' | 's' | 'S' | 'b' | 'B' if self.flavor != Flavor::Awk || sign != 'b' => {
                self.regex.extend(['\\', sign])
            }
            '<' => self.regex.push_str("\\b{start}"),
            '>' => self.regex.push_str("\\b{end}"),
            'y' if self.flavor == Flavor::Awk => self.regex.push_str("\\b"),
            '`' => self.regex.push_str("\\A"),
            '\'' => self.regex.push_str("\\z"),
            'x' => {
                let digits =
                    self.signs[self.position..].iter().take(2).take_while(|sign| sign.is_ascii_hexdigit());
                let digits: String = digits.collect();
                self.position += digits.len();
                self.push_literal(u8::from_str_radix(&digits, 16).map_or('x', char::from));
            }
            'n' => self.regex.push_str("\\n"),
            't' => self.regex.push_str("\\t"),
            'r' => self.regex.push_str("\\r"),
            'f' => self.regex.push_str("\\f"),
            'v' => self.regex.push_str("\\v"),
            _ => self.push_literal(sign),
        }
    }

    /// `{n,m}` behind its brace; other braces are literal.
    fn interval(&mut self) {
        let end = if self.flavor == Flavor::Basic { "\\}" } else { "}" };
        let rest: String = self.signs[self.position..].iter().take(16).collect();
        let inside = rest.split_once(end).map(|(inside, _)| inside);
        let is_bound = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let bounds = inside.and_then(|inside| match inside.split_once(',') {
            None => (!inside.is_empty() && is_bound(inside)).then(|| inside.to_owned()),
            Some((least, most)) => {
                let least = if least.is_empty() { "0" } else { least };
                (is_bound(least) && is_bound(most)).then(|| format!("{least},{most}"))
            }
        });
        match (bounds, inside) {
            (Some(bounds), Some(inside)) => {
                self.regex.push_str(&format!("{{{bounds}}}"));
                self.position += inside.chars().count() + end.len();
            }
            _ => self.regex.push_str("\\{"),
        }
    }
}

/// The class of a bracket expression behind its `[`, and its length. A backslash is a sign as any other, but before `n`
/// and `t`, and in awk before all.
fn class(signs: &[char], has_escapes: bool) -> Option<(String, usize)> {
    let is_negated = signs.first() == Some(&'^');
    let start = usize::from(is_negated);
    let mut index = start;
    let mut class = String::from(if is_negated { "[^" } else { "[" });
    loop {
        let sign = *signs.get(index)?;
        index += 1;
        match sign {
            ']' if index > start + 1 => break,
            '[' if matches!(signs.get(index), Some(':' | '.' | '=')) => {
                let mark = signs[index];
                let length = signs[index + 1..].windows(2).position(|pair| pair == [mark, ']'])?;
                let name: String = signs[index + 1..index + 1 + length].iter().collect();
                class.push_str(&if mark == ':' { format!("[:{name}:]") } else { regex::escape(&name) });
                index += length + 3;
            }
            '-' if index > start + 1 && signs.get(index).is_some_and(|next| *next != ']') => class.push('-'),
            '\\' if matches!(signs.get(index), Some('n' | 't' | 'r' | 'f' | 'v')) => {
                class.extend(['\\', signs[index]]);
                index += 1;
            }
            '\\' if has_escapes => {
                let next = *signs.get(index)?;
                index += 1;
                if !next.is_alphanumeric() {
                    class.push('\\');
                }
                class.push(next);
            }
            '\\' | '[' | ']' | '^' | '&' | '~' | '-' => class.extend(['\\', sign]),
            _ => class.push(sign),
        }
    }
    class.push(']');
    Some((class, index))
}
