//! Calls, sessions, approvals, credentials, identity, plugins and administration: what the daemon does, without a front end.
//!
//! `toolgate-admission` decides about calls and `toolgate-sandbox` runs them. Start with [`dispatch`], the life of a call.
//!
//! A module imports only modules that come after it in this list.

#![deny(unreachable_pub)]

// The start, and administration.
pub mod restore;
pub mod plugin_folder;
pub mod admin;
pub mod catalogue;
pub mod backup;
pub mod version;
pub mod custom;

// The life of a call.
pub mod dispatch;
pub mod services;
pub mod detach;
pub mod traces;
pub mod metrics;
pub mod logging;
pub mod messages;
pub mod events;
pub mod webhooks;
pub mod approvals;
pub mod sessions;
pub mod call;
pub mod signature;

// Plugins.
pub mod plugins;
pub mod harness;
pub mod compile;
pub mod wall;
pub mod oci;
pub mod signing;
pub mod digest;

// Callers, credentials, and the rules in force.
pub mod identity;
pub mod credentials;
pub mod registry;
pub mod assertions;
pub mod enabled;
pub mod redact;
