//! `toolgate quickstart`: a daemon on a free port, a demo agent, and four real calls over HTTP.
//!
//! Nothing here is staged: the calls go through the same door, gate, sandbox and log as anybody's, and what
//! is printed is what came back. One call works; one is refused by the gate, one by its schema, one is
//! stopped by fuel. With `--once` the exit status says whether all four came out as they should.

use std::io::Write;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::client::{Client, Server};
use crate::config::{Audit, Config};
use crate::plugins::Progress;
use crate::serve::{Prepared, Running, StopSignals, runtime};
use crate::temporary;

/// Fuel of the agent that is stopped: enough to start, not enough to finish.
const SCARCE_FUEL: u64 = 150_000;

/// One call of the tour.
struct Stop {
    title: &'static str,
    agent: &'static str,
    tool: &'static str,
    arguments: Value,
    /// `ok`, or the error type that it must end with.
    expected: &'static str,
}

/// Runs the tour, and then serves unless `once`.
pub fn run(once: bool) -> Result<()> {
    let folder = temporary::folder()?;
    let config = Config {
        data: folder.path().join("data"),
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        // A tour needs no room for a day's calls.
        audit: Audit { segment_bytes: 4 << 20, reserve_bytes: 1 << 20 },
        ..Config::default()
    };
    let prepared = Prepared::new(config, std::env::current_exe()?)?;
    runtime()?.block_on(async {
        // From here on Ctrl-C ends the work and not the process, so that the folder is removed.
        let mut signals = StopSignals::listen()?;
        say("starting a daemon; the built-in plugins are compiled once");
        let began = Instant::now();
        let starting = prepared.start(|Progress::Compiled { namespace, took }| {
            say(&format!("  compiled `{namespace}` in {}", shown(took)));
        });
        let running = unless_stopped(&mut signals, starting).await?;
        say(&format!("serving on http://{} after {}\n", running.address, shown(began.elapsed())));
        let came_out = unless_stopped(&mut signals, tour(&running)).await;
        if !once && came_out.is_ok() {
            print_next_steps(&running);
            signals.next().await;
        }
        running.stop().await;
        came_out
    })
}

async fn unless_stopped<T>(signals: &mut StopSignals, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        () = signals.next() => bail!("stopped before all calls were made; nothing is left of it"),
    }
}

async fn tour(running: &Running) -> Result<()> {
    let token = tokio::fs::read_to_string(&running.operator_token).await?;
    let client = Client::new(Server::parse(&format!("http://{}", running.address))?, Some(token.trim()))?;
    set_the_scene(&client).await?;
    let mut failed = 0;
    for stop in stops() {
        let session = client.post("/v1/sessions").json(&json!({"agent": stop.agent})).send().await?.json()?;
        let id = session["session"].as_str().context("the answer has no session")?;
        let request = json!({"calls": [{"tool": stop.tool, "arguments": stop.arguments}]});
        let began = Instant::now();
        let answer = client.post(&format!("/v1/sessions/{id}/calls")).json(&request).send().await?.json()?;
        failed += usize::from(!report(&stop, &answer["results"][0], began.elapsed()));
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of the calls did not come out as they should"),
    }
}

async fn set_the_scene(client: &Client) -> Result<()> {
    let documents = [
        ("/v1/orgs/demo", json!({"display_name": "Demo"})),
        ("/v1/orgs/demo/policy", json!({"enabled": "*"})),
        ("/v1/orgs/demo/agents/accountant", json!({"enabled": ["arithmetic/*"]})),
        (
            "/v1/orgs/demo/agents/frugal",
            json!({"enabled": ["arithmetic/*"], "limits": {"fuel": SCARCE_FUEL}}),
        ),
    ];
    for (path, document) in documents {
        client.put(path).replacing(None).json(&document).send().await?;
    }
    Ok(())
}

fn stops() -> [Stop; 4] {
    [
        Stop {
            title: "a call that works",
            agent: "demo/accountant",
            tool: "call_arithmetic_evaluate",
            arguments: json!({"expression": "(1/3 + 1/6) * 2^10"}),
            expected: "ok",
        },
        Stop {
            title: "a tool that the agent was not given",
            agent: "demo/accountant",
            tool: "call_files_write",
            arguments: json!({"path": "notes.txt", "content": "hello"}),
            expected: "ACCESS_DENIED",
        },
        Stop {
            title: "arguments that do not fit the tool's schema",
            agent: "demo/accountant",
            tool: "call_arithmetic_evaluate",
            arguments: json!({"expresion": "1 + 1"}),
            expected: "INVALID_ARGUMENTS",
        },
        Stop {
            title: "a computation that needs more fuel than its agent has",
            agent: "demo/frugal",
            tool: "call_arithmetic_evaluate",
            arguments: json!({"expression": "2000! / 1998!"}),
            expected: "FUEL_EXHAUSTED",
        },
    ]
}

/// Prints a call and what came of it; answers whether that is what it should be.
fn report(stop: &Stop, result: &Value, took: Duration) -> bool {
    let error_type = result["error"]["error_type"].as_str();
    let came = error_type.or(result["status"].as_str()).unwrap_or("nothing");
    let right = came == stop.expected;
    let (mark, color) = if right { ("✔", AnsiColor::Green) } else { ("✘", AnsiColor::Red) };
    let style = Style::new().bold().fg_color(Some(color.into()));
    say(&format!("{style}{mark} {}{style:#} ({})", stop.title, shown(took)));
    say(&format!("    {} {}", stop.tool, stop.arguments));
    match error_type {
        Some(error_type) => say(&format!("    {error_type}: {}", text(&result["error"]["message"]))),
        None => say(&format!("    {}", result["output"])),
    }
    say(&format!(
        "    fuel {}, memory {} KiB\n",
        result["usage"]["fuel"],
        kib(&result["usage"]["memory_bytes"])
    ));
    right
}

fn print_next_steps(running: &Running) {
    let (address, token) = (running.address, running.operator_token.display());
    say("Go on with it:\n");
    say(&format!("    TOKEN=$(cat {token})"));
    say(&format!(
        "    SESSION=$(curl -s http://{address}/v1/sessions -H \"Authorization: Bearer $TOKEN\" \\\n        \
         -H 'Content-Type: application/json' -d '{{\"agent\":\"demo/accountant\"}}' | sed 's/.*\"session\":\"\\([^\"]*\\)\".*/\\1/')"
    ));
    say(&format!(
        "    curl -s http://{address}/v1/sessions/$SESSION/calls -H \"Authorization: Bearer $TOKEN\" \\\n        \
         -H 'Content-Type: application/json' \\\n        \
         -d '{{\"calls\":[{{\"tool\":\"call_arithmetic_evaluate\",\"arguments\":{{\"expression\":\"22/7\"}}}}]}}'"
    ));
    say(&format!("    curl -s http://{address}/v1/audit -H \"Authorization: Bearer $TOKEN\"\n"));
    say("Stop it with Ctrl-C; everything it made is then removed.");
}

fn say(line: &str) {
    // A closed pipe is the reader's wish not to hear more.
    let _ = writeln!(anstream::stdout(), "{line}");
}

fn shown(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{} ms", time.as_millis()),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn kib(bytes: &Value) -> u64 {
    bytes.as_u64().unwrap_or(0) / 1024
}
