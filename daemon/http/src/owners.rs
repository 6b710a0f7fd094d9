//! Routes that the platform and an organization both have: one handler with two addresses.
//!
//! In the path, the id and the texts of such an operation, `[a|b]` is `a` for the platform, and `b` for an organization.

use toolgate_api::error::ErrorType;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, PathItem, Paths};

use super::error_responses::ErrorResponse;

/// The owner of what a route is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Platform,
    Organization,
}

impl Owner {
    /// Turns the description of both routes into the one of this owner.
    pub(super) fn choose(self, paths: &mut Paths) {
        let both = std::mem::take(&mut paths.paths);
        for (path, mut item) in both {
            let PathItem { get, put, post, delete, .. } = &mut item;
            [get, put, post, delete].into_iter().flatten().for_each(|operation| self.describe(operation));
            paths.paths.insert(self.text(&path), item);
        }
    }

    fn describe(self, operation: &mut Operation) {
        let texts = [&mut operation.operation_id, &mut operation.summary, &mut operation.description];
        texts.into_iter().flatten().for_each(|text| *text = self.text(text));
        let mut parameters = operation.parameters.take().unwrap_or_default();
        parameters.retain(|parameter| match parameter {
            RefOr::T(parameter) => self == Self::Organization || parameter.name != "org",
            RefOr::Ref(_) => true,
        });
        operation.parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
        // An operation on one document says itself how it answers where there is none.
        if self == Self::Organization && !operation.responses.responses.contains_key("404") {
            let text = "no such organization, or it is not the token's";
            ErrorResponse::new(ErrorType::NotFound, text).add_to(&mut operation.responses);
        }
    }

    /// Replaces each `[a|b]`. Other brackets stay.
    fn text(self, both: &str) -> String {
        let mut text = String::new();
        let mut rest = both;
        while let Some((before, after)) = rest.split_once('[') {
            text.push_str(before);
            let choice =
                after.split_once(']').and_then(|(choice, after)| Some((choice.split_once('|')?, after)));
            let Some(((platform, organization), after)) = choice else {
                text.push('[');
                rest = after;
                continue;
            };
            text.push_str(if self == Self::Platform { platform } else { organization });
            rest = after;
        }
        text + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_its_side_of_a_choice_and_other_brackets_stay() {
        let both = "a [b|c{d}] e [f] [|g_]h [";
        assert_eq!(Owner::Platform.text(both), "a b e [f] h [");
        assert_eq!(Owner::Organization.text(both), "a c{d} e [f] g_h [");
    }
}
