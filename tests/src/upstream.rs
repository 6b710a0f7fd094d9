//! Upstream servers of the tests: HTTPS with a certificate authority of its own, plain HTTP, and a scripted name
//! server.
//!
//! All listen on one loopback address that is unique to this process, so that the ports of the plugin's manifest are
//! free. Requests are recorded byte for byte.

pub mod certificates;
mod name_server;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

pub use certificates::{TRUSTED, UNTRUSTED};
pub use name_server::NameServer;

use crate::wait::{self, TIMEOUT};

/// HTTPS port in the manifest of the guest `caller`.
pub const TLS_PORT: u16 = 8443;
/// HTTP port.
pub const PLAIN_PORT: u16 = 8080;

/// One step of a scripted response.
#[derive(Clone, Debug)]
pub enum Piece {
    Bytes(Vec<u8>),
    /// Repeats the bytes.
    Repeat(Vec<u8>, usize),
    /// Waits until the client disconnects.
    Hang,
    /// Reads the rest of a chunked request.
    Rest,
    /// Drops the connection at once.
    Cut,
    /// Waits for [`Upstream::end_one`], then closes a connection whose response announced no end.
    End,
}

type Answer = dyn Fn(&str) -> Vec<Piece> + Send + Sync;

#[derive(Clone)]
struct Script {
    answer: Arc<Answer>,
    /// Whether the response starts after the request head.
    early: bool,
}

/// The running servers.
pub struct Upstream {
    pub address: IpAddr,
    pub dns: NameServer,
    /// Certificate of the authority (PEM).
    pub authority: String,
    recorder: Arc<Recorder>,
    script: Arc<Mutex<Script>>,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Default)]
struct Recorder {
    traffic: Mutex<Traffic>,
    changed: Condvar,
    end: Notify,
}

#[derive(Clone, Default)]
struct Traffic {
    requests: Vec<String>,
    connections: usize,
    closed: usize,
    hanging: usize,
    received_bytes: usize,
}

impl Upstream {
    /// Starts the servers with a default response.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let address = own_address();
        let recorder = Arc::new(Recorder::default());
        let script = Script { answer: Arc::new(|_| ok("text/plain", "hello")), early: false };
        let script = Arc::new(Mutex::new(script));
        let (authority, acceptor) = certificates::make();
        // The servers of the test before may still hold the ports.
        let bind = |port| {
            let listening = || runtime.block_on(TcpListener::bind((address, port))).ok();
            wait::until("a port of this address", listening)
        };
        let (tls, plain) = (bind(TLS_PORT), bind(PLAIN_PORT));
        runtime.spawn(serve(tls, Some(acceptor), Arc::clone(&recorder), Arc::clone(&script)));
        runtime.spawn(serve(plain, None, Arc::clone(&recorder), Arc::clone(&script)));
        Self { address, dns: NameServer::start(), authority, recorder, script, _runtime: runtime }
    }

    /// Settings of a daemon that uses the scripted name server.
    pub fn settings(&self) -> String {
        format!("[egress]\nname_servers = [\"{}\"]\n", self.dns.address)
    }

    /// Resolves `api.upstream.test` to these servers.
    pub fn resolve_api(&self) {
        self.dns.set_answers("api.upstream.test", &[&[&self.address.to_string()]]);
    }

    /// Adds the private network and the authority of these servers to a grant.
    pub fn grant(&self, mut grant: Value) -> Value {
        grant["private_networks"] = json!([format!("{}/32", self.address)]);
        grant["extra_ca"] = json!([self.authority]);
        grant
    }

    /// Sets the response to every request from now on; the script gets head and body.
    pub fn answer(&self, script: impl Fn(&str) -> Vec<Piece> + Send + Sync + 'static) {
        self.script(Script { answer: Arc::new(script), early: false });
    }

    /// Sets the response, and sends it as soon as the request head has arrived.
    pub fn answer_early(&self, script: impl Fn(&str) -> Vec<Piece> + Send + Sync + 'static) {
        self.script(Script { answer: Arc::new(script), early: true });
    }

    fn script(&self, script: Script) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// All requests so far, byte for byte.
    pub fn requests(&self) -> Vec<String> {
        self.recorder.lock().requests.clone()
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.recorder.lock().connections
    }

    /// Number of closed connections.
    pub fn closed_connections(&self) -> usize {
        self.recorder.lock().closed
    }

    /// Number of connections that are in [`Piece::Hang`] now.
    pub fn hanging_connections(&self) -> usize {
        self.recorder.lock().hanging
    }

    /// Bytes of requests received so far, complete or not.
    pub fn received_bytes(&self) -> usize {
        self.recorder.lock().received_bytes
    }

    /// Closes one connection that waits in [`Piece::End`], or the next one that gets there.
    pub fn end_one(&self) {
        self.recorder.end.notify_one();
    }

    /// Waits until a condition on the numbers of requests and of closed connections holds.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(usize, usize) -> bool) {
        let traffic = self.recorder.lock();
        let waited = self
            .recorder
            .changed
            .wait_timeout_while(traffic, TIMEOUT, |traffic| !is_so(traffic.requests.len(), traffic.closed))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.1.timed_out(), "{what} did not come");
    }
}

/// Loopback address that no other test process uses.
pub fn own_address() -> IpAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 77, high, low))
}

/// Complete 200 response that closes the connection.
pub fn ok(content_type: &str, body: &str) -> Vec<Piece> {
    answer(200, &[("Content-Type", content_type), ("Connection", "close")], body.as_bytes())
}

/// Response with a `Content-Length`.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<Piece> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    vec![Piece::Bytes(head.into_bytes()), Piece::Bytes(body.to_vec())]
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Traffic)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    recorder: Arc<Recorder>,
    script: Arc<Mutex<Script>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, recorder, script) = (acceptor.clone(), Arc::clone(&recorder), Arc::clone(&script));
        recorder.change(|traffic| traffic.connections += 1);
        tokio::spawn(async move {
            // Errors are expected: tests provoke them.
            let _ = match acceptor {
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => handle_connection(stream, &recorder, &script).await,
                    Err(error) => Err(error),
                },
                None => handle_connection(stream, &recorder, &script).await,
            };
            recorder.change(|traffic| traffic.closed += 1);
        });
    }
}

async fn handle_connection(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    recorder: &Recorder,
    script: &Mutex<Script>,
) -> io::Result<()> {
    loop {
        let is_early = || script.lock().unwrap_or_else(PoisonError::into_inner).early;
        let Some(request) = read_request(&mut stream, recorder, is_early).await? else { return Ok(()) };
        recorder.change(|traffic| traffic.requests.push(request.clone()));
        let script = script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let pieces = (script.answer)(&request);
        let mut closes = false;
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => {
                    closes |= String::from_utf8_lossy(&bytes).contains("Connection: close");
                    stream.write_all(&bytes).await?;
                }
                Piece::Repeat(bytes, times) => {
                    for _ in 0..times {
                        stream.write_all(&bytes).await?;
                    }
                }
                Piece::End => {
                    recorder.end.notified().await;
                    return stream.shutdown().await;
                }
                Piece::Cut => return Ok(()),
                Piece::Rest => {
                    let mut end = Vec::new();
                    while !end.ends_with(b"0\r\n\r\n") {
                        end.push(stream.read_u8().await?);
                        recorder.change(|traffic| traffic.received_bytes += 1);
                    }
                }
                Piece::Hang => {
                    stream.flush().await?;
                    recorder.change(|traffic| traffic.hanging += 1);
                    let mut rest = [0; 64];
                    while stream.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
                    recorder.change(|traffic| traffic.hanging -= 1);
                    return Ok(());
                }
            }
            stream.flush().await?;
        }
        if closes {
            return stream.shutdown().await;
        }
    }
}

/// Reads head and body of one request (`Content-Length` or chunked).
async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    recorder: &Recorder,
    is_early: impl Fn() -> bool,
) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, content)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length =
                head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let is_whole = match length {
                Some(length) => content.len() >= length,
                None if head.contains("transfer-encoding: chunked") => {
                    content == "0\r\n\r\n" || content.contains("\r\n0\r\n") && content.ends_with("\r\n\r\n")
                }
                None => true,
            };
            if is_whole || is_early() {
                return Ok(Some(text));
            }
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await? {
            0 => return Ok(None),
            read => {
                bytes.extend_from_slice(&more[..read]);
                recorder.change(|traffic| traffic.received_bytes += read);
            }
        }
    }
}
