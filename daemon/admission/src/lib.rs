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

mod arguments;
mod check;
mod descriptor;
mod error;
mod ledger;
mod limits;
mod name;
mod nearest;
mod rules;
mod schema;
mod text;

pub use arguments::{Arguments, ArgumentsError, JsonError, JsonErrorKind, parse_strict};
pub use check::{
    Admitted, Checked, Decision, Facts, Layer, Reason, Refusal, SessionFacts, Step, ToolCall, Verdict,
    callable, check, decide, explain,
};
pub use descriptor::{
    Capabilities, Descriptor, DescriptorError, Example, FilesystemAccess, Hints, Mode, NetworkRule,
    NetworkScheme, ToolDescriptor,
};
pub use error::{CallError, ErrorType, Fault, ParseErrorTypeError};
pub use ledger::{Ledger, Rates};
pub use limits::{LIMITS, LimitName, LimitTableRow, Limits, LimitsError, LimitsPatch};
pub use name::{Name, NameError, Namespace, ToolId, ToolName, WireName, read_called_name};
pub use nearest::nearest;
pub use rules::{
    AgentDocument, AgentRules, Catalogue, Digest, DigestError, DocumentError, OrgDocument, OrgRules, Plugin,
    Rules, Tool, ToolList, ToolPattern, ToolSet, Warning,
};
pub use schema::{Schema, SchemaError, SchemaRole, Violation};
pub use text::show;
