//! `[[ ]]`, `test` and `[`.

use crate::files::{Kind, Metadata};
use crate::regular::{Flavor, Regular};
use crate::shell::{Outcome, Shell, Stop, Value, fail};
use crate::stream::Streams;
use crate::syntax::Test;

/// Nesting of parentheses and `!`.
const MAX_DEPTH: u32 = 60;

impl Shell {
    pub(super) fn test(&mut self, test: &Test, io: &Streams) -> Outcome<bool> {
        match test {
            Test::Not(inner) => Ok(!self.test(inner, io)?),
            Test::And(left, right) => Ok(self.test(left, io)? && self.test(right, io)?),
            Test::Or(left, right) => Ok(self.test(left, io)? || self.test(right, io)?),
            Test::Unary(operator, word) => {
                let text = self.expand_text(word, io)?;
                unary(self, operator, &text)
            }
            Test::Binary(left, operator, right) => {
                let left = self.expand_text(left, io)?;
                match operator.as_str() {
                    "=" | "==" | "!=" => {
                        let pattern = self.expand_pattern(right, io)?;
                        Ok(self.matches(&pattern, &left)? == (operator != "!="))
                    }
                    "=~" => {
                        let pattern = self.expand_regex(right, io)?;
                        self.match_regex(&pattern, &left)
                    }
                    "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                        let right = self.expand_text(right, io)?;
                        let (left, right) = (self.arithmetic(&left)?, self.arithmetic(&right)?);
                        Ok(compare(operator, left, right))
                    }
                    _ => {
                        let right = self.expand_text(right, io)?;
                        binary(self, &left, operator, &right)
                    }
                }
            }
        }
    }

    fn match_regex(&mut self, pattern: &str, text: &str) -> Outcome<bool> {
        let regular = Regular::new(pattern, Flavor::Extended, self.state.options.ignores_case)?;
        let groups = regular.groups(text.as_bytes(), 0);
        let texts = groups
            .iter()
            .flatten()
            .map(|group| group.map_or("", |(start, end)| &text[start..end]).to_owned());
        self.variable_mut("BASH_REMATCH").value = Some(Value::List(texts.enumerate().collect()));
        Ok(groups.is_some())
    }
}

fn compare(operator: &str, left: i64, right: i64) -> bool {
    match operator {
        "-eq" => left == right,
        "-ne" => left != right,
        "-lt" => left < right,
        "-le" => left <= right,
        "-gt" => left > right,
        _ => left >= right,
    }
}

fn number(text: &str) -> Outcome<i64> {
    text.trim().parse().map_err(|_| Stop::Fail(2, format!("{text}: integer expression expected")))
}

fn unary(shell: &mut Shell, operator: &str, text: &str) -> Outcome<bool> {
    let metadata =
        |shell: &Shell| -> Option<Metadata> { shell.files.metadata(&shell.state.current, text).ok() };
    Ok(match operator {
        "-n" => !text.is_empty(),
        "-z" => text.is_empty(),
        "-e" | "-a" => text == "/dev/null" || metadata(shell).is_some(),
        "-f" => metadata(shell).is_some_and(|found| found.is_file()),
        "-d" => metadata(shell).is_some_and(|found| found.is_folder()),
        "-r" | "-w" => metadata(shell).is_some(),
        "-x" => metadata(shell).is_some_and(|found| found.is_folder() || is_program(shell, text)),
        "-s" => metadata(shell).is_some_and(|found| found.bytes > 0),
        "-h" | "-L" => {
            let place = shell.files.resolve(&shell.state.current, text).ok();
            place.and_then(|place| place.link_metadata().ok()).is_some_and(|found| found.kind == Kind::Link)
        }
        "-v" => match text.split_once('[') {
            Some((name, key)) => shell.entry(name, key.trim_end_matches(']'))?.is_some(),
            None => shell.variable(text).is_some_and(|variable| variable.value.is_some()),
        },
        "-t" | "-p" | "-S" | "-b" | "-c" | "-u" | "-g" | "-k" | "-O" | "-G" | "-N" => false,
        _ => return Err(Stop::Fail(2, format!("{operator}: unary operator expected"))),
    })
}

fn is_program(shell: &Shell, path: &str) -> bool {
    shell.files.resolve(&shell.state.current, path).is_ok_and(|place| place.is_program())
}

fn binary(shell: &mut Shell, left: &str, operator: &str, right: &str) -> Outcome<bool> {
    let time = |path: &str| shell.files.metadata(&shell.state.current, path).map(|found| found.modified).ok();
    Ok(match operator {
        "=" | "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        ">" => left > right,
        "-nt" => time(left) > time(right),
        "-ot" => time(left) < time(right),
        "-ef" => {
            shell.files.absolute(&shell.state.current, left)
                == shell.files.absolute(&shell.state.current, right)
        }
        "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => compare(operator, number(left)?, number(right)?),
        _ => return Err(Stop::Fail(2, format!("{operator}: binary operator expected"))),
    })
}

fn is_binary(text: &str) -> bool {
    matches!(
        text,
        "=" | "==" | "!=" | "<" | ">" | "-nt" | "-ot" | "-ef" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"
    )
}

/// Evaluates the arguments of `test`.
pub fn evaluate(shell: &mut Shell, arguments: &[String]) -> Outcome<bool> {
    if arguments.is_empty() {
        return Ok(false);
    }
    let mut arguments = Arguments { shell, list: arguments, position: 0, depth: 0 };
    let holds = arguments.or()?;
    match arguments.list.get(arguments.position) {
        None => Ok(holds),
        Some(rest) => Err(Stop::Fail(2, format!("{rest}: unexpected argument"))),
    }
}

struct Arguments<'a> {
    shell: &'a mut Shell,
    list: &'a [String],
    position: usize,
    depth: u32,
}

impl Arguments<'_> {
    fn peek(&self, offset: usize) -> Option<&str> {
        self.list.get(self.position + offset).map(String::as_str)
    }

    fn or(&mut self) -> Outcome<bool> {
        let mut holds = self.and()?;
        while self.peek(0) == Some("-o") {
            self.position += 1;
            holds |= self.and()?;
        }
        Ok(holds)
    }

    fn and(&mut self) -> Outcome<bool> {
        let mut holds = self.one()?;
        while self.peek(0) == Some("-a") {
            self.position += 1;
            holds &= self.one()?;
        }
        Ok(holds)
    }

    fn one(&mut self) -> Outcome<bool> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail("nested too deep");
        }
        let Some(first) = self.peek(0).map(str::to_owned) else {
            return Err(Stop::Fail(2, "argument expected".to_owned()));
        };
        if let (Some(operator), Some(right)) =
            (self.peek(1).map(str::to_owned), self.peek(2).map(str::to_owned))
            && is_binary(&operator)
        {
            self.position += 3;
            return binary(self.shell, &first, &operator, &right);
        }
        self.position += 1;
        if first == "!" && self.peek(0).is_some() {
            return Ok(!self.one()?);
        }
        if first == "(" && self.peek(0).is_some() {
            let holds = self.or()?;
            self.position += 1;
            return if self.list.get(self.position - 1).is_some_and(|sign| sign == ")") {
                Ok(holds)
            } else {
                Err(Stop::Fail(2, "`)` expected".to_owned()))
            };
        }
        let is_unary = first.len() == 2 && first.starts_with('-');
        match self.peek(0).map(str::to_owned) {
            Some(operand)
                if is_unary && !(matches!(operand.as_str(), "-a" | "-o") && self.peek(1).is_some()) =>
            {
                self.position += 1;
                unary(self.shell, &first, &operand)
            }
            _ => Ok(!first.is_empty()),
        }
    }
}
