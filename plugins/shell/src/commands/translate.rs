//! `tr`

use crate::call::Call;
use crate::escape::{self, Kind};
use crate::shell::{Outcome, fail};

pub fn translate(call: &mut Call<'_>) -> Outcome {
    let long = "delete=d squeeze-repeats=s complement=c";
    let options = call.options("dscC", long, true)?;
    let (deletes, squeezes) = (options.has('d'), options.has('s'));
    let sets: Vec<Vec<char>> = options.rest.iter().map(|text| signs(text)).collect::<Outcome<_>>()?;
    let (first, second) = match sets.as_slice() {
        [first] if deletes || squeezes => (first.clone(), Vec::new()),
        [first, second] => (first.clone(), second.clone()),
        _ => return fail("needs two sets, or one with -d or -s"),
    };
    let is_complement = options.has('c') || options.has('C');
    let is_first = |sign: char| first.contains(&sign) != is_complement;
    let text = String::from_utf8_lossy(&call.io.input.read_all()).into_owned();
    let translates = !deletes && !second.is_empty();
    // Classes map as pairs only from case to case, which are in the same order.
    let map = |sign: char| {
        let index = if is_complement {
            second.len()
        } else {
            first.iter().rposition(|known| *known == sign).unwrap_or(0)
        };
        *second.get(index).or(second.last()).unwrap_or(&sign)
    };
    let squeezed = if second.is_empty() { None } else { Some(&second) };
    let mut written = String::with_capacity(text.len());
    let mut last = None;
    for sign in text.chars() {
        let is_met = is_first(sign);
        if deletes && is_met {
            continue;
        }
        let sign = if translates && is_met { map(sign) } else { sign };
        let is_squeezed = squeezes && squeezed.map_or_else(|| is_first(sign), |set| set.contains(&sign));
        if is_squeezed && last == Some(sign) {
            continue;
        }
        written.push(sign);
        last = Some(sign);
    }
    call.out(written).map(|()| 0)
}

/// The signs of a set such as `a-z` or `[:digit:]`.
fn signs(text: &str) -> Outcome<Vec<char>> {
    let mut set = Vec::new();
    let given: Vec<char> = text.chars().collect();
    let mut index = 0;
    while index < given.len() {
        if given[index] == '['
            && given.get(index + 1) == Some(&':')
            && let Some(length) = given[index + 2..].windows(2).position(|pair| pair == [':', ']'])
        {
            let name: String = given[index + 2..index + 2 + length].iter().collect();
            set.extend(class(&name)?);
            index += length + 4;
            continue;
        }
        let sign = next_sign(&given, &mut index);
        if given.get(index) == Some(&'-') && index + 1 < given.len() {
            index += 1;
            let end = next_sign(&given, &mut index);
            if end < sign {
                return fail(format!(
                    "range-endpoints of '{sign}-{end}' are in reverse collating sequence order"
                ));
            }
            set.extend(sign..=end);
        } else {
            set.push(sign);
        }
    }
    Ok(set)
}

fn next_sign(given: &[char], index: &mut usize) -> char {
    let sign = given[*index];
    *index += 1;
    if sign != '\\' || *index >= given.len() {
        return sign;
    }
    let digits: String = given[*index..].iter().take(3).take_while(|sign| sign.is_digit(8)).collect();
    let length = digits.len().max(1);
    let escape: String =
        if digits.is_empty() { format!("\\{}", given[*index]) } else { format!("\\{digits}") };
    let decoded = escape::decode(&escape, Kind::Shell).0;
    *index += length;
    if decoded.chars().count() == 1 { decoded.chars().next().unwrap_or(sign) } else { given[*index - 1] }
}

fn class(name: &str) -> Outcome<Vec<char>> {
    let holds: fn(&u8) -> bool = match name {
        "alpha" => u8::is_ascii_alphabetic,
        "digit" => u8::is_ascii_digit,
        "alnum" => u8::is_ascii_alphanumeric,
        "upper" => u8::is_ascii_uppercase,
        "lower" => u8::is_ascii_lowercase,
        "space" => |byte| byte.is_ascii_whitespace() || *byte == 0x0b,
        "blank" => |byte| matches!(byte, b' ' | b'\t'),
        "punct" => u8::is_ascii_punctuation,
        "cntrl" => u8::is_ascii_control,
        "print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
        "graph" => u8::is_ascii_graphic,
        "xdigit" => u8::is_ascii_hexdigit,
        _ => return fail(format!("invalid character class '{name}'")),
    };
    Ok((0..128_u8).filter(holds).map(char::from).collect())
}
