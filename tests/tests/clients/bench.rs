//! Runs the driver of a client against a daemon, and does what the driver asks of people, operators and the machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use toolgate_tests::process::{
    ServerProcess, cpu_us_and_waits, external_command, find_installed, free_address,
};
use toolgate_tests::{Client, Daemon, Options, Session, Value, guests, json, wait};

use super::PROGRAM;
use super::page::Row;

/// How long a call waits for its decision: as long as a tool runs that is called meanwhile.
const WAIT_MS: u64 = 250;
/// How long a cancelled call may go on.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);

/// Client of the bench.
pub struct Driver {
    /// First cell of its row.
    pub name: &'static str,
    /// `mcp-1` and `mcp-2` are environments of Python, `node` is the one of Node.
    pub environment: &'static str,
    /// File in `tests/clients`.
    pub script: &'static str,
    pub argument: &'static str,
}

/// The resources that the daemon used since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub records: u64,
    pub cpu_us: u64,
    pub waits: u64,
}

/// Daemon with an autonomous agent, one whose writes wait for a person, and a mounted MCP server.
pub struct Bench {
    daemon: Option<Daemon>,
    pub operator: Client,
    pub owner: Client,
    /// Its calls take time, and need no one.
    clock: Session,
    /// The use of a call of the clock.
    idle: Usage,
    _upstream: ServerProcess,
}

impl Bench {
    pub fn start() -> Self {
        let listen = Some(free_address().to_string());
        let daemon = Daemon::start_with(PROGRAM, Options { listen, ..Options::default() });
        let operator = daemon.operator();
        operator.load_confirmed("hostile", guests::HOSTILE);
        let enabled = json!({"enabled": ["arithmetic/*", "files/*", "hostile/*", "wiki/*"]});
        operator.make_agent("acme/bot", &enabled);
        operator.make("/v1/orgs/acme/agents/careful", &json!({"enabled": ["files/*"]})).expect(201);
        let upstream = mount_upstream(&operator);
        let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
        let clock = operator.open_session("acme/bot");
        let mut bench = Self {
            daemon: Some(daemon),
            operator,
            owner,
            clock,
            idle: Usage::default(),
            _upstream: upstream,
        };
        bench.usage_of_a_wait(1);
        bench.idle = bench.usage_of_a_wait(WAIT_MS);
        bench
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("a daemon")
    }

    pub fn agent_token(&self, agent: &str) -> String {
        let request = json!({"role": "agent", "organization": "acme", "agents": [agent]});
        self.operator.with_new_token(&request).token.expect("a new token")
    }

    /// Runs a driver to its end. Returns its row.
    pub fn run(&mut self, driver: &Driver) -> Row {
        let log = self.daemon().folder.path().join("driver.log");
        let mut process = self
            .command(driver)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("the driver starts");
        let mut input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut row = Row::default();
        let (mut before, mut start) = (self.usage(), Instant::now());
        for line in output.lines().map(|line| line.expect("text")) {
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
            if line["want"].is_string() {
                writeln!(input, "{}", self.answer(&line)).expect("the driver reads");
                continue;
            }
            let now = self.usage();
            let spent = now.since(before);
            println!("{}, {} ms, {spent:?}: {line}", driver.name, start.elapsed().as_millis());
            (before, start) = (now, Instant::now());
            row.add(&line);
        }
        let status = process.wait().expect("a status");
        let log = fs::read_to_string(log).unwrap_or_default();
        assert!(status.success(), "{}: {status}\n{log}", driver.script);
        row
    }

    fn command(&self, driver: &Driver) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
        let folder = self.daemon().folder.path();
        let installed = find_installed(PROGRAM, &format!("clients/{}", driver.environment));
        let mut command = if driver.environment == "node" {
            // Node looks for packages beside the script.
            symlink(installed.join("node_modules"), folder.join("node_modules")).expect("a link");
            for script in ["bench.mjs", driver.script] {
                fs::copy(scripts.join(script), folder.join(script)).expect("copied");
            }
            let mut command = external_command("node");
            command.arg(folder.join(driver.script));
            command
        } else {
            let mut command = external_command(installed.join("bin/python"));
            command.arg(scripts.join(driver.script));
            command
        };
        let orchestrator = json!({"role": "orchestrator", "organization": "acme"});
        let orchestrator = self.operator.with_new_token(&orchestrator).token;
        command
            .arg(driver.argument)
            .current_dir(folder)
            .env("TOOLGATE_SERVER", format!("http://{}", self.daemon().address))
            .env("TOOLGATE_TOKEN", self.agent_token("bot"))
            .env("TOOLGATE_CAREFUL_TOKEN", self.agent_token("careful"))
            .env("TOOLGATE_ORCHESTRATOR_TOKEN", orchestrator.expect("a token"))
            .env("TOOLGATE_PROGRAM", PROGRAM)
            .env("PYTHONPATH", scripts.join("../../daemon/clients/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("HOME", folder);
        command
    }

    fn answer(&mut self, line: &Value) -> Value {
        let tool = line["tool"].as_str().unwrap_or_default();
        match line["want"].as_str().unwrap_or_default() {
            decision @ ("approve" | "deny") => json!({"records": self.decide_after_a_wait(decision).records}),
            "deny at once" => {
                self.decide(&self.pending_approval(), "deny");
                json!({})
            }
            "release" => self.clock.call("wiki/release", json!({})).0,
            "running" => json!({"call": self.running_call(tool)}),
            "ended" => json!({"status": self.status_after_cancellation(tool)}),
            "terminate" => {
                self.running_call(tool);
                self.daemon().terminate();
                json!({})
            }
            "restart" => {
                let mut daemon = self.daemon.take().expect("a daemon");
                daemon.terminate();
                assert!(daemon.wait_for_exit().success(), "the daemon stops by itself");
                self.daemon = Some(daemon.crash_and_restart());
                json!({})
            }
            other => panic!("no answer to `{other}`"),
        }
    }

    /// The record of the latest call of a tool.
    fn last_call(&self, tool: &str) -> Value {
        let calls = self.operator.audit(&format!("kind=call&tool={tool}&limit=1"));
        calls.into_iter().next().unwrap_or_default()
    }

    /// Waits until a tool runs. Returns the id of the call.
    fn running_call(&self, tool: &str) -> Value {
        wait::until("a running call", || {
            let call = self.last_call(tool);
            (call["status"] == "running").then(|| call["call"]["call"].clone())
        })
    }

    fn status_after_cancellation(&self, tool: &str) -> String {
        let end = Instant::now() + CANCEL_LIMIT;
        let call = wait::until("the end of the call", || {
            let call = self.last_call(tool);
            (call["status"] != "running" || Instant::now() > end).then_some(call)
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if call["status"] == "running" {
            // A daemon that stops would wait for it.
            let (session, id) = (text(&call["call"]["session"]), text(&call["call"]["call"]));
            self.operator.delete(&format!("/v1/sessions/{session}/calls/{id}")).expect(204);
        }
        text(&call["status"])
    }

    /// Decides the pending approval after a wait. Returns what the daemon used for the wait alone.
    fn decide_after_a_wait(&self, decision: &str) -> Usage {
        let approval = self.pending_approval();
        wait::until_true("the call to wait", || {
            self.last_call("files/write")["status"] == "approval_required"
        });
        let spent = self.usage_of_a_wait(WAIT_MS).since(self.idle);
        println!("a wait of {WAIT_MS} ms: {spent:?}, beside {:?} of an idle daemon", self.idle);
        self.decide(&approval, decision);
        spent
    }

    pub fn pending_approval(&self) -> String {
        wait::until("the approval", || {
            let list = self.owner.get("/v1/approvals?state=pending").expect(200).json();
            list["items"][0]["id"].as_str().map(str::to_owned)
        })
    }

    pub fn decide(&self, approval: &str, decision: &str) {
        self.owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": decision})).expect(200);
    }

    pub fn usage_of_a_wait(&self, ms: u64) -> Usage {
        let before = self.usage();
        self.clock.call("hostile/rest", json!({"ms": ms})).output();
        self.usage().since(before)
    }

    pub fn usage(&self) -> Usage {
        let metrics = self.operator.try_send("GET", "/metrics", &[], b"").map(|reply| reply.text());
        let metrics = metrics.unwrap_or_default();
        let records = metrics.lines().find_map(|line| line.strip_prefix("toolgate_audit_records_total "));
        let records = records.and_then(|number| number.parse().ok()).unwrap_or(0);
        let (cpu_us, waits) = cpu_us_and_waits(self.daemon().pid());
        Usage { records, cpu_us, waits }
    }
}

impl Usage {
    /// The difference. A restart begins at 0.
    pub fn since(self, before: Self) -> Self {
        Self {
            records: self.records.saturating_sub(before.records),
            cpu_us: self.cpu_us.saturating_sub(before.cpu_us),
            waits: self.waits.saturating_sub(before.waits),
        }
    }
}

/// Starts `server.py`, and mounts it as `wiki`.
fn mount_upstream(operator: &Client) -> ServerProcess {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/server.py");
    let mut command = Command::new(find_installed(PROGRAM, "clients/mcp-2/bin/python"));
    command.arg(script).arg("0").env("PYTHONDONTWRITEBYTECODE", "1");
    let (process, line) = ServerProcess::start(&mut command, |_| true);
    let port: u16 = line.rsplit(' ').next().and_then(|port| port.parse().ok()).expect("a port");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let grant = json!({
        "network": [{"scheme": "http", "host": "127.0.0.1", "port": port}],
        "private_networks": ["127.0.0.1/32"], "plain_http": [address.to_string()],
    });
    operator.make("/v1/orgs/acme/tools/wiki/grant", &grant).expect(201);
    let definition =
        json!({"kind": "mcp", "description": "Pictures and pages.", "url": format!("http://{address}/mcp")});
    operator.make("/v1/orgs/acme/tools/wiki", &definition).expect(201);
    process
}
