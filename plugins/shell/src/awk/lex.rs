//! The tokens of an awk program.

use crate::regular::until_delimiter;
use crate::shell::{Outcome, Stop};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Number(f64),
    Text(String),
    Regular(String),
    Name(String),
    /// A name with a parenthesis right behind it.
    Function(String),
    /// Keywords and signs
    Sign(&'static str),
    Newline,
    End,
}

const KEYWORDS: [&str; 20] = [
    "BEGIN", "END", "function", "func", "if", "else", "while", "for", "do", "break", "continue", "next",
    "nextfile", "exit", "return", "delete", "in", "getline", "print", "printf",
];

/// Longer signs first.
const SIGNS: [&str; 44] = [
    "**=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "==", "<=", ">=", "!=", "!~", ">>",
    "**", "{", "}", "(", ")", "[", "]", ";", ",", "+", "-", "*", "/", "%", "^", "!", ">", "<", "|", "?", ":",
    "~", "$", "=", "@", "&", "\\",
];

pub fn fault<T>(message: impl std::fmt::Display) -> Outcome<T> {
    Err(Stop::Fail(2, format!("syntax error: {message}")))
}

pub fn lex(program: &str) -> Outcome<Vec<Token>> {
    let signs: Vec<char> = program.chars().collect();
    let mut tokens: Vec<Token> = Vec::new();
    let mut index = 0;
    while let Some(sign) = signs.get(index).copied() {
        match sign {
            ' ' | '\t' | '\r' => index += 1,
            '\n' => {
                tokens.push(Token::Newline);
                index += 1;
            }
            '\\' if signs.get(index + 1) == Some(&'\n') => index += 2,
            '#' => {
                while signs.get(index).is_some_and(|sign| *sign != '\n') {
                    index += 1;
                }
            }
            '"' => tokens.push(Token::Text(text(&signs, &mut index)?)),
            '/' if begins_operand(tokens.last()) => tokens.push(Token::Regular(regular(&signs, &mut index)?)),
            '0'..='9' | '.' if sign != '.' || signs.get(index + 1).is_some_and(char::is_ascii_digit) => {
                tokens.push(Token::Number(number(&signs, &mut index)));
            }
            '_' | 'a'..='z' | 'A'..='Z' => tokens.push(word(&signs, &mut index)),
            _ => {
                let rest: String = signs[index..].iter().take(3).collect();
                let Some(found) = SIGNS.into_iter().find(|known| rest.starts_with(known)) else {
                    return fault(format!("unexpected `{sign}`"));
                };
                index += found.len();
                tokens.push(Token::Sign(match found {
                    "**" => "^",
                    "**=" => "^=",
                    other => other,
                }));
            }
        }
    }
    tokens.push(Token::End);
    Ok(tokens)
}

/// Whether a slash begins a regular expression, and no division.
fn begins_operand(last: Option<&Token>) -> bool {
    match last {
        Some(Token::Number(_) | Token::Text(_) | Token::Regular(_) | Token::Name(_) | Token::Function(_)) => {
            false
        }
        Some(Token::Sign(sign)) => !matches!(*sign, ")" | "]" | "$" | "++" | "--"),
        _ => true,
    }
}

fn word(signs: &[char], index: &mut usize) -> Token {
    let is_letter = |sign: &&char| **sign == '_' || sign.is_ascii_alphanumeric();
    let word: String = signs[*index..].iter().take_while(is_letter).collect();
    *index += word.len();
    match KEYWORDS.into_iter().find(|keyword| *keyword == word) {
        Some(keyword) => Token::Sign(keyword),
        None if signs.get(*index) == Some(&'(') => Token::Function(word),
        None => Token::Name(word),
    }
}

fn text(signs: &[char], index: &mut usize) -> Outcome<String> {
    let mut raw = String::new();
    *index += 1;
    loop {
        let Some(sign) = signs.get(*index).copied() else { return fault("a text is not closed") };
        *index += 1;
        match sign {
            '"' => break,
            '\\' => match signs.get(*index).copied() {
                Some('\n') => *index += 1,
                Some(next) => {
                    *index += 1;
                    match next {
                        '"' => raw.push('"'),
                        '/' => raw.push('/'),
                        '\\' => raw.push_str("\\\\"),
                        'n' | 't' | 'r' | 'a' | 'b' | 'f' | 'v' | '0'..='7' | 'x' => raw.extend(['\\', next]),
                        // Kept for regular expressions in texts, such as "\.".
                        _ => raw.extend(['\\', '\\', next]),
                    }
                }
                None => return fault("a text is not closed"),
            },
            _ => raw.push(sign),
        }
    }
    Ok(crate::escape::decode(&raw, crate::escape::Kind::Shell).0)
}

fn regular(signs: &[char], index: &mut usize) -> Outcome<String> {
    *index += 1;
    match until_delimiter(signs, index, '/', true).filter(|source| !source.contains('\n')) {
        Some(source) => Ok(source),
        None => fault("a regular expression is not closed"),
    }
}

fn number(signs: &[char], index: &mut usize) -> f64 {
    let rest: String = signs[*index..].iter().take(40).collect();
    if rest.starts_with("0x") || rest.starts_with("0X") {
        let digits: String = rest[2..].chars().take_while(char::is_ascii_hexdigit).collect();
        *index += 2 + digits.len();
        #[expect(clippy::cast_precision_loss, reason = "numbers of awk are floats")]
        return u64::from_str_radix(&digits, 16).unwrap_or(0) as f64;
    }
    let length = numeric_length(&rest);
    *index += length.max(1);
    rest[..length].parse().unwrap_or(0.0)
}

/// The length of the number at the start of a text, without a sign before it.
pub fn numeric_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut has_digits = length > 0;
    if bytes.get(length) == Some(&b'.') {
        let decimals = digits(length + 1);
        has_digits |= decimals > 0;
        length += 1 + decimals;
    }
    if !has_digits {
        return 0;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}
