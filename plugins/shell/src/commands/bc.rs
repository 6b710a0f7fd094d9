//! `bc`: expressions and variables over decimal numbers of any precision, evaluated as they are parsed.

mod number;

use std::collections::HashMap;

use regex::Regex;

use crate::call::{Call, text_of};
use crate::escape::{Kind, decode};
use crate::shell::{Outcome, Stop, fail};

use number::{MAX_DIGITS, Number};

/// Nesting of expressions.
const MAX_DEPTH: u32 = 60;

/// Strings, which stay, and comments and continued lines, which are blanks.
const COMMENT: &str = r#"("[^"\n]*")|(?s:/\*.*?(?:\*/|\z))|#[^\n]*|\\\n"#;
const TOKEN: &str = r#""[^"]*"|[0-9A-F.]+|[a-z][a-z0-9_]*|\+\+|--|[-+*/%^=!<>]=|&&|\|\||\S"#;

/// Binary operators, from those that bind least.
const LEVELS: [&[&str]; 6] =
    [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"], &["^"]];

/// Levels of the values of `!` and of an assignment.
const COMPARISON: usize = 2;
const SUM: usize = 3;

/// Tokens of GNU bc that this one does not have.
const REFUSED: &str = "auto break continue define else for if read return while [ { } ++ --";

pub fn bc(call: &mut Call<'_>) -> Outcome {
    let options = call.options("lqsi", "mathlib=l quiet=q standard=s interactive=i", false)?;
    let mut text = String::new();
    for path in options.rest.iter().map(String::as_str).chain(["-"]) {
        text += &text_of(&call.read_or_fail(path, 1)?);
    }
    let regex = |text| Regex::new(text).or_else(|error| fail(error.to_string()));
    let (text, token) = (regex(COMMENT)?.replace_all(&text, "$1 "), regex(TOKEN)?);
    let variables = [("scale", if options.has('l') { 20 } else { 0 }), ("ibase", 10), ("obase", 10)];
    let variables = variables.map(|(name, value)| (name, Number::new(value, 0))).into();
    let mut machine = Machine { variables, has_library: options.has('l'), ..Machine::default() };
    for line in text.lines() {
        let tokens: Vec<&str> = token.find_iter(line).map(|found| found.as_str()).collect();
        if let Some(token) = tokens.iter().find(|token| REFUSED.split(' ').any(|refused| refused == **token))
        {
            let ways = "bc here has expressions and variables; use awk for loops";
            return fail(format!("`{token}` is not supported by this shell: {ways}"));
        }
        let ended = machine.run(&tokens);
        call.out(std::mem::take(&mut machine.output))?;
        match ended {
            Ok(()) => {}
            Err(Stop::Exit(_)) => break,
            // The next lines still run, as in GNU bc.
            Err(Stop::Fail(_, message)) => call.complain(&message)?,
            Err(stop) => return Err(stop),
        }
    }
    Ok(0)
}

#[derive(Default)]
struct Machine<'t> {
    /// The rest of the line, with the next token at the end.
    tokens: Vec<&'t str>,
    depth: u32,
    /// All variables, with `scale`, `ibase`, `obase` and `last`.
    variables: HashMap<&'t str, Number>,
    has_library: bool,
    output: String,
    only_parses: bool,
    /// Whether the last expression is no assignment.
    is_shown: bool,
}

impl<'t> Machine<'t> {
    /// Runs a line, of which nothing runs if there is a syntax error or a `quit` in it, as in GNU bc.
    fn run(&mut self, line: &[&'t str]) -> Outcome<()> {
        for only_parses in [true, false] {
            for statement in line.split(|token| *token == ";").filter(|statement| !statement.is_empty()) {
                (self.only_parses, self.depth) = (only_parses, 0);
                self.tokens = statement.iter().rev().copied().collect();
                self.statement()?;
            }
        }
        Ok(())
    }

    fn statement(&mut self) -> Outcome<()> {
        let prints = self.take("print");
        if self.take("quit") || !self.only_parses && self.take("halt") {
            return Err(Stop::Exit(0));
        }
        self.write(prints)?;
        while prints && self.take(",") {
            self.write(true)?;
        }
        if self.tokens.is_empty() { Ok(()) } else { unexpected_token(self.tokens.pop()) }
    }

    /// Writes a string or a value, for `print` or as a statement, in which an assignment writes nothing.
    fn write(&mut self, prints: bool) -> Outcome<()> {
        let text = self.tokens.pop_if(|token| token.len() > 1 && token.starts_with('"'));
        match text.map(|text| text.trim_matches('"')) {
            Some(_) if self.only_parses => {}
            Some(text) if prints => self.output += &decode(&text.replace("\\q", "\""), Kind::Shell).0,
            Some(text) => self.output += text,
            None => {
                let value = self.parse_nested(0)?;
                if !self.only_parses && (self.is_shown || prints) {
                    self.output += &(value.show(self.count("obase"))? + if prints { "" } else { "\n" });
                    self.variables.insert("last", value);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, token: &str) -> bool {
        self.tokens.pop_if(|next| *next == token).is_some()
    }

    /// Parses an expression in another one.
    fn parse_nested(&mut self, level: usize) -> Outcome<Number> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail("nested too deep");
        }
        let value = self.binary(level);
        self.depth -= 1;
        value
    }

    fn binary(&mut self, level: usize) -> Outcome<Number> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.tokens.pop_if(|token| operators.contains(token)) {
            let parsed_only = self.only_parses;
            self.only_parses |= matches!((operator, left.mantissa.is_zero()), ("&&", true) | ("||", false));
            let right = if operator == "^" { self.parse_nested(level)? } else { self.binary(level + 1)? };
            self.only_parses = parsed_only;
            left = self.operate(operator, &left, &right)?;
            self.is_shown = true;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Outcome<Number> {
        let token = self.tokens.pop();
        let value = match token.unwrap_or_default() {
            "-" => return Number::default().operate("-", &self.parse_nested(LEVELS.len())?, 0),
            "!" => Number::new(self.parse_nested(COMPARISON)?.mantissa.is_zero(), 0),
            "(" => self.parse_parenthesized()?,
            "." => self.variable("last"),
            digits if digits.starts_with(|sign| ".0123456789ABCDEF".contains(sign)) => {
                if self.only_parses {
                    Number::default()
                } else {
                    Number::parse(digits, self.count("ibase"))?
                }
            }
            name if name.starts_with(|sign: char| sign.is_ascii_lowercase()) => {
                let is_assignment =
                    |token: &mut &str| token.ends_with('=') && !LEVELS[COMPARISON].contains(token);
                if let Some(operator) = self.tokens.pop_if(is_assignment) {
                    return self.assign(name, operator.trim_end_matches('='));
                }
                match self.take("(").then(|| self.parse_parenthesized()).transpose()? {
                    Some(value) if !self.only_parses => {
                        value.call(name, self.count("scale"), self.has_library)?
                    }
                    _ => self.variable(name),
                }
            }
            _ => return unexpected_token(token),
        };
        self.is_shown = true;
        Ok(value)
    }

    fn parse_parenthesized(&mut self) -> Outcome<Number> {
        let value = self.parse_nested(0)?;
        if self.take(")") { Ok(value) } else { unexpected_token(self.tokens.pop()) }
    }

    fn assign(&mut self, name: &'t str, operator: &str) -> Outcome<Number> {
        let mut value = self.parse_nested(SUM)?;
        if !operator.is_empty() {
            value = self.operate(operator, &self.variable(name), &value)?;
        }
        self.is_shown = false;
        match (name, value.to_count()) {
            _ if self.only_parses => return Ok(value),
            ("scale", Some(..=MAX_DIGITS)) | ("ibase" | "obase", Some(2..=16)) => {}
            ("scale", _) => return fail(format!("scale is at most {MAX_DIGITS} in this shell")),
            ("ibase" | "obase", _) => return fail(format!("{name} is from 2 to 16 in this shell")),
            _ => {}
        }
        self.variables.insert(name, value.clone());
        Ok(value)
    }

    fn variable(&self, name: &str) -> Number {
        self.variables.get(name).cloned().unwrap_or_default()
    }

    fn count(&self, name: &str) -> usize {
        self.variable(name).to_count().unwrap_or_default()
    }

    fn operate(&self, operator: &str, left: &Number, right: &Number) -> Outcome<Number> {
        if self.only_parses {
            Ok(Number::default())
        } else {
            left.operate(operator, right, self.count("scale"))
        }
    }
}

fn unexpected_token<T>(token: Option<&str>) -> Outcome<T> {
    fail(format!("syntax error at {}", token.unwrap_or("the end of a statement")))
}
