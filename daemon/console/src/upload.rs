//! Uploads: forms with a file, read up to the file. The file stays in the request as its body, so that a handler takes it under
//! the limits of the HTTP interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};

use axum::BoxError;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use multer::Multipart;
use toolgate_api::error::ErrorType;
use toolgate_http::body;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::form::{FIELDS, FormFields, with_line_feeds};

/// Start of the addresses that take a file. Other forms take none.
pub(super) const UPLOADS: &str = "/console/upload/";

/// Name of the field with the file, which is the last one of its form.
pub(super) const FILE_FIELD: &str = "file";

/// Most bytes before the file: fields, and the headers of the parts.
const HEAD_BYTES: usize = 64 * 1024;

/// Whether the request is a form with a file, for an address that takes one.
pub(super) fn is_upload(request: &Request) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    request.uri().path().starts_with(UPLOADS) && kind.eq_ignore_ascii_case("multipart/form-data")
}

/// Reads the fields before the file. The field of the file has its name, and the body is its content.
pub(super) async fn open(app: &App, request: Request) -> Result<(Parts, FormFields, Body), Problem> {
    let (parts, body) = request.into_parts();
    body::expect_unencoded(&parts.headers)?;
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(unreadable)?;
    let (fields, file) = body::in_time(app, read_head(body, boundary)).await?;
    Ok((parts, FormFields::of_upload(fields), file))
}

async fn read_head(body: Body, boundary: String) -> Result<(Vec<(String, String)>, Body), Problem> {
    let is_in_file = Arc::new(AtomicBool::new(false));
    let mut form = Multipart::new(pieces(body, Arc::clone(&is_in_file)), boundary);
    let mut fields = Vec::new();
    while let Some(field) = form.next_field().await.map_err(unreadable)? {
        let name = field.name().unwrap_or_default().to_owned();
        if name == FILE_FIELD {
            fields.push((name, field.file_name().unwrap_or_default().to_owned()));
            is_in_file.store(true, Ordering::Relaxed);
            return Ok((fields, Body::from_stream(field)));
        }
        if fields.len() == FIELDS {
            let message = format!("the form has more than {FIELDS} fields");
            return Err(Problem::new(ErrorType::TooLarge, message, "send the form of the page"));
        }
        let text = field.text().await.map_err(unreadable)?;
        fields.push((name, with_line_feeds(&text)));
    }
    Ok((fields, Body::empty()))
}

/// The pieces of a body, one each time that it is polled: the parser keeps all that is ready in memory, which is not counted.
/// Before the file, they are limited.
fn pieces(body: Body, is_in_file: Arc<AtomicBool>) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    let mut body = body.into_data_stream();
    let (mut has_passed, mut head_bytes) = (false, 0);
    stream::poll_fn(move |context| {
        if std::mem::take(&mut has_passed) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = match ready!(body.poll_next_unpin(context)) {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Poll::Ready(Some(Err(BoxError::from(error)))),
            None => return Poll::Ready(None),
        };
        has_passed = true;
        if !is_in_file.load(Ordering::Relaxed) {
            if head_bytes > HEAD_BYTES {
                let message = format!("its fields are larger than {HEAD_BYTES} bytes");
                return Poll::Ready(Some(Err(BoxError::from(message))));
            }
            head_bytes += piece.len();
        }
        Poll::Ready(Some(Ok(piece)))
    })
}

fn unreadable(error: multer::Error) -> Problem {
    let message = format!("the form with the file cannot be read: {error}");
    Problem::new(ErrorType::InvalidRequest, message, "open the page again and send the form from there")
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    fn part(name: &str, rest: &str, content: &str) -> String {
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"{rest}\r\n\r\n{content}\r\n")
    }

    fn file(content: &str) -> String {
        format!("{}--x--\r\n", part(FILE_FIELD, "; filename=\"a.wasm\"", content))
    }

    /// A body that arrives in pieces of `bytes`.
    fn body(text: &str, bytes: usize) -> Body {
        let pieces: Vec<_> = text.as_bytes().chunks(bytes).map(Bytes::copy_from_slice).collect();
        Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, BoxError>)))
    }

    async fn read(text: &str, bytes: usize) -> Result<(Vec<(String, String)>, Vec<u8>), Problem> {
        let (fields, file) = read_head(body(text, bytes), "x".to_owned()).await?;
        let content = to_bytes(file, usize::MAX).await.map_err(|error| {
            Problem::new(ErrorType::InvalidRequest, error.to_string(), "the file is not whole")
        })?;
        Ok((fields, content.into()))
    }

    #[tokio::test]
    async fn o6_the_file_of_a_form_follows_its_fields_however_it_arrives() {
        let content = "\r\n--y is no boundary\0".repeat(5_000);
        let text = [part("csrf", "", "abc"), part("namespace", "", "mail"), file(&content)].concat();
        for bytes in [1, 7, 1_000, text.len()] {
            let (fields, read) = read(&text, bytes).await.expect("an upload");
            let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            assert_eq!(fields, [pair("csrf", "abc"), pair("namespace", "mail"), pair("file", "a.wasm")]);
            assert!(read == content.as_bytes(), "{bytes}: {} bytes", read.len());
        }
    }

    #[tokio::test]
    async fn o6_fields_before_a_file_are_bounded_and_the_file_is_not() {
        let long = "a".repeat(4 * HEAD_BYTES);
        assert!(read(&[part("csrf", "", "abc"), file(&long)].concat(), 1_000).await.is_ok());
        assert!(read(&[part("csrf", "", &long), file("abc")].concat(), 1_000).await.is_err());
        assert!(read(&format!("--x\r\n{long}"), 1_000).await.is_err(), "headers without an end");
        assert!(read(&long, 1_000).await.is_err(), "no boundary");
        let many = part("a", "", "b").repeat(FIELDS + 1);
        assert!(read(&[many, file("abc")].concat(), 1_000).await.is_err());
    }

    #[tokio::test]
    async fn o6_a_file_that_breaks_off_is_no_file() {
        let whole = [part("csrf", "", "abc"), file("abc")].concat();
        let cut = whole.strip_suffix("--x--\r\n").expect("an end");
        assert!(read(&whole, 10).await.is_ok() && read(cut, 10).await.is_err());
        let (fields, file) =
            read(&[part("csrf", "", "abc"), "--x--\r\n".into()].concat(), 10).await.expect("a form");
        assert_eq!((fields.len(), file.len()), (1, 0), "a form without a file");
    }
}
