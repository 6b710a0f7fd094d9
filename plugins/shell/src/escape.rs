//! Escapes with a backslash, as `echo -e`, `printf` and `$'…'` know them.

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// `$'…'`
    Shell,
    /// `echo -e` and `%b`: octal numbers have a zero before them.
    Echo,
    /// The format of `printf`
    Format,
}

/// Returns the text, and whether `\c` ended it.
pub fn decode(text: &str, kind: Kind) -> (String, bool) {
    let mut decoded = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        if sign != '\\' {
            decoded.push(sign);
            continue;
        }
        let Some(escape) = signs.next() else {
            decoded.push('\\');
            break;
        };
        match escape {
            _ if let Some(sign) = control_sign(escape) => decoded.push(sign),
            '\\' => decoded.push('\\'),
            '\'' | '"' if kind == Kind::Shell => decoded.push(escape),
            '"' if kind == Kind::Format => decoded.push('"'),
            'c' if kind != Kind::Shell => return (decoded, true),
            'x' => push_number(&mut decoded, &mut signs, 16, 2, "\\x"),
            'u' => push_number(&mut decoded, &mut signs, 16, 4, "\\u"),
            'U' => push_number(&mut decoded, &mut signs, 16, 8, "\\U"),
            '0' if kind == Kind::Echo => push_number(&mut decoded, &mut signs, 8, 3, "\0"),
            '0'..='7' if kind != Kind::Echo => {
                let mut digits = escape.to_string();
                while digits.len() < 3
                    && let Some(digit) = signs.next_if(|sign| sign.is_digit(8))
                {
                    digits.push(digit);
                }
                decoded.extend(u32::from_str_radix(&digits, 8).ok().and_then(char::from_u32));
            }
            _ => decoded.extend(['\\', escape]),
        }
    }
    (decoded, false)
}

/// The sign of an escape with one letter.
fn control_sign(letter: char) -> Option<char> {
    Some(match letter {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'v' => '\x0b',
        'e' | 'E' => '\x1b',
        _ => return None,
    })
}

fn push_number(
    decoded: &mut String,
    signs: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    most: usize,
    otherwise: &str,
) {
    let mut digits = String::new();
    while digits.len() < most
        && let Some(digit) = signs.next_if(|sign| sign.is_digit(radix))
    {
        digits.push(digit);
    }
    match u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32) {
        Some(sign) => decoded.push(sign),
        None => decoded.push_str(otherwise),
    }
}

/// Writes a text so that a shell reads it as one word.
pub fn quote(text: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-./:=@%+,".contains(sign);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    quote_always(text)
}

/// Writes a text between single quotes.
pub fn quote_always(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
