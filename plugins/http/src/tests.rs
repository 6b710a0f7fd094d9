//! Tests of the behaviour that a model relies on, against a web that the tests make up.

use toolgate_sdk::http::{self, Unavailable};
use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::testing::{self, Network, Reply};
use toolgate_sdk::{Error, Tool};

use crate::ThisPlugin;
use crate::fetch::fetch;

const URL: &str = "https://example.com/a/page";

fn call(arguments: Value) -> Result<Value, Error> {
    testing::call_by_name::<ThisPlugin>(&testing::context().build(), "fetch", arguments).unwrap()
}

fn problem(arguments: Value) -> Error {
    call(arguments).unwrap_err()
}

fn of_type(content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
    Reply::new(200).header("content-type", content_type).body(body)
}

fn answering(reply: Reply) -> Network {
    testing::network(move |_| Ok(reply.clone()))
}

/// The text that one answer becomes.
fn text_of(reply: Reply) -> String {
    let _network = answering(reply);
    call(json!({"url": URL})).unwrap()["text"].as_str().unwrap().to_owned()
}

fn redirect(status: u16, location: &str) -> Reply {
    Reply::new(status).header("location", location)
}

#[test]
fn the_examples_are_true() {
    let _network = testing::network(|request| {
        let page = "<title>no</title><h1>Docs</h1><p>Start <a href=/start>here</a>.";
        Ok(match request.url() {
            "https://example.com/docs" => redirect(301, "/docs/"),
            "https://example.com/docs/" => of_type("text/html; charset=utf-8", page),
            "https://example.com/log.txt" => of_type("text/plain", "one\ntwo\nthree"),
            _ => {
                Reply::new(200).header("content-type", "application/zip").header("content-length", "73400320")
            }
        })
    });
    assert_eq!(testing::wrong_examples::<fetch>(&testing::context().build()), []);
}

#[test]
fn t7_the_tool_reads_any_host_that_is_granted_and_changes_nothing() {
    let description = testing::describe::<ThisPlugin>();

    let rule = |scheme| json!({"scheme": scheme, "host": "*", "methods": ["GET", "HEAD"]});
    let asked = json!({"filesystem": "none", "network": [rule("https"), rule("http")]});
    assert_eq!(description["capabilities"], asked);
    let tool = &description["tools"][0];
    assert_eq!(tool["name"], fetch::NAME);
    let hints = json!({"read_only": true, "destructive": false, "idempotent": true, "open_world": true});
    assert_eq!(tool["hints"], hints);
}

#[test]
fn t7_pages_come_as_markdown_text_or_source() {
    let page = "<h1>News</h1><p>A <b>bold</b> <a href='/x'>link</a><script>no()</script>";
    let _network = answering(of_type("text/html", page));
    let read = |html_as: &str| call(json!({"url": URL, "html_as": html_as})).unwrap()["text"].clone();

    assert_eq!(read("markdown"), "# News\n\nA **bold** [link](https://example.com/x)");
    assert_eq!(read("text"), "News\n\nA bold link");
    assert_eq!(read("source"), page);
}

#[test]
fn t7_links_of_a_page_lead_where_they_do_from_its_address() {
    let links = "<a href=x>a</a> <a href='/y?q=1#f'>b</a> <a href=//other.example/z>c</a> <a href='mailto:a@b.c'>d</a> \
                 <img src=../i.png alt=e> <a href='https://['>f</a>";
    let markdown = |page: &str| text_of(of_type("text/html", page));

    assert_eq!(
        markdown(links),
        "[a](https://example.com/a/x) [b](https://example.com/y?q=1#f) [c](https://other.example/z) [d](mailto:a@b.c) \
         ![e](https://example.com/i.png) [f](https://[)"
    );
    let based = "<base target=_top><base href='/docs/'><base href=/no/><a href=x>a</a>";
    assert_eq!(markdown(based), "[a](https://example.com/docs/x)");
    assert_eq!(markdown("<base href='https://['><a href=x>a</a>"), "[a](x)");
    let long = format!("<base href='/{}/'><a href=x>a</a>", "b".repeat(1_000));
    assert_eq!(markdown(&long), "[a](https://example.com/a/x)");
    // After a redirect it is the address that answered.
    let _network = testing::network(|request| {
        Ok(match request.url() {
            URL => redirect(302, "https://www.example.com/b/"),
            _ => of_type("text/html", "<a href=x>a</a>"),
        })
    });
    assert_eq!(call(json!({"url": URL})).unwrap()["text"], "[a](https://www.example.com/b/x)");
}

#[test]
fn t7_json_and_other_text_come_as_they_are() {
    for content_type in
        ["application/json", "application/problem+json", "text/csv", "image/svg+xml", "application/yaml"]
    {
        assert_eq!(
            text_of(of_type(content_type, "{ \"a\":1.0}\n<b>")),
            "{ \"a\":1.0}\n<b>",
            "{content_type}"
        );
    }
}

#[test]
fn t7_what_says_nothing_of_itself_is_looked_at() {
    assert_eq!(text_of(Reply::new(200).body(" <!DOCTYPE HTML><p>a<p>b")), "a\n\nb");
    assert_eq!(text_of(Reply::new(200).body("<p>a")), "<p>a");
    assert_eq!(text_of(of_type("application/octet-stream", "# a")), "# a");
    assert_eq!(text_of(Reply::new(204)), "");
}

#[test]
fn t7_what_is_no_text_is_refused() {
    for (content_type, body) in [
        ("image/png", &b"\x89PNG"[..]),
        ("application/pdf", b"%PDF-1.7"),
        ("application/octet-stream", b"a\0b"),
        ("application/octet-stream", b"\xff\xfe\xfd\xfc"),
        ("text/plain", b"a\0b"),
    ] {
        let _network = answering(of_type(content_type, body));
        let error = problem(json!({"url": URL}));
        assert!(error.message().contains("HEAD"), "{content_type}: {error}");
        assert!(call(json!({"url": URL, "method": "HEAD"})).is_ok(), "{content_type}");
    }
}

#[test]
fn t7_text_is_read_in_the_charset_that_it_has() {
    for (content_type, bytes, text) in [
        ("text/plain", "é😀".as_bytes(), "é😀"),
        ("text/plain", b"caf\xe9 \x80", "café €"),
        ("text/plain; charset=\"KOI8-R\"", b"\xf0\xf2", "ПР"),
        ("text/html; charset=shift_jis", b"\x93\xfa\x96{", "日本"),
        ("text/plain; charset=nonsense", b"\xe9", "é"),
        ("text/plain; charset=nonsense", "é".as_bytes(), "é"),
        ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbfa", "a"),
        ("text/plain", b"\xff\xfea\0b\0", "ab"),
        ("text/html", b"<meta charset='windows-1251'><p>\xcf", "П"),
        ("text/html", b"<META http-equiv=x content='text/html; CharSet=koi8-r'>\xf0", "П"),
        ("text/html", "<meta charset=utf-16><p>é".as_bytes(), "é"),
        ("text/html; charset=utf-8", "<meta charset=koi8-r>é".as_bytes(), "é"),
        ("text/plain", "charset=koi8-r é".as_bytes(), "charset=koi8-r é"),
    ] {
        assert_eq!(text_of(of_type(content_type, bytes)), text, "{content_type} {bytes:?}");
    }
}

#[test]
fn t7_a_long_text_comes_in_parts() {
    let _network = answering(of_type("text/plain", "äöü".repeat(10)));
    let part = |offset: u32, limit: u32| call(json!({"url": URL, "offset": offset, "limit": limit})).unwrap();

    let first = part(0, 20);
    assert_eq!(
        (&first["total_chars"], &first["truncated"], &first["next_offset"]),
        (&json!(30), &json!(true), &json!(20))
    );
    let last = part(20, 20);
    assert_eq!((&last["text"], &last["truncated"]), (&json!("üäöüäöüäöü"), &json!(false)));
    assert_eq!(last.get("next_offset"), None);
    assert_eq!(part(99, 1)["text"], "");
}

#[test]
fn t7_a_huge_answer_is_read_in_part_and_says_so() {
    let huge = "a é ".repeat(2 * 1024 * 1024);
    let _network = answering(of_type("text/plain", huge));
    let found = call(json!({"url": URL, "offset": 1_600_000, "limit": 100_000})).unwrap();

    assert_eq!((&found["truncated"], found.get("next_offset")), (&json!(true), None));
    assert!(found["total_chars"].as_u64().unwrap() > 1_600_000);
    assert!(!found["text"].as_str().unwrap().contains('\u{fffd}'));
    let whole = call(json!({"url": URL, "limit": 100_000})).unwrap();
    assert_eq!(whole["text"].as_str().unwrap().chars().count(), 100_000);
}

#[test]
fn t7_an_answer_of_any_status_is_an_answer() {
    for status in [404, 500, 304, 300] {
        let _network = answering(of_type("text/html", "<p>sorry").status(status));
        let found = call(json!({"url": URL})).unwrap();
        assert_eq!((&found["status"], &found["text"]), (&json!(status), &json!("sorry")));
    }
}

#[test]
fn t7_head_gives_what_stands_before_the_content() {
    let network = answering(of_type("image/png", "").header("Content-Length", "12"));
    let found = call(json!({"url": URL, "method": "HEAD"})).unwrap();

    assert_eq!(network.sent()[0].method(), "HEAD");
    assert_eq!((&found["content_type"], &found["content_bytes"]), (&json!("image/png"), &json!(12)));
    assert_eq!(problem(json!({"url": URL, "method": "POST"})).code(), "INVALID_ARGUMENTS");
}

#[test]
fn t7_redirects_are_requests_of_their_own_and_shown() {
    let network = testing::network(|request| {
        Ok(match request.url() {
            URL => redirect(302, "../b?x=1#top"),
            "https://example.com/b?x=1" => redirect(308, "//other.example/c d"),
            "https://other.example/c%20d" => redirect(301, "?e"),
            "https://other.example/c%20d?e" => Reply::text("here"),
            other => panic!("{other}"),
        })
    });
    let found = call(json!({"url": format!("{URL}#part")})).unwrap();

    assert_eq!((&found["url"], &found["text"]), (&json!("https://other.example/c%20d?e"), &json!("here")));
    assert_eq!(
        found["redirects"],
        json!([
            {"status": 302, "url": URL},
            {"status": 308, "url": "https://example.com/b?x=1"},
            {"status": 301, "url": "https://other.example/c%20d"},
        ])
    );
    assert_eq!(network.sent().len(), 4);
}

#[test]
fn t7_redirects_that_go_in_circles_or_on_and_on_end() {
    let network = testing::network(|request| {
        Ok(if request.url() == URL { redirect(301, "/b") } else { redirect(301, "/a/page#again") })
    });
    let error = problem(json!({"url": URL}));
    assert_eq!(
        error.message(),
        "the address leads back to itself: `https://example.com/a/page` → `https://example.com/b` → `https://example.com/a/page`"
    );
    assert_eq!(network.sent().len(), 2);
    drop(network);

    let network = testing::network(|request| Ok(redirect(302, &format!("{}x", request.url()))));
    let error = problem(json!({"url": URL}));
    assert!(error.message().starts_with("there are more than 5 redirects"), "{error}");
    assert_eq!(network.sent().len(), 6);
    drop(network);

    let _network = testing::network(|request| {
        let steps = request.url().len() - URL.len();
        Ok(if steps < 5 { redirect(302, &format!("{}x", request.url())) } else { Reply::text("end") })
    });
    assert_eq!(call(json!({"url": URL})).unwrap()["text"], "end");
}

#[test]
fn t7_a_redirect_away_from_the_web_is_not_followed() {
    for location in ["file:///etc/passwd", "javascript:alert(1)", "https://", "data:text/plain,x"] {
        let network = answering(redirect(302, location));
        assert!(problem(json!({"url": URL})).message().contains("leads to"), "{location}");
        assert_eq!(network.sent().len(), 1);
    }
    assert_eq!(text_of(Reply::text("no address").status(302)), "no address");
}

#[test]
fn b3_a_host_that_is_not_granted_is_named_and_so_is_the_way_to_it() {
    let denied = |host: &str| http::Error::Denied { host: host.to_owned() };
    let network = testing::network(move |request| match request.url() {
        URL => Ok(redirect(302, "https://inside.example/")),
        _ => Err(denied("inside.example")),
    });
    let error = problem(json!({"url": URL}));
    assert_eq!(
        error.message(),
        "redirected by `https://example.com/a/page`: this tool may not send this request to `inside.example`"
    );
    let error = problem(json!({"url": "https://inside.example"}));
    assert_eq!(error.message(), "this tool may not send this request to `inside.example`");
    assert!(!error.is_retryable());
    assert_eq!(network.sent().len(), 3);
}

#[test]
fn t7_a_server_that_is_away_can_be_asked_again() {
    let away = http::Error::Unavailable { host: "example.com".to_owned(), why: Unavailable::Connect };
    let network = testing::network(move |request| match request.url() {
        URL => Err(away.clone()),
        _ => Ok(redirect(302, URL)),
    });
    assert!(problem(json!({"url": URL})).is_retryable());
    assert!(problem(json!({"url": "https://example.com/"})).is_retryable());
    drop(network);
    let broken = http::Error::Unavailable { host: "example.com".to_owned(), why: Unavailable::Broken };
    let _network = answering(Reply::text("half").breaks(broken));
    assert!(problem(json!({"url": URL})).is_retryable());
}

#[test]
fn t7_what_is_no_address_on_the_web_is_an_argument_to_mend() {
    for url in
        ["example.com", "ftp://example.com", "file:///etc/passwd", "https://u:p@example.com/", "https://", ""]
    {
        assert_eq!(problem(json!({"url": url})).code(), "INVALID_ARGUMENTS", "{url}");
    }
    let network = answering(Reply::text(""));
    call(json!({"url": "https://bücher.example/ü#x"})).unwrap();
    assert_eq!(network.sent()[0].url(), "https://xn--bcher-kva.example/%C3%BC");
}
