//! Arguments as `multipart/form-data` (RFC 7578): one part for each, and one for each file or item of a list.

use std::hash::{BuildHasher, RandomState};

use toolgate_sdk::Error;

use super::arguments::{Given, Value, refuse};
use crate::plan::{Place, Target};
use crate::workspace::{SENT_BYTES, SentFile};

/// Writes the parts. Returns the media type with its boundary, and the content.
pub fn write(content_type: &str, given: &[(&Place, Given<'_>)]) -> Result<(String, Vec<u8>), Error> {
    // Random, so that no content can hold it on purpose.
    let [first, second] = [0, 1].map(|number: u8| RandomState::new().hash_one(number));
    let mut parts = Parts { boundary: format!("toolgate-{first:016x}{second:016x}"), content: Vec::new() };
    let mut left = SENT_BYTES;
    for (place, given) in given {
        match &place.target {
            Target::Member(name) => parts.add_values(name, given.value, place.whole_numbers),
            Target::File(name) => {
                let paths = given.value.words(false).ok_or_else(|| refuse(given.name, "is no path"))?;
                for path in paths {
                    let file = SentFile::read(given.name, &path, left)?;
                    left -= file.content.len() as u64;
                    parts.begin(name, Some(&file.name), Some(file.media_type));
                    parts.end(&file.content);
                }
            }
            _ => {}
        }
    }
    let Parts { boundary, mut content } = parts;
    content.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("{content_type}; boundary={boundary}"), content))
}

struct Parts {
    boundary: String,
    content: Vec<u8>,
}

impl Parts {
    /// Words are text; objects, and lists with parts, are JSON (OpenAPI 3.1, 4.8.15).
    fn add_values(&mut self, name: &str, value: Value<'_>, is_whole: bool) {
        match value.words(is_whole) {
            Some(words) => words.iter().for_each(|word| {
                self.begin(name, None, None);
                self.end(word.as_bytes());
            }),
            None => {
                self.begin(name, None, Some("application/json"));
                self.end(value.json().as_bytes());
            }
        }
    }

    fn begin(&mut self, name: &str, file_name: Option<&str>, media_type: Option<&str>) {
        let mut head =
            format!("--{}\r\nContent-Disposition: form-data; name=\"{}\"", self.boundary, escape(name));
        if let Some(file_name) = file_name {
            head.push_str(&format!("; filename=\"{}\"", escape(file_name)));
        }
        if let Some(media_type) = media_type {
            head.push_str(&format!("\r\nContent-Type: {media_type}"));
        }
        self.content.extend_from_slice(head.as_bytes());
        self.content.extend_from_slice(b"\r\n\r\n");
    }

    fn end(&mut self, content: &[u8]) {
        self.content.extend_from_slice(content);
        self.content.extend_from_slice(b"\r\n");
    }
}

/// A name as browsers write it (HTML, "multipart/form-data encoding algorithm").
fn escape(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}
