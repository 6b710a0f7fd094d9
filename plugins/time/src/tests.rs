//! Tests of the behaviour that a model relies on, with a clock that stands still.

mod cron;
mod reading;
mod spans;

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
fn times_are_written_as_asked() {
    let write =
        |format: &str| call::<format::format>(json!({"time": "2024-03-10T14:30:05.123Z", "format": format}));

    assert_eq!(write("%a, %d %b %Y %T GMT").unwrap()["text"], "Sun, 10 Mar 2024 14:30:05 GMT");
    assert_eq!(write("%G-W%V-%u Q%q %j %.3f %:z").unwrap()["text"], "2024-W10-7 Q1 070 .123 +00:00");
    // As in the locale C.
    for (format, expected) in [
        ("%c", "Sun Mar 10 14:30:05 2024"),
        ("%^c", "SUN MAR 10 14:30:05 2024"),
        ("%x", "03/10/24"),
        ("%X", "14:30:05"),
        ("%r", "02:30:05 PM"),
    ] {
        assert_eq!(write(format).unwrap()["text"], expected, "{format}");
    }
    assert_eq!(write("").unwrap()["text"], "");
    assert!(write("%").unwrap_err().message().contains("`%%` writes a percent sign"));
    assert!(write(&"%255A".repeat(100)).unwrap()["text"].as_str().unwrap().len() <= 25_500);
    assert!(write(&"x".repeat(501)).unwrap_err().message().contains("more than 500 bytes"));
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
