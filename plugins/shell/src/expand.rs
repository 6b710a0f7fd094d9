//! From the words of a script to the arguments of commands: parameters, substitutions, splitting and paths.

mod braces;
mod glob;
mod parameter;

use crate::arithmetic;
use crate::shell::{Outcome, Shell, Stop};
use crate::stream::Streams;
use crate::syntax::{Command, List, Part, Redirect, Target, Word, plain};
use crate::wildcard;

pub use parameter::special;

/// Fields of which each is a list of texts and whether they are quoted.
#[derive(Default)]
struct Fields {
    list: Vec<Vec<(String, bool)>>,
    is_open: bool,
    /// The separators, or none where a word stays one field.
    separators: Option<String>,
}

impl Fields {
    fn push(&mut self, text: &str, is_quoted: bool) {
        if !self.is_open {
            self.list.push(Vec::new());
            self.is_open = true;
        }
        if let Some(field) = self.list.last_mut() {
            match field.last_mut() {
                Some((last, quoted)) if *quoted == is_quoted => last.push_str(text),
                _ => field.push((text.to_owned(), is_quoted)),
            }
        }
    }

    /// Pushes the result of an expansion that is not quoted.
    fn split(&mut self, text: &str) {
        let Some(separators) = self.separators.clone() else { return self.push(text, false) };
        let mut start = 0;
        // Whether a separator that is no blank just ended a field, so that another one ends an empty field.
        let mut after_field = self.is_open;
        for (index, sign) in text.char_indices().filter(|(_, sign)| separators.contains(*sign)) {
            if index > start {
                self.push(&text[start..index], false);
                after_field = true;
            }
            if sign.is_whitespace() {
                self.is_open = false;
            } else {
                if !after_field {
                    self.push("", true);
                }
                self.is_open = false;
                after_field = false;
            }
            start = index + sign.len_utf8();
        }
        if start < text.len() {
            self.push(&text[start..], false);
        }
    }
}

impl Shell {
    /// Expands words to arguments.
    pub fn expand_words<'w>(
        &mut self,
        words: impl IntoIterator<Item = &'w Word>,
        io: &Streams,
    ) -> Outcome<Vec<String>> {
        let mut arguments = Vec::new();
        for word in words {
            self.expand_word(word, io, &mut arguments)?;
        }
        Ok(arguments)
    }

    pub fn expand_word(&mut self, word: &Word, io: &Streams, arguments: &mut Vec<String>) -> Outcome<()> {
        // Most words are plain.
        if let Some(text) = plain(word)
            && !text.contains(['{', '*', '?', '[', '(', '~', '\\'])
        {
            arguments.push(text.to_owned());
            return Ok(());
        }
        for word in braces::expand(word)? {
            let separators = Some(self.separators());
            let mut fields = Fields { separators, ..Fields::default() };
            self.expand_parts(&word, false, false, io, &mut fields)?;
            for field in fields.list {
                self.expand_paths(&field, arguments)?;
            }
        }
        Ok(())
    }

    /// Expands a word to one text, without splitting and paths.
    pub fn expand_text(&mut self, word: &[Part], io: &Streams) -> Outcome<String> {
        let field = self.expand_field(word, io)?;
        Ok(field.into_iter().map(|(text, _)| text).collect())
    }

    /// Expands a word to a pattern, in which quoted signs are escaped.
    pub fn expand_pattern(&mut self, word: &[Part], io: &Streams) -> Outcome<String> {
        let field = self.expand_field(word, io)?;
        Ok(field
            .into_iter()
            .map(|(text, is_quoted)| if is_quoted { wildcard::escape(&text) } else { text })
            .collect())
    }

    /// Expands the right side of `=~`, in which quoted signs are no signs of the expression.
    pub fn expand_regex(&mut self, word: &[Part], io: &Streams) -> Outcome<String> {
        let field = self.expand_field(word, io)?;
        Ok(field
            .into_iter()
            .map(
                |(text, is_quoted)| {
                    if is_quoted { crate::regular::escape(&text, crate::regular::SIGNS) } else { text }
                },
            )
            .collect())
    }

    fn expand_field(&mut self, word: &[Part], io: &Streams) -> Outcome<Vec<(String, bool)>> {
        let mut fields = Fields::default();
        self.expand_parts(word, false, false, io, &mut fields)?;
        let mut joined = Vec::new();
        for (index, field) in fields.list.into_iter().enumerate() {
            if index > 0 {
                joined.push((" ".to_owned(), true));
            }
            joined.extend(field);
        }
        Ok(joined)
    }

    fn separators(&self) -> String {
        if self.variable("IFS").is_some() {
            self.get("IFS").unwrap_or_default().to_owned()
        } else {
            " \t\n".to_owned()
        }
    }

    /// Expands parts into fields. With `is_operand`, literal text is split as the result of an expansion.
    fn expand_parts(
        &mut self,
        parts: &[Part],
        is_quoted: bool,
        is_operand: bool,
        io: &Streams,
        fields: &mut Fields,
    ) -> Outcome<()> {
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Literal(text) if is_quoted => fields.push(text, true),
                Part::Literal(text) => {
                    let text = if index == 0 { self.expand_tilde(text) } else { text.into() };
                    if is_operand { fields.split(&text) } else { fields.push(&text, false) }
                }
                Part::Quoted(text) => fields.push(text, true),
                Part::Double(parts) if parts.is_empty() => fields.push("", true),
                Part::Double(parts) => self.expand_parts(parts, true, false, io, fields)?,
                Part::Parameter(parameter) => self.expand_parameter(parameter, is_quoted, io, fields)?,
                Part::Command(list) => {
                    let output = self.substitute(list, io)?;
                    let text = String::from_utf8_lossy(&output);
                    let text = text.trim_end_matches('\n').replace('\0', "");
                    if is_quoted { fields.push(&text, true) } else { fields.split(&text) }
                }
                Part::Process(list) => {
                    let output = self.substitute(list, io)?;
                    let path = self.files.add_process(output);
                    fields.push(&path, true);
                }
                Part::Consumer(list) => {
                    let path = self.add_consumer(list, io);
                    fields.push(&path, true);
                }
                Part::Arithmetic(word) => {
                    let value = self.arithmetic_word(word, io)?.to_string();
                    if is_quoted { fields.push(&value, true) } else { fields.split(&value) }
                }
            }
        }
        Ok(())
    }

    /// Evaluates an expression. An error ends the script, as in bash.
    pub fn arithmetic(&mut self, text: &str) -> Outcome<i64> {
        arithmetic::evaluate(self, text)
    }

    fn expand_tilde<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", self.get("HOME").unwrap_or(&self.files.root)).into()
            }
            _ => text.into(),
        }
    }

    /// The output of `$( )`.
    fn substitute(&mut self, list: &List, io: &Streams) -> Outcome<Vec<u8>> {
        self.substitutions += 1;
        if let Some(redirects) = only_reads(list) {
            return Ok(match self.redirect(redirects, io) {
                Ok(streams) => {
                    self.state.status = 0;
                    streams.input.read_all()
                }
                Err(stop) => {
                    self.state.status = self.report("", stop, io)?;
                    Vec::new()
                }
            });
        }
        let output = crate::stream::Output::pipe();
        let streams = Streams { output: output.clone(), ..io.clone() };
        let status = self.subshell(&streams, |shell| {
            shell.state.options.exits_on_error &= shell.state.options.inherits_exit;
            shell.list(list, &streams)
        });
        self.state.status = match status {
            Err(Stop::Pipe) => 141,
            other => other?,
        };
        Ok(output.take().bytes)
    }
}

/// The redirection of `$(<file)`, whose output is the file.
fn only_reads(list: &List) -> Option<&[Redirect]> {
    let [and_or] = list.as_slice() else { return None };
    let [stage] = and_or.first.stages.as_slice() else { return None };
    let Command::Simple(simple) = &stage.command else { return None };
    let is_alone = and_or.rest.is_empty() && simple.arguments.is_empty() && simple.assignments.is_empty();
    let redirects = simple.redirects.as_slice();
    (is_alone && matches!(redirects, [Redirect { target: Target::Read(_), .. }])).then_some(redirects)
}
