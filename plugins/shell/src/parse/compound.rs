//! Compound commands.

use super::{Parsed, Parser, parse_text};
use crate::syntax::{Arm, ArmEnd, Compound, List, Part, Test, Word, plain};

const BINARY: [&str; 17] = [
    "=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "<=",
    ">=",
];

/// Words that begin a compound command, of which the last two are not supported.
const KEYWORDS: [&str; 9] = ["{", "if", "while", "until", "for", "case", "[[", "select", "coproc"];

impl Parser {
    pub(super) fn compound(&mut self) -> Parsed<Option<Compound>> {
        if self.looking_at("((")
            && let Some(text) = self.arithmetic_text()?
        {
            return Ok(Some(Compound::Arithmetic(parse_text(&text)?)));
        }
        if self.take("(") {
            let list = self.commands()?;
            return self.close(")").map(|()| Some(Compound::Subshell(list)));
        }
        let Some(word) = self.keyword().filter(|word| KEYWORDS.contains(&word.as_str())) else {
            return Ok(None);
        };
        self.position += word.len();
        Ok(Some(match word.as_str() {
            "{" => {
                let list = self.commands()?;
                self.expect_keyword("}")?;
                Compound::Group(list)
            }
            "if" => self.conditional()?,
            "while" | "until" => {
                let condition = self.commands()?;
                Compound::Loop(word == "until", condition, self.body()?)
            }
            "for" => self.for_loop()?,
            "case" => self.case()?,
            "[[" => {
                let test = self.test_or()?;
                self.expect_keyword("]]")?;
                Compound::Test(test)
            }
            _ => return Err(self.error(&format!("`{word}` is not supported by this shell"))),
        }))
    }

    fn close(&mut self, sign: &str) -> Parsed<()> {
        self.newlines()?;
        if self.take(sign) { Ok(()) } else { Err(self.error(&format!("`{sign}` is missing"))) }
    }

    fn body(&mut self) -> Parsed<List> {
        self.newlines()?;
        if self.take(";") {
            self.newlines()?;
        }
        self.expect_keyword("do")?;
        let list = self.commands()?;
        self.expect_keyword("done")?;
        Ok(list)
    }

    fn conditional(&mut self) -> Parsed<Compound> {
        let mut arms = Vec::new();
        loop {
            let condition = self.commands()?;
            self.expect_keyword("then")?;
            arms.push((condition, self.commands()?));
            if self.take_keyword("elif") {
                continue;
            }
            let otherwise = if self.take_keyword("else") { self.commands()? } else { Vec::new() };
            self.expect_keyword("fi")?;
            return Ok(Compound::If(arms, otherwise));
        }
    }

    fn for_loop(&mut self) -> Parsed<Compound> {
        self.blanks();
        if self.looking_at("((") {
            let text = self.arithmetic_text()?.ok_or_else(|| self.unexpected_token())?;
            let parts: Vec<Word> = text.split(';').map(parse_text).collect::<Parsed<_>>()?;
            let parts = parts.try_into().map_err(|_| self.error("`for ((` needs three parts"))?;
            return Ok(Compound::ForArithmetic(parts, self.body()?));
        }
        let name = self.name();
        if name.is_empty() {
            return Err(self.unexpected_token());
        }
        self.newlines()?;
        let mut words = None;
        if self.take_keyword("in") {
            let mut found = Vec::new();
            self.blanks();
            while let Some(word) = self.word()? {
                found.push(word);
                self.blanks();
            }
            words = Some(found);
        }
        Ok(Compound::For(name, words, self.body()?))
    }

    fn case(&mut self) -> Parsed<Compound> {
        self.blanks();
        let word = self.word()?.ok_or_else(|| self.unexpected_token())?;
        self.newlines()?;
        self.expect_keyword("in")?;
        let mut arms = Vec::new();
        loop {
            self.newlines()?;
            if self.take_keyword("esac") {
                return Ok(Compound::Case(word, arms));
            }
            self.take("(");
            let mut patterns = Vec::new();
            loop {
                self.blanks();
                patterns.push(self.word()?.ok_or_else(|| self.unexpected_token())?);
                self.blanks();
                if self.take(")") {
                    break;
                }
                if !self.take("|") {
                    return Err(self.unexpected_token());
                }
            }
            let body = self.list()?;
            self.blanks();
            let ends = [(";;&", ArmEnd::TestNext), (";;", ArmEnd::Leave), (";&", ArmEnd::FallThrough)];
            let end = ends.into_iter().find(|(sign, _)| self.take(sign));
            arms.push(Arm { patterns, body, end: end.map_or(ArmEnd::Leave, |(_, end)| end) });
            if end.is_none() {
                self.newlines()?;
                self.expect_keyword("esac")?;
                return Ok(Compound::Case(word, arms));
            }
        }
    }

    fn test_or(&mut self) -> Parsed<Test> {
        self.enter()?;
        let mut left = self.test_and()?;
        loop {
            self.newlines()?;
            if !self.take("||") {
                break;
            }
            left = Test::Or(Box::new(left), Box::new(self.test_and()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn test_and(&mut self) -> Parsed<Test> {
        let mut left = self.test_one()?;
        loop {
            self.newlines()?;
            if !self.take("&&") {
                return Ok(left);
            }
            left = Test::And(Box::new(left), Box::new(self.test_one()?));
        }
    }

    fn test_one(&mut self) -> Parsed<Test> {
        self.newlines()?;
        if self.take_keyword("!") {
            return Ok(Test::Not(Box::new(self.test_one()?)));
        }
        if self.take("(") {
            let test = self.test_or()?;
            self.close(")")?;
            return Ok(test);
        }
        let first = self.word()?.ok_or_else(|| self.unexpected_token())?;
        self.blanks();
        let unary = plain(&first).filter(|text| text.len() == 2 && text.starts_with('-')).map(str::to_owned);
        let operator = self.test_operator();
        if let Some(operator) = operator {
            self.blanks();
            let second = if operator == "=~" {
                self.pattern_word()?
            } else {
                self.word()?.ok_or_else(|| self.unexpected_token())?
            };
            return Ok(Test::Binary(first, operator, second));
        }
        match unary {
            Some(operator) if !self.looking_at("]]") => {
                Ok(Test::Unary(operator, self.word()?.ok_or_else(|| self.unexpected_token())?))
            }
            _ => Ok(Test::Unary("-n".to_owned(), first)),
        }
    }

    fn test_operator(&mut self) -> Option<String> {
        if let Some(sign @ ('<' | '>')) = self.peek() {
            self.position += 1;
            return Some(sign.to_string());
        }
        let word = self.keyword().filter(|word| BINARY.contains(&word.as_str()))?;
        self.position += word.len();
        Some(word)
    }

    /// The right side of `=~`, in which parentheses and bars are signs of the pattern.
    fn pattern_word(&mut self) -> Parsed<Word> {
        let mut parts = Vec::new();
        let mut depth = 0_i32;
        loop {
            match self.peek() {
                Some(sign @ ('(' | ')' | '|' | '<' | '>' | ';' | '&')) => {
                    depth += i32::from(sign == '(') - i32::from(sign == ')');
                    if depth < 0 || (sign == '&' && self.looking_at("&&")) {
                        return Ok(parts);
                    }
                    self.position += 1;
                    parts.push(Part::Literal(sign.to_string()));
                }
                Some(sign @ (' ' | '\t')) if depth > 0 => {
                    self.position += 1;
                    parts.push(Part::Literal(sign.to_string()));
                }
                _ => match self.word()? {
                    Some(word) => parts.extend(word),
                    None => return Ok(parts),
                },
            }
        }
    }
}
