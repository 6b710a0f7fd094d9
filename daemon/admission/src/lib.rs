//! Decides whether a call may run, and why.
//!
//! Every function is pure: names, schemas, policies, counters and the time are parameters. The crate has no files, sockets,
//! clock, runtime or wasm, so the same input has the same result, and a test needs only the input.
//!
//! A call passes [`check()`] and then [`Ledger::charge`], which returns an [`Admitted`], the only type that the sandbox
//! runs. Its fields are private and nothing else creates one, so the compiler enforces that every call passes the gate.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

// The order is that of imports: a module imports from those below it (`tests/tests/tidy.rs`).

// Decisions beside the gate.
mod risk;
mod broker;
mod credential;
mod assertion;

// The gate.
mod ledger;
mod check;
mod approval;
mod rules;
mod quota;
mod egress;

// Its input.
mod descriptor;
mod annotation;
mod arguments;
mod schema;

// Its tools, as model providers take them.
mod advertise;
mod percent;

pub use advertise::{Advertised, PropertyNames, SchemaChange, SchemaForm, StrictCost, advertise};
pub use approval::{Approval, ApprovalBinding, ApprovalConstraints};
pub use arguments::{Arguments, ArgumentsError};
pub use assertion::{AssertionBreach, BudgetExceeded, DecisionBudget, ResolvedAssertion};
pub use broker::{
    BrokerIndex, Intents, SelectQuery, SelectReason, Selected, Selection, WordMatch, search, select,
};
pub use check::{
    Admitted, CallFacts, Checked, ClientResultCheck, Decision, Layer, Reason, Refusal, SessionFacts, Step,
    StepVerdict, ToolCall, Unapproved, Verdict, callable, check, decide, explain, has_tools, limits_of,
    no_tools_warning, session_limits,
};
pub use credential::{
    BindingError, CredentialCandidate, CredentialOwner, CredentialRights, NoCredential, Unusable,
    check_bound_to, choose_credential, lists_host,
};
pub use descriptor::{Descriptor, ToolDescriptor};
pub use egress::{CallAccess, DeniedBy, NetworkDenial, Permitted, PolicyNetwork, Vetted};
pub use ledger::{ChargeTime, Ledger, Rates};
pub use percent::percent_decode;
pub use quota::{Consumer, QuotaCounters, SavedCounter, Used};
pub use risk::{permissions_in_words, risk};
pub use rules::{
    AcceptedPlugin, AgentRules, Canary, CanaryDraw, Catalogue, Consents, Digest, DigestError, IntentPatterns,
    OrgFacts, OrgRules, PlatformRules, Plugin, Rules, SharedSet, Tool, ToolSet, VersionCounters,
    VersionOutcomes, Warning, agent_warnings, assertion_warnings, check_platform, description_warnings,
    descriptor_warnings, fails_more_often, grant_warnings, organization_warnings, parse_platform,
    platform_warnings, unconfirmed_hints,
};
pub use schema::{ASSERT_FORMAT, Schema, SchemaError, SchemaRole, Violation};
