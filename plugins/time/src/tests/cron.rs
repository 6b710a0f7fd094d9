//! The times that a cron expression names.

use super::*;

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
fn a_range_past_the_end_is_refused_with_the_way_out() {
    for expression in ["0 22-2 * * *", "50-10,30 * * * *", "0 9 * * FRI-MON"] {
        let refused = refusal::<cron_next::cron_next>(json!({"expression": expression}));
        assert!(refused.ends_with("each range from small to large, as `22-23,0-2`"), "{refused}");
    }
    assert!(call::<cron_next::cron_next>(json!({"expression": "0 22-23,0-2 * * *"})).is_ok());
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
fn what_no_time_fits_is_no_cron_expression() {
    for expression in [
        "0 0 , * *",
        ", * * * *",
        "0 , * * *",
        "* * * , *",
        "0 0 * * ,",
        "0 0 1 * +",
        ", * * * * *",
        "0 0 0 1 1 * ,",
    ] {
        let refused = refusal::<cron_next::cron_next>(json!({"expression": expression}));
        assert!(refused.contains("a list has an empty entry"), "{expression}: {refused}");
    }
    for entry in [
        "1-", "-", "-1", "/", "*/", "/5", "*/0", "5/", ",,", "1,,2", ",1", "1,", "22-2,", "#", "L", "W",
        "LW", "1#2", "*,1", "**", "?",
    ] {
        for place in 0..7 {
            let fields: Vec<_> = (0..7).map(|field| if field == place { entry } else { "*" }).collect();
            // An entry about days alone is fine there.
            if matches!((place, entry), (3, "L" | "LW" | "?") | (5, "1#2" | "?")) {
                continue;
            }
            let refused = refusal::<cron_next::cron_next>(json!({"expression": fields.join(" ")}));
            assert!(refused.contains("is no cron expression"), "{entry}: {refused}");
        }
    }
    assert!(call::<cron_next::cron_next>(json!({"expression": "0,30 0,12 1,15 1,6 +1,2"})).is_ok());
}

#[test]
fn the_last_day_of_a_week_has_to_be_named() {
    for weekday in ["L", "MON,L", "+L"] {
        let expression = format!("0 0 * * {weekday}");
        let refused = refusal::<cron_next::cron_next>(json!({"expression": expression}));
        assert!(refused.contains("`L` alone is no day of the week"), "{refused}");
    }
    for (weekday, day) in [("SAT", "01"), ("SUN", "02"), ("FRI#L", "28"), ("5L", "28")] {
        let schedule = call::<cron_next::cron_next>(
            json!({"expression": format!("0 0 * * {weekday}"), "after": "2024-05-31T12:00", "count": 1}),
        );
        assert_eq!(schedule.unwrap()["times"][0]["time"], format!("2024-06-{day}T00:00:00Z"), "{weekday}");
    }
}

#[test]
fn a_job_fires_once_right_after_what_clocks_skip() {
    let times = |zone: &str, expression: &str, after: &str, count: u32| -> Vec<String> {
        let after = reader(Some(zone)).read(after).unwrap();
        let schedule = cron_next::next(expression, after, count).unwrap();
        schedule.times.into_iter().map(|moment| moment.time[..16].to_owned()).collect()
    };

    assert_eq!(
        times("Pacific/Apia", "0 12 30 * *", "2011-11-30T13:00", 2),
        ["2011-12-31T00:00", "2012-01-30T12:00"]
    );
    assert_eq!(
        times("Pacific/Apia", "30 23 30 * *", "2011-11-30T23:45", 2),
        ["2011-12-31T00:00", "2012-01-30T23:30"]
    );
    assert_eq!(
        times("Pacific/Apia", "0 0 * * *", "2011-12-27T12:00", 4),
        ["2011-12-28T00:00", "2011-12-29T00:00", "2011-12-31T00:00", "2012-01-01T00:00"]
    );
    assert_eq!(
        times("Pacific/Apia", "0 9,12 * * *", "2011-12-29T12:00", 2),
        ["2011-12-31T00:00", "2011-12-31T09:00"]
    );
    assert_eq!(
        times("Pacific/Apia", "*/30 * * * *", "2011-12-29T23:00", 3),
        ["2011-12-29T23:30", "2011-12-31T00:00", "2011-12-31T00:30"]
    );
    assert_eq!(
        times("Pacific/Kwajalein", "0 9 * * *", "1993-08-19T12:00", 4),
        ["1993-08-20T09:00", "1993-08-22T00:00", "1993-08-22T09:00", "1993-08-23T09:00"]
    );
    assert_eq!(
        times("Pacific/Kiritimati", "0 0 31 12 *", "1994-06-01", 2),
        ["1995-01-01T00:00", "1995-12-31T00:00"]
    );
    // An hour, with more than one time in it.
    assert_eq!(
        times("America/New_York", "0,30 2 * * *", "2024-03-10", 2),
        ["2024-03-10T03:00", "2024-03-11T02:00"]
    );
}

#[test]
fn a_job_fires_once_at_what_clocks_repeat() {
    let times = |after: &str| -> Vec<String> {
        let after = reader(None)
            .read(after)
            .unwrap()
            .with_time_zone(reader(Some("America/New_York")).now().time_zone().clone());
        let schedule = cron_next::next("15,45 1 * * *", after, 2).unwrap();
        schedule.times.into_iter().map(|moment| moment.time).collect()
    };
    let [first, second, next] =
        ["2024-11-03T01:15:00-04:00", "2024-11-03T01:45:00-04:00", "2024-11-04T01:15:00-05:00"];

    assert_eq!(times("2024-11-03T01:00:00-04:00"), [first, second]);
    assert_eq!(times(first), [second, next]);
    // The later half is over the second time before anything is due.
    assert_eq!(times("2024-11-03T01:00:00-05:00")[0], next);
}

#[test]
fn the_words_of_a_step_are_those_of_a_whole_field() {
    let words = |expression: &str| {
        cron_next::next(expression, reader(Some("UTC")).read("2024-06-01").unwrap(), 1).unwrap().description
    };

    assert_eq!(words("5,*/20 * * * *"), "At minute 0, 5, 20, and 40 past every hour.");
    assert_eq!(words("*/20,5 * * * *"), "At minute 0, 5, 20, and 40 past every hour.");
    assert_eq!(words("0-30/10 * * * *"), "At minute 0, 10, 20, and 30 past every hour.");
    assert_eq!(words("0 9,*/6 * * *"), "At minute 0, of hour 0, 6, 9, 12, and 18.");
    assert_eq!(words("0 0 1 5,*/6 *"), "At 00:00, on day 1, in January, May, and July.");
    assert_eq!(words("0 0 1 2-10/4 *"), "At 00:00, on day 1, in February, June, and October.");
    assert_eq!(words("0,5,*/20 0 0 * * *"), "At 00:00, at second 0, 5, 20, and 40.");
    assert_eq!(words("*/20 * * * *"), "At every 20 minutes.");
    assert_eq!(words("0 0 1 */6 *"), "At 00:00, on day 1, in every 6 months.");
}

#[test]
fn a_step_that_does_not_divide_its_field_is_told_by_its_values() {
    let words = |expression: &str| {
        cron_next::next(expression, reader(Some("UTC")).read("2024-06-01").unwrap(), 1).unwrap().description
    };

    for (uneven, expected) in [
        ("*/40 * * * *", "At minute 0 and 40 past every hour."),
        ("*/40 * * * * *", "At second 0 and 40."),
        ("0 */7 * * *", "At minute 0, of hour 0, 7, 14, and 21."),
        ("* */9 * * *", "Every minute past hour 0, 9, and 18."),
        ("0 0 1 */5 *", "At 00:00, on day 1, in January, June, and November."),
    ] {
        assert_eq!(words(uneven), expected, "{uneven}");
    }
    for (even, expected) in [
        ("*/30 * * * *", "At every 30 minutes."),
        ("0 */8 * * *", "At minute 0, of every 8 hours."),
        ("0 0 1 */4 *", "At 00:00, on day 1, in every 4 months."),
        ("0 0 0 1 1 * */7", "At 00:00, on day 1, in January, in year every 7."),
    ] {
        assert_eq!(words(even), expected, "{even}");
    }
}

#[test]
fn midnight_is_a_name_for_every_day() {
    for name in ["@midnight", "@Midnight", "@daily"] {
        let schedule = call::<cron_next::cron_next>(
            json!({"expression": name, "after": "2024-06-01T12:00", "count": 2}),
        )
        .unwrap();
        assert_eq!(schedule["description"], "At 00:00.", "{name}");
        assert_eq!(schedule["times"][1]["time"], "2024-06-03T00:00:00Z", "{name}");
    }
    assert!(
        refusal::<cron_next::cron_next>(json!({"expression": "@noon"})).contains("is no cron expression")
    );
}
