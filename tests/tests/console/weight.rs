//! The weight of pages with a hundredth of a large installation: 100 tools, and 10,000 records of the audit log.

use std::io::Write;
use std::process::{Command, Stdio};

use toolgate_tests::{Daemon, PluginFile, Session, Value, json};

use crate::PROGRAM;
use crate::person::{Person, attributes};

const TOOLS: usize = 100;
const CALLS: usize = 5_000;
/// Calls of one request.
const BATCH: usize = 250;
/// A page with style and script, compressed.
const MOST_BYTES: usize = 60 * 1024;
const MOST_ROWS: usize = 100;

/// The bytes of a text as browsers that ask for it compressed get it from a proxy.
fn compressed_bytes(text: &[u8]) -> usize {
    let mut gzip = Command::new("gzip")
        .arg("--stdout")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip is installed");
    let (mut input, text) = (gzip.stdin.take().expect("an input"), text.to_vec());
    let writing = std::thread::spawn(move || input.write_all(&text));
    let output = gzip.wait_with_output().expect("gzip ends");
    writing.join().expect("no panic").expect("gzip reads");
    assert!(output.status.success(), "{output:?}");
    output.stdout.len()
}

/// The rows of the largest table body.
fn rows(page: &str) -> usize {
    let bodies = page.split("<tbody>").skip(1).filter_map(|rest| rest.split("</tbody>").next());
    bodies.map(|body| body.matches("<tr").count()).max().unwrap_or(0)
}

fn plugin() -> Vec<u8> {
    let schema = json!({
        "type": "object",
        "properties": {"to": {"type": "string", "description": "The name of the customer."}, "amount": {"type": "integer"}},
        "required": ["to"], "additionalProperties": false,
    });
    let tool = |number: usize| {
        json!({
            "name": format!("tool_{number}"), "description": format!("Reads the account number {number} of a customer."),
            "usage": "Give the name.", "input_schema": schema, "hints": {"read_only": true},
        })
    };
    let tools: Vec<Value> = (0..TOOLS).map(tool).collect();
    let description =
        json!({"name": "many", "version": "1.0.0", "publisher": "Toolgate tests", "tools": tools});
    PluginFile::of(description).with_result("{\"done\":true}").build()
}

/// Makes calls of every tool.
fn make_calls(session: &Session) {
    let call = |number: usize| json!({"tool": format!("many/tool_{}", number % TOOLS), "arguments": {"to": format!("Customer {number}")}});
    let calls: Vec<Value> = (0..CALLS).map(call).collect();
    calls.chunks(BATCH).for_each(|calls| drop(session.calls(calls)));
}

#[test]
fn o6_pages_of_a_large_installation_are_light_and_have_few_rows() {
    let daemon = Daemon::start(
        PROGRAM,
        "[calls]\nper_request = 256\nrounds_per_turn = 1000\n[queue]\nwaiting_per_organization = 512\n",
    );
    let operator = daemon.operator();
    operator.load_confirmed("many", &plugin());
    operator.make_agent("acme/bot", &json!({"enabled": ["many/*"]}));
    let session = operator.open_session("acme/bot");
    make_calls(&session);
    let records = operator.audit("kind=call&limit=1");
    assert!(records[0]["sequence"].as_u64().expect("a sequence") > 9_000, "{records:?}");

    let person = Person::sign_in(&operator);
    let calls = person.page("/console/calls?limit=100");
    assert_eq!(rows(&calls), MOST_ROWS);
    let live = "data-live=\"/console/calls/";
    assert!(!calls.contains(live) && person.page("/console/calls").contains(live), "a stream has 50 rows");
    let first_call = attributes(&calls, "href").into_iter().find(|link| link.starts_with("/console/calls/"));
    let first_call = first_call.expect("a link to a call");
    let shared: usize = attributes(&calls, "href")
        .into_iter()
        .chain(attributes(&calls, "src"))
        .filter(|address| address.starts_with("/console/assets/"))
        .map(|address| compressed_bytes(&person.get(&address).expect(200).body))
        .sum();
    let paths = [
        "/console",
        "/console?range=day",
        "/console?range=month&organization=acme",
        "/console?range=hour&tool=many/tool_7",
        "/console/calls",
        "/console/calls?limit=100",
        "/console/calls?status=error&tool=many/tool_7",
        "/console/audit?limit=100",
        "/console/audit/verification",
        "/console/approvals",
        "/console/explain/acme/bot",
        "/console/catalogue",
        "/console/catalogue/acme/many",
        "/console/plugins",
        "/console/plugins/many",
        "/console/organizations/acme",
        "/console/sessions",
        "/console/tokens",
    ];
    for path in paths.map(str::to_owned).into_iter().chain([first_call]) {
        let page = person.page(&path);
        let bytes = compressed_bytes(page.as_bytes()) + shared;
        assert!(bytes < MOST_BYTES, "{path} has {bytes} bytes");
        assert!(rows(&page) <= MOST_ROWS, "{path} has {} rows", rows(&page));
    }
    // The numbers of the overview are those of the log.
    let overview = person.page("/console?range=month");
    for part in ["5,000", "many/tool_", "organization=acme"] {
        assert!(overview.contains(part), "no {part}:\n{overview}");
    }
}
