//! `$name` and `${name…}`.

use super::Fields;
use crate::escape;
use crate::shell::{Outcome, Shell, Stop, Value, fail};
use crate::stream::Streams;
use crate::syntax::{Operation, Parameter, Word};
use crate::wildcard;

/// The values of a parameter: one, or those of `@` or `*`.
enum Values {
    One(Option<String>),
    Many(Vec<String>, char),
}

impl Values {
    /// Whether there is none, or with `with_empty` none but empty ones.
    fn are_missing(&self, with_empty: bool) -> bool {
        match self {
            Self::One(value) => value.as_ref().is_none_or(|value| with_empty && value.is_empty()),
            Self::Many(values, _) => values.is_empty() || (with_empty && values.iter().all(String::is_empty)),
        }
    }
}

/// The value of a parameter that the shell itself keeps.
pub fn special(shell: &mut Shell, name: &str) -> Option<String> {
    Some(match name {
        "?" => shell.state.status.to_string(),
        "#" => shell.state.positional.len().to_string(),
        "$" | "BASHPID" => "1".to_owned(),
        "!" => shell.state.jobs.last()?.id.to_string(),
        "-" => "hB".to_owned(),
        "0" => shell.state.name.clone(),
        "RANDOM" => (shell.next_random() % 32768).to_string(),
        "SECONDS" => "0".to_owned(),
        "LINENO" => shell.state.line.to_string(),
        "UID" | "EUID" => "1000".to_owned(),
        "HOSTNAME" => "localhost".to_owned(),
        "EPOCHSECONDS" => crate::commands::now().as_second().to_string(),
        _ if name.starts_with(|sign: char| sign.is_ascii_digit()) => {
            let index: usize = name.parse().ok()?;
            return shell.state.positional.get(index.checked_sub(1)?).cloned();
        }
        _ => return None,
    })
}

impl Shell {
    pub(super) fn expand_parameter(
        &mut self,
        parameter: &Parameter,
        is_quoted: bool,
        io: &Streams,
        fields: &mut Fields,
    ) -> Outcome<()> {
        let is_whole = self.variable(&parameter.name).is_some_and(|variable| variable.is_whole);
        let is_quoted = is_quoted || is_whole;
        let values = match &parameter.operation {
            Operation::Names => Values::Many(self.names_with_prefix(&parameter.name), '@'),
            Operation::Indirect => self.indirect(parameter, io)?,
            _ => self.values(&parameter.name, parameter.subscript.as_ref(), io)?,
        };
        let values = match &parameter.operation {
            Operation::Default(kind, with_empty, word) => {
                match (kind, values.are_missing(*with_empty)) {
                    ('+', true) => Values::One(Some(String::new())),
                    ('+', false) | ('-', true) => {
                        // An empty word between quotes is an argument too.
                        if is_quoted {
                            fields.push("", true);
                        }
                        return self.expand_parts(word, is_quoted, true, io, fields);
                    }
                    ('=', true) => {
                        let text = self.expand_text(word, io)?;
                        self.set(&parameter.name, text.clone())?;
                        Values::One(Some(text))
                    }
                    ('?', true) => {
                        let text = self.expand_text(word, io)?;
                        let text = if text.is_empty() { "parameter null or not set" } else { &text };
                        return self.fatal(1, &format!("{}: {text}", parameter.name), io);
                    }
                    _ => values,
                }
            }
            operation => {
                let is_unset = matches!(&values, Values::One(None));
                if is_unset && self.state.options.refuses_unset && !matches!(operation, Operation::Indirect) {
                    return self.fatal(1, &format!("{}: unbound variable", parameter.name), io);
                }
                self.operate(values, operation, io)?
            }
        };
        self.emit(values, is_quoted, fields);
        Ok(())
    }

    /// The names of the variables that begin with a prefix, sorted.
    fn names_with_prefix(&self, prefix: &str) -> Vec<String> {
        let names = self.state.scopes.iter().flat_map(|scope| scope.keys());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Reports an error that ends the script.
    fn fatal<T>(&mut self, status: i32, message: &str, io: &Streams) -> Outcome<T> {
        io.errors.write(format!("{message}\n").as_bytes())?;
        Err(Stop::Exit(status))
    }

    fn emit(&mut self, values: Values, is_quoted: bool, fields: &mut Fields) {
        match values {
            Values::One(value) => {
                let value = value.unwrap_or_default();
                if is_quoted { fields.push(&value, true) } else { fields.split(&value) }
            }
            Values::Many(values, '*') if is_quoted => {
                let separator: String = self.separators().chars().take(1).collect();
                fields.push(&values.join(&separator), true);
            }
            Values::Many(values, _) => {
                for (index, value) in values.iter().enumerate() {
                    if index > 0 && (is_quoted || fields.separators.is_some()) {
                        fields.is_open = false;
                    }
                    if is_quoted { fields.push(value, true) } else { fields.split(value) }
                }
            }
        }
    }

    fn values(&mut self, name: &str, subscript: Option<&Word>, io: &Streams) -> Outcome<Values> {
        if matches!(name, "@" | "*") {
            return Ok(Values::Many(self.state.positional.to_vec(), if name == "@" { '@' } else { '*' }));
        }
        self.refresh(name);
        let Some(subscript) = subscript else {
            let value = special(self, name).or_else(|| self.get(name).map(str::to_owned));
            return Ok(Values::One(value));
        };
        let subscript = self.expand_text(subscript, io)?;
        if let "@" | "*" = subscript.as_str() {
            let kind = if subscript == "@" { '@' } else { '*' };
            let values = match self.variable(name).and_then(|variable| variable.value.as_ref()) {
                Some(Value::List(list)) => list.values().cloned().collect(),
                Some(Value::Map(map)) => map.values().cloned().collect(),
                Some(Value::Text(text)) => vec![text.clone()],
                None => Vec::new(),
            };
            return Ok(Values::Many(values, kind));
        }
        Ok(Values::One(self.entry(name, &subscript)?))
    }

    /// Writes what the shell itself keeps into the array of this name.
    fn refresh(&mut self, name: &str) {
        let list: Vec<String> = match name {
            "PIPESTATUS" => self.state.stages.iter().map(i32::to_string).collect(),
            "FUNCNAME" if self.state.calls.is_empty() => Vec::new(),
            "FUNCNAME" => self.state.calls.iter().rev().cloned().chain(["main".to_owned()]).collect(),
            _ => return,
        };
        self.variable_mut(name).value = Some(Value::List(list.into_iter().enumerate().collect()));
    }

    /// `${!name}`, or the keys of `${!name[@]}`.
    fn indirect(&mut self, parameter: &Parameter, io: &Streams) -> Outcome<Values> {
        let Some(subscript) = &parameter.subscript else {
            let target = self.get(&parameter.name).unwrap_or_default().to_owned();
            return match target.split_once('[') {
                Some((name, key)) => Ok(Values::One(self.entry(name, key.trim_end_matches(']'))?)),
                None => self.values(&target, None, io),
            };
        };
        let kind = if self.expand_text(subscript, io)? == "*" { '*' } else { '@' };
        let keys = match self.variable(&parameter.name).and_then(|variable| variable.value.as_ref()) {
            Some(Value::List(list)) => list.keys().map(usize::to_string).collect(),
            Some(Value::Map(map)) => map.keys().cloned().collect(),
            Some(Value::Text(_)) => vec!["0".to_owned()],
            None => Vec::new(),
        };
        Ok(Values::Many(keys, kind))
    }

    fn operate(&mut self, values: Values, operation: &Operation, io: &Streams) -> Outcome<Values> {
        Ok(match (values, operation) {
            (values, Operation::Value | Operation::Names | Operation::Indirect) => values,
            (Values::One(value), Operation::Length) => {
                Values::One(Some(value.unwrap_or_default().chars().count().to_string()))
            }
            (Values::Many(values, _), Operation::Length) => Values::One(Some(values.len().to_string())),
            (values, Operation::Substring(offset, length)) => {
                let offset = self.expand_text(offset, io)?;
                let offset = self.arithmetic(&offset)?;
                let length = match length {
                    Some(length) => {
                        let length = self.expand_text(length, io)?;
                        Some(self.arithmetic(&length)?)
                    }
                    None => None,
                };
                match values {
                    Values::One(value) => {
                        let signs: Vec<char> = value.unwrap_or_default().chars().collect();
                        Values::One(Some(slice(&signs, offset, length)?.iter().collect()))
                    }
                    Values::Many(values, kind) => {
                        // `$@` counts from 1.
                        let offset = if offset > 0 && io_is_positional(&values, &self.state.positional) {
                            offset - 1
                        } else {
                            offset
                        };
                        Values::Many(slice(&values, offset, length)?.to_vec(), kind)
                    }
                }
            }
            (Values::One(value), operation) => {
                Values::One(Some(self.change(&value.unwrap_or_default(), operation, io)?))
            }
            (Values::Many(values, kind), operation) => {
                let changed = values.iter().map(|value| self.change(value, operation, io));
                Values::Many(changed.collect::<Outcome<_>>()?, kind)
            }
        })
    }

    /// Expands a pattern, and makes a regular expression of it.
    fn regular_pattern(&mut self, word: &Word, lazy: bool, io: &Streams) -> Outcome<String> {
        let pattern = self.expand_pattern(word, io)?;
        match wildcard::negation(&pattern) {
            None => Ok(wildcard::translate(&pattern, lazy, false)),
            Some(_) => fail("`!(…)` within `${…}` is not supported by this shell: use `[[ ]]` or `case`"),
        }
    }

    /// Changes one value.
    fn change(&mut self, value: &str, operation: &Operation, io: &Streams) -> Outcome<String> {
        match operation {
            Operation::Remove { from_end: true, longest, pattern } => {
                let pattern = self.regular_pattern(pattern, false, io)?;
                // The rest takes as much as it can, so that the end is short, or as little.
                let rest = if *longest { "(?s:.)*?" } else { "(?s:.)*" };
                let regex = self.regex(&format!("^({rest})(?:{pattern})$"))?;
                let kept = regex.captures(value).and_then(|found| found.get(1));
                Ok(kept.map_or(value, |rest| rest.as_str()).to_owned())
            }
            Operation::Remove { from_end: false, longest, pattern } => {
                let pattern = self.regular_pattern(pattern, !*longest, io)?;
                let regex = self.regex(&format!("^(?:{pattern})"))?;
                Ok(regex.find(value).map_or(value, |found| &value[found.end()..]).to_owned())
            }
            Operation::Replace { kind, pattern, replacement } => {
                let pattern = self.regular_pattern(pattern, false, io)?;
                let replacement = self.expand_text(replacement, io)?;
                if pattern.is_empty() && matches!(kind, '1' | 'g') {
                    return Ok(value.to_owned());
                }
                let source = match kind {
                    '#' => format!("^(?:{pattern})"),
                    '%' => format!("(?:{pattern})$"),
                    _ => pattern,
                };
                let regex = self.regex(&source)?;
                let most = usize::from(*kind != 'g');
                Ok(regex.replacen(value, most, regex::NoExpand(&replacement)).into_owned())
            }
            Operation::Case { upper, all } => {
                let change = |text: &str| if *upper { text.to_uppercase() } else { text.to_lowercase() };
                let first = value.chars().next().map_or(0, char::len_utf8);
                Ok(if *all { change(value) } else { change(&value[..first]) + &value[first..] })
            }
            Operation::Transform(kind) => transform(value, *kind),
            _ => Ok(value.to_owned()),
        }
    }
}

/// `${name@Q}` and the like.
fn transform(value: &str, kind: char) -> Outcome<String> {
    match kind {
        'Q' => Ok(escape::quote_always(value)),
        'U' => Ok(value.to_uppercase()),
        'L' => Ok(value.to_lowercase()),
        'E' => Ok(escape::decode(value, escape::Kind::Shell).0),
        _ => fail(format!("`@{kind}` is not supported by this shell: use @Q, @U, @L or @E")),
    }
}

fn io_is_positional(values: &[String], positional: &[String]) -> bool {
    values.len() == positional.len() && values == positional
}

/// A part of a list; negative offsets and lengths count from the end.
fn slice<T>(list: &[T], offset: i64, length: Option<i64>) -> Outcome<&[T]> {
    let count = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let start = if offset < 0 { count + offset } else { offset };
    if start < 0 || start > count {
        return Ok(&[]);
    }
    let end = match length {
        None => count,
        Some(length) if length < 0 => count + length,
        Some(length) => start.saturating_add(length).min(count),
    };
    if end < start {
        return fail(format!("{}: substring expression < 0", length.unwrap_or_default()));
    }
    let index = |value: i64| usize::try_from(value).unwrap_or_default();
    Ok(&list[index(start)..index(end)])
}
