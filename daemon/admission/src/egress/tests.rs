//! Decisions about requests, by tables of spellings and by properties.

mod addresses;
mod grants;

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::network::{NetworkRule, Target};

use super::*;

/// The access of a call whose plugin asks for the whole grant.
fn access(grant: &Value) -> CallAccess {
    let granted = Grant::parse(&grant.to_string()).expect("a grant");
    let asked = Capabilities {
        filesystem: granted.filesystem,
        network: granted.network.clone(),
        credentials: granted.credentials.clone(),
        ..Capabilities::default()
    };
    CallAccess::new(Arc::new(asked), Arc::new(granted))
}

fn get(scheme: &str, authority: &str, path: &str) -> Target {
    Target::parse(scheme, authority, path, "GET").expect("a target")
}

fn denial(access: &CallAccess, method: &str, url: &str) -> Option<NetworkDenial> {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let target = Target::parse(scheme, authority, path, method).expect("a target");
    access.permit(target).err()
}

/// B3: by scheme, host, port, method and path prefix.
#[test]
fn b3_a_request_is_permitted_only_where_one_rule_allows_all_of_it() {
    let access = access(&json!({"network": [
        {"host": "api.example.com", "methods": ["GET", "POST"], "path": "/points"},
        {"host": "*.files.example.com", "port": 8443},
        {"scheme": "http", "host": "printer.local", "port": 631},
    ], "plain_http": ["printer.local:631"]}));
    for (method, url) in [
        ("GET", "https://api.example.com/points"),
        ("POST", "https://API.example.COM:443/points/7?q=1"),
        ("DELETE", "https://a.files.example.com:8443/"),
        ("GET", "http://printer.local:631/anything"),
    ] {
        assert_eq!(denial(&access, method, url), None, "{method} {url}");
    }
    for (method, url, said) in [
        ("GET", "https://example.com/points", "may not reach `example.com`"),
        ("GET", "https://evil.api.example.com/points", "may not reach `evil.api.example.com`"),
        ("GET", "https://api.example.com.evil.org/points", "may not reach `api.example.com.evil.org`"),
        ("GET", "http://api.example.com/points", "by http"),
        ("GET", "https://api.example.com:8443/points", "port 8443"),
        ("DELETE", "https://api.example.com/points", "may not send DELETE"),
        ("GET", "https://api.example.com/pointsx", "this path"),
        ("GET", "https://api.example.com/", "this path"),
        ("GET", "https://files.example.com:8443/", "may not reach `files.example.com`"),
        ("GET", "https://a.b.files.example.com:8443/", "may not reach `a.b.files.example.com`"),
        ("GET", "http://printer.local/anything", "port 80"),
    ] {
        let denied = denial(&access, method, url).unwrap_or_else(|| panic!("{method} {url} is permitted"));
        assert!(denied.message.contains(said), "{}: {said}", denied.message);
        assert_eq!(denied.by, DeniedBy::Plugin, "{url}");
    }
}

/// B5: the hint has the rule to grant, and granting it is enough.
#[test]
fn b5_the_suggested_grant_is_enough() {
    let asked = Capabilities {
        network: Grant::parse(r#"{"network":[{"host":"*.example.com"},{"scheme":"http","host":"old.example.com"}],"plain_http":["old.example.com:80"]}"#)
            .expect("a grant")
            .network,
        ..Capabilities::default()
    };
    let asked = Arc::new(asked);
    let nothing = CallAccess::new(Arc::clone(&asked), Arc::default());
    for url in ["https://api.example.com/points/7?secret=1", "http://old.example.com/x"] {
        let denied = denial(&nothing, "GET", url).expect("a refusal");
        assert_eq!(denied.by, DeniedBy::Grant);
        let grant = denied.grant.expect("a suggestion").to_string();
        assert!(denied.hint.contains(&grant) && !grant.contains("secret"), "{}", denied.hint);
        let granted = CallAccess::new(Arc::clone(&asked), Arc::new(Grant::parse(&grant).expect("a grant")));
        assert_eq!(super::tests::denial(&granted, "GET", url), None);
    }
}

/// B5: a plugin that names its host is granted as it asks, with every method; others the folder of the path.
#[test]
fn b5_the_suggested_grant_is_enough_for_the_next_request_too() {
    let asks = |rules: &str| {
        let network = serde_json::from_str(rules).expect("rules");
        CallAccess::new(Arc::new(Capabilities { network, ..Capabilities::default() }), Arc::default())
    };
    let suggested = |access: &CallAccess, url: &str| {
        denial(access, "POST", url).expect("a refusal").grant.expect("a suggestion")["network"].clone()
    };
    let mount = asks(r#"[{"host":"mcp.example.com","path":"/mcp","methods":["POST","GET","DELETE"]}]"#);
    assert_eq!(
        suggested(&mount, "https://mcp.example.com/mcp/x"),
        json!([{"scheme": "https", "host": "mcp.example.com", "methods": ["POST", "GET", "DELETE"], "path": "/mcp"}])
    );
    let any = asks(r#"[{"host":"*"}]"#);
    for (url, path) in
        [("https://a.com/items/7/8", "/items/7/"), ("https://a.com/items", "/items"), ("https://a.com/", "/")]
    {
        assert_eq!(suggested(&any, url)[0]["path"], path, "{url}");
        assert_eq!(suggested(&any, url)[0]["methods"], json!(["POST"]), "{url}");
    }
}

/// B5: a grant is not enough if the plugin does not ask for it.
#[test]
fn b5_what_a_plugin_does_not_ask_for_is_not_permitted() {
    let granted = Grant::parse(r#"{"network":[{"host":"api.example.com"}]}"#).expect("a grant");
    let access = CallAccess::new(Arc::default(), Arc::new(granted.clone()));
    let refused = denial(&access, "GET", "https://api.example.com/").expect("a refusal");
    assert_eq!(refused.by, DeniedBy::Plugin);
    let asked = Capabilities { network: granted.network.clone(), ..Capabilities::default() };
    let access = CallAccess::new(Arc::new(asked), Arc::new(granted));
    assert_eq!(denial(&access, "GET", "https://api.example.com/"), None);
}

/// Parses rules as documents have them.
fn rules(list: &Value) -> Option<Arc<[NetworkRule]>> {
    let grant = Grant::parse(&json!({"network": list}).to_string()).expect("a grant");
    Some(grant.network.into())
}

#[test]
fn b5_each_layer_narrows_by_itself_and_an_empty_list_leaves_nothing() {
    let whole = access(&json!({"network": [{"host": "api.example.com"}]}));
    let narrow = rules(&json!([{"host": "api.example.com", "path": "/a"}, {"host": "b.example.com"}]));
    type Layer = (DeniedBy, &'static str, fn(Option<Arc<[NetworkRule]>>) -> PolicyNetwork);
    let layers: [Layer; 2] = [
        (DeniedBy::Organization, "the organization's policy", |rules| PolicyNetwork {
            organization: rules,
            ..PolicyNetwork::default()
        }),
        (DeniedBy::Agent, "the agent's document", |rules| PolicyNetwork {
            agent: rules,
            ..PolicyNetwork::default()
        }),
    ];
    for (by, named, policy) in layers {
        let narrowed = whole.with_policy(policy(narrow.clone()));
        assert_eq!(denial(&narrowed, "GET", "https://api.example.com/a/b"), None);
        let refused = denial(&narrowed, "GET", "https://api.example.com/b").expect("a refusal");
        assert_eq!((refused.by, refused.grant), (by, None));
        assert!(refused.hint.contains(named), "{}", refused.hint);
        assert!(denial(&narrowed, "GET", "https://b.example.com/").is_some(), "{named} widens");
        let nothing = whole.with_policy(policy(rules(&json!([]))));
        assert!(denial(&nothing, "GET", "https://api.example.com/a").is_some());
        assert_eq!(denial(&whole.with_policy(policy(None)), "GET", "https://api.example.com/b"), None);
    }
}

#[test]
fn b5_what_one_layer_leaves_the_other_can_still_take() {
    let whole = access(&json!({"network": [{"host": "api.example.com"}]}));
    let narrowed = whole.with_policy(PolicyNetwork {
        organization: rules(&json!([{"host": "api.example.com", "path": "/a"}])),
        agent: rules(&json!([{"host": "api.example.com", "methods": ["GET"]}])),
    });
    let by = |method: &str, path: &str| {
        denial(&narrowed, method, &format!("https://api.example.com{path}")).map(|denied| denied.by)
    };
    assert_eq!(by("GET", "/a"), None);
    assert_eq!(by("POST", "/a"), Some(DeniedBy::Agent));
    assert_eq!(by("GET", "/b"), Some(DeniedBy::Organization));
    // The error names the first list without a rule.
    assert_eq!(by("POST", "/b"), Some(DeniedBy::Organization));
}

/// G11: an approval is bound to the access of the call, and not to rules for other tools.
#[test]
fn b5_an_approval_is_bound_to_the_rules_that_matter_for_its_tool() {
    let bound = |grant: Value, list: Value| {
        access(&grant)
            .with_policy(PolicyNetwork { organization: rules(&list), ..PolicyNetwork::default() })
            .binding()
    };
    let granted = || json!({"network": [{"host": "*.example.com"}]});
    let all = access(&granted()).binding();
    let some = bound(granted(), json!([{"host": "a.example.com"}]));
    assert_ne!(all, some);
    assert_eq!(some, bound(granted(), json!([{"host": "b.example"}, {"host": "a.example.com"}])));
    assert_ne!(some, bound(granted(), json!([{"host": "a.example.com", "methods": ["GET"]}])));
    assert_ne!(some, bound(granted(), json!([{"host": "*.example.com"}])));
    assert_ne!(all, bound(granted(), json!([])), "nothing is another thing than everything");
    // A tool without network has the same binding under every list.
    let files = || json!({"filesystem": "workspace"});
    assert_eq!(access(&files()).binding(), bound(files(), json!([{"host": "a.example.com"}])));
    assert_ne!(access(&files()).binding(), access(&json!({})).binding());
}

/// K4: with its positive twins, a private address, TLS, and a request without a credential.
#[test]
fn k4_a_credential_travels_over_plain_http_to_granted_private_addresses_alone() {
    let access = access(&json!({"network": [{"host": "a.example"}, {"scheme": "http", "host": "a.example"}],
        "plain_http": ["a.example:80"], "private_networks": ["127.0.0.1/32", "10.1.0.0/16", "169.254.169.254/32"]}));
    let permitted = |scheme: &str| access.permit(get(scheme, "a.example", "/")).expect("a permit");
    let vet = |permitted: Permitted, addresses: &[&str]| {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        permitted.vet(&addresses)
    };
    for private in [&["127.0.0.1"][..], &["10.1.2.3"], &["10.1.2.3", "127.0.0.1"]] {
        assert!(vet(permitted("http").with_credential(), private).is_ok(), "{private:?}");
    }
    for public in [&["8.8.8.8"][..], &["10.1.2.3", "8.8.8.8"], &["2606:4700::1111"], &["169.254.169.254"]] {
        let denied = vet(permitted("http").with_credential(), public).expect_err("a refusal");
        assert_eq!(denied.by, DeniedBy::Address);
        assert!(denied.message.contains("plain HTTP") && denied.hint.contains("`https`"), "{denied:?}");
        assert!(vet(permitted("https").with_credential(), public).is_ok(), "{public:?}");
        assert!(vet(permitted("http"), public).is_ok(), "{public:?}");
    }
    let ungranted = vet(permitted("http").with_credential(), &["10.2.0.1"]).expect_err("a refusal");
    assert!(ungranted.grant.is_some(), "{ungranted:?}");
}
