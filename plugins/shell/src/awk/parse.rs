//! The parser of awk programs.

use std::collections::HashMap;
use std::rc::Rc;

use super::lex::{Token, fault, lex};
use super::syntax::{Expression, Function, Name, Program, Redirect, Statement, When};
use crate::shell::Outcome;

/// Deeper nesting would exhaust the stack.
pub const MAX_DEPTH: u32 = 150;

pub struct Parser {
    pub tokens: Vec<Token>,
    pub position: usize,
    pub depth: u32,
    globals: HashMap<String, usize>,
    locals: HashMap<String, usize>,
    program: Program,
    /// Whether `>` is a redirection, as in `print a > "file"`.
    pub no_greater: bool,
    /// Whether `in` ends an expression, as in `for (x in a)`.
    pub no_in: bool,
}

pub fn parse(source: &str, names: &[&str]) -> Outcome<Program> {
    let tokens = lex(source)?;
    let mut parser = Parser {
        tokens,
        position: 0,
        depth: 0,
        globals: HashMap::new(),
        locals: HashMap::new(),
        program: Program::default(),
        no_greater: false,
        no_in: false,
    };
    for name in names {
        parser.name(name);
    }
    parser.newlines();
    while *parser.peek() != Token::End {
        parser.item()?;
        while parser.take(";") || *parser.peek() == Token::Newline {
            parser.newlines();
        }
    }
    Ok(parser.program)
}

impl Parser {
    pub fn peek(&self) -> &Token {
        self.tokens.get(self.position).unwrap_or(&Token::End)
    }

    pub fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    pub fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.position += usize::from(found);
        found
    }

    pub fn expect(&mut self, sign: &str) -> Outcome<()> {
        if self.take(sign) {
            Ok(())
        } else {
            fault(format!("`{sign}` expected, and there is {}", self.display_token()))
        }
    }

    pub fn display_token(&self) -> String {
        match self.peek() {
            Token::Number(number) => format!("`{number}`"),
            Token::Text(text) => format!("\"{text}\""),
            Token::Regular(source) => format!("/{source}/"),
            Token::Name(name) | Token::Function(name) => format!("`{name}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Newline => "the end of the line".to_owned(),
            Token::End => "the end".to_owned(),
        }
    }

    pub fn newlines(&mut self) {
        while *self.peek() == Token::Newline {
            self.position += 1;
        }
    }

    pub fn name(&mut self, name: &str) -> Name {
        if let Some(index) = self.locals.get(name) {
            return Name::Local(*index);
        }
        if let Some(index) = self.globals.get(name) {
            return Name::Global(*index);
        }
        let index = self.program.globals.len();
        self.program.globals.push(name.to_owned());
        self.globals.insert(name.to_owned(), index);
        Name::Global(index)
    }

    fn item(&mut self) -> Outcome<()> {
        if self.take("function") || self.take("func") {
            return self.function();
        }
        let when = if self.take("BEGIN") {
            When::Begin
        } else if self.take("END") {
            When::End
        } else if self.is("{") {
            When::Always
        } else {
            let first = self.expression()?;
            if self.take(",") {
                self.newlines();
                let last = self.expression()?;
                self.program.ranges += 1;
                When::Range(first, last, self.program.ranges - 1)
            } else {
                When::If(first)
            }
        };
        let body = if self.is("{") { Some(self.block()?) } else { None };
        if body.is_none() && matches!(when, When::Begin | When::End) {
            return fault("`{` expected");
        }
        self.program.rules.push((when, body));
        Ok(())
    }

    fn function(&mut self) -> Outcome<()> {
        let (Token::Name(name) | Token::Function(name)) = self.peek().clone() else {
            return fault("the name of a function expected");
        };
        self.position += 1;
        self.expect("(")?;
        while let Token::Name(parameter) = self.peek().clone() {
            self.position += 1;
            self.locals.insert(parameter, self.locals.len());
            self.take(",");
            self.newlines();
        }
        self.expect(")")?;
        self.newlines();
        let body = self.block()?;
        let parameters = std::mem::take(&mut self.locals).len();
        self.program.functions.insert(name, Rc::new(Function { parameters, body }));
        Ok(())
    }

    fn block(&mut self) -> Outcome<Statement> {
        self.expect("{")?;
        let mut statements = Vec::new();
        loop {
            while self.take(";") || *self.peek() == Token::Newline {
                self.newlines();
            }
            if self.take("}") {
                return Ok(Statement::Block(statements));
            }
            statements.push(self.statement()?);
        }
    }

    /// The end of a simple statement.
    fn end(&mut self) -> Outcome<()> {
        if self.take(";") || *self.peek() == Token::Newline {
            self.newlines();
            return Ok(());
        }
        if self.is("}") || *self.peek() == Token::End {
            Ok(())
        } else {
            fault(format!("unexpected {}", self.display_token()))
        }
    }

    fn body(&mut self) -> Outcome<Box<Statement>> {
        self.newlines();
        if self.take(";") {
            return Ok(Box::new(Statement::Block(Vec::new())));
        }
        Ok(Box::new(self.statement()?))
    }

    fn condition(&mut self) -> Outcome<Expression> {
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        Ok(condition)
    }

    fn statement(&mut self) -> Outcome<Statement> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fault("nested too deep");
        }
        let statement = self.statement_at()?;
        self.depth -= 1;
        Ok(statement)
    }

    fn statement_at(&mut self) -> Outcome<Statement> {
        if self.is("{") {
            return self.block();
        }
        if self.take("if") {
            let condition = self.condition()?;
            let then = self.body()?;
            let before = self.position;
            while self.take(";") || *self.peek() == Token::Newline {
                self.newlines();
            }
            if self.take("else") {
                return Ok(Statement::If(condition, then, Some(self.body()?)));
            }
            self.position = before;
            return Ok(Statement::If(condition, then, None));
        }
        if self.take("while") {
            let condition = self.condition()?;
            return Ok(Statement::While(condition, self.body()?));
        }
        if self.take("do") {
            let body = self.body()?;
            while self.take(";") || *self.peek() == Token::Newline {
                self.newlines();
            }
            self.expect("while")?;
            let condition = self.condition()?;
            self.end()?;
            return Ok(Statement::DoWhile(body, condition));
        }
        if self.take("for") {
            return self.for_loop();
        }
        let statement = self.simple()?;
        self.end()?;
        Ok(statement)
    }

    fn for_loop(&mut self) -> Outcome<Statement> {
        self.expect("(")?;
        if let [Token::Name(variable), Token::Sign("in"), Token::Name(array), Token::Sign(")"), ..] =
            &self.tokens[self.position..]
        {
            let (variable, array) = (variable.clone(), array.clone());
            self.position += 4;
            let variable = Expression::Variable(self.name(&variable));
            let array = self.name(&array);
            return Ok(Statement::ForIn(variable, array, self.body()?));
        }
        let first = if self.is(";") { None } else { Some(Box::new(self.simple()?)) };
        self.expect(";")?;
        self.newlines();
        let condition = if self.is(";") { None } else { Some(self.expression()?) };
        self.expect(";")?;
        self.newlines();
        let step = if self.is(")") { None } else { Some(Box::new(self.simple()?)) };
        self.expect(")")?;
        Ok(Statement::For(first, condition, step, self.body()?))
    }

    pub fn array_name(&mut self) -> Outcome<Name> {
        let Token::Name(name) = self.peek().clone() else { return fault("the name of an array expected") };
        self.position += 1;
        Ok(self.name(&name))
    }

    fn has_operand(&self) -> bool {
        !matches!(self.peek(), Token::Newline | Token::End | Token::Sign(";" | "}"))
    }

    fn simple(&mut self) -> Outcome<Statement> {
        for (keyword, statement) in [
            ("next", Statement::Next),
            ("nextfile", Statement::NextFile),
            ("break", Statement::Break),
            ("continue", Statement::Continue),
        ] {
            if self.take(keyword) {
                return Ok(statement);
            }
        }
        if self.take("exit") {
            return Ok(Statement::Exit(if self.has_operand() { Some(self.expression()?) } else { None }));
        }
        if self.take("return") {
            return Ok(Statement::Return(if self.has_operand() { Some(self.expression()?) } else { None }));
        }
        if self.take("delete") {
            let name = self.array_name()?;
            let subscript = if self.take("[") { Some(self.list("]")?) } else { None };
            return Ok(Statement::Delete(name, subscript));
        }
        if self.is("print") || self.is("printf") {
            return self.print();
        }
        Ok(Statement::Expression(self.expression()?))
    }

    fn print(&mut self) -> Outcome<Statement> {
        let is_format = self.is("printf");
        self.position += 1;
        let was = std::mem::replace(&mut self.no_greater, true);
        let mut arguments = Vec::new();
        if self.has_operand() && !self.is(">") && !self.is(">>") && !self.is("|") {
            let start = self.position;
            if self.take("(") {
                // A list in parentheses, unless an operator follows.
                self.no_greater = false;
                let list = self.list(")")?;
                self.no_greater = true;
                if !self.has_operand() || self.is(">") || self.is(">>") || self.is("|") {
                    arguments = list;
                } else {
                    self.position = start;
                }
            }
            if arguments.is_empty() {
                arguments.push(self.expression()?);
                while self.take(",") {
                    self.newlines();
                    arguments.push(self.expression()?);
                }
            }
        }
        let kinds = [(">>", Redirect::Append), (">", Redirect::Write), ("|", Redirect::Command)];
        let kind = kinds.into_iter().find(|(sign, _)| self.take(sign)).map(|(_, kind)| kind);
        let target = match kind {
            Some(kind) => Some((kind, self.concatenation()?)),
            None => None,
        };
        self.no_greater = was;
        Ok(Statement::Print { arguments, is_format, target })
    }

    /// Expressions up to a sign that closes the list.
    pub fn list(&mut self, end: &str) -> Outcome<Vec<Expression>> {
        let was = (std::mem::take(&mut self.no_greater), std::mem::take(&mut self.no_in));
        let mut list = Vec::new();
        self.newlines();
        while !self.take(end) {
            list.push(self.expression()?);
            self.newlines();
            if !self.is(end) {
                self.expect(",")?;
            }
            self.newlines();
        }
        (self.no_greater, self.no_in) = was;
        Ok(list)
    }
}
