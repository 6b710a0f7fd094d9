//! Classes of addresses: the IANA registries by examples, and a property test against an oracle that compares numbers
//! instead of prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use serde_json::json;
use toolgate_api::network::{AddressKind, Host, address_kind};

use super::super::*;
use super::{access, get};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn b3_special_ranges_are_known_by_their_first_and_last_address() {
    for text in
        "0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.0 127.0.0.1 \
         127.255.255.255 169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 \
         192.0.0.170 192.0.0.255 192.0.2.1 192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 \
         198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.254 \
         255.255.255.255 168.63.129.16 100.100.100.200 192.31.196.1 192.52.193.1 192.175.48.1 :: ::1 ::2 \
         ::127.0.0.1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:169.254.169.254 \
         ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::7f00:1 100::1 \
         100:0:0:1::1 2001::1 2001:0:4136:e378::1 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff:: \
         2001:db8::1 2001:db8:ffff:: 2002::1 2002:7f00:1:: 2002:a9fe:a9fe:: 2620:4f:8000::1 3fff::1 \
         3fff:fff:: 3ffe::1 4000::1 5f00::1 8000::1 e000::1 fc00::1 fd00::1 fdff:ffff:: fd00:ec2::254 \
         fd20:ce::254 fe80::1 febf::1 fec0::1 ff02::1 ffff::1 1::1 1fff:ffff::1"
            .split(' ')
    {
        assert_ne!(address_kind(address(text)), AddressKind::Public, "{text}");
    }
    for text in "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
         169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.0.3.0 \
         192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 203.0.112.255 203.0.114.0 223.255.255.255 \
         168.63.129.15 2000::1 2001:200::1 2001:4860:4860::8888 2001:db7::1 2001:db9::1 2003::1 \
         2606:4700::1111 2a00::1 3ffd::1 3fff:1000::1"
        .split(' ')
    {
        assert_eq!(address_kind(address(text)), AddressKind::Public, "{text}");
    }
}

/// B3: checked after name resolution; one unreachable address denies the request.
#[test]
fn b3_one_bad_address_of_an_answer_refuses_all() {
    let access = access(
        &json!({"network": [{"host": "api.example.com"}], "private_networks": ["10.1.0.0/16", "::1/128"]}),
    );
    let vet = |addresses: &[&str]| {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| address(text)).collect();
        access.permit(get("https", "api.example.com", "/")).expect("a permit").vet(&addresses)
    };
    for good in [
        &["1.1.1.1"][..],
        &["1.1.1.1", "2606:4700::1111"],
        &["10.1.255.255", "::1"],
        &["10.1.0.0", "8.8.8.8"],
    ] {
        assert_eq!(vet(good).map(|vetted| vetted.addresses().len()), Ok(good.len()), "{good:?}");
    }
    for bad in [
        &[][..],
        &["127.0.0.1"],
        &["10.2.0.0"],
        &["1.1.1.1", "127.0.0.1"],
        &["10.1.0.1", "10.2.0.1"],
        &["::2"],
        &["::ffff:10.1.0.1"],
        &["1.1.1.1", "8.8.8.8", "169.254.169.254"],
        &["64:ff9b::808:808"],
    ] {
        let denied = vet(bad).expect_err("bad");
        assert_eq!(denied.by, DeniedBy::Address, "{bad:?}");
    }
}

#[test]
fn b5_the_suggested_network_is_enough_for_its_address() {
    for text in ["127.0.0.1", "10.1.2.3", "::1", "fd00::1", "169.254.169.254", "169.254.0.1", "fd00:ec2::254"]
    {
        let network = json!([{"host": "api.example.com"}]);
        let permit = |grant: serde_json::Value| {
            access(&grant).permit(get("https", "api.example.com", "/")).expect("a permit")
        };
        let denied = permit(json!({"network": network})).vet(&[address(text)]).expect_err("private");
        let mut grant = denied.grant.expect("a suggestion");
        grant["network"] = network.clone();
        assert!(permit(grant).vet(&[address(text)]).is_ok(), "{text}");
    }
}

/// A metadata address is reachable only if the grant names that single address.
#[test]
fn b3_a_network_around_a_clouds_metadata_does_not_open_it() {
    let vet = |network: &str| {
        let grant = json!({"network": [{"host": "a.example"}], "private_networks": [network]});
        access(&grant)
            .permit(get("https", "a.example", "/"))
            .expect("a permit")
            .vet(&[address("169.254.169.254")])
    };
    assert!(vet("169.254.0.0/16").is_err() && vet("169.254.169.254/31").is_err());
    assert!(vet("169.254.169.254/32").is_ok());
}

#[test]
fn b3_an_address_in_the_url_is_vetted_like_any_other() {
    let access = access(&json!({"network": [{"host": "127.0.0.1"}, {"host": "1.1.1.1"}]}));
    let permit = |host: &str| access.permit(get("https", host, "/")).expect("a permit");
    assert!(permit("127.0.0.1").vet(&[address("127.0.0.1")]).is_err());
    assert!(permit("1.1.1.1").vet(&[address("1.1.1.1")]).is_ok());
    // A target that is an address connects to that address, also if a resolver returns another.
    assert!(permit("1.1.1.1").vet(&[address("8.8.8.8")]).is_err());
}

/// The IANA registries as intervals of numbers.
fn is_public(address: IpAddr) -> bool {
    let v4 = |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        let special = a == 0
            || a == 10
            || a == 127
            || a >= 224
            || (a == 100 && (64..128).contains(&b))
            || (a == 169 && b == 254)
            || (a == 172 && (16..32).contains(&b))
            || (a == 192 && b == 168)
            || (a == 192 && b == 0 && (c == 0 || c == 2))
            || (a == 192 && (b, c) == (31, 196))
            || (a == 192 && (b, c) == (52, 193))
            || (a == 192 && (b, c) == (88, 99))
            || (a == 192 && (b, c) == (175, 48))
            || (a == 198 && (b == 18 || b == 19))
            || (a == 198 && (b, c) == (51, 100))
            || (a == 203 && (b, c) == (0, 113))
            || (a, b, c, d) == (168, 63, 129, 16);
        !special
    };
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            (0x2000..0x4000).contains(&a)
                && !(a == 0x2001 && (b < 0x200 || b == 0xdb8))
                && a != 0x2002
                && a != 0x3ffe
                && !(a == 0x3fff && b < 0x1000)
                && (a, b, c) != (0x2620, 0x4f, 0x8000)
        }
    }
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    let near = prop_oneof![Just(0_u128), Just(1), Just(u128::MAX), any::<u128>()];
    let special = prop::sample::select(vec![
        "0.0.0.0",
        "10.0.0.0",
        "10.1.0.0",
        "100.64.0.0",
        "127.0.0.0",
        "169.254.169.254",
        "172.16.0.0",
        "192.0.0.0",
        "192.168.0.0",
        "198.18.0.0",
        "203.0.113.0",
        "224.0.0.0",
        "255.255.255.255",
        "::",
        "::ffff:0:0",
        "64:ff9b::",
        "2001::",
        "2001:db8::",
        "2002::",
        "3fff::",
        "fc00::",
        "fd00:1::",
        "fe80::",
        "ff00::",
        "2000::",
        "4000::",
    ]);
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())),
        any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
        near.prop_map(|bits| IpAddr::V6(bits.into())),
        (special, -3_i32..=3).prop_map(|(text, away)| match address(text) {
            IpAddr::V4(at) => IpAddr::V4(Ipv4Addr::from(u32::from(at).wrapping_add_signed(away))),
            IpAddr::V6(at) => IpAddr::V6(Ipv6Addr::from(u128::from(at).wrapping_add_signed(away.into()))),
        }),
    ]
}

fn any_grant() -> impl Strategy<Value = Vec<&'static str>> {
    let networks = vec![
        "10.0.0.0/8",
        "10.1.0.0/16",
        "127.0.0.0/8",
        "127.0.0.1/32",
        "192.168.1.0/24",
        "169.254.0.0/16",
        "169.254.169.254/32",
        "fc00::/7",
        "fd00:1::/32",
        "::1/128",
        "fe80::/10",
    ];
    prop::collection::vec(prop::sample::select(networks), 0..4)
}

proptest! {
    /// Allowed means the host is in the list, and every address is public or in a network that the grant names.
    #[test]
    fn b3_allowed_means_listed_and_every_address_public_or_granted(
        listed in prop::sample::subsequence(vec!["a.example", "b.example", "*.c.example"], 0..=3),
        host in prop::sample::select(vec!["a.example", "b.example", "x.c.example", "c.example", "y.x.c.example", "A.Example"]),
        networks in any_grant(),
        addresses in prop::collection::vec(any_address(), 1..4),
    ) {
        let rules: Vec<_> = listed.iter().map(|host| json!({"host": host})).collect();
        let access = access(&json!({"network": rules, "private_networks": networks}));
        let allowed = access.permit(get("https", host, "/")).ok().and_then(|permitted| permitted.vet(&addresses).ok());
        let folded = host.to_lowercase();
        let is_listed = listed.iter().any(|&rule| match rule.strip_prefix("*") {
            Some(end) => folded.ends_with(end) && folded.matches('.').count() == end.matches('.').count(),
            None => folded == rule,
        });
        let is_named = |address: &IpAddr| networks.iter().any(|network| in_network(network, *address));
        if let Some(vetted) = &allowed {
            prop_assert!(is_listed);
            prop_assert!(addresses.iter().all(|address| is_public(*address) || is_named(address)));
            prop_assert_eq!(vetted.addresses().iter().map(std::net::SocketAddr::ip).collect::<Vec<_>>(), addresses);
        } else {
            prop_assert!(!is_listed || addresses.iter().any(|address| !is_public(*address)));
        }
    }

    /// A host displays as it was parsed, and parses again as the same.
    #[test]
    fn b3_a_host_has_one_spelling(text in "[a-zA-Z0-9.:x\\[\\]%-]{0,24}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(host.to_string(), text.to_ascii_lowercase());
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
    }
}

/// Compares the binary digits of both.
fn in_network(network: &str, at: IpAddr) -> bool {
    let (first, bits) = network.split_once('/').expect("a network");
    let digits = |at: IpAddr| match at {
        IpAddr::V4(at) => format!("{:032b}", u32::from(at)),
        IpAddr::V6(at) => format!("{:0128b}", u128::from(at)),
    };
    let (first, at, bits) = (digits(address(first)), digits(at), bits.parse::<usize>().expect("bits"));
    first.len() == at.len() && first[..bits] == at[..bits]
}
