use serde_json::json;

use super::testing::{Signer, set};
use super::*;

const NOW: u64 = 1_800_000_000;
const AUDIENCE: &str = "https://tools.example/mcp";

/// The claims of a valid token, with these instead. A null removes a claim.
fn claims(other: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://issuer.example", "aud": AUDIENCE, "sub": "client-1", "exp": NOW + 300, "iat": NOW,
        "toolgate_agent": "acme/bot", "scope": "a b",
    });
    for (name, value) in other.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    claims
}

fn key(jwk: Value) -> Option<Key> {
    Key::read_set(&set(&[jwk])).expect("a set").pop()
}

fn verify(token: &str, key: &Key) -> Result<Claims, InvalidToken> {
    let expected = Expected {
        audience: AUDIENCE,
        audience_claim: "aud",
        agent_claim: "toolgate_agent",
        user_claim: "sub",
    };
    UnverifiedToken::parse(token)?.verify(key, &expected, NOW * 1000)
}

/// I01: access tokens of Amazon Cognito have `client_id` and no `aud`.
#[test]
fn m2_an_issuer_that_names_its_client_alone_is_served_by_a_setting() {
    let signer = Signer::eddsa("a");
    let key = key(signer.jwk()).expect("a key");
    let token = signer.token(&claims(&json!({"aud": null, "client_id": "abc"})));
    let with = |audience_claim, audience| {
        let expected =
            Expected { audience, audience_claim, agent_claim: "toolgate_agent", user_claim: "sub" };
        UnverifiedToken::parse(&token).expect("a token").verify(&key, &expected, NOW * 1000).err()
    };
    assert_eq!(with("client_id", "abc"), None);
    assert_eq!(with("client_id", "abd"), Some(InvalidToken::Audience("abd".to_owned())));
    let refused = with("aud", AUDIENCE).expect("no audience");
    assert!(refused.to_string().contains("audience_claim = \"client_id\""), "{refused}");
}

/// I02 and I03: Keycloak nests its roles, and Entra leaves groups out for their number.
#[test]
fn o6_a_claim_is_read_by_its_path_and_one_that_is_left_out_is_told() {
    let texts = |claims: Value, claim: &str| claim_texts(claims.as_object().expect("claims"), claim);
    let some = |values: &[&str]| ClaimTexts::Texts(values.iter().map(ToString::to_string).collect());
    let keycloak = json!({"realm_access": {"roles": ["ops", "offline_access"]}});
    assert_eq!(texts(keycloak.clone(), "realm_access.roles"), some(&["ops", "offline_access"]));
    assert_eq!(texts(keycloak.clone(), "realm_access.groups"), ClaimTexts::Missing);
    assert_eq!(texts(keycloak, "groups"), ClaimTexts::Missing);
    // A claim of this name comes first: names of namespaces have dots.
    assert_eq!(texts(json!({"a.b": "c", "a": {"b": "d"}}), "a.b"), some(&["c"]));
    for claims in
        [json!({"_claim_names": {"groups": "src1"}, "_claim_sources": {}}), json!({"hasgroups": true})]
    {
        assert_eq!(texts(claims, "groups"), ClaimTexts::TooMany);
    }
    assert_eq!(texts(json!({"groups": []}), "groups"), some(&[]));
}

#[test]
fn m2_a_token_of_each_algorithm_is_valid() {
    for signer in [Signer::rs256("a"), Signer::es256("a"), Signer::eddsa("a")] {
        let token = signer.token(&claims(&json!({})));
        let key = key(signer.jwk()).expect("a key");
        assert!(key.fits(&UnverifiedToken::parse(&token).expect("a token")));
        let claims = verify(&token, &key).expect("valid");
        let (organization, agent) = (claims.organization.as_str(), claims.agent.as_str());
        assert_eq!((&*claims.subject, organization, agent), ("client-1", "acme", "bot"));
        assert_eq!((claims.expires_ms, &*claims.scopes.join(",")), ((NOW + 360) * 1000, "a,b"));
    }
}

#[test]
fn m2_a_changed_token_and_the_key_of_another_issuer_are_refused() {
    for (signer, other) in [
        (Signer::es256("a"), Signer::es256("a")),
        (Signer::eddsa("a"), Signer::eddsa("a")),
        (Signer::rs256("a"), Signer::es256("a")),
    ] {
        let token = signer.token(&claims(&json!({})));
        let own = key(signer.jwk()).expect("a key");
        verify(&token, &own).expect("valid");
        let other = key(other.jwk()).expect("a key");
        assert_eq!(verify(&token, &other), Err(InvalidToken::Signature));
        let (signed, signature) = token.rsplit_once('.').expect("parts");
        let (header, _) = signed.split_once('.').expect("parts");
        let changed = URL_SAFE_NO_PAD.encode(claims(&json!({"toolgate_agent": "acme/other"})).to_string());
        assert_eq!(verify(&format!("{header}.{changed}.{signature}"), &own), Err(InvalidToken::Signature));
        assert_eq!(verify(&format!("{signed}."), &own), Err(InvalidToken::Signature));
    }
}

#[test]
fn m2_the_header_decides_neither_algorithm_nor_extensions() {
    let signer = Signer::es256("a");
    let key = key(signer.jwk()).expect("a key");
    let with = |header: Value| verify(&signer.sign(&header, &claims(&json!({}))), &key);
    for kind in ["at+jwt", "JWT", "application/at+jwt", "AT+JWT"] {
        with(json!({"alg": "ES256", "typ": kind})).expect("valid");
    }
    with(json!({"alg": "ES256"})).expect("without a type");
    for algorithm in ["none", "None", "HS256", "HS512", "ES384", "RS512", "PS256", "es256", ""] {
        let refused = with(json!({"alg": algorithm}));
        assert_eq!(refused, Err(InvalidToken::Algorithm(algorithm.to_owned())));
    }
    // Another algorithm than that of the key.
    assert_eq!(with(json!({"alg": "EdDSA"})), Err(InvalidToken::Signature));
    for kind in [json!("id+jwt"), json!("dpop+jwt"), json!(""), json!(1), json!(null)] {
        assert!(matches!(with(json!({"alg": "ES256", "typ": kind})), Err(InvalidToken::Type(_))), "{kind}");
    }
    assert_eq!(with(json!({"alg": "ES256", "crit": ["b64"], "b64": false})), Err(InvalidToken::Critical));
    assert_eq!(with(json!({"alg": "ES256", "kid": 1})), Err(InvalidToken::Malformed));
    assert_eq!(with(json!({})), Err(InvalidToken::Malformed));
    // Symmetric: the public key as the secret of an HMAC.
    let public = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, signer.jwk().to_string().as_bytes());
    let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", text(&json!({"alg": "HS256"})), text(&claims(&json!({}))));
    let tag = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&public, signed.as_bytes()));
    let refused = verify(&format!("{signed}.{tag}"), &key);
    assert_eq!(refused, Err(InvalidToken::Algorithm("HS256".to_owned())));
}

#[test]
fn m2_every_claim_that_decides_is_required_and_has_its_type() {
    let signer = Signer::eddsa("a");
    let key = key(signer.jwk()).expect("a key");
    let with = |other: Value| verify(&signer.token(&claims(&other)), &key).err();
    let claim = |name: &str| Some(InvalidToken::Claim(name.to_owned()));
    let audience = Some(InvalidToken::Audience(AUDIENCE.to_owned()));
    let name = Some(InvalidToken::AgentName("toolgate_agent".to_owned()));
    for (other, expected) in [
        (json!({"aud": ["https://other.example", AUDIENCE]}), None),
        (json!({"aud": "https://tools.example"}), audience.clone()),
        (json!({"aud": [format!("{AUDIENCE}/")]}), audience.clone()),
        (json!({"aud": []}), audience.clone()),
        (json!({"aud": {AUDIENCE: true}}), audience),
        (json!({"aud": null}), Some(InvalidToken::NoAudience("aud".to_owned()))),
        (json!({"exp": NOW - 59}), None),
        (json!({"exp": NOW as f64 - 59.5}), Some(InvalidToken::Expired)),
        (json!({"exp": NOW as f64 - 58.5}), None),
        (json!({"exp": NOW - 60}), Some(InvalidToken::Expired)),
        (json!({"exp": u64::MAX}), None),
        (json!({"exp": null}), claim("exp")),
        (json!({"exp": "1900000000"}), claim("exp")),
        (json!({"exp": -1}), claim("exp")),
        (json!({"exp": 1e300}), claim("exp")),
        (json!({"nbf": NOW + 60}), None),
        (json!({"nbf": NOW + 61}), Some(InvalidToken::NotYetValid)),
        (json!({"nbf": "1900000000"}), claim("nbf")),
        (json!({"nbf": [NOW + 61]}), claim("nbf")),
        (json!({"sub": null}), claim("sub")),
        (json!({"sub": ""}), claim("sub")),
        (json!({"sub": "a\nb"}), claim("sub")),
        (json!({"sub": "a".repeat(256)}), claim("sub")),
        (json!({"sub": "auth0|a b#c"}), None),
        (json!({"toolgate_agent": null}), claim("toolgate_agent")),
        (json!({"toolgate_agent": ["acme/bot"]}), claim("toolgate_agent")),
        (json!({"toolgate_agent": "bot"}), name.clone()),
        (json!({"toolgate_agent": "acme/"}), name.clone()),
        (json!({"toolgate_agent": "acme/*"}), name.clone()),
        (json!({"toolgate_agent": "acme/bot/x"}), name),
    ] {
        assert_eq!(with(other.clone()), expected, "{other}");
    }
}

#[test]
fn m2_text_that_is_no_signed_jwt_is_malformed() {
    let signer = Signer::eddsa("a");
    let key = key(signer.jwk()).expect("a key");
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA"}"#);
    let token = |claims: &str| signer.sign_text(&format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims)));
    verify(&token(&claims(&json!({})).to_string()), &key).expect("valid");
    let twice = claims(&json!({})).to_string().replacen('{', r#"{"sub":"other","#, 1);
    let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    for claims in [&*twice, "[]", "1", "{", "", &format!("{{\"a\":{deep}}}")] {
        assert_eq!(verify(&token(claims), &key), Err(InvalidToken::Malformed), "{claims}");
    }
    for text in
        ["", ".", "..", "a.b.c", "a.b", &format!("{header}.e30"), &format!("{header}.e30.!!"), "....."]
    {
        assert_eq!(verify(text, &key), Err(InvalidToken::Malformed), "{text}");
    }
}

#[test]
fn m2_keys_of_other_kinds_and_uses_are_left_out() {
    let signer = Signer::es256("a");
    let with = |name: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        key(jwk).is_some()
    };
    assert!(key(signer.jwk()).is_some() && with("use", json!("sig")) && with("x5c", json!([])));
    assert!(!with("use", json!("enc")) && !with("alg", json!("ES384")) && !with("key_ops", json!(["sign"])));
    assert!(!with("crv", json!("P-384")) && !with("x", json!("AAAA")) && !with("kty", json!("oct")));
    let mut short = Signer::rs256("a").jwk();
    assert!(key(short.clone()).is_some());
    short["n"] = json!(URL_SAFE_NO_PAD.encode([0xff; 128]));
    assert!(key(short).is_none());
    assert!(key(json!({"kty": "oct", "k": "AAAA", "alg": "HS256"})).is_none());
    assert!(Key::read_set(&Map::new()).is_none());
}
