//! Decides whether a call may run, and says why.
//!
//! Everything here is arithmetic on values that are handed in: names, schemas, policies, counters and,
//! where time matters, the time. There is no file, no socket, no clock, no runtime and no wasm in this
//! crate, so the same input always gives the same answer, and a test needs nothing but the input.
//!
//! The way of a call through this crate is [`check()`] and then [`Ledger::charge`]. What comes out is an
//! [`Admitted`], the only thing that the sandbox runs. Its fields are private and nothing else makes
//! one, so there is no way round the gate that compiles.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

// The gate.
mod check;
mod rules;
mod ledger;
mod limits;

// What comes to it.
mod arguments;
mod schema;
mod descriptor;

// What is decided beside it, and later.
mod approval;
mod credential;
mod egress;
mod broker;

use toolgate_api::{error, name};

pub use approval::{Approval, Binding, Constraints};
pub use arguments::{Arguments, ArgumentsError, JsonError, JsonErrorKind, parse_strict};
pub use broker::{Index, Intent, Intents, Match, Patterns, Question, Selection, Taken, Why, select};
pub use check::{
    Admitted, Checked, Decision, Facts, Layer, Reason, Refusal, SessionFacts, Step, StepVerdict, ToolCall,
    Unapproved, Verdict, callable, check, decide, explain, has_tools, limits_of, nothing_left,
};
pub use credential::{
    BindingError, CredentialBinding, CredentialCandidate, CredentialOwner, CredentialRights, NoCredential,
    Unusable, check_bound_to, choose_credential, is_named_place,
};
pub use descriptor::{
    Capabilities, Descriptor, DescriptorError, Example, FilesystemAccess, Hints, Mode, RateLimit,
    ToolDescriptor,
};
pub use egress::{
    AddressKind, Denied, DeniedBy, Grant, Host, HostError, HostPattern, Left, Network, NetworkError,
    NetworkRule, NetworkScheme, Permitted, PlainHttp, Reach, Target, TargetError, Vetted, kind_of,
};
pub use ledger::{Ledger, Rates};
pub use limits::{LIMITS, LimitName, LimitTableRow, Limits, LimitsError, LimitsPatch};
pub use rules::{
    AgentDocument, AgentRules, Autonomy, BrokerSettings, Catalogue, Digest, DigestError, DocumentError,
    OrgDocument, OrgRules, PlatformDocument, PlatformRules, Plugin, Rules, SharedSet, Tool, ToolList,
    ToolPattern, ToolSet, Warning,
};
pub use schema::{Schema, SchemaError, SchemaRole, Violation, percent_decode};
pub use toolgate_api::error::{CallError, ErrorType, Fault, ParseErrorTypeError};
pub use toolgate_api::name::{Name, NameError, Namespace, ToolId, ToolName, WireName, read_called_name};
pub use toolgate_api::nearest;
pub use toolgate_api::text::is_hidden;
