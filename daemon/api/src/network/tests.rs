//! Spellings of hosts, ports and paths that two parsers read differently.

use super::*;

const LOOPBACK_AND_FRIENDS: &[&str] = &[
    "127.1",
    "127.0.1",
    "127.0.0.01",
    "0127.0.0.1",
    "0177.0.0.1",
    "0177.0.0.01",
    "0x7f.0.0.1",
    "0x7f.1",
    "0X7F.0.0.1",
    "0x7f000001",
    "0x7F000001",
    "2130706433",
    "017700000001",
    "127.0.0.1.",
    "127.0.0.1..",
    "0",
    "0.0",
    "00000000",
    "127.0.0.0x1",
    "127.0x0.0.1",
    "127.0.0.256",
    "127.0.0.4294967297",
    "1.2.3.4.5",
    "1.2.3",
    "256.256.256.256",
    "0xa9fea9fe",
    "2852039166",
    "169.254.43518",
    "0251.0376.0251.0376",
    "169.254.169.254.",
    "10.1",
    "012.1.2.3",
    "0xc0.0xa8.0.1",
    "3232235521",
    "127。0。0。1",
    "127．0．0．1",
    "①②⑦.0.0.1",
    "１２７.0.0.1",
    "127%2e0%2e0%2e1",
    "127.0.0.1%00",
    "127.0.0.1 ",
    " 127.0.0.1",
    "127.0.0.1\t",
    "127.0.0.1\n",
    "127.0.0.1#",
    "127.0.0.1\\",
    "+127.0.0.1",
    "-127.0.0.1",
    "127.0.0.1/",
    "localhost.",
    "LOCALHOST.",
    "loc\u{ad}alhost",
    "loc%61lhost",
    "local host",
    "localhost\0",
    "localhost#",
    "localhost\\",
    "localhost/",
    "::1",
    "[::1",
    "::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::01]",
    "[0::1]",
    "[::1%25lo]",
    "[::1%lo]",
    "[fe80::1%1]",
    "[::127.0.0.1]x",
    "[::FFFF:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:127.0.0.01]",
    "[::ffff:0x7f.1]",
    "[127.0.0.1]",
    "[v1.127]",
    "[]",
    "[[::1]]",
    "[ ::1 ]",
    "[FE80::1]",
    "[2001:DB8::1]",
    "[1::2::3]",
    "",
    ".",
    "..",
    "a..b",
    ".a",
    "a.",
    "-a.example",
    "a-.example",
    "a_b.example",
    "a b.example",
    "ä.example",
    "а.example",
    "a.example\u{200b}",
    "exa\u{202e}mple.com",
    "a.example,b.example",
    "a.example;b.example",
    "a@b.example",
    "*",
    "*.a.example",
    "a.*",
    "a.example?",
    "a.example&",
    "a=b.example",
    "<a>",
    "a|b",
    "a^b",
    "`a`",
    "{a}",
    "a!b",
    "a$b",
    "a'b",
    "(a)",
    "a~b",
];

const HOSTS: &[(&str, &str)] = &[
    ("a", "a"),
    ("localhost", "localhost"),
    ("api.example.com", "api.example.com"),
    ("API.Example.COM", "api.example.com"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("1.example", "1.example"),
    ("0x7f.example", "0x7f.example"),
    ("0xg", "0xg"),
    ("a.0xg", "a.0xg"),
    ("3com.example", "3com.example"),
    ("a--b.example", "a--b.example"),
    ("127.0.0.1", "127.0.0.1"),
    ("0.0.0.0", "0.0.0.0"),
    ("[::1]", "[::1]"),
    ("[::]", "[::]"),
    ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
    ("[2001:db8::1]", "[2001:db8::1]"),
];

#[test]
fn b3_a_host_with_another_reading_is_no_host() {
    for text in LOOPBACK_AND_FRIENDS {
        assert!(Host::parse(text).is_err(), "`{text}` is taken");
        assert!(Target::parse("https", text, "/", "GET").is_err(), "`{text}` is taken as an authority");
    }
    for (text, shown) in HOSTS {
        let host = Host::parse(text).unwrap_or_else(|error| panic!("`{text}`: {error}"));
        assert_eq!(host.to_string(), *shown);
    }
}

#[test]
fn b3_names_are_as_long_as_the_name_service_lets_them_be() {
    let label = "a".repeat(63);
    assert!(Host::parse(&label).is_ok());
    assert!(Host::parse(&"a".repeat(64)).is_err());
    let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
    assert_eq!(longest.len(), 253);
    assert!(Host::parse(&longest).is_ok());
    assert!(Host::parse(&format!("{longest}a")).is_err());
}

#[test]
fn b3_an_authority_is_a_host_and_perhaps_a_port() {
    for (text, port) in [
        ("a.example", 443),
        ("a.example:443", 443),
        ("a.example:1", 1),
        ("[::1]:65535", 65535),
        ("1.2.3.4:80", 80),
    ] {
        assert_eq!(Target::parse("https", text, "/", "GET").map(|target| target.port()), Ok(port), "{text}");
    }
    for text in [
        "user@a.example",
        "user:pw@a.example",
        "@a.example",
        "a.example@",
        "a.example@b.example",
        "a.example:80@b.example",
        "a.example:",
        "a.example:0",
        "a.example:00",
        "a.example:080",
        "a.example:65536",
        "a.example:99999999999",
        "a.example:+80",
        "a.example:-80",
        "a.example: 80",
        "a.example:80 ",
        "a.example:8O",
        "a.example:80:80",
        "a.example::80",
        ":80",
        "[::1]80",
        "[::1]:",
        "[::1]:0",
        "[::1].a:80",
        "::1:80",
        "a.example:80/b",
        "a.example:80?b",
        "a.example:80#b",
        "a.example:\u{ff18}0",
    ] {
        assert!(Target::parse("https", text, "/", "GET").is_err(), "`{text}` is taken");
    }
}

#[test]
fn b3_a_path_with_another_reading_is_refused() {
    for path in [
        "a",
        "*",
        "//",
        "/a//b",
        "//a",
        "/a//",
        "/.",
        "/..",
        "/a/..",
        "/a/../b",
        "/a/./b",
        "/../",
        "/%2e",
        "/%2e%2e",
        "/%2E%2e/",
        "/a/%2e%2e/b",
        "/.%2e/b",
        "/%2e./b",
        "/a/%2e/b",
        "/a%2f..%2fb",
        "/a/..%2fb",
        "/a%2f%2e%2e%2fb",
        "/a%2f%2fb",
        "/%2f",
        "/a%5cb",
        "/a%5c..%5cb",
        "/a\\b",
        "/a\\..\\b",
        "/%252e%252e/b",
        "/%25252e%25252e/b",
        "/%252f%252fb",
        "/a%255cb",
        "/%2525252e",
        "/a/..;/b",
        "/a/..;x=1/b",
        "/a/.;/b",
        "/;/b",
        "/a/;x",
        "/a/%2e%2e;/b",
        "/a/..%3b/b",
        "/a%00",
        "/a%0a",
        "/a%0d%0aHost:%20b",
        "/a%09b",
        "/a%7f",
        "/a%c2%85b",
        "/a b",
        "/a\tb",
        "/a\nb",
        "/a\rb",
        "/a\0b",
        "/é",
        "/a#b",
        "/a%",
        "/a%2",
        "/a%zz",
        "/a%2g",
        "/%u002e%u002e/",
        "/%c0%ae%c0%ae/",
        "/%ff",
        "/%e0%80%ae",
        "/a\"b",
        "/a<b",
        "/a>b",
        "/a[b",
        "/a]b",
        "/a^b",
        "/a`b",
        "/a{b",
        "/a|b",
        "/a}b",
    ] {
        assert!(Target::parse("https", "a.example", path, "GET").is_err(), "`{path}` is taken");
    }
    for path in [
        "",
        "/",
        "/a",
        "/a/",
        "/a/b",
        "/...",
        "/..a",
        "/a..",
        "/.well-known/x",
        "/a%20b",
        "/a%2Fb",
        "/%C3%A9",
        "/a;b=1/c",
        "/a:b@c",
        "/~a",
        "/a!$&'()*+,=b",
        "/a%25b",
        "/a%2525b",
        "/a%3fb",
        "/a%23b",
        "/-._",
        "/?a=//../",
        "?a",
        "/a?b?c",
        "/a?b=%zz",
        "/a?b=\\",
    ] {
        let target = Target::parse("https", "a.example", path, "GET");
        assert!(target.is_ok(), "`{path}`: {target:?}");
    }
}

#[test]
fn b3_a_query_is_visible_ascii_and_path_and_query_have_an_end() {
    for query in ["?a b", "?a\n", "?é", "?a#b", "?a\0"] {
        assert!(Target::parse("https", "a.example", query, "GET").is_err(), "{query}");
    }
    assert!(Target::parse("https", "a.example", &format!("/?{}", "a".repeat(8_000)), "GET").is_ok());
    assert!(Target::parse("https", "a.example", &format!("/?{}", "a".repeat(8_192)), "GET").is_err());
}

#[test]
fn b3_schemes_and_methods_are_few() {
    for scheme in ["https", "http", "HTTPS"] {
        assert!(Target::parse(scheme, "a.example", "/", "GET").is_ok(), "{scheme}");
    }
    for scheme in ["", "ftp", "file", "ws", "wss", "httpx", "http ", "javascript", "unix", "gopher"] {
        assert!(Target::parse(scheme, "a.example", "/", "GET").is_err(), "{scheme}");
    }
    for method in
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PROPFIND", "M-SEARCH"]
    {
        assert!(Target::parse("https", "a.example", "/", method).is_ok(), "{method}");
    }
    for method in [
        "",
        "get",
        "Get",
        "CONNECT",
        "TRACE",
        "TRACK",
        "GE T",
        "GET ",
        "GET\r\n",
        "G3T",
        "GET/",
        "A23456789012345678901",
    ] {
        assert!(Target::parse("https", "a.example", "/", method).is_err(), "`{method}` is taken");
    }
}

#[test]
fn b3_a_prefix_ends_between_segments() {
    for (path, prefix, is_in) in [
        ("/a", "/", true),
        ("/", "/", true),
        ("/a", "/a", true),
        ("/a/", "/a", true),
        ("/a/b", "/a", true),
        ("/ab", "/a", false),
        ("/a", "/a/", false),
        ("/a/", "/a/", true),
        ("/a/b", "/a/", true),
        ("/a%2fb", "/a", false),
        ("/A", "/a", false),
        ("/a;b", "/a", false),
        ("/a.b", "/a", false),
    ] {
        assert_eq!(is_within(path, prefix), is_in, "{path} in {prefix}");
    }
}

#[test]
fn a_target_is_shown_without_its_query() {
    let target = Target::parse("https", "a.example", "/b?token=c", "POST").expect("a target");
    assert_eq!(target.to_string(), "POST https://a.example:443/b");
    assert_eq!((target.query(), target.authority()), (Some("token=c"), "a.example".to_owned()));
    let other = Target::parse("https", "[2001:db8::1]:8443", "", "GET").expect("a target");
    assert_eq!(other.authority(), "[2001:db8::1]:8443");
}
