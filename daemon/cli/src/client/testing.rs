//! Fake daemon: sends one canned response per request and records the requests.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use toolgate_api::error::CallError;
use toolgate_api::problem::Problem;

use super::Server;

pub(crate) struct FakeDaemon {
    server: Server,
    seen: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub method: String,
    pub target: String,
    pub headers: HeaderMap,
    pub body: String,
}

/// A canned response.
#[derive(Clone, Debug)]
pub(crate) struct Canned {
    pub status: u16,
    pub content_type: &'static str,
    pub etag: Option<&'static str>,
    pub body: String,
}

impl Canned {
    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self { status, content_type: "application/json", etag: None, body: body.to_string() }
    }

    /// A refusal, with the status of its error.
    pub(crate) fn refusal(error: CallError) -> Self {
        let status = error.http_status();
        Self::json(status, json!(Problem::new(error, status)))
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { body: String::new(), ..Self::json(status, Value::Null) }
    }

    pub(crate) fn with_etag(self, etag: &'static str) -> Self {
        Self { etag: Some(etag), ..self }
    }

    /// Closes the connection without a response.
    pub(crate) fn hang_up() -> Self {
        Self { status: 0, content_type: "", etag: None, body: String::new() }
    }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// `METHOD target`, the form that tests compare.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

impl FakeDaemon {
    pub(crate) async fn start(answers: Vec<Canned>) -> Self {
        Self::start_with(answers, None).await
    }

    /// Starts a daemon that speaks TLS if there is an acceptor.
    pub(crate) async fn start_with(answers: Vec<Canned>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = server_of(&listener);
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let seen = Arc::<Mutex<Vec<Asked>>>::default();
        let mut tasks = JoinSet::new();
        let kept = seen.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, kept) = (answers.clone(), kept.clone());
                match tls.clone() {
                    None => connections.spawn(serve(stream, answers, kept)),
                    Some(tls) => connections.spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, answers, kept).await;
                        }
                    }),
                };
            }
        });
        Self { server, seen, _tasks: tasks }
    }

    /// Returns an address without a listener: a port that no other test gets.
    pub(crate) fn nobody() -> Server {
        Server::parse("http://127.0.0.1:1").expect("a server")
    }

    pub(crate) fn server(&self) -> Server {
        self.server.clone()
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.seen.lock().clone()
    }
}

fn server_of(listener: &TcpListener) -> Server {
    let address = listener.local_addr().expect("an address");
    Server::parse(&format!("http://{address}")).expect("a server")
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: Arc<Mutex<VecDeque<Canned>>>,
    seen: Arc<Mutex<Vec<Asked>>>,
) {
    let answer = service_fn(move |request| answer(request, answers.clone(), seen.clone()));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(
    request: Request<Incoming>,
    answers: Arc<Mutex<VecDeque<Canned>>>,
    seen: Arc<Mutex<Vec<Asked>>>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let asked = Asked {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    seen.lock().push(asked);
    let next = answers.lock().pop_front();
    let canned = next.unwrap_or_else(|| Canned::json(500, Value::Null));
    if canned.status == 0 {
        return Err(std::io::Error::other("hang up"));
    }
    let mut response = Response::builder().status(canned.status).header("content-type", canned.content_type);
    if let Some(etag) = canned.etag {
        response = response.header("etag", etag);
    }
    Ok(response.body(Full::new(canned.body.into())).expect("a response"))
}
