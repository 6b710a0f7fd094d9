//! Doc comments as text for a model.

use syn::{Attribute, Expr, Lit, Meta};

/// A doc comment, cut into paragraphs.
pub struct Docs {
    paragraphs: Vec<String>,
}

impl Docs {
    /// Reads the doc comment among the attributes. None when there is none, or it says nothing.
    pub fn read(attributes: &[Attribute]) -> Option<Self> {
        let lines: Vec<String> = attributes.iter().filter_map(line).collect();
        let text = lines.join("\n");
        let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());

        let mut paragraphs = vec![String::new()];
        for line in lines {
            match paragraphs.last_mut() {
                Some(paragraph) if !line.is_empty() => push_line(paragraph, line),
                _ => paragraphs.push(String::new()),
            }
        }
        paragraphs.retain(|paragraph| !paragraph.trim().is_empty());
        (!paragraphs.is_empty()).then_some(Self { paragraphs })
    }

    /// The first paragraph, on one line.
    pub fn description(&self) -> String {
        self.paragraphs[0].replace('\n', " ")
    }

    /// The paragraphs after the first, or the description where there are none.
    pub fn usage(&self) -> String {
        match &self.paragraphs[1..] {
            [] => self.description(),
            rest => rest.join("\n\n"),
        }
    }

    /// All of it.
    pub fn text(&self) -> String {
        self.paragraphs.join("\n\n")
    }
}

/// Whether the attribute is a doc comment.
pub fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
}

fn line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(doc) = &attribute.meta else { return None };
    match &doc.value {
        Expr::Lit(value) if is_doc(attribute) => match &value.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// A line that was only wrapped continues the one before; one that begins an item of a list, or is indented, is its own.
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
    fn the_first_paragraph_describes_and_the_rest_tells_the_usage() {
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
        .unwrap();

        assert_eq!(docs.description(), "Sends a message to somebody.");
        assert_eq!(docs.usage(), "Ask first:\n- who\n- what\n\nThen send.");
    }

    #[test]
    fn a_single_paragraph_is_description_and_usage() {
        let docs = Docs::read(&[parse_quote!(#[doc = " Adds."])]).unwrap();

        assert_eq!((docs.description(), docs.usage()), ("Adds.".to_owned(), "Adds.".to_owned()));
    }

    #[test]
    fn an_empty_comment_is_none() {
        assert!(Docs::read(&[parse_quote!(#[doc = "  "]), parse_quote!(#[doc(hidden)])]).is_none());
    }
}
