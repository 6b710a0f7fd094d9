//! Credential injection: the upstream gets the secret, the guest never sees it (K2, K4).
//!
//! Runs the sandbox alone, with a callback in place of the credential store.

use std::sync::Arc;
use std::time::Duration;

use toolgate_admission::{
    CanaryDraw, Catalogue, ChargeTime, Consumer, Descriptor, Digest, Ledger, Plugin, QuotaCounters, Rates,
    Rules, SessionFacts, ToolCall, Verdict, check,
};
use toolgate_api::error::ErrorType;
use toolgate_api::grant::Grant;
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_sandbox::{
    BeforeEffect, CallContext, CallIdentity, Component, Credentials, CredentialsForRequest, EgressSettings,
    FinishedCall, Injection, InjectionPlace, Output, Sandbox, SandboxSettings, Secret, Upstreams, precompile,
};
use toolgate_tests::{guests, json};

use super::upstream::{self, Upstream};
use super::{API, with_fixture};

const SECRET: &str = "sk_live+9f8e7d6c/5b4a3=";
const BASE64: &str = "c2tfbGl2ZSs5ZjhlN2Q2Yy81YjRhMz0";

struct Harness {
    runtime: tokio::runtime::Runtime,
    sandbox: Sandbox,
    rules: Rules<Component>,
    upstreams: Upstreams,
}

impl Harness {
    fn new(upstream: &Upstream) -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let sandbox = Sandbox::new(&SandboxSettings::default()).expect("a sandbox");
        let component = sandbox.load(&precompile(guests::CALLER, None).expect("compiled")).expect("loaded");
        let described = runtime.block_on(sandbox.describe(&component, None)).expect("a description");
        let plugin = Plugin::with_trusted_hints(
            Digest::from_sha256([7; 32]),
            Arc::new(Grant::parse(&super::grant(upstream).to_string()).expect("a grant")),
            Descriptor::parse(&described).expect("a description"),
            component,
        );
        let rules = Rules::allow_all(Arc::new(Catalogue::new(LimitsPatch::new(), vec![Arc::new(plugin)])));
        let upstreams = Upstreams::new(EgressSettings {
            name_servers: vec![upstream.dns.address],
            ..EgressSettings::default()
        });
        Self { runtime, sandbox, rules, upstreams }
    }

    fn fetch(&self, credentials: Credentials, url: &str, headers: &[&str]) -> FinishedCall {
        let arguments = json!({"method": "GET", "url": url, "headers": headers}).to_string();
        let draw = CanaryDraw::SERVING;
        let call = ToolCall { tool: "caller/fetch".into(), arguments: arguments.into(), draw };
        let Verdict::Run(checked) = check(&self.rules, &SessionFacts::default(), call) else {
            panic!("it may run")
        };
        let ledger = Ledger::new(Rates::UNLIMITED, QuotaCounters::default());
        let organization = Name::parse("acme").expect("a name");
        let admitted = ledger
            .charge(Consumer::without_session(&organization), checked, ChargeTime::at(0))
            .expect("charged");
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        let context = CallContext {
            identity: acme(),
            upstreams: Some(self.upstreams.clone()),
            credentials,
            before_effect: BeforeEffect::new(|| async { Ok(()) }),
            ..CallContext::without_capabilities("c1", deadline)
        };
        self.runtime.block_on(self.sandbox.run(&admitted, context, std::pin::pin!(std::future::pending())))
    }
}

fn acme() -> Arc<CallIdentity> {
    Arc::new(CallIdentity { organization: "acme".into(), ..CallIdentity::default() })
}

fn injection(identity: &str, place: InjectionPlace, secret: &str) -> Arc<Injection> {
    let secret = Secret::new(secret.into());
    Arc::new(Injection::new("stripe".into(), identity.into(), place, secret, Vec::new()))
}

fn authorization() -> InjectionPlace {
    InjectionPlace::Header { name: "authorization".parse().expect("a name"), prefix: "Bearer ".into() }
}

/// Injects one credential into every request, and masks others in responses.
fn credentials(injected: Option<Arc<Injection>>, watched: Vec<Arc<Injection>>) -> Credentials {
    Credentials::new(move |_| {
        std::future::ready(Ok(CredentialsForRequest {
            injection: injected.clone(),
            is_renewable: false,
            scan_only: watched.clone(),
        }))
    })
}

fn bearer() -> Credentials {
    credentials(Some(injection("1", authorization(), SECRET)), Vec::new())
}

fn output(finished: &FinishedCall) -> String {
    match &finished.outcome {
        Ok(Output::Result(json) | Output::Client(json)) => json.clone(),
        Err(error) => panic!("{error:?}"),
    }
}

/// K2: the secret is sent, and masked in header fields, body and trailers of the response.
#[test]
fn k2_a_credential_is_sent_by_the_host_and_masked_in_the_response() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        fixture.upstream.answer(|_| {
            let text = format!(
                "HTTP/1.1 200 OK\r\nX-Echo: Bearer {SECRET}\r\nTransfer-Encoding: chunked\r\n\r\n\
                 8\r\n{}\r\n{:x}\r\n{} and {BASE64}= end\r\n0\r\nX-Late: {SECRET}\r\n\r\n",
                &SECRET[..8],
                SECRET.len() - 8 + " and ".len() + BASE64.len() + "= end".len(),
                &SECRET[8..],
            );
            vec![upstream::Piece::Bytes(text.into_bytes())]
        });
        let url = format!("{API}/v1/charges");
        let finished = harness.fetch(bearer(), &url, &["authorization: Bearer mine", "x-other: kept"]);
        let request = fixture.upstream.requests().pop().expect("a request");
        let authorization_lines: Vec<&str> =
            request.lines().filter(|line| line.to_ascii_lowercase().starts_with("authorization")).collect();
        assert_eq!(authorization_lines, [format!("authorization: Bearer {SECRET}")], "{request}");
        let output = output(&finished);
        let stars = "*".repeat(SECRET.len());
        assert!(output.contains(&format!("x-echo: Bearer {stars}")), "{output}");
        assert!(output.contains(&format!("{stars} and {}= end", "*".repeat(BASE64.len()))), "{output}");
        assert!(output.contains(&format!("x-late: {stars}")), "{output}");
        let effects = format!("{:?}", finished.effects);
        assert!(
            effects.contains("credential_displaced") && effects.contains("credential stripe"),
            "{effects}"
        );
        assert!(!output.contains(SECRET) && !effects.contains(SECRET));
        // Without a credential the same bytes are not masked.
        let plain = harness.fetch(Credentials::NONE, &url, &["authorization: Bearer mine"]);
        assert!(self::output(&plain).contains(SECRET));
        assert!(fixture.upstream.requests().pop().is_some_and(|request| request.contains("Bearer mine")));
    });
}

#[test]
fn k2_a_credential_can_be_sent_in_the_query() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        let place = InjectionPlace::Query { name: "api_key".into() };
        let finished = harness.fetch(
            credentials(Some(injection("1", place, SECRET)), Vec::new()),
            &format!("{API}/v1?a=1&api%5Fkey=mine&b=2"),
            &[],
        );
        output(&finished);
        let request = fixture.upstream.requests().pop().expect("a request");
        assert!(
            request.starts_with("GET /v1?a=1&b=2&api_key=sk_live%2B9f8e7d6c%2F5b4a3%3D HTTP/1.1\r\n"),
            "{request}"
        );
        let effects = format!("{:?}", finished.effects);
        assert!(
            effects.contains("credential_displaced")
                && !effects.contains("sk_live")
                && !effects.contains("mine")
        );
    });
}

const OTHER: &str = "sk_test_OF-another_2b7c";

fn show_both(fixture: &super::Fixture) {
    let page = format!("{SECRET} and {OTHER}");
    fixture.upstream.answer(move |_| upstream::ok("text/plain", &page));
}

/// K2: masks a secret that the response contains although the request did not carry it.
#[test]
fn k2_a_secret_of_another_credential_is_masked_in_the_response() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        show_both(fixture);
        let watched = || injection("2", authorization(), OTHER);
        let url = format!("{API}/log");
        let [stars, other_stars] = [SECRET, OTHER].map(|secret| "*".repeat(secret.len()));
        let carries = || {
            let request = fixture.upstream.requests().pop().expect("a request");
            (request.contains(SECRET), request.contains(OTHER), request.contains("range: "))
        };
        let asked = ["range: bytes=0-9"];
        let page = output(&harness.fetch(credentials(None, vec![watched()]), &url, &asked));
        assert!(page.contains(&format!("{SECRET} and {other_stars}")), "{page}");
        assert_eq!(carries(), (false, false, false), "a `Range` header was sent, which can split a secret");
        let one_and_other = credentials(Some(injection("1", authorization(), SECRET)), vec![watched()]);
        let page = output(&harness.fetch(one_and_other, &url, &asked));
        assert!(page.contains(&format!("{stars} and {other_stars}")), "{page}");
        assert_eq!(carries(), (true, false, false));
        let page = output(&harness.fetch(credentials(None, Vec::new()), &url, &asked));
        assert!(page.contains(&format!("{SECRET} and {OTHER}")), "{page}");
        assert_eq!(carries(), (false, false, true));
    });
}

/// K4: a secret stays hidden in content that is compressed without a label or by `Transfer-Encoding`, in fields of one
/// name, and in Base64 with line breaks. Content that the host cannot decode is refused.
#[test]
fn k4_a_secret_is_masked_however_the_response_hides_it() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        let text = format!("before {SECRET} after");
        let url = format!("{API}/");
        let stars = format!("before {} after", "*".repeat(SECRET.len()));
        let gzip = super::responses::gzip(text.as_bytes());
        let (unlabelled, coded) = (gzip.clone(), gzip);
        fixture.upstream.answer(move |_| upstream::answer(200, &[("Connection", "close")], &unlabelled));
        let page = output(&harness.fetch(bearer(), &url, &[]));
        assert!(page.contains(&stars) && !page.contains(SECRET), "{page}");
        fixture.upstream.answer(move |_| {
            let head =
                format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{:x}\r\n", coded.len());
            let body = [head.as_bytes(), &coded, b"\r\n0\r\n\r\n"].concat();
            vec![upstream::Piece::Bytes(body)]
        });
        let page = output(&harness.fetch(bearer(), &url, &[]));
        assert!(page.contains(&stars) && !page.contains(SECRET), "{page}");
        let (first, second) = SECRET.split_at(9);
        let broken = format!("{}\r\n{}", &BASE64[..7], &BASE64[7..]);
        fixture.upstream.answer(move |_| {
            let headers =
                [("X-Echo", first), ("X-Echo", second), ("X-Open", "open"), ("Connection", "close")];
            upstream::answer(200, &headers, broken.as_bytes())
        });
        let page = output(&harness.fetch(bearer(), &url, &[]));
        assert!(page.contains("x-open: open") && !page.contains(first) && !page.contains(second), "{page}");
        assert!(!page.contains(&BASE64[..7]) && !page.contains(&BASE64[7..]), "{page}");
        for (field, body, cause) in [
            ("Transfer-Encoding: br, chunked", "1\r\nx\r\n0\r\n\r\n".as_bytes(), "is coded in a way"),
            // A frame of zstd that is not whole.
            ("Content-Length: 5", &[0x28, 0xb5, 0x2f, 0xfd, 0], "its answer is broken"),
        ] {
            let bytes = [format!("HTTP/1.1 200 OK\r\n{field}\r\nConnection: close\r\n\r\n").as_bytes(), body]
                .concat();
            fixture.upstream.answer(move |_| vec![upstream::Piece::Bytes(bytes.clone())]);
            let finished = harness.fetch(bearer(), &url, &[]);
            let effects = format!("{:?}", finished.effects);
            assert!(effects.contains(cause), "{field}: {effects}");
        }
    });
}

/// The host lowercases header names, so the search for secrets in them ignores case.
#[test]
fn k2_a_header_named_like_a_secret_is_removed() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        fixture.upstream.answer(|_| {
            let headers = [(OTHER, "a"), ("X-Of-Another", "kept"), ("Connection", "close")];
            upstream::answer(200, &headers, b"")
        });
        let url = format!("{API}/");
        let page = output(&harness.fetch(
            credentials(None, vec![injection("2", authorization(), OTHER)]),
            &url,
            &[],
        ));
        assert!(page.contains("x-of-another: kept"), "{page}");
        assert!(!page.to_ascii_lowercase().contains(&OTHER.to_ascii_lowercase()), "{page}");
        let page = output(&harness.fetch(Credentials::NONE, &url, &[]));
        assert!(page.contains(&OTHER.to_ascii_lowercase()), "{page}");
    });
}

/// K3: the credential store is notified of a refused token.
#[test]
fn k3_a_refused_credential_is_reported_to_the_store() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        let refused_identities = Arc::new(std::sync::Mutex::new(Vec::new()));
        let recording = |credentials: Credentials| {
            let refused_identities = Arc::clone(&refused_identities);
            credentials.on_refusal(move |identity| {
                refused_identities.lock().expect("sound").push(identity.to_owned());
                true
            })
        };
        let url = format!("{API}/");
        for (status, injected, count) in [(403, true, 0), (401, false, 0), (401, true, 1)] {
            fixture.upstream.answer(move |_| upstream::answer(status, &[("Connection", "close")], b""));
            let injection = |identity| injection(identity, authorization(), SECRET);
            let injected = injected.then(|| injection("of this one"));
            let asked = recording(credentials(injected, vec![injection("of another")]));
            output(&harness.fetch(asked, &url, &[]));
            assert_eq!(*refused_identities.lock().expect("sound"), vec!["of this one"; count], "{status}");
        }
    });
}

/// K4: to the granted loopback address, and never to a public one. Without a credential both are reached.
#[test]
fn k4_a_credential_goes_over_plain_http_to_private_addresses_alone() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        show_both(fixture);
        let (url, name) = ("http://plain.upstream.test:8080/", "plain.upstream.test");
        let page = output(&harness.fetch(bearer(), url, &[]));
        assert!(page.contains(&format!("{} and {OTHER}", "*".repeat(SECRET.len()))), "{page}");
        assert!(fixture.upstream.requests().pop().is_some_and(|request| request.contains(SECRET)));
        // Connections are kept by credential, so another one is vetted anew.
        let another = credentials(Some(injection("another", authorization(), SECRET)), Vec::new());
        let here = fixture.upstream.address.to_string();
        let before = fixture.upstream.connections();
        for addresses in [&["8.8.8.8"][..], &[&here, "8.8.8.8"]] {
            fixture.upstream.dns.set_answers(name, &[addresses]);
            let refused = harness.fetch(another.clone(), url, &[]).outcome.expect_err("a refusal");
            assert_eq!(refused.error_type, ErrorType::NetworkDenied, "{refused:?}");
            assert!(refused.message.contains("over plain HTTP to 8.8.8.8"), "{refused:?}");
            assert!(refused.hint.contains("`https`"), "{refused:?}");
        }
        assert_eq!(fixture.upstream.connections(), before, "a connection was opened");
        fixture.upstream.dns.set_answers(name, &[&[&here]]);
        output(&harness.fetch(another, url, &[]));
        assert!(fixture.upstream.requests().pop().is_some_and(|request| request.contains(SECRET)));
    });
}

/// A connection that carried a credential is not reused without it.
#[test]
fn k2_connections_are_not_shared_between_credentials() {
    with_fixture(|fixture| {
        let harness = Harness::new(&fixture.upstream);
        fixture.upstream.answer(|_| upstream::answer(200, &[], b"kept"));
        let before = fixture.upstream.connections();
        output(&harness.fetch(bearer(), &format!("{API}/"), &[]));
        output(&harness.fetch(bearer(), &format!("{API}/"), &[]));
        assert_eq!(fixture.upstream.connections(), before + 1);
        output(&harness.fetch(Credentials::NONE, &format!("{API}/"), &[]));
        assert_eq!(fixture.upstream.connections(), before + 2);
    });
}
