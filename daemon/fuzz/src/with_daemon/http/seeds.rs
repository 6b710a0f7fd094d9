//! The seeds of the target: each is the bytes of one connection.

/// Seeds that are too long for the table.
pub fn long_seeds() -> Vec<(&'static str, String)> {
    let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer @owner\r\n\
                Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n";
    let field = "y".repeat(40_000);
    let target = "x".repeat(40_000);
    let fields: String = (0..150).map(|number| format!("X-{number}: y\r\n")).collect();
    vec![
        ("deep-body", format!("{head}{}", "[".repeat(5_000))),
        ("long-field", format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {field}\r\n\r\n")),
        ("many-fields", format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")),
        ("long-target", format!("GET /{target} HTTP/1.1\r\nHost: localhost\r\n\r\n")),
    ]
}

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("absolute-target", "GET http://localhost/healthz HTTP/1.1\r\n\
         Host: evil.example\r\n\
         \r\n"),
    ("absolute-target-elsewhere", "GET http://evil.example/healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("agent", "PUT /v1/orgs/acme/agents/new HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         If-None-Match: *\r\n\
         Content-Length: 15\r\n\
         \r\n\
         {\"enabled\":\"*\"}"),
    ("agent-of-another-revision", "PUT /v1/orgs/acme/agents/bot HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         If-Match: \"99999999999999999999\", W/\"1\", \"x\r\n\
         Content-Length: 2\r\n\
         \r\n\
         {}"),
    ("agent-without-precondition", "PUT /v1/orgs/acme/agents/bot HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 2\r\n\
         \r\n\
         {}"),
    ("another-host", "GET /healthz HTTP/1.1\r\n\
         Host: evil.example\r\n\
         \r\n"),
    ("another-origin", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         Origin: https://evil.example\r\n\
         \r\n"),
    ("audit", "GET /v1/audit?limit=5&order=oldest HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("audit-cursor-invalid", "GET /v1/audit?cursor=%00zz HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("bare-line-feeds", "GET /healthz HTTP/1.1
Host: localhost

"),
    ("blank-lines-before", "\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("body-cut-off", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 100\r\n\
         \r\n\
         {"),
    ("body-of-another-kind", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: text/plain\r\n\
         Content-Length: 2\r\n\
         \r\n\
         {}"),
    ("both-framings", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Content-Length: 5\r\n\
         Transfer-Encoding: chunked\r\n\
         \r\n\
         0\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("both-framings-the-other-way", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Transfer-Encoding: chunked\r\n\
         Content-Length: 47\r\n\
         \r\n\
         0\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("call", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 67\r\n\
         \r\n\
         {\"calls\":[{\"id\":\"c1\",\"tool\":\"call_answers_answer\",\"arguments\":{}}]}"),
    ("call-id-twice", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 55\r\n\
         \r\n\
         {\"calls\":[{\"id\":\"a\",\"tool\":\"x\"},{\"id\":\"a\",\"tool\":\"y\"}]}"),
    ("call-in-chunks", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\
         \r\n\
         43;x=y\r\n\
         {\"calls\":[{\"id\":\"c1\",\"tool\":\"call_answers_answer\",\"arguments\":{}}]}\r\n\
         0\r\n\
         Trailer: x\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("call-of-nothing", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 12\r\n\
         \r\n\
         {\"calls\":[]}"),
    ("call-twice", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 67\r\n\
         \r\n\
         {\"calls\":[{\"id\":\"c1\",\"tool\":\"call_answers_answer\",\"arguments\":{}}]}POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 67\r\n\
         \r\n\
         {\"calls\":[{\"id\":\"c1\",\"tool\":\"call_answers_answer\",\"arguments\":{}}]}"),
    ("call-with-bad-arguments", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 63\r\n\
         \r\n\
         {\"calls\":[{\"tool\":\"answers/answer\",\"arguments\":{\"a\":1,\"a\":2}}]}"),
    ("cancel", "DELETE /v1/sessions/@session/calls/c1 HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("carriage-return-in-a-field", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         X: a\rb\r\n\
         \r\n"),
    ("chunk-size-too-large", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\
         \r\n\
         fffffffffffffffff\r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("chunk-without-end", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\
         \r\n\
         2\r\n\
         {}x\r\n\
         0\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("chunked-in-version-one-zero", "POST /v1/sessions/@session/calls HTTP/1.0\r\n\
         Host: localhost\r\n\
         Transfer-Encoding: chunked\r\n\
         \r\n\
         0\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("chunked-not-last", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Transfer-Encoding: chunked, identity\r\n\
         \r\n\
         0\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("closes", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         Connection: close\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("coding-unknown", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Transfer-Encoding: xchunked\r\n\
         \r\n\
         0\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("connect", "CONNECT localhost:80 HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("expects-something-else", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Expect: gold\r\n\
         Content-Length: 67\r\n\
         \r\n\
         {\"calls\":[{\"id\":\"c1\",\"tool\":\"call_answers_answer\",\"arguments\":{}}]}"),
    ("expects-to-go-on", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Expect: 100-continue\r\n\
         Content-Length: 67\r\n\
         \r\n\
         {\"calls\":[{\"id\":\"c1\",\"tool\":\"call_answers_answer\",\"arguments\":{}}]}"),
    ("file", "PUT /v1/sessions/@session/files/a/b.txt HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Length: 5\r\n\
         \r\n\
         helloGET /v1/sessions/@session/files/a/b.txt HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("file-outside", "GET /v1/sessions/@session/files/..%2f..%2fstate.db HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("files", "GET /v1/sessions/@session/files HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("folded-field", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \x20folded: x\r\n\
         \r\n"),
    ("head", "HEAD /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("head-cut-off", "GET /healthz HTTP/1.1\r\n\
         Host: loc"),
    ("head-with-two-lengths", "HEAD /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         Content-Length: 1\r\n\
         Content-Length: 2\r\n\
         \r\n"),
    ("health", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("host-before-brackets", "GET /healthz HTTP/1.1\r\n\
         Host: evil.example:[::1]\r\n\
         \r\n"),
    ("host-behind-brackets", "GET /healthz HTTP/1.1\r\n\
         Host: [::1]evil.example\r\n\
         \r\n"),
    ("host-with-a-point", "GET /healthz HTTP/1.1\r\n\
         Host: localhost.\r\n\
         \r\n"),
    ("host-with-port", "GET /healthz HTTP/1.1\r\n\
         Host: LOCALHOST:7300\r\n\
         \r\n"),
    ("host-with-user", "GET http://localhost:x@evil.example/healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("host-with-words-for-a-port", "GET /healthz HTTP/1.1\r\n\
         Host: localhost:evil.example\r\n\
         \r\n"),
    ("http-two", "PRI * HTTP/2.0\r\n\
         \r\n\
         SM\r\n\
         \r\n"),
    ("length-in-a-list", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Content-Length: 5, 5\r\n\
         \r\n\
         helloGET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("length-with-a-sign", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Content-Length: +5\r\n\
         \r\n\
         helloGET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("method-unknown", "BREW /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("no-host", "GET /healthz HTTP/1.1\r\n\
         \r\n"),
    ("no-token", "GET /v1/tokens HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("not-ascii", "GET /hé HTTP/1.1\r\n\
         Host: localhost\r\n\
         X: é\r\n\
         \r\n"),
    ("nul-in-a-field", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         X: a\0b\r\n\
         \r\n"),
    ("openapi", "GET /openapi.json HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("operator-only", "GET /v1/orgs HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("options", "OPTIONS * HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("other-organization", "GET /v1/orgs/other/agents HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("path-with-bad-encoding", "GET /v1/orgs/%ff%zz/agents HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("path-with-dots", "GET /v1/orgs/acme/../other/agents HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("path-with-encoded-dots", "GET /v1/orgs/%2e%2e/agents HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("path-with-encoded-slash", "GET /v1/orgs/acme%2fagents HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("path-with-hidden-characters", "GET /v1/orgs/%e2%80%ae/agents HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("path-with-nul", "GET /v1/orgs/%00/agents HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("query-unknown", "GET /v1/tokens?limt=1 HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("request-in-a-body", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 42\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("request-in-a-body-not-read", "POST /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 42\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("same-length-twice", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 2\r\n\
         Content-Length: 2\r\n\
         \r\n\
         {}GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("session", "POST /v1/sessions HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 39\r\n\
         \r\n\
         {\"agent\":\"acme/bot\",\"channel\":\"\\u202e\"}"),
    ("session-of-another", "POST /v1/sessions HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 21\r\n\
         \r\n\
         {\"agent\":\"other/bot\"}"),
    ("session-unknown", "POST /v1/sessions HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 23\r\n\
         \r\n\
         {\"agent\":\"acme/nobody\"}"),
    ("space-before-colon", "GET /healthz HTTP/1.1\r\n\
         Host : localhost\r\n\
         \r\n"),
    ("token", "POST /v1/tokens HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 74\r\n\
         \r\n\
         {\"role\":\"orchestrator\",\"organization\":\"acme\",\"agents\":[\"bot\"],\"label\":\"x\"}"),
    ("token-of-an-operator", "POST /v1/tokens HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Content-Type: application/json\r\n\
         Content-Length: 19\r\n\
         \r\n\
         {\"role\":\"operator\"}"),
    ("tokens", "GET /v1/tokens?limit=1 HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("two-hosts", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         Host: evil.example\r\n\
         \r\n"),
    ("two-in-a-row", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("two-lengths", "POST /v1/sessions/@session/calls HTTP/1.1\r\n\
         Host: localhost\r\n\
         Content-Length: 5\r\n\
         Content-Length: 50\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("two-slashes", "GET //healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("two-tokens", "GET /v1/tokens HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer @owner\r\n\
         Authorization: Bearer @owner\r\n\
         \r\n"),
    ("upgrade", "GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         Connection: Upgrade\r\n\
         Upgrade: websocket\r\n\
         \r\n\
         GET /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("version-unknown", "GET /healthz HTTP/9.9\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("wrong-method", "DELETE /healthz HTTP/1.1\r\n\
         Host: localhost\r\n\
         \r\n"),
    ("wrong-token", "GET /v1/tokens HTTP/1.1\r\n\
         Host: localhost\r\n\
         Authorization: Bearer tg_x_y\r\n\
         \r\n"),
];
