//! Connections to the daemon: over TCP, or over the Unix socket of a daemon on this machine.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tower_service::Service;

/// Opens connections.
#[derive(Clone)]
pub(super) enum Connector {
    /// Over TCP, to the host of the URL.
    Tcp(HttpConnector),
    /// Over a Unix socket, for every URL.
    Unix(Arc<Path>),
}

/// A stream of bytes to a daemon.
pub trait ByteStream: Read + Write + Send + Unpin {}

impl<S: Read + Write + Send + Unpin> ByteStream for S {}

/// A connection over TCP or a Unix socket.
pub(super) type Stream = Box<dyn ByteStream>;

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, io::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        match self {
            Self::Tcp(connector) => connector.poll_ready(context).map_err(io::Error::other),
            Self::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Tcp(connector) => {
                let connecting = connector.call(uri);
                Box::pin(async { Ok(Box::new(connecting.await.map_err(io::Error::other)?) as Stream) })
            }
            Self::Unix(path) => {
                let path = Arc::clone(path);
                Box::pin(async { Ok(Box::new(TokioIo::new(UnixStream::connect(path).await?)) as Stream) })
            }
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
