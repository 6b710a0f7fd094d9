//! Arguments as the content of a request.

use serde_json::Value;
use toolgate_api::definition::BodyFormat;
use toolgate_sdk::Error;

use super::arguments::{Given, refuse};
use super::multipart;
use super::query::{Pairs, add_object_to_form, add_to_form};
use crate::plan::{Place, Plan, Target};
use crate::workspace::{SENT_BYTES, SentFile};

/// The content and its type; none where nothing is sent.
pub fn write(plan: &Plan, given: &[(&Place, Given<'_>)]) -> Result<Option<(String, Vec<u8>)>, Error> {
    let Some(content) = &plan.content else { return Ok(None) };
    let whole = given.iter().find(|(place, _)| place.target == Target::Content).map(|(_, given)| given);
    if whole.is_none() && plan.arguments.values().any(|place| place.target == Target::Content) {
        // The argument that is all of it was left out.
        return Ok(None);
    }
    let text = match (whole, content.form) {
        (Some(given), BodyFormat::Json) => given.value.json().to_owned(),
        (Some(given), BodyFormat::Binary) => return file(&content.content_type, given).map(Some),
        (Some(given), BodyFormat::Text) => text(given)?,
        (Some(given), BodyFormat::Form | BodyFormat::Multipart) => form_of_members(given)?,
        (None, BodyFormat::Multipart) => return multipart::write(&content.content_type, given).map(Some),
        (None, BodyFormat::Json | BodyFormat::Text | BodyFormat::Binary) => object(given),
        (None, BodyFormat::Form) => form(given)?,
    };
    Ok(Some((content.content_type.clone(), text.into_bytes())))
}

/// The content of a file, and the media type of its name unless another is declared.
fn file(content_type: &str, given: &Given<'_>) -> Result<(String, Vec<u8>), Error> {
    let path = given.value.word(false).ok_or_else(|| refuse(given.name, "is no path"))?;
    let SentFile { media_type, content, .. } = SentFile::read(given.name, &path, SENT_BYTES)?;
    let content_type = if content_type.is_empty() { media_type } else { content_type };
    Ok((content_type.to_owned(), content))
}

fn text(given: &Given<'_>) -> Result<String, Error> {
    let text = given.value.word(false).ok_or_else(|| refuse(given.name, "is sent as text, and is none"))?;
    Ok(text.into_owned())
}

/// The members in the order in which they were written, each as it was written.
fn object(given: &[(&Place, Given<'_>)]) -> String {
    let members = given.iter().filter_map(|(place, given)| match &place.target {
        Target::Member(name) => Some(format!("{}:{}", Value::from(name.as_str()), given.value.json())),
        _ => None,
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn form(given: &[(&Place, Given<'_>)]) -> Result<String, Error> {
    let mut pairs = Pairs::default();
    for (place, given) in given {
        let is_whole = place.whole_numbers;
        match &place.target {
            Target::Member(name) => add_to_form(&mut pairs, name, given.value, is_whole),
            Target::Members(name) => add_object_to_form(&mut pairs, name, given.value, is_whole),
            _ => continue,
        }
        .ok_or_else(|| no_form(given))?;
    }
    Ok(pairs.finish())
}

fn form_of_members(given: &Given<'_>) -> Result<String, Error> {
    let mut pairs = Pairs::default();
    for (name, value) in given.value.members().ok_or_else(|| no_form(given))? {
        add_to_form(&mut pairs, &name, value, false).ok_or_else(|| no_form(given))?;
    }
    Ok(pairs.finish())
}

fn no_form(given: &Given<'_>) -> Error {
    refuse(
        given.name,
        "goes into a form, which takes words, numbers, lists of them, and objects only where it says how",
    )
}
