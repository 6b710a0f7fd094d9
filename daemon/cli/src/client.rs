//! Typed HTTP client of the daemon.
//!
//! The client speaks HTTP/1.1 to one server, with TLS for `https` or over a Unix socket for `unix:`, and keeps its connection. It follows no redirects and
//! reads no proxy settings from the environment, so the token is sent only to the configured server.
//!
//! A response without a success status is an error with the daemon's own message and hint.

mod body;
mod connector;
mod error;
mod events;
mod lines;
mod server;
mod tls;

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH,
};
use hyper::http::request::Builder;
use hyper::{Method, Request};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use toolgate_api::health::Readiness;
use toolgate_api::page::List;

pub(crate) use body::BodyStream;
use connector::Connector;
pub use error::ClientError;
pub(crate) use events::{EventStream, SseEvent};
pub(crate) use lines::LineStream;
pub use server::Server;

/// Timeout of a connection attempt; a reachable server accepts within it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a response, longer than the slowest request, the compilation of a large plugin.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Delay before the user at the terminal is told that the request still waits for its response.
const NOTICE_DELAY: Duration = Duration::from_secs(10);

/// How long the daemon may take to say why a request waits.
const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Delay before the first attempt to resume a stream; doubled with each.
pub(crate) const RETRY_MIN: Duration = Duration::from_millis(250);
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(10);

/// Silence after which the connection of a stream counts as lost: the daemon sends something every 15 seconds.
pub(crate) const SILENCE: Duration = Duration::from_secs(45);

/// Size limit of a response body, far above the largest one, a page of the audit log with its arguments.
const RESPONSE_BYTES: usize = 1 << 30;

/// Client of one daemon. Clones share the connection pool.
#[derive(Clone)]
pub struct Client {
    server: Server,
    token: Option<HeaderValue>,
    http: legacy::Client<HttpsConnector<Connector>, Full<Bytes>>,
    /// Callback for each request that has no response after [`NOTICE_DELAY`], with what the daemon says of itself.
    on_wait: Option<fn(&Server, Option<&str>)>,
}

/// Files for TLS, in PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Certificate authorities that are trusted besides the public ones.
    pub ca: Option<PathBuf>,
    /// The certificate of the server itself. It alone is trusted, whatever its names and its authority are.
    pub pinned: Option<PathBuf>,
    /// The client's certificate with its chain.
    pub certificate: Option<PathBuf>,
    /// The private key of the client's certificate.
    pub key: Option<PathBuf>,
}

/// Builder of a request.
#[must_use = "nothing is sent before `send`"]
pub struct RequestBuilder<'client> {
    client: &'client Client,
    request: Builder,
    body: Bytes,
}

/// Response with a success status.
#[derive(Clone, Debug)]
pub struct Response<T> {
    /// HTTP status.
    pub status: u16,
    /// Entity tag of a document.
    pub etag: Option<String>,
    /// The deserialized body. An empty body is read as `null`.
    pub body: T,
}

impl Client {
    /// Creates a client of `server` that sends `token`, if any, with each request. `https` trusts the public certificate
    /// authorities and those of `files`.
    pub fn new(server: Server, token: Option<&str>, files: &TlsFiles) -> Result<Self, ClientError> {
        let token = token.map(bearer).transpose()?;
        let connector = match &server.socket {
            Some(path) => Connector::Unix(Arc::clone(path)),
            None => {
                let mut connector = HttpConnector::new();
                connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
                connector.set_nodelay(true);
                connector.enforce_http(false);
                Connector::Tcp(connector)
            }
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(&server, files)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { server, token, http, on_wait: None })
    }

    /// Sets the callback for requests that wait long for their response.
    pub fn on_wait(self, on_wait: fn(&Server, Option<&str>)) -> Self {
        Self { on_wait: Some(on_wait), ..self }
    }

    /// Why the daemon may keep a request waiting, in its own words: what it compiles, or that it starts.
    async fn why_it_waits(&self) -> Option<String> {
        let asked = async { read(self.get("/readyz").response().await?).await };
        match timeout(READINESS_TIMEOUT, asked).await.ok()? {
            Ok(ready) => serde_json::from_slice::<Readiness>(&ready.body).ok()?.detail,
            Err(ClientError::Refused(problem)) => Some(problem.detail),
            Err(_) => None,
        }
    }

    /// Starts a GET request.
    pub fn get(&self, path: &str) -> RequestBuilder<'_> {
        self.request(Method::GET, path)
    }

    /// Starts a PUT request.
    pub fn put(&self, path: &str) -> RequestBuilder<'_> {
        self.request(Method::PUT, path)
    }

    /// Starts a POST request.
    pub fn post(&self, path: &str) -> RequestBuilder<'_> {
        self.request(Method::POST, path)
    }

    /// Starts a DELETE request.
    pub fn delete(&self, path: &str) -> RequestBuilder<'_> {
        self.request(Method::DELETE, path)
    }

    /// Returns all items of a list, following the cursor from page to page.
    pub async fn list_all<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        let mut cursor = None::<String>;
        let separator = if path.contains('?') { '&' } else { '?' };
        loop {
            let target = match &cursor {
                None => path.to_owned(),
                Some(cursor) => format!("{path}{separator}cursor={}", escape(cursor)),
            };
            let page: List<T> = self.get(&target).send().await?.body;
            items.extend(page.items);
            match page.next_cursor {
                // A cursor that repeats would make this loop endless.
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(items),
            }
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder<'_> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.server.url()));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        RequestBuilder { client: self, request, body: Bytes::new() }
    }
}

impl RequestBuilder<'_> {
    /// Sets `value` as the JSON body.
    pub fn json(self, value: &impl Serialize) -> Self {
        // Serialization cannot fail: the types of requests have string keys and no own `Serialize`.
        self.json_text(serde_json::to_string(value).unwrap_or_default())
    }

    /// Sets JSON text unchanged as the body.
    pub fn json_text(self, text: String) -> Self {
        self.body("application/json", text.into())
    }

    /// Sets `body` unchanged as the body.
    pub fn body(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.body = body;
        self.header(CONTENT_TYPE, content_type)
    }

    /// Makes the write conditional: `If-Match` with this entity tag, or `If-None-Match: *` for `None`, a new
    /// document.
    pub fn replacing(self, etag: Option<&str>) -> Self {
        match etag {
            Some(etag) => self.header(IF_MATCH, etag),
            None => self.header(IF_NONE_MATCH, "*"),
        }
    }

    /// Sends the request, and reads and deserializes the whole response.
    pub async fn send<T: DeserializeOwned>(self) -> Result<Response<T>, ClientError> {
        let Response { status, etag, body } = self.reply().await?;
        let json: &[u8] = if body.is_empty() { b"null" } else { &body };
        let body =
            serde_json::from_slice(json).map_err(|_| ClientError::unexpected_response(status, &body))?;
        Ok(Response { status, etag, body })
    }

    /// Sends the request and reads the whole response. Boxed, since most commands await it.
    fn reply<'a>(self) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, ClientError>> + Send + 'a>>
    where
        Self: 'a,
    {
        let client = self.client;
        Box::pin(in_time(client, async { read(self.response().await?).await }))
    }

    /// Sends the request and returns the whole body of its response, which need not be JSON.
    pub async fn bytes(self) -> Result<Bytes, ClientError> {
        let client = self.client;
        in_time(client, async {
            let (status, body) = body_of(self.response().await?).await?;
            if status.is_success() { Ok(body) } else { Err(ClientError::refusal(status.as_u16(), &body)) }
        })
        .await
    }

    /// Sends the request and returns the event stream of its response.
    pub async fn follow(self) -> Result<EventStream, ClientError> {
        let request = self.header(ACCEPT, events::CONTENT_TYPE);
        let client = request.client;
        in_time(client, async { EventStream::from_response(request.response().await?).await }).await
    }

    /// Sends the request, and returns the body of its response, which has this type.
    pub async fn download(self, content_type: &str) -> Result<BodyStream, ClientError> {
        let client = self.client;
        in_time(client, async {
            BodyStream::from_response(self.response().await?, |kind| kind == content_type).await
        })
        .await
    }

    /// Resumes an event stream after the event with this id.
    pub fn resuming(self, last_id: Option<&str>) -> Self {
        match last_id {
            Some(id) => self.header(HeaderName::from_static("last-event-id"), id),
            None => self,
        }
    }

    /// Sends the request and returns the lines of its response.
    pub async fn lines(self) -> Result<LineStream, ClientError> {
        let client = self.client;
        in_time(client, async { LineStream::from_response(self.response().await?).await }).await
    }

    /// Sends the request and returns the response with its body unread.
    pub(crate) async fn response(self) -> Result<hyper::Response<Incoming>, ClientError> {
        let bytes = self.body.len();
        let request = self.request.body(Full::new(self.body)).map_err(|_| ClientError::BadRequest)?;
        let response = self.client.http.request(request).await;
        response.map_err(|error| ClientError::from_request(&self.client.server, bytes, &error))
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }
}

/// Percent-encodes a name as one path segment or one query value: all characters but the unreserved ones of RFC 3986,
/// including the slash.
pub(crate) fn escape(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::BadToken)?;
    value.set_sensitive(true);
    Ok(value)
}

async fn in_time<T>(
    client: &Client,
    exchange: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let tell = async {
        if let Some(on_wait) = client.on_wait {
            on_wait(&client.server, client.why_it_waits().await.as_deref());
        }
    };
    within([NOTICE_DELAY, RESPONSE_TIMEOUT], tell, exchange).await
}

/// Waits for the future with two timeouts: the first one begins `tell`, the second one fails.
async fn within<T>(
    [notice_delay, longest]: [Duration; 2],
    tell: impl Future<Output = ()>,
    exchange: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let mut exchange = pin!(exchange);
    if let Ok(result) = timeout(notice_delay, exchange.as_mut()).await {
        return result;
    }
    let told_meanwhile = async {
        tokio::select! {
            result = exchange.as_mut() => return result,
            () = tell => {}
        }
        exchange.await
    };
    let result = timeout(longest, told_meanwhile).await;
    result.unwrap_or_else(|_| Err(ClientError::Lost { reason: "there was no response in time".into() }))
}

async fn read(response: hyper::Response<Incoming>) -> Result<Response<Bytes>, ClientError> {
    let (head, body) = response.into_parts();
    let status = head.status.as_u16();
    let body = collect(body).await?;
    if !head.status.is_success() {
        return Err(ClientError::refusal(status, &body));
    }
    let etag = head.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
    Ok(Response { status, etag, body })
}

/// Returns the status and the whole body of a response.
pub(crate) async fn body_of(
    response: hyper::Response<Incoming>,
) -> Result<(hyper::StatusCode, Bytes), ClientError> {
    Ok((response.status(), collect(response.into_body()).await?))
}

async fn collect(body: Incoming) -> Result<Bytes, ClientError> {
    let body = Limited::new(body, RESPONSE_BYTES).collect().await;
    Ok(body.map_err(|error| ClientError::Lost { reason: error.to_string() })?.to_bytes())
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::testing::{Canned, FakeDaemon};
    use super::*;
    use serde::de::IgnoredAny;
    use serde_json::Value;
    use toolgate_api::error::{CallError, ErrorType};

    async fn daemon(answers: Vec<Canned>) -> (FakeDaemon, Client) {
        let daemon = FakeDaemon::start(answers).await;
        let client = Client::new(daemon.server(), Some("tg_secret"), &TlsFiles::default()).expect("a client");
        (daemon, client)
    }

    #[tokio::test]
    async fn a_success_has_its_status_tag_and_body() {
        let (daemon, client) = daemon(vec![Canned::json(201, json!({"id": "x"})).with_etag("\"7\"")]).await;
        let post = client.post("/v1/tokens").json(&json!({"role": "owner"}));
        let response = post.send::<Value>().await.expect("a success");
        assert_eq!((response.status, response.etag.as_deref()), (201, Some("\"7\"")));
        assert_eq!(response.body, json!({"id": "x"}));
        let asked = daemon.requests().remove(0);
        assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/v1/tokens"));
        assert_eq!(asked.header("authorization"), Some("Bearer tg_secret"));
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert_eq!(asked.body, r#"{"role":"owner"}"#);
    }

    #[tokio::test]
    async fn who_waits_long_is_told_and_at_last_refused() {
        let told = Cell::new(0);
        let tell = || async { told.set(told.get() + 1) };
        within([Duration::ZERO; 2], tell(), async { Ok(()) }).await.expect("in time");
        assert_eq!(told.get(), 0);
        let silent = std::future::pending::<Result<(), _>>();
        let error = within([Duration::ZERO; 2], tell(), silent).await.expect_err("no answer");
        assert_eq!(error.to_string(), "the connection was closed: there was no response in time");
        assert_eq!(told.get(), 1);
    }

    #[tokio::test]
    async fn a_document_is_replaced_on_its_tag_or_made_new() {
        let (daemon, client) = daemon(vec![Canned::json(200, json!({})), Canned::json(201, json!({}))]).await;
        client.put("/v1/orgs/a").replacing(Some("\"3\"")).send::<IgnoredAny>().await.expect("replaced");
        client.put("/v1/orgs/a").replacing(None).send::<IgnoredAny>().await.expect("made");
        let asked = daemon.requests();
        assert_eq!((asked[0].header("if-match"), asked[0].header("if-none-match")), (Some("\"3\""), None));
        assert_eq!((asked[1].header("if-match"), asked[1].header("if-none-match")), (None, Some("*")));
    }

    #[tokio::test]
    async fn a_refusal_brings_the_daemons_words() {
        let refusal = CallError::new(ErrorType::NotFound, "no plugin `x`", "load it");
        let (_daemon, client) = daemon(vec![Canned::refusal(refusal)]).await;
        let error = client.get("/v1/plugins/x").send::<IgnoredAny>().await.expect_err("a refusal");
        assert_eq!((error.to_string().as_str(), error.hint()), ("no plugin `x`", "load it"));
        assert_eq!(error.status(), Some(404));
    }

    #[tokio::test]
    async fn an_answer_of_some_other_program_is_called_strange() {
        let page = || Canned {
            content_type: "text/html",
            body: "<h1>Nginx</h1>".into(),
            ..Canned::json(200, json!(null))
        };
        let (_daemon, client) = daemon(vec![page(), Canned { status: 502, ..page() }]).await;
        let success = client.get("/").send::<Value>().await.expect_err("no json");
        let refusal = client.get("/").send::<IgnoredAny>().await.expect_err("a refusal");
        for error in [success, refusal] {
            assert!(matches!(error, ClientError::Unexpected { .. }), "{error:?}");
            assert!(error.to_string().contains("<h1>Nginx</h1>"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named_with_a_hint() {
        let server = FakeDaemon::nobody();
        let client = Client::new(server.clone(), None, &TlsFiles::default()).expect("a client");
        let error = client.get("/healthz").send::<IgnoredAny>().await.expect_err("nobody");
        assert_eq!(error.to_string(), format!("no daemon answers at `{server}`: connection refused"));
        assert!(error.hint().contains("toolgate serve"), "{}", error.hint());
    }

    #[tokio::test]
    async fn a_connection_that_breaks_off_is_told_from_one_that_is_refused() {
        let (_daemon, client) = daemon(vec![Canned::hang_up()]).await;
        let error = client.get("/healthz").send::<IgnoredAny>().await.expect_err("broken off");
        assert!(matches!(error, ClientError::Lost { .. }), "{error:?}");
    }

    /// Sends 16 MiB to a server that sends this response without reading the body, and then reads the rest or closes
    /// the connection. Returns the error of the client.
    async fn sent_too_much(answer: &'static str, reads_on: bool) -> ClientError {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        let client = Client::new(Server::parse(&server).expect("a server"), None, &TlsFiles::default())
            .expect("a client");
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.read_exact(&mut [0; 16]).await.expect("the beginning of a request");
            stream.write_all(answer.as_bytes()).await.expect("an answer");
            if reads_on {
                // Reads until the client closes the connection.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            }
        });
        let body = Bytes::from(vec![0; 16 << 20]);
        let sent = client.put("/v1/plugins/x").body("application/wasm", body).send::<IgnoredAny>().await;
        drop(client);
        serving.await.expect("served");
        sent.expect_err("refused")
    }

    #[tokio::test]
    async fn a_connection_that_closes_on_a_large_request_names_the_limits() {
        let error = sent_too_much("", false).await;
        assert!(
            error.to_string().starts_with("the connection was closed during a request of 16 MiB: "),
            "{error}"
        );
        assert!(error.hint().contains("`http.plugin_bytes`"), "{}", error.hint());
    }

    #[tokio::test]
    async fn an_answer_that_comes_before_the_request_was_sent_whole_is_read() {
        const ANSWER: &str = "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 113\r\n\r\n\
            {\"type\":\"\",\"title\":\"\",\"status\":413,\"detail\":\"too large\",\"error_type\":\"TOO_LARGE\",\"hint\":\"less\",\"retryable\":false}";
        let error = sent_too_much(ANSWER, true).await;
        assert_eq!((error.status(), error.to_string().as_str()), (Some(413), "too large"));
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_refused() {
        let server = Server::parse("http://127.0.0.1:1").expect("a server");
        assert!(matches!(
            Client::new(server, Some("two\nlines"), &TlsFiles::default()),
            Err(ClientError::BadToken)
        ));
    }

    #[test]
    fn a_name_in_a_path_cannot_leave_its_segment() {
        assert_eq!(escape("acme-1_2.x~"), "acme-1_2.x~");
        assert_eq!(escape("../a b?é"), "..%2Fa%20b%3F%C3%A9");
    }
}
