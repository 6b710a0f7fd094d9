//! Classifies IP addresses: public, private, cloud metadata, or never reachable.
//!
//! The table has the IANA registries of special-purpose addresses (RFC 6890) for IPv4 and IPv6, and the metadata addresses
//! of clouds. The first row that contains an address decides. In IPv6 only `2000::/3` is allocated as public, so any other
//! address that is not in the table is not public either. Addresses that embed an IPv4 address (mapped, translated, 6to4,
//! Teredo) are never reachable, since a router on the path decides which host they lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::range::Network;

/// The class of an address, with a short description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// Public: reachable without a grant of the network.
    Public,
    /// In a private network: reachable if the grant names a network that contains it.
    Private(&'static str),
    /// A metadata service of the cloud that the daemon runs in: reachable if the grant names this single address.
    Metadata(&'static str),
    /// Reserved, or an embedded IPv4 address: never reachable.
    Never(&'static str),
}

use AddressKind::{Metadata, Never, Private};

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Network {
    Network::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits)
}

const fn v6(groups: [u16; 8], bits: u8) -> Network {
    let [a, b, c, d, e, f, g, h] = groups;
    Network::new(IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), bits)
}

/// The allocated public part of IPv6.
const GLOBAL_UNICAST: Network = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const TABLE: &[(Network, AddressKind)] = &[
    (v4(169, 254, 169, 254, 32), Metadata("cloud metadata")),
    (v4(169, 254, 170, 2, 32), Metadata("container credentials of a cloud")),
    (v4(169, 254, 170, 23, 32), Metadata("container credentials of a cloud")),
    (v4(169, 254, 169, 253, 32), Metadata("resolver of a cloud")),
    (v4(100, 100, 100, 200, 32), Metadata("cloud metadata")),
    (v4(168, 63, 129, 16, 32), Metadata("host of a cloud")),
    (v4(192, 0, 0, 192, 32), Metadata("cloud metadata")),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), Metadata("cloud metadata")),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253], 128), Metadata("resolver of a cloud")),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), Metadata("container credentials of a cloud")),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Metadata("cloud metadata")),
    (v4(0, 0, 0, 0, 8), Never("this network")),
    (v4(10, 0, 0, 0, 8), Private("private")),
    (v4(100, 64, 0, 0, 10), Private("shared with a carrier")),
    (v4(127, 0, 0, 0, 8), Private("loopback")),
    (v4(169, 254, 0, 0, 16), Private("link-local")),
    (v4(172, 16, 0, 0, 12), Private("private")),
    (v4(192, 0, 0, 0, 24), Never("reserved for protocols")),
    (v4(192, 0, 2, 0, 24), Never("for documentation")),
    (v4(192, 31, 196, 0, 24), Never("a sink for queries")),
    (v4(192, 52, 193, 0, 24), Never("for multicast relays")),
    (v4(192, 88, 99, 0, 24), Never("a relay to IPv6")),
    (v4(192, 168, 0, 0, 16), Private("private")),
    (v4(192, 175, 48, 0, 24), Never("a sink for queries")),
    (v4(198, 18, 0, 0, 15), Private("for benchmarks")),
    (v4(198, 51, 100, 0, 24), Never("for documentation")),
    (v4(203, 0, 113, 0, 24), Never("for documentation")),
    (v4(224, 0, 0, 0, 4), Never("multicast")),
    (v4(255, 255, 255, 255, 32), Never("broadcast")),
    (v4(240, 0, 0, 0, 4), Never("reserved")),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Private("loopback")),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Never("unspecified")),
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Never("an IPv4 address, mapped")),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), Never("an IPv4 address, translated")),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), Never("an IPv4 address, in the old compatible form")),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Never("an IPv4 address behind a translator")),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Never("an IPv4 address behind a local translator")),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 32), Never("a place to discard to")),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), Never("an IPv4 address in a Teredo tunnel")),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Private("for benchmarks")),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Never("reserved for protocols")),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Never("for documentation")),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Never("an IPv4 address in a 6to4 tunnel")),
    (v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), Never("a sink for queries")),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Never("for documentation")),
    (v6([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16), Never("of an experiment that has ended")),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), Never("of segment routing")),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Private("unique local")),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Private("link-local")),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Never("site-local, which was given up")),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Never("multicast")),
];

/// Returns the class of an address.
pub fn address_kind(address: IpAddr) -> AddressKind {
    match TABLE.iter().find(|(network, _)| network.contains(address)) {
        Some((_, kind)) => *kind,
        None if address.is_ipv4() || GLOBAL_UNICAST.contains(address) => AddressKind::Public,
        None => Never("not given out"),
    }
}

/// Whether a grant may name this network: it is part of one private network, or a single metadata address. A wider network
/// could contain every address.
pub fn can_be_granted(network: &Network) -> bool {
    match address_kind(network.first()) {
        Metadata(_) if network.is_single() => true,
        Private(_) | Metadata(_) => {
            TABLE.iter().any(|(range, kind)| matches!(kind, Private(_)) && range.covers(network))
        }
        AddressKind::Public | Never(_) => false,
    }
}

/// Whether an address is reachable if these networks are granted.
pub fn is_reachable(address: IpAddr, granted: &[Network]) -> bool {
    match address_kind(address) {
        AddressKind::Public => true,
        Private(_) => granted.iter().any(|network| network.contains(address)),
        Metadata(_) => granted.iter().any(|network| network.is_single() && network.contains(address)),
        Never(_) => false,
    }
}
