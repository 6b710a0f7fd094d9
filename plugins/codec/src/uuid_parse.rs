//! `uuid_parse`: what a UUID tells of itself.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};
use uuid::{Uuid, Variant};

/// With braces and `urn:uuid:` it is shorter than this.
const MAX_CHARACTERS: usize = 60;

/// The prefix of a UUID that is written as a name of its own (RFC 9562, 4).
const URN: &str = "urn:uuid:";

/// Reads a UUID in any of its forms, and tells its version and, where it has one, its time.
///
/// Use it to check an identifier, or to bring it to the common form.
#[tool(
    read_only,
    tags("guid", "validate", "timestamp"),
    examples(
        {"uuid": "{017F22E2-79B0-7CC3-98C4-DC0C0C07398F}"} => {
            "uuid": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "version": 7, "kind": "sorted by time", "variant": "RFC 9562", "unix_milliseconds": 1645557742000
        },
        {"uuid": "2ED6657DE927568B95E12665A8AEA6A2"} => {
            "uuid": "2ed6657d-e927-568b-95e1-2665a8aea6a2", "version": 5, "kind": "from a name, by SHA-1", "variant": "RFC 9562"
        },
    )
)]
pub fn uuid_parse(
    /// The UUID: with dashes or without, in braces, or as `urn:uuid:`
    uuid: String,
) -> Result<Parsed, Error> {
    let trimmed = uuid.trim();
    if trimmed.chars().count() > MAX_CHARACTERS {
        return Err(Error::invalid(
            "`uuid` is too long for one: it has 32 hexadecimal digits; give one at a time",
        ));
    }
    // With this before it, the crate reads only the form with dashes.
    let start = trimmed.get(..URN.len()).filter(|start| start.eq_ignore_ascii_case(URN));
    let bare = &trimmed[start.map_or(0, str::len)..];
    let read = Uuid::try_parse(bare).map_err(|error| {
        Error::invalid(format!(
            "`{trimmed}` is no UUID: {error}; it has 32 hexadecimal digits, as 017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
        ))
    })?;
    Ok(Parsed::from(read))
}

/// The fields of a UUID.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parsed {
    /// In the common form
    pub uuid: String,
    /// 0 for the nil UUID, 1 to 8, or 15 for the one of all ones
    pub version: usize,
    /// Meaning of the version
    pub kind: &'static str,
    /// Who defined its layout
    pub variant: &'static str,
    /// When it was made, of those that say so (versions 1, 6 and 7), since 1970-01-01T00:00:00Z
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_milliseconds: Option<u64>,
}

impl From<Uuid> for Parsed {
    fn from(uuid: Uuid) -> Self {
        let unix_milliseconds = uuid.get_timestamp().and_then(|time| {
            let (seconds, nanoseconds) = time.to_unix();
            seconds.checked_mul(1_000)?.checked_add(u64::from(nanoseconds) / 1_000_000)
        });
        Self {
            uuid: uuid.to_string(),
            version: uuid.get_version_num(),
            kind: kind(&uuid),
            variant: variant(&uuid),
            unix_milliseconds,
        }
    }
}

fn kind(uuid: &Uuid) -> &'static str {
    if uuid.is_nil() {
        return "nil, which stands for none";
    }
    if uuid.is_max() {
        return "max, which stands for all";
    }
    match uuid.get_version_num() {
        1 => "time and machine",
        2 => "DCE security",
        3 => "from a name, by MD5",
        4 => "random",
        5 => "from a name, by SHA-1",
        6 => "time and machine, sorted by time",
        7 => "sorted by time",
        8 => "custom",
        _ => "not defined",
    }
}

fn variant(uuid: &Uuid) -> &'static str {
    match uuid.get_variant() {
        Variant::NCS => "NCS",
        Variant::RFC4122 => "RFC 9562",
        Variant::Microsoft => "Microsoft",
        _ => "reserved",
    }
}
