//! IP networks in CIDR notation.

use std::fmt;
use std::net::IpAddr;

use crate::text::escape_for_display;
use serde::{Serialize, Serializer};

/// An IP network in canonical CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u8,
}

/// The text is no network in canonical CIDR notation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network; write one like `10.1.0.0/16`, its first address and the bits that count")]
pub struct NetworkError(String);

impl Network {
    /// Parses `10.1.0.0/16`, `fd00:1::/32`: the first address in canonical form, a slash, the prefix length.
    pub fn parse(text: &str) -> Result<Self, NetworkError> {
        let read = || {
            let (address, bits) = text.split_once('/')?;
            let network = Self { first: address.parse().ok()?, prefix_bits: bits.parse().ok()? };
            let is_whole =
                network.prefix_bits <= network.width() && network.mask(network.first) == network.bits();
            (is_whole && network.to_string() == text).then_some(network)
        };
        read().ok_or_else(|| NetworkError(escape_for_display(text, 64)))
    }

    /// A network from its first address and prefix length; the bits behind the prefix must be zero.
    pub const fn new(first: IpAddr, prefix_bits: u8) -> Self {
        Self { first, prefix_bits }
    }

    /// The network of one address.
    pub fn single(address: IpAddr) -> Self {
        let prefix_bits = if address.is_ipv4() { 32 } else { 128 };
        Self { first: address, prefix_bits }
    }

    /// Whether the network is one address.
    pub fn is_single(&self) -> bool {
        self.prefix_bits == self.width()
    }

    /// Whether the network contains the address. An IPv6 network never contains an IPv4 address, embedded or not.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && self.mask(address) == self.bits()
    }

    /// Whether the network contains all of the other.
    pub fn covers(&self, other: &Network) -> bool {
        self.prefix_bits <= other.prefix_bits && self.contains(other.first)
    }

    /// The first address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    fn width(&self) -> u8 {
        if self.first.is_ipv4() { 32 } else { 128 }
    }

    fn bits(&self) -> u128 {
        number(self.first)
    }

    fn mask(&self, address: IpAddr) -> u128 {
        let dropped = u32::from(self.width() - self.prefix_bits);
        // A shift by the full width is undefined, so `checked_shr` returns `None`.
        number(address).checked_shr(dropped).and_then(|kept| kept.checked_shl(dropped)).unwrap_or(0)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix_bits)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
