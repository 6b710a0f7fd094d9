//! Writes values of WIT types as JSON, up to a limit.

use std::io::{self, Write};

use wasmtime::component::Val;

use super::schema::EXACT_INTEGER;

/// The text would be longer than its limit.
#[derive(Debug, thiserror::Error)]
#[error("the result as JSON is larger than its limit")]
pub(crate) struct JsonTooLarge;

/// Writes a value as JSON of at most `limit` bytes.
pub(super) fn to_json(value: &Val, limit: usize) -> Result<String, JsonTooLarge> {
    let mut text = LimitedText { text: Vec::new(), limit };
    write_value(&mut text, value).map_err(|_| JsonTooLarge)?;
    // Every part that is written is UTF-8.
    String::from_utf8(text.text).map_err(|_| JsonTooLarge)
}

struct LimitedText {
    text: Vec<u8>,
    limit: usize,
}

impl Write for LimitedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len().saturating_add(bytes.len()) > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_value(to: &mut LimitedText, value: &Val) -> io::Result<()> {
    match value {
        Val::Bool(value) => write!(to, "{value}"),
        Val::S8(value) => write!(to, "{value}"),
        Val::U8(value) => write!(to, "{value}"),
        Val::S16(value) => write!(to, "{value}"),
        Val::U16(value) => write!(to, "{value}"),
        Val::S32(value) => write!(to, "{value}"),
        Val::U32(value) => write!(to, "{value}"),
        Val::S64(value) if value.unsigned_abs() > EXACT_INTEGER => write!(to, "\"{value}\""),
        Val::S64(value) => write!(to, "{value}"),
        Val::U64(value) if *value > EXACT_INTEGER => write!(to, "\"{value}\""),
        Val::U64(value) => write!(to, "{value}"),
        Val::Float32(value) if value.is_finite() => Ok(serde_json::to_writer(to, value)?),
        Val::Float32(value) => write_text(to, non_finite((*value).into())),
        Val::Float64(value) if value.is_finite() => Ok(serde_json::to_writer(to, value)?),
        Val::Float64(value) => write_text(to, non_finite(*value)),
        Val::Char(value) => write_text(to, value.encode_utf8(&mut [0; 4])),
        Val::String(value) | Val::Enum(value) => write_text(to, value),
        Val::List(items) | Val::Tuple(items) => write_array(to, items, write_value),
        Val::Flags(names) => write_array(to, names, |to, name| write_text(to, name)),
        Val::Record(fields) => write_record(to, fields),
        Val::Variant(tag, payload) => write_case(to, tag, payload.as_deref()),
        Val::Result(Ok(payload)) => write_case(to, "ok", payload.as_deref()),
        Val::Result(Err(payload)) => write_case(to, "err", payload.as_deref()),
        Val::Option(None) => to.write_all(b"null"),
        Val::Option(Some(some)) if matches!(**some, Val::Option(_)) => {
            to.write_all(b"{\"some\":")?;
            write_value(to, some)?;
            to.write_all(b"}")
        }
        Val::Option(Some(some)) => write_value(to, some),
        // No function with such a type is a tool.
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn write_record(to: &mut LimitedText, fields: &[(String, Val)]) -> io::Result<()> {
    to.write_all(b"{")?;
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            to.write_all(b",")?;
        }
        write_text(to, name)?;
        to.write_all(b":")?;
        write_value(to, value)?;
    }
    to.write_all(b"}")
}

fn write_array<T>(
    to: &mut LimitedText,
    items: &[T],
    write_item: impl Fn(&mut LimitedText, &T) -> io::Result<()>,
) -> io::Result<()> {
    to.write_all(b"[")?;
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            to.write_all(b",")?;
        }
        write_item(to, item)?;
    }
    to.write_all(b"]")
}

fn write_case(to: &mut LimitedText, tag: &str, payload: Option<&Val>) -> io::Result<()> {
    to.write_all(b"{\"tag\":")?;
    write_text(to, tag)?;
    if let Some(payload) = payload {
        to.write_all(b",\"val\":")?;
        write_value(to, payload)?;
    }
    to.write_all(b"}")
}

fn write_text(to: &mut LimitedText, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(to, text)?)
}

fn non_finite(value: f64) -> &'static str {
    match (value.is_nan(), value.is_sign_positive()) {
        (true, _) => "NaN",
        (false, true) => "Infinity",
        (false, false) => "-Infinity",
    }
}
