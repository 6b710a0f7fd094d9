//! Words: quotes and expansions.

use std::rc::Rc;

use super::{Parsed, Parser, is_separator, parse, parse_text};
use crate::syntax::{List, Operation, Parameter, Part, Word};

impl Parser {
    /// The word here, if there is one.
    pub(super) fn word(&mut self) -> Parsed<Option<Word>> {
        let mut parts = Vec::new();
        for (sign, part) in [("<(", Part::Process as fn(Rc<List>) -> Part), (">(", Part::Consumer)] {
            if self.take(sign) {
                let list = self.list()?;
                let is_closed = self.take(")");
                return if is_closed {
                    Ok(Some(vec![part(Rc::new(list))]))
                } else {
                    Err(self.unexpected_token())
                };
            }
        }
        let start = self.position;
        while let Some(sign) = self.peek() {
            let opens_group =
                sign == '(' && self.position > start && "@?*+!".contains(self.signs[self.position - 1]);
            if opens_group {
                self.extended_pattern(&mut parts)?;
                continue;
            }
            if is_separator(sign) {
                break;
            }
            self.word_part(&mut parts, None)?;
        }
        Ok((self.position > start).then_some(parts))
    }

    /// The group of `@(a|b)`, whose kind is the last sign of the part before.
    fn extended_pattern(&mut self, parts: &mut Word) -> Parsed<()> {
        let mut depth = 0_u32;
        while let Some(sign) = self.peek() {
            if "()|".contains(sign) {
                self.position += 1;
                depth = if sign == '(' { depth + 1 } else { depth - u32::from(sign == ')') };
                push_literal(parts, sign);
                if depth == 0 {
                    return Ok(());
                }
            } else if sign == '\n' {
                break;
            } else {
                self.word_part(parts, None)?;
            }
        }
        Err(self.error("`)` is missing"))
    }

    /// One part of a word outside of double quotes.
    fn word_part(&mut self, parts: &mut Word, end: Option<char>) -> Parsed<()> {
        let Some(sign) = self.next() else { return Ok(()) };
        match sign {
            '\'' => parts.push(Part::Quoted(self.until('\'')?)),
            '"' => parts.push(Part::Double(self.double_quoted(Some('"'))?)),
            '\\' => match self.next() {
                Some('\n') => {}
                Some(next) => parts.push(Part::Quoted(next.to_string())),
                None => parts.push(Part::Quoted("\\".to_owned())),
            },
            '$' if self.take("'") => {
                let text = self.until_unescaped('\'')?;
                parts.push(Part::Quoted(crate::escape::decode(&text, crate::escape::Kind::Shell).0));
            }
            '$' if self.peek() == Some('"') => {}
            '$' => self.dollar(parts, end.is_some())?,
            '`' => parts.push(self.command_in_backquotes(false)?),
            _ => push_literal(parts, sign),
        }
        Ok(())
    }

    /// Text between double quotes up to `end`, or to the end of all.
    pub(super) fn double_quoted(&mut self, end: Option<char>) -> Parsed<Word> {
        self.enter()?;
        let mut parts = Vec::new();
        loop {
            let Some(sign) = self.next() else {
                break if end.is_some() {
                    return Err(self.error("a quote is not closed"));
                };
            };
            match sign {
                _ if Some(sign) == end => break,
                '\\' => match self.peek() {
                    Some('\n') => self.position += 1,
                    Some(next @ ('$' | '`' | '\\')) => {
                        self.position += 1;
                        parts.push(Part::Quoted(next.to_string()));
                    }
                    Some('"') if end.is_some() => {
                        self.position += 1;
                        parts.push(Part::Quoted("\"".to_owned()));
                    }
                    _ => push_literal(&mut parts, '\\'),
                },
                '$' => self.dollar(&mut parts, true)?,
                '`' => parts.push(self.command_in_backquotes(true)?),
                _ => push_literal(&mut parts, sign),
            }
        }
        self.depth -= 1;
        Ok(parts)
    }

    fn until(&mut self, end: char) -> Parsed<String> {
        let rest = &self.signs[self.position..];
        let length =
            rest.iter().position(|sign| *sign == end).ok_or_else(|| self.error("a quote is not closed"))?;
        let text = rest[..length].iter().collect();
        self.position += length + 1;
        Ok(text)
    }

    fn until_unescaped(&mut self, end: char) -> Parsed<String> {
        let mut text = String::new();
        while let Some(sign) = self.next() {
            if sign == end {
                return Ok(text);
            }
            text.push(sign);
            if sign == '\\' {
                text.extend(self.next());
            }
        }
        Err(self.error("a quote is not closed"))
    }

    fn command_in_backquotes(&mut self, in_quotes: bool) -> Parsed<Part> {
        let raw = self.until_unescaped('`')?;
        let mut text = String::new();
        let mut signs = raw.chars().peekable();
        while let Some(sign) = signs.next() {
            let is_escape = |next: &char| matches!(next, '`' | '\\' | '$') || (in_quotes && *next == '"');
            match sign {
                '\\' if signs.peek().is_some_and(is_escape) => text.extend(signs.next()),
                _ => text.push(sign),
            }
        }
        self.enter()?;
        let list = parse(&text)?;
        self.depth -= 1;
        Ok(Part::Command(Rc::new(list)))
    }

    /// Parses the part after a `$`.
    fn dollar(&mut self, parts: &mut Word, in_quotes: bool) -> Parsed<()> {
        if self.looking_at("((")
            && let Some(text) = self.arithmetic_text()?
        {
            parts.push(Part::Arithmetic(Rc::new(parse_text(&text)?)));
            return Ok(());
        }
        let name = match self.peek() {
            Some('(') => {
                self.position += 1;
                let list = self.list()?;
                self.newlines()?;
                if !self.take(")") {
                    return Err(self.error("`)` of `$(` is missing"));
                }
                parts.push(Part::Command(Rc::new(list)));
                return Ok(());
            }
            Some('{') => {
                self.position += 1;
                self.enter()?;
                let parameter = self.parameter_in_braces(in_quotes)?;
                self.depth -= 1;
                parts.push(Part::Parameter(Rc::new(parameter)));
                return Ok(());
            }
            Some(sign @ ('@' | '*' | '#' | '?' | '-' | '$' | '!' | '0'..='9')) => {
                self.position += 1;
                sign.to_string()
            }
            _ => self.name(),
        };
        if name.is_empty() {
            push_literal(parts, '$');
        } else {
            let parameter = Parameter { name, subscript: None, operation: Operation::Value };
            parts.push(Part::Parameter(Rc::new(parameter)));
        }
        Ok(())
    }

    /// The text of `(( ))`, or None if the parentheses are those of commands.
    pub(super) fn arithmetic_text(&mut self) -> Parsed<Option<String>> {
        let start = self.position + 2;
        let mut depth = 2_u32;
        for index in start..self.signs.len() {
            match self.signs[index] {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => continue,
            }
            if depth == 1 && self.signs.get(index + 1) == Some(&')') {
                let text = self.signs[start..index].iter().collect();
                self.position = index + 2;
                return Ok(Some(text));
            }
            if depth == 1 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn parameter_in_braces(&mut self, in_quotes: bool) -> Parsed<Parameter> {
        let has_bang = self.peek() == Some('!') && self.peek_at(1) != Some('}');
        let has_length =
            self.peek() == Some('#') && !matches!(self.peek_at(1), Some('}' | ':' | '-' | '#' | '%'));
        self.position += usize::from(has_bang || has_length);
        let name = match self.peek() {
            Some(sign @ ('@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                self.position += 1;
                sign.to_string()
            }
            Some(sign) if sign.is_ascii_digit() => {
                let digits: String =
                    self.signs[self.position..].iter().take_while(|sign| sign.is_ascii_digit()).collect();
                self.position += digits.len();
                digits
            }
            _ => self.name(),
        };
        if name.is_empty() {
            return Err(self.error("bad substitution"));
        }
        let subscript = if self.peek() == Some('[') { self.subscript()? } else { None };
        let operation = if has_length {
            Operation::Length
        } else if has_bang && (self.looking_at("*}") || self.looking_at("@}")) {
            self.position += 1;
            Operation::Names
        } else if has_bang {
            Operation::Indirect
        } else {
            self.operation(in_quotes)?
        };
        if !self.take("}") {
            return Err(self.error("bad substitution"));
        }
        Ok(Parameter { name, subscript, operation })
    }

    fn operation(&mut self, in_quotes: bool) -> Parsed<Operation> {
        let Some(sign) = self.peek().filter(|sign| *sign != '}') else { return Ok(Operation::Value) };
        self.position += 1;
        let is_doubled = matches!(sign, '#' | '%' | '/' | '^' | ',') && self.peek() == Some(sign);
        self.position += usize::from(is_doubled);
        Ok(match sign {
            ':' => match self.peek() {
                Some(kind @ ('-' | '=' | '+' | '?')) => {
                    self.position += 1;
                    Operation::Default(kind, true, self.operand(&['}'], in_quotes)?)
                }
                _ => {
                    let offset = parse_text(&self.raw_operand()?)?;
                    let length = if self.take(":") { Some(parse_text(&self.raw_operand()?)?) } else { None };
                    Operation::Substring(offset, length)
                }
            },
            '-' | '=' | '+' | '?' => Operation::Default(sign, false, self.operand(&['}'], in_quotes)?),
            '#' | '%' => Operation::Remove {
                from_end: sign == '%',
                longest: is_doubled,
                pattern: self.operand(&['}'], false)?,
            },
            '/' => {
                let anchor = self.peek().filter(|sign| !is_doubled && matches!(sign, '#' | '%'));
                self.position += usize::from(anchor.is_some());
                let kind = anchor.unwrap_or(if is_doubled { 'g' } else { '1' });
                let pattern = self.operand(&['/', '}'], false)?;
                let replacement = if self.take("/") { self.operand(&['}'], in_quotes)? } else { Vec::new() };
                Operation::Replace { kind, pattern, replacement }
            }
            '^' | ',' => Operation::Case { upper: sign == '^', all: is_doubled },
            '@' => Operation::Transform(self.next().unwrap_or_default()),
            _ => return Err(self.error("bad substitution")),
        })
    }

    /// The word of an operation, up to one of `ends`, which stays.
    fn operand(&mut self, ends: &[char], in_quotes: bool) -> Parsed<Word> {
        let mut parts = Vec::new();
        loop {
            match self.peek() {
                None => return Err(self.error("`}` is missing")),
                Some(sign) if ends.contains(&sign) => return Ok(parts),
                Some('\'') if in_quotes => {
                    self.position += 1;
                    push_literal(&mut parts, '\'');
                }
                Some('"') => {
                    self.position += 1;
                    parts.push(Part::Double(self.double_quoted(Some('"'))?));
                }
                _ => self.word_part(&mut parts, Some('}'))?,
            }
        }
    }

    /// The text of an offset or a length, with its expansions as they are written.
    fn raw_operand(&mut self) -> Parsed<String> {
        let mut depth = 0_i32;
        let mut text = String::new();
        while let Some(sign) = self.peek() {
            depth += i32::from("{([".contains(sign)) - i32::from("})]".contains(sign));
            if depth < 0 || (depth == 0 && sign == ':') {
                return Ok(text);
            }
            self.position += 1;
            text.push(sign);
        }
        Err(self.error("`}` is missing"))
    }

    /// `[…]` after a name, or None where the bracket is a pattern.
    pub(super) fn subscript(&mut self) -> Parsed<Option<Word>> {
        let start = self.position;
        self.position += 1;
        let mut parts = Vec::new();
        loop {
            match self.peek() {
                Some(']') if self.position > start + 1 => {
                    self.position += 1;
                    return Ok(Some(parts));
                }
                None | Some('\n' | ';' | ']') => {
                    self.position = start;
                    return Ok(None);
                }
                _ => self.word_part(&mut parts, None)?,
            }
        }
    }
}

fn push_literal(parts: &mut Word, sign: char) {
    match parts.last_mut() {
        Some(Part::Literal(text)) => text.push(sign),
        _ => parts.push(Part::Literal(sign.to_string())),
    }
}
