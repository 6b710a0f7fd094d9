//! What a model relies on, as questions and answers, with a clock that stands still.

use jiff::Timestamp;
use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::{Error, Tool, testing};

use crate::ThisPlugin;
use crate::parse::{Parsed, read_as};
use crate::reader::Reader;
use crate::{add, business_days, calendar, convert, cron_next, difference, format, now, parse, zones};

/// A Wednesday.
const NOW: &str = "2024-06-12T22:30:00Z";

fn reader(time_zone: Option<&str>) -> Reader {
    Reader::at(NOW.parse::<Timestamp>().unwrap(), time_zone).unwrap()
}

fn read(text: &str) -> String {
    let zoned = reader(None).read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    crate::moment::Moment::from(&zoned).time
}

fn problem(text: &str) -> String {
    reader(None).read(text).expect_err(text).message().to_owned()
}

fn call<T: Tool>(arguments: Value) -> Result<Value, Error> {
    testing::call::<T>(&testing::context().build(), arguments)
}

fn refusal<T: Tool>(arguments: Value) -> String {
    let error = call::<T>(arguments.clone()).expect_err(&arguments.to_string());
    assert_eq!(error.code(), "INVALID_ARGUMENTS", "{error}");
    error.message().to_owned()
}

#[test]
fn the_examples_are_true() {
    let context = testing::context().build();
    assert_eq!(testing::wrong_examples::<now::now>(&context), []);
    assert_eq!(testing::wrong_examples::<parse::parse>(&context), []);
    assert_eq!(testing::wrong_examples::<format::format>(&context), []);
    assert_eq!(testing::wrong_examples::<convert::convert>(&context), []);
    assert_eq!(testing::wrong_examples::<add::add>(&context), []);
    assert_eq!(testing::wrong_examples::<difference::difference>(&context), []);
    assert_eq!(testing::wrong_examples::<calendar::calendar>(&context), []);
    assert_eq!(testing::wrong_examples::<business_days::business_days>(&context), []);
    assert_eq!(testing::wrong_examples::<cron_next::cron_next>(&context), []);
    assert_eq!(testing::wrong_examples::<zones::zones>(&context), []);
}

#[test]
fn every_example_can_be_called() {
    let description = testing::describe::<ThisPlugin>();
    let context = testing::context().build();
    for tool in description["tools"].as_array().unwrap() {
        let examples = tool["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{}", tool["name"]);
        for example in examples {
            let name = tool["name"].as_str().unwrap();
            let answer = testing::call_by_name::<ThisPlugin>(&context, name, example["input"].clone());
            assert!(answer.unwrap().is_ok(), "{name} {example}");
        }
    }
}

#[test]
fn t1_the_plugin_asks_for_nothing_and_changes_nothing() {
    let description = testing::describe::<ThisPlugin>();

    assert_eq!(description["name"], "time");
    assert_eq!(description["capabilities"], json!({"filesystem": "none"}));
    for tool in description["tools"].as_array().unwrap() {
        assert_eq!(tool["hints"]["read_only"], true, "{}", tool["name"]);
    }
}

#[test]
fn forms_of_programs_are_read() {
    for (text, expected) in [
        ("2024-03-10T14:30:00Z", "2024-03-10T14:30:00Z"),
        ("2024-03-10T14:30:00.123456789-04:00", "2024-03-10T14:30:00.123456789-04:00"),
        ("2024-03-10 14:30", "2024-03-10T14:30:00Z"),
        ("2024-03-10T14", "2024-03-10T14:00:00Z"),
        ("20240310T143000Z", "2024-03-10T14:30:00Z"),
        ("2024-03-10", "2024-03-10T00:00:00Z"),
        ("20240310", "2024-03-10T00:00:00Z"),
        ("20240310143005", "2024-03-10T14:30:05Z"),
        ("202403101430", "2024-03-10T14:30:00Z"),
        ("2024-07-10T14:30[Europe/Berlin]", "2024-07-10T14:30:00+02:00"),
        ("2024-07-10T14:30Z[Europe/Berlin]", "2024-07-10T16:30:00+02:00"),
        ("2024-11-03T01:30-05:00[America/New_York]", "2024-11-03T01:30:00-05:00"),
        ("2024-W10-7", "2024-03-10T00:00:00Z"),
        ("2024-W10", "2024-03-04T00:00:00Z"),
        ("2024-070", "2024-03-10T00:00:00Z"),
        ("1710081000", "2024-03-10T14:30:00Z"),
        ("@1710081000.5", "2024-03-10T14:30:00.5Z"),
        ("@0", "1970-01-01T00:00:00Z"),
        ("@-1", "1969-12-31T23:59:59Z"),
        ("1710081000123", "2024-03-10T14:30:00.123Z"),
        ("1710081000123456", "2024-03-10T14:30:00.123456Z"),
        ("1710081000123456789", "2024-03-10T14:30:00.123456789Z"),
        ("now", "2024-06-12T22:30:00Z"),
        ("Today", "2024-06-12T00:00:00Z"),
        ("tomorrow", "2024-06-13T00:00:00Z"),
        ("yesterday", "2024-06-11T00:00:00Z"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn forms_of_people_are_read() {
    for (text, expected) in [
        ("10 March 2024", "2024-03-10T00:00:00Z"),
        ("March 10, 2024 2:30 PM", "2024-03-10T14:30:00Z"),
        ("Mar 10th, 2024 at 2pm", "2024-03-10T14:00:00Z"),
        ("Mar. 10, 2024, 2:30 p.m.", "2024-03-10T14:30:00Z"),
        ("10 Sept 2024 12 am", "2024-09-10T00:00:00Z"),
        ("10 Sept 2024 12:05pm", "2024-09-10T12:05:00Z"),
        ("10-Mar-2024 14:30:05.25", "2024-03-10T14:30:05.25Z"),
        ("10.03.2024 14:30", "2024-03-10T14:30:00Z"),
        ("10. March 2024", "2024-03-10T00:00:00Z"),
        ("2024/03/10", "2024-03-10T00:00:00Z"),
        ("31/12/2024", "2024-12-31T00:00:00Z"),
        ("12/31/2024", "2024-12-31T00:00:00Z"),
        ("4/4/2024", "2024-04-04T00:00:00Z"),
        ("Sunday, 10-Mar-24 14:30:00 GMT", "2024-03-10T14:30:00Z"),
        ("Sun Mar 10 14:30:00 2024", "2024-03-10T14:30:00Z"),
        ("Sun, 10 Mar 2024 14:30:00 -0700 (PDT)", "2024-03-10T14:30:00-07:00"),
        ("Sun Mar 10 2024 14:30:00 GMT+0100 (Central European Time)", "2024-03-10T14:30:00+01:00"),
        ("10 March 2024 14:30 Asia/Tokyo", "2024-03-10T14:30:00+09:00"),
        ("2024-03-10 14:30:00 +02:00", "2024-03-10T14:30:00+02:00"),
        ("2024-03-10T14:30:00 +0200", "2024-03-10T14:30:00+02:00"),
        ("10 March 2024 14:30 UTC", "2024-03-10T14:30:00Z"),
        ("10 March 2024 14:30 UTC+2", "2024-03-10T14:30:00+02:00"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn what_has_two_meanings_is_refused_with_both() {
    for (text, expected) in [
        ("3/4/2024", "`3/4/2024` can be `2024-03-04` or `2024-04-03`: write the one that is meant"),
        ("03-04-2024 10:00", "can be `2024-03-04` or `2024-04-03`"),
        ("10-Mar-24", "can be `2024-03-10` or `2010-03-24`"),
        ("1/2/03", "can be `2003-01-02` or `2003-02-01` or `2001-02-03`"),
        (
            "10 March 2024 14:30 CST",
            "`CST` is an abbreviation and no time zone: write the zone that is meant, as `America/Chicago`",
        ),
        ("Monday, 10 March 2024", "2024-03-10 is a Sunday and no Monday"),
    ] {
        assert!(problem(text).contains(expected), "{text}: {}", problem(text));
    }
}

#[test]
fn local_times_that_clocks_repeat_or_skip_are_refused_with_the_choices() {
    assert_eq!(
        problem("2024-11-03T01:30[America/New_York]"),
        "clocks in `America/New_York` were set back and showed 2024-11-03T01:30:00 twice: write \
         `2024-11-03T01:30:00-04:00` for the first time, or `2024-11-03T01:30:00-05:00` for the second"
    );
    assert!(problem("10 March 2024 2:30 am America/New_York").starts_with(
        "clocks in `America/New_York` were set forward and never showed 2024-03-10T02:30:00: write a later time"
    ));
    // A day begins where it begins.
    assert_eq!(read("2018-11-04[America/Sao_Paulo]"), "2018-11-04T01:00:00-02:00");
}

#[test]
fn what_cannot_be_a_time_is_refused_with_the_reason() {
    for (text, expected) in [
        ("", "the time is empty"),
        ("   ", "the time is empty"),
        ("2024-02-30", "there is no such date in the calendar"),
        ("next friday", "`next` means nothing here"),
        ("in 3 days", "`in` means nothing here"),
        ("March 2024", "the day is missing"),
        ("10 March", "there is no year"),
        ("14:30", "there is no whole date"),
        ("2024-03-10 25:00", "`25:00` is no time of day"),
        ("10 March 2024 13 pm", "`pm` belongs to an hour from 1 to 12"),
        ("10 March 2024 1:00 2:00", "two times of day"),
        ("2024-03-10T14:30[Mars/Base]", "Mars/Base"),
        (
            "2024-03-10T14:30-05:00[Europe/Berlin]",
            "the offset -05:00 is not that of `Europe/Berlin` at this time, which is +01:00",
        ),
        ("2024-W60-1", "a year has 52 or 53 weeks"),
        ("2023-366", "there is no day 366 in the year 2023"),
        ("@abc", "is no Unix time"),
        ("@99999999999999999999999999999999", "is no Unix time"),
        ("1 2 3 4 5", "too many numbers"),
    ] {
        assert!(problem(text).contains(expected), "{text}: {}", problem(text));
    }
    assert!(problem(&"9".repeat(1_000)).contains("more than 200 characters"));
}

#[test]
fn no_text_makes_it_panic() {
    for text in [
        "\0",
        "é",
        "-",
        "+",
        "@",
        "@-",
        "@.",
        "T",
        "1:",
        ":1",
        "1:2:3:4",
        "pm",
        "12pmpm",
        "24:00",
        "00/00/0000",
        "9999-12-31T23:59:59Z",
        "-9999-01-01",
        "+275760-09-13",
        "2024-03-10T14:30[",
        "[",
        "]",
        "()",
        "1.",
        "1.1.",
        "....",
        "1.1.1.1",
        "32767/1/1",
        "99999 1 1",
        "1/1/99999",
        "٣/٤/٢٠٢٤",
        "2024-03-10T14:30:60Z",
        "W10",
        "2024W101",
        "aaaa-W10-1",
        "äöüß-111",
        "20-W1ä",
        "２０２４",
        "1stst",
        "+99:99",
        "UTC+99",
        "10 March 2024 14:30 +é",
        "10 March 2024 14:30+",
        "12345678901234567890",
    ] {
        let _ = reader(None).read(text);
        let _ = reader(Some("America/New_York")).read(text);
        let _ = read_as(text, text);
        let _ = read_as(text, "%Y");
        let _ = zones::search(text, Timestamp::MAX);
        let _ = call::<add::add>(json!({"time": "9999-12-31", "duration": text}));
        let _ = call::<cron_next::cron_next>(json!({"expression": text}));
        let _ = call::<format::format>(json!({"time": "-9999-01-02", "format": text}));
    }
    for extreme in [Timestamp::MIN, Timestamp::MAX] {
        for zone in ["Pacific/Kiritimati", "Pacific/Midway", "America/New_York"] {
            let at_the_end = Reader::at(extreme, Some(zone)).unwrap();
            for word in ["now", "today", "tomorrow", "yesterday"] {
                let _ = at_the_end.read(word);
                let _ = at_the_end.add(word, "1 year");
                let _ = at_the_end.add(word, "-1 year");
            }
        }
    }
}

#[test]
fn a_zone_given_is_the_one_that_is_worked_in() {
    let berlin = reader(Some("europe/berlin"));

    let parsed = Parsed::settle(berlin.recognise("2024-03-10 14:30").unwrap(), &berlin).unwrap();
    assert_eq!((parsed.moment.time.as_str(), parsed.assumed.len()), ("2024-03-10T14:30:00+01:00", 0));
    assert_eq!(berlin.read("2024-03-10T14:30Z").unwrap().hour(), 15);
    assert_eq!(berlin.read_date("today").unwrap().to_string(), "2024-06-13");
    assert_eq!(reader(Some("-05:30")).now().to_string(), "2024-06-12T17:00:00-05:30[-05:30]");
}

#[test]
fn unknown_zones_are_refused_with_a_hint() {
    let refused =
        |zone: &str| Reader::at(Timestamp::UNIX_EPOCH, Some(zone)).unwrap_err().message().to_owned();

    assert_eq!(refused("Europe/Tokyo"), "there is no time zone `Europe/Tokyo`: did you mean `Asia/Tokyo`?");
    assert!(refused("PST").contains("`America/Los_Angeles`"));
    assert!(refused("Nowhere/At_All").contains("`zones` searches for them"));
    assert!(refused("+25:00").contains("write it as `+02:00`"));
    assert!(refused("").contains("a time zone is empty"));
    assert!(refused(&"x".repeat(10_000)).len() < 300);
}

#[test]
fn a_form_that_is_told_is_never_ambiguous() {
    let parse = |text: &str, format: &str| {
        read_as(text, format)
            .and_then(|written| Parsed::settle(written, &reader(None)))
            .map(|parsed| parsed.moment.time)
    };

    assert_eq!(parse("03/04/2024 14h30", "%d/%m/%Y %Hh%M").unwrap(), "2024-04-03T14:30:00Z");
    assert_eq!(parse("2024-03-10 14:30 -0500", "%F %H:%M %z").unwrap(), "2024-03-10T14:30:00-05:00");
    assert_eq!(parse("1710081000", "%s").unwrap(), "2024-03-10T14:30:00Z");
    assert!(
        parse("03/04/2024", "%Y-%m-%d").unwrap_err().message().contains("does not have the form `%Y-%m-%d`")
    );
    assert!(parse("14:30", "%H:%M").is_err());
}

#[test]
fn times_are_written_as_asked() {
    let write =
        |format: &str| call::<format::format>(json!({"time": "2024-03-10T14:30:05.123Z", "format": format}));

    assert_eq!(write("%a, %d %b %Y %T GMT").unwrap()["text"], "Sun, 10 Mar 2024 14:30:05 GMT");
    assert_eq!(write("%G-W%V-%u Q%q %j %.3f %:z").unwrap()["text"], "2024-W10-7 Q1 070 .123 +00:00");
    assert_eq!(write("").unwrap()["text"], "");
    assert!(write("%").unwrap_err().message().contains("`%%` writes a percent sign"));
    assert!(write(&"%255A".repeat(100)).unwrap()["text"].as_str().unwrap().len() <= 25_500);
    assert!(write(&"x".repeat(501)).unwrap_err().message().contains("more than 500 bytes"));
}

#[test]
fn days_follow_the_calendar_and_hours_the_clock() {
    let add = |time: &str, duration: &str| {
        reader(Some("America/New_York")).add(time, duration).map(|added| added.after.time)
    };

    assert_eq!(add("2024-03-09T12:00", "1 day").unwrap(), "2024-03-10T12:00:00-04:00");
    assert_eq!(add("2024-03-09T12:00", "24 hours").unwrap(), "2024-03-10T13:00:00-04:00");
    assert_eq!(add("2024-03-09T02:30", "1 day").unwrap(), "2024-03-10T03:30:00-04:00");
    assert_eq!(add("2024-02-29", "1 year").unwrap(), "2025-02-28T00:00:00-05:00");
    assert_eq!(add("2024-03-31T10:00", "P1M2DT3H").unwrap(), "2024-05-02T13:00:00-04:00");
    assert_eq!(add("2024-03-31T10:00", "1 month ago").unwrap(), "2024-02-29T10:00:00-05:00");
    assert_eq!(add("2024-03-31T10:00", "90m").unwrap(), "2024-03-31T11:30:00-04:00");
    assert!(add("2024-03-31", "two days").unwrap_err().message().contains("is no duration"));
    assert!(
        add("2024-03-31", "9000 years").unwrap_err().message().contains("beyond the times that are known")
    );
    assert!(add("2024-03-31", "99999999999999999999 days").is_err());
}

#[test]
fn differences_are_told_in_the_units_asked_for() {
    let amounts = |start: &str, end: &str, units: Value| {
        let arguments = json!({"start": start, "end": end, "units": units, "time_zone": "America/New_York"});
        call::<difference::difference>(arguments).unwrap()["amounts"].clone()
    };

    assert_eq!(amounts("2024-03-09T12:00", "2024-03-10T12:00", json!(["days"])), json!({"days": 1}));
    assert_eq!(amounts("2024-03-09T12:00", "2024-03-10T12:00", json!(["hours"])), json!({"hours": 23}));
    assert_eq!(
        amounts("2024-01-01", "2025-03-04", json!(["days", "years"])),
        json!({"years": 1, "days": 62})
    );
    // How exactly a float is read back depends on the features of `serde_json` that others switch on.
    let months = amounts("2024-01-01", "2024-02-16T12:00", json!(["months"]))["months"].as_f64().unwrap();
    assert!((months - 1.534_482_759).abs() < 1e-9, "{months}");
    assert_eq!(amounts("2024-03-01T10:00", "2024-03-01T09:30", json!(["hours"])), json!({"hours": -0.5}));
    assert_eq!(amounts("2024-03-01", "2024-03-01", json!(["seconds"])), json!({"seconds": 0}));
    assert_eq!(
        amounts("0001-01-01", "9999-06-01", json!(["milliseconds"]))["milliseconds"]
            .as_i64()
            .map(|amount| amount > 0),
        Some(true)
    );

    assert!(
        refusal::<difference::difference>(json!({"start": "now", "end": "now", "units": []}))
            .contains("`units` is empty")
    );
    let tokyo =
        json!({"start": "2024-03-10T00:00[Asia/Tokyo]", "end": "2024-03-10T00:00Z", "units": ["hours"]});
    assert_eq!(
        call::<difference::difference>(tokyo).unwrap(),
        json!({"amounts": {"hours": 9}, "seconds": 32_400})
    );
}

#[test]
fn an_age_counts_every_unit_from_the_birthday() {
    let age = |start: &str, end: &str, units: Value| {
        call::<difference::difference>(json!({"start": start, "end": end, "units": units})).unwrap()["amounts"].clone()
    };
    let units = json!(["years", "months", "days"]);

    for (start, end, expected) in [
        ("2000-02-29", "2024-02-28", [23, 11, 30]),
        ("2000-02-29", "2024-02-29", [24, 0, 0]),
        ("2008-02-29", "2015-05-28", [7, 2, 29]),
        ("2024-01-31", "2024-02-29", [0, 1, 0]),
        ("2024-01-31", "2024-03-30", [0, 1, 30]),
        ("2024-03-31", "2024-02-29", [0, -1, 0]),
        ("9999-01-31", "9999-12-30", [0, 10, 30]),
    ] {
        let [years, months, days] = expected;
        let expected = json!({"years": years, "months": months, "days": days});
        assert_eq!(age(start, end, units.clone()), expected, "{start} {end}");
    }
    assert_eq!(age("2008-02-29", "2015-05-28", json!(["months", "days"])), json!({"months": 86, "days": 29}));
    assert_eq!(age("2024-01-31", "2024-02-29", json!(["months"])), json!({"months": 1}));
}

#[test]
fn a_difference_added_to_its_start_is_its_end() {
    let of = |amounts: &Value, unit: &str| amounts[unit].as_i64().unwrap();
    // A walk through days of four centuries that repeats for everybody.
    let mut state = 7_u64;
    let mut day = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let days = i64::try_from((state >> 33) % 146_097).unwrap();
        Timestamp::from_second((days - 73_000) * 86_400).unwrap().to_string()
    };
    for _ in 0..2_000 {
        let (start, end) = (day(), day());
        let amounts = |units: Value| {
            call::<difference::difference>(json!({"start": start, "end": end, "units": units})).unwrap()["amounts"].clone()
        };
        let age = amounts(json!(["years", "months", "days"]));
        let (years, months, days) = (of(&age, "years"), of(&age, "months"), of(&age, "days"));
        let months_and_days = amounts(json!(["months", "days"]));

        assert!(months.abs() < 12 && days.abs() < 31, "{start} {end} {age}");
        assert_eq!(of(&months_and_days, "months"), 12 * years + months, "{start} {end}");
        assert_eq!(of(&months_and_days, "days"), days, "{start} {end}");
        let duration = format!(
            "{}P{}Y{}M{}D",
            if end < start { "-" } else { "" },
            years.abs(),
            months.abs(),
            days.abs()
        );
        assert_eq!(reader(None).add(&start, &duration).unwrap().after.time, end, "{start} {duration}");
    }
}

#[test]
fn a_time_beyond_the_clock_is_refused_with_its_ends() {
    for text in ["9999-12-31T23:59:59Z", "9999-12-31", "-009999-01-01T00:00Z"] {
        let refused = problem(text);
        assert!(
            refused.contains("known are times from -009999-01-02T01:59:59Z to 9999-12-30T22:00:00Z"),
            "{refused}"
        );
    }
    assert_eq!(read("9999-12-30T22:00:00Z"), "9999-12-30T22:00:00Z");
    assert_eq!(reader(None).read("-009999-01-02T01:59:59Z").unwrap().timestamp(), Timestamp::MIN);
    assert_eq!(Timestamp::MAX.as_second(), "9999-12-30T22:00:00Z".parse::<Timestamp>().unwrap().as_second());
    assert_eq!(reader(None).read_date("9999-12-31").unwrap().to_string(), "9999-12-31");
}

#[test]
fn what_a_time_leaves_open_is_told() {
    let assumed = |text: &str| {
        let reader = reader(Some("UTC"));
        Parsed::settle(reader.recognise(text).unwrap(), &reader).unwrap().assumed.join("; ")
    };
    let leap = "the second 59, as clocks here have no leap second";

    for (text, expected) in [
        ("2016-12-31T23:59:60Z", leap),
        ("20161231T235960Z", leap),
        ("2016-12-31 23:59:60.5", leap),
        ("31 December 2016 23:59:60", leap),
        ("@1710081000123", "milliseconds since 1970, as there are 13 digits"),
        ("1710081000123456", "microseconds since 1970, as there are 16 digits"),
        ("1710081000", "seconds since 1970, as there are 10 digits"),
        ("1/1/1 10:00", "the year 2001, as no year of four digits is written"),
        ("@1710081000", ""),
        ("2024-03-10T14:59:59Z", ""),
        ("2024-03-10T14:30:05.60Z", ""),
        ("2024-03-10T14:30:05-03:30", ""),
        ("10.03.2024 14:30", ""),
    ] {
        assert_eq!(assumed(text), expected, "{text}");
    }
}

#[test]
fn a_duration_that_is_not_understood_is_rewritten_where_it_can_be() {
    let refused =
        |duration: &str| reader(None).add("2024-03-31", duration).expect_err(duration).message().to_owned();
    for (duration, better) in [
        ("1.5 days", "1 day 12 hours"),
        ("1 quarter", "3 months"),
        ("-2 quarters", "6 months ago"),
        ("0.5 years ago", "6 months ago"),
        ("2.5 weeks", "17 days 12 hours"),
        ("0.1 days", "2 hours 24 minutes"),
        ("30 minutes and 1 hour", "1 hour 30 minutes"),
        ("1 decade", "10 years"),
    ] {
        let refused = refused(duration);
        assert!(refused.ends_with(&format!("write `{better}`, if that is meant")), "{refused}");
    }
    for duration in [
        "",
        "two days",
        "1",
        "days",
        "1.2.3 days",
        "1 day -2 hours",
        "99999999999999999999 days",
        "P",
        "1 é",
        "s",
    ] {
        let refused = refused(duration);
        assert!(
            refused.contains("as `1 month 3 days`") && !refused.to_lowercase().contains("jiff"),
            "{refused}"
        );
    }
}

#[test]
fn a_day_that_leads_to_a_skipped_or_repeated_time_says_what_was_taken() {
    let added = |time: &str, duration: &str| reader(Some("America/New_York")).add(time, duration).unwrap();

    for (time, duration, assumed) in [
        (
            "2024-03-09T02:30",
            "1 day",
            "a later time of day, as clocks were set forward and never showed 2024-03-10T02:30:00",
        ),
        (
            "2024-03-11T02:30",
            "-1 day",
            "a later time of day, as clocks were set forward and never showed 2024-03-10T02:30:00",
        ),
        (
            "2024-11-02T01:30",
            "1 day",
            "the first of two times, as clocks were set back and showed 2024-11-03T01:30:00 twice",
        ),
        ("2024-03-09T02:30", "24 hours", ""),
        ("2024-03-09T12:00", "1 day", ""),
    ] {
        assert_eq!(added(time, duration).assumed.join("; "), assumed, "{time} {duration}");
    }
}

#[test]
fn a_month_is_drawn_from_either_day() {
    let drawn =
        call::<calendar::calendar>(json!({"date": "2024-09-30", "month": true, "week_starts_on": "sunday"}))
            .unwrap();

    let month = "Su Mo Tu We Th Fr Sa\n 1  2  3  4  5  6  7\n 8  9 10 11 12 13 14\n15 16 17 18 19 20 21\n22 23 24 25 26 27 28\n29 30";
    assert_eq!(drawn["month"], month);
    assert_eq!(call::<calendar::calendar>(json!({"date": "2021-01-03"})).unwrap()["iso_week"], "2020-W53");
    assert_eq!(call::<calendar::calendar>(json!({"date": "1900-01-01"})).unwrap()["is_leap_year"], false);
}

#[test]
fn business_days_are_counted_and_found() {
    let count = |start: &str, end: &str| {
        call::<business_days::business_days>(json!({"start": start, "end": end})).unwrap()["business_days"]
            .clone()
    };
    let find = |start: &str, days: i32| {
        let holidays = ["2024-12-25", "2024-12-26", "2024-12-28", "2024-12-25"];
        let arguments = json!({"start": start, "days": days, "holidays": holidays});
        call::<business_days::business_days>(arguments).unwrap()["end"].clone()
    };

    assert_eq!(count("2024-03-09", "2024-03-10"), 0);
    assert_eq!(count("2024-03-08", "2024-03-11"), 2);
    assert_eq!(count("2024-01-01", "2024-12-31"), 262);
    assert_eq!(count("0001-01-01", "9999-12-31"), 2_608_615);
    assert_eq!(find("2024-12-24", 1), "2024-12-27");
    assert_eq!(find("2024-12-30", -2), "2024-12-24");
    assert_eq!(find("2024-12-28", 0), "2024-12-28");

    for (arguments, expected) in [
        (json!({"start": "2024-03-11", "end": "2024-03-10"}), "swap them"),
        (json!({"start": "2024-03-11"}), "give `end` to count"),
        (json!({"start": "2024-03-11", "end": "2024-03-12", "days": 1}), "and not both"),
        (json!({"start": "2024-03-11", "days": 10_001}), "go in several steps"),
        (json!({"start": "9999-12-01", "days": 100}), "too far from now"),
        (
            json!({"start": "2024-03-11", "days": 1, "weekend": ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]}),
            "all seven days",
        ),
    ] {
        assert!(refusal::<business_days::business_days>(arguments.clone()).contains(expected), "{arguments}");
    }
}

#[test]
fn cron_follows_the_clocks_of_the_zone() {
    let times = |expression: &str, after: &str, count: u32| -> Vec<String> {
        let after = reader(Some("America/New_York")).read(after).unwrap();
        cron_next::next(expression, after, count)
            .unwrap()
            .times
            .into_iter()
            .map(|moment| moment.time)
            .collect()
    };

    assert_eq!(
        times("0 9 * * 1", "2024-03-08", 2),
        ["2024-03-11T09:00:00-04:00", "2024-03-18T09:00:00-04:00"]
    );
    assert_eq!(times("0 0 29 2 *", "2024-03-01", 1), ["2028-02-29T00:00:00-05:00"]);
    assert_eq!(times("0 0 L * *", "2024-02-01", 1), ["2024-02-29T00:00:00-05:00"]);
    assert_eq!(times("*/30 * * * * *", "2024-02-01", 1), ["2024-02-01T00:00:30-05:00"]);
    assert_eq!(times("@daily", "2024-02-01T12:00", 1), ["2024-02-02T00:00:00-05:00"]);
    // Skipped by the clocks, and repeated by them.
    assert_eq!(
        times("30 2 * * *", "2024-03-10", 2),
        ["2024-03-10T03:00:00-04:00", "2024-03-11T02:30:00-04:00"]
    );
    assert_eq!(
        times("30 1 * * *", "2024-11-03", 2),
        ["2024-11-03T01:30:00-04:00", "2024-11-04T01:30:00-05:00"]
    );
}

#[test]
fn the_words_of_a_cron_expression_tell_the_last_weekday_from_the_last_day() {
    let words = |expression: &str| {
        cron_next::next(expression, reader(Some("UTC")).read("2024-06-01").unwrap(), 1).unwrap()
    };

    let schedule = words("0 0 LW * *");
    assert_eq!(schedule.description, "At 00:00, on the last weekday of the month.");
    assert_eq!(schedule.times[0].time, "2024-06-28T00:00:00Z");
    assert_eq!(words("0 0 L * *").description, "At 00:00, on the last day of the month.");
}

#[test]
fn a_range_past_the_end_is_offered_in_two() {
    for (expression, better) in [
        ("0 22-2 * * *", "0 22-23,0-2 * * *"),
        ("0 22-2/2 * * *", "0 22,0,2 * * *"),
        ("50-10,30 * * * *", "50-59,0-10,30 * * * *"),
        ("0 9 * * FRI-MON", "0 9 * * 5-6,0-1"),
        ("0 0 0 1 NOV-FEB *", "0 0 0 1 11-12,1-2 *"),
    ] {
        let refused = refusal::<cron_next::cron_next>(json!({"expression": expression}));
        assert!(
            refused.ends_with(&format!("a range goes from small to large, so write `{better}`")),
            "{refused}"
        );
        assert!(call::<cron_next::cron_next>(json!({"expression": better})).is_ok());
    }
    assert!(
        refusal::<cron_next::cron_next>(json!({"expression": "0 25-2 * * *"}))
            .contains("as `0 9 * * MON-FRI`")
    );
}

#[test]
fn wrong_cron_expressions_say_why() {
    for (expression, expected) in [
        ("", "it is empty"),
        ("* * *", "is no cron expression"),
        ("61 * * * *", "is no cron expression"),
        ("0 9 * * FOO", "is no cron expression"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 0 1 1 * 2020", "never fires"),
    ] {
        let refused =
            refusal::<cron_next::cron_next>(json!({"expression": expression, "after": "2024-01-01"}));
        assert!(refused.contains(expected), "{expression}: {refused}");
    }
    assert!(
        refusal::<cron_next::cron_next>(json!({"expression": "*".repeat(201)})).contains("more than 200")
    );
}

#[test]
fn zones_are_found_by_name_offset_and_abbreviation() {
    let names = |query: &str| -> Vec<String> {
        let found = zones::search(query, NOW.parse().unwrap()).unwrap();
        found.zones.into_iter().map(|zone| zone.name).collect()
    };

    assert_eq!(names("berlin"), ["Europe/Berlin"]);
    assert_eq!(names("+05:45"), ["Asia/Kathmandu", "Asia/Katmandu"]);
    assert!(names("cest").contains(&"Europe/Paris".to_owned()));
    assert!(zones::search("a", NOW.parse().unwrap()).unwrap().truncated);
    assert!(
        zones::search("atlantis", NOW.parse().unwrap()).unwrap_err().message().contains("no time zone fits")
    );
    assert!(zones::search("", NOW.parse().unwrap()).is_err());
}

#[test]
fn t7_a_day_field_that_begins_with_a_star_limits_the_other() {
    let days = |expression: &str| -> Vec<String> {
        let after = reader(Some("UTC")).read("2024-06-01T12:00").unwrap();
        let schedule = cron_next::next(expression, after, 3).unwrap();
        schedule.times.iter().map(|moment| moment.time[5..10].to_owned()).collect()
    };
    for (expression, expected) in [
        // Mondays that are odd days of the month.
        ("0 0 */2 * MON", ["06-03", "06-17", "07-01"]),
        ("0 0 0 */2 * MON", ["06-03", "06-17", "07-01"]),
        ("0 0 13 * */2", ["06-13", "07-13", "08-13"]),
        // Without a star either one is enough.
        ("0 0 1-31/2 * MON", ["06-03", "06-05", "06-07"]),
        ("0 0 13 * FRI", ["06-07", "06-13", "06-14"]),
        ("0 0 * * MON", ["06-03", "06-10", "06-17"]),
        ("0 0 13 * *", ["06-13", "07-13", "08-13"]),
    ] {
        assert_eq!(days(expression), expected, "{expression}");
    }
}

#[test]
fn t7_an_offset_that_there_is_not_is_refused() {
    for text in ["2024-03-10T14:30+24:00", "2024-03-10T14:30:00-25:30", "2024-03-10T14:30[+25:00]"] {
        assert!(problem(text).contains("is no offset from UTC"), "{}", problem(text));
    }
    let refused = refusal::<parse::parse>(json!({"text": "2024-03-10 +2500", "format": "%Y-%m-%d %z"}));
    assert!(refused.contains("`+25:00` is no offset from UTC"), "{refused}");
    assert_eq!(read("2024-03-10T14:30+23:59"), "2024-03-10T14:30:00+23:59");
}

#[test]
fn t7_a_fraction_that_is_too_fine_is_cut_and_told() {
    for (text, expected) in [
        ("2024-03-10T14:30:05.1234567891Z", "2024-03-10T14:30:05.123456789Z"),
        ("2024-03-10 14:30:05,000000000000+01:00", "2024-03-10T14:30:05+01:00"),
        ("10 March 2024 14:30:05.12345678999", "2024-03-10T14:30:05.123456789Z"),
        ("@1710081000.1234567891", "2024-03-10T14:30:00.123456789Z"),
    ] {
        let reader = reader(None);
        let parsed = Parsed::settle(reader.recognise(text).unwrap(), &reader).unwrap();
        assert_eq!(parsed.moment.time, expected, "{text}");
        assert!(parsed.assumed.iter().any(|assumed| assumed.starts_with("nine digits")), "{text}");
    }
    let reader = reader(None);
    let whole = Parsed::settle(reader.recognise("2024-03-10T14:30:05.123456789Z").unwrap(), &reader).unwrap();
    assert_eq!((whole.moment.time.as_str(), whole.assumed.len()), ("2024-03-10T14:30:05.123456789Z", 0));
}

#[test]
fn t7_a_month_without_a_day_says_so() {
    for text in ["2024-03", "03/2024", "March 2024", "2024-3"] {
        let problem = problem(text);
        assert!(problem.contains("the day is missing, as `2024-03-01` has one"), "{problem}");
    }
    assert_eq!(read("2024-03-01"), "2024-03-01T00:00:00Z");
    assert!(problem("2024-13").contains("there is no year, or no day"));
}
