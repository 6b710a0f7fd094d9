//! The command line of Toolgate, as a typed client of the daemon's HTTP interface.
//!
//! All commands here use only that interface, so their requests pass the same checks, and appear in the same audit log, as
//! those of any program. Bodies are the types of `toolgate-api`; of the host crates, this one depends on nothing else.
//!
//! Results go to standard output, everything else to standard error. The exit status is 0 for success, 1 for a
//! refusal or a failure, 2 for a usage error. A token is never an argument, since every user of the machine can read
//! the arguments of a process.
#![forbid(unsafe_code)]

mod client;
mod context;
mod remote;
mod failure;
mod print;
mod watch;
pub mod document;
mod differences;
mod history;

mod call;
pub mod plugin;
pub mod tool;
mod usage;
mod catalogue;
mod enabled;
mod organization;
mod agent;
pub mod policy;
mod approval;
mod webhook;
mod apply;
mod session;
mod events;
pub mod mcp;
mod credential;
mod token;
mod audit;
mod status;

use std::ffi::OsString;

use clap::Subcommand;

pub use client::{
    BodyStream, Client, ClientError, EventStream, RequestBuilder, Response, Server, SseEvent, TlsFiles,
    escape,
};
pub use failure::Failure;
pub use print::{Printer, time_text};
pub use remote::Remote;

/// Commands that send requests to a running daemon, besides `plugin`.
#[derive(Subcommand)]
pub enum RemoteCommand {
    /// Store a daemon's address and a token as a context, and use it from now on
    Login(context::LoginOptions),
    /// List, choose and remove contexts
    Context(context::ContextOptions),
    /// Show whether the daemon takes work, its queue, audit log and disk
    Status(status::StatusOptions),
    /// Call a tool as an agent
    Call(call::CallOptions),
    /// Create tools from HTTP APIs and MCP servers without code, and test them
    Tool(tool::ToolOptions),
    /// Browse and search the tools that an organization may use
    Catalogue(catalogue::CatalogueOptions),
    /// Create, show, list and delete organizations, and give them plugins
    Org(organization::OrganizationOptions),
    /// Create, show, list and delete the agents of an organization
    Agent(agent::AgentOptions),
    /// List, approve and deny calls that wait for approval
    Approval(approval::ApprovalOptions),
    /// Announce approvals to an endpoint of an organization
    Webhook(webhook::WebhookOptions),
    /// Bring documents of a folder into force: policies, agents, grants, tools and more
    Apply(apply::ApplyOptions),
    /// Open, show and end sessions, and enable or disable their tools
    Session(session::SessionOptions),
    /// Follow the events of calls as a stream
    Events(events::EventsOptions),
    /// Store, rotate, connect and remove credentials
    Credential(credential::CredentialOptions),
    /// Create, list and revoke tokens
    Token(token::TokenOptions),
    /// Search and verify the audit log
    Audit(audit::AuditOptions),
    /// Report what organizations, agents and users used
    Usage(usage::UsageOptions),
}

impl RemoteCommand {
    /// Runs the command with the token of the environment, unless an option names another one.
    pub fn run(self, token: Option<OsString>) -> Result<(), Failure> {
        match self {
            Self::Login(login) => context::login(login, token),
            Self::Context(options) => context::run(options),
            Self::Status(options) => {
                options.remote.run(token, async |client, out| status::run(client, out).await)
            }
            Self::Call(call) => {
                call.remote.run(token, async |client, out| call::run(call.command, client, out).await)
            }
            Self::Tool(tool) => {
                tool.remote.run(token, async |client, out| tool::run(tool.command, client, out).await)
            }
            Self::Catalogue(options) => options
                .remote
                .run(token, async |client, out| catalogue::run(&options.filter, client, out).await),
            Self::Org(org) => {
                org.remote.run(token, async |client, out| organization::run(org.command, client, out).await)
            }
            Self::Agent(agent) => {
                agent.remote.run(token, async |client, out| agent::run(agent.command, client, out).await)
            }
            Self::Approval(approval) => approval
                .remote
                .run(token, async |client, out| approval::run(approval.command, client, out).await),
            Self::Webhook(webhook) => webhook
                .remote
                .run(token, async |client, out| webhook::run(webhook.command, client, out).await),
            Self::Apply(apply) => {
                apply.remote.run(token, async |client, out| apply::run(&apply.folder, client, out).await)
            }
            Self::Session(session) => session
                .remote
                .run(token, async |client, out| session::run(session.command, client, out).await),
            Self::Events(events) => events
                .remote
                .run(token, async |client, out| events::run(events.organization, client, out).await),
            Self::Credential(credential) => credential
                .remote
                .run(token, async |client, out| credential::run(credential.command, client, out).await),
            Self::Token(options) => {
                options.remote.run(token, async |client, out| token::run(options.command, client, out).await)
            }
            Self::Audit(audit) => {
                audit.remote.run(token, async |client, out| audit::run(audit.command, client, out).await)
            }
            Self::Usage(usage) => {
                usage.remote.run(token, async |client, out| usage::run(&usage.report, client, out).await)
            }
        }
    }
}

#[cfg(test)]
mod testing;
