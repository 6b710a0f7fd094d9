use serde_json::{Value, json};

use super::*;

const CANARY: &str = "sk_live_canary";

fn bearer() -> Value {
    json!({"provider": "stripe", "kind": "bearer", "secret": CANARY, "bound_to": [{"host": "API.stripe.com"}]})
}

fn with(changes: Value) -> Value {
    let mut request = bearer();
    for (field, value) in changes.as_object().expect("fields") {
        request[field] = value.clone();
    }
    request
}

fn read(request: &Value) -> Result<NewCredential, CallError> {
    let request: CredentialRequest = serde_json::from_value(request.clone()).expect("the right fields");
    new_credential(request, &["idp.local:8080".to_owned()])
}

/// Returns the field that the error names.
fn error_field(request: &Value) -> String {
    let error = read(request).err().unwrap_or_else(|| panic!("{request} is accepted"));
    assert!(!error.hint.is_empty() && !error.message.contains(CANARY) && !error.hint.contains(CANARY));
    error.pointer().expect("a pointer").to_owned()
}

#[test]
fn a_sound_credential_is_read_into_one_form() {
    let new = read(&bearer()).expect("sound");
    assert_eq!(new.secret.expect("a secret").expose(), CANARY.as_bytes());
    assert_eq!(new.document.bound_to[0].host, "api.stripe.com");
    assert_eq!(new.document.bound_to[0].port, Some(443));
    assert!(new.document.shared);
    let anns = read(&with(json!({"user": "ann"}))).expect("sound").document;
    assert_eq!((anns.user.as_deref(), anns.shared), (Some("ann"), false));
}

#[test]
fn each_kind_has_its_own_fields_and_no_other() {
    let oauth = json!({"client_id": "c", "token_url": "https://idp.example/token", "scopes": ["read"]});
    let kinds = [
        ("api_key", json!({"header": "X-Key", "prefix": "Key "})),
        ("api_key", json!({"query": "key"})),
        ("bearer", json!({})),
        ("basic", json!({"username": "ann"})),
        ("oauth2_client_credentials", oauth.clone()),
    ];
    for (kind, fields) in kinds {
        let mut request = with(fields);
        request["kind"] = json!(kind);
        assert_eq!(read(&request).expect("sound").document.authentication.kind().as_str(), kind);
    }
    assert_eq!(error_field(&with(json!({"kind": "bearer", "username": "ann"}))), "/username");
    assert_eq!(error_field(&with(json!({"kind": "basic", "username": "ann", "header": "x"}))), "/header");
    let mut with_parameters = with(oauth.clone());
    with_parameters["kind"] = json!("oauth2_client_credentials");
    with_parameters["parameters"] = json!({"audience": "https://api.example/"});
    read(&with_parameters).expect("sound");
    for refused in [json!({"scope": "all"}), json!({"a b": "c"}), json!({"audience": "line\nend"})] {
        with_parameters["parameters"] = refused;
        assert_eq!(error_field(&with_parameters), "/parameters");
    }
    assert_eq!(error_field(&with(json!({"parameters": {"audience": "x"}}))), "/parameters");
    let mut with_end = with(oauth);
    with_end["kind"] = json!("oauth2_client_credentials");
    with_end["expires_ms"] = json!(5);
    assert_eq!(error_field(&with_end), "/expires_ms");
}

#[test]
fn what_is_missing_or_wrong_is_named_by_its_place() {
    let client = |url: &str| json!({"kind": "oauth2_client_credentials", "client_id": "c", "token_url": url, "scopes": []});
    let cases = [
        (json!({"secret": null}), "/secret"),
        (json!({"secret": ""}), "/secret"),
        (json!({"secret": format!("{CANARY}\n")}), "/secret"),
        (json!({"provider": "Stripe!"}), "/provider"),
        (json!({"bound_to": []}), "/bound_to"),
        (json!({"bound_to": [{"host": "*.stripe.com"}]}), "/bound_to/0/host"),
        (json!({"bound_to": [{"host": "a.example", "scheme": "http"}]}), "/bound_to/0/scheme"),
        (json!({"user": ""}), "/user"),
        (json!({"user": "ann", "shared": true}), "/shared"),
        (json!({"kind": "api_key"}), "/header"),
        (json!({"kind": "api_key", "header": "x", "query": "y"}), "/header"),
        (json!({"kind": "api_key", "header": "Host"}), "/header"),
        (json!({"kind": "api_key", "header": "a b"}), "/header"),
        (json!({"kind": "api_key", "header": "x-key", "prefix": "a\r\nb"}), "/prefix"),
        (json!({"kind": "api_key", "query": "a&b"}), "/query"),
        (json!({"kind": "basic"}), "/username"),
        (json!({"kind": "basic", "username": "a:b"}), "/username"),
        (json!({"kind": "oauth2_client_credentials", "token_url": "https://idp.example/"}), "/client_id"),
        (client("http://idp.example/token"), "/token_url"),
        (client("http://idp.local/token"), "/token_url"),
        (client("ftp://idp.local:8080/token"), "/token_url"),
        (client("https://user:pass@idp.example/token"), "/token_url"),
        (client("https://idp.example/token#x"), "/token_url"),
        (client("idp.example"), "/token_url"),
    ];
    for (changes, place) in cases {
        assert_eq!(error_field(&with(changes.clone())), place, "{changes}");
    }
    for url in ["https://idp.example/token", "http://idp.local:8080/token"] {
        read(&with(client(url))).unwrap_or_else(|error| panic!("{url}: {}", error.message));
    }
}

#[test]
fn a_secret_is_here_or_in_a_vault() {
    let place = "kv/tenants/acme/stripe#key";
    let oauth =
        |kind: &str| json!({"kind": kind, "client_id": "c", "token_url": "https://idp.example/token"});
    let referring = |changes: Value| {
        let mut request = with(changes);
        request["secret"] = Value::Null;
        request["vault"] = json!(place);
        request
    };
    for changes in
        [json!({}), json!({"kind": "basic", "username": "ann"}), oauth("oauth2_client_credentials")]
    {
        let new = read(&referring(changes)).expect("sound");
        assert_eq!((new.document.vault.as_deref(), new.secret.is_none()), (Some(place), true));
    }
    assert_eq!(error_field(&with(json!({"vault": place}))), "/vault");
    assert_eq!(error_field(&with(json!({"secret": null}))), "/secret");
    let mut of_person = referring(oauth("oauth2_authorization_code"));
    of_person["authorization_url"] = json!("https://idp.example/authorize");
    assert_eq!(error_field(&of_person), "/vault");
}

#[test]
fn a_public_client_needs_no_secret() {
    let mut request = with(json!({
        "kind": "oauth2_authorization_code", "client_id": "c", "token_url": "https://idp.example/token",
        "authorization_url": "https://idp.example/authorize",
    }));
    request["secret"] = Value::Null;
    assert!(read(&request).expect("sound").secret.is_none());
    request["authorization_url"] = Value::Null;
    assert_eq!(error_field(&request), "/authorization_url");
}
