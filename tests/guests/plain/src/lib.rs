//! Guest of the tests of components without the plugin contract.

#![allow(unsafe_code, reason = "the generated bindings are unsafe")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exports::local::time_server::store::{self, Bucket, GuestBucket};
use exports::local::time_server::time::{self, Day, Fault, Form, Parts, Place};

wit_bindgen::generate!({ world: "time-server", path: "wit" });

struct Plain;

export!(Plain);

impl Guest for Plain {
    fn read_file(path: String) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

impl time::Guest for Plain {
    fn get_current_time(zone: Option<String>) -> Result<u64, Fault> {
        match zone.as_deref() {
            None | Some("UTC") => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                Ok(since.unwrap_or(Duration::ZERO).as_secs())
            }
            Some("far") => Ok(u64::MAX),
            Some("busy") => Err(Fault::Busy),
            Some(zone) => Err(Fault::UnknownZone(zone.to_owned())),
        }
    }

    fn format(seconds: i64, form: Form, parts: Parts) -> String {
        format!("{seconds} {form:?} {parts:?}")
    }

    fn locate(place: Place, days: Vec<Day>) -> (Place, u32) {
        let count = u32::try_from(days.len()).unwrap_or_default();
        (Place { city: place.city.to_uppercase(), ..place }, count)
    }

    fn sum(numbers: Vec<u8>) -> u32 {
        numbers.into_iter().map(u32::from).sum()
    }

    fn letter(letter: char, twice: bool) -> Option<Option<char>> {
        match (letter, twice) {
            ('-', false) => None,
            ('-', true) => Some(None),
            (letter, _) => Some(Some(letter)),
        }
    }

    fn divide(dividend: f64, divisor: f64) -> f64 {
        dividend / divisor
    }

    fn fail(message: String) -> Result<(), String> {
        Err(message)
    }

    fn nested(outcome: Result<Vec<Option<u16>>, String>) -> Result<Vec<Option<u16>>, String> {
        outcome
    }

    fn repeat(text: String, times: u32) -> Vec<String> {
        (0..times).map(|_| text.clone()).collect()
    }

    fn crash() {
        std::process::abort();
    }
}

/// The key is its own value.
struct OwnBucket;

impl GuestBucket for OwnBucket {
    fn new(_: String) -> Self {
        Self
    }

    fn get(&self, key: String) -> Option<String> {
        Some(key)
    }
}

impl store::Guest for Plain {
    type Bucket = OwnBucket;

    fn open(_: String) -> Bucket {
        Bucket::new(OwnBucket)
    }

    fn count(keys: Vec<String>) -> u32 {
        u32::try_from(keys.len()).unwrap_or_default()
    }
}
