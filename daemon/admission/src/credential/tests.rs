use proptest::prelude::*;

use super::*;

const SHARED: CredentialOwner = CredentialOwner::Organization { shared: true };
const KEPT: CredentialOwner = CredentialOwner::Organization { shared: false };

fn user(name: &str) -> CredentialOwner {
    CredentialOwner::User(name.to_owned())
}

fn rule(text: &str) -> CredentialBinding {
    serde_json::from_str(text).expect("a rule")
}

fn target(scheme: &str, authority: &str, path: &str, method: &str) -> Target {
    Target::parse(scheme, authority, path, method).expect("a target")
}

fn to(path: &str) -> Target {
    target("https", "api.stripe.com", path, "GET")
}

/// Credentials of `stripe`, all bound to the same host.
struct Scene {
    credentials: Vec<(CredentialOwner, Option<Unusable>)>,
    user: Option<&'static str>,
    speaks_for_organization: bool,
    user_credentials: bool,
}

impl Scene {
    fn choose(&self) -> Result<Option<usize>, NoCredential> {
        let bound_to = [rule(r#"{"host":"api.stripe.com"}"#)];
        let candidates: Vec<_> = self
            .credentials
            .iter()
            .map(|(owner, unusable)| CredentialCandidate {
                provider: "stripe",
                owner,
                bound_to: &bound_to,
                unusable: *unusable,
            })
            .collect();
        let providers = ["stripe".to_owned()];
        let rights = CredentialRights {
            providers: &providers,
            user: self.user,
            speaks_for_organization: self.speaks_for_organization,
            user_credentials: self.user_credentials,
        };
        choose_credential(&rights, &to("/v1/charges"), &candidates)
    }
}

fn scene(user: Option<&'static str>, credentials: &[(CredentialOwner, Option<Unusable>)]) -> Scene {
    Scene { credentials: credentials.to_vec(), user, speaks_for_organization: true, user_credentials: true }
}

fn stripe() -> String {
    "stripe".to_owned()
}

#[test]
fn k5_the_sessions_user_comes_before_the_organization() {
    let both = [(SHARED, None), (user("ann"), None)];
    assert_eq!(scene(Some("ann"), &both).choose(), Ok(Some(1)));
    assert_eq!(scene(Some("bob"), &both).choose(), Ok(Some(0)));
    assert_eq!(scene(None, &both).choose(), Ok(Some(0)));
}

#[test]
fn k5_another_users_credential_is_never_taken() {
    let anns = [(user("ann"), None)];
    assert_eq!(scene(Some("bob"), &anns).choose(), Err(NoCredential::None { provider: stripe() }));
    assert_eq!(scene(None, &anns).choose(), Err(NoCredential::None { provider: stripe() }));
    assert_eq!(scene(Some("ann"), &anns).choose(), Ok(Some(0)));
}

#[test]
fn k5_a_user_gets_the_organizations_only_where_it_is_shared() {
    assert_eq!(
        scene(Some("ann"), &[(KEPT, None)]).choose(),
        Err(NoCredential::NotShared { provider: stripe() })
    );
    assert_eq!(scene(None, &[(KEPT, None)]).choose(), Ok(Some(0)));
    assert_eq!(scene(Some("ann"), &[(SHARED, None)]).choose(), Ok(Some(0)));
}

#[test]
fn k5_what_is_not_shared_serves_no_caller_who_does_not_say_for_whom() {
    let mut kept = scene(None, &[(KEPT, None)]);
    assert_eq!(kept.choose(), Ok(Some(0)));
    kept.speaks_for_organization = false;
    assert!(matches!(kept.choose(), Err(NoCredential::NotShared { .. })));
    let mut shared = scene(None, &[(SHARED, None)]);
    shared.speaks_for_organization = false;
    assert_eq!(shared.choose(), Ok(Some(0)));
}

#[test]
fn k5_a_users_credential_needs_a_grant_that_covers_users() {
    let mut anns = scene(Some("ann"), &[(user("ann"), None), (SHARED, None)]);
    assert_eq!(anns.choose(), Ok(Some(0)));
    anns.user_credentials = false;
    assert_eq!(anns.choose(), Ok(Some(1)));
}

#[test]
fn k5_nobody_stands_in_for_a_user_whose_credential_cannot_be_used() {
    let why = Unusable::Expired;
    let expired = [(user("ann"), Some(why)), (SHARED, None)];
    assert_eq!(
        scene(Some("ann"), &expired).choose(),
        Err(NoCredential::Unusable { provider: stripe(), why })
    );
    assert_eq!(scene(Some("bob"), &expired).choose(), Ok(Some(1)));
}

#[test]
fn a_credential_of_a_provider_that_is_not_granted_is_not_taken() {
    let bound_to = [rule(r#"{"host":"api.stripe.com"}"#)];
    let candidate =
        CredentialCandidate { provider: "stripe", owner: &SHARED, bound_to: &bound_to, unusable: None };
    let choose = |providers: &[String]| {
        let rights =
            CredentialRights { providers, user: None, speaks_for_organization: true, user_credentials: true };
        choose_credential(&rights, &to("/"), &[candidate])
    };
    assert_eq!(choose(&[]), Ok(None));
    assert_eq!(choose(&["resend".to_owned()]), Err(NoCredential::None { provider: "resend".to_owned() }));
    assert_eq!(choose(&[stripe()]), Ok(Some(0)));
}

fn is_taken(binding: &str, target: &Target) -> bool {
    let bound_to = check_bound_to(&[rule(binding)], &["old.example".to_owned()]).expect("a sound binding");
    let candidate =
        CredentialCandidate { provider: "stripe", owner: &SHARED, bound_to: &bound_to, unusable: None };
    let providers = [stripe()];
    let rights = CredentialRights {
        providers: &providers,
        user: None,
        speaks_for_organization: true,
        user_credentials: true,
    };
    choose_credential(&rights, target, &[candidate]) == Ok(Some(0))
}

#[test]
fn k2_a_credential_goes_only_where_it_is_bound_to() {
    let binding = r#"{"host":"API.stripe.com","methods":["GET"],"path":"/v1"}"#;
    assert!(is_taken(binding, &to("/v1")));
    assert!(is_taken(binding, &to("/v1/charges")));
    let other = |scheme, authority, path, method| is_taken(binding, &target(scheme, authority, path, method));
    assert!(other("https", "api.stripe.com", "/v1/charges", "GET"));
    assert!(!other("http", "api.stripe.com:443", "/v1/charges", "GET"));
    assert!(!other("https", "stripe.com", "/v1/charges", "GET"));
    assert!(!other("https", "api.stripe.com.evil.example", "/v1/charges", "GET"));
    assert!(!other("https", "api.stripe.com:8443", "/v1/charges", "GET"));
    assert!(!other("https", "api.stripe.com", "/v1/charges", "POST"));
    assert!(!other("https", "api.stripe.com", "/v2", "GET"));
    assert!(!other("https", "api.stripe.com", "/v10", "GET"));
}

/// An ambiguous path is not a target, so that no binding has to handle it.
#[test]
fn whatever_can_be_sent_below_a_path_is_below_it() {
    let binding = r#"{"host":"api.stripe.com","path":"/v1/"}"#;
    for path in
        ["/v1/../admin", "/v1/%2e%2e/admin", "/v1//admin", "/v1/..%2fadmin", "/v1/..;/admin", "/v1/%5c"]
    {
        assert!(Target::parse("https", "api.stripe.com", path, "GET").is_err(), "{path}");
    }
    for path in ["/v1/a.b/c..d/%20", "/v1/a%2Fb", "/v1/a;b"] {
        assert!(is_taken(binding, &to(path)), "{path}");
    }
}

#[test]
fn of_two_bindings_the_closer_one_is_taken() {
    let wide = [rule(r#"{"host":"api.stripe.com"}"#)];
    let close = [rule(r#"{"host":"api.stripe.com","path":"/v1/connect/"}"#)];
    let candidates = [&wide, &close].map(|bound_to| CredentialCandidate {
        provider: "stripe",
        owner: &SHARED,
        bound_to,
        unusable: None,
    });
    let providers = [stripe()];
    let rights = CredentialRights {
        providers: &providers,
        user: None,
        speaks_for_organization: true,
        user_credentials: true,
    };
    assert_eq!(choose_credential(&rights, &to("/v1/connect/a"), &candidates), Ok(Some(1)));
    assert_eq!(choose_credential(&rights, &to("/v1/charges"), &candidates), Ok(Some(0)));
}

#[test]
fn a_request_to_another_place_goes_without() {
    let bound_to = [rule(r#"{"host":"api.stripe.com"}"#)];
    let candidate =
        CredentialCandidate { provider: "stripe", owner: &SHARED, bound_to: &bound_to, unusable: None };
    let providers = [stripe()];
    let rights = CredentialRights {
        providers: &providers,
        user: None,
        speaks_for_organization: true,
        user_credentials: true,
    };
    let elsewhere = target("https", "cdn.example", "/logo.png", "GET");
    assert_eq!(choose_credential(&rights, &elsewhere, &[candidate]), Ok(None));
}

#[test]
fn k4_a_credential_is_bound_to_plain_http_only_where_the_operator_named_the_host() {
    let named = ["printer.local:631".to_owned(), "old.example".to_owned()];
    let check = |text: &str| check_bound_to(&[rule(text)], &named);
    assert!(check(r#"{"scheme":"http","host":"printer.local","port":631}"#).is_ok());
    assert!(check(r#"{"scheme":"http","host":"OLD.example"}"#).is_ok());
    for text in [
        r#"{"scheme":"http","host":"printer.local"}"#,
        r#"{"scheme":"http","host":"old.example","port":8080}"#,
        r#"{"scheme":"http","host":"other.example"}"#,
    ] {
        assert_eq!(check(text).expect_err("plain HTTP").place, "/0/scheme", "{text}");
    }
}

#[test]
fn a_binding_that_could_mean_more_than_it_says_is_refused() {
    let cases = [
        (r#"{"host":"*.stripe.com"}"#, "/0/host"),
        (r#"{"host":""}"#, "/0/host"),
        (r#"{"host":"api.stripe.com."}"#, "/0/host"),
        (r#"{"host":"user@api.stripe.com"}"#, "/0/host"),
        (r#"{"host":"api.stripe.com:443"}"#, "/0/host"),
        (r#"{"host":"bücher.example"}"#, "/0/host"),
        (r#"{"host":"[::1"}"#, "/0/host"),
        (r#"{"host":"[0::1]"}"#, "/0/host"),
        (r#"{"host":"0x7f.1"}"#, "/0/host"),
        (r#"{"host":"a.example","methods":[]}"#, "/0/methods"),
        (r#"{"host":"a.example","methods":["get"]}"#, "/0/methods"),
        (r#"{"host":"a.example","path":"v1/"}"#, "/0/path"),
        (r#"{"host":"a.example","path":"/v1/../"}"#, "/0/path"),
        (r#"{"host":"a.example","path":"/v1?x"}"#, "/0/path"),
    ];
    for (text, place) in cases {
        assert_eq!(check_bound_to(&[rule(text)], &[]).expect_err(text).place, place, "{text}");
    }
    assert_eq!(check_bound_to(&[], &[]).expect_err("nothing").place, "");
    assert!(check_bound_to(&[rule(r#"{"host":"[::1]","methods":["GET"],"path":"/v1/"}"#)], &[]).is_ok());
}

#[test]
fn each_refusal_has_its_code_and_a_way_out() {
    let provider = stripe;
    let cases = [
        (NoCredential::None { provider: provider() }, ErrorType::CredentialMissing),
        (NoCredential::NotShared { provider: provider() }, ErrorType::CredentialMissing),
        (
            NoCredential::Unusable { provider: provider(), why: Unusable::Pending },
            ErrorType::CredentialMissing,
        ),
        (
            NoCredential::Unusable { provider: provider(), why: Unusable::Expired },
            ErrorType::CredentialMissing,
        ),
        (
            NoCredential::Unusable { provider: provider(), why: Unusable::Revoked },
            ErrorType::CredentialMissing,
        ),
        (NoCredential::Unusable { provider: provider(), why: Unusable::Sealed }, ErrorType::Unavailable),
    ];
    for (refused, error_type) in cases {
        let error = CallError::from(refused);
        assert_eq!(error.error_type, error_type);
        assert!(!error.hint.is_empty());
    }
}

fn any_owner() -> impl Strategy<Value = CredentialOwner> {
    prop_oneof![
        any::<bool>().prop_map(|shared| CredentialOwner::Organization { shared }),
        prop_oneof![Just("ann"), Just("bob")].prop_map(user),
    ]
}

fn any_rule() -> impl Strategy<Value = CredentialBinding> {
    let path = prop_oneof![Just(None), Just(Some("/")), Just(Some("/a")), Just(Some("/a/"))];
    (prop_oneof![Just("one.example"), Just("two.example")], path, any::<bool>()).prop_map(
        |(host, path, posts)| CredentialBinding {
            scheme: NetworkScheme::Https,
            host: host.to_owned(),
            port: None,
            methods: posts.then(|| vec!["POST".to_owned()]),
            path: path.map(str::to_owned),
        },
    )
}

proptest! {
    /// The chosen credential is granted, usable, of the organization or of this user, and bound to the target's host.
    #[test]
    fn what_is_chosen_is_always_allowed(
        owners in prop::collection::vec((any_owner(), any_rule(), any::<bool>(), any::<bool>()), 0..6),
        asks in prop_oneof![Just(None), Just(Some("ann")), Just(Some("bob"))],
        speaks_for_organization: bool,
        user_credentials: bool,
        path in "/(a|b)?(/[ab]{1,2})?",
        method in prop_oneof![Just("GET"), Just("POST")],
    ) {
        let providers = [stripe()];
        let rights = CredentialRights { providers: &providers, user: asks, speaks_for_organization, user_credentials };
        let candidates: Vec<_> = owners
            .iter()
            .map(|(owner, rule, granted, usable)| CredentialCandidate {
                provider: if *granted { "stripe" } else { "other" },
                owner,
                bound_to: std::slice::from_ref(rule),
                unusable: (!usable).then_some(Unusable::Expired),
            })
            .collect();
        prop_assume!(!path.starts_with("//"));
        let target = target("https", "one.example", &path, method);
        if let Ok(Some(index)) = choose_credential(&rights, &target, &candidates) {
            let (owner, rule, granted, usable) = &owners[index];
            prop_assert!(*granted && *usable && rule.host == "one.example");
            prop_assert!(rule.methods.is_none() || method == "POST");
            prop_assert!(path.starts_with(rule.path.as_deref().unwrap_or("")));
            match owner {
                CredentialOwner::User(name) => prop_assert!(user_credentials && asks == Some(name.as_str())),
                CredentialOwner::Organization { shared } => {
                    prop_assert!(*shared || asks.is_none() && speaks_for_organization);
                },
            }
        }
    }
}
