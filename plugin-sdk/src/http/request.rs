//! A request while it is put together.
//!
//! What is wrong with a part of it is kept until it is sent, so that the calls can be written one after the other.

use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;

use super::address::Address;
use super::{Error, Headers, MAX_BODY_BYTES, Response, transport};
use crate::task;

/// A request over HTTP. [`send`](Self::send) sends it.
#[must_use = "nothing is sent before `send` is called"]
pub struct Request {
    outgoing: Result<Outgoing, Error>,
    max_body_bytes: usize,
}

/// A request as it leaves.
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
                is_token(method).then_some(address).ok_or_else(|| invalid(format!("`{method}` is no method")))
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

    /// Adds a header field. Those that say how content travels (`host`, `content-length`, `accept-encoding` and such) are
    /// the host's to set, and what an operator bound a credential to is too.
    pub fn header(self, name: &str, value: impl Display) -> Self {
        self.with(|outgoing| {
            let value = value.to_string();
            if !is_token(name) || value.contains(|sign: char| sign.is_control() && sign != '\t') {
                return Err(invalid(format!("`{}` is no header field", name.escape_debug())));
            }
            outgoing.headers.append(name, value);
            Ok(())
        })
    }

    /// Adds a pair to the query of the URL, encoded.
    pub fn query(self, name: &str, value: impl Display) -> Self {
        self.with(|outgoing| {
            outgoing.address.add_query(name, &value.to_string());
            Ok(())
        })
    }

    /// Sends a value as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.with(|outgoing| {
            let body = serde_json::to_vec(value)
                .map_err(|error| invalid(format!("its content is no JSON: {error}")))?;
            outgoing.headers.set("content-type", "application/json".to_owned());
            outgoing.body = Some(body);
            Ok(())
        })
    }

    /// Sends pairs as a form does.
    pub fn form<N: AsRef<str>, V: AsRef<str>>(self, pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        self.with(|outgoing| {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
            outgoing.headers.set("content-type", "application/x-www-form-urlencoded".to_owned());
            outgoing.body = Some(body.into_bytes());
            Ok(())
        })
    }

    /// Sends text or bytes as they are. What they are is said with the header field `content-type`.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        self.with(|outgoing| {
            outgoing.body = Some(body.into());
            Ok(())
        })
    }

    /// Gives up after so long, from sending until the content is read. Without it the call's own deadline ends both, and
    /// the tool gets to say nothing.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|outgoing| {
            outgoing.timeout = Some(timeout);
            Ok(())
        })
    }

    /// Reads content up to so many bytes, in place of [`MAX_BODY_BYTES`]. More of it is [`Error::TooLarge`].
    pub fn max_body_bytes(self, max_bytes: usize) -> Self {
        Self { max_body_bytes: max_bytes, ..self }
    }

    /// Sends the request and waits for the head of the answer. Its content is read when it is asked for.
    pub fn send(self) -> Result<Response, Error> {
        task::block_on(self.exchange())
    }

    /// Sends the request from an `async` tool, beside others: the answer comes with its content.
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
        let answer = transport::send(outgoing).await?;
        Ok(Response::new(url, host, answer, self.max_body_bytes))
    }

    fn with(mut self, change: impl FnOnce(&mut Outgoing) -> Result<(), Error>) -> Self {
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

/// What methods and names of header fields are made of (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_sign)
}
