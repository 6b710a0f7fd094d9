//! Reads and calculates an expression in one pass, by recursive descent: a function for each level of precedence.
//!
//! ```text
//! sum      = product (("+" | "-") product)*
//! product  = signed (("*" | "/" | "//" | "%") signed)*
//! signed   = ("-" | "+") signed | power
//! power    = postfix ("^" signed)?
//! postfix  = primary ("!" | "%")*
//! primary  = number | name | name "(" (sum ("," sum)*)? ")" | "(" sum ")"
//! ```

use num_bigint::BigInt;

use crate::effort::Effort;
use crate::functions;
use crate::number::{Failure, Number, Outcome};
use crate::tokens::{Placed, Token, cut};

/// Deeper nesting is no expression that somebody wrote, and would exhaust the stack.
const MAX_DEPTH: u32 = 100;

/// Why an expression has no result.
#[derive(Debug, PartialEq)]
pub enum Problem {
    /// It cannot have one. In words, with the place.
    Wrong(String),
    /// More digits may decide it.
    Undecided(String),
    /// It has one, but not within the work that one call may do.
    TooMuchWork,
}

type Read<T = Number> = Result<T, Problem>;

impl Problem {
    pub fn wrong(place: usize, message: impl std::fmt::Display) -> Self {
        Self::Wrong(format!("at character {place}: {message}"))
    }

    /// What an operation at a place failed of, in words for one that more digits may decide.
    pub fn of(failure: Failure, place: usize, undecided: &str) -> Self {
        match failure {
            Failure::Impossible(message) => Self::wrong(place, message),
            Failure::Undecided => Self::Undecided(format!("at character {place}: {undecided}")),
            Failure::TooMuchWork => Self::TooMuchWork,
        }
    }
}

/// Calculates the expression.
pub fn evaluate(text: &str, effort: &Effort) -> Read {
    let mut reader = Reader { tokens: cut(text, effort)?, at: 0, depth: 0, effort };
    let result = reader.sum()?;
    match reader.next() {
        Placed { token: Token::End, .. } => Ok(result),
        other => Err(unexpected(&other, "an operator or the end")),
    }
}

struct Reader<'e> {
    /// Ends with `Token::End`, which is never passed.
    tokens: Vec<Placed>,
    at: usize,
    depth: u32,
    effort: &'e Effort,
}

/// A product, and whether it is nothing but a percentage.
struct Term {
    number: Number,
    is_percentage: bool,
}

impl Reader<'_> {
    fn sum(&mut self) -> Read {
        let Term { mut number, mut is_percentage } = self.product()?;
        while let Some((sign, place)) = self.take(&["+", "-"]) {
            let right = self.product()?;
            // Of 1, a percentage is what it is alone, so both readings of `1 + 5%` are 1.05.
            let is_one = number.as_whole().is_some_and(|whole| *whole == BigInt::from(1));
            if right.is_percentage && !is_percentage && !is_one {
                let message =
                    "a percentage of what? Write `100 * 115%` for 15% more, or `100 + (15%)` for 100.15";
                return Err(Problem::wrong(place, message));
            }
            number = self.settle(
                place,
                match sign {
                    "+" => number.add(&right.number, self.effort),
                    _ => number.subtract(&right.number, self.effort),
                },
            )?;
            is_percentage &= right.is_percentage;
        }
        Ok(number)
    }

    fn product(&mut self) -> Read<Term> {
        let mut term = self.signed()?;
        while let Some((sign, place)) = self.take(&["*", "/", "//", "%"]) {
            let right = self.signed()?.number;
            let number = match sign {
                "*" => term.number.multiply(&right, self.effort),
                "/" => term.number.divide(&right, self.effort),
                "//" => {
                    term.number.divide(&right, self.effort).and_then(|quotient| quotient.floor(self.effort))
                }
                _ => term.number.remainder(&right, self.effort),
            };
            term = Term { number: self.settle(place, number)?, is_percentage: false };
        }
        Ok(term)
    }

    fn signed(&mut self) -> Read<Term> {
        match self.take(&["+", "-"]) {
            Some(("-", _)) => {
                self.deeper(Self::signed).map(|term| Term { number: term.number.negate(), ..term })
            }
            Some(_) => self.deeper(Self::signed),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Read<Term> {
        let base = self.postfix()?;
        let Some((_, place)) = self.take(&["^"]) else { return Ok(base) };
        let exponent = self.deeper(Self::signed)?.number;
        let number = self.settle(place, base.number.power(&exponent, self.effort))?;
        Ok(Term { number, is_percentage: false })
    }

    fn postfix(&mut self) -> Read<Term> {
        let mut term = Term { number: self.primary()?, is_percentage: false };
        loop {
            if let Some((_, place)) = self.take(&["!"]) {
                if self.peek_sign() == Some("!") {
                    return Err(Problem::wrong(
                        place,
                        "`!!` has two meanings: write `(n!)!` for a factorial of a factorial",
                    ));
                }
                term = Term {
                    number: self.settle(place, term.number.factorial(self.effort))?,
                    is_percentage: false,
                };
            } else if self.is_percent_sign()? {
                let (_, place) = self.take(&["%"]).unwrap_or(("%", 0));
                let number = self.settle(place, term.number.divide(&Number::whole(100), self.effort))?;
                term = Term { number, is_percentage: true };
            } else {
                return Ok(term);
            }
        }
    }

    fn primary(&mut self) -> Read {
        let token = self.next();
        match token.token {
            Token::Number(value) => Ok(Number::Exact(value)),
            Token::Name(name) => self.function(&name, token.place),
            Token::Sign("(") => {
                let number = self.deeper(Self::sum)?;
                self.close(token.place)?;
                Ok(number)
            }
            _ => Err(unexpected(&token, "a number, a function or `(`")),
        }
    }

    fn function(&mut self, name: &str, place: usize) -> Read {
        if self.take(&["("]).is_none() {
            if let Some(constant) = functions::constant(name, self.effort) {
                return self.settle(place, constant);
            }
            return Err(Problem::wrong(
                place,
                format!(
                    "`{name}` has no value: functions are called as in `sqrt(2)`, and there are {}",
                    functions::KNOWN
                ),
            ));
        }
        let arguments = self.arguments(place)?;
        match functions::call(name, &arguments, self.effort) {
            Some(outcome) => self.settle(place, outcome),
            None => {
                Err(Problem::wrong(place, format!("there is no function `{name}`, but {}", functions::KNOWN)))
            }
        }
    }

    fn arguments(&mut self, place: usize) -> Read<Vec<Number>> {
        let mut arguments = Vec::new();
        if self.take(&[")"]).is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.deeper(Self::sum)?);
            if self.take(&[","]).is_none() {
                self.close(place)?;
                return Ok(arguments);
            }
        }
    }

    fn close(&mut self, opened_at: usize) -> Read<()> {
        match self.next() {
            Placed { token: Token::Sign(")"), .. } => Ok(()),
            other => Err(unexpected(&other, &format!("`)` for what began at character {opened_at}"))),
        }
    }

    /// `%` is a remainder between two operands with a space on both sides, else a percentage. Before a sign both could be
    /// meant, and the space decides as it does for a reader: `10% - 5` and `7 % -3`. What a reader could take for either
    /// is refused.
    fn is_percent_sign(&self) -> Read<bool> {
        if self.peek_sign() != Some("%") {
            return Ok(false);
        }
        let sign = &self.tokens[self.at];
        let next = &self.tokens[(self.at + 1).min(self.tokens.len() - 1)];
        match &next.token {
            Token::Number(_) | Token::Name(_) | Token::Sign("(") if sign.is_apart && next.is_apart => {
                Ok(false)
            }
            Token::Number(_) | Token::Name(_) | Token::Sign("(") => Err(Problem::wrong(
                sign.place,
                "`%` has two meanings here: write `50% * 80` for 50% of 80, or `50 % 80` with spaces for the remainder",
            )),
            Token::Sign(minus @ ("+" | "-")) if !sign.is_apart && !next.is_apart => Err(Problem::wrong(
                sign.place,
                format!(
                    "`%` has two meanings here: write `5% {minus} 2` with spaces for a percentage, or `5 % {minus}2` for the \
                     remainder"
                ),
            )),
            Token::Sign("+" | "-") => Ok(!sign.is_apart),
            Token::Sign("%") if !next.is_apart => Err(Problem::wrong(
                sign.place,
                "`%%` has two meanings: write `(10%) % 3` for the remainder of a percentage, or `10 % 3` for that of the number",
            )),
            Token::Sign(_) | Token::End => Ok(true),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == MAX_DEPTH {
            return Err(Problem::wrong(
                self.tokens[self.at].place,
                format!("nested more than {MAX_DEPTH} deep: calculate its parts"),
            ));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn settle(&self, place: usize, outcome: Outcome) -> Read {
        outcome.map_err(|failure| {
            Problem::of(
                failure,
                place,
                "the value is too close to call, because a number before it is not exact: round that first, as in `round(x, 30)`",
            )
        })
    }

    fn next(&mut self) -> Placed {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn peek_sign(&self) -> Option<&'static str> {
        match self.tokens[self.at].token {
            Token::Sign(sign) => Some(sign),
            _ => None,
        }
    }

    /// Passes the next token, if it is one of these signs.
    fn take(&mut self, signs: &[&str]) -> Option<(&'static str, usize)> {
        let sign = self.peek_sign().filter(|sign| signs.contains(sign))?;
        Some((sign, self.next().place))
    }
}

fn unexpected(found: &Placed, expected: &str) -> Problem {
    let what = match &found.token {
        Token::End => {
            return Problem::wrong(found.place, format!("the expression ends where {expected} is expected"));
        }
        Token::Sign(",") => "`,` (numbers are written without it: `1_000` or `1000`)".to_owned(),
        Token::Sign(sign) => format!("`{sign}`"),
        Token::Number(_) => "a number".to_owned(),
        Token::Name(name) => format!("`{name}`"),
    };
    Problem::wrong(found.place, format!("found {what} where {expected} is expected"))
}
