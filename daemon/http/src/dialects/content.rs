//! Results in the content blocks of each provider (R11). Blocks that a provider does not take are left out, and a note
//! says so.

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_api::content::ContentBlock;
use toolgate_core::call::CallOutcome;
use utoipa::ToSchema;

use super::tools::FIND_TOOL;
use crate::frame::{self, SharedLimit};

/// The type of documents that all three providers take.
pub(crate) const PDF: &str = "application/pdf";

/// Media that Anthropic and OpenAI take in the results of tools.
pub(super) const MEDIA: [&str; 5] = ["image/jpeg", "image/png", "image/gif", "image/webp", PDF];

/// Media that Gemini takes in the results of tools. It takes no audio there, and refuses the whole request for another type.
pub(super) const GEMINI_MEDIA: [&str; 4] = ["image/jpeg", "image/png", "image/webp", PDF];

/// The content of a result: text alone, or a list of the provider's blocks.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ProviderContent {
    /// Text, as it is but for invisible characters.
    Text(String),
    /// The provider's content blocks.
    Blocks(Vec<Value>),
}

/// The content as Anthropic's blocks.
pub(super) fn anthropic(outcome: &CallOutcome) -> ProviderContent {
    if *outcome.called == *FIND_TOOL
        && let Some(found) = outcome.output()
    {
        return match found.get() {
            "[]" => ProviderContent::Text("No tool fits. Search again with other words.".to_owned()),
            references => ProviderContent::Blocks(serde_json::from_str(references).unwrap_or_default()),
        };
    }
    in_blocks(
        outcome,
        |text| json!({"type": "text", "text": text}),
        |mime_type, data| {
            let source = json!({"type": "base64", "media_type": mime_type, "data": data});
            let kind = if mime_type == PDF { "document" } else { "image" };
            MEDIA.contains(&mime_type).then(|| json!({"type": kind, "source": source}))
        },
    )
}

/// The content as parts of OpenAI's responses.
pub(super) fn responses(outcome: &CallOutcome) -> ProviderContent {
    in_blocks(
        outcome,
        |text| json!({"type": "input_text", "text": text}),
        |mime_type, data| {
            let url = format!("data:{mime_type};base64,{data}");
            MEDIA.contains(&mime_type).then(|| match mime_type {
                PDF => json!({"type": "input_file", "filename": "document.pdf", "file_data": url}),
                _ => json!({"type": "input_image", "image_url": url}),
            })
        },
    )
}

/// The content as text, and the media as parts of Gemini's function response.
pub(super) fn gemini(outcome: &CallOutcome) -> (String, Vec<Value>) {
    let mut parts = Vec::new();
    let text = frame::text_with_content(outcome, |mime_type, data| {
        let is_taken = GEMINI_MEDIA.contains(&mime_type);
        if is_taken {
            parts.push(json!({"inlineData": {"mimeType": mime_type, "data": data}}));
        }
        is_taken
    });
    (frame::result_text(outcome, &text), parts)
}

/// The content as text alone: chat completions take nothing else from a tool.
pub(super) fn text(outcome: &CallOutcome) -> String {
    frame::result_text(outcome, &frame::text_with_content(outcome, |_, _| false))
}

fn in_blocks(
    outcome: &CallOutcome,
    text: impl Fn(&str) -> Value,
    media: impl Fn(&str, &str) -> Option<Value>,
) -> ProviderContent {
    if outcome.content.is_empty() {
        return ProviderContent::Text(frame::message_text(outcome));
    }
    let mut limit = SharedLimit::of_result(outcome);
    let mut shown = |part: &str| text(&limit.visible(part));
    let own = frame::has_own_text(outcome).then(|| shown(&frame::outcome_content(outcome)));
    let blocks = outcome.content.iter().map(|block| match block {
        ContentBlock::Text { text } => shown(text),
        ContentBlock::Image { data, mime_type } | ContentBlock::Audio { data, mime_type } => {
            media(mime_type, data).unwrap_or_else(|| shown(&frame::media_note(mime_type, data)))
        }
        ContentBlock::File { path, .. } => shown(&frame::file_note(path)),
    });
    ProviderContent::Blocks(own.into_iter().chain(blocks).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolgate_api::call::Executed;

    use super::*;
    use toolgate_core::call::OutcomeState;

    fn outcome(output: &str, content: Vec<ContentBlock>) -> CallOutcome {
        let output = serde_json::value::RawValue::from_string(output.to_owned()).unwrap();
        let called: Arc<str> = "a/b".into();
        CallOutcome { content, ..CallOutcome::new("c1", &called, Executed::Yes, OutcomeState::Ok(output)) }
    }

    fn blocks() -> Vec<ContentBlock> {
        vec![
            ContentBlock::Text { text: "see\u{202e} it".into() },
            ContentBlock::Image { data: "QUJD".into(), mime_type: "image/png".into() },
            ContentBlock::Audio { data: "QUJD".into(), mime_type: "audio/wav".into() },
            ContentBlock::File { path: "/workspace/a.pdf".into(), mime_type: None },
        ]
    }

    #[test]
    fn r11_each_provider_gets_its_own_blocks_and_a_note_for_the_rest() {
        let left_out =
            "[audio/wav, about 3 bytes: left out, since results for this model have no such content]";
        let text = |text: &str| json!({"type": "text", "text": text});
        let result = outcome(r#"{"w":1}"#, blocks());
        assert_eq!(
            serde_json::to_value(anthropic(&result)).unwrap(),
            json!([
                text(r#"{"w":1}"#), text("see\\u{202e} it"),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                text(left_out), text("[the file /workspace/a.pdf]"),
            ])
        );
        let parts = serde_json::to_value(responses(&result)).unwrap();
        assert_eq!(parts[0], json!({"type": "input_text", "text": r#"{"w":1}"#}));
        assert_eq!(parts[2], json!({"type": "input_image", "image_url": "data:image/png;base64,QUJD"}));
        let (said, media) = gemini(&result);
        assert_eq!(said, format!("{{\"w\":1}}\nsee\\u{{202e}} it\n{left_out}\n[the file /workspace/a.pdf]"));
        assert_eq!(media, [json!({"inlineData": {"mimeType": "image/png", "data": "QUJD"}})]);
        assert!(super::text(&result).contains("image/png") && super::text(&result).contains(left_out));
    }

    #[test]
    fn r9_many_blocks_have_no_more_text_than_one() {
        let many = vec![ContentBlock::Text { text: "x".repeat(10_000) }; 64];
        let shown = serde_json::to_value(anthropic(&outcome("null", many))).unwrap();
        let mut texts = shown.as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap());
        assert!(texts.clone().map(str::len).sum::<usize>() < 70_000, "{shown}");
        assert_eq!(texts.next_back(), Some("… [10000 bytes more]"));
    }

    #[test]
    fn r10_a_text_that_is_cut_names_the_file_with_all_of_it() {
        let kept_in = Some("/workspace/.results/r.json".into());
        let note = "more: the whole result is in the file /workspace/.results/r.json]";
        let long = CallOutcome { kept_in, ..outcome(&format!("\"{}\"", "x".repeat(70_000)), Vec::new()) };
        let ends = |text: &str| text.trim_end_matches("</tool_result>").ends_with(note);
        assert!(ends(&super::text(&long)) && ends(&gemini(&long).0) && ends(&frame::outcome_text(&long)));
        let content = vec![ContentBlock::Text { text: "x".repeat(70_000) }];
        let blocks = serde_json::to_value(anthropic(&CallOutcome { content, ..long })).unwrap();
        assert!(
            blocks.as_array().unwrap().iter().all(|block| ends(block["text"].as_str().unwrap())),
            "{blocks}"
        );
    }

    #[test]
    fn r11_a_result_without_blocks_is_text_and_null_beside_blocks_is_not_said() {
        let plain = serde_json::to_value(anthropic(&outcome("1", Vec::new()))).unwrap();
        assert_eq!(plain, json!("1"));
        let shown = super::text(&outcome("null", vec![ContentBlock::Text { text: "hello".into() }]));
        assert_eq!(shown, "hello");
    }
}
