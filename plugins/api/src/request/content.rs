//! Arguments as the content of a request.

use serde_json::Value;
use toolgate_api::definition::BodyFormat;
use toolgate_sdk::Error;

use super::arguments::{Given, refuse};
use super::query::{Pairs, add_object_to_form, add_to_form};
use crate::plan::{Place, Plan, Target};

/// The content and its type; none where nothing is sent.
pub fn write<'a>(plan: &'a Plan, given: &[(&Place, Given<'_>)]) -> Result<Option<(&'a str, String)>, Error> {
    let Some(content) = &plan.content else { return Ok(None) };
    let whole = given.iter().find(|(place, _)| place.target == Target::Content);
    let text = match (whole, content.form) {
        (Some((_, given)), BodyFormat::Json) => Some(given.value.json().to_owned()),
        (Some((_, given)), BodyFormat::Text) => Some(text(given)?),
        (Some((_, given)), BodyFormat::Form) => Some(form_of_members(given)?),
        // The argument that is all of it was left out.
        (None, _) if plan.arguments.values().any(|place| place.target == Target::Content) => None,
        (None, BodyFormat::Json | BodyFormat::Text) => Some(object(given)),
        (None, BodyFormat::Form) => Some(form(given)?),
    };
    Ok(text.map(|text| (content.content_type.as_str(), text)))
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
            Target::Path | Target::Query { .. } | Target::Header(_) | Target::Content => continue,
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
