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

/// Reads a text up to a delimiter, which a backslash takes its meaning, and with `has_classes` a bracket expression too.
pub fn until_delimiter(
    signs: &[char],
    position: &mut usize,
    delimiter: char,
    has_classes: bool,
) -> Option<String> {
    let mut text = String::new();
    let mut in_class = false;
    loop {
        let sign = *signs.get(*position)?;
        *position += 1;
        let rest = &signs[*position..];
        let kept = match sign {
            _ if sign == delimiter && !in_class => return Some(text),
            '\\' => {
                let escaped = *rest.first()?;
                if escaped != delimiter || in_class {
                    text.push('\\');
                }
                text.push(escaped);
                *position += 1;
                continue;
            }
            '[' if has_classes && !in_class => {
                in_class = true;
                let is_negated = rest.first() == Some(&'^');
                usize::from(is_negated) + usize::from(rest.get(usize::from(is_negated)) == Some(&']'))
            }
            '[' if in_class && rest.first() == Some(&':') => {
                rest.iter().position(|sign| *sign == ']').map_or(rest.len(), |end| end + 1)
            }
            _ => {
                in_class &= sign != ']';
                0
            }
        };
        text.push(sign);
        text.extend(&rest[..kept]);
        *position += kept;
    }
}

/// The signs with a meaning in an extended expression.
pub const SIGNS: &str = "\\.[]*^$+?{}()|";

/// A text with a backslash before each of these signs.
pub fn escape(text: &str, signs: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        escaped.extend(signs.contains(sign).then_some('\\'));
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
            '[' => match class(&self.signs[self.position..], "^", self.escaped()) {
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

    /// The escapes in a bracket expression: `\n` and the like, and in awk all.
    fn escaped(&self) -> fn(char) -> Option<String> {
        match self.flavor {
            Flavor::Awk => |sign| {
                let is_kept = !sign.is_alphanumeric() || "ntrfv".contains(sign);
                Some(if is_kept { format!("\\{sign}") } else { sign.to_string() })
            },
            _ => |sign| "ntrfv".contains(sign).then(|| format!("\\{sign}")),
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

/// The class of a bracket expression behind its `[`, and its length with the `]`. One of `negations` may begin it. `escaped`
/// is what a backslash and a sign stand for, or none where the backslash is a sign as any other.
pub fn class(
    signs: &[char],
    negations: &str,
    escaped: fn(char) -> Option<String>,
) -> Option<(String, usize)> {
    let is_negated = signs.first().is_some_and(|sign| negations.contains(*sign));
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
            '\\' if let Some(text) = signs.get(index).and_then(|next| escaped(*next)) => {
                class.push_str(&text);
                index += 1;
            }
            '\\' | '[' | ']' | '^' | '&' | '~' | '-' => class.extend(['\\', sign]),
            _ => class.push(sign),
        }
    }
    class.push(']');
    Some((class, index))
}
