//! The parser of awk expressions, from the loosest operators to the tightest.

use std::rc::Rc;

use super::lex::{Token, fault};
use super::parse::{MAX_DEPTH, Parser};
use super::syntax::{BUILTINS, Builtin, Expression, Operator, Pattern, Source};
use crate::regular::{Flavor, Regular};
use crate::shell::Outcome;

impl Parser {
    pub fn expression(&mut self) -> Outcome<Expression> {
        self.enter()?;
        let left = self.conditional()?;
        let operators = [
            ("=", None),
            ("+=", Some(Operator::Add)),
            ("-=", Some(Operator::Subtract)),
            ("*=", Some(Operator::Multiply)),
            ("/=", Some(Operator::Divide)),
            ("%=", Some(Operator::Remainder)),
            ("^=", Some(Operator::Power)),
        ];
        let mut expression = left;
        if matches!(expression, Expression::Variable(_) | Expression::Field(_) | Expression::Entry(..)) {
            for (sign, operator) in operators {
                if self.take(sign) {
                    self.newlines();
                    expression =
                        Expression::Assign(operator, Box::new(expression), Box::new(self.expression()?));
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(expression)
    }

    fn enter(&mut self) -> Outcome<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { fault("nested too deep") } else { Ok(()) }
    }

    fn conditional(&mut self) -> Outcome<Expression> {
        let condition = self.or()?;
        if !self.take("?") {
            return Ok(condition);
        }
        self.newlines();
        let then = self.expression()?;
        self.newlines();
        self.expect(":")?;
        self.newlines();
        Ok(Expression::Conditional(Box::new([condition, then, self.expression()?])))
    }

    fn or(&mut self) -> Outcome<Expression> {
        let mut left = self.and()?;
        while self.take("||") {
            self.newlines();
            left = Expression::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Outcome<Expression> {
        let mut left = self.membership()?;
        while self.take("&&") {
            self.newlines();
            left = Expression::And(Box::new([left, self.membership()?]));
        }
        Ok(left)
    }

    fn membership(&mut self) -> Outcome<Expression> {
        let mut left = self.matching()?;
        while !self.no_in && self.take("in") {
            left = Expression::In(vec![left], self.array_name()?);
        }
        Ok(left)
    }

    fn matching(&mut self) -> Outcome<Expression> {
        let mut left = self.comparison()?;
        loop {
            let is_negated = self.is("!~");
            if !is_negated && !self.is("~") {
                return Ok(left);
            }
            self.position += 1;
            left = Expression::Match(is_negated, Box::new([left, self.comparison()?]));
        }
    }

    fn comparison(&mut self) -> Outcome<Expression> {
        let left = self.concatenation()?;
        let operators = [
            ("<=", Operator::LessOrEqual),
            ("<", Operator::Less),
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            (">=", Operator::GreaterOrEqual),
            (">", Operator::Greater),
        ];
        for (sign, operator) in operators {
            if (sign != ">" || !self.no_greater) && self.take(sign) {
                return Ok(Expression::Binary(operator, Box::new([left, self.concatenation()?])));
            }
        }
        // `"command" | getline`
        let mut left = left;
        while self.is("|") && self.tokens.get(self.position + 1) == Some(&Token::Sign("getline")) {
            self.position += 2;
            let target = self.getline_target()?;
            left = Expression::Getline { source: Source::Command(Box::new(left)), target };
        }
        Ok(left)
    }

    pub fn concatenation(&mut self) -> Outcome<Expression> {
        let first = self.additive()?;
        let mut parts = vec![first];
        while let Token::Number(_)
        | Token::Text(_)
        | Token::Name(_)
        | Token::Function(_)
        | Token::Regular(_)
        | Token::Sign("(" | "$" | "++" | "--") = self.peek()
        {
            parts.push(self.additive()?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Expression::Concatenation(parts),
        })
    }

    fn additive(&mut self) -> Outcome<Expression> {
        self.binary(&[("+", Operator::Add), ("-", Operator::Subtract)], Self::multiplicative)
    }

    fn multiplicative(&mut self) -> Outcome<Expression> {
        let operators = [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];
        self.binary(&operators, Self::unary)
    }

    /// Operands of operators that bind equally, from the left.
    fn binary(
        &mut self,
        operators: &[(&str, Operator)],
        operand: fn(&mut Self) -> Outcome<Expression>,
    ) -> Outcome<Expression> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            left = Expression::Binary(*operator, Box::new([left, operand(self)?]));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Outcome<Expression> {
        let wrap: fn(Box<Expression>) -> Expression = if self.take("!") {
            Expression::Not
        } else if self.take("-") {
            Expression::Negate
        } else if self.take("+") {
            Expression::ToNumber
        } else {
            return self.power();
        };
        self.enter()?;
        let inner = self.unary()?;
        self.depth -= 1;
        Ok(wrap(Box::new(inner)))
    }

    fn power(&mut self) -> Outcome<Expression> {
        let left = self.postfix()?;
        if !self.take("^") {
            return Ok(left);
        }
        // The right side binds first, and may have a sign.
        Ok(Expression::Binary(Operator::Power, Box::new([left, self.unary()?])))
    }

    fn postfix(&mut self) -> Outcome<Expression> {
        for (sign, by) in [("++", 1.0), ("--", -1.0)] {
            if self.take(sign) {
                let target = Box::new(self.primary()?);
                return Ok(Expression::Step { target, by, is_prefix: true });
            }
        }
        let value = self.primary()?;
        if matches!(value, Expression::Variable(_) | Expression::Field(_) | Expression::Entry(..)) {
            for (sign, by) in [("++", 1.0), ("--", -1.0)] {
                if self.take(sign) {
                    return Ok(Expression::Step { target: Box::new(value), by, is_prefix: false });
                }
            }
        }
        Ok(value)
    }

    fn primary(&mut self) -> Outcome<Expression> {
        let token = self.peek().clone();
        self.position += 1;
        match token {
            Token::Number(number) => Ok(Expression::Number(number)),
            Token::Text(text) => Ok(Expression::Text(text.into())),
            Token::Regular(source) => {
                let regular = Regular::new(&source, Flavor::Awk, false)?;
                Ok(Expression::Regular(Rc::new(Pattern { regular })))
            }
            Token::Name(name) if name == "length" => Ok(Expression::Builtin(Builtin::Length, Vec::new())),
            Token::Name(name) => match self.name(&name) {
                name if self.take("[") => Ok(Expression::Entry(name, self.list("]")?)),
                name => Ok(Expression::Variable(name)),
            },
            Token::Function(name) => {
                self.expect("(")?;
                let arguments = self.list(")")?;
                Ok(match BUILTINS.iter().find(|(known, _)| *known == name) {
                    Some((_, builtin)) => Expression::Builtin(*builtin, arguments),
                    None => Expression::Call(name, arguments),
                })
            }
            Token::Sign("$") => {
                let inner = if self.is("++") || self.is("--") { self.postfix()? } else { self.primary()? };
                Ok(Expression::Field(Box::new(inner)))
            }
            Token::Sign("-") => Ok(Expression::Negate(Box::new(self.primary()?))),
            Token::Sign("!") => Ok(Expression::Not(Box::new(self.primary()?))),
            Token::Sign("(") => self.parenthesis(),
            Token::Sign("getline") => self.getline(),
            _ => {
                self.position -= 1;
                fault(format!("unexpected {}", self.display_token()))
            }
        }
    }

    /// A group, or the subscripts of an array before `in`.
    fn parenthesis(&mut self) -> Outcome<Expression> {
        self.enter()?;
        let mut list = self.list(")")?;
        self.depth -= 1;
        if list.len() > 1 && self.take("in") {
            return Ok(Expression::In(list, self.array_name()?));
        }
        match list.len() {
            1 => Ok(Expression::Group(Box::new(list.remove(0)))),
            _ => fault("one expression expected in the parentheses"),
        }
    }

    /// `getline`, of the input or of a file.
    fn getline(&mut self) -> Outcome<Expression> {
        let target = self.getline_target()?;
        let source = if self.take("<") { Source::File(Box::new(self.primary()?)) } else { Source::Input };
        Ok(Expression::Getline { source, target })
    }

    fn getline_target(&mut self) -> Outcome<Option<Box<Expression>>> {
        Ok(match self.peek() {
            Token::Name(_) | Token::Sign("$") => Some(Box::new(self.primary()?)),
            _ => None,
        })
    }
}
