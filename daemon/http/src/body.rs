//! Request bodies, limited in size and time before they are parsed.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use toolgate_api::error::{CallError, Details, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::read::Object;
use toolgate_core::identity::Caller;
use zeroize::Zeroize;

use super::body_memory::{BodyShare, UNCOUNTED_BYTES};
use super::problem::Problem;
use super::state::App;

/// Extractor of a JSON body.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let JsonText(body) = JsonText::from_request(request, app).await?;
        parse(&body).map(Self)
    }
}

/// Extractor of a JSON body that contains a secret: the buffer is wiped after parsing, and errors never quote the
/// body.
///
/// A buffer that hyper read together with other bytes belongs to hyper and is not wiped.
pub struct SecretJson<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for SecretJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let JsonText(body) = JsonText::from_request(request, app).await?;
        let read = serde_json::from_slice(&body).map(|Object(request)| request);
        let read = read.map_err(|error| error_without_values(&error));
        wipe(body.into_bytes());
        read.map(Self)
    }
}

fn wipe(bytes: Bytes) {
    if let Ok(mut bytes) = bytes.try_into_mut() {
        bytes.zeroize();
    }
}

/// Converts an error without values: the message names only fields and the field names that are expected.
fn error_without_values(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let tells_a_name = text.starts_with("unknown field") || text.starts_with("missing field");
    let place = || format!("not what is expected at line {} column {}", error.line(), error.column());
    let words = text
        .strip_prefix("unknown variant")
        .and_then(|text| text.split_once(", expected "))
        .map(|words| words.1);
    let why = match words {
        Some(words) => format!("no such word; expected {words}"),
        None if tells_a_name => text,
        None => place(),
    };
    mismatch(why)
}

/// Extractor of a JSON body that its handler parses.
pub struct JsonText(pub BodyBytes);

/// A whole body, which holds its share of the memory for bodies.
pub struct BodyBytes {
    bytes: Bytes,
    share: BodyShare,
}

impl BodyBytes {
    /// The bytes, no longer counted.
    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The share of the memory, for text that was parsed from the bytes. They are wiped, since they can hold a secret; a
    /// buffer that hyper read together with other bytes belongs to hyper and is not.
    pub fn into_share(self) -> BodyShare {
        wipe(self.bytes);
        self.share
    }

    /// The bytes, counted as long as this body is kept.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Deref for BodyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl FromRequest<App> for JsonText {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        expect_json(request.headers())?;
        let (parts, body) = request.into_parts();
        let organization =
            parts.extensions.get::<Arc<Caller>>().and_then(|caller| caller.organization.clone());
        read(app, organization.as_ref(), body, app.settings().http.body_bytes).await.map(Self)
    }
}

/// Reads a whole body of at most `limit_bytes`, within the timeout and the memory for bodies of the organization.
pub async fn read(
    app: &App,
    organization: Option<&Name>,
    body: impl HttpBody<Data = Bytes, Error: fmt::Display> + Unpin,
    limit_bytes: u64,
) -> Result<BodyBytes, Problem> {
    expect_size(&body, limit_bytes)?;
    let share = app.0.bodies.share(organization.map(Name::as_str));
    in_time(app, collect(body, limit_bytes, share)).await
}

/// Refuses a body that is declared to be larger. It is not read, so a client that sent `Expect: 100-continue` need not
/// send it.
pub(super) fn expect_size(body: &impl HttpBody, limit_bytes: u64) -> Result<(), Problem> {
    if body.size_hint().lower() > limit_bytes { Err(too_large(limit_bytes)) } else { Ok(()) }
}

/// Reads a body within the timeout.
pub async fn in_time<T>(app: &App, read: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let timeout = Duration::from_millis(app.settings().http.body_timeout_ms);
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_| Err(too_slow(timeout)))
}

async fn collect(
    mut body: impl HttpBody<Data = Bytes, Error: fmt::Display> + Unpin,
    limit_bytes: u64,
    mut share: BodyShare,
) -> Result<BodyBytes, Problem> {
    let mut whole = BytesMut::new();
    while let Some(piece) = next_piece(&mut body).await? {
        let bytes = (whole.len() + piece.len()) as u64;
        if bytes > limit_bytes {
            return Err(too_large(limit_bytes));
        }
        if bytes > UNCOUNTED_BYTES {
            share.grow_to(bytes)?;
        }
        if whole.is_empty() && body.is_end_stream() {
            return Ok(BodyBytes { bytes: piece, share });
        }
        whole.extend_from_slice(&piece);
    }
    Ok(BodyBytes { bytes: whole.freeze(), share })
}

/// Returns the next piece of the content; none at its end.
pub(super) async fn next_piece(
    body: &mut (impl HttpBody<Data = Bytes, Error: fmt::Display> + Unpin),
) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("the body ended early: {error}");
            Problem::new(ErrorType::InvalidRequest, message, "send the whole body")
        })?;
        // Trailers are dropped.
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}

fn too_large(limit_bytes: u64) -> Problem {
    Problem::new(
        ErrorType::TooLarge,
        format!("the body is larger than {limit_bytes} bytes"),
        "send less, or ask the operator to raise the limit",
    )
}

/// Returns the error of a body timeout: it is the client's fault, so the status is 408 (RFC 9110, section 15.5.9).
fn too_slow(timeout: Duration) -> Problem {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let error = CallError::new(
        ErrorType::DeadlineExceeded,
        format!("the body did not arrive within {timeout_ms} ms"),
        "send it faster, or ask the operator to raise the limit",
    );
    CallError { details: Some(Details::BodyTimeout { body_timeout_ms: timeout_ms }), ..error }.into()
}

/// Parses JSON text; an error names its position.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map(|Object(value)| value).map_err(mismatch)
}

/// Returns the error of a body that does not match its schema.
pub fn mismatch(why: impl fmt::Display) -> Problem {
    Problem::new(
        ErrorType::InvalidRequest,
        format!("invalid request body: {why}"),
        "compare it with `/openapi.json`",
    )
}

/// Refuses a `Content-Encoding`: a compressed body would be parsed as invalid JSON, an invalid component or another
/// file.
pub fn expect_unencoded(headers: &HeaderMap) -> Result<(), Problem> {
    match super::header::header(headers, &header::CONTENT_ENCODING)? {
        Some(coding) if !coding.eq_ignore_ascii_case("identity") => Err(Problem::new(
            ErrorType::InvalidRequest,
            format!("the body is encoded as `{coding}`, and encoded bodies are not taken"),
            "send it as it is, without `Content-Encoding`",
        )),
        _ => Ok(()),
    }
}

/// Requires `application/json`: a web page cannot send this type to another origin without a CORS preflight request.
pub(super) fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    expect_unencoded(headers)?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::new(
        ErrorType::InvalidRequest,
        "the body is not declared as JSON",
        "send the header `Content-Type: application/json`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read into")]
    struct Form {
        kind: u8,
    }

    #[test]
    fn what_is_wrong_with_a_body_is_told_without_its_values() {
        let told = |text: &str| {
            let error = serde_json::from_str::<Form>(text).expect_err("another form");
            error_without_values(&error).0.message
        };
        assert!(
            told(r#"{"kind":"canary"}"#).ends_with("at line 1 column 16"),
            "{}",
            told(r#"{"kind":"canary"}"#)
        );
        for text in [r#"{"kind":"canary"}"#, r#""canary""#, r#"["canary"]"#, r#"{"kind":1} canary"#, "canary"]
        {
            assert!(!told(text).contains("canary"), "{}", told(text));
        }
        assert!(told(r#"{"kin":1}"#).contains("unknown field `kin`"));
    }
}
