//! JSON literals in the attribute of a tool, parsed from Rust's tokens with their spans, so that errors point at them.

use std::fmt::Write;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, Lit, LitStr, Result, Token, braced, bracketed, token};

pub enum Json {
    /// `null`, `true`, `false` or a number, as JSON text.
    Plain(String),
    Text(String),
    Array(Vec<Json>),
    Object(Object),
}

pub struct Object {
    pub members: Vec<(LitStr, Json)>,
}

impl Parse for Json {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(token::Brace) {
            return input.parse().map(Self::Object);
        }
        if input.peek(token::Bracket) {
            let content;
            bracketed!(content in input);
            let items = Punctuated::<Json, Token![,]>::parse_terminated(&content)?;
            return Ok(Self::Array(items.into_iter().collect()));
        }
        if input.peek(Ident) {
            return keyword(&input.parse()?);
        }
        let minus: Option<Token![-]> = input.parse()?;
        literal(&input.parse()?, minus.is_some())
    }
}

impl Parse for Object {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let content;
        braced!(content in input);
        let mut members: Vec<(LitStr, Json)> = Vec::new();
        while !content.is_empty() {
            let key: LitStr = content.parse()?;
            if members.iter().any(|(other, _)| other.value() == key.value()) {
                return Err(Error::new(
                    key.span(),
                    format!("duplicate key `{}` in this object", key.value()),
                ));
            }
            content.parse::<Token![:]>()?;
            members.push((key, content.parse()?));
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        Ok(Self { members })
    }
}

impl Json {
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Plain(plain) => text.push_str(plain),
            Self::Text(value) => write_string(text, value),
            Self::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(object) => object.write(text),
        }
    }
}

impl Object {
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        text.push('{');
        for (index, (key, value)) in self.members.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            write_string(text, &key.value());
            text.push(':');
            value.write(text);
        }
        text.push('}');
    }
}

fn keyword(word: &Ident) -> Result<Json> {
    match word.to_string().as_str() {
        plain @ ("null" | "true" | "false") => Ok(Json::Plain(plain.to_owned())),
        other => Err(Error::new(word.span(), format!("`{other}` is not JSON: write it as `\"{other}\"`"))),
    }
}

fn literal(literal: &Lit, negative: bool) -> Result<Json> {
    let sign = if negative { "-" } else { "" };
    match literal {
        Lit::Str(text) if !negative => Ok(Json::Text(text.value())),
        Lit::Bool(value) if !negative => Ok(Json::Plain(value.value.to_string())),
        Lit::Int(number) if number.suffix().is_empty() => {
            Ok(Json::Plain(format!("{sign}{}", number.base10_digits())))
        }
        Lit::Float(number) if number.suffix().is_empty() && !number.base10_digits().ends_with('.') => {
            Ok(Json::Plain(format!("{sign}{}", number.base10_digits())))
        }
        other => {
            let message =
                "this is not JSON: write a string, a number, `true`, `false`, `null`, `[..]` or `{..}`";
            Err(Error::new(other.span(), message))
        }
    }
}

fn write_string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<String, String> {
        syn::parse_str::<Json>(text).map(|json| json.to_text()).map_err(|error| error.to_string())
    }

    #[test]
    fn json_text_is_kept() {
        for text in ["null", "-1.5e-3", "[]", "{}", r#"{"a":[1,true,{"b":"c\"\\\n"}],"é":-0}"#] {
            assert_eq!(read(text).as_deref(), Ok(text));
        }
        assert_eq!(read("[1, 2,]").as_deref(), Ok("[1,2]"));
    }

    #[test]
    fn other_tokens_are_refused_with_a_hint() {
        assert_eq!(read("nil").unwrap_err(), "`nil` is not JSON: write it as `\"nil\"`");
        assert_eq!(read(r#"{"a":1,"a":2}"#).unwrap_err(), "duplicate key `a` in this object");
        for text in ["1u8", "1.", "'a'", "b\"a\"", "-\"a\"", "-true"] {
            assert!(read(text).unwrap_err().starts_with("this is not JSON"), "{text}");
        }
    }
}
