//! Turns the answer to a call of a server's tool into a result of ours: an output, and content blocks (R11).
//!
//! Structured content is the output. A single text is the output as a string, unless the tool promised a structure. All else
//! are content blocks in their order, and so is what content says beside a structure. Texts pass as they are: they are data.

use toolgate_api::content::{BLOCKS, ContentBlock};
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::{self, Map, Value, json};

use crate::failure::{DATA_BYTES, MESSAGE_CHARS};
use crate::text::{cut, display};

/// Pieces of content. A model reads a few.
const PIECES: usize = 1_000;

/// Members of a piece of another kind that are for the eyes of a client, and not told.
const UNTOLD: [&str; 3] = ["_meta", "annotations", "icons"];

/// Members in which a structure says in words why a tool failed.
const REASONS: [&str; 10] = [
    "/error/message",
    "/error/detail",
    "/error",
    "/message",
    "/detail",
    "/reason",
    "/error_description",
    "/errors/0/message",
    "/errors/0",
    "/result",
];

/// The result of a call, or the failure that it tells. `is_structured` says whether the tool promised a structure.
pub fn read(tool: &str, is_structured: bool, mut result: Value) -> Result<Value, Error> {
    check_type(tool, &result)?;
    let pieces = take_pieces(tool, &mut result)?;
    let structured = result.get_mut("structuredContent").map(Value::take).unwrap_or_default();
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(failure_of(tool, &pieces.unwrap_or_default(), structured));
    }
    // Serializers write null for a structure that is not there.
    let structured = Some(structured).filter(|structured| !structured.is_null());
    let Some(pieces) = pieces else {
        return Ok(in_envelope(structured.unwrap_or_else(|| other_members(result)), Vec::new()));
    };
    if let Some(structured) = structured.or_else(|| find_promised(is_structured, &pieces)) {
        let more = pieces.into_iter().filter(|piece| !is_said(piece, &structured)).collect();
        return Ok(in_envelope(structured, blocks(more)));
    }
    if is_structured {
        return Err(broken_promise(tool, &pieces));
    }
    match pieces.as_slice() {
        [piece] if text(piece).is_some() => {
            Ok(in_envelope(text(piece).unwrap_or_default().into(), Vec::new()))
        }
        _ => Ok(in_envelope(Value::Null, blocks(pieces))),
    }
}

/// A result as the daemon takes it from a tool with `content`.
fn in_envelope(output: Value, content: Vec<ContentBlock>) -> Value {
    json!({"output": output, "content": content})
}

/// Content in place of a promised structure must reach the model: the tool ran.
fn broken_promise(tool: &str, pieces: &[Value]) -> Error {
    let texts = pieces.iter().filter_map(text).collect::<Vec<_>>().join("\n");
    Error::new(cut(
        &format!(
            "tool `{tool}` of the server ran, and gave text in place of the structure that it promised: {texts}"
        ),
        MESSAGE_CHARS,
    ))
}

/// Pieces as content blocks. Of more than a result may have, texts are joined, and the last ones left out.
fn blocks(pieces: Vec<Value>) -> Vec<ContentBlock> {
    let mut blocks: Vec<ContentBlock> = pieces.into_iter().map(block).collect();
    if blocks.len() > BLOCKS {
        blocks.dedup_by(|later, earlier| match (later, earlier) {
            (ContentBlock::Text { text: more }, ContentBlock::Text { text }) => {
                text.push('\n');
                text.push_str(more);
                true
            }
            _ => false,
        });
    }
    if blocks.len() > BLOCKS {
        let left_out = blocks.len() - (BLOCKS - 1);
        blocks.truncate(BLOCKS - 1);
        blocks.push(ContentBlock::Text { text: format!("[{left_out} more pieces of content are left out]") });
    }
    blocks
}

/// A piece as a block: text and media as such, a link or a piece of an unknown kind as JSON.
fn block(piece: Value) -> ContentBlock {
    let kind = piece.get("type").and_then(Value::as_str).unwrap_or_default();
    let field = |name: &str| piece.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = match kind {
        "text" => text(&piece).map(|text| ContentBlock::Text { text: text.to_owned() }),
        "image" => Some(ContentBlock::Image { data: field("data"), mime_type: field("mimeType") }),
        "audio" => Some(ContentBlock::Audio { data: field("data"), mime_type: field("mimeType") }),
        "resource" => piece.get("resource").and_then(resource_block),
        _ => None,
    };
    found
        .filter(|block| block.fault().is_none())
        .unwrap_or_else(|| ContentBlock::Text { text: describe_piece(piece) })
}

/// A resource with text, or with an image or a sound.
fn resource_block(resource: &Value) -> Option<ContentBlock> {
    let field = |name: &str| resource.get(name).and_then(Value::as_str);
    if let Some(text) = field("text") {
        let uri = field("uri").unwrap_or_default();
        return Some(ContentBlock::Text { text: format!("{uri}\n{text}").trim_start().to_owned() });
    }
    let (data, mime_type) = (field("blob")?.to_owned(), field("mimeType")?.to_owned());
    match mime_type.split('/').next() {
        Some("image") => Some(ContentBlock::Image { data, mime_type }),
        Some("audio") => Some(ContentBlock::Audio { data, mime_type }),
        _ => None,
    }
}

/// The JSON of a piece, without data that no model reads.
fn describe_piece(mut piece: Value) -> String {
    let without_data = |members: &mut Map<String, Value>| {
        members.retain(|name, _| !UNTOLD.contains(&name.as_str()));
        for name in ["data", "blob"] {
            if let Some(data) = members.get_mut(name) {
                *data = format!("[{} characters, left out]", data.as_str().unwrap_or_default().len()).into();
            }
        }
    };
    piece.as_object_mut().into_iter().for_each(without_data);
    piece.get_mut("resource").and_then(Value::as_object_mut).into_iter().for_each(without_data);
    piece.to_string()
}

/// The pieces of content; none where there is no `content`. A text or one piece stands for a list of it.
fn take_pieces(tool: &str, result: &mut Value) -> Result<Option<Vec<Value>>, Error> {
    let refuse = |why: String| Err(Error::new(format!("tool `{tool}` of the server gave {why}")));
    match result.get_mut("content").map(Value::take) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(pieces)) if pieces.len() <= PIECES => {
            Ok(Some(pieces.into_iter().map(piece_of).collect()))
        }
        Some(Value::Array(_)) => refuse(format!("more than {PIECES} pieces of content")),
        Some(piece @ (Value::Object(_) | Value::String(_))) => Ok(Some(vec![piece_of(piece)])),
        Some(_) => refuse("content that is neither a list nor a text".to_owned()),
    }
}

fn piece_of(piece: Value) -> Value {
    match piece {
        Value::String(text) => json!({"type": "text", "text": text}),
        piece => piece,
    }
}

/// The members of a result without content and structure, as `toolResult` of 2024-10-07.
fn other_members(mut result: Value) -> Value {
    let envelope = ["_meta", "content", "isError", "resultType", "structuredContent"];
    if let Some(members) = result.as_object_mut() {
        members.retain(|name, _| !envelope.contains(&name.as_str()));
    }
    match result.as_object().is_none_or(Map::is_empty) {
        true => Value::Null,
        false => result,
    }
}

/// The structure that a tool promised, in the only text that is JSON.
fn find_promised(is_structured: bool, pieces: &[Value]) -> Option<Value> {
    let parse = |piece: &Value| serde_json::from_str::<Value>(text(piece)?).ok();
    let is_structure = |value: &Value| value.is_object() || value.is_array();
    let mut found = pieces.iter().filter(|_| is_structured).filter_map(parse).filter(is_structure);
    found.next().filter(|_| found.next().is_none())
}

/// Whether a piece is a text that stands in the structure too, as a text or as JSON.
fn is_said(piece: &Value, structured: &Value) -> bool {
    let Some(text) = text(piece) else { return false };
    let json = serde_json::from_str(text).ok();
    text.trim().is_empty() || says(structured, text, json.as_ref())
}

fn says(structured: &Value, text: &str, json: Option<&Value>) -> bool {
    if Some(structured) == json || structured.as_str() == Some(text) {
        return true;
    }
    match structured {
        Value::Array(items) => items.iter().any(|item| says(item, text, json)),
        Value::Object(members) => members.values().any(|member| says(member, text, json)),
        _ => false,
    }
}

/// A result may be something else than a result.
fn check_type(tool: &str, result: &Value) -> Result<(), Error> {
    if !result.is_object() {
        return Err(Error::new(format!("tool `{tool}` of the server gave no result")));
    }
    match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => Ok(()),
        Some("input_required") => Err(Error::new(format!(
            "tool `{tool}` of the server asks back ({}), which is not supported: call it with everything that it needs",
            questions(result)
        ))),
        Some(other) => Err(Error::new(format!(
            "tool `{tool}` of the server gave a result of the kind `{}`, which is not supported",
            display(other, 40)
        ))),
    }
}

/// The methods that the server asks for, and its texts to a person.
fn questions(result: &Value) -> String {
    let requests = result.get("inputRequests").and_then(Value::as_object);
    let asked = requests.into_iter().flatten().map(|(_, request)| {
        let method = request.get("method").and_then(Value::as_str).unwrap_or("something");
        match request.pointer("/params/message").and_then(Value::as_str) {
            Some(message) => format!("`{}`: {}", display(method, 40), display(message, 200)),
            None => format!("`{}`", display(method, 40)),
        }
    });
    asked.take(4).collect::<Vec<_>>().join("; ")
}

/// The reason of a failed call: in texts, in resources, or else in its structure.
fn failure_of(tool: &str, pieces: &[Value], structured: Value) -> Error {
    let resource = |piece: &Value| piece.pointer("/resource/text").and_then(Value::as_str).map(str::to_owned);
    let texts = pieces.iter().filter_map(|piece| text(piece).map(str::to_owned).or_else(|| resource(piece)));
    let said = texts.collect::<Vec<_>>().join("\n");
    let error = match (said.trim(), reason(&structured)) {
        ("", None) => Error::new(format!("tool `{tool}` of the server failed and does not say why")),
        ("", Some(reason)) => Error::new(cut(&reason, MESSAGE_CHARS)),
        (said, _) => Error::new(cut(said, MESSAGE_CHARS)),
    };
    match !structured.is_null() && structured.to_string().len() <= DATA_BYTES {
        true => error.with_details(json!({"structured": structured})),
        false => error,
    }
}

/// Why a tool failed, by its structure: the words that it has for that, or all of it.
fn reason(structured: &Value) -> Option<String> {
    let words =
        |value: &Value| value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let mut found = REASONS.iter().filter_map(|place| words(structured.pointer(place)?));
    let whole = || (!structured.is_null()).then(|| structured.to_string());
    found.next().or_else(|| words(structured)).or_else(whole)
}

fn text(piece: &Value) -> Option<&str> {
    (piece.get("type")?.as_str()? == "text").then(|| piece.get("text")?.as_str()).flatten()
}
