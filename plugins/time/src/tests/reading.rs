//! Texts that are read as a time, and texts that are not.

use super::*;

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
fn what_stands_in_parentheses_counts() {
    for (text, expected) in [
        ("2024-03-10 14:30 (UTC+2)", "2024-03-10T14:30:00+02:00"),
        ("2024-03-10 14:30 (+02:00)", "2024-03-10T14:30:00+02:00"),
        ("10 March 2024, 14:30 (Europe/Berlin)", "2024-03-10T14:30:00+01:00"),
        ("2024-03-10 (14:30)", "2024-03-10T14:30:00Z"),
        ("2024-03-10 2:30 (p.m.)", "2024-03-10T14:30:00Z"),
        ("10 March 2024 (Sunday)", "2024-03-10T00:00:00Z"),
        ("2024-03-10 14:30 ()", "2024-03-10T14:30:00Z"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    for (text, expected) in [
        ("2024-03-10 14:30 (EST)", "`EST` is an abbreviation and no time zone"),
        ("2024-03-10 14:30 (pm)", "`pm` is no further date"),
        ("2024-03-10 14:30 (15:30)", "`15:30` is no further date"),
        ("2024-03-10 14:30 (local time)", "`local time` is no further date"),
        ("14:30Z 10 March 2024 (Monday)", "2024-03-10 is a Sunday and no Monday"),
    ] {
        assert!(problem(text).contains(expected), "{text}: {}", problem(text));
    }
}

#[test]
fn a_comment_behind_an_offset_only_names_it() {
    for (text, expected) in [
        ("Sun, 10 Mar 2024 14:30:00 -0700 (PDT)", "2024-03-10T14:30:00-07:00"),
        ("Sun Mar 10 2024 14:30:00 GMT+0100 (Central European Standard Time)", "2024-03-10T14:30:00+01:00"),
        ("Sun Mar 10 2024 14:30:00 GMT+0530 (GMT+05:30)", "2024-03-10T14:30:00+05:30"),
        ("2024-03-10T14:30:00+01:00 (CET)", "2024-03-10T14:30:00+01:00"),
        ("2024-03-10 14:30 UTC (Coordinated Universal Time (UTC))", "2024-03-10T14:30:00Z"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    for (text, expected) in [
        ("2024-03-10 14:30 +0100 (+0200)", "`+0200` is no further date"),
        ("2024-03-10 02:30 +0100 (15:30)", "`15:30` is no further date"),
    ] {
        assert!(problem(text).contains(expected), "{text}: {}", problem(text));
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
        ("2024-02-30", "is no further date"),
        ("next friday", "`next` means nothing here; for a time that is so far from another call `add`"),
        ("in 3 days", "call `add`, as with `today` and `3 days`, or write the date"),
        ("5 days ago", "call `add`, as with `today` and `3 days`, or write the date"),
        ("local noon", "call `add`"),
        ("March 2024", "the day is missing"),
        ("10 March", "is no further date with a year"),
        ("14:30", "there is no whole date"),
        ("2024-03-10 25:00", "`25:00` is no further date with a year, no time of day"),
        ("10 March 2024 13 pm", "`13 pm` is no further date"),
        ("10 March 2024 1:00 2:00", "`2:00` is no further date"),
        ("2024-03-10T14:30[Mars/Base]", "Mars/Base"),
        (
            "2024-03-10T14:30-05:00[Europe/Berlin]",
            "the offset -05:00 is not that of `Europe/Berlin` at this time, which is +01:00",
        ),
        ("2024-W60-1", "cannot be read as a time"),
        ("2023-366", "cannot be read as a time"),
        ("@abc", "is no Unix time"),
        ("@99999999999999999999999999999999", "is no Unix time"),
        ("1 2 3 4 5", "cannot be read as a time"),
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
    assert!(problem("2024-13").contains("is no further date"));
}

#[test]
fn a_time_of_day_may_stand_beside_a_word_for_a_day() {
    for (text, expected) in [
        ("tomorrow 3pm", "2024-06-13T15:00:00Z"),
        ("tomorrow at 3 pm", "2024-06-13T15:00:00Z"),
        ("Today, 14:30", "2024-06-12T14:30:00Z"),
        ("14:30 yesterday", "2024-06-11T14:30:00Z"),
        // Tokyo has Thursday already.
        ("tomorrow 3pm Asia/Tokyo", "2024-06-14T15:00:00+09:00"),
        ("today 15:00 +02:00", "2024-06-13T15:00:00+02:00"),
        ("tomorrow, Thursday", "2024-06-13T00:00:00Z"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    let berlin = reader(Some("Europe/Berlin"));
    let parsed = Parsed::settle(berlin.recognise("tomorrow 3pm").unwrap(), &berlin).unwrap();
    assert_eq!((parsed.moment.time.as_str(), parsed.assumed.len()), ("2024-06-14T15:00:00+02:00", 0));
    for (text, expected) in [
        ("tomorrow 10 March", "`10 mar` is no further date"),
        ("tomorrow 15", "`15` is no further date"),
        ("today tomorrow", "`tomorrow` is no further date"),
        ("tomorrow, Friday", "2024-06-13 is a Thursday and no Friday"),
    ] {
        assert!(problem(text).contains(expected), "{text}: {}", problem(text));
    }
}

#[test]
fn the_century_of_a_year_of_two_digits_is_told_also_where_the_form_is() {
    let parsed = |text: &str, format: &str| {
        let reader = reader(Some("UTC"));
        let parsed = Parsed::settle(read_as(text, format).unwrap(), &reader).unwrap();
        (parsed.parts.year, parsed.assumed.join("; "))
    };
    let told = "a year from 1969 to 2068, as `format` has two digits of it";

    for (text, format, year) in [
        ("01/01/69 10:00", "%d/%m/%y %H:%M", 1969),
        ("01/01/68 10:00", "%d/%m/%y %H:%M", 2068),
        ("1/2/03 10:00", "%-d/%-m/%-y %H:%M", 2003),
        ("01/31/99 10:00 +0000", "%D %H:%M %z", 1999),
        ("24-W10-7 10:00", "%g-W%V-%u %H:%M", 2024),
    ] {
        assert_eq!(parsed(text, format), (year, told.to_owned()), "{format}");
    }
    for (text, format) in [("01/01/1969 10:00", "%d/%m/%Y %H:%M"), ("%y 1969-01-01 10:00", "%%y %F %H:%M")] {
        assert_eq!(parsed(text, format), (1969, String::new()), "{format}");
    }
}
