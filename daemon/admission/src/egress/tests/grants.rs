//! Parsing of grants.

use serde_json::json;
use toolgate_api::grant::{Capabilities, FilesystemAccess, Grant};
use toolgate_api::limits::LimitName;
use toolgate_api::network::{HostPattern, NetworkRule, NetworkScheme, Target};

use super::super::*;
use crate::rules::grant_warnings;

fn parse_error(text: &str) -> (String, String) {
    match Grant::parse(text) {
        Ok(_) => panic!("{text} is taken"),
        Err(error) => (error.place.clone(), format!("{error} {}", error.hint)),
    }
}

#[test]
fn b5_the_published_grant_is_read_and_written_as_it_was() {
    let certificate = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----";
    let document = json!({"filesystem": "workspace",
        "network": [{"scheme": "https", "host": "api.weather.gov", "port": 443, "methods": ["GET"], "path": "/points/"}],
        "private_networks": ["10.1.0.0/16"], "plain_http": ["printer.local:631"], "extra_ca": [certificate],
        "credentials": ["stripe"], "user_credentials": true, "limits": {"memory_bytes": 134_217_728}});
    let grant = Grant::parse(&document.to_string()).expect("a grant");
    assert_eq!(grant.filesystem, FilesystemAccess::Workspace);
    assert_eq!(grant.limits.get(LimitName::MemoryBytes), Some(134_217_728));
    assert_eq!(serde_json::to_value(&grant).expect("a document"), document);
    assert_eq!(Grant::parse("{}"), Ok(Grant::default()));
}

#[test]
fn b5_an_unknown_field_is_refused_with_the_nearest() {
    for (text, place, said) in [
        (r#"{"netwrok":[]}"#, "/netwrok", "did you mean `network`?"),
        (r#"{"network":[{"host":"a","metods":[]}]}"#, "/network/0/metods", "did you mean `methods`?"),
        (r#"{"filesystem":"workspaces"}"#, "/filesystem", "did you mean `workspace`?"),
        (r#"{"limits":{"feul":1}}"#, "/limits/feul", "did you mean `fuel`?"),
        ("[]", "", "write an object"),
        ("{", "", "a document is one JSON object"),
    ] {
        let (at, told) = parse_error(text);
        assert_eq!(at, place, "{text}");
        assert!(told.contains(said), "{told}");
    }
}

#[test]
fn b5_what_could_allow_nothing_or_everything_is_refused() {
    for (text, place) in [
        (r#"{"network":[{}]}"#, "/network/0"),
        (r#"{"network":[{"host":"*.com"}]}"#, "/network/0/host"),
        (r#"{"network":[{"host":"a*.example.com"}]}"#, "/network/0/host"),
        (r#"{"network":[{"host":"a.*.example.com"}]}"#, "/network/0/host"),
        (r#"{"network":[{"host":"*.127.0.0.1"}]}"#, "/network/0/host"),
        (r#"{"network":[{"host":"https://a.example"}]}"#, "/network/0/host"),
        (r#"{"network":[{"host":"a.example:80"}]}"#, "/network/0/host"),
        (r#"{"network":[{"host":"::1"}]}"#, "/network/0/host"),
        (r#"{"network":[{"host":"a.example","port":0}]}"#, "/network/0/port"),
        (r#"{"network":[{"host":"a.example","port":"80"}]}"#, "/network/0/port"),
        (r#"{"network":[{"host":"a.example","methods":["get"]}]}"#, "/network/0/methods/0"),
        (r#"{"network":[{"host":"a.example","methods":["CONNECT"]}]}"#, "/network/0/methods/0"),
        (r#"{"network":[{"host":"a.example","path":"a"}]}"#, "/network/0/path"),
        (r#"{"network":[{"host":"a.example","path":"/a/../b"}]}"#, "/network/0/path"),
        (r#"{"network":[{"scheme":"http","host":"a.example"}]}"#, "/network/0"),
        (
            r#"{"network":[{"scheme":"http","host":"a.example"}],"plain_http":["a.example:8080"]}"#,
            "/network/0",
        ),
        (r#"{"private_networks":["0.0.0.0/0"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["::/0"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["10.0.0.0/7"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["10.1.0.0/8"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["10.0.0.0"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["10.0.0.0/08"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["10.0.0.0/33"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["8.8.8.8/32"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["::ffff:10.0.0.0/104"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["224.0.0.0/4"]}"#, "/private_networks/0"),
        (r#"{"private_networks":["FD00::/8"]}"#, "/private_networks/0"),
        (r#"{"plain_http":["a.example"]}"#, "/plain_http/0"),
        (r#"{"plain_http":["*.example.com:80"]}"#, "/plain_http/0"),
        (r#"{"plain_http":["http://a.example:80"]}"#, "/plain_http/0"),
        (r#"{"extra_ca":["AA=="]}"#, "/extra_ca/0"),
        (r#"{"credentials":[""]}"#, "/credentials/0"),
        (r#"{"user_credentials":"yes"}"#, "/user_credentials"),
    ] {
        assert_eq!(parse_error(text).0, place, "{text}");
    }
    for text in [
        r#"{"network":[{"host":"*.example.com","methods":[],"path":"/"}]}"#,
        r#"{"network":[{"host":"[::1]"},{"host":"127.0.0.1"},{"host":"Localhost"}]}"#,
        r#"{"network":[{"scheme":"http","host":"*.example.com"}],"plain_http":["a.example.com:80"]}"#,
        r#"{"private_networks":["10.0.0.0/8","127.0.0.1/32","::1/128","fc00::/7","fd00:1::/32","169.254.169.254/32","100.64.0.0/10","198.18.0.0/15"]}"#,
    ] {
        assert!(Grant::parse(text).is_ok(), "{text}: {:?}", Grant::parse(text));
    }
}

/// A plugin may ask for every host; its calls reach the hosts that the grant names.
#[test]
fn b5_who_asks_for_every_host_reaches_those_that_are_granted() {
    let asked = Capabilities {
        network: vec![NetworkRule {
            scheme: NetworkScheme::Https,
            host: HostPattern::parse_asked("*").expect("every host"),
            port: None,
            methods: Some(vec!["GET".to_owned()]),
            path: None,
        }],
        ..Capabilities::default()
    };
    let asked = std::sync::Arc::new(asked);
    let granted = Grant::parse(r#"{"network":[{"host":"a.example"},{"host":"b.example","port":8443}]}"#);
    let access =
        CallAccess::new(std::sync::Arc::clone(&asked), std::sync::Arc::new(granted.expect("a grant")));
    let permits = |access: &CallAccess, scheme: &str, authority: &str, method: &str| {
        let target = Target::parse(scheme, authority, "/", method).expect("a target");
        access.permit(target).map(drop).map_err(|denied| denied.by)
    };
    assert_eq!(permits(&access, "https", "a.example", "GET"), Ok(()));
    assert_eq!(permits(&access, "https", "b.example:8443", "GET"), Ok(()));
    assert_eq!(permits(&access, "https", "c.example", "GET"), Err(DeniedBy::Grant));
    assert_eq!(permits(&access, "https", "a.example:8443", "GET"), Err(DeniedBy::Grant));
    assert_eq!(permits(&access, "https", "a.example", "POST"), Err(DeniedBy::Plugin));
    assert_eq!(permits(&access, "http", "a.example", "GET"), Err(DeniedBy::Plugin));
    let granted = Grant::parse(r#"{"network":[{"host":"*"}]}"#).expect("a grant of every host");
    let open = CallAccess::new(std::sync::Arc::clone(&asked), std::sync::Arc::new(granted));
    assert_eq!(permits(&open, "https", "any.example", "GET"), Ok(()));
    assert_eq!(permits(&open, "https", "any.example:8443", "GET"), Err(DeniedBy::Grant));
    assert_eq!(permits(&open, "https", "any.example", "POST"), Err(DeniedBy::Plugin));
    let reached = |address: &str| {
        let target = Target::parse("https", "any.example", "/", "GET").expect("a target");
        let addresses = [address.parse().expect("an address")];
        open.permit(target).expect("permitted").vet(&addresses).map(drop).map_err(|denied| denied.by)
    };
    assert_eq!(reached("93.184.215.14"), Ok(()));
    for private in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1"] {
        assert_eq!(reached(private), Err(DeniedBy::Address), "{private}");
    }
    for other in
        [r#""credentials":["a"]"#, r#""user_credentials":true"#, r#""private_networks":["10.0.0.0/8"]"#]
    {
        let text = format!(r#"{{"network":[{{"host":"*"}}],{other}}}"#);
        assert!(Grant::parse(&text).is_err(), "{text}");
        assert!(Grant::parse(&text.replace('*', "a.example")).is_ok(), "{text}");
    }
    let nothing = CallAccess::new(asked, std::sync::Arc::new(Grant::default()));
    assert_eq!(permits(&nothing, "https", "a.example", "GET"), Err(DeniedBy::Grant));
}

#[test]
fn b5_a_grant_of_what_nobody_asks_for_is_warned_of() {
    let grant = Grant::parse(
        r#"{"filesystem":"workspace","network":[{"host":"a.example"}],"credentials":["stripe"]}"#,
    )
    .expect("a grant");
    let places: Vec<_> =
        grant_warnings(&grant, &Capabilities::default()).into_iter().map(|warning| warning.path).collect();
    assert_eq!(places, ["/filesystem", "/network", "/credentials/0"]);
    let asked = Capabilities {
        filesystem: grant.filesystem,
        network: grant.network.clone(),
        credentials: grant.credentials.clone(),
        ..Capabilities::default()
    };
    assert_eq!(grant_warnings(&grant, &asked), []);
}
