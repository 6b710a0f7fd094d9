//! Sign-in, sessions, cookies, CSRF and headers.

use toolgate_tests::{Client, Daemon, Reply, json, wait};

use crate::person::{Form, Person, SIGN_IN, attributes};
use crate::{PROGRAM, Tenant, with_fixture};

const SIGN_OUT: &str = "/console/sign-out";

/// Asserts that a page asks to sign in.
#[track_caller]
fn expect_sign_in(reply: &Reply) {
    assert_eq!(reply.status, 303, "{}", reply.text());
    let location = reply.header("location").expect("a location");
    assert!(location.starts_with(SIGN_IN), "{location}");
}

#[test]
fn o6_a_person_signs_in_with_a_token_and_out_again() {
    with_fixture(|fixture| {
        let person = Person::new(&fixture.daemon);
        expect_sign_in(&person.get("/console"));
        let token = fixture.daemon.operator_token();
        let reply = person.try_sign_in(&token).expect(303);
        let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/console"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        // Plain HTTP on loopback.
        assert!(!cookie.contains("Secure") && !cookie.contains("Domain"), "{cookie}");
        assert!(!cookie.contains(&token), "{cookie}");
        let page = person.page("/console");
        assert!(!page.contains(&token));
        let thief = person.copy();
        thief.page("/console");
        person.submit(&Form::find(&page, SIGN_OUT)).expect(303);
        assert!(person.cookie.borrow().is_none(), "the cookie is cleared");
        expect_sign_in(&thief.get("/console"));
    });
}

#[test]
fn o6_the_cookie_is_secure_where_the_daemon_has_a_public_name() {
    let daemon = Daemon::start(PROGRAM, "allowed_hosts = [\"127.0.0.1\", \"tools.example\"]\n");
    let person = Person::new(&daemon);
    let reply = person.try_sign_in(&daemon.operator_token()).expect(303);
    let cookie = reply.header("set-cookie").expect("a cookie");
    assert!(cookie.starts_with("__Host-toolgate-console=") && cookie.contains("Path=/; Secure;"), "{cookie}");
    person.page("/console");
}

#[test]
fn o6_a_wrong_token_gives_no_session_and_is_not_shown() {
    with_fixture(|fixture| {
        let person = Person::new(&fixture.daemon);
        for wrong in ["", "tg_wrong", "\"><script>alert(1)</script>", &"x".repeat(10_000)] {
            let reply = person.try_sign_in(wrong);
            assert_eq!(reply.status, 401, "{}", reply.text());
            assert!(reply.header("set-cookie").is_none());
            let page = reply.text();
            assert!(wrong.is_empty() || !page.contains(wrong), "{page}");
            // The form is there to try again.
            Form::find(&page, SIGN_IN);
        }
        assert_eq!(person.try_sign_in(&"x".repeat(20_000)).status, 413);
        person.try_sign_in(&fixture.daemon.operator_token()).expect(303);
    });
}

#[test]
fn o6_each_sign_in_has_a_new_cookie() {
    with_fixture(|fixture| {
        let token = fixture.daemon.operator_token();
        let person = Person::sign_in(&fixture.operator);
        let name = person.cookie.borrow().clone().expect("a cookie");
        let name = name.split('=').next().expect("a name").to_owned();
        // A cookie that another party has set is not taken over.
        let fixed = format!("{name}={}", "A".repeat(43));
        let victim = Person::new(&fixture.daemon);
        *victim.cookie.borrow_mut() = Some(fixed.clone());
        let attacker = victim.copy();
        victim.try_sign_in(&token).expect(303);
        assert_ne!(*victim.cookie.borrow(), Some(fixed));
        victim.page("/console");
        expect_sign_in(&attacker.get("/console"));
        // A second sign-in of this browser has another one.
        let before = victim.cookie.borrow().clone();
        victim.submit(&again(&victim, &token)).expect(303);
        assert_ne!(*victim.cookie.borrow(), before);
        victim.page("/console");
    });
}

/// The form of the page for a sign-in, as a person without a session gets it.
fn again(person: &Person, token: &str) -> Form {
    let stranger = person.copy();
    *stranger.cookie.borrow_mut() = None;
    Form::find(&stranger.page(SIGN_IN), SIGN_IN).with("token", token)
}

#[test]
fn o6_a_cookie_is_no_token_and_a_token_is_no_cookie() {
    with_fixture(|fixture| {
        let person = Person::sign_in(&fixture.operator);
        let cookie = person.cookie.borrow().clone().expect("a cookie");
        let anyone = fixture.daemon.anonymous();
        anyone.send("GET", "/v1/tokens", &[("Cookie", &cookie)], b"").expect_refusal(401, "UNAUTHENTICATED");
        let value = cookie.split('=').next_back().expect("a value");
        Client::new(fixture.daemon.address, Some(value))
            .get("/v1/tokens")
            .expect_refusal(401, "UNAUTHENTICATED");
        expect_sign_in(&fixture.operator.get("/console"));
    });
}

#[test]
fn o6_the_session_ends_with_its_token() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let made =
            fixture.operator.post("/v1/tokens", &json!({"role": "owner", "organization": tenant.name}));
        let made = made.expect(201).json();
        let client = Client::new(fixture.daemon.address, made["token"].as_str());
        let (person, other) = (Person::sign_in(&client), Person::sign_in(&tenant.owner));
        person.page("/console");
        let id = made["id"].as_str().expect("an id");
        fixture.operator.delete(&format!("/v1/tokens/{id}")).expect(204);
        expect_sign_in(&person.get("/console"));
        other.page("/console");
        let refused = Person::new(&fixture.daemon).try_sign_in(made["token"].as_str().expect("a token"));
        assert_eq!(refused.status, 401);
    });
}

#[test]
fn o6_a_token_of_another_network_gives_no_session() {
    with_fixture(|fixture| {
        let bound = |network: &str| {
            let request = json!({"role": "auditor", "addresses": [network]});
            fixture.operator.with_new_token(&request)
        };
        let foreign = bound("192.0.2.0/24").token.expect("a token");
        let refused = Person::new(&fixture.daemon).try_sign_in(&foreign);
        assert!(matches!(refused.status, 401 | 403), "{}", refused.text());
        assert!(refused.header("set-cookie").is_none());
        Person::sign_in(&bound("127.0.0.0/8")).page("/console");
    });
}

#[test]
fn o6_the_requests_of_the_script_keep_no_session_open() {
    let daemon = Daemon::start(PROGRAM, "[console]\nidle_seconds = 1\n");
    let person = Person::sign_in(&daemon.operator());
    let fragment = || person.get("/console/approvals/fragment").status;
    wait::until_true("the session to be idle", || fragment() == 303);
    expect_sign_in(&person.get("/console"));
    // The new session is as short, so that a busy machine may need another one.
    wait::until_true("the page of a new session", || {
        person.submit(&again(&person, &daemon.operator_token())).expect(303);
        person.get("/console").status == 200
    });
}

#[test]
fn o6_no_session_is_longer_than_the_setting() {
    let daemon = Daemon::start(PROGRAM, "[console]\nlongest_seconds = 1\n");
    let person = Person::sign_in(&daemon.operator());
    wait::until_true("the session to end", || person.get("/console").status == 303);
}

#[test]
fn o6_a_form_without_its_csrf_token_or_from_elsewhere_changes_nothing() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let (person, other) = (Person::sign_in(&tenant.owner), Person::sign_in(&tenant.owner));
        let form = Form::find(&person.page("/console"), SIGN_OUT);
        let foreign = Form::find(&other.page("/console"), SIGN_OUT);
        let csrf = form.field("csrf").expect("a CSRF token").to_owned();
        assert_ne!(foreign.field("csrf"), Some(csrf.as_str()), "each session has its own");
        let forged = [
            form.clone().without("csrf"),
            form.clone().with("csrf", ""),
            form.clone().with("csrf", &"0".repeat(csrf.len())),
            foreign,
        ];
        for forged in forged {
            assert_eq!(person.submit(&forged).status, 403, "{forged:?}");
        }
        let own = person.origin();
        for headers in [
            &[("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")][..],
            &[("Origin", "https://evil.example")],
            &[("Origin", "null")],
            &[("Origin", own.as_str()), ("Sec-Fetch-Site", "cross-site")],
            &[("Sec-Fetch-Site", "same-site")],
            &[("Sec-Fetch-Site", "none")],
            &[],
        ] {
            assert_eq!(person.submit_with(&form, headers).status, 403, "{headers:?}");
        }
        // Nothing happened: the session is still there, and the form works.
        person.page("/console");
        person.submit(&form).expect(303);
        expect_sign_in(&person.get("/console"));
    });
}

#[test]
fn o6_nobody_signs_another_person_in() {
    with_fixture(|fixture| {
        let person = Person::new(&fixture.daemon);
        let page = person.page(SIGN_IN);
        let form = Form::find(&page, SIGN_IN).with("token", &fixture.daemon.operator_token());
        let refused = person.submit_with(&form, &[("Origin", "https://evil.example")]);
        assert_eq!(refused.status, 403);
        assert!(refused.header("set-cookie").is_none());
        person.submit(&form).expect(303);
    });
}

#[test]
fn o6_a_sign_in_leads_to_pages_of_the_console_alone() {
    with_fixture(|fixture| {
        let token = fixture.daemon.operator_token();
        let go = |next: &str| {
            let person = Person::new(&fixture.daemon);
            let page = person.page(&format!("{SIGN_IN}?next={next}"));
            let reply = person.submit(&Form::find(&page, SIGN_IN).with("token", &token)).expect(303);
            reply.header("location").expect("a location").to_owned()
        };
        assert_eq!(go("/console/approvals"), "/console/approvals");
        for foreign in [
            "https://evil.example/",
            "//evil.example/console/",
            "/%5Cevil.example",
            "%5C%5Cevil.example",
            "/console/..%2F..%2F%2Fevil.example",
            "/console%2F..%2F..%2F%2Fevil.example",
            "/console/%0d%0aLocation:%20https://evil.example",
            "/console@evil.example",
            "javascript:alert(1)",
            "/v1/tokens",
            "/console/%252e%252e/v1/tokens",
        ] {
            let location = go(foreign);
            assert!(location == "/console" || location == "/console/", "{foreign} leads to {location}");
        }
    });
}

#[test]
fn o6_a_link_of_another_site_opens_the_page_with_the_session_of_the_browser() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let address = "/console/calls?status=error";
        // A browser sends no cookie that is `SameSite=Strict` from there.
        let browser = Person::new(&fixture.daemon);
        let open = |path: &str, site: &str| browser.get_with(path, &[("Sec-Fetch-Site", site)]);
        let page = open(address, "cross-site").expect(200).text();
        assert!(attributes(&page, "content").contains(&format!("0;url={address}")), "{page}");
        assert!(attributes(&page, "href").iter().any(|link| link == address), "without a refresh: {page}");
        // From that page it sends the cookie, if it has one.
        Person::sign_in(&tenant.owner).page(address);
        for (path, site) in
            [(address, "same-origin"), (address, "none"), ("/console/live/fragment", "cross-site")]
        {
            expect_sign_in(&open(path, site));
        }
    });
}

#[test]
fn o6_each_answer_has_the_headers_that_protect_it() {
    with_fixture(|fixture| {
        let person = Person::sign_in(&fixture.operator);
        let stranger = Person::new(&fixture.daemon);
        for (person, path) in [
            (&stranger, SIGN_IN),
            (&stranger, "/console"),
            (&stranger, "/console/approvals/a_none?once=none"),
            (&person, "/console"),
            (&person, "/console/approvals"),
            (&person, "/console/approvals/a_none"),
            (&person, "/console/none"),
            (&person, "/console/calls?limit=nothing"),
        ] {
            let reply = person.get(path);
            let header = |name: &str| reply.header(name).unwrap_or_else(|| panic!("{path} has no {name}"));
            let policy = header("content-security-policy");
            for part in [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "form-action 'self'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
            ] {
                assert!(policy.contains(part), "{path}: {policy}");
            }
            assert!(!policy.contains("unsafe"), "{path}: {policy}");
            assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(header("cache-control"), "no-store", "{path}");
            assert_eq!(header("cross-origin-opener-policy"), "same-origin", "{path}");
            // With `no-referrer`, browsers send `Origin: null` with forms.
            let referrer = if path.contains("once=") { "strict-origin" } else { "same-origin" };
            assert_eq!(header("referrer-policy"), referrer, "{path}");
        }
    });
}

#[test]
fn o6_sessions_of_one_token_are_bounded() {
    with_fixture(|fixture| {
        let tenant: Tenant = fixture.tenant();
        let first = Person::sign_in(&tenant.owner);
        let others: Vec<Person> = (0..64).map(|_| Person::sign_in(&tenant.owner)).collect();
        expect_sign_in(&first.get("/console"));
        others.last().expect("a session").page("/console");
    });
}

#[test]
fn o6_the_console_can_be_switched_off() {
    let daemon = Daemon::start(PROGRAM, "[console]\nenabled = false\n");
    for path in ["/console", SIGN_IN, "/console/approvals"] {
        assert_eq!(daemon.anonymous().get(path).status, 404, "{path}");
    }
    daemon.operator().get("/v1/tokens").expect(200);
}
