//! The parser of scripts: commands, lists and compound commands. `word.rs` has words and expansions.

mod compound;
mod word;

use std::cell::RefCell;
use std::rc::Rc;

use crate::syntax::{
    AndOr, Argument, Assigned, Assignment, Command, List, Part, Pipeline, Redirect, Simple, Stage, Target,
    Timing, Word, plain,
};

/// Deeper nesting would exhaust the stack.
const MAX_DEPTH: u32 = 120;

/// Commands whose arguments may be assignments.
const DECLARATIONS: [&str; 5] = ["declare", "local", "export", "readonly", "typeset"];

/// Words that end a list of commands.
const CLOSERS: [&str; 9] = ["then", "else", "elif", "fi", "do", "done", "esac", "}", "]]"];

/// A syntax error: what is wrong, and in which line.
pub type Parsed<T> = Result<T, String>;

pub fn parse(script: &str) -> Parsed<List> {
    let mut parser = Parser::new(script);
    let list = parser.list()?;
    match parser.peek() {
        None => Ok(list),
        Some(_) => Err(parser.unexpected_token()),
    }
}

/// Parses text that is expanded as between double quotes: here-documents and arithmetic.
pub fn parse_text(text: &str) -> Parsed<Word> {
    Parser::new(text).double_quoted(None)
}

struct Parser {
    signs: Vec<char>,
    position: usize,
    depth: u32,
    /// Here-documents whose text begins after the current line.
    pending: Vec<HereDocument>,
    /// A position, and its line from 1.
    counted: (usize, usize),
}

struct HereDocument {
    end: String,
    is_quoted: bool,
    strips_tabs: bool,
    text: Rc<RefCell<Word>>,
}

impl Parser {
    fn new(script: &str) -> Self {
        Self { signs: script.chars().collect(), position: 0, depth: 0, pending: Vec::new(), counted: (0, 1) }
    }

    fn peek(&self) -> Option<char> {
        self.signs.get(self.position).copied()
    }

    fn peek_at(&self, offset: usize) -> Option<char> {
        self.signs.get(self.position + offset).copied()
    }

    fn next(&mut self) -> Option<char> {
        let sign = self.peek();
        self.position += usize::from(sign.is_some());
        sign
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(offset, sign)| self.peek_at(offset) == Some(sign))
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.looking_at(text);
        if found {
            self.position += text.chars().count();
        }
        found
    }

    /// The line of the position, counted on from the last one that was asked for.
    fn line(&mut self) -> usize {
        let (position, line) = if self.counted.0 <= self.position { self.counted } else { (0, 1) };
        let passed = self.signs[position..self.position].iter().filter(|sign| **sign == '\n').count();
        self.counted = (self.position, line + passed);
        line + passed
    }

    fn error(&self, message: &str) -> String {
        let line = 1 + self.signs[..self.position.min(self.signs.len())]
            .iter()
            .filter(|sign| **sign == '\n')
            .count();
        format!("line {line}: syntax error: {message}")
    }

    fn unexpected_token(&self) -> String {
        match self.peek() {
            None => self.error("the script ends too early"),
            Some('\n') => self.error("unexpected end of the line"),
            Some(_) => {
                let rest: String =
                    self.signs[self.position..].iter().take(20).take_while(|sign| **sign != '\n').collect();
                self.error(&format!("unexpected `{rest}`"))
            }
        }
    }

    fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("nested too deep"));
        }
        Ok(())
    }

    /// Skips blanks, continued lines and comments.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.position += 1,
                Some('\\') if self.peek_at(1) == Some('\n') => self.position += 2,
                Some('#') if self.position == 0 || is_separator(self.signs[self.position - 1]) => {
                    while self.peek().is_some_and(|sign| sign != '\n') {
                        self.position += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn newlines(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    fn newline(&mut self) -> Parsed<()> {
        self.position += 1;
        for document in std::mem::take(&mut self.pending) {
            self.here_document(&document)?;
        }
        Ok(())
    }

    fn here_document(&mut self, document: &HereDocument) -> Parsed<()> {
        let mut text = String::new();
        while self.peek().is_some() {
            let rest = &self.signs[self.position..];
            let length = rest.iter().position(|sign| *sign == '\n').unwrap_or(rest.len());
            let line: String = rest[..length].iter().collect();
            self.position = (self.position + length + 1).min(self.signs.len());
            let line = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if line == document.end {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        *document.text.borrow_mut() = if document.is_quoted {
            vec![Part::Quoted(text)]
        } else {
            vec![Part::Double(parse_text(&text)?)]
        };
        Ok(())
    }

    /// Commands up to a word or sign that ends them.
    fn list(&mut self) -> Parsed<List> {
        self.enter()?;
        let mut list = Vec::new();
        loop {
            self.newlines()?;
            match self.peek() {
                None | Some(')') => break,
                Some(';') => {
                    return if self.looking_at(";;") || self.looking_at(";&") {
                        self.leave(list)
                    } else {
                        Err(self.unexpected_token())
                    };
                }
                _ if self.keyword().is_some_and(|word| CLOSERS.contains(&word.as_str())) => break,
                _ => {}
            }
            let mut and_or = self.and_or()?;
            self.blanks();
            and_or.is_background = self.take("&");
            let is_ended = and_or.is_background;
            list.push(and_or);
            match self.peek() {
                _ if is_ended => {}
                Some(';') if !self.looking_at(";;") && !self.looking_at(";&") => self.position += 1,
                Some('\n' | ';' | ')') | None => {}
                _ => return Err(self.unexpected_token()),
            }
        }
        self.leave(list)
    }

    fn leave(&mut self, list: List) -> Parsed<List> {
        self.depth -= 1;
        Ok(list)
    }

    /// A list that may not be empty.
    fn commands(&mut self) -> Parsed<List> {
        let list = self.list()?;
        if list.is_empty() { Err(self.unexpected_token()) } else { Ok(list) }
    }

    fn and_or(&mut self) -> Parsed<AndOr> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            let is_and = self.looking_at("&&");
            if !is_and && !self.looking_at("||") {
                return Ok(AndOr { first, rest, is_background: false });
            }
            self.position += 2;
            self.newlines()?;
            rest.push((is_and, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<Pipeline> {
        let (mut is_negated, mut timing) = (false, None);
        loop {
            if self.take_keyword("!") {
                is_negated = !is_negated;
            } else if self.take_keyword("time") {
                timing = Some(if self.take_keyword("-p") { Timing::Posix } else { Timing::Bash });
            } else {
                break;
            }
        }
        if timing.is_some() && matches!(self.peek(), None | Some('\n' | ';' | ')')) {
            let stages = vec![Stage { command: Command::Simple(Simple::default()), pipes_errors: false }];
            return Ok(Pipeline { is_negated, timing, stages });
        }
        let mut stages = Vec::new();
        loop {
            let command = self.command()?;
            self.blanks();
            let goes_on = self.peek() == Some('|') && self.peek_at(1) != Some('|');
            let pipes_errors = goes_on && self.looking_at("|&");
            stages.push(Stage { command, pipes_errors });
            if !goes_on {
                return Ok(Pipeline { is_negated, timing, stages });
            }
            self.position += 1 + usize::from(pipes_errors);
            self.newlines()?;
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        self.blanks();
        if let Some(compound) = self.compound()? {
            let mut redirects = Vec::new();
            while let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
            }
            return Ok(Command::Compound(Box::new(compound), redirects));
        }
        if let Some(name) = self.function_name() {
            self.newlines()?;
            let body = self.command()?;
            return match body {
                Command::Compound(..) => Ok(Command::Function(name, Rc::new(body))),
                _ => Err(self.error("the body of a function is not in `{ }`")),
            };
        }
        let simple = self.simple()?;
        if simple.arguments.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty() {
            return Err(self.unexpected_token());
        }
        Ok(Command::Simple(simple))
    }

    fn function_name(&mut self) -> Option<String> {
        let start = self.position;
        let has_keyword = self.take_keyword("function");
        self.blanks();
        let name: String = self.signs[self.position..]
            .iter()
            .take_while(|sign| !is_separator(**sign) && !"'\"$`\\=".contains(**sign))
            .collect();
        self.position += name.chars().count();
        self.blanks();
        let has_parentheses = self.peek() == Some('(') && {
            self.position += 1;
            self.blanks();
            self.take(")")
        };
        if !name.is_empty() && (has_parentheses || has_keyword) {
            return Some(name);
        }
        self.position = start;
        None
    }

    fn simple(&mut self) -> Parsed<Simple> {
        let mut simple = Simple { line: self.line(), ..Simple::default() };
        let mut is_declaration = false;
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            if simple.arguments.is_empty() {
                if let Some(assignment) = self.assignment()? {
                    simple.assignments.push(assignment);
                    continue;
                }
            } else if is_declaration && let Some(assignment) = self.assignment()? {
                simple.arguments.push(Argument::Assignment(assignment));
                continue;
            }
            let Some(word) = self.word()? else { return Ok(simple) };
            if simple.arguments.is_empty() {
                is_declaration = plain(&word).is_some_and(|name| DECLARATIONS.contains(&name));
            }
            simple.arguments.push(Argument::Word(word));
        }
    }

    fn assignment(&mut self) -> Parsed<Option<Assignment>> {
        let start = self.position;
        let name = self.name();
        if name.is_empty() {
            return Ok(None);
        }
        let subscript = if self.peek() == Some('[') { self.subscript()? } else { None };
        let appends = self.looking_at("+=");
        self.position += usize::from(appends);
        if !self.take("=") {
            self.position = start;
            return Ok(None);
        }
        let value = if self.take("(") {
            Assigned::Array(self.array()?)
        } else {
            Assigned::Word(self.word()?.unwrap_or_default())
        };
        Ok(Some(Assignment { name, subscript, appends, value }))
    }

    fn array(&mut self) -> Parsed<Vec<(Option<Word>, Word)>> {
        let mut entries = Vec::new();
        loop {
            self.newlines()?;
            if self.take(")") {
                return Ok(entries);
            }
            let start = self.position;
            let mut key = if self.peek() == Some('[') { self.subscript()? } else { None };
            if key.is_some() && !self.take("=") {
                (key, self.position) = (None, start);
            }
            match self.word()? {
                Some(word) => entries.push((key, word)),
                None if key.is_some() => entries.push((key, Vec::new())),
                None => return Err(self.unexpected_token()),
            }
        }
    }

    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        self.blanks();
        let start = self.position;
        if self.looking_at("<(") || self.looking_at(">(") {
            return Ok(None);
        }
        if self.looking_at("&>") {
            let appends = self.looking_at("&>>");
            self.position += 2 + usize::from(appends);
            let word = self.target_word()?;
            let target = if appends { Target::Append(word) } else { Target::Write(word) };
            return Ok(Some(Redirect { descriptors: vec![1, 2], target }));
        }
        let number: String =
            self.signs[self.position..].iter().take_while(|sign| sign.is_ascii_digit()).collect();
        self.position += number.len();
        let Some(sign @ ('<' | '>')) = self.peek() else {
            self.position = start;
            return Ok(None);
        };
        let default = u32::from(sign == '>');
        let descriptor =
            if number.is_empty() { default } else { number.parse().map_err(|_| self.unexpected_token())? };
        let target = self.redirect_target()?;
        Ok(Some(Redirect { descriptors: vec![descriptor], target }))
    }

    fn redirect_target(&mut self) -> Parsed<Target> {
        if self.take("<<<") {
            let word = vec![Part::Double(self.target_word()?), Part::Quoted("\n".to_owned())];
            return Ok(Target::Text(Rc::new(RefCell::new(word))));
        }
        if self.take("<<") {
            let strips_tabs = self.take("-");
            let word = self.target_word()?;
            let is_quoted = plain(&word).is_none();
            let end = word.iter().map(literal_text).collect();
            let text = Rc::new(RefCell::new(Vec::new()));
            self.pending.push(HereDocument { end, is_quoted, strips_tabs, text: Rc::clone(&text) });
            return Ok(Target::Text(text));
        }
        type Kind = (&'static str, fn(Word) -> Target);
        let kinds: [Kind; 6] = [
            (">>", Target::Append),
            (">&", Target::Descriptor),
            ("<&", Target::Descriptor),
            (">|", Target::Write),
            (">", Target::Write),
            ("<", Target::Read),
        ];
        for (sign, kind) in kinds {
            if self.take(sign) {
                return Ok(kind(self.target_word()?));
            }
        }
        Err(self.unexpected_token())
    }

    fn target_word(&mut self) -> Parsed<Word> {
        self.blanks();
        self.word()?.ok_or_else(|| self.unexpected_token())
    }

    fn name(&mut self) -> String {
        let is_name = |(index, sign): &(usize, &char)| {
            **sign == '_' || sign.is_ascii_alphabetic() || (*index > 0 && sign.is_ascii_digit())
        };
        let name: String = self.signs[self.position..]
            .iter()
            .enumerate()
            .take_while(is_name)
            .map(|(_, sign)| *sign)
            .collect();
        self.position += name.len();
        name
    }

    /// The plain word here, if it ends at a separator.
    fn keyword(&self) -> Option<String> {
        let rest = &self.signs[self.position..];
        let length = rest.iter().take(12).position(|sign| is_separator(*sign)).unwrap_or(rest.len());
        (length > 0 && length <= 10).then(|| rest[..length].iter().collect())
    }

    fn take_keyword(&mut self, word: &str) -> bool {
        self.blanks();
        let found = self.keyword().is_some_and(|found| found == word);
        if found {
            self.position += word.len();
        }
        found
    }

    fn expect_keyword(&mut self, word: &str) -> Parsed<()> {
        if self.take_keyword(word) { Ok(()) } else { Err(self.error(&format!("`{word}` is missing"))) }
    }
}

fn literal_text(part: &Part) -> String {
    match part {
        Part::Literal(text) | Part::Quoted(text) => text.clone(),
        Part::Double(parts) => parts.iter().map(literal_text).collect(),
        _ => String::new(),
    }
}

/// Whether a sign ends a word.
fn is_separator(sign: char) -> bool {
    matches!(sign, ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}
