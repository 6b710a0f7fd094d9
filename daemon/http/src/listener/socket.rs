//! The socket of the listener: TCP, or a Unix socket that only this user may use.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::umask;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use toolgate_state::config::Listen;

/// A bound socket. Dropping it removes the file of a Unix socket that it made.
pub enum Socket {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A Unix socket and its file.
    Unix(StdUnixListener, SocketFile),
}

/// The file of a Unix socket.
pub struct SocketFile {
    path: PathBuf,
    /// Whether this process made the file, and removes it on drop. A service manager keeps its own.
    is_ours: bool,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Socket {
    /// Binds the address, and replaces the file of a Unix socket without a listener.
    pub fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => Self::of_tcp_listener(std::net::TcpListener::bind(address)?),
            Listen::Unix(path) => {
                remove_stale(path)?;
                // A mode that is set after the bind would leave a moment in which others may connect.
                let before = umask(Mode::from_raw_mode(0o177));
                let bound = StdUnixListener::bind(path);
                umask(before);
                let listener = bound?;
                let file = SocketFile { path: path.clone(), is_ours: true };
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(listener, file))
            }
        }
    }

    /// Uses a listener that is bound already.
    pub fn of_tcp_listener(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    /// Uses a listener that another process bound, which keeps its file.
    pub fn of_unix_listener(listener: StdUnixListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or_else(|| io::Error::other("the Unix socket has no path"))?;
        let file = SocketFile { path: path.to_owned(), is_ours: false };
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener, file))
    }

    /// The address, with the port that port 0 stands for.
    pub fn address(&self) -> io::Result<Listen> {
        Ok(match self {
            Self::Tcp(listener) => Listen::Tcp(listener.local_addr()?),
            Self::Unix(_, file) => Listen::Unix(file.path.clone()),
        })
    }

    /// The socket for the runtime.
    pub fn listener(&self) -> io::Result<Listener> {
        Ok(match self {
            Self::Tcp(listener) => Listener::Tcp(TcpListener::from_std(listener.try_clone()?)?),
            Self::Unix(listener, _) => Listener::Unix(UnixListener::from_std(listener.try_clone()?)?),
        })
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    match is_socket && !has_listener(path)? {
        true => std::fs::remove_file(path),
        false => Ok(()),
    }
}

/// Whether a process listens at the path. One with a full backlog would block a connection that waits.
fn has_listener(path: &Path) -> io::Result<bool> {
    let (_, connected) = connect_now(path)?;
    Ok(matches!(connected, Ok(()) | Err(Errno::AGAIN)))
}

/// Connects to a Unix socket without waiting; `EAGAIN` if the backlog of its listener is full.
fn connect_now(path: &Path) -> io::Result<(OwnedFd, Result<(), Errno>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let connected = connect(&socket, &SocketAddrUnix::new(path)?);
    Ok((socket, connected))
}

/// A socket that accepts connections.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// An accepted connection.
pub(super) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Accepts a connection, with the peer's address. Every client of a Unix socket has the loopback address.
    pub(super) async fn accept(&self) -> io::Result<(Accepted, IpAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Responses are small and complete; Nagle's algorithm would only add latency.
                stream.set_nodelay(true)?;
                Ok((Accepted::Tcp(stream), peer.ip()))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Accepted::Unix(stream), Ipv4Addr::LOCALHOST.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_whose_backlog_is_full_is_not_stale_and_one_without_a_listener_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = StdUnixListener::bind(&path).expect("a listener");
        rustix::net::listen(&listener, 0).expect("a short backlog");
        let mut waiting = Vec::new();
        while let (socket, Ok(())) = connect_now(&path).expect("a socket") {
            waiting.push(socket);
            assert!(waiting.len() < 100, "the backlog is short");
        }
        remove_stale(&path).expect("a look");
        assert!(path.exists());
        drop((listener, waiting));
        remove_stale(&path).expect("a look");
        assert!(!path.exists());
    }
}
