//! Outcomes of calls as results of MCP.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock as Content, MetaObject, Resource, ResourceContents};
use serde_json::{Value, json};
use toolgate_api::content::ContentBlock;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_core::call::CallOutcome;
use toolgate_core::dispatch::rules_of;
use toolgate_core::sessions::Session;

use super::lists;
use crate::files;
use crate::frame::{self, SharedLimit};
use crate::state::App;

/// The result of a call, or the protocol error of one whose tool the client does not have.
pub(super) async fn result(
    app: &App,
    session: &Session,
    name: &str,
    outcome: &CallOutcome,
) -> Result<CallToolResult, ErrorData> {
    if let Some(error) = outcome.error() {
        return match error.error_type {
            ErrorType::ToolNotFound | ErrorType::AccessDenied => Err(unknown_tool(name)),
            // An approver's change of the arguments is in the content.
            _ => Ok(failure(error, frame::visible(&frame::text_with_content(outcome, |_, _| false)))),
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
    let (mut content, mut limit) = (Vec::new(), SharedLimit::of_result(outcome));
    if outcome.content.is_empty() || frame::has_own_text(outcome) && !is_among_blocks(outcome) {
        content.push(Content::text(limit.visible(&frame::outcome_content(outcome))));
    }
    for block in &outcome.content {
        content.push(match block {
            ContentBlock::Text { text } => Content::text(limit.visible(text)),
            ContentBlock::Image { data, mime_type } => Content::image(data, mime_type),
            ContentBlock::Audio { data, mime_type } => Content::audio(data, mime_type),
            ContentBlock::File { path, mime_type } => {
                file(app, session, path, mime_type.as_deref(), &mut limit).await
            }
        });
    }
    // A client refuses a result without the structure that the tool promised, unless it is an error. The text says that the
    // tool ran, and where its result is (R10).
    if outcome.spilled_result().is_some() && promises_structure(app, session, outcome) {
        return Ok(CallToolResult::error(content));
    }
    let mut result = CallToolResult::success(content);
    // Clients of older revisions take objects alone, and no list promises another structure. `rmcp` would write any other
    // value as a second text.
    let output = outcome.output().and_then(|output| serde_json::from_str(output.get()).ok());
    result.structured_content = output.filter(Value::is_object);
    Ok(result)
}

/// Whether a block says the same as the output: servers of MCP write a text, or a structure and its text.
fn is_among_blocks(outcome: &CallOutcome) -> bool {
    let output = outcome.output().and_then(|output| serde_json::from_str::<Value>(output.get()).ok());
    let is_same = |output: &Value, text: &str| match output {
        Value::String(output) => output == text,
        output => serde_json::from_str::<Value>(text).is_ok_and(|text| text == *output),
    };
    output.is_some_and(|output| {
        outcome
            .content
            .iter()
            .any(|block| matches!(block, ContentBlock::Text { text } if is_same(&output, text)))
    })
}

/// Whether lists show an output schema of the tool.
fn promises_structure(app: &App, session: &Session, outcome: &CallOutcome) -> bool {
    let rules = rules_of(&app.services().registry.snapshot(), session);
    let tool = rules.catalogue.find(&outcome.called);
    let output = tool.and_then(|tool| tool.descriptor().output.as_deref());
    output.is_some_and(|schema| schema.source()["type"] == "object")
}

/// A failed call, for the model to read.
pub(super) fn failure(error: &CallError, text: String) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.insert("toolgate/error".to_owned(), json!({"type": error.error_type, "retryable": error.retryable}));
    CallToolResult::error(vec![Content::text(text)]).with_meta(Some(meta))
}

/// The same error for a tool that does not exist and for one that the agent may not call.
pub(super) fn unknown_tool(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Unknown tool: {}", frame::visible(name)), None)
}

/// The result of a search's tool for a name that is none of a tool.
pub(super) fn not_found_by_search(name: &str) -> CallToolResult {
    let named = frame::visible(name);
    let text = match name {
        "" => "`name` is missing".to_owned(),
        _ => format!("there is no tool `{named}`"),
    };
    let hint =
        format!("give the name of a tool as `name`, as `{}` returns it, and its `arguments`", lists::FIND);
    CallToolResult::error(vec![Content::text(format!("{text}\n{hint}"))])
}

/// A file of the workspace: its text, which the client cannot read in another way, or a link to one that is no text or longer
/// than the limit leaves.
async fn file(
    app: &App,
    session: &Session,
    path: &str,
    mime_type: Option<&str>,
    limit: &mut SharedLimit<'_>,
) -> Content {
    // The plugin wrote the path.
    let shown = frame::visible(path);
    let uri = format!("file://{shown}");
    let inside = path.strip_prefix("/workspace/").unwrap_or(path);
    let bytes = files::read_whole(app, session, inside, limit.left_bytes() as u64).await;
    if let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        let contents = ResourceContents::text(limit.visible(&text), uri);
        return Content::resource(contents.with_mime_type(mime_type.unwrap_or("text/plain")));
    }
    let mut link = Resource::new(uri, shown.rsplit('/').next().unwrap_or_default());
    link.mime_type = mime_type.map(str::to_owned);
    Content::resource_link(link)
}
