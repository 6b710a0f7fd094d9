//! The parser of `sed` scripts.

use std::collections::HashMap;

use super::{Action, Address, Command, Piece, Substitution};
use crate::regular::{Flavor, Regular, until_delimiter};
use crate::shell::{Outcome, fail};

struct Parser {
    signs: Vec<char>,
    position: usize,
    flavor: Flavor,
}

pub fn parse(script: &str, is_extended: bool) -> Outcome<Vec<Command>> {
    let flavor = if is_extended { Flavor::Extended } else { Flavor::Basic };
    let mut parser = Parser { signs: script.chars().collect(), position: 0, flavor };
    let mut commands: Vec<Command> = Vec::new();
    let (mut blocks, mut labels, mut branches) = (Vec::new(), HashMap::new(), Vec::new());
    while parser.skip_to_command() {
        let (start, end) = parser.range()?;
        let is_negated = parser.negation();
        let Some(letter) = parser.next() else { return fail("missing command") };
        let index = commands.len();
        let action = match letter {
            '{' => {
                blocks.push(index);
                Action::Block(0)
            }
            '}' => {
                let Some(open) = blocks.pop() else { return fail("unexpected `}'") };
                commands[open].action = Action::Block(index);
                Action::EndBlock
            }
            ':' => {
                labels.insert(parser.word(), index);
                Action::EndBlock
            }
            'b' | 't' | 'T' => {
                let label = parser.word();
                branches.push((index, label));
                Action::Branch(letter, 0)
            }
            _ => parser.action(letter)?,
        };
        commands.push(Command { start, end, is_negated, until: None, action });
    }
    if !blocks.is_empty() {
        return fail("unmatched `{'");
    }
    resolve(&mut commands, &labels, branches)?;
    Ok(commands)
}

/// Gives each branch the index of the command at its label; without a label it leads to the end.
fn resolve(
    commands: &mut [Command],
    labels: &HashMap<String, usize>,
    branches: Vec<(usize, String)>,
) -> Outcome<()> {
    let end = commands.len();
    for (index, label) in branches {
        let target = match labels.get(&label) {
            Some(target) => *target,
            None if label.is_empty() => end,
            None => return fail(format!("can't find label for jump to `{label}'")),
        };
        if let Action::Branch(_, place) = &mut commands[index].action {
            *place = target;
        }
    }
    Ok(())
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.signs.get(self.position).copied()
    }

    fn next(&mut self) -> Option<char> {
        self.position += 1;
        self.signs.get(self.position - 1).copied()
    }

    fn take(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(sign);
        self.position += usize::from(found);
        found
    }

    fn skip(&mut self, holds: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&holds) {
            self.position += 1;
        }
    }

    /// Skips separators and comments. Returns whether a command follows.
    fn skip_to_command(&mut self) -> bool {
        self.skip(|sign| sign.is_whitespace() || sign == ';');
        while self.peek() == Some('#') {
            self.skip(|sign| sign != '\n');
            self.skip(|sign| sign.is_whitespace() || sign == ';');
        }
        self.peek().is_some()
    }

    fn blanks(&mut self) {
        self.skip(|sign| matches!(sign, ' ' | '\t'));
    }

    fn number(&mut self) -> Option<usize> {
        let start = self.position;
        self.skip(|sign| sign.is_ascii_digit());
        self.signs[start..self.position].iter().collect::<String>().parse().ok()
    }

    /// A label or a file name, up to the end of the line, or of the command for labels.
    fn word(&mut self) -> String {
        self.blanks();
        let start = self.position;
        self.skip(|sign| !matches!(sign, '\n' | ';' | '}'));
        self.signs[start..self.position].iter().collect::<String>().trim().to_owned()
    }

    fn rest_of_line(&mut self) -> String {
        self.blanks();
        let start = self.position;
        self.skip(|sign| sign != '\n');
        self.signs[start..self.position].iter().collect()
    }

    /// The addresses before a command.
    fn range(&mut self) -> Outcome<(Option<Address>, Option<Address>)> {
        let start = self.address()?;
        self.blanks();
        if start.is_none() || !self.take(',') {
            return Ok((start, None));
        }
        self.blanks();
        let end = self.end_address()?;
        if end.is_none() { fail("unexpected `,'") } else { Ok((start, end)) }
    }

    fn negation(&mut self) -> bool {
        self.blanks();
        let is_negated = self.peek() == Some('!');
        self.skip(|sign| matches!(sign, '!' | ' ' | '\t'));
        is_negated
    }

    fn address(&mut self) -> Outcome<Option<Address>> {
        Ok(Some(match self.peek() {
            Some('$') => {
                self.position += 1;
                Address::Last
            }
            Some(sign) if sign.is_ascii_digit() => {
                let first = self.number().unwrap_or(usize::MAX);
                if self.take('~') {
                    Address::Step(first, self.number().unwrap_or(0))
                } else {
                    Address::Line(first)
                }
            }
            Some('/') => {
                self.position += 1;
                self.match_address('/')?
            }
            Some('\\') => {
                self.position += 1;
                let Some(delimiter) = self.next() else { return fail("unterminated address regex") };
                self.match_address(delimiter)?
            }
            _ => return Ok(None),
        }))
    }

    fn end_address(&mut self) -> Outcome<Option<Address>> {
        if self.take('+') {
            return Ok(self.number().map(Address::More));
        }
        if self.take('~') {
            return Ok(self.number().map(Address::Multiple));
        }
        self.address()
    }

    fn match_address(&mut self, delimiter: char) -> Outcome<Address> {
        let Some(source) = self.until_delimiter(delimiter, true) else {
            return fail("unterminated address regex");
        };
        let ignores_case = self.take('I');
        self.regular(&source, ignores_case).map(Address::Match)
    }

    fn regular(&self, source: &str, ignores_case: bool) -> Outcome<Option<Regular>> {
        if source.is_empty() { Ok(None) } else { Regular::new(source, self.flavor, ignores_case).map(Some) }
    }

    fn until_delimiter(&mut self, delimiter: char, is_regex: bool) -> Option<String> {
        until_delimiter(&self.signs, &mut self.position, delimiter, is_regex)
    }

    /// The two texts of `s` and `y`.
    fn pair(&mut self, letter: char) -> Outcome<(String, String)> {
        let delimiter = self.next();
        let texts = delimiter.and_then(|delimiter| {
            let first = self.until_delimiter(delimiter, letter == 's')?;
            Some((first, self.until_delimiter(delimiter, false)?))
        });
        texts.map_or_else(|| fail(format!("unterminated `{letter}' command")), Ok)
    }

    fn action(&mut self, letter: char) -> Outcome<Action> {
        Ok(match letter {
            's' => self.substitution()?,
            'y' => {
                let (from, to) = self.pair(letter)?;
                let decode = |text: &str| {
                    crate::escape::decode(text, crate::escape::Kind::Format).0.chars().collect::<Vec<char>>()
                };
                let (from, to) = (decode(&from), decode(&to));
                if from.len() != to.len() {
                    return fail("strings for `y' command are different lengths");
                }
                Action::Transliterate(from, to)
            }
            'a' | 'i' | 'c' => {
                let text = self.text();
                match letter {
                    'a' if text.is_empty() && self.peek().is_none() => Action::EndLine,
                    'a' => Action::Append(text),
                    'i' => Action::Insert(text),
                    _ => Action::Change(text),
                }
            }
            'q' | 'Q' => {
                self.blanks();
                let code = self.number().and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
                Action::Quit(code, letter == 'q')
            }
            'r' => Action::Read(self.rest_of_line()),
            'w' => Action::Write(self.rest_of_line()),
            'd' | 'D' | 'p' | 'P' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | '=' => Action::Letter(letter),
            _ => {
                return fail(format!(
                    "command `{letter}` is not supported by this shell: s y a i c q Q r w d D p P n N h H g G x = b t T : {{ }} are"
                ));
            }
        })
    }

    /// The text of `a`, `i` and `c`: the rest of the line, or lines that end in a backslash.
    fn text(&mut self) -> String {
        self.blanks();
        if self.take('\\') {
            let start = self.position;
            self.blanks();
            // Blanks behind the backslash belong to a text in the same line.
            if !self.take('\n') {
                self.position = start;
            }
        }
        let mut text = String::new();
        while let Some(sign) = self.next() {
            match sign {
                '\\' => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    other => text.extend(other),
                },
                '\n' => break,
                _ => text.push(sign),
            }
        }
        text
    }

    fn substitution(&mut self) -> Outcome<Action> {
        let (source, replacement) = self.pair('s')?;
        let replacement = pieces(&replacement);
        let mut substitution = Substitution { replacement, number: 1, ..Substitution::default() };
        let mut ignores_case = false;
        loop {
            match self.peek() {
                Some('g') => substitution.is_global = true,
                Some('p') => substitution.prints = true,
                Some('i' | 'I') => ignores_case = true,
                Some('1'..='9') => {
                    substitution.number = self.number().unwrap_or(1);
                    continue;
                }
                Some('w') => {
                    self.position += 1;
                    substitution.file = Some(self.rest_of_line());
                    break;
                }
                Some(sign @ ('e' | 'm' | 'M')) => {
                    return fail(format!(
                        "flag `{sign}` of `s` is not supported by this shell: g p i w and numbers are"
                    ));
                }
                Some('}' | ';' | '\n' | ' ' | '\t' | '#') | None => break,
                Some(sign) => return fail(format!("unknown option to `s': {sign}")),
            }
            self.position += 1;
        }
        substitution.regular = self.regular(&source, ignores_case)?;
        Ok(Action::Substitute(Box::new(substitution)))
    }
}

/// The parts of a replacement.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut push = |piece: Piece| match (piece, pieces.last_mut()) {
        (Piece::Text(more), Some(Piece::Text(text))) => text.push_str(&more),
        (piece, _) => pieces.push(piece),
    };
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '&' => push(Piece::Group(0)),
            '\\' => match signs.next() {
                Some(digit @ '0'..='9') => push(Piece::Group(digit.to_digit(10).unwrap_or(0) as usize)),
                Some(letter @ ('U' | 'L' | 'u' | 'l' | 'E')) => push(Piece::Case(letter)),
                Some('n') => push(Piece::Text("\n".to_owned())),
                Some('t') => push(Piece::Text("\t".to_owned())),
                Some('r') => push(Piece::Text("\r".to_owned())),
                Some('x') => {
                    let digits: String = signs.clone().take(2).take_while(char::is_ascii_hexdigit).collect();
                    let code = u8::from_str_radix(&digits, 16).ok();
                    signs.by_ref().take(digits.len()).for_each(drop);
                    push(Piece::Text(code.map_or('x', char::from).to_string()));
                }
                Some(other) => push(Piece::Text(other.to_string())),
                None => push(Piece::Text("\\".to_owned())),
            },
            _ => push(Piece::Text(sign.to_string())),
        }
    }
    pieces
}
