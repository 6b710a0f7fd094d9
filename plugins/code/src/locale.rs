//! The methods of numbers, texts and dates that depend on a language. The engine has no locale data, and would answer with other
//! values than every reader expects: here are those of `en-US`, and an error for all else.

use std::cmp::Ordering;

use boa_engine::object::JsObject;
use boa_engine::{Context, JsArgs as _, JsNativeError, JsResult, JsString, JsValue, js_string};

use crate::globals::{Function, function};

/// Sets the methods.
pub fn set(context: &mut Context) -> JsResult<()> {
    let constructors = context.intrinsics().constructors();
    let (number, text, date) = (
        constructors.number().prototype(),
        constructors.string().prototype(),
        constructors.date().prototype(),
    );
    let methods: [(&JsObject, JsString, Function); 5] = [
        (&number, js_string!("toLocaleString"), number_text),
        (&text, js_string!("localeCompare"), compare),
        (&date, js_string!("toLocaleString"), refuse_date),
        (&date, js_string!("toLocaleDateString"), refuse_date),
        (&date, js_string!("toLocaleTimeString"), refuse_date),
    ];
    for (prototype, name, method) in methods {
        let method = function(method, context);
        prototype.create_data_property_or_throw(name, method, context)?;
    }
    Ok(())
}

fn unknown(what: &str, instead: &str) -> JsResult<JsValue> {
    let message = format!("there is no locale data for {what}: {instead}");
    Err(JsNativeError::range().with_message(message).into())
}

fn refuse_date(_: &JsValue, _: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    unknown("dates", "write the date with `toISOString()`, or format it with `tools.time`")
}

/// The first of the locales in the arguments; `en-US` without one.
fn is_english(locales: &JsValue, context: &mut Context) -> JsResult<bool> {
    if locales.is_undefined() {
        return Ok(true);
    }
    let locale = match locales.as_object() {
        Some(list) => list.get(0, context)?,
        None => locales.clone(),
    };
    Ok(locale.to_string(context)?.to_std_string_lossy().starts_with("en"))
}

/// `number.toLocaleString(locales, options)`
fn number_text(this: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let instead = "write the number with `toFixed`";
    if !is_english(arguments.get_or_undefined(0), context)? {
        return unknown("this language", instead);
    }
    let number = this.to_number(context)?;
    let options = arguments.get_or_undefined(1).as_object();
    let mut option =
        |name: JsString| options.as_ref().map_or(Ok(JsValue::undefined()), |all| all.get(name, context));
    let style = option(js_string!("style"))?;
    let currency = option(js_string!("currency"))?;
    let [least, most] =
        [option(js_string!("minimumFractionDigits"))?, option(js_string!("maximumFractionDigits"))?];
    let digits = |value: &JsValue| {
        let digits = value.as_number()?;
        (0..=20_u8).find(|known| f64::from(*known) == digits).map(usize::from)
    };
    let text_of =
        |value: &JsValue| value.as_string().map(|text| text.to_std_string_lossy()).unwrap_or_default();
    let (before, after, factor, usual) = match (text_of(&style).as_str(), text_of(&currency).as_str()) {
        ("" | "decimal", _) => ("", "", 1.0, (0, 3)),
        ("percent", _) => ("", "%", 100.0, (0, 0)),
        ("currency", "USD") => ("$", "", 1.0, (2, 2)),
        ("currency", "EUR") => ("€", "", 1.0, (2, 2)),
        ("currency", "GBP") => ("£", "", 1.0, (2, 2)),
        ("currency", "JPY") => ("¥", "", 1.0, (0, 0)),
        _ => return unknown("this style", instead),
    };
    let least = digits(&least).unwrap_or_else(|| digits(&most).map_or(usual.0, |most| most.min(usual.0)));
    let most = digits(&most).unwrap_or(usual.1).max(least);
    if !number.is_finite() {
        let text = if number.is_nan() { "NaN" } else { "∞" };
        let sign = if number < 0.0 { "-" } else { "" };
        return Ok(JsString::from(format!("{sign}{before}{text}{after}")).into());
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let text = with_commas(number.abs() * factor, least, most);
    Ok(JsString::from(format!("{sign}{before}{text}{after}")).into())
}

/// A number with a comma after each three digits, and so many digits behind the point.
fn with_commas(number: f64, least: usize, most: usize) -> String {
    let fixed = format!("{number:.most$}");
    let (whole, fraction) = fixed.split_once('.').unwrap_or((&fixed, ""));
    let kept = fraction.trim_end_matches('0').len().max(least);
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    match &fraction[..kept.min(fraction.len())] {
        "" => text,
        fraction => format!("{text}.{fraction}"),
    }
}

/// `text.localeCompare(other)`: by letters, then by accents, then by case, small letters first.
fn compare(this: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let mut keys = |value: &JsValue| -> JsResult<[String; 3]> {
        let text = JsValue::from(value.to_string(context)?).to_object(context)?;
        let normalize = text.get(js_string!("normalize"), context)?.as_callable();
        let form = JsString::from("NFD").into();
        let decomposed = match normalize {
            Some(normalize) => normalize.call(&text.into(), &[form], context)?.to_string(context)?,
            None => value.to_string(context)?,
        };
        let decomposed = decomposed.to_std_string_lossy();
        let is_accent = |letter: &char| ('\u{300}'..='\u{36f}').contains(letter);
        let letters: String = decomposed.chars().filter(|letter| !is_accent(letter)).collect();
        let swapped = decomposed.chars().map(|letter| match letter.is_lowercase() {
            true => letter.to_uppercase().next().unwrap_or(letter),
            false => letter.to_lowercase().next().unwrap_or(letter),
        });
        Ok([sortable(&letters.to_lowercase()), decomposed.to_lowercase(), swapped.collect()])
    };
    let (own, other) = (keys(this)?, keys(arguments.get_or_undefined(0))?);
    Ok(JsValue::from(match own.cmp(&other) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

/// Spaces and signs come before digits, and digits before letters.
fn sortable(text: &str) -> String {
    let group = |letter: char| match letter {
        letter if letter.is_alphabetic() => '3',
        letter if letter.is_numeric() => '2',
        _ => '1',
    };
    text.chars().flat_map(|letter| [group(letter), letter]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_numbers_are_grouped() {
        for (number, least, most, text) in [
            (1_234_567.891, 0, 3, "1,234,567.891"),
            (5.0, 2, 2, "5.00"),
            (0.5, 0, 3, "0.5"),
            (999.0, 0, 3, "999"),
            (1_000.0, 0, 0, "1,000"),
        ] {
            assert_eq!(with_commas(number, least, most), text);
        }
    }
}
