//! HTTP requests of tools, with the test network.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_sdk::testing::{self, Reply};
use toolgate_sdk::{Error, http, tool};

const URL: &str = "https://api.example.com/v1/points";

fn respond_with(reply: Reply) -> testing::Network {
    testing::network(move |_| Ok(reply.clone()))
}

fn fail_with(error: http::Error) -> testing::Network {
    testing::network(move |_| Err(error.clone()))
}

#[test]
fn t2_a_request_is_sent_as_it_is_written() {
    let network = respond_with(Reply::new(204));
    let response = http::post(URL)
        .header("X-Trace", 7)
        .query("q", "a b&c")
        .query("page", 2)
        .timeout(Duration::from_secs(3))
        .json(&json!({"name": "Ada"}))
        .send()
        .unwrap();

    assert_eq!((response.status(), response.is_success()), (204, true));
    assert_eq!(response.url(), "https://api.example.com/v1/points?q=a+b%26c&page=2");
    let sent = &network.sent()[0];
    assert_eq!((sent.method(), sent.url()), ("POST", response.url()));
    assert_eq!(sent.header("x-trace"), Some("7"));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.json(), json!({"name": "Ada"}));
    assert_eq!(sent.timeout(), Some(Duration::from_secs(3)));
}

#[test]
fn t2_every_common_method_and_form_can_be_sent() {
    let network = respond_with(Reply::new(200));
    for request in [http::get(URL), http::head(URL), http::put(URL), http::patch(URL), http::delete(URL)] {
        let _ = request.send().unwrap();
    }
    let _ = http::request("OPTIONS", URL).form([("a", "1 2"), ("b", "&")]).send().unwrap();
    let _ = http::post(URL).header("content-type", "text/csv").body("a,b").send().unwrap();

    let sent = network.sent();
    let methods: Vec<&str> = sent.iter().map(testing::Sent::method).collect();
    assert_eq!(methods, ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "POST"]);
    assert_eq!(sent[5].body(), b"a=1+2&b=%26");
    assert_eq!((sent[6].body(), sent[6].header("Content-Type")), (&b"a,b"[..], Some("text/csv")));
}

#[test]
fn t2_an_invalid_request_is_not_sent() {
    let network = respond_with(Reply::new(200));
    let problem = |request: http::Request| request.send().unwrap_err();
    assert!(matches!(problem(http::get("api.example.com")), http::Error::InvalidUrl { .. }));
    let unfinished = std::collections::BTreeMap::from([(vec![1], 1)]);
    for request in [
        http::request("GET /", URL),
        http::get(URL).header("a b", 1),
        http::get(URL).header("a", "b\r\nc: d"),
        http::get(URL).json(&unfinished),
    ] {
        let error = problem(request);
        assert!(matches!(error, http::Error::InvalidRequest { .. }), "{error}");
        assert!(!error.is_retryable());
    }
    assert_eq!(network.sent(), []);
}

#[test]
fn t2_a_response_is_read_as_json_text_and_bytes() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Point {
        x: i32,
    }
    let reply = Reply::json(&json!({"x": 3})).header("ETag", "abc");
    let _network = respond_with(reply);
    let send = || http::get(URL).send().unwrap();

    assert_eq!(send().json::<Point>().unwrap(), Point { x: 3 });
    assert_eq!(send().text().unwrap(), r#"{"x":3}"#);
    assert_eq!(send().bytes().unwrap(), br#"{"x":3}"#);
    assert_eq!(send().header("etag"), Some("abc"));
    let mut read = String::new();
    send().into_reader().read_to_string(&mut read).unwrap();
    assert_eq!(read, r#"{"x":3}"#);
}

#[test]
fn t2_text_is_decoded_with_the_charset_of_the_response() {
    for (content_type, bytes, text) in [
        ("text/plain", "é\u{1F600}".as_bytes(), "é😀"),
        ("text/plain; charset=UTF-8", b"\xef\xbb\xbfa", "a"),
        ("text/plain", b"a\xff", "a\u{fffd}"),
        ("text/plain; Charset=\"ISO-8859-1\"", b"\xe9\x80", "é€"),
    ] {
        let _network = respond_with(Reply::new(200).header("content-type", content_type).body(bytes));
        assert_eq!(http::get(URL).send().unwrap().text().unwrap(), text, "{content_type}");
    }
    let _network = respond_with(Reply::new(200).header("content-type", "text/plain; charset=koi8-r"));
    let error = http::get(URL).send().unwrap().text().unwrap_err();
    assert!(matches!(error, http::Error::Unreadable { .. }), "{error}");
}

#[test]
fn t2_a_body_beyond_the_limit_is_an_error() {
    let _network = respond_with(Reply::text(&"x".repeat(40_000)));
    let send = |max_bytes| http::get(URL).max_body_bytes(max_bytes).send().unwrap();

    assert_eq!(send(40_000).bytes().unwrap().len(), 40_000);
    let error = send(39_999).text().unwrap_err();
    assert_eq!(error, http::Error::TooLarge { host: "api.example.com".to_owned(), max_bytes: 39_999 });
    assert_eq!(send(0).bytes_up_to(7).unwrap(), (b"xxxxxxx".to_vec(), false));
    assert!(send(0).bytes_up_to(40_000).unwrap().1);
    let huge = respond_with(Reply::new(200).body(vec![b'x'; http::MAX_BODY_BYTES + 1]));
    assert!(matches!(http::get(URL).send().unwrap().bytes(), Err(http::Error::TooLarge { .. })));
    drop(huge);
}

#[test]
fn t2_an_error_status_becomes_a_failure_that_says_whether_to_retry() {
    /// Asks.
    #[tool(read_only)]
    fn ask() -> Result<String, Error> {
        Ok(http::get(URL).send()?.error_for_status()?.text()?)
    }
    let call = || testing::call::<ask>(&testing::context().build(), json!({}));

    let busy = respond_with(Reply::text("try\n later").status(503).header("Retry-After", "2"));
    let error = call().unwrap_err();
    assert_eq!(error.message(), "`api.example.com` answered with status 503: try later");
    assert!(error.is_retryable());
    assert_eq!(error.details(), Some(&json!({"status": 503, "retry_after_ms": 2000})));
    drop(busy);
    for (date, is_later) in
        [("Sun, 06 Nov 1994 08:49:37 GMT", false), ("Fri, 31 Dec 9999 23:59:59 GMT", true)]
    {
        let busy = respond_with(Reply::text("later").status(503).header("Retry-After", date));
        let error = call().unwrap_err();
        drop(busy);
        let wait = error.details().unwrap()["retry_after_ms"].as_u64();
        assert_eq!(wait.map(|wait| wait > 0), Some(is_later), "{date}");
    }

    // A server may send any number.
    let busy = respond_with(Reply::new(429).header("Retry-After", &u64::MAX.to_string()));
    assert_eq!(call().unwrap_err().details().unwrap()["retry_after_ms"], u64::MAX);
    drop(busy);

    let missing = respond_with(Reply::new(404).header("content-type", "text/html").body("<html>"));
    let error = call().unwrap_err();
    assert!(!error.is_retryable());
    drop(missing);

    let _fine = respond_with(Reply::text("fine"));
    assert_eq!(call(), Ok(json!("fine")));
}

#[test]
fn t2_the_message_of_an_html_page_is_its_title_or_first_words() {
    let message = |content_type: &str, content: &str| {
        let _network = respond_with(Reply::new(403).header("content-type", content_type).body(content));
        http::get(URL).send().unwrap().error_for_status().unwrap_err().to_string()
    };
    let answered = "`api.example.com` answered with status 403";
    for (page, says) in [
        ("<html><head><Title lang=en>Access\n denied</TITLE></head><h1>No</h1>", ": Access denied"),
        (
            "<script>if (a<b) no()</script><style>p {}</style><!-- <p>no --><h1>Not <b>here</b></h1>",
            ": Not here",
        ),
        ("<title> </title><p>a &lt; b", ": a &lt; b"),
        ("<p>cut <a href='", ": cut"),
        ("<script>no end", ""),
        ("<title>no end", ": no end"),
        ("<p>", ""),
    ] {
        assert_eq!(message("text/html; charset=utf-8", page), format!("{answered}{says}"), "{page}");
    }
    let long = message("application/xhtml+xml", &format!("<title>{}</title>", "é ".repeat(200)));
    assert!(long.ends_with("é …") && long.chars().count() < 160, "{long}");
    assert_eq!(message("image/png", "<title>no</title>"), answered);
}

#[test]
fn t2_a_connection_failure_keeps_its_kind() {
    use http::Unavailable::{Broken, Connect, Dns, Limit, Timeout, Tls};
    let host = || "api.example.com".to_owned();
    for (why, retryable) in
        [(Dns, true), (Connect, true), (Timeout, true), (Broken, true), (Tls, false), (Limit, false)]
    {
        let _network = fail_with(http::Error::Unavailable { host: host(), why });
        let error = http::get(URL).send().unwrap_err();
        assert_eq!(Error::from(error).is_retryable(), retryable, "{why:?}");
    }
    let _network = fail_with(http::Error::Denied { host: host() });
    let error = Error::from(http::get(URL).send().unwrap_err());
    assert_eq!(error.message(), "this tool may not send this request to `api.example.com`");
    assert!(!error.is_retryable());
}

#[test]
fn t2_a_failed_request_inside_another_error_still_says_whether_to_retry() {
    #[derive(Debug)]
    struct Lookup(http::Error);
    impl std::fmt::Display for Lookup {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("no price")
        }
    }
    impl std::error::Error for Lookup {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let why = http::Unavailable::Timeout;
    let error = Error::from(Lookup(http::Error::Unavailable { host: "a.example".to_owned(), why }));

    assert_eq!(error.message(), "no price: `a.example` cannot be used: it did not answer in time");
    assert!(error.is_retryable());
}

#[test]
fn t2_an_incomplete_body_is_an_error() {
    let broken = http::Error::Unavailable { host: "a".to_owned(), why: http::Unavailable::Broken };
    let _network = respond_with(Reply::text("half").breaks(broken.clone()));
    let send = || http::get(URL).send().unwrap();

    assert_eq!(send().text(), Err(broken));
    assert!(send().into_reader().read_to_end(&mut Vec::new()).is_err());
    assert_eq!(send().bytes_up_to(3).unwrap(), (b"hal".to_vec(), false));
}

#[test]
fn t2_an_async_request_returns_the_response_with_its_body() {
    /// Asks twice.
    #[tool(read_only)]
    async fn ask() -> Result<Value, Error> {
        let (first, second) = (http::get(URL).send_async().await?, http::get(URL).send_async().await?);
        Ok(json!([first.json::<Value>()?, second.status()]))
    }
    let _network = respond_with(Reply::json(&1));
    assert_eq!(testing::call::<ask>(&testing::context().build(), json!({})), Ok(json!([1, 200])));
}

#[test]
fn t2_without_a_test_network_every_request_fails() {
    drop(respond_with(Reply::new(200)));
    let error = http::get(URL).send().unwrap_err();
    assert!(error.to_string().contains("testing::network"), "{error}");
}
