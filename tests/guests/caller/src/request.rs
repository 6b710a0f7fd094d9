//! One HTTP request, well-formed or not, and its whole response.

use toolgate_sdk::{Error, tool};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::StreamError;

/// Sends a request and returns status, header fields and body of the response, each on its own line.
#[tool]
#[expect(clippy::too_many_arguments, reason = "each argument is one part of a request")]
pub fn fetch(
    /// The method
    method: String,
    /// Scheme, authority, path and query
    url: String,
    /// Header fields, each `name: value`
    headers: Vec<String>,
    /// Request body
    body: Option<String>,
    /// A trailer field, `name: value`
    trailer: Option<String>,
    /// Timeout for the first byte of the response
    first_byte_ms: Option<u64>,
    /// Timeout between two bytes of the response
    between_bytes_ms: Option<u64>,
    /// Timeout for the connection
    connect_ms: Option<u64>,
    /// Whether the body is written only after the response has begun
    response_first: Option<bool>,
) -> Result<String, Error> {
    let request = OutgoingRequest::new(fields(&headers)?);
    set_target(&request, &method, &url).map_err(|()| Error::new("the request cannot be made"))?;
    let outgoing = body.is_some().then(|| request.body());
    let options = RequestOptions::new();
    let nanoseconds = |ms: Option<u64>| ms.map(|ms| ms * 1_000_000);
    let _ = options.set_connect_timeout(nanoseconds(connect_ms));
    let _ = options.set_first_byte_timeout(nanoseconds(first_byte_ms));
    let _ = options.set_between_bytes_timeout(nanoseconds(between_bytes_ms));
    let answer = handle(request, Some(options)).map_err(|code| Error::new(format!("{code:?}")))?;
    if response_first == Some(true) {
        answer.subscribe().block();
    }
    if let (Some(Ok(outgoing)), Some(body)) = (outgoing, body) {
        send(outgoing, body.as_bytes(), trailer.as_deref())?;
    }
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(answer))) => read(&answer),
        other => Err(Error::new(format!("{other:?}"))),
    }
}

fn fields(lines: &[String]) -> Result<Fields, Error> {
    let fields = Fields::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        let value = value.as_bytes().to_vec();
        fields.append(name, &value).map_err(|error| Error::new(format!("{name}: {error:?}")))?;
    }
    Ok(fields)
}

fn set_target(request: &OutgoingRequest, method: &str, url: &str) -> Result<(), ()> {
    let (scheme, rest) = url.split_once("://").ok_or(())?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let scheme = match scheme {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        other => Scheme::Other(other.to_owned()),
    };
    request.set_method(&Method::Other(method.to_owned()))?;
    request.set_scheme(Some(&scheme))?;
    request.set_authority(Some(authority))?;
    request.set_path_with_query(Some(path))
}

fn send(outgoing: OutgoingBody, bytes: &[u8], trailer: Option<&str>) -> Result<(), Error> {
    let stream = outgoing.write().map_err(|()| Error::new("the content cannot be written"))?;
    for chunk in bytes.chunks(4096) {
        stream.blocking_write_and_flush(chunk).map_err(|error| Error::new(format!("{error:?}")))?;
    }
    drop(stream);
    let trailers = trailer.map(|line| fields(&[line.to_owned()])).transpose()?;
    OutgoingBody::finish(outgoing, trailers).map_err(|code| Error::new(format!("{code:?}")))
}

fn read(answer: &IncomingResponse) -> Result<String, Error> {
    let mut text = format!("{}\n", answer.status());
    for (name, value) in answer.headers().entries() {
        text += &format!("{name}: {}\n", String::from_utf8_lossy(&value));
    }
    text.push('\n');
    let body = answer.consume().map_err(|()| Error::new("the answer has no content"))?;
    let stream = body.stream().map_err(|()| Error::new("the content cannot be read"))?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(64 * 1024) {
            Ok(chunk) => bytes.extend(chunk),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => return Err(Error::new(error.to_debug_string())),
        }
    }
    drop(stream);
    let trailers = IncomingBody::finish(body);
    trailers.subscribe().block();
    if let Some(Ok(Ok(Some(trailers)))) = trailers.get() {
        for (name, value) in trailers.entries() {
            bytes.extend(format!("\n{name}: ").bytes());
            bytes.extend(value);
        }
    }
    Ok(text + &String::from_utf8_lossy(&bytes))
}
