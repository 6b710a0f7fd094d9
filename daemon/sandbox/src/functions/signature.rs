//! Signatures in the notation of WIT, for descriptions.

use std::fmt::{self, Write};

use super::shape::Shape;

/// Longest signature, in bytes; longer ones are cut.
const SIGNATURE_BYTES: usize = 2_000;

/// Returns a signature like `add: func(a: s32, b: s32) -> s32`.
pub(super) fn signature(name: &str, parameters: &[(Box<str>, Shape)], result: Option<&Shape>) -> String {
    let mut text = format!("{name}: func(");
    let written = write_fields(&mut text, parameters).and_then(|()| match result {
        None => text.write_char(')'),
        Some(result) => {
            text.write_str(") -> ")?;
            write_shape(&mut text, result)
        }
    });
    // Writing to a string does not fail.
    written.unwrap_or_default();
    if text.len() > SIGNATURE_BYTES {
        text.truncate(text.floor_char_boundary(SIGNATURE_BYTES));
        text.push('…');
    }
    text
}

fn write_shape(to: &mut String, shape: &Shape) -> fmt::Result {
    // The rest is cut.
    if to.len() > SIGNATURE_BYTES {
        return Ok(());
    }
    match shape {
        Shape::Bool => to.write_str("bool"),
        Shape::Integer(integer) => to.write_str(integer.name()),
        Shape::Float32 => to.write_str("f32"),
        Shape::Float64 => to.write_str("f64"),
        Shape::Char => to.write_str("char"),
        Shape::String => to.write_str("string"),
        Shape::List(item) => write_generic(to, "list", [Some(&**item)]),
        Shape::Option(some) => write_generic(to, "option", [Some(&**some)]),
        Shape::Tuple(items) => write_generic(to, "tuple", items.iter().map(Some)),
        Shape::Record(fields) => {
            to.write_str("record { ")?;
            write_fields(to, fields)?;
            to.write_str(" }")
        }
        Shape::Variant(cases) => {
            to.write_str("variant { ")?;
            for (at, (name, payload)) in cases.iter().enumerate() {
                write!(to, "{}{name}", if at > 0 { ", " } else { "" })?;
                if let Some(payload) = payload {
                    to.write_char('(')?;
                    write_shape(to, payload)?;
                    to.write_char(')')?;
                }
            }
            to.write_str(" }")
        }
        Shape::Enum(names) => write!(to, "enum {{ {} }}", names.join(", ")),
        Shape::Flags(names) => write!(to, "flags {{ {} }}", names.join(", ")),
        Shape::Result(None, None) => to.write_str("result"),
        Shape::Result(ok, None) => write_generic(to, "result", [ok.as_deref()]),
        Shape::Result(ok, err) => write_generic(to, "result", [ok.as_deref(), err.as_deref()]),
    }
}

fn write_generic<'a>(
    to: &mut String,
    name: &str,
    shapes: impl IntoIterator<Item = Option<&'a Shape>>,
) -> fmt::Result {
    to.write_str(name)?;
    for (at, shape) in shapes.into_iter().enumerate() {
        to.write_str(if at == 0 { "<" } else { ", " })?;
        match shape {
            None => to.write_char('_')?,
            Some(shape) => write_shape(to, shape)?,
        }
    }
    to.write_char('>')
}

fn write_fields(to: &mut String, fields: &[(Box<str>, Shape)]) -> fmt::Result {
    for (at, (name, shape)) in fields.iter().enumerate() {
        write!(to, "{}{name}: ", if at > 0 { ", " } else { "" })?;
        write_shape(to, shape)?;
    }
    Ok(())
}
