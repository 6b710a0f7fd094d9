//! `convert_units` and `statistics`.

use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::{Error, Tool};

use super::*;
use crate::convert_units::convert_units;
use crate::statistics::statistics;

fn call<T: Tool>(arguments: Value) -> Result<Value, Error> {
    testing::call::<T>(&testing::context().build(), arguments)
}

fn convert(value: Value, from: &str, to: &str) -> Value {
    let arguments = json!({"value": value, "from": from, "to": to});
    call::<convert_units>(arguments).unwrap_or_else(|error| panic!("{from} to {to}: {error}"))["decimal"]
        .clone()
}

fn refusal<T: Tool>(arguments: Value) -> String {
    let error = call::<T>(arguments.clone()).expect_err(&arguments.to_string());
    assert_eq!(error.code(), "INVALID_ARGUMENTS", "{error}");
    error.message().to_owned()
}

#[test]
fn units_have_their_defined_sizes() {
    for (value, from, to, expected) in [
        (json!(1), "mi", "ft", "5280"),
        (json!(1), "nautical mile", "meters", "1852"),
        (json!(12), "inches", "Feet", "1"),
        (json!(1), "lb", "oz", "16"),
        (json!(0.1), "kg", "g", "100"),
        (json!(1), "short ton", "lbs", "2000"),
        (json!(-40), "C", "F", "-40"),
        (json!(0), "K", "°C", "-273.15"),
        (json!(98.6), "fahrenheit", "celsius", "37"),
        (json!(1), "us_gallon", "in3", "231"),
        (json!(1), "imperial pint", "mL", "568.26125"),
        (json!(1), "us cup", "us_tbsp", "16"),
        (json!(1), "year", "day", "365.2425"),
        (json!(90), "minutes", "h", "1.5"),
        (json!(1), "GiB", "MiB", "1024"),
        (json!(100), "Mbit", "MB", "12.5"),
        (json!(36), "km/h", "m/s", "10"),
        (json!(1), "acre", "ft²", "43560"),
        (json!(1), "km^2", "ha", "100"),
        (json!(1), "kWh", "MJ", "3.6"),
        (json!(1), "atm", "torr", "760"),
        (json!(1), "psi", "Pa", "6894.7572931684"),
        (json!("1e30"), "m", "km", "1000000000000000000000000000"),
        (json!("2/3"), "ft", "in", "8"),
    ] {
        assert_eq!(convert(value, from, to), expected, "{from} to {to}");
    }
}

#[test]
fn every_unit_is_found_by_its_name_and_converts_to_itself() {
    for unit in crate::units::all() {
        let name = unit.name();
        assert_eq!(convert(json!(7), name, name), "7", "{name}");
    }
}

#[test]
fn letters_whose_case_counts_are_not_changed() {
    for (from, to, expected) in [
        ("Mm", "km", "write `mm` if that is meant"),
        ("mM", "km", "write `mm` if that is meant"),
        ("MM", "cm", "write `mm` if that is meant"),
        ("Nm", "m", "write `nm` if that is meant"),
        ("Mg", "kg", "write `mg` if that is meant"),
        ("ML", "L", "write `mL` if that is meant"),
        ("J", "mj", "write `MJ` if that is meant"),
        ("MS", "s", "write `ms` if that is meant"),
        ("Pb", "MB", "write `PB` if that is meant"),
        ("kb", "MB", "write `kB` if that is meant"),
        ("mib", "B", "`mib` can be `MiB` or `Mibit`"),
    ] {
        let refused = refusal::<convert_units>(json!({"value": 1, "from": from, "to": to}));
        assert!(refused.contains(expected), "{from} to {to}: {refused}");
    }
    for (from, to, expected) in [
        ("KM", "m", "1000"),
        ("Kg", "g", "1000"),
        ("ml", "L", "0.001"),
        ("PSI", "psi", "1"),
        ("kwh", "MJ", "3.6"),
        ("mmhg", "mmHg", "1"),
        ("Millimeters", "mm", "1"),
        ("Mbits", "mbit", "1"),
        ("Mib", "Kib", "1024"),
        ("kbit", "bit", "1000"),
        ("Calories", "kJ", "4.184"),
        ("calories", "J", "4.184"),
        ("sq ft", "ft2", "1"),
    ] {
        assert_eq!(convert(json!(1), from, to), expected, "{from} to {to}");
    }
}

#[test]
fn units_that_cannot_be_converted_are_refused_with_the_reason() {
    for (value, from, to, expected) in [
        (json!(1), "gallon", "L", "`gallon` can be `us_gallon` or `imperial_gallon`"),
        (json!(1), "kg", "ton", "`ton` can be `t` or `short_ton` or `long_ton`"),
        (json!(1), "mb", "bit", "`mb` can be `Mbit` or `MB`"),
        (json!(1), "kg", "m", "`kg` is a mass and `m` a length"),
        (json!(1), "kg", "stones throw", "the units of mass are `ug`, `mg`"),
        (json!(1), "x", "y", "there is no unit `x` here, and no `y`"),
        (json!(1), "", "", "there is no unit"),
        (json!(-300), "C", "K", "below absolute zero"),
        (json!("1 +"), "m", "km", "the expression ends"),
        (json!("9".repeat(10_001)), "m", "km", "`value` is too long"),
    ] {
        let refused = refusal::<convert_units>(json!({"value": value, "from": from, "to": to}));
        assert!(refused.contains(expected), "{from} to {to}: {refused}");
    }
}

#[test]
fn statistics_are_exact() {
    let single = call::<statistics>(json!({"numbers": ["1e3"]})).unwrap();
    assert_eq!(single["mean"], "1000");
    assert_eq!(single["standard_deviation"], "0");
    assert!(single.get("sample_variance").is_none());
    assert_eq!(single["percentiles"][0]["value"], "1000");

    let numbers = json!(["0.1", 0.2, -0.3, "10000000000000000000000.1", "-1e22"]);
    let exact = call::<statistics>(json!({"numbers": numbers, "percentiles": [0, 12.5, 100]})).unwrap();
    assert_eq!(exact["sum"], "0.1");
    assert_eq!(exact["percentiles"][0]["value"], "-10000000000000000000000");
    assert_eq!(exact["percentiles"][1]["value"], "-5000000000000000000000.15");
    assert_eq!(exact["percentiles"][2]["value"], "10000000000000000000000.1");

    let two = call::<statistics>(json!({"numbers": [3, 1, 3, 1, 2], "digits": 2})).unwrap();
    assert_eq!(two["modes"], json!(["1", "3"]));
    assert_eq!(two["rounded"], json!(["standard_deviation"]));
}

#[test]
fn numbers_that_cannot_be_taken_are_refused_with_the_place() {
    for (arguments, expected) in [
        (json!({"numbers": []}), "`numbers` has 0: give 1 to 10000"),
        (json!({"numbers": vec![1; 10_001]}), "give 1 to 10000"),
        (json!({"numbers": [1, "two"]}), "number 2 of `numbers`: it is no number"),
        (json!({"numbers": [1, "1,000"]}), "number 2 of `numbers`: it is no number in digits"),
        (json!({"numbers": ["1e200"]}), "more than the 100 digits"),
        (json!({"numbers": ["1e-200"]}), "more than the 100 digits"),
        (json!({"numbers": [1], "percentiles": [101]}), "`101` is no percentile"),
        (json!({"numbers": [1], "percentiles": ["p95"]}), "`p95` is no percentile"),
    ] {
        let refused = refusal::<statistics>(arguments.clone());
        assert!(refused.contains(expected), "{refused}");
    }
    for text in ["", "-", "+", "--1", "NaN", "inf", "1e", "é", "\0", "."] {
        let _ = call::<statistics>(json!({"numbers": [text], "percentiles": [text]}));
        let _ = call::<convert_units>(json!({"value": text, "from": text, "to": text}));
    }
}

#[test]
fn the_largest_list_is_calculated() {
    let numbers: Vec<String> =
        (0..10_000).map(|index| format!("{}.{}", "7".repeat(40), "3".repeat(index % 50 + 1))).collect();

    assert_eq!(call::<statistics>(json!({"numbers": numbers})).unwrap()["count"], 10_000);
}
