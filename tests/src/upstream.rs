//! Servers that a plugin reaches: HTTPS with an authority of its own, plain HTTP, and a name server that says what it is told.
//!
//! Everything listens on one address of the loopback network that is this process's own, so that ports can be the ones
//! that a plugin's manifest names. What arrives is kept byte for byte.

pub mod certificates;
mod names;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

pub use certificates::{TRUSTED, UNTRUSTED};
pub use names::Names;

use crate::wait::{self, PATIENCE};

/// The port with TLS, as the manifest of the guest names it.
pub const TLS_PORT: u16 = 8443;
/// The port without.
pub const PLAIN_PORT: u16 = 8080;

/// One piece of an answer.
#[derive(Clone, Debug)]
pub enum Piece {
    Bytes(Vec<u8>),
    /// This many times.
    Repeat(Vec<u8>, usize),
    /// Nothing more until the other side hangs up.
    Hang,
    /// Nothing more until the rest of a request in chunks is here.
    Rest,
    /// The end of the connection at once, without a word.
    Cut,
    /// The end of the connection, which nothing told of, once [`Upstream::end_one`] says so.
    End,
}

type Answer = dyn Fn(&str) -> Vec<Piece> + Send + Sync;

#[derive(Clone)]
struct Script {
    answer: Arc<Answer>,
    /// Whether it answers the head of a request, before there is more.
    early: bool,
}

/// The servers.
pub struct Upstream {
    pub address: IpAddr,
    pub names: Names,
    /// The certificate of the authority, as PEM.
    pub authority: String,
    seen: Arc<Seen>,
    script: Arc<Mutex<Script>>,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Default)]
struct Seen {
    kept: Mutex<Kept>,
    changed: Condvar,
    end: Notify,
}

#[derive(Clone, Default)]
struct Kept {
    requests: Vec<String>,
    connections: usize,
    closed: usize,
    heard: usize,
}

impl Upstream {
    /// Starts the servers; each answers every request with what [`Upstream::answer`] says.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let address = own_address();
        let seen = Arc::new(Seen::default());
        let script = Script { answer: Arc::new(|_| ok("text/plain", "hello")), early: false };
        let script = Arc::new(Mutex::new(script));
        let (authority, acceptor) = certificates::make();
        // The servers of the test before may still be ending.
        let bind = |port| {
            let listening = || runtime.block_on(TcpListener::bind((address, port))).ok();
            wait::until("a port of this address", listening)
        };
        let (tls, plain) = (bind(TLS_PORT), bind(PLAIN_PORT));
        runtime.spawn(serve(tls, Some(acceptor), Arc::clone(&seen), Arc::clone(&script)));
        runtime.spawn(serve(plain, None, Arc::clone(&seen), Arc::clone(&script)));
        Self { address, names: Names::start(), authority, seen, script, _runtime: runtime }
    }

    /// What every request is answered with from now on; the script gets its head and content.
    pub fn answer(&self, script: impl Fn(&str) -> Vec<Piece> + Send + Sync + 'static) {
        self.script(Script { answer: Arc::new(script), early: false });
    }

    /// The same once the head of a request is there.
    pub fn answer_early(&self, script: impl Fn(&str) -> Vec<Piece> + Send + Sync + 'static) {
        self.script(Script { answer: Arc::new(script), early: true });
    }

    fn script(&self, script: Script) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// Every request so far, as it came.
    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().requests.clone()
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.seen.lock().connections
    }

    /// Connections that ended.
    pub fn closed(&self) -> usize {
        self.seen.lock().closed
    }

    /// Bytes of requests that came, whole ones or not.
    pub fn heard(&self) -> usize {
        self.seen.lock().heard
    }

    /// Ends a connection that has come to its [`Piece::End`], or the first that will.
    pub fn end_one(&self) {
        self.seen.end.notify_one();
    }

    /// Waits until what was seen is so.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(usize, usize) -> bool) {
        let kept = self.seen.lock();
        let waited = self
            .seen
            .changed
            .wait_timeout_while(kept, PATIENCE, |kept| !is_so(kept.requests.len(), kept.closed))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.1.timed_out(), "{what} did not come");
    }
}

/// An address of the loopback network that no other process of the tests takes.
pub fn own_address() -> IpAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 77, high, low))
}

/// An answer that is whole and ends its connection.
pub fn ok(content_type: &str, body: &str) -> Vec<Piece> {
    answer(200, &[("Content-Type", content_type), ("Connection", "close")], body.as_bytes())
}

/// An answer with a length.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<Piece> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    vec![Piece::Bytes(head.into_bytes()), Piece::Bytes(body.to_vec())]
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Kept)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    seen: Arc<Seen>,
    script: Arc<Mutex<Script>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen, script) = (acceptor.clone(), Arc::clone(&seen), Arc::clone(&script));
        seen.change(|kept| kept.connections += 1);
        tokio::spawn(async move {
            // What goes wrong here is what a test wants to go wrong.
            let _ = match acceptor {
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => converse(stream, &seen, &script).await,
                    Err(error) => Err(error),
                },
                None => converse(stream, &seen, &script).await,
            };
            seen.change(|kept| kept.closed += 1);
        });
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Seen,
    script: &Mutex<Script>,
) -> io::Result<()> {
    loop {
        let is_early = || script.lock().unwrap_or_else(PoisonError::into_inner).early;
        let Some(request) = read_request(&mut stream, seen, is_early).await? else { return Ok(()) };
        seen.change(|kept| kept.requests.push(request.clone()));
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
                    seen.end.notified().await;
                    return stream.shutdown().await;
                }
                Piece::Cut => return Ok(()),
                Piece::Rest => {
                    let mut end = Vec::new();
                    while !end.ends_with(b"0\r\n\r\n") {
                        end.push(stream.read_u8().await?);
                        seen.change(|kept| kept.heard += 1);
                    }
                }
                Piece::Hang => {
                    stream.flush().await?;
                    let mut rest = [0; 64];
                    while stream.read(&mut rest).await? > 0 {}
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

/// Head and content of one request, framed as it says.
async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    seen: &Seen,
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
                seen.change(|kept| kept.heard += read);
            }
        }
    }
}
