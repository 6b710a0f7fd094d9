//! Finds the `null`s that stand for absent properties: models write them, and the strict forms of function schemas make
//! every optional argument nullable (M5).
//!
//! A `null` counts only where the schema declares the property and refuses `null` there in every alternative that the
//! value can be. A `null` keeps its meaning if the schema says
//! nothing of the property or allows `null`.

use std::collections::BTreeSet;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use toolgate_api::read::pointer;

/// Returns the JSON pointers of the refused `null`s that an error is about.
pub(super) fn refused_nulls(error: &ValidationError<'_>) -> BTreeSet<String> {
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if !error.instance().is_null() =>
        {
            let meant = context.iter().filter(|branch| !is_for_another_value(error, branch));
            let by_branch =
                meant.map(|branch| branch.iter().flat_map(refused_nulls).collect::<BTreeSet<_>>());
            by_branch.reduce(|common, branch| &common & &branch).unwrap_or_default()
        }
        _ if error.instance().is_null() && is_declared(error) => {
            BTreeSet::from([error.instance_path().as_str().to_owned()])
        }
        _ => BTreeSet::new(),
    }
}

/// Whether an alternative is for values of another type, or with another tag.
fn is_for_another_value(union: &ValidationError<'_>, branch: &[ValidationError<'_>]) -> bool {
    branch.iter().any(|error| match error.kind() {
        ValidationErrorKind::Type { .. } => error.instance_path() == union.instance_path(),
        ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => {
            !error.instance().is_null()
        }
        _ => false,
    })
}

/// Whether `properties` names the place, and not a keyword for any other name, such as `additionalProperties`.
fn is_declared(error: &ValidationError<'_>) -> bool {
    let path = error.instance_path().as_str();
    let Some((_, name)) = path.rsplit_once('/') else { return false };
    let keyword = error.evaluation_path().as_str();
    keyword
        .rsplit_once(&format!("/properties/{name}/"))
        .is_some_and(|(_, inside)| !inside.contains("Properties") && !inside.contains("tems/"))
}

/// Returns the JSON pointer of the property that an error says is missing.
pub(super) fn missing_property(error: &ValidationError<'_>) -> Option<String> {
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            Some(pointer(error.instance_path().as_str(), property.as_str()?))
        }
        _ => None,
    }
}

/// Removes the members at these JSON pointers.
pub(super) fn remove(value: &mut Value, pointers: &BTreeSet<String>) {
    for place in pointers {
        let Some((parent, name)) = place.rsplit_once('/') else { continue };
        if let Some(Value::Object(members)) = value.pointer_mut(parent) {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
    }
}
