//! `toolgate mcp`: the bridge of `toolgate-cli`, to a daemon that runs or to one of its own (`--embedded`).

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde::de::IgnoredAny;
use serde_json::json;
use toolgate_cli::mcp::{McpOptions, run as run_bridge};
use toolgate_cli::{Client, ClientError, Failure, Server, TlsFiles};
use toolgate_core::logging;
use toolgate_core::wall;
use toolgate_state::config::{Config, Listen};

use super::failure;
use crate::serve::{PreparedDaemon, RunningDaemon, runtime};

/// The agent of an embedded daemon, made on its first start.
const AGENT: &str = "local/desktop";

#[derive(Args)]
pub(super) struct McpCommand {
    #[command(flatten)]
    bridge: McpOptions,
    /// Run a daemon of its own, with the agent `local/desktop` if no other one is named
    #[arg(long)]
    embedded: bool,
    /// The data folder of the embedded daemon
    #[arg(long, value_name = "DIR", requires = "embedded", default_value = "toolgate-data")]
    data: PathBuf,
}

pub(super) fn run(command: McpCommand, environment_token: Option<OsString>) -> Result<(), Failure> {
    let McpCommand { mut bridge, embedded, data } = command;
    if !embedded {
        let remote = bridge.remote.clone();
        return remote.run(environment_token, async |client, _| run_bridge(&bridge, client).await);
    }
    let config =
        Config { data, listen: Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))), ..Config::default() };
    logging::start(config.log.format, toolgate_state::config::LogLevel::Warn);
    let prepared = PreparedDaemon::new(config, wall::PROGRAM.into()).map_err(failure::of_start)?;
    let runtime = runtime().map_err(failure::of_start)?;
    runtime.block_on(async {
        let running = prepared.start(|_| {}).await.map_err(failure::of_start)?;
        let done = bridge_to(&running, &mut bridge).await;
        running.stop().await;
        done
    })
}

async fn bridge_to(running: &RunningDaemon, bridge: &mut McpOptions) -> Result<(), Failure> {
    let file = &running.operator_token;
    let token = tokio::fs::read_to_string(file).await.map_err(|error| {
        Failure::new(
            format!("cannot read the operator token in `{}`: {error}", file.display()),
            "put the token there, or start with another `--data`",
        )
    })?;
    let server = Server::parse(&format!("http://{}", running.address))?;
    let client = Client::new(server.clone(), Some(token.trim()), &TlsFiles::default())?;
    // For `toolgate approval`, which runs in another terminal.
    let _ = writeln!(anstream::stderr(), "serving on {server}");
    if bridge.agent.is_none() {
        make_agent(&client).await?;
        bridge.agent = Some(AGENT.to_owned());
    }
    run_bridge(bridge, &client).await
}

/// Makes the agent of an embedded daemon, unless it exists. Calls that change something wait for a person's approval.
async fn make_agent(client: &Client) -> Result<(), Failure> {
    if client.get("/v1/orgs/local/agents/desktop").send::<IgnoredAny>().await.is_ok() {
        return Ok(());
    }
    let documents = [
        ("/v1/orgs/local", json!({"display_name": "This machine"})),
        ("/v1/orgs/local/policy", json!({"enabled": "*"})),
        ("/v1/orgs/local/agents/desktop", json!({"enabled": "*"})),
    ];
    for (path, document) in documents {
        let made = client.put(path).replacing(None).json(&document).send::<IgnoredAny>().await;
        match made {
            Ok(_) => {}
            // An earlier start made it.
            Err(ClientError::Refused(problem)) if problem.status == 412 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
