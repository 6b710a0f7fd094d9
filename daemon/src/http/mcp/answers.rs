//! Outcomes of calls as results of MCP.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock as Content, MetaObject, Resource};
use serde_json::json;
use toolgate_api::content::ContentBlock;
use toolgate_api::error::{CallError, ErrorType};

use crate::call::CallOutcome;
use crate::frame;

/// The result of a call, or the protocol error of one whose tool the client does not have.
pub fn result(name: &str, outcome: &CallOutcome) -> Result<CallToolResult, ErrorData> {
    if let Some(error) = outcome.error() {
        return match error.error_type {
            ErrorType::ToolNotFound | ErrorType::AccessDenied => Err(unknown_tool(name)),
            _ => Ok(failure(error, frame::message_text(outcome))),
        };
    }
    if let Some(waiting) = outcome.pending_text() {
        let approval = outcome.approval().map_or_else(String::new, |approval| {
            format!(
                " The approval is `{}`. Call again with the same arguments once it is given.",
                approval.id
            )
        });
        return Ok(CallToolResult::error(vec![Content::text(format!("{waiting}{approval}"))]));
    }
    let mut content = Vec::new();
    if outcome.content.is_empty() || frame::has_own_text(outcome) {
        content.push(Content::text(frame::message_text(outcome)));
    }
    content.extend(outcome.content.iter().map(block));
    let mut result = CallToolResult::success(content);
    result.structured_content = outcome.output().and_then(|output| serde_json::from_str(output.get()).ok());
    Ok(result)
}

/// A failed call, for the model to read.
pub fn failure(error: &CallError, text: String) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.insert("toolgate/error".to_owned(), json!({"type": error.error_type, "retryable": error.retryable}));
    CallToolResult::error(vec![Content::text(text)]).with_meta(Some(meta))
}

/// The same error for a tool that does not exist and for one that the agent may not call.
pub fn unknown_tool(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Unknown tool: {}", frame::visible(name)), None)
}

fn block(block: &ContentBlock) -> Content {
    match block {
        ContentBlock::Text { text } => Content::text(frame::visible(text)),
        ContentBlock::Image { data, mime_type } => Content::image(data, mime_type),
        ContentBlock::Audio { data, mime_type } => Content::audio(data, mime_type),
        ContentBlock::File { path, mime_type } => {
            let mut link = Resource::new(format!("file://{path}"), path.rsplit('/').next().unwrap_or(path));
            link.mime_type.clone_from(mime_type);
            Content::resource_link(link)
        }
    }
}
