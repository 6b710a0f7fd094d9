//! Doc comments as text for a model.
//!
//! The text is what rustdoc would show: block comments lose their leading asterisks, wrapped lines are joined, and fenced
//! code stays as written.

use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta, Result};

/// The paragraphs of a doc comment.
pub struct Docs {
    paragraphs: Vec<String>,
}

impl Docs {
    /// Reads the doc comment among the attributes; none if it is missing or empty.
    pub fn read(attributes: &[Attribute]) -> Result<Option<Self>> {
        let mut paragraphs = Paragraphs::default();
        for attribute in attributes {
            for line in lines(&text(attribute)?) {
                paragraphs.push(line);
            }
        }
        let paragraphs = paragraphs.finish();
        Ok((!paragraphs.is_empty()).then_some(Self { paragraphs }))
    }

    /// The first paragraph, on one line.
    pub fn description(&self) -> String {
        self.paragraphs[0].replace('\n', " ")
    }

    /// The paragraphs after the first, or the description if there are none.
    pub fn usage(&self) -> String {
        match &self.paragraphs[1..] {
            [] => self.description(),
            rest => rest.join("\n\n"),
        }
    }

    /// All paragraphs.
    pub fn text(&self) -> String {
        self.paragraphs.join("\n\n")
    }
}

pub fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
}

/// The text of a doc comment; empty for other attributes.
fn text(attribute: &Attribute) -> Result<String> {
    match &attribute.meta {
        Meta::NameValue(doc) if is_doc(attribute) => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.value()),
            // A macro in the value is expanded too late: the text must be split into description and usage here.
            other => Err(Error::new(
                other.span(),
                "a model reads this text: write it as `/// What it does`, not with a macro",
            )),
        },
        _ => Ok(String::new()),
    }
}

/// The lines of a `///` or block comment, without leading asterisks and common indentation.
fn lines(text: &str) -> Vec<&str> {
    let Some((first, block)) = text.split_once('\n') else {
        return vec![text.strip_prefix(' ').unwrap_or(text).trim_end()];
    };
    let block: Vec<&str> = block.trim_end().lines().collect();
    let has_gutter = block.iter().all(|line| line.trim_start().starts_with('*'));
    let block: Vec<&str> = match has_gutter {
        true => block.iter().map(|line| &line.trim_start()[1..]).collect(),
        false => block,
    };
    let indented = block.iter().filter(|line| !line.trim().is_empty()).map(|line| indentation(line)).min();
    let block = block.iter().map(|line| cut(line, indented.unwrap_or(0)));
    std::iter::once(first.trim()).chain(block).collect()
}

/// A line with at most this many bytes of indentation removed.
fn cut(line: &str, bytes: usize) -> &str {
    line.get(bytes..).unwrap_or(line.trim_start()).trim_end()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[derive(Default)]
struct Paragraphs {
    done: Vec<String>,
    open: String,
    /// The opening fence of a code block.
    fence: Option<String>,
}

impl Paragraphs {
    fn push(&mut self, line: &str) {
        match (&self.fence, fence(line)) {
            (Some(open), closing) => {
                let is_end =
                    closing.is_some_and(|closing| line.trim() == closing && closing.starts_with(open));
                self.open.push('\n');
                self.open.push_str(line);
                if is_end {
                    self.fence = None;
                    self.end();
                }
            }
            (None, Some(opening)) => {
                self.fence = Some(opening.to_owned());
                self.end();
                self.open.push_str(line);
            }
            (None, None) if line.is_empty() => self.end(),
            (None, None) => push_line(&mut self.open, line),
        }
    }

    fn end(&mut self) {
        let paragraph = std::mem::take(&mut self.open);
        if !paragraph.trim().is_empty() {
            self.done.push(paragraph);
        }
    }

    fn finish(mut self) -> Vec<String> {
        self.end();
        self.done
    }
}

/// The backticks or tildes that open or close fenced code.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let signs = line.len() - line.trim_start_matches(sign).len();
    (signs >= 3).then(|| &line[..signs])
}

/// Joins a wrapped line to the previous one; list items and indented lines stay on their own.
fn push_line(paragraph: &mut String, line: &str) {
    if !paragraph.is_empty() {
        let begins_item = line.starts_with(['-', '*', '#', '|', '`', ' ']) || starts_with_number(line);
        paragraph.push(if begins_item { '\n' } else { ' ' });
    }
    paragraph.push_str(line);
}

fn starts_with_number(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && line[digits..].starts_with(". ")
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn the_first_paragraph_is_the_description_and_the_rest_the_usage() {
        let docs = Docs::read(&[
            parse_quote!(#[doc = " Sends a message"]),
            parse_quote!(#[doc = " to somebody."]),
            parse_quote!(#[inline]),
            parse_quote!(#[doc = ""]),
            parse_quote!(#[doc = " Ask first:"]),
            parse_quote!(#[doc = " - who"]),
            parse_quote!(#[doc = " - what"]),
            parse_quote!(#[doc = ""]),
            parse_quote!(#[doc = " Then send."]),
        ])
        .unwrap()
        .unwrap();

        assert_eq!(docs.description(), "Sends a message to somebody.");
        assert_eq!(docs.usage(), "Ask first:\n- who\n- what\n\nThen send.");
    }

    #[test]
    fn a_single_paragraph_is_description_and_usage() {
        let docs = Docs::read(&[parse_quote!(#[doc = " Adds."])]).unwrap().unwrap();

        assert_eq!((docs.description(), docs.usage()), ("Adds.".to_owned(), "Adds.".to_owned()));
    }

    #[test]
    fn an_empty_comment_is_none() {
        let docs = Docs::read(&[parse_quote!(#[doc = "  "]), parse_quote!(#[doc(hidden)])]);

        assert!(docs.unwrap().is_none());
    }

    fn read_item(item: &str) -> Docs {
        Docs::read(&syn::parse_str::<syn::ItemStruct>(item).unwrap().attrs).unwrap().unwrap()
    }

    #[test]
    fn t2_fenced_code_stays_as_it_is() {
        let docs = read_item(
            "/// Adds.\n/// Send it\n/// as:\n/// ```json\n/// {\n///   \"a\": 1,\n///\n///   \"b\": 2\n/// }\n/// ```\n/// Then\n/// wait.\nstruct A;",
        );

        assert_eq!(docs.description(), "Adds. Send it as:");
        assert_eq!(docs.usage(), "```json\n{\n  \"a\": 1,\n\n  \"b\": 2\n}\n```\n\nThen wait.");
    }

    #[test]
    fn t2_the_asterisks_of_a_block_comment_are_not_text() {
        let with_gutter = "/**\n * Adds\n * numbers.\n *\n * Ask:\n *  - which\n */\nstruct A;";
        let without = "/** Adds\n    numbers.\n\n    Ask:\n     - which\n*/\nstruct A;";

        for docs in [read_item(with_gutter), read_item(without)] {
            assert_eq!(
                (docs.description().as_str(), docs.usage().as_str()),
                ("Adds numbers.", "Ask:\n - which")
            );
        }
        assert_eq!(read_item("/** Adds. */ struct A;").text(), "Adds.");
        // A list has asterisks of its own.
        assert_eq!(read_item("/** Takes:\n * one\n or two\n*/ struct A;").text(), "Takes:\n* one or two");
    }

    #[test]
    fn t2_a_comment_from_a_macro_is_refused_with_a_hint() {
        let error = Docs::read(&[parse_quote!(#[doc = include_str!("x.md")])]).err().unwrap();

        assert!(error.to_string().contains("write it as `/// What it does`"), "{error}");
    }
}
