//! The command line of Toolgate, as a typed client of the daemon's HTTP interface.
//!
//! All commands here use only that interface, so their requests pass the same checks, and appear in the same audit log, as
//! those of any program. Bodies are the types of `toolgate-api`; of the host crates, this one depends on nothing else.
//!
//! Results go to standard output, everything else to standard error. The exit status is 0 for success, 1 for a
//! refusal or a failure, 2 for a usage error. A token is never an argument, since every user of the machine can read
//! the arguments of a process.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]

// The order is that of imports: a module imports from those below it (`tests/tests/tidy.rs`).

#[cfg(test)]
mod testing;

// Commands.
mod export;
mod apply;
mod status;
mod session;
mod events;
pub mod mcp;
mod call;
mod approval;
mod webhook;
pub mod policy;
mod organization;
mod agent;
mod enabled;
mod catalogue;
pub mod credential;
mod token;
mod usage;
pub mod tool;
pub mod plugin;
mod audit;

// Their parts.
pub mod folder;
mod arguments;
mod history;
mod differences;
mod ask;
mod watch;
mod list;

// The daemon, the person and the terminal.
mod context;
mod sign_in;
pub mod document;
mod remote;
mod contexts;
mod failure;
mod print;
mod client;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

use failure::Result;
use remote::{Connected, ConnectedGroup};

pub use audit::export::{Export as AuditExport, ExportFolder, ExportRange};
pub use audit::{LogOfFolder, check_verify_report, show_verify_report};
pub use client::{Client, ClientError, Server, TlsFiles};
pub use failure::Failure;
pub use print::{Printer, time_text};
pub use remote::Remote;
pub use status::show as show_status;

/// Commands that send requests to a running daemon, besides `plugin`.
#[derive(Subcommand)]
pub enum RemoteCommand {
    /// Store a daemon's address and a token as a context, and use it from now on
    Login(context::LoginOptions),
    /// List, choose and remove contexts
    Context(context::ContextOptions),
    /// Show whether the daemon takes work, its queue, audit log and disk
    Status(Connected<status::StatusOptions>),
    /// Call a tool as an agent
    Call(Connected<call::CallCommand>),
    /// Create tools from HTTP APIs and MCP servers without code, and test them
    #[command(after_help = tool::EXAMPLES)]
    Tool(ConnectedGroup<tool::ToolCommand>),
    /// Browse and search the tools that an organization may use
    #[command(after_help = catalogue::EXAMPLES)]
    Catalogue(Connected<catalogue::Filter>),
    /// Create, show, list and delete organizations, and give them plugins
    #[command(after_help = organization::EXAMPLES)]
    Org(ConnectedGroup<organization::OrganizationCommand>),
    /// Create, show, list and delete the agents of an organization
    #[command(after_help = agent::EXAMPLES)]
    Agent(ConnectedGroup<agent::AgentCommand>),
    /// List, approve and deny calls that wait for approval
    #[command(after_help = approval::EXAMPLES)]
    Approval(ConnectedGroup<approval::ApprovalCommand>),
    /// Announce approvals to an endpoint of an organization
    #[command(after_help = webhook::EXAMPLES)]
    Webhook(ConnectedGroup<webhook::WebhookCommand>),
    /// Bring documents of a folder into force: policies, agents, grants, tools and more
    Apply(Connected<apply::FolderOptions>),
    /// Write the documents of a daemon into a folder that `apply` reads
    Export(Connected<export::ExportOptions>),
    /// Open, show and end sessions, and enable or disable their tools
    #[command(after_help = session::EXAMPLES)]
    Session(ConnectedGroup<session::SessionCommand>),
    /// Follow the events of calls as a stream
    #[command(after_help = events::EXAMPLES)]
    Events(Connected<events::EventsOptions>),
    /// Store, rotate, connect and remove credentials
    #[command(after_help = credential::EXAMPLES)]
    Credential(ConnectedGroup<credential::CredentialCommand>),
    /// Create, list and revoke tokens
    #[command(after_help = token::EXAMPLES)]
    Token(ConnectedGroup<token::TokenCommand>),
    /// Search and verify the audit log
    #[command(after_help = audit::EXAMPLES)]
    Audit(ConnectedGroup<audit::AuditCommand>),
    /// Report what organizations, agents and users used
    #[command(after_help = usage::EXAMPLES)]
    Usage(Connected<usage::Report>),
}

impl RemoteCommand {
    /// What is done with the audit log of a data folder without a daemon, and whether it prints JSON.
    pub fn log_of_folder(&self) -> Option<(LogOfFolder<'_>, bool)> {
        match self {
            Self::Audit(audit) => Some((audit.command.of_folder()?, audit.remote.json)),
            _ => None,
        }
    }

    /// The settings of the daemon on this machine that `status` asks, and whether it prints JSON.
    pub fn settings_to_ask(&self) -> Option<(PathBuf, bool)> {
        match self {
            Self::Status(status) => Some((status.command.config.clone()?, status.remote.json)),
            _ => None,
        }
    }

    /// Runs the command with the token of the environment, unless an option names another one.
    pub fn run(self, token: Option<OsString>) -> Result {
        match self {
            Self::Login(login) => context::login(login, token),
            Self::Context(options) => context::run(options),
            Self::Status(options) => {
                options.run(token, async |_, client, printer| status::show(client, printer).await)
            }
            Self::Call(call) => call.run(token, call::run),
            Self::Tool(tool) => tool.run(token, tool::run),
            Self::Catalogue(catalogue) => catalogue.run(token, catalogue::run),
            Self::Org(org) => org.run(token, organization::run),
            Self::Agent(agent) => agent.run(token, agent::run),
            Self::Approval(approval) => approval.run(token, approval::run),
            Self::Webhook(webhook) => webhook.run(token, webhook::run),
            Self::Apply(apply) => apply.run(token, apply::run),
            Self::Export(export) => export.run(token, export::run),
            Self::Session(session) => session.run(token, session::run),
            Self::Events(events) => events.run(token, events::run),
            Self::Credential(credential) => credential.run(token, credential::run),
            Self::Token(group) => group.run(token, token::run),
            Self::Audit(audit) => audit.run(token, audit::run),
            Self::Usage(usage) => usage.run(token, usage::run),
        }
    }
}
