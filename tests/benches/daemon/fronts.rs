//! CPU time of the daemon for a call, by the way it comes: HTTP/1.1, TLS, HTTP/2, MCP; beside `rmcp` with a native function.

use std::convert::Infallible;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use toolgate_tests::Daemon;
use toolgate_tests::daemon::Options;

use super::{PROGRAM, argument, guest};

/// The argument that makes this program the server of `rmcp` alone.
pub const SERVE_RMCP: &str = "serve-rmcp";

/// The unit of `/proc/PID/stat` (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
/// A session makes more calls here than a model would.
const SETTINGS: &str = "[calls]\nrounds_per_turn = 1000000\nrounds_per_session = 1000000\n";
const CALL_HEADERS: &[(&str, &str)] = &[
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-method", "tools/call"),
    ("mcp-name", "call_echo_echo"),
];

/// A server, and how its calls come.
pub struct Way {
    pub name: &'static str,
    pub process: u32,
    pub address: SocketAddr,
    pub token: String,
    pub tls: Option<Arc<ClientConfig>>,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Protocol {
    Http1,
    Http2,
    Mcp,
}

/// Measures each in turn, and prints the median of the rounds. `seconds=N` sets the duration of a round.
pub fn fronts() {
    let seconds = argument("seconds").and_then(|text| text.parse().ok()).unwrap_or(3);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (plain, token) = daemon_with_echo();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let secure = restart_with_tls(&certified);
    let (mut alone, alone_address) = start_rmcp_alone();
    let tls = |protocols: &[&str]| Some(trust(&certified.cert.pem(), protocols));
    let way = |name, process, address, tls, protocol, token: &str| Way {
        name,
        process,
        address,
        token: token.to_owned(),
        tls,
        protocol,
    };
    let (_folder, secure, secure_token) = &secure;
    let ways = [
        way("HTTP/1.1", plain.pid(), plain.address, None, Protocol::Http1, &token),
        way(
            "HTTP/1.1 in TLS",
            secure.pid(),
            secure.address,
            tls(&["http/1.1"]),
            Protocol::Http1,
            secure_token,
        ),
        way("HTTP/2 in TLS", secure.pid(), secure.address, tls(&["h2"]), Protocol::Http2, secure_token),
        way("MCP (2026-07-28)", plain.pid(), plain.address, None, Protocol::Mcp, &token),
        way("rmcp alone, a native function", alone.id(), alone_address, None, Protocol::Mcp, &token),
    ];
    let mut cpu: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (way, cpu) in ways.iter().zip(&mut cpu) {
            let (_, measured) = runtime.block_on(way.measure(Duration::from_secs(seconds)));
            if round > 0 {
                cpu.push(measured);
            }
        }
    }
    let medians: Vec<f64> = cpu.iter_mut().map(|rounds| median(rounds)).collect();
    println!("CPU of the server for a call, {CONNECTIONS} connections, median of {ROUNDS} rounds:");
    for (way, median) in ways.iter().zip(&medians) {
        println!("  {:32} {median:6.1} µs", way.name);
    }
    let allowed = medians[0] + 1.2 * medians[4];
    println!("  MCP: {:.2} of HTTP/1.1 plus 1.2 times rmcp alone ({allowed:.1} µs)", medians[3] / allowed);
    alone.kill().unwrap();
    alone.wait().unwrap();
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A daemon with the echo tool for the agent `acme/bot`, and a token that makes calls.
fn daemon_with_echo() -> (Daemon, String) {
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    operator.load("echo", guest("echo"));
    operator.make_agent("acme/bot", &json!({"enabled": ["echo/*"]}));
    let token = daemon.operator_token();
    (daemon, token)
}

/// Such a daemon, started again with TLS.
///
/// Returns the stopped daemon too, which owns the folder.
fn restart_with_tls(certified: &rcgen::CertifiedKey<rcgen::KeyPair>) -> (Daemon, Daemon, String) {
    let (mut plain, token) = daemon_with_echo();
    plain.terminate();
    plain.wait_for_exit();
    let folder = plain.folder.path();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&certificate, certified.cert.pem()).unwrap();
    fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let settings = format!("{SETTINGS}[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    let options = Options { settings, data: Some(plain.data()), ..Options::default() };
    let secure = Daemon::start_with(PROGRAM, options);
    (plain, secure, token)
}

fn trust(pem: &str, protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

impl Way {
    /// The number of calls, and the CPU time of one in microseconds.
    pub async fn measure(&self, duration: Duration) -> (u64, f64) {
        let until = Instant::now() + duration;
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut sender = self.connect().await;
            let path = match self.protocol {
                Protocol::Mcp => "/mcp?agent=acme/bot".to_owned(),
                _ => self.open_session(&mut sender).await,
            };
            clients.push((sender, path));
        }
        let before = cpu_ticks(self.process);
        let calls = clients.into_iter().map(|(sender, path)| self.call_until(sender, path, until));
        let made: u64 = futures_util::future::join_all(calls).await.into_iter().sum();
        let ticks = cpu_ticks(self.process) - before;
        (made, ticks as f64 / TICKS_PER_SECOND * 1e6 / made as f64)
    }

    async fn call_until(&self, mut sender: Sender, path: String, until: Instant) -> u64 {
        let arguments: Value = serde_json::from_str(super::ARGUMENTS).unwrap();
        let body = match self.protocol {
            Protocol::Mcp => mcp_call(&arguments),
            _ => json!({"calls": [{"tool": "call_echo_echo", "arguments": arguments}]}),
        };
        let body = Bytes::from(body.to_string());
        let mut made = 0;
        while Instant::now() < until {
            let reply = sender.send(self.request(&path, body.clone())).await;
            // The first is read; to read each would be most of the load.
            assert!(made > 0 || String::from_utf8_lossy(&reply).contains("1234"), "{reply:?}");
            made += 1;
        }
        made
    }

    async fn open_session(&self, sender: &mut Sender) -> String {
        let body = json!({"agent": "acme/bot"}).to_string();
        let reply: Value =
            serde_json::from_slice(&sender.send(self.request("/v1/sessions", body.into())).await).unwrap();
        format!("/v1/sessions/{}/calls", reply["session"].as_str().unwrap())
    }

    fn request(&self, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut request = match self.protocol {
            Protocol::Http2 => Request::post(format!("{scheme}://localhost{path}")),
            _ => Request::post(path).header("host", "localhost"),
        };
        let is_mcp = self.protocol == Protocol::Mcp;
        let headers = if is_mcp { CALL_HEADERS } else { &CALL_HEADERS[..1] };
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.header("authorization", format!("Bearer {}", self.token)).body(Full::new(body)).unwrap()
    }

    async fn connect(&self) -> Sender {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let Some(tls) = &self.tls else {
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            return Sender::One(sender);
        };
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.unwrap();
        if self.protocol == Protocol::Http2 {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            return Sender::Two(sender);
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Sender::One(sender)
    }
}

/// A connection.
enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> Bytes {
        let response = match self {
            Self::One(sender) => {
                sender.ready().await.unwrap();
                sender.send_request(request).await.unwrap()
            }
            Self::Two(sender) => sender.send_request(request).await.unwrap(),
        };
        assert!(response.status().is_success(), "{response:?}");
        response.into_body().collect().await.unwrap().to_bytes()
    }
}

fn mcp_call(arguments: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "call_echo_echo", "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    })
}

/// User and system time of a process so far.
pub fn cpu_seconds(process: u32) -> f64 {
    cpu_ticks(process) as f64 / TICKS_PER_SECOND
}

fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn start_rmcp_alone() -> (Child, SocketAddr) {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program).arg(SERVE_RMCP).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

/// Serves a native function by `rmcp` until the process is killed, and prints its address first.
pub fn serve_rmcp() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let sessions = Arc::new(LocalSessionManager::default());
        let settings = StreamableHttpServerConfig::default().with_json_response(true);
        let service = StreamableHttpService::new(|| Ok(Echo), sessions, settings);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let service = service.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let service = service.clone();
                    async move { Ok::<Response<_>, Infallible>(service.handle(request).await) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    });
}

/// The native function: it returns its arguments.
#[derive(Clone)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::structured(Value::Object(request.arguments.unwrap_or_default())).into())
    }
}
