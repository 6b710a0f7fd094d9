//! The functions of awk.

use std::rc::Rc;

use super::record::Splitter;
use super::run::{Machine, fault};
use super::syntax::{Builtin, Expression};
use super::value::{Cell, Value, count};
use super::{FS, RLENGTH, RSTART, slot_text};
use crate::shell::Outcome;

impl Machine<'_, '_> {
    fn text_at(&mut self, arguments: &[Expression], index: usize) -> Outcome<Rc<str>> {
        match arguments.get(index) {
            Some(argument) => Ok(self.evaluate(argument)?.text(&self.format())),
            None => fault("a function has too few arguments"),
        }
    }

    fn number_at(&mut self, arguments: &[Expression], index: usize) -> Outcome<f64> {
        match arguments.get(index) {
            Some(argument) => Ok(self.evaluate(argument)?.number()),
            None => fault("a function has too few arguments"),
        }
    }

    pub fn builtin(&mut self, builtin: Builtin, arguments: &[Expression]) -> Outcome<Value> {
        Ok(match builtin {
            Builtin::Length => self.length(arguments)?,
            Builtin::Substr => self.substring(arguments)?,
            Builtin::Index => {
                let (text, part) = (self.text_at(arguments, 0)?, self.text_at(arguments, 1)?);
                count(text.find(&*part).map_or(0, |byte| text[..byte].chars().count() + 1))
            }
            Builtin::Split => self.split(arguments)?,
            Builtin::Sub => self.substitute(arguments, false)?,
            Builtin::Gsub => self.substitute(arguments, true)?,
            Builtin::Gensub => self.general_substitute(arguments)?,
            Builtin::Match => self.match_text(arguments)?,
            Builtin::Sprintf => Value::from(self.sprintf(arguments)?),
            Builtin::Toupper => Value::from(self.text_at(arguments, 0)?.to_uppercase()),
            Builtin::Tolower => Value::from(self.text_at(arguments, 0)?.to_lowercase()),
            Builtin::Number(function) => Value::Number(function(self.number_at(arguments, 0)?)),
            Builtin::Atan2 => {
                Value::Number(self.number_at(arguments, 0)?.atan2(self.number_at(arguments, 1)?))
            }
            Builtin::Rand => self.next_random(),
            Builtin::Srand => {
                let seed = if arguments.is_empty() { now() } else { self.number_at(arguments, 0)? };
                self.random = seed.to_bits() | 1;
                Value::Number(std::mem::replace(&mut self.seed, seed))
            }
            Builtin::Systime => Value::Number(now()),
            Builtin::Strftime => Value::from(self.time(arguments)?),
            Builtin::System => self.system(arguments)?,
            Builtin::Close => {
                let name = self.text_at(arguments, 0)?;
                Value::Number(self.close(&name)?.map_or(-1.0, f64::from))
            }
            Builtin::Fflush => {
                self.call.flush()?;
                Value::Number(0.0)
            }
            Builtin::Asort => self.sort(arguments, false)?,
            Builtin::Asorti => self.sort(arguments, true)?,
        })
    }

    fn system(&mut self, arguments: &[Expression]) -> Outcome<Value> {
        let command = self.text_at(arguments, 0)?;
        self.call.flush()?;
        Ok(Value::Number(f64::from(self.call.shell.run_line(&command, self.call.io)?)))
    }

    /// A number from 0 up to 1: the upper 32 bits of xorshift64.
    fn next_random(&mut self) -> Value {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Value::Number(f64::from(u32::try_from(self.random >> 32).unwrap_or(0)) / 4_294_967_296.0)
    }

    fn substring(&mut self, arguments: &[Expression]) -> Outcome<Value> {
        let text = self.text_at(arguments, 0)?;
        let start = round(self.number_at(arguments, 1)?);
        let end = match arguments.len() > 2 {
            true => start + round(self.number_at(arguments, 2)?),
            false => f64::INFINITY,
        };
        let is_met = |index: usize| {
            let place = f64::from(u32::try_from(index + 1).unwrap_or(u32::MAX));
            place >= start && place < end
        };
        let signs = text.chars().enumerate().filter(|(index, _)| is_met(*index));
        Ok(Value::from(signs.map(|(_, sign)| sign).collect::<String>()))
    }

    /// `strftime`: a time, now by default, in a format.
    fn time(&mut self, arguments: &[Expression]) -> Outcome<String> {
        let format = match arguments.is_empty() {
            true => "%a %b %e %H:%M:%S UTC %Y".into(),
            false => self.text_at(arguments, 0)?,
        };
        let seconds = if arguments.len() > 1 { self.number_at(arguments, 1)? } else { now() };
        let seconds = super::value::write_number(seconds.trunc(), "%.6g");
        crate::commands::format_seconds(&format, &seconds)
    }

    fn length(&mut self, arguments: &[Expression]) -> Outcome<Value> {
        let text = match arguments {
            [] => self.record_text(),
            [Expression::Variable(name)] => {
                let array = match name {
                    super::syntax::Name::Global(index) => self.globals.get(*index),
                    super::syntax::Name::Local(index) => self.locals.get(*index),
                };
                if let Some(Cell::Array(array)) = array {
                    return Ok(count(array.borrow().len()));
                }
                self.text_at(arguments, 0)?
            }
            _ => self.text_at(arguments, 0)?,
        };
        Ok(count(text.chars().count()))
    }

    fn split(&mut self, arguments: &[Expression]) -> Outcome<Value> {
        let text = self.text_at(arguments, 0)?;
        let splitter = match arguments.get(2) {
            Some(Expression::Regular(pattern)) => Splitter::Regular(pattern.regular.clone()),
            Some(_) => Splitter::new(&self.text_at(arguments, 2)?)?,
            None => Splitter::new(&slot_text(&self.globals, FS))?,
        };
        let Some(Expression::Variable(name)) = arguments.get(1) else {
            return fault("`split` needs an array");
        };
        let array = self.array(*name)?;
        let mut array = array.borrow_mut();
        array.clear();
        for (index, part) in splitter.split(&text).into_iter().enumerate() {
            array.insert((index + 1).to_string().into(), part);
        }
        Ok(count(array.len()))
    }

    fn substitute(&mut self, arguments: &[Expression], is_global: bool) -> Outcome<Value> {
        let [pattern, _, ..] = arguments else {
            return fault("`sub` and `gsub` need a pattern and a replacement");
        };
        let regular = self.pattern(pattern)?;
        let replacement = self.text_at(arguments, 1)?;
        let whole = Expression::Field(Box::new(Expression::Number(0.0)));
        let target = arguments.get(2).unwrap_or(&whole);
        let text = self.evaluate(target)?.text(&self.format());
        let (mut result, mut copied, mut from, mut found) = (String::new(), 0, 0, 0);
        while let Some((begin, end)) = regular.find(text.as_bytes(), from) {
            // An empty match right behind a match is none.
            let is_repeated = begin == end && found > 0 && begin == copied;
            if !is_repeated {
                found += 1;
                result.push_str(&text[copied..begin]);
                put(&mut result, &replacement, &text[begin..end]);
                copied = end;
            }
            from = if end > begin { end } else { end + text[end..].chars().next().map_or(1, char::len_utf8) };
            if !is_global && found > 0 || from > text.len() {
                break;
            }
        }
        if found > 0 {
            result.push_str(&text[copied..]);
            self.assign(target, Value::from(result))?;
        }
        Ok(count(found))
    }

    /// `gensub(pattern, replacement, "g" or a number, text)`
    fn general_substitute(&mut self, arguments: &[Expression]) -> Outcome<Value> {
        let [pattern, _, _, ..] = arguments else {
            return fault("`gensub` needs a pattern, a replacement and which match");
        };
        let regular = self.pattern(pattern)?;
        let (replacement, which) = (self.text_at(arguments, 1)?, self.text_at(arguments, 2)?);
        let text = if arguments.len() > 3 { self.text_at(arguments, 3)? } else { self.record_text() };
        let is_global = which.starts_with(['g', 'G']);
        let number = which.parse().unwrap_or(1);
        let (mut result, mut copied, mut from, mut found) = (String::new(), 0, 0, 0_usize);
        while from <= text.len()
            && let Some(groups) = regular.groups(text.as_bytes(), from)
        {
            let Some((begin, end)) = groups.first().copied().flatten() else { break };
            found += 1;
            if is_global || found == number {
                result.push_str(&text[copied..begin]);
                let mut signs = replacement.chars();
                while let Some(sign) = signs.next() {
                    let group = match sign {
                        '&' => Some(0),
                        '\\' => match signs.next() {
                            Some(digit) if digit.is_ascii_digit() => digit.to_digit(10),
                            other => {
                                result.extend(other);
                                continue;
                            }
                        },
                        _ => None,
                    };
                    match group.map(|group| groups.get(group as usize).copied().flatten()) {
                        Some(place) => result.push_str(place.map_or("", |(start, end)| &text[start..end])),
                        None => result.push(sign),
                    }
                }
                copied = end;
            }
            from = if end > begin { end } else { end + text[end..].chars().next().map_or(1, char::len_utf8) };
        }
        result.push_str(&text[copied..]);
        Ok(Value::from(result))
    }

    fn match_text(&mut self, arguments: &[Expression]) -> Outcome<Value> {
        let [_, pattern, ..] = arguments else { return fault("`match` needs a text and a pattern") };
        let text = self.text_at(arguments, 0)?;
        let regular = self.pattern(pattern)?;
        let groups = regular.groups(text.as_bytes(), 0);
        let place = groups.as_ref().and_then(|groups| groups.first().copied().flatten());
        let (start, length) = match place {
            Some((start, end)) => {
                (count(text[..start].chars().count() + 1), count(text[start..end].chars().count()))
            }
            None => (Value::Number(0.0), Value::Number(-1.0)),
        };
        self.globals[RSTART] = Cell::Value(start.clone());
        self.globals[RLENGTH] = Cell::Value(length);
        if let Some(Expression::Variable(name)) = arguments.get(2) {
            let array = self.array(*name)?;
            let mut array = array.borrow_mut();
            array.clear();
            for (index, group) in groups.iter().flatten().enumerate() {
                if let Some((start, end)) = group {
                    array.insert(index.to_string().into(), Value::Input(text[*start..*end].into()));
                }
            }
        }
        Ok(start)
    }

    /// `asort` and `asorti`, which sort values, or keys, into an array with keys from 1.
    fn sort(&mut self, arguments: &[Expression], by_key: bool) -> Outcome<Value> {
        let Some(Expression::Variable(source)) = arguments.first() else {
            return fault("`asort` needs an array");
        };
        let target = match arguments.get(1) {
            Some(Expression::Variable(target)) => *target,
            _ => *source,
        };
        let format = self.format();
        let source = self.array(*source)?;
        let mut values: Vec<Value> = source
            .borrow()
            .iter()
            .map(|(key, value)| if by_key { Value::Text(Rc::clone(key)) } else { value.clone() })
            .collect();
        values.sort_by(|left, right| left.compare(right, &format));
        let target = self.array(target)?;
        let mut target = target.borrow_mut();
        target.clear();
        target.extend(
            values.into_iter().enumerate().map(|(index, value)| ((index + 1).to_string().into(), value)),
        );
        Ok(count(target.len()))
    }
}

/// Puts a replacement, in which `&` is the match.
fn put(result: &mut String, replacement: &str, found: &str) {
    let mut signs = replacement.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '&' => result.push_str(found),
            '\\' if matches!(signs.peek(), Some('&' | '\\')) => result.extend(signs.next()),
            _ => result.push(sign),
        }
    }
}

fn round(number: f64) -> f64 {
    number.round_ties_even()
}

fn now() -> f64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    f64::from(u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}
