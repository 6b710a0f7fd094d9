//! A request builder.
//!
//! An error is kept until `send`, so that calls can be chained.

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::address::Address;
use super::{Error, Headers, MAX_BODY_BYTES, Response, transport};
use crate::task;

/// An HTTP request. [`send`](Self::send) sends it.
#[must_use = "nothing is sent before `send` is called"]
pub struct Request {
    outgoing: Result<Outgoing, Error>,
    max_body_bytes: usize,
}

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) address: Address,
    pub(crate) headers: Headers,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) timeout: Option<Duration>,
}

impl Request {
    pub(super) fn new(method: &str, url: &str) -> Self {
        let address = Address::parse(url)
            .map_err(|why| Error::InvalidUrl { url: url.to_owned(), why })
            .and_then(|address| {
                let is_valid = is_token(method).then_some(address);
                is_valid.ok_or_else(|| invalid(format!("`{method}` is not a method")))
            });
        let outgoing = address.map(|address| Outgoing {
            method: method.to_owned(),
            address,
            headers: Headers::default(),
            body: None,
            timeout: None,
        });
        Self { outgoing, max_body_bytes: MAX_BODY_BYTES }
    }

    /// Adds a header field. Only the host can set those that control message framing (`host`, `content-length`,
    /// `accept-encoding` and such), and those that hold a credential which an operator bound to the address.
    pub fn header(self, name: &str, value: impl Display) -> Self {
        self.update(|outgoing| {
            let value = value.to_string();
            if !is_token(name) || value.contains(|sign: char| sign.is_control() && sign != '\t') {
                return Err(invalid(format!("`{}` is not a header field", name.escape_debug())));
            }
            outgoing.headers.append(name, value);
            Ok(())
        })
    }

    /// Adds a query parameter to the URL, percent-encoded: a text, a number, a boolean or an enum's name. `None` adds nothing.
    pub fn query(self, name: &str, value: impl Serialize) -> Self {
        self.update(|outgoing| {
            let text = match serde_json::to_value(&value) {
                Ok(Value::Null) => return Ok(()),
                Ok(Value::String(text)) => text,
                // Without the `.0` that JSON has.
                Ok(Value::Number(number)) if number.is_f64() => {
                    number.as_f64().unwrap_or_default().to_string()
                }
                Ok(one @ (Value::Number(_) | Value::Bool(_))) => one.to_string(),
                _ => return Err(invalid(format!("the query parameter `{name}` is not one value"))),
            };
            outgoing.address.add_query(name, &text);
            Ok(())
        })
    }

    /// Sends a value as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.update(|outgoing| {
            let body = serde_json::to_vec(value)
                .map_err(|error| invalid(format!("its body cannot be written as JSON: {error}")))?;
            outgoing.headers.set("content-type", "application/json".to_owned());
            outgoing.body = Some(body);
            Ok(())
        })
    }

    /// Sends pairs as a form (`application/x-www-form-urlencoded`).
    pub fn form<N: AsRef<str>, V: AsRef<str>>(self, pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        self.update(|outgoing| {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
            outgoing.headers.set("content-type", "application/x-www-form-urlencoded".to_owned());
            outgoing.body = Some(body.into_bytes());
            Ok(())
        })
    }

    /// Sends text or bytes. Set their type with the header field `content-type`.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        self.update(|outgoing| {
            outgoing.body = Some(body.into());
            Ok(())
        })
    }

    /// Limits the time from sending to the end of the body. Without it only the call's own deadline applies, which leaves the
    /// tool no time to report an error.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.update(|outgoing| {
            outgoing.timeout = Some(timeout);
            Ok(())
        })
    }

    /// Limits the bytes of the body, in place of [`MAX_BODY_BYTES`]. A longer body is [`Error::TooLarge`].
    pub fn max_body_bytes(self, max_bytes: usize) -> Self {
        Self { max_body_bytes: max_bytes, ..self }
    }

    /// Sends the request and waits for the head of the response. The body is read on demand.
    pub fn send(self) -> Result<Response, Error> {
        task::block_on(self.exchange())
    }

    /// Sends the request from an `async` tool, concurrently with others. The response comes with its body.
    #[cfg(feature = "async")]
    pub async fn send_async(self) -> Result<Response, Error> {
        let mut response = self.exchange().await?;
        response.read_ahead().await?;
        Ok(response)
    }

    async fn exchange(self) -> Result<Response, Error> {
        let outgoing = self.outgoing?;
        let host = outgoing.address.host().to_owned();
        let url = outgoing.address.url();
        let response = transport::send(outgoing).await?;
        Ok(Response::new(url, host, response, self.max_body_bytes))
    }

    fn update(mut self, change: impl FnOnce(&mut Outgoing) -> Result<(), Error>) -> Self {
        if let Ok(outgoing) = &mut self.outgoing
            && let Err(error) = change(outgoing)
        {
            self.outgoing = Err(error);
        }
        self
    }
}

fn invalid(why: String) -> Error {
    Error::InvalidRequest { why }
}

/// The syntax of methods and header field names (`token`, RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}
