//! Times apart from each other: added, counted, drawn as a month.

use super::*;

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
    // A walk through days of four centuries that repeats for each run.
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
fn a_duration_that_is_not_understood_is_refused_with_the_form() {
    for duration in [
        "",
        "two days",
        "1",
        "days",
        "1.5 days",
        "1 quarter",
        "30 minutes and 1 hour",
        "1.2.3 days",
        "1 day -2 hours",
        "99999999999999999999 days",
        "P",
        "1 é",
        "s",
    ] {
        let refused = reader(None).add("2024-03-31", duration).expect_err(duration).message().to_owned();
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
