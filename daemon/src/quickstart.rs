//! `toolgate quickstart`: a daemon on a free port, a demo agent, and four real calls over HTTP.
//!
//! The calls are ordinary HTTP requests, and the printed results are their responses: one call succeeds, one is refused
//! by policy, one has invalid arguments, one runs out of fuel. With `--once` the exit status is 0 if all four results are
//! as expected.

use std::io::Write;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, bail};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_api::call::{CallResult, CallUsage, NativeAnswer};
use toolgate_api::session::SessionView;
use toolgate_cli::{Client, Server, TlsFiles};
use toolgate_core::harness::temporary_folder;
use toolgate_core::plugins::BuiltInCompiled;
use toolgate_state::config::{Audit, Config, Hardening, Listen};

use crate::serve::{PreparedDaemon, RunningDaemon, StopSignals, runtime};

/// Fuel for a call that starts but cannot finish.
const LOW_FUEL: u64 = 150_000;

/// A demonstration call.
struct DemoCall {
    title: &'static str,
    agent: &'static str,
    tool: &'static str,
    arguments: Value,
    /// `ok`, or the expected error type.
    expected: &'static str,
}

/// Makes the calls, and keeps serving unless `once`.
pub fn run(once: bool) -> Result<()> {
    let folder = temporary_folder()?;
    let config = Config {
        data: folder.path().join("data"),
        listen: Listen::Tcp(std::net::SocketAddr::from(([127, 0, 0, 1], 0))),
        // Small segments, since there are four calls.
        // The folder is removed at the end, from one that the daemon could not write to.
        hardening: Hardening::Off,
        audit: Audit { segment_bytes: 4 << 20, reserve_bytes: 1 << 20, ..Audit::default() },
        ..Config::default()
    };
    let prepared = PreparedDaemon::new(config, std::env::current_exe()?)?;
    runtime()?.block_on(async {
        // Handles Ctrl-C, so that the temporary folder is deleted.
        let mut signals = StopSignals::listen()?;
        print_line("starting a daemon; the built-in plugins are compiled once");
        let began = Instant::now();
        let starting = prepared.start(|BuiltInCompiled { namespace, took, done, of }| {
            let took = format_duration(took);
            print_line(&format!("  compiled `{namespace}` in {took}, {done} of {of}"));
        });
        let running = until_stopped(&mut signals, starting).await?;
        print_line(&format!(
            "serving on http://{} after {}\n",
            running.address,
            format_duration(began.elapsed())
        ));
        let outcome = until_stopped(&mut signals, run_demo_calls(&running)).await;
        if !once && outcome.is_ok() {
            print_next_steps(&running);
            signals.next().await;
        }
        running.stop().await;
        outcome
    })
}

async fn until_stopped<T>(signals: &mut StopSignals, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = signals.interrupt(work).await;
    done.context("stopped before all calls were made; the temporary folder is deleted")?
}

async fn run_demo_calls(running: &RunningDaemon) -> Result<()> {
    let token = tokio::fs::read_to_string(&running.operator_token).await?;
    let client = Client::new(
        Server::parse(&format!("http://{}", running.address))?,
        Some(token.trim()),
        &TlsFiles::default(),
    )?;
    create_agents(&client).await?;
    let mut failed = 0;
    for call in demo_calls() {
        let open = client.post("/v1/sessions").json(&json!({"agent": call.agent}));
        let session: SessionView = open.send().await?.body;
        let request = json!({"calls": [{"tool": call.tool, "arguments": call.arguments}]});
        let began = Instant::now();
        let post = client.post(&format!("/v1/sessions/{}/calls", session.session)).json(&request);
        let answer: NativeAnswer<'static> = post.send().await?.body;
        let result = answer.results.first().context("the response has no result")?;
        failed += usize::from(!report(&call, result, began.elapsed()));
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of the calls did not give the expected result"),
    }
}

async fn create_agents(client: &Client) -> Result<()> {
    let documents = [
        ("/v1/orgs/demo", json!({"display_name": "Demo"})),
        ("/v1/orgs/demo/policy", json!({"enabled": "*"})),
        ("/v1/orgs/demo/agents/accountant", json!({"enabled": ["arithmetic/*"]})),
        ("/v1/orgs/demo/agents/frugal", json!({"enabled": ["arithmetic/*"], "limits": {"fuel": LOW_FUEL}})),
    ];
    for (path, document) in documents {
        client.put(path).replacing(None).json(&document).send::<IgnoredAny>().await?;
    }
    Ok(())
}

fn demo_calls() -> [DemoCall; 4] {
    [
        DemoCall {
            title: "a call that works",
            agent: "demo/accountant",
            tool: "call_arithmetic_evaluate",
            arguments: json!({"expression": "(1/3 + 1/6) * 2^10"}),
            expected: "ok",
        },
        DemoCall {
            title: "a tool that the agent was not given",
            agent: "demo/accountant",
            tool: "call_files_write",
            arguments: json!({"path": "notes.txt", "content": "hello"}),
            expected: "ACCESS_DENIED",
        },
        DemoCall {
            title: "arguments that do not fit the tool's schema",
            agent: "demo/accountant",
            tool: "call_arithmetic_evaluate",
            arguments: json!({"expresion": "1 + 1"}),
            expected: "INVALID_ARGUMENTS",
        },
        DemoCall {
            title: "a computation that needs more fuel than its agent has",
            agent: "demo/frugal",
            tool: "call_arithmetic_evaluate",
            arguments: json!({"expression": "2000! / 1998!"}),
            expected: "FUEL_EXHAUSTED",
        },
    ]
}

/// Prints a call and its result. Returns whether the result is as expected.
fn report(call: &DemoCall, result: &CallResult<'_>, took: Duration) -> bool {
    let actual = match &result.error {
        Some(error) => error.error_type.as_str(),
        None => result.status.as_str(),
    };
    let passed = actual == call.expected;
    let (mark, color) = if passed { ("✔", AnsiColor::Green) } else { ("✘", AnsiColor::Red) };
    let style = Style::new().bold().fg_color(Some(color.into()));
    print_line(&format!("{style}{mark} {}{style:#} ({})", call.title, format_duration(took)));
    print_line(&format!("    {} {}", call.tool, call.arguments));
    match &result.error {
        Some(error) => print_line(&format!("    {}: {}", error.error_type, error.message)),
        None => print_line(&format!("    {}", result.output.as_deref().map_or("null", RawValue::get))),
    }
    let CallUsage { fuel, memory_bytes, .. } = result.usage;
    print_line(&format!("    fuel {fuel}, memory {} KiB\n", memory_bytes / 1024));
    passed
}

fn print_next_steps(running: &RunningDaemon) {
    let (address, token) = (&running.address, running.operator_token.display());
    print_line("Try it yourself:\n");
    print_line(&format!("    TOKEN=$(cat {token})"));
    print_line(&format!(
        "    SESSION=$(curl -s http://{address}/v1/sessions -H \"Authorization: Bearer $TOKEN\" \\\n        \
         -H 'Content-Type: application/json' -d '{{\"agent\":\"demo/accountant\"}}' | sed 's/.*\"session\":\"\\([^\"]*\\)\".*/\\1/')"
    ));
    print_line(&format!(
        "    curl -s http://{address}/v1/sessions/$SESSION/calls -H \"Authorization: Bearer $TOKEN\" \\\n        \
         -H 'Content-Type: application/json' \\\n        \
         -d '{{\"calls\":[{{\"tool\":\"call_arithmetic_evaluate\",\"arguments\":{{\"expression\":\"22/7\"}}}}]}}'"
    ));
    print_line(&format!("    curl -s http://{address}/v1/audit -H \"Authorization: Bearer $TOKEN\"\n"));
    print_line("Stop the daemon with Ctrl-C; its data folder is then deleted.");
}

fn print_line(line: &str) {
    // A closed pipe is no error: the reader wants no more lines.
    let _ = writeln!(anstream::stdout(), "{line}");
}

fn format_duration(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{} ms", time.as_millis()),
    }
}
