//! A network for native tests, whose responses the test returns.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::http::request::Outgoing;
use crate::http::response::RawResponse;
use crate::http::{Error, Headers, mock_http};

/// Responds to the requests of this thread until the returned guard is dropped.
///
/// ```
/// use serde_json::json;
/// use toolgate_sdk::testing::{self, Reply};
/// use toolgate_sdk::{Error, http, tool};
///
/// /// Gives the newest version of a package.
/// #[tool(read_only)]
/// fn newest(
///     /// Its name
///     package: String,
/// ) -> Result<String, Error> {
///     let url = format!("https://packages.example.com/{package}");
///     let found: serde_json::Value = http::get(url).send()?.error_for_status()?.json()?;
///     Ok(found["version"].to_string())
/// }
///
/// let network = testing::network(|request| match request.url() {
///     "https://packages.example.com/serde" => Ok(Reply::json(&json!({"version": 2}))),
///     _ => Ok(Reply::new(404)),
/// });
///
/// let context = testing::context().build();
/// assert_eq!(testing::call::<newest>(&context, json!({"package": "serde"})), Ok(json!("2")));
/// assert!(testing::call::<newest>(&context, json!({"package": "nothing"})).is_err());
/// assert_eq!(network.sent().len(), 2);
/// ```
pub fn network(mut respond: impl FnMut(&Sent) -> Result<Reply, Error> + 'static) -> Network {
    let sent = Rc::new(RefCell::new(Vec::new()));
    let recorded = Rc::clone(&sent);
    let handler = move |outgoing: Outgoing| {
        let request = Sent { url: outgoing.address.url(), outgoing };
        let reply = respond(&request);
        recorded.borrow_mut().push(request);
        reply.map(Reply::into_response)
    };
    mock_http::set_handler(Some(Rc::new(RefCell::new(handler))));
    Network { sent, not_send: PhantomData }
}

/// A guard: dropping it removes the network of this thread.
#[must_use = "dropping this removes the network"]
pub struct Network {
    sent: Rc<RefCell<Vec<Sent>>>,
    not_send: PhantomData<*const ()>,
}

impl Network {
    /// Returns the requests so far, including failed ones.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.borrow().clone()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        mock_http::set_handler(None);
    }
}

/// A request that a tool sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    url: String,
    outgoing: Outgoing,
}

impl Sent {
    /// Returns the method, in capitals.
    pub fn method(&self) -> &str {
        &self.outgoing.method
    }

    /// Returns the URL with its query.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the value of the first header field of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.outgoing.headers.get(name)
    }

    /// Returns the header fields that the tool set.
    pub fn headers(&self) -> &Headers {
        &self.outgoing.headers
    }

    /// Returns the body; empty if there is none.
    pub fn body(&self) -> &[u8] {
        self.outgoing.body.as_deref().unwrap_or_default()
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.body()).unwrap_or(Value::Null)
    }

    /// Returns the timeout that the tool set.
    pub fn timeout(&self) -> Option<Duration> {
        self.outgoing.timeout
    }
}

/// A response to a tool.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Headers,
    body: Vec<u8>,
    failure: Option<Error>,
}

impl Reply {
    /// A response without a body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Headers::default(), body: Vec::new(), failure: None }
    }

    /// A response with status 200 and plain text.
    pub fn text(text: &str) -> Self {
        Self::new(200).header("content-type", "text/plain; charset=utf-8").body(text)
    }

    /// A response with status 200 and JSON. A value that cannot be serialized becomes null.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        Self::new(200).header("content-type", "application/json").body(value.to_string())
    }

    /// Sets the status.
    pub fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Adds a header field.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Sets the body.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Lets the body fail after its last byte.
    pub fn breaks(self, failure: Error) -> Self {
        Self { failure: Some(failure), ..self }
    }

    fn into_response(self) -> RawResponse {
        RawResponse {
            status: self.status,
            headers: self.headers,
            body: mock_http::Body::new(self.body, self.failure),
        }
    }
}
