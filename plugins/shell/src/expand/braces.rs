//! `{a,b}` and `{1..5}`.

use crate::shell::{Outcome, fail};
use crate::syntax::{Part, Word};

/// Words that one word may become.
const MAX_WORDS: usize = 100_000;

#[derive(Clone)]
enum Token {
    Sign(char),
    Other(Part),
}

pub fn expand(word: &Word) -> Outcome<Vec<Word>> {
    let has_brace = word.iter().any(|part| matches!(part, Part::Literal(text) if text.contains('{')));
    if !has_brace {
        return Ok(vec![word.clone()]);
    }
    let mut tokens = Vec::new();
    for part in word {
        match part {
            Part::Literal(text) => tokens.extend(text.chars().map(Token::Sign)),
            other => tokens.push(Token::Other(other.clone())),
        }
    }
    let mut words = Vec::new();
    let mut room = MAX_WORDS;
    for tokens in expand_tokens(&tokens, &mut room)? {
        words.push(join(tokens));
    }
    Ok(words)
}

fn join(tokens: Vec<Token>) -> Word {
    let mut word: Word = Vec::new();
    for token in tokens {
        match (token, word.last_mut()) {
            (Token::Sign(sign), Some(Part::Literal(text))) => text.push(sign),
            (Token::Sign(sign), _) => word.push(Part::Literal(sign.to_string())),
            (Token::Other(part), _) => word.push(part),
        }
    }
    word
}

fn expand_tokens(tokens: &[Token], room: &mut usize) -> Outcome<Vec<Vec<Token>>> {
    for (start, _) in tokens.iter().enumerate().filter(|(_, token)| matches!(token, Token::Sign('{'))) {
        let Some((choices, end)) = choices(&tokens[start + 1..])? else { continue };
        let mut expanded = Vec::new();
        let rests = expand_tokens(&tokens[start + 1 + end..], room)?;
        for choice in choices {
            for choice in expand_tokens(&choice, room)? {
                for rest in &rests {
                    *room = room.saturating_sub(1);
                    if *room == 0 {
                        return too_many();
                    }
                    expanded.push([&tokens[..start], &choice, rest].concat());
                }
            }
        }
        return Ok(expanded);
    }
    Ok(vec![tokens.to_vec()])
}

fn too_many<T>() -> Outcome<T> {
    fail(format!(
        "braces expand to more than {MAX_WORDS} words: count in a loop, or read the words from `seq`"
    ))
}

/// The choices behind a `{`, and where they end.
fn choices(tokens: &[Token]) -> Outcome<Option<(Vec<Vec<Token>>, usize)>> {
    let mut depth = 0_u32;
    let (mut part, mut parts) = (Vec::new(), Vec::new());
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('}') if depth == 0 => {
                let choices = if parts.is_empty() {
                    sequence(&part)?
                } else {
                    parts.push(part);
                    Some(parts)
                };
                return Ok(choices.map(|choices| (choices, index + 1)));
            }
            Token::Sign(',') if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            Token::Sign('{') => depth += 1,
            Token::Sign('}') => depth -= 1,
            _ => {}
        }
        part.push(token.clone());
    }
    Ok(None)
}

/// The words of `1..5`, `a..e` or `0..10..2`. More than `MAX_WORDS` are an error: left as they are, a loop over them would run once.
fn sequence(tokens: &[Token]) -> Outcome<Option<Vec<Vec<Token>>>> {
    let Some((from, to, step, width)) = bounds(tokens) else { return Ok(None) };
    let last = from.abs_diff(to) / step;
    if last >= MAX_WORDS as u64 {
        return too_many();
    }
    let values = (0..=last).map(|index| {
        let distance = step * index;
        if from <= to {
            from.saturating_add_unsigned(distance)
        } else {
            from.saturating_sub_unsigned(distance)
        }
    });
    let written = values.map(|value| match width {
        None => u8::try_from(value).map(char::from).unwrap_or_default().to_string(),
        Some(width) => format!("{value:0width$}"),
    });
    Ok(Some(written.map(|text| text.chars().map(Token::Sign).collect()).collect()))
}

/// The first and the last value of a sequence, its step, and the width of a number with its zeros; letters have none.
fn bounds(tokens: &[Token]) -> Option<(i64, i64, u64, Option<usize>)> {
    let sign = |token: &Token| match token {
        Token::Sign(sign) => Some(*sign),
        Token::Other(_) => None,
    };
    let text = tokens.iter().map(sign).collect::<Option<String>>()?;
    let parts: Vec<&str> = text.split("..").collect();
    let (first, last) = (*parts.first()?, *parts.get(1)?);
    let step = parts.get(2).map_or(Some(1), |step| step.parse::<i64>().ok())?.unsigned_abs().max(1);
    let is_letter = |text: &str| text.len() == 1 && text.as_bytes()[0].is_ascii_alphabetic();
    if is_letter(first) && is_letter(last) {
        return Some((i64::from(first.as_bytes()[0]), i64::from(last.as_bytes()[0]), step, None));
    }
    let digits = |text: &str| text.trim_start_matches('-').to_owned();
    let is_padded = |text: &str| digits(text).len() > 1 && digits(text).starts_with('0');
    let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
    Some((first.parse().ok()?, last.parse().ok()?, step, Some(width)))
}
