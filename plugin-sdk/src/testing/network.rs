//! A network for native tests: what a tool requests is answered by the test.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::http::request::Outgoing;
use crate::http::response::Answer;
use crate::http::{Error, Headers, scripted};

/// Answers the requests of this thread until the result is dropped.
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
pub fn network(mut answer: impl FnMut(&Sent) -> Result<Reply, Error> + 'static) -> Network {
    let sent = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&sent);
    let script = move |outgoing: Outgoing| {
        let request = Sent { url: outgoing.address.url(), outgoing };
        let reply = answer(&request);
        kept.borrow_mut().push(request);
        reply.map(Reply::into_answer)
    };
    scripted::put(Some(Rc::new(RefCell::new(script))));
    Network { sent, not_send: PhantomData }
}

/// Keeps the requests of this thread answered. Dropped, it takes the network away.
#[must_use = "the network is gone when this is dropped"]
pub struct Network {
    sent: Rc<RefCell<Vec<Sent>>>,
    not_send: PhantomData<*const ()>,
}

impl Network {
    /// The requests so far, refused ones too.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.borrow().clone()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        scripted::put(None);
    }
}

/// A request that a tool sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    url: String,
    outgoing: Outgoing,
}

impl Sent {
    /// The method, in capitals.
    pub fn method(&self) -> &str {
        &self.outgoing.method
    }

    /// The URL, with its query.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.outgoing.headers.get(name)
    }

    /// The header fields that the tool set.
    pub fn headers(&self) -> &Headers {
        &self.outgoing.headers
    }

    /// The content; empty where there is none.
    pub fn body(&self) -> &[u8] {
        self.outgoing.body.as_deref().unwrap_or_default()
    }

    /// The content as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(self.body()).unwrap_or(Value::Null)
    }

    /// After how long the tool gives up, where it said so.
    pub fn timeout(&self) -> Option<Duration> {
        self.outgoing.timeout
    }
}

/// An answer to a tool.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Headers,
    body: Vec<u8>,
    failure: Option<Error>,
}

impl Reply {
    /// Without content.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Headers::default(), body: Vec::new(), failure: None }
    }

    /// 200 with plain text.
    pub fn text(text: &str) -> Self {
        Self::new(200).header("content-type", "text/plain; charset=utf-8").body(text)
    }

    /// 200 with a value as JSON. What cannot be written as JSON is null.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        Self::new(200).header("content-type", "application/json").body(value.to_string())
    }

    /// With this status.
    pub fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// With one more header field.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.append(name, value);
        self
    }

    /// With this content.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// The content breaks off after what was given.
    pub fn breaks(self, failure: Error) -> Self {
        Self { failure: Some(failure), ..self }
    }

    fn into_answer(self) -> Answer {
        Answer {
            status: self.status,
            headers: self.headers,
            body: scripted::Body::new(self.body, self.failure),
        }
    }
}
