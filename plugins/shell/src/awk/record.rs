//! A record and its fields, which are split when they are needed.

use std::rc::Rc;

use super::value::Value;
use crate::regular::{Flavor, Regular};
use crate::shell::{Outcome, Stop};

/// More fields are a mistake.
pub const MAX_FIELDS: usize = 1_000_000;

pub struct Record {
    text: Rc<str>,
    fields: Vec<Value>,
    is_split: bool,
    /// Whether a field was set, so that the text is made of the fields.
    is_changed: bool,
}

impl Record {
    pub fn new(text: Rc<str>) -> Self {
        Self { text, fields: Vec::new(), is_split: false, is_changed: false }
    }

    pub fn is_split(&self) -> bool {
        self.is_split
    }

    pub fn split(&mut self, separator: &Splitter) {
        if !self.is_split {
            self.fields = separator.split(&self.text);
            self.is_split = true;
        }
    }

    pub fn count(&self) -> usize {
        self.fields.len()
    }

    /// A field from 1, of a record that is split.
    pub fn field(&self, index: usize) -> Value {
        self.fields.get(index - 1).cloned().unwrap_or_default()
    }

    pub fn set_field(&mut self, index: usize, value: Value) -> Outcome<()> {
        if index > MAX_FIELDS {
            return Err(Stop::Fail(2, format!("a record has at most {MAX_FIELDS} fields")));
        }
        if self.fields.len() < index {
            self.fields.resize(index, Value::Input("".into()));
        }
        self.fields[index - 1] = value;
        self.is_changed = true;
        Ok(())
    }

    pub fn set_count(&mut self, count: usize) -> Outcome<()> {
        if count > MAX_FIELDS {
            return Err(Stop::Fail(2, format!("a record has at most {MAX_FIELDS} fields")));
        }
        self.fields.resize(count, Value::Input("".into()));
        self.is_changed = true;
        Ok(())
    }

    pub fn text(&mut self, joiner: &str, format: &str) -> Rc<str> {
        if self.is_changed {
            let fields: Vec<_> = self.fields.iter().map(|field| field.show(format)).collect();
            self.text = fields.join(joiner).into();
            self.is_changed = false;
        }
        Rc::clone(&self.text)
    }
}

/// How fields are separated.
pub enum Splitter {
    Blanks,
    Characters,
    Sign(char),
    Regular(Regular),
}

impl Splitter {
    pub fn new(separator: &str) -> Outcome<Self> {
        let mut signs = separator.chars();
        Ok(match (signs.next(), signs.next()) {
            (None, _) => Self::Characters,
            (Some(' '), None) => Self::Blanks,
            (Some(sign), None) if sign != '\\' => Self::Sign(sign),
            _ => Self::Regular(Regular::new(separator, Flavor::Awk, false)?),
        })
    }

    pub fn split(&self, text: &str) -> Vec<Value> {
        let value = |part: &str| Value::Input(part.into());
        if text.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Blanks => {
                text.split([' ', '\t', '\n']).filter(|part| !part.is_empty()).map(value).collect()
            }
            Self::Characters => text.chars().map(|sign| value(sign.encode_utf8(&mut [0; 4]))).collect(),
            Self::Sign(sign) => text.split(*sign).map(value).collect(),
            Self::Regular(regular) => {
                let (mut parts, mut start, mut from) = (Vec::new(), 0, 0);
                while let Some((begin, end)) = regular.find(text.as_bytes(), from) {
                    if end == begin {
                        from = end + 1;
                        if from > text.len() {
                            break;
                        }
                        continue;
                    }
                    parts.push(value(&text[start..begin]));
                    (start, from) = (end, end);
                }
                parts.push(value(&text[start..]));
                parts
            }
        }
    }
}
