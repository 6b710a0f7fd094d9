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
