//! A plugin in a real daemon: each connection is one call with many requests.

use std::thread;

use serde_json::json;
use toolgate_tests::upstream::TLS_PORT;
use toolgate_tests::{Daemon, Session};

use super::server::{BOUND, HOST, Server, bytes_of, url};
use super::{BENCH_GUESTS, Requester, SECRET};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Requests per call, the maximum limit.
const REQUESTS_PER_CALL: usize = 1_000;

const SETTINGS: &str = "[limits]\nrequests = 1_000\negress_bytes = 1_073_741_824\nfuel = 1_000_000_000_000\ndeadline_ms = 120_000\n";

pub struct Plugin {
    sessions: Vec<Session>,
    _daemon: Daemon,
}

impl Plugin {
    pub fn new(server: &Server, sessions: usize) -> Self {
        let settings = format!("{SETTINGS}[egress]\nname_servers = [\"{}\"]\n", server.names.address);
        let daemon = Daemon::start(PROGRAM, &settings);
        let operator = daemon.operator();
        let component = BENCH_GUESTS.iter().find(|guest| guest.name == "requests").unwrap().component;
        operator.load("requests", component);
        let grant = json!({
            "network": [{"host": HOST, "port": TLS_PORT}], "credentials": ["stripe"],
            "private_networks": [format!("{}/32", server.address)], "extra_ca": [server.authority],
        });
        operator.make("/v1/plugins/requests/grant", &grant).expect(201);
        operator.make_agent("acme/bot", &json!({"enabled": ["requests/*"]}));
        let credential = json!({
            "provider": "stripe", "kind": "bearer", "secret": SECRET,
            "bound_to": [{"host": HOST, "port": TLS_PORT, "path": format!("{BOUND}/")}],
        });
        operator.make("/v1/orgs/acme/credentials/stripe", &credential).expect(201);
        let sessions = (0..sessions).map(|_| operator.open_session("acme/bot")).collect();
        Self { sessions, _daemon: daemon }
    }
}

impl Requester for Plugin {
    fn request(&self, connections: usize, of_each: usize, path: &str) {
        let call = |session: &Session, times: usize| {
            let reply = session.call("requests/repeat", json!({"url": url(path), "times": times}));
            assert_eq!(*reply.output(), json!(times * bytes_of(path)), "{reply:?}");
        };
        let calls = |session| {
            (0..of_each)
                .step_by(REQUESTS_PER_CALL)
                .for_each(|done| call(session, REQUESTS_PER_CALL.min(of_each - done)));
        };
        thread::scope(|scope| {
            self.sessions[..connections].iter().for_each(|session| drop(scope.spawn(move || calls(session))));
        });
    }
}
