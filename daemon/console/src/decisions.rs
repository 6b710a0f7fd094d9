//! Decisions about approvals, as their forms have them (G11, G18).

use serde_json::value::RawValue;
use toolgate_api::approval::{Choice, DecisionRequest};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_http::problem::Problem;

use super::form::FormFields;
use super::text::{is_shown_whole, parse_date_time};

/// Milliseconds of a minute.
const MINUTE_MS: u64 = 60_000;

/// The decision about one call with these arguments; other fields of the form are ignored. A page approves nothing that it
/// does not show.
pub(super) fn plain_decision(fields: &FormFields, bound: &str) -> Result<DecisionRequest, CallError> {
    let choice = match fields.text("decision") {
        "approve" => Choice::Approve,
        "deny" => Choice::Deny,
        _ => {
            return Err(CallError::new(
                ErrorType::InvalidRequest,
                "the form names no decision",
                "use its buttons",
            ));
        }
    };
    if choice == Choice::Approve && !is_shown_whole(bound) {
        let message = "the page does not show all of the arguments";
        let hint = "deny the call here, or read and approve it with `toolgate approval show` and `approve`";
        return Err(CallError::new(ErrorType::TooLarge, message, hint));
    }
    Ok(DecisionRequest {
        decision: choice,
        reason: fields.filled_field("reason").map(str::to_owned),
        arguments: None,
        arguments_instead: None,
        uses: None,
        expires_at: None,
    })
}

/// The decision of a form with all fields.
pub(super) fn decision(fields: &FormFields, bound: &str, now_ms: u64) -> Result<DecisionRequest, CallError> {
    let plain = plain_decision(fields, bound)?;
    let arguments_instead = json(fields, "arguments_instead")?;
    if fields.text("form") == "instead" && arguments_instead.is_none() {
        let message = "the form has no other arguments";
        let hint = "write them as JSON, or approve the call as it is";
        return Err(CallError::new(ErrorType::InvalidRequest, message, hint));
    }
    Ok(DecisionRequest {
        arguments: json(fields, "arguments")?,
        arguments_instead,
        uses: fields.number("uses").map_err(|Problem(error)| error)?,
        expires_at: expires_ms(fields, now_ms)?,
        ..plain
    })
}

/// The end of the decision, by a number of minutes or a time.
fn expires_ms(fields: &FormFields, now_ms: u64) -> Result<Option<u64>, CallError> {
    let minutes = fields.number("minutes").map_err(|Problem(error)| error)?;
    let refusal = |message: &str| {
        let hint = "write minutes, or a time in UTC like `2026-01-31T23:59`";
        Err(CallError::new(ErrorType::InvalidRequest, message, hint))
    };
    match (minutes, fields.filled_field("until")) {
        (Some(_), Some(_)) => refusal("the form has minutes, and a time as well"),
        (None, Some(until)) => parse_date_time(until)
            .map_or_else(|| refusal("`until` is no time"), |until_ms| Ok(Some(until_ms))),
        (minutes, None) => {
            Ok(minutes.map(|minutes| now_ms.saturating_add(minutes.saturating_mul(MINUTE_MS))))
        }
    }
}

fn json(fields: &FormFields, field: &str) -> Result<Option<Box<RawValue>>, CallError> {
    let parse = |text: &str| {
        serde_json::from_str::<Box<RawValue>>(text).map_err(|error| {
            CallError::new(
                ErrorType::InvalidRequest,
                format!("`{field}` is no JSON: {error}"),
                "correct it and send it again",
            )
        })
    };
    fields.filled_field(field).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::super::approvals::decision_fields;
    use super::*;

    fn outcome(fields: &[(&str, &str)], bound: &str) -> Result<bool, ErrorType> {
        let decided = decision(&FormFields::of(fields), bound, 0);
        decided.map(|request| request.arguments_instead.is_some()).map_err(|error| error.error_type)
    }

    #[test]
    fn g11_a_page_that_cuts_the_arguments_only_denies() {
        // Each hidden character is written with eight bytes.
        let bound = format!("\"{}\"", "\u{202e}".repeat(10_000));
        assert!(bound.len() < 64 * 1024);
        let buttons = |bound: &str| decision_fields(&FormFields::default(), bound).into_string();
        assert!(!buttons(&bound).contains("\"approve\"") && buttons(&bound).contains("\"deny\""));
        assert!(buttons("{}").contains("\"approve\""));
        assert_eq!(outcome(&[("decision", "approve")], &bound), Err(ErrorType::TooLarge));
        assert_eq!(outcome(&[("decision", "deny")], &bound), Ok(false));
        assert_eq!(outcome(&[("decision", "approve")], "{}"), Ok(false));
    }

    #[test]
    fn g11_calls_are_approved_for_minutes_or_until_a_time() {
        let ends = |minutes, until| {
            let fields = FormFields::of(&[("minutes", minutes), ("until", until)]);
            expires_ms(&fields, 1_000).map_err(|error| error.error_type)
        };
        assert_eq!(ends("", ""), Ok(None));
        assert_eq!(ends("2", ""), Ok(Some(121_000)));
        assert_eq!(ends("", "1970-01-02T00:01"), Ok(Some(86_460_000)));
        for (minutes, until) in [("2", "1970-01-02T00:01"), ("", "soon"), ("soon", "")] {
            assert_eq!(ends(minutes, until), Err(ErrorType::InvalidRequest));
        }
    }

    #[test]
    fn g18_an_empty_field_of_other_arguments_does_not_approve_the_call() {
        let form = |text| [("decision", "approve"), ("form", "instead"), ("arguments_instead", text)];
        assert_eq!(outcome(&form(" "), "{}"), Err(ErrorType::InvalidRequest));
        assert_eq!(outcome(&form("{}"), "{}"), Ok(true));
    }
}
