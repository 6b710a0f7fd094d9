//! The address that the daemon listens at: an IP address with a port, or a Unix socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const UNIX: &str = "unix:";

/// The listen address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An IP address with a port.
    Tcp(SocketAddr),
    /// The absolute path of a Unix socket, which only this user may use.
    Unix(PathBuf),
}

impl Listen {
    /// Parses `127.0.0.1:7300` or `unix:/run/toolgate.sock`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(UNIX) {
            Some(path) => Some(PathBuf::from(path)).filter(|path| path.is_absolute()).map(Self::Unix),
            None => text.parse().ok().map(Self::Tcp),
        }
    }

    /// The IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix(_) => None,
        }
    }

    /// Whether only programs of this machine reach it.
    pub fn is_local(&self) -> bool {
        self.ip().is_none_or(|ip| ip.is_loopback())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "{UNIX}{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom(format!("`{text}` is no address to listen at")))
    }
}
