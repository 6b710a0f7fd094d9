//! Text of tenants, plugins, upstreams and models on pages: cut where it is long, with invisible characters written out.
//! `maud` escapes markup.

use maud::{Markup, html};
use toolgate_api::text::escape_for_display;
use toolgate_http::frame;

/// Longest text in a row of a list, in characters.
const ROW_CHARS: usize = 4 * 1024;

/// A text on the page of one thing, up to 64 KiB. A note says how much was left out.
pub(super) fn visible_text(text: &str) -> String {
    frame::visible(text)
}

/// Whether [`visible_text`] shows all of the text.
pub(super) fn is_shown_whole(text: &str) -> bool {
    frame::is_shown_whole(text)
}

/// A text in a row of a list, on one line, up to 4 KiB.
pub(super) fn brief(text: &str) -> String {
    escape_for_display(text, ROW_CHARS)
}

/// A text of at most this many characters on one line.
pub(super) fn cut(text: &str, chars: usize) -> String {
    escape_for_display(text, chars)
}

/// JSON text with indent_json lines. Members keep their order and each value its text.
pub(super) fn indent_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    for letter in json.chars() {
        if in_string {
            in_string = letter != '"' || is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            text.push(letter);
            continue;
        }
        match letter {
            ' ' | '\t' | '\r' | '\n' => continue,
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                // An empty one stays on its line.
                if text.ends_with(['{', '[']) {
                    text.push(letter);
                    continue;
                }
                line(&mut text, depth);
            }
            _ if text.ends_with(['{', '[']) => line(&mut text, depth),
            _ => in_string = letter == '"',
        }
        in_string |= letter == '"';
        if matches!(letter, '{' | '[') && text.ends_with(['{', '[']) {
            line(&mut text, depth - 1);
        }
        text.push(letter);
        match letter {
            ',' => line(&mut text, depth),
            ':' => text.push(' '),
            _ => {}
        }
    }
    text
}

/// A text as a block that keeps its lines.
pub(super) fn block(text: &str) -> Markup {
    html! { pre tabindex="0" { code { (visible_text(text)) } } }
}

/// A time in milliseconds since 1970 as `2026-01-31 23:59:59 UTC`.
pub(crate) fn time(ms: u64) -> Markup {
    let text = date_time(ms);
    let (date, time) = text.split_once(' ').unwrap_or((&text, ""));
    html! { time datetime={ (date) "T" (time) "Z" } { (text) " UTC" } }
}

/// A time in UTC as `2026-01-31 23:59:59`.
pub(super) fn date_time(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Parses a time in UTC as fields of browsers have it, `2026-01-31T23:59`, to milliseconds since 1970. A month can have 31 days.
pub(super) fn parse_date_time(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let mut time = time.splitn(3, ':').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (hour, minute) = (time.next()?.ok()?, time.next()?.ok()?);
    let is_time = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    (is_time && hour < 24 && minute < 60)
        .then(|| ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60_000)
}

/// The inverse of [`civil_date`].
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970, by the Gregorian calendar. Years begin in March here, so that the
/// leap day is the last of a year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The text with a capital first letter, as messages of the API begin with a small one.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_json_is_indented_and_keeps_order_and_texts() {
        let text = r#"{"b": [ {"x":1.50} ,[]],"a":"{\"q\": [1, 2]}\\", "c": {}, "d": [[1], "s"]}"#;
        let expected = "{\n  \"b\": [\n    {\n      \"x\": 1.50\n    },\n    []\n  ],\n  \"a\": \"{\\\"q\\\": [1, 2]}\\\\\",\n  \
                        \"c\": {},\n  \"d\": [\n    [\n      1\n    ],\n    \"s\"\n  ]\n}";
        assert_eq!(indent_json(text), expected);
        assert_eq!(indent_json(expected), expected);
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00");
        assert_eq!(date_time(951_782_399_999), "2000-02-28 23:59:59");
        assert_eq!(date_time(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(date_time(4_107_542_400_000), "2100-03-01 00:00:00");
        let shown = time(951_782_400_000).into_string();
        assert_eq!(shown, "<time datetime=\"2000-02-29T00:00:00Z\">2000-02-29 00:00:00 UTC</time>");
    }

    #[test]
    fn times_of_fields_are_those_that_are_shown() {
        for text in
            ["1970-01-01 00:00:00", "2000-02-29 23:59:00", "2099-12-31 12:30:00", "2026-03-01 00:01:00"]
        {
            let field = text.strip_suffix(":00").expect("no seconds").replace(' ', "T");
            assert_eq!(parse_date_time(&field).map(date_time).as_deref(), Some(text));
        }
        for text in [
            "",
            "2026-01-31",
            "2026-13-01T00:00",
            "2026-01-31T24:00",
            "1969-12-31T23:59",
            "-1-1-1T1:1",
            "aTb",
        ] {
            assert_eq!(parse_date_time(text), None, "{text}");
        }
    }

    #[test]
    fn markup_and_invisible_characters_are_data() {
        let text = block("<b>\u{202e}\"&").into_string();
        assert_eq!(text, "<pre tabindex=\"0\"><code>&lt;b&gt;\\u{202e}&quot;&amp;</code></pre>");
    }

    #[test]
    fn long_texts_are_cut() {
        assert!(visible_text(&"x".repeat(1 << 20)).len() < 66 * 1024);
        assert!(brief(&"x".repeat(1 << 20)).len() < 5 * 1024);
    }
}
