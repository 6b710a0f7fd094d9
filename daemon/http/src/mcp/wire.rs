//! Messages as clients write them, in the form that `rmcp` reads, and its responses in the form that they accept.
//!
//! `rmcp` compares the header `Accept` literally, answers a message that it cannot read with a plain text and 415, and a call
//! with arguments of another type with "no such method". Clients take each of these for a broken transport.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_api::error::ErrorType;

use crate::problem::Problem;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The oldest revision whose clients understand an event without data, from which they resume a stream.
const RESUMES_SINCE: &str = "2025-11-25";

/// Longest text of an error of `rmcp`.
const ERROR_BYTES: usize = 64 * 1024;

/// A message, and what is needed to answer it.
pub(super) struct Message {
    /// The message as `rmcp` reads it.
    pub bytes: Bytes,
    /// Its id; `null` for a notification.
    pub id: Value,
    /// Whether it begins a session, with the revision that it names.
    pub begins: Option<String>,
}

/// The types of a response that a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub json: bool,
    pub events: bool,
}

/// Reads a message. The error is the response that refuses it.
pub(super) fn read(bytes: &Bytes) -> Result<Message, Box<Response>> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(default)]
        id: Value,
        method: Option<String>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }
    let as_sent = |id, begins| Message { bytes: bytes.clone(), id, begins };
    let refuse = |id: &Value, code, message: &str| Err(Box::new(failure(id, code, message)));
    let message: Envelope<'_> = match serde_json::from_slice(bytes) {
        Ok(message) if bytes.trim_ascii_start().starts_with(b"{") => message,
        read => {
            return match serde_json::from_slice::<IgnoredAny>(bytes) {
                Err(error) => refuse(&Value::Null, ErrorCode::PARSE_ERROR, &format!("no JSON: {error}")),
                // A key that is repeated: the call is refused with its place.
                Ok(_) if read.is_err() && bytes.trim_ascii_start().starts_with(b"{") => {
                    Ok(as_sent(Value::Null, None))
                }
                Ok(_) => refuse(
                    &Value::Null,
                    ErrorCode::INVALID_REQUEST,
                    "a message is one JSON object; batches are not of these revisions",
                ),
            };
        }
    };
    let Envelope { id, method, params, result, error } = message;
    let Some(method) = method else {
        return match result.is_some() || error.is_some() {
            true => Ok(as_sent(id, None)),
            false => {
                refuse(&id, ErrorCode::INVALID_REQUEST, "the message has no `method`, and is no response")
            }
        };
    };
    let Some(params) = params else { return Ok(as_sent(id, None)) };
    let (place, form) = (place_of(bytes, params), params.get());
    // The empty object of PHP.
    if form.starts_with('[') && serde_json::from_str::<[(); 0]>(form).is_ok() {
        return Ok(Message { bytes: replace(bytes, place, "{}"), id, begins: None });
    }
    if !form.starts_with(['{', 'n']) {
        return refuse(&id, ErrorCode::INVALID_PARAMS, "`params` is no JSON object");
    }
    match method.as_str() {
        "initialize" => {
            let version = serde_json::from_str::<Value>(form).ok();
            let version = version.and_then(|params| params["protocolVersion"].as_str().map(str::to_owned));
            Ok(as_sent(id, Some(version.unwrap_or_default())))
        }
        "tools/call" => match arguments_in_text(bytes, form) {
            Ok(Some(bytes)) => Ok(Message { bytes, id, begins: None }),
            Ok(None) => Ok(as_sent(id, None)),
            Err(message) => refuse(&id, ErrorCode::INVALID_PARAMS, message),
        },
        _ => Ok(as_sent(id, None)),
    }
}

/// The message with arguments that are a JSON object in a text, as models of OpenAI write them, in the place of the text.
fn arguments_in_text(bytes: &Bytes, params: &str) -> Result<Option<Bytes>, &'static str> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    const WRONG: &str = "`arguments` is no JSON object";
    let Ok(Params { arguments: Some(arguments) }) = serde_json::from_str(params) else { return Ok(None) };
    match arguments.get().as_bytes().first() {
        Some(b'{' | b'n') => Ok(None),
        Some(b'"') => {
            let text: String = serde_json::from_str(arguments.get()).map_err(|_| WRONG)?;
            let object =
                serde_json::from_str::<&RawValue>(&text).ok().filter(|json| json.get().starts_with('{'));
            let object = object.ok_or(WRONG)?;
            Ok(Some(replace(bytes, place_of(bytes, arguments), object.get())))
        }
        _ => Err(WRONG),
    }
}

/// The place of a part of a message.
fn place_of(bytes: &Bytes, part: &RawValue) -> Range<usize> {
    let start = (part.get().as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
    start..start + part.get().len()
}

fn replace(bytes: &Bytes, place: Range<usize>, by: &str) -> Bytes {
    [&bytes[..place.start], by.as_bytes(), &bytes[place.end..]].concat().into()
}

/// An error of the protocol.
fn failure(id: &Value, code: ErrorCode, message: &str) -> Response {
    let status = match code {
        ErrorCode::INVALID_PARAMS => StatusCode::OK,
        _ => StatusCode::BAD_REQUEST,
    };
    (status, axum::Json(error_message(id, code, message))).into_response()
}

fn error_message(id: &Value, code: ErrorCode, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}})
}

/// The types that a client accepts (RFC 9110, 12.5.1): without the header, and by a wildcard, it takes every type.
pub(super) fn accepted_types(headers: &HeaderMap) -> Accepted {
    let mut accepted = Accepted { json: false, events: false };
    let mut is_named = false;
    for range in
        headers.get_all(header::ACCEPT).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
    {
        let range = String::from_utf8_lossy(range).to_ascii_lowercase();
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        is_named |= !media.is_empty();
        let refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        if parts.any(refused) {
            continue;
        }
        accepted.json |= [JSON, "application/*", "*/*"].contains(&media);
        accepted.events |= [EVENTS, "text/*", "*/*"].contains(&media);
    }
    if is_named { accepted } else { Accepted { json: true, events: true } }
}

/// Names both types, as `rmcp` demands it of each request. The error refuses a client that takes neither.
pub(super) fn name_both(headers: &mut HeaderMap, accepted: Accepted) -> Result<(), Box<Response>> {
    if !accepted.json && !accepted.events {
        let problem = Problem::new(
            ErrorType::InvalidRequest,
            "the header `Accept` names no type of the protocol",
            "send `Accept: application/json, text/event-stream`",
        );
        return Err(Box::new(problem.with_status(StatusCode::NOT_ACCEPTABLE)));
    }
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    Ok(())
}

/// Whether clients of the revision resume a stream, and so understand an event without data.
pub(super) fn resumes(version: &str) -> bool {
    version >= RESUMES_SINCE
}

/// Whether an event has an id and no data: the place from which a client can resume the stream.
pub(super) fn is_primer(event: &[u8]) -> bool {
    let lines = || event.split(|byte| *byte == b'\n');
    let has_id = lines().any(|line| line.starts_with(b"id:"));
    let has_data =
        |line: &[u8]| line.strip_prefix(b"data:").is_some_and(|data| !data.trim_ascii().is_empty());
    has_id && !lines().any(has_data)
}

/// The response to a message, in a type that the client accepts. An error in plain text becomes one of the protocol.
pub(super) async fn fit(response: Response, id: &Value, accepted: Accepted) -> Response {
    let media = response.headers().get(header::CONTENT_TYPE).map(|media| media.as_bytes().to_owned());
    let is = |name: &str| media.as_ref().is_some_and(|media| media.starts_with(name.as_bytes()));
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        if is(JSON) || is("application/problem+json") {
            return response;
        }
        let text = http_body_util::Limited::new(response.into_body(), ERROR_BYTES).collect().await;
        let text = text.map(|text| text.to_bytes()).unwrap_or_default();
        let message = String::from_utf8_lossy(&text);
        return (status, axum::Json(error_message(id, ErrorCode::INVALID_REQUEST, &message))).into_response();
    }
    if is(EVENTS) && !accepted.events {
        return as_json(response, id).await;
    }
    if is(JSON) && !accepted.json {
        let (mut parts, body) = response.into_parts();
        let Ok(body) = body.collect().await else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        parts.headers.remove(header::CONTENT_LENGTH);
        let event = [b"data: ", &*body.to_bytes(), b"\n\n"].concat();
        return Response::from_parts(parts, Body::from(event));
    }
    response
}

/// The answer among the events of a stream. Notifications are lost, since the client takes none.
async fn as_json(response: Response, id: &Value) -> Response {
    let (mut parts, mut body) = response.into_parts();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(event) = frame.into_data() else { continue };
        for line in event.split(|byte| *byte == b'\n') {
            let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
            let answers =
                |data: &&[u8]| serde_json::from_slice::<Value>(data).is_ok_and(|answer| answer["id"] == *id);
            if let Some(data) = data.filter(answers) {
                parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
                return Response::from_parts(parts, Body::from(data.to_vec()));
            }
        }
    }
    (StatusCode::OK, axum::Json(error_message(id, ErrorCode::INTERNAL_ERROR, "the call was cancelled")))
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Message, Box<Response>> {
        read(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn m2_what_clients_write_is_read_as_it_is_meant() {
        let message =
            |params: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
        for (sent, read) in [
            ("[]", "{}"),
            (r#"{"name":"a","arguments":"{\"b\":1}"}"#, r#"{"name":"a","arguments":{"b":1}}"#),
            (r#"{"name":"a","arguments":null}"#, r#"{"name":"a","arguments":null}"#),
            (r#"{"name":"a","arguments":{"b":[1]}}"#, r#"{"name":"a","arguments":{"b":[1]}}"#),
            ("null", "null"),
        ] {
            let seen = read_text(&message(sent)).expect("read");
            assert_eq!((&*seen.bytes, &seen.id), (message(read).as_bytes(), &json!(7)), "{sent}");
        }
        let begins = r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
        assert_eq!(read_text(begins).expect("read").begins.as_deref(), Some("2025-06-18"));
        assert!(read_text(r#"{"id":1,"result":{}}"#).is_ok());
    }

    #[tokio::test]
    async fn m2_a_message_that_cannot_be_read_is_an_error_of_the_protocol_with_its_id() {
        for (sent, code, id) in [
            ("{\"jsonrpc\":", -32700, Value::Null),
            (r#"[{"id":1,"method":"ping"}]"#, -32600, Value::Null),
            ("\"x\"", -32600, Value::Null),
            (r#"{"jsonrpc":"2.0","id":5}"#, -32600, json!(5)),
            (r#"{"id":"a","method":"ping","params":[1]}"#, -32602, json!("a")),
            (r#"{"id":9,"method":"tools/call","params":{"arguments":"[1]"}}"#, -32602, json!(9)),
            (r#"{"id":9,"method":"tools/call","params":{"arguments":7}}"#, -32602, json!(9)),
        ] {
            let refused = *read_text(sent).err().expect("refused");
            assert_eq!(refused.headers()[header::CONTENT_TYPE], JSON);
            let body: Value =
                serde_json::from_slice(&refused.into_body().collect().await.expect("a body").to_bytes())
                    .expect("JSON");
            assert_eq!((&body["error"]["code"], &body["id"]), (&json!(code), &id), "{sent}");
        }
    }

    #[test]
    fn m2_a_wildcard_and_no_header_accept_each_type() {
        let of = |value: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::ACCEPT, value.parse().expect("a value"));
            }
            let Accepted { json, events } = accepted_types(&headers);
            (json, events)
        };
        for both in [
            None,
            Some("*/*"),
            Some(""),
            Some("application/json, text/event-stream"),
            Some("text/*;q=0.5,Application/*"),
        ] {
            assert_eq!(of(both), (true, true), "{both:?}");
        }
        assert_eq!(of(Some("application/json")), (true, false));
        assert_eq!(of(Some("text/event-stream; q=1, application/json; q=0")), (false, true));
        assert_eq!(of(Some("text/html")), (false, false));
    }

    #[test]
    fn m2_a_primer_is_known() {
        assert!(is_primer(b"data: \nid: 0/0\nretry: 3000\n\n"));
        assert!(!is_primer(b": keep-alive\n\n"));
        assert!(!is_primer(b"data: {}\nid: 1/0\n\n"));
    }
}
