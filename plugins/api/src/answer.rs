//! Turns the server's answer into the tool's result, or into a failure that says what to do.

use serde_json::{Value, json};
use toolgate_sdk::http::{self, Response};
use toolgate_sdk::{Context, Error, Level};

use crate::plan::{Plan, Selection};
use crate::select::select;
use crate::workspace;

/// Longest host name (RFC 1035): more of a server's words does not go into a message.
const HOST_CHARS: usize = 253;

/// Kinds of content that no model reads as text.
const BINARY: [&str; 7] =
    ["image/", "audio/", "video/", "font/", "application/pdf", "application/zip", "application/gzip"];

/// Takes the result out of an answer.
pub fn read(
    response: Response,
    plan: &Plan,
    save_path: Option<&str>,
    context: &Context,
) -> Result<Value, Error> {
    if let Some(redirect) = redirect(&response) {
        return Err(redirect);
    }
    let selection = &plan.result;
    let response = response.error_for_status().map_err(|error| failure_of(error, plan))?;
    let host = host_of(response.url()).to_owned();
    let content_type = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let status = response.status();
    let (result, replaced) = match selection {
        Selection::File(argument) if has_content(&response) => {
            (workspace::save(response, argument, save_path)?, 0)
        }
        _ if !has_content(&response) => (Value::Null, 0),
        _ if is_json(media_type) => read_json(response, &host, selection)?,
        _ => read_text(response, &host, media_type, selection)?,
    };
    if replaced > 0 {
        let message = "the service cut characters in two: each half became U+FFFD";
        context.log(Level::Warn, "surrogates_replaced", message, &[("count", &replaced)]);
    }
    match result.is_null() && plan.needs_content {
        true => Err(no_content(&host, status, selection)),
        false => Ok(result),
    }
}

/// The service did what was asked, and its response has nothing that the output schema demands.
fn no_content(host: &str, status: u16, selection: &Selection) -> Error {
    let what = match selection {
        Selection::Whole | Selection::File(_) => "nothing in its body",
        Selection::Pointer(_) | Selection::Jmespath(_) => "nothing where the result of this tool is",
    };
    Error::new(format!(
        "`{host}` took the request (status {status}) and answered with {what}, although the tool's output schema demands a result: \
         do not repeat a request that changes something; the definition can allow `null`"
    ))
    .with_details(json!({"status": status}))
}

/// A redirect is not followed: it may lead to an address without permission, and with the data that was sent here.
fn redirect(response: &Response) -> Option<Error> {
    let status = response.status();
    let location = response.header("location").filter(|_| (300..400).contains(&status))?;
    let host = host_of(response.url());
    // A query may hold a secret that the service made for the redirect.
    let target = without_query(location);
    let has_host = target.starts_with("//") || target.contains("://");
    let path = path_of(response.url(), &target, has_host);
    let aim = match has_host.then(|| host_of(&target)) {
        Some(other) if other != host => {
            format!("to `{}`", quotable(&format!("{other}{}", path.trim_end_matches('/'))))
        }
        _ => format!("to the path `{}` of the same host", quotable(&path)),
    };
    let message = format!(
        "`{host}` answered with status {status}, which leads {aim}: redirects are not followed, so the definition of this \
         tool has to name the place where the API is now"
    );
    Some(Error::new(message).with_details(json!({"status": status})))
}

/// A refused credential fails with any arguments: only its owner can fix that.
fn failure_of(error: http::Error, plan: &Plan) -> Error {
    let http::Error::Status { host, status, excerpt, .. } = &error else { return error.into() };
    let said = if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") };
    let message = match status {
        401 if plan.has_credential => {
            format!("`{host}` wants a credential, or does not accept the one it got (status 401){said}")
        }
        403 if plan.has_credential => {
            format!("`{host}` does not allow this with the credential it got (status 403){said}")
        }
        _ => return error.into(),
    };
    let failure = Error::new(message);
    match Error::from(error).details() {
        Some(details) => failure.with_details(details),
        None => failure,
    }
}

/// An address without its query, which may hold what only the server may know.
fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// The path that a location without query leads to, seen from a URL (RFC 3986, 5.2).
fn path_of(url: &str, location: &str, has_host: bool) -> String {
    let after_host = |url: &str| {
        let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
        rest.find('/').map_or("/", |start| &rest[start..]).to_owned()
    };
    if has_host {
        return after_host(location);
    }
    if location.starts_with('/') {
        return location.to_owned();
    }
    let path = after_host(&without_query(url));
    match location {
        "" => path,
        _ => format!("{}/{location}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    }
}

/// The host of a URL, with its port.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or(authority)
}

/// A text of the server as a part of a message.
fn quotable(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).filter(|sign| *sign != '`').take(HOST_CHARS).collect()
}

fn has_content(response: &Response) -> bool {
    response.status() != 204 && response.header("content-length") != Some("0")
}

fn is_json(media_type: &str) -> bool {
    matches!(media_type, "application/json" | "text/json") || media_type.ends_with("+json")
}

fn read_json(response: Response, host: &str, selection: &Selection) -> Result<(Value, usize), Error> {
    let bytes = response.bytes()?;
    let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    if json.trim_ascii().is_empty() {
        return Ok((Value::Null, 0));
    }
    select(json, selection).map_err(|why| unreadable(host, why))
}

/// Text is the result as it is. JSON under another media type is still JSON if a part of it is selected.
fn read_text(
    response: Response,
    host: &str,
    media_type: &str,
    selection: &Selection,
) -> Result<(Value, usize), Error> {
    if BINARY.iter().any(|kind| media_type.starts_with(kind)) {
        return Err(binary(host, media_type));
    }
    let text = match is_in_other_charset(&response) {
        true => response.text()?,
        false => String::from_utf8(response.bytes()?).map_err(|_| not_utf8(host, media_type))?,
    };
    if text.contains('\0') {
        return Err(binary(host, media_type));
    }
    let is_unnamed_json = media_type.is_empty() || *selection != Selection::Whole;
    match is_unnamed_json.then(|| select(text.as_bytes(), selection)) {
        Some(Ok(found)) => Ok(found),
        _ if text.is_empty() || *selection != Selection::Whole => Ok((Value::Null, 0)),
        _ => Ok((Value::String(text), 0)),
    }
}

fn is_in_other_charset(response: &Response) -> bool {
    let content_type = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
    content_type
        .split_once("charset=")
        .is_some_and(|(_, charset)| !charset.trim_matches('"').starts_with("utf-8"))
}

/// Of what calls itself text, the bytes are what is wrong.
fn not_utf8(host: &str, media_type: &str) -> Error {
    if !media_type.starts_with("text/") && !media_type.ends_with("xml") {
        return binary(host, media_type);
    }
    let why =
        format!("it is `{}` without another `charset`, and its bytes are not UTF-8", quotable(media_type));
    unreadable(host, why)
}

fn binary(host: &str, media_type: &str) -> Error {
    let kind = if media_type.is_empty() { "unnamed content".to_owned() } else { quotable(media_type) };
    unreadable(
        host,
        format!(
            "it is `{kind}`, which is neither JSON nor text; a definition with `\"result\": {{\"file\": \"save_as\"}}` saves it to the workspace"
        ),
    )
}

fn unreadable(host: &str, why: String) -> Error {
    http::Error::Unreadable { host: host.to_owned(), why }.into()
}
