//! The decision about requests, by tables of spellings and by properties.

mod addresses;
mod grants;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::descriptor::Capabilities;

/// What a call reaches whose plugin asks for everything that its grant says.
fn reach(grant: &Value) -> Reach {
    let granted = Grant::parse(&grant.to_string()).expect("a grant");
    let asked = Capabilities {
        filesystem: granted.filesystem,
        network: granted.network.clone(),
        credentials: granted.credentials.clone(),
    };
    Reach::new(Arc::new(asked), Arc::new(granted))
}

fn get(scheme: &str, authority: &str, path: &str) -> Target {
    Target::parse(scheme, authority, path, "GET").expect("a target")
}

fn denied(reach: &Reach, method: &str, url: &str) -> Option<Denied> {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let target = Target::parse(scheme, authority, path, method).expect("a target");
    reach.permit(target).err()
}

/// B3: by scheme, host, port, method and path prefix.
#[test]
fn b3_a_request_is_permitted_only_where_one_rule_allows_all_of_it() {
    let reach = reach(&json!({"network": [
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
        assert_eq!(denied(&reach, method, url), None, "{method} {url}");
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
        let denied = denied(&reach, method, url).unwrap_or_else(|| panic!("{method} {url} is permitted"));
        assert!(denied.message.contains(said), "{}: {said}", denied.message);
        assert_eq!(denied.by, DeniedBy::Plugin, "{url}");
    }
}

/// B5: the hint is what would have to be granted, and granting it is enough.
#[test]
fn b5_what_a_refusal_suggests_would_be_enough() {
    let asked = Capabilities {
        network: Grant::parse(r#"{"network":[{"host":"*.example.com"},{"scheme":"http","host":"old.example.com"}],"plain_http":["old.example.com:80"]}"#)
            .expect("a grant")
            .network,
        ..Capabilities::default()
    };
    let asked = Arc::new(asked);
    let nothing = Reach::new(Arc::clone(&asked), Arc::default());
    for url in ["https://api.example.com/points/7?secret=1", "http://old.example.com/x"] {
        let denied = denied(&nothing, "GET", url).expect("a refusal");
        assert_eq!(denied.by, DeniedBy::Grant);
        let grant = denied.grant.expect("a suggestion").to_string();
        assert!(denied.hint.contains(&grant) && !grant.contains("secret"), "{}", denied.hint);
        let granted = Reach::new(Arc::clone(&asked), Arc::new(Grant::parse(&grant).expect("a grant")));
        assert_eq!(super::tests::denied(&granted, "GET", url), None);
    }
}

/// B5: granted is not enough where it was not asked for.
#[test]
fn b5_what_a_plugin_does_not_ask_for_is_not_permitted() {
    let granted = Grant::parse(r#"{"network":[{"host":"api.example.com"}]}"#).expect("a grant");
    let reach = Reach::new(Arc::default(), Arc::new(granted.clone()));
    let refused = denied(&reach, "GET", "https://api.example.com/").expect("a refusal");
    assert_eq!(refused.by, DeniedBy::Plugin);
    let asked = Capabilities { network: granted.network.clone(), ..Capabilities::default() };
    let reach = Reach::new(Arc::new(asked), Arc::new(granted));
    assert_eq!(denied(&reach, "GET", "https://api.example.com/"), None);
}

/// Rules as documents write them.
fn rules(list: &Value) -> Option<Arc<[NetworkRule]>> {
    let grant = Grant::parse(&json!({"network": list}).to_string()).expect("a grant");
    Some(grant.network.into())
}

#[test]
fn b5_each_layer_narrows_by_itself_and_an_empty_list_leaves_nothing() {
    let whole = reach(&json!({"network": [{"host": "api.example.com"}]}));
    let narrow = rules(&json!([{"host": "api.example.com", "path": "/a"}, {"host": "b.example.com"}]));
    type Layer = (DeniedBy, &'static str, fn(Option<Arc<[NetworkRule]>>) -> Left);
    let layers: [Layer; 2] = [
        (DeniedBy::Organization, "the organization's policy", |rules| Left {
            organization: rules,
            ..Left::default()
        }),
        (DeniedBy::Agent, "the agent's document", |rules| Left { agent: rules, ..Left::default() }),
    ];
    for (by, named, left) in layers {
        let narrowed = whole.narrowed_to(left(narrow.clone()));
        assert_eq!(denied(&narrowed, "GET", "https://api.example.com/a/b"), None);
        let refused = denied(&narrowed, "GET", "https://api.example.com/b").expect("a refusal");
        assert_eq!((refused.by, refused.grant), (by, None));
        assert!(refused.hint.contains(named), "{}", refused.hint);
        assert!(denied(&narrowed, "GET", "https://b.example.com/").is_some(), "{named} widens");
        let nothing = whole.narrowed_to(left(rules(&json!([]))));
        assert!(denied(&nothing, "GET", "https://api.example.com/a").is_some());
        assert_eq!(denied(&whole.narrowed_to(left(None)), "GET", "https://api.example.com/b"), None);
    }
}

#[test]
fn b5_what_one_layer_leaves_the_other_can_still_take() {
    let whole = reach(&json!({"network": [{"host": "api.example.com"}]}));
    let narrowed = whole.narrowed_to(Left {
        organization: rules(&json!([{"host": "api.example.com", "path": "/a"}])),
        agent: rules(&json!([{"host": "api.example.com", "methods": ["GET"]}])),
    });
    let by = |method: &str, path: &str| {
        denied(&narrowed, method, &format!("https://api.example.com{path}")).map(|denied| denied.by)
    };
    assert_eq!(by("GET", "/a"), None);
    assert_eq!(by("POST", "/a"), Some(DeniedBy::Agent));
    assert_eq!(by("GET", "/b"), Some(DeniedBy::Organization));
    // Who could have said it first is named.
    assert_eq!(by("POST", "/b"), Some(DeniedBy::Organization));
}

/// G11: an approval is bound to what a call reaches, and to nothing that is said for other tools.
#[test]
fn b5_an_approval_is_bound_to_the_rules_that_matter_for_its_tool() {
    let bound = |grant: Value, list: Value| {
        reach(&grant).narrowed_to(Left { organization: rules(&list), ..Left::default() }).bound()
    };
    let granted = || json!({"network": [{"host": "*.example.com"}]});
    let all = reach(&granted()).bound();
    let some = bound(granted(), json!([{"host": "a.example.com"}]));
    assert_ne!(all, some);
    assert_eq!(some, bound(granted(), json!([{"host": "b.example"}, {"host": "a.example.com"}])));
    assert_ne!(some, bound(granted(), json!([{"host": "a.example.com", "methods": ["GET"]}])));
    assert_ne!(some, bound(granted(), json!([{"host": "*.example.com"}])));
    assert_ne!(all, bound(granted(), json!([])), "nothing is another thing than everything");
    // A tool without network is the same under every list.
    let files = || json!({"filesystem": "workspace"});
    assert_eq!(reach(&files()).bound(), bound(files(), json!([{"host": "a.example.com"}])));
    assert_ne!(reach(&files()).bound(), reach(&json!({})).bound());
}

/// K4.
#[test]
fn k4_no_credential_travels_over_plain_http() {
    let reach = reach(&json!({"network": [{"host": "a.example"}, {"scheme": "http", "host": "a.example"}],
        "plain_http": ["a.example:80"]}));
    let permitted = |scheme: &str| reach.permit(get(scheme, "a.example", "/")).expect("a permit");
    assert!(permitted("https").may_carry_credential());
    assert!(!permitted("http").may_carry_credential());
}
