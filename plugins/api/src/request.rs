//! A plan and the arguments of a call become a request.
//!
//! No value leaves the place that the definition gives it: what separates parts of a URL, pairs of a query or lines of a
//! head is encoded, or refused where it cannot be.

mod arguments;
mod content;
mod multipart;
mod query;

use std::borrow::Cow;

use toolgate_sdk::{Error, http};

use crate::path::{check_path, encode_into};
use crate::plan::{Piece, Place, Plan, Target};
use arguments::Arguments;
pub use arguments::refuse;

/// The most that is read of an answer. As JSON in memory it takes up to twelve times its length, and a call has 64 MiB.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// A request, and the path that its response is saved to, if the model gives one.
pub struct Built {
    pub request: http::Request,
    pub save_path: Option<String>,
}

/// Puts a request together.
pub fn build(plan: &Plan, arguments: &str) -> Result<Built, Error> {
    let arguments = Arguments::read(arguments)?;
    let given = arguments.in_places(plan)?;
    let url = format!("{}{}{}", plan.origin, path(plan, &arguments)?, query::write(&plan.query, &given)?);
    let request = http::request(plan.method.as_str(), url).max_body_bytes(ANSWER_BYTES);
    let request = add_headers(request, plan, &given)?;
    let request = match content::write(plan, &given)? {
        Some((content_type, content)) => request.header("content-type", content_type).body(content),
        None => request,
    };
    let save_path = given.iter().find(|(place, _)| place.target == Target::SavePath);
    let save_path = save_path.and_then(|(_, given)| given.value.word(false)).map(Cow::into_owned);
    Ok(Built { request, save_path })
}

fn path(plan: &Plan, arguments: &Arguments<'_>) -> Result<String, Error> {
    let mut path = String::new();
    for piece in &plan.path {
        match piece {
            Piece::Text(text) => path.push_str(text),
            Piece::Argument { name, default } => {
                let is_whole = plan.arguments.get(name).is_some_and(|place| place.whole_numbers);
                path.push_str(&part(name, arguments, default.as_deref(), is_whole)?);
            }
        }
    }
    match check_path(&path) {
        Ok(()) => Ok(path),
        Err(why) => Err(does_not_fit(plan, why)),
    }
}

/// A value as one part of the path; the items of a list stand with commas between them.
fn part(
    name: &str,
    arguments: &Arguments<'_>,
    default: Option<&str>,
    is_whole: bool,
) -> Result<String, Error> {
    let Some(value) = arguments.get(name) else {
        let default = default.ok_or_else(|| refuse(name, "is missing: it is a part of the path"))?;
        return Ok(encode(default));
    };
    let items =
        value.words(is_whole).ok_or_else(|| refuse(name, "is an object, which is no part of a path"))?;
    if items.is_empty() || items.iter().any(|item| item.is_empty()) {
        return Err(refuse(name, "is empty, and stands in the path: give a value"));
    }
    if let [word] = &items[..]
        && word.bytes().all(|byte| byte == b'.')
    {
        return Err(refuse(name, "is nothing but dots, which would lead elsewhere in the path"));
    }
    Ok(items.iter().map(|item| encode(item)).collect::<Vec<_>>().join(","))
}

fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    encode_into(&mut encoded, text);
    encoded
}

fn does_not_fit(plan: &Plan, why: &str) -> Error {
    let names = plan.path.iter().filter_map(|piece| match piece {
        Piece::Argument { name, .. } => Some(name),
        Piece::Text(_) => None,
    });
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    Error::invalid(format!("with these values of {names} the path cannot be sent: {why}"))
}

/// Adds the headers of the definition, except those that an argument gives.
fn add_headers(
    mut request: http::Request,
    plan: &Plan,
    given: &[(&Place, arguments::Given<'_>)],
) -> Result<http::Request, Error> {
    let named = |place: &Place| match &place.target {
        Target::Header(name) => Some(name.clone()),
        _ => None,
    };
    for (name, value) in &plan.headers {
        let is_given =
            |(place, _): &(&Place, _)| named(place).is_some_and(|other| other.eq_ignore_ascii_case(name));
        if !given.iter().any(is_given) {
            request = request.header(name, value);
        }
    }
    for (place, value) in given {
        if let Target::Header(name) = &place.target {
            request = request.header(name, header_value(place, value)?);
        }
    }
    Ok(request)
}

fn header_value<'a>(place: &Place, given: &'a arguments::Given<'_>) -> Result<Cow<'a, str>, Error> {
    let items = given.value.words(place.whole_numbers);
    let items = items.ok_or_else(|| refuse(given.name, "is an object, which no header field takes"))?;
    match items.iter().any(|item| item.contains(char::is_control)) {
        true => Err(refuse(
            given.name,
            "has a line break or another control character, which no header field takes",
        )),
        false => Ok(items.join(",").into()),
    }
}
