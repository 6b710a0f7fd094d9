//! Traces (O5), as a collector and an upstream see them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use toolgate_tests::wait::until;

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const PHASES: [&str; 5] = ["queue", "decision", "instance", "run", "record"];

/// A collector that takes OTLP over HTTP, and refuses the first requests.
struct Collector {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    fn start(refusals: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&requests);
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(&stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0)
                {
                }
                let head = head.to_ascii_lowercase();
                let length =
                    head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or_default()];
                if reader.read_exact(&mut body).is_err() {
                    continue;
                }
                let status = if index < refusals { "503 Service Unavailable" } else { "200 OK" };
                if index >= refusals {
                    let request = ExportTraceServiceRequest::decode(&*body).expect("OTLP");
                    taken.lock().unwrap_or_else(PoisonError::into_inner).push((head, request));
                }
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        Self { address, requests }
    }

    fn settings(&self, more: &str) -> String {
        format!("[traces]\nendpoint = \"http://{}\"\n{more}", self.address)
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = requests.iter().flat_map(|(_, request)| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    /// Waits for the spans of a call: its own, and its phases by name.
    fn wait_for_call(&self, id: &str) -> (Span, HashMap<String, Span>) {
        let is_of_call =
            |span: &Span| attributes(span).get("gen_ai.tool.call.id").is_some_and(|call| *call == id);
        let call = until("the span of the call", || self.spans().into_iter().find(is_of_call));
        let children = self.spans().into_iter().filter(|span| span.parent_span_id == call.span_id);
        let children = children.map(|span| (span.name.clone(), span)).collect();
        (call, children)
    }
}

fn attributes(span: &Span) -> HashMap<&str, &str> {
    span.attributes
        .iter()
        .filter_map(|pair| match pair.value.as_ref()?.value.as_ref()? {
            AnyValue::StringValue(text) => Some((pair.key.as_str(), text.as_str())),
            _ => None,
        })
        .collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a call with these header fields.
fn call_with(session: &Session, id: &str, tool: &str, arguments: Value, headers: &[(&str, &str)]) -> Value {
    let body = json!({"calls": [{"id": id, "tool": tool, "arguments": arguments}]}).to_string();
    let headers = [&[("Content-Type", "application/json")][..], headers].concat();
    let reply = session.client.send("POST", &session.path("/calls"), &headers, body.as_bytes());
    reply.expect(200).json()["results"][0].clone()
}

fn traceparent(flag: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flag}")
}

#[test]
fn o5_a_call_is_a_span_with_its_phases_in_the_trace_of_its_caller() {
    let collector = Collector::start(0);
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, "api-key=k-4711\n").expect("the file is written");
    let more = format!("headers_file = \"{}\"", key.display());
    let daemon = Daemon::start(PROGRAM, &collector.settings(&more));
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"]}));
    let session = operator.open_session("acme/bot");
    let parent = traceparent("01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "vendor=7"), ("tracestate", "other=8")];
    let done = call_with(&session, "works", "time/now", json!({"time_zone": "Asia/Tokyo"}), &headers);
    assert_eq!(done["status"], "ok", "{done}");

    let (call, phases) = collector.wait_for_call("works");
    assert_eq!(call.name, "execute_tool time/now");
    assert_eq!(
        (hexadecimal(&call.trace_id), hexadecimal(&call.parent_span_id)),
        (TRACE.into(), CALLER.into())
    );
    assert_eq!((call.trace_state.as_str(), call.kind, call.status.clone()), ("vendor=7,other=8", 1, None));
    let attributes_of_call = attributes(&call);
    for (key, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "time/now"),
        ("gen_ai.tool.call.id", "works"),
        ("toolgate.organization", "acme"),
        ("toolgate.agent", "bot"),
        ("toolgate.session", session.id.as_str()),
        ("toolgate.source", "http"),
        ("toolgate.status", "ok"),
    ] {
        assert_eq!(attributes_of_call.get(key), Some(&value), "{key}");
    }
    assert!(!attributes_of_call.contains_key("error.type"));
    for phase in PHASES {
        let span = phases.get(phase).unwrap_or_else(|| panic!("no span `{phase}`"));
        assert_eq!(hexadecimal(&span.trace_id), TRACE);
        assert!(call.start_time_unix_nano <= span.start_time_unix_nano, "{phase}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{phase}");
        assert!(span.end_time_unix_nano <= call.end_time_unix_nano, "{phase}");
    }
    assert_eq!(phases.len(), PHASES.len());
    let requests = collector.requests.lock().expect("unbroken");
    let (head, request) = &requests[0];
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("api-key: k-4711\r\n") && head.contains("content-type: application/x-protobuf\r\n")
    );
    let resource = request.resource_spans[0].resource.as_ref().expect("a resource");
    assert_eq!(resource.attributes[0].key, "service.name");
    assert!(!format!("{request:?}").contains("Tokyo"), "arguments are in no span");
}

#[test]
fn o5_a_failed_call_has_its_code_and_a_caller_decides_about_sampling() {
    let collector = Collector::start(0);
    let daemon = Daemon::start(PROGRAM, &collector.settings("sample = 0.0"));
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"]}));
    let session = operator.open_session("acme/bot");
    let (sampled, unsampled) = (traceparent("01"), traceparent("00"));
    let call = |id: &str, tool: &str, headers: &[(&str, &str)]| {
        call_with(&session, id, tool, json!({}), headers);
    };
    call("unsampled", "time/now", &[("traceparent", &unsampled)]);
    call("alone", "time/now", &[]);
    call("invalid", "time/now", &[("traceparent", "00-0-0-01")]);
    call("repeated", "time/now", &[("traceparent", &sampled), ("traceparent", &sampled)]);
    call("denied", "files/list", &[("traceparent", &sampled)]);
    let (denied, phases) = collector.wait_for_call("denied");
    assert_eq!(attributes(&denied).get("error.type"), Some(&"ACCESS_DENIED"));
    let status = denied.status.expect("a status");
    assert_eq!((status.code, status.message.as_str()), (2, ""));
    let mut phases: Vec<&str> = phases.keys().map(String::as_str).collect();
    phases.sort_unstable();
    assert_eq!(phases, ["decision", "queue", "record"], "it did not run");
    let calls = collector.spans().into_iter().filter(|span| span.name.starts_with("execute_tool")).count();
    assert_eq!(calls, 1, "only the sampled call has a span");
}

#[test]
fn o5_a_call_that_is_given_up_in_the_queue_has_its_wait() {
    let collector = Collector::start(0);
    let settings = format!("[sandbox]\ninstances = 1\n{}", collector.settings(""));
    let daemon = Daemon::start(PROGRAM, &settings);
    daemon.operator().load("hostile", guests::HOSTILE);
    let dozing = daemon.session_within("acme/bot", &json!({}));
    let hurried = daemon.session_within("acme/hurried", &json!({"deadline_ms": 1_000}));
    let held = dozing.start_dozing("holds");
    hurried.call_as("waits", "hostile/rest", json!({"ms": 1})).expect_error("DEADLINE_EXCEEDED");
    let (call, phases) = collector.wait_for_call("waits");
    assert_eq!(attributes(&call).get("error.type"), Some(&"DEADLINE_EXCEEDED"));
    assert_eq!(phases.keys().collect::<Vec<_>>(), ["queue"]);
    dozing.cancel("holds").expect(204);
    held.reply().expect(200);
}

#[test]
fn o5_an_mcp_client_names_its_trace_in_meta() {
    let collector = Collector::start(0);
    let daemon = Daemon::start(PROGRAM, &collector.settings("sample = 0.0"));
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"]}));
    let parent = traceparent("01");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": parent, "tracestate": "vendor=8",
    });
    let params = json!({"name": "call_time_now", "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "call_time_now"),
        // `_meta` comes first.
        ("traceparent", "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"),
    ];
    let orchestrator = operator.with_new_token(&json!({"role": "orchestrator", "organization": "acme"}));
    orchestrator.send("POST", "/mcp?agent=bot", &headers, body.as_bytes()).expect(200);
    let call =
        until("the span", || collector.spans().into_iter().find(|span| span.name == "execute_tool time/now"));
    assert_eq!(
        (hexadecimal(&call.trace_id), hexadecimal(&call.parent_span_id)),
        (TRACE.into(), CALLER.into())
    );
    assert_eq!(attributes(&call).get("toolgate.source"), Some(&"mcp"));
    assert_eq!(call.trace_state, "vendor=8");
}

/// The field `traceparent` of a request to the upstream.
fn traceparent_of(request: &str) -> Option<String> {
    request
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("traceparent: ").map(str::to_owned))
}

#[test]
fn o5_an_upstream_is_told_the_trace_where_the_grant_allows_it_and_no_guest_tells_one() {
    with_fixture(|fixture| {
        let collector = Collector::start(0);
        let settings = fixture.upstream.settings() + &collector.settings("sample = 0.0");
        let daemon = Daemon::start(PROGRAM, &settings);
        let operator = daemon.operator();
        operator.load("caller", guests::CALLER);
        let session = daemon.session_within("acme/bot", &json!({}));
        let mut grant = grant(&fixture.upstream);
        operator.make("/v1/plugins/caller/grant", &grant).expect(201);
        let (sampled, unsampled) = (traceparent("01"), traceparent("00"));
        let own = "00-cccccccccccccccccccccccccccccccc-dddddddddddddddd-01";
        let fetch = |id: &str, parent: &str| {
            let headers = [format!("traceparent: {own}"), "tracestate: guest=1".to_owned()];
            let arguments = json!({"method": "GET", "url": format!("{API}/"), "headers": headers});
            let done = call_with(&session, id, "caller/fetch", arguments, &[("traceparent", parent)]);
            assert_eq!(done["status"], "ok", "{done}");
            fixture.upstream.requests().pop().expect("a request")
        };
        let request = fetch("withheld", &sampled);
        assert_eq!(traceparent_of(&request), None, "{request}");
        assert!(!request.contains("guest=1"), "{request}");

        grant["trace_context"] = true.into();
        operator.replace("/v1/plugins/caller/grant", &grant).expect(200);
        let request = fetch("told", &sampled);
        let (_, phases) = collector.wait_for_call("told");
        let run = hexadecimal(&phases["run"].span_id);
        assert_eq!(traceparent_of(&request), Some(format!("00-{TRACE}-{run}-01")), "{request}");
        assert!(!request.contains("guest=1"), "{request}");
        let request = fetch("unsampled", &unsampled);
        assert_eq!(traceparent_of(&request), Some(unsampled.clone()), "{request}");
    });
}

/// The queue outlives the failures, which are logged once, and a stop sends what is left.
#[test]
fn o5_spans_wait_for_a_collector_that_is_away_and_a_stop_sends_the_last() {
    let collector = Collector::start(2);
    let mut daemon = Daemon::start(PROGRAM, &collector.settings(""));
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"]}));
    let mut session = operator.open_session("acme/bot");
    call_with(&session, "early", "time/now", json!({}), &[]);
    let (early, _) = collector.wait_for_call("early");
    assert!(early.parent_span_id.is_empty() && early.trace_id.len() == 16);
    daemon.wait_for_log("the recovery", |line| line.contains("traces_exported"));
    let log = daemon.log_text();
    assert_eq!(log.lines().filter(|line| line.contains("traces_failed")).count(), 1, "{log}");
    let metrics = operator.get("/metrics").expect(200).text();
    assert!(metrics.contains("toolgate_trace_spans_exported_total 6"), "{metrics}");
    assert!(metrics.contains("toolgate_trace_spans_dropped_total 0"), "{metrics}");
    // A stop sends for a few seconds, and a busy machine may need another one.
    for call in ["last", "later", "latest"] {
        call_with(&session, call, "time/now", json!({}), &[]);
        daemon.terminate();
        daemon.wait_for_exit();
        let is_last = |span: &Span| attributes(span).get("gen_ai.tool.call.id") == Some(&call);
        if collector.spans().iter().any(is_last) {
            return;
        }
        daemon = daemon.crash_and_restart();
        session = Session { client: daemon.operator(), ..session };
    }
    panic!("no stop sent the last span");
}
