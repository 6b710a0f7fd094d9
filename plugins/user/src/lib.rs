//! Questions to the person behind the conversation.
//!
//! A plugin has no person in front of it: the question is checked and shaped here, and the orchestrator's client shows it
//! and posts the answer. So this is also the shortest example of a tool that ends at the client.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, plugin, tool};

/// Longest question, in characters. It is read on a screen, or aloud.
const QUESTION_CHARS: usize = 2_000;
/// Most answers to choose from, and the longest of them in characters.
const CHOICES: usize = 20;
const CHOICE_CHARS: usize = 200;

/// The question that the client shows.
#[derive(Debug, PartialEq, Serialize)]
struct Question {
    question: String,
    /// Empty where any answer will do.
    choices: Vec<String>,
}

/// The answer of the user.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reply {
    /// The user's words, or the choice that was taken
    answer: String,
}

/// Asks the user a question and waits for the answer.
///
/// Ask only what no other tool can tell you, one thing at a time. Give `choices` when only some answers make sense; the
/// user may still answer in other words.
#[tool(
    mode = "client",
    result = Reply,
    read_only,
    examples({"question": "Which day suits you?", "choices": ["Monday", "Tuesday"]})
)]
fn ask(
    /// The question, in the user's language
    question: String,
    /// Answers to choose from, at most 20; left out, any answer will do
    choices: Option<Vec<String>>,
) -> Result<Question, Error> {
    let question = question.trim().to_owned();
    let choices: Vec<String> =
        choices.unwrap_or_default().iter().map(|choice| choice.trim().to_owned()).collect();
    if question.is_empty() || question.chars().count() > QUESTION_CHARS {
        return Err(Error::invalid(format!(
            "the question is empty or longer than {QUESTION_CHARS} characters; ask one short thing"
        )));
    }
    let unfit = |choice: &String| choice.is_empty() || choice.chars().count() > CHOICE_CHARS;
    if choices.len() > CHOICES || choices.iter().any(unfit) {
        return Err(Error::invalid(format!(
            "there are more than {CHOICES} choices, or one is empty or longer than {CHOICE_CHARS} characters; \
             offer fewer and shorter ones"
        )));
    }
    Ok(Question { question, choices })
}

plugin! { "user", publisher = "Toolgate", category = "People", ask }

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_sdk::testing;

    use super::*;

    fn call_ask(arguments: serde_json::Value) -> Result<serde_json::Value, Error> {
        testing::call::<ask>(&testing::context().build(), arguments)
    }

    #[test]
    fn a_question_is_prepared_for_the_client() {
        let prepared = call_ask(json!({"question": " Which day? ", "choices": ["Monday ", "Tuesday"]}));
        assert_eq!(prepared, Ok(json!({"question": "Which day?", "choices": ["Monday", "Tuesday"]})));
        assert_eq!(call_ask(json!({"question": "Why?"})), Ok(json!({"question": "Why?", "choices": []})));
    }

    #[test]
    fn what_cannot_be_shown_is_refused_with_what_to_do() {
        for arguments in [
            json!({"question": "  "}),
            json!({"question": "x".repeat(2_001)}),
            json!({"question": "Which?", "choices": [""]}),
            json!({"question": "Which?", "choices": vec!["a"; 21]}),
            json!({"question": "Which?", "choices": ["x".repeat(201)]}),
        ] {
            let refused = call_ask(arguments).expect_err("unfit");
            assert!(refused.message().contains("offer fewer") || refused.message().contains("ask one"));
        }
    }
}
