//! The closed list of error types, and the error that callers get.
//!
//! Programs match on these codes, so the list is closed: a new code changes the interface. HTTP status, fault and retry of
//! each type are one table, from which `docs/errors.md` is generated. [`CallError`] is the external message; internal
//! causes are logged where they occur.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// Whose fault an error is, and so who can fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The request was wrong: send another one.
    Caller,
    /// A rule refused: change the rule, or do without.
    Gate,
    /// The tool broke a limit or its contract: fix the plugin.
    Sandbox,
    /// Something around the call failed: wait, or fix that.
    World,
}

/// One row of [`TABLE`].
struct Row {
    error_type: ErrorType,
    code: &'static str,
    meaning: &'static str,
    http_status: u16,
    fault: Fault,
    retryable: bool,
}

macro_rules! error_types {
    ($($(#[doc = $doc:literal])* $variant:ident = $code:literal, $status:literal, $fault:ident, $retry:ident;)*) => {
        /// What went wrong, as a stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorType {
            $($(#[doc = $doc])* $variant,)*
        }

        /// INVARIANT: rows are in the order of the variants, so that a variant is its own index.
        const TABLE: &[Row] = &[
            $(Row {
                error_type: ErrorType::$variant,
                code: $code,
                meaning: concat!($($doc),*),
                http_status: $status,
                fault: Fault::$fault,
                retryable: error_types!(@retry $retry),
            },)*
        ];

        impl ErrorType {
            /// Every error type, in the order of the documentation.
            pub const ALL: &'static [ErrorType] = &[$(ErrorType::$variant,)*];
        }
    };
    (@retry retry) => { true };
    (@retry final) => { false };
}

error_types! {
    /// The request itself is malformed.
    InvalidRequest = "INVALID_REQUEST", 400, Caller, final;
    /// No token, or one that is not known.
    Unauthenticated = "UNAUTHENTICATED", 401, Caller, final;
    /// The token's role does not allow the request.
    Forbidden = "FORBIDDEN", 403, Caller, final;
    /// No such thing here, or another organization's.
    NotFound = "NOT_FOUND", 404, Caller, final;
    /// The thing has changed, an id was used for something else, or a name is taken.
    Conflict = "CONFLICT", 409, Caller, final;
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "INVALID_ARGUMENTS", 422, Caller, final;
    /// A policy document is malformed, or has a field or value that does not exist.
    InvalidPolicy = "INVALID_POLICY", 422, Caller, final;
    /// A plugin file or its description breaks the contract.
    InvalidPlugin = "INVALID_PLUGIN", 422, Caller, final;
    /// A body, a file or a batch is larger than allowed.
    TooLarge = "TOO_LARGE", 413, Caller, final;
    /// A session, a recorded answer or a client result came too late.
    Expired = "EXPIRED", 410, Caller, final;

    /// The agent has no callable tool.
    NoTools = "NO_TOOLS", 409, Gate, final;
    /// No such tool here, or another organization's.
    ToolNotFound = "TOOL_NOT_FOUND", 404, Gate, final;
    /// Not in the lists, the profile, the server binding or the autonomy of the agent.
    AccessDenied = "ACCESS_DENIED", 403, Gate, final;
    /// Blocked, disabled, or stopped by the session's breaker.
    ToolDisabled = "TOOL_DISABLED", 403, Gate, final;
    /// The tool needs an integration that the organization has not connected.
    IntegrationMissing = "INTEGRATION_MISSING", 424, Gate, final;
    /// The session's channel does not allow the tool.
    ChannelRestricted = "CHANNEL_RESTRICTED", 403, Gate, final;
    /// A person denied the call.
    ApprovalDenied = "APPROVAL_DENIED", 403, Gate, final;
    /// The approval came to its end, or what it was bound to has changed.
    ApprovalExpired = "APPROVAL_EXPIRED", 410, Gate, final;
    /// Too many calls in a short time.
    RateLimited = "RATE_LIMITED", 429, Gate, retry;
    /// A quota, or another bound of what may be used or kept, is reached.
    QuotaExceeded = "QUOTA_EXCEEDED", 429, Gate, retry;
    /// Too many rounds in one turn or one session.
    RoundsExceeded = "ROUNDS_EXCEEDED", 429, Gate, final;

    /// The call used up its fuel.
    FuelExhausted = "FUEL_EXHAUSTED", 502, Sandbox, final;
    /// The call wanted more memory than it may have.
    MemoryExceeded = "MEMORY_EXCEEDED", 502, Sandbox, final;
    /// The call took longer than it may.
    DeadlineExceeded = "DEADLINE_EXCEEDED", 504, Sandbox, final;
    /// The call broke another limit; the details name which.
    ResourceExceeded = "RESOURCE_EXCEEDED", 502, Sandbox, final;
    /// The result is larger than allowed.
    OutputTooLarge = "OUTPUT_TOO_LARGE", 502, Sandbox, final;
    /// The result does not fit the tool's own schema or mode.
    InvalidOutput = "INVALID_OUTPUT", 502, Sandbox, final;
    /// The tool trapped or panicked.
    ToolCrashed = "TOOL_CRASHED", 502, Sandbox, final;
    /// The tool reported a failure.
    ToolFailed = "TOOL_FAILED", 502, Sandbox, final;

    /// The call may not reach that address.
    NetworkDenied = "NETWORK_DENIED", 403, World, final;
    /// The service behind the tool did not answer, or answered with an error.
    ApiUnavailable = "API_UNAVAILABLE", 502, World, retry;
    /// The credential is granted, but there is no usable secret.
    CredentialMissing = "CREDENTIAL_MISSING", 424, World, final;
    /// The daemon, or the organization's share of it, is busy.
    Overloaded = "OVERLOADED", 503, World, retry;
    /// The store is down, the disk is full, or the daemon is sealed or draining.
    Unavailable = "UNAVAILABLE", 503, World, retry;
    /// The caller hung up or cancelled.
    Cancelled = "CANCELLED", 499, World, final;
    /// A fault of the daemon.
    Internal = "INTERNAL", 500, World, final;
    /// The call began before a crash, and what became of it is not known.
    Unknown = "UNKNOWN", 500, World, final;
}

impl ErrorType {
    /// The code as callers see it, for example `INVALID_REQUEST`.
    pub fn as_str(self) -> &'static str {
        self.row().code
    }

    /// Meaning of the code, as a sentence.
    pub fn meaning(self) -> &'static str {
        self.row().meaning.trim_ascii()
    }

    /// HTTP status of a request that fails with this error.
    pub fn http_status(self) -> u16 {
        self.row().http_status
    }

    /// Whose fault the error is.
    pub fn fault(self) -> Fault {
        self.row().fault
    }

    /// Whether the same request can succeed later, unchanged.
    pub fn retryable(self) -> bool {
        self.row().retryable
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The text is no error type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an error type")]
pub struct ParseErrorTypeError(pub String);

impl FromStr for ErrorType {
    type Err = ParseErrorTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        TABLE
            .iter()
            .find(|row| row.code == text)
            .map(|row| row.error_type)
            .ok_or_else(|| ParseErrorTypeError(text.to_owned()))
    }
}

impl Serialize for ErrorType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for ErrorType {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        let meanings: Vec<String> = Self::ALL
            .iter()
            .map(|error_type| format!("- `{error_type}`, HTTP {}", error_type.http_status()))
            .collect();
        let description = format!(
            "What went wrong, as a stable code. The list is closed. The HTTP status is that of a refused request; an \
             error of a call is in a 200.\n\n{}",
            meanings.join("\n")
        );
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .enum_values(Some(Self::ALL.iter().map(|error_type| error_type.as_str())))
            .description(Some(description))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for ErrorType {}

/// Error of a call or a request, as callers get it (R5).
#[derive(Clone, Debug, PartialEq)]
pub struct CallError {
    /// The stable code.
    pub error_type: ErrorType,
    /// What went wrong, in one line.
    pub message: String,
    /// The fix, in one line; empty if there is none.
    pub hint: String,
    /// Facts for programs.
    pub details: Option<Details>,
    /// Whether the same call can succeed later, unchanged.
    pub retryable: bool,
}

/// Facts about a failure for programs. Details that the daemon reads are typed; all others are [`Details::Other`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Details {
    /// The place of a wrong value.
    Pointer {
        /// JSON pointer into the document or request.
        pointer: String,
    },
    /// Rate limits, quotas and overload.
    RetryAfter {
        /// Milliseconds after which the same call can succeed.
        retry_after_ms: u64,
    },
    /// A quota that is used up (O4).
    Quota {
        /// Its name.
        quota: String,
        /// The layer whose policy has it: `platform`, `organization`, `agent`.
        layer: String,
        /// Milliseconds after which the same call can succeed; absent where waiting does not help.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// A precondition of a write (RFC 9110, 13; RFC 6585, 3).
    Precondition {
        /// Missing or failed.
        precondition: Precondition,
    },
    /// The body of a request did not arrive in time.
    BodyTimeout {
        /// The timeout.
        body_timeout_ms: u64,
    },
    /// The head of a request did not arrive in time.
    HeaderTimeout {
        /// The timeout.
        header_timeout_ms: u64,
    },
    /// Facts that only clients read.
    Other(Value),
}

impl Details {
    /// The JSON pointer of the wrong value, if there is one.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::Pointer { pointer } => Some(pointer),
            Self::Other(details) => details.get("pointer")?.as_str(),
            _ => None,
        }
    }
}

/// Members of the details of a plugin's failure that the daemon reads. A plugin may add others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PluginFailureDetails {
    /// Milliseconds after which the same call can succeed.
    pub retry_after_ms: Option<u64>,
    /// JSON pointer into the definition, from a component that reads definitions.
    pub pointer: Option<String>,
    /// The fix, likewise.
    pub hint: Option<String>,
}

/// Failure of the precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// The request has none: HTTP 428.
    Required,
    /// The state is another one: HTTP 412.
    Failed,
}

impl CallError {
    /// An error whose `retryable` is that of its type.
    pub fn new(error_type: ErrorType, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            error_type,
            message: message.into(),
            hint: hint.into(),
            details: None,
            retryable: error_type.retryable(),
        }
    }

    /// The caller cancelled the call or disconnected.
    pub fn cancellation() -> Self {
        Self::new(ErrorType::Cancelled, "the call was cancelled", "use a new id to call again")
    }

    /// Adds facts that only clients read.
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(Details::Other(details)), ..self }
    }

    /// Adds the JSON pointer of the wrong value.
    pub fn with_pointer(self, pointer: impl Into<String>) -> Self {
        Self { details: Some(Details::Pointer { pointer: pointer.into() }), ..self }
    }

    /// Adds the time after which the same call can succeed.
    pub fn with_retry_after_ms(self, retry_after_ms: u64) -> Self {
        Self { details: Some(Details::RetryAfter { retry_after_ms }), ..self }
    }

    /// Marks the error as one of a write's precondition.
    pub fn with_precondition(self, precondition: Precondition) -> Self {
        Self { details: Some(Details::Precondition { precondition }), ..self }
    }

    /// The JSON pointer of the wrong value, if the error has one.
    pub fn pointer(&self) -> Option<&str> {
        match &self.details {
            Some(Details::Pointer { pointer }) => Some(pointer),
            _ => None,
        }
    }

    /// Milliseconds after which the same call can succeed, if the daemon or the plugin said so.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match &self.details {
            Some(Details::RetryAfter { retry_after_ms }) => Some(*retry_after_ms),
            Some(Details::Quota { retry_after_ms, .. }) => *retry_after_ms,
            _ => self.plugin_details().retry_after_ms,
        }
    }

    /// The details of a plugin's failure.
    pub fn plugin_details(&self) -> PluginFailureDetails {
        match &self.details {
            Some(Details::Other(details)) => PluginFailureDetails::deserialize(details).unwrap_or_default(),
            _ => PluginFailureDetails::default(),
        }
    }

    /// The details as JSON, the form that clients get.
    pub fn details_json(&self) -> Option<Value> {
        serde_json::to_value(self.details.as_ref()?).ok()
    }

    /// The HTTP status of a request that fails with this error (RFC 9110, RFC 6585).
    pub fn http_status(&self) -> u16 {
        match self.details {
            Some(Details::Precondition { precondition: Precondition::Required }) => 428,
            Some(Details::Precondition { precondition: Precondition::Failed }) => 412,
            Some(Details::BodyTimeout { .. }) => 408,
            // Only a client's result can fail with it, which is the caller's fault.
            _ if self.error_type == ErrorType::InvalidOutput => 422,
            _ => self.error_type.http_status(),
        }
    }

    /// Overrides whether the same call can succeed later.
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.error_type, self.message)
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of documentation that is made from the table.
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errors.md");

    /// HTTP statuses of `daemon/src/http` that are not in the table.
    const OTHER_STATUSES: [(u16, ErrorType, &str); 7] = [
        (
            405,
            ErrorType::InvalidRequest,
            "The address does not take the method; `Allow` says which it takes.",
        ),
        (408, ErrorType::DeadlineExceeded, "The head or the body of the request did not arrive in time."),
        (
            412,
            ErrorType::Conflict,
            "`If-Match` or `If-None-Match` names another state than the one that is there.",
        ),
        (414, ErrorType::TooLarge, "The address has more than 65,534 bytes."),
        (422, ErrorType::InvalidOutput, "A client's result does not fit the tool's output schema."),
        (
            428,
            ErrorType::InvalidRequest,
            "Neither `If-Match` nor `If-None-Match` says what a write replaces.",
        ),
        (
            431,
            ErrorType::TooLarge,
            "The head of the request has more than 100 header fields, or more bytes than `http.header_bytes`.",
        ),
    ];

    fn page() -> String {
        let mut page = String::from(
            "# Errors\n\n\
             Every error has an `error_type` of this list, a `message`, a `hint` that says what to do about it, `retryable`, and\n\
             for some `details`. That of a call is in its result, behind HTTP 200; one of the interface itself is\n\
             `application/problem+json` (RFC 9457) with the HTTP status of this list, and has its message in `detail`.\n\
             *Again* says whether the same request can succeed later, unchanged; an error that knows better says so in\n\
             `retryable`.\n",
        );
        for (fault, title) in [
            (Fault::Caller, "The request was wrong"),
            (Fault::Gate, "A rule refused"),
            (Fault::Sandbox, "The tool broke a limit or its contract"),
            (Fault::World, "Something around the call failed"),
        ] {
            page += &format!("\n## {title}\n\n| `error_type` | HTTP | again | |\n|---|---|---|---|\n");
            for row in TABLE.iter().filter(|row| row.fault == fault) {
                let again = if row.retryable { "yes" } else { "no" };
                let meaning = row.error_type.meaning();
                page += &format!("| `{}` | {} | {again} | {meaning} |\n", row.code, row.http_status);
            }
        }
        page += "\n## Statuses that belong to no code\n\n\
                 Where HTTP has a status of its own for what is wrong with a request, the refusal has that one:\n\n\
                 | HTTP | `error_type` | |\n|---|---|---|\n";
        for (status, error_type, meaning) in OTHER_STATUSES {
            page += &format!("| {status} | `{}` | {meaning} |\n", error_type.as_str());
        }
        page
    }

    #[test]
    fn the_page_of_errors_says_what_the_table_says() {
        if std::env::var_os("TOOLGATE_BLESS").is_some() {
            std::fs::write(PAGE, page()).expect("the page is written");
        }
        let there = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert!(there == page(), "docs/errors.md is out of date: run this test with TOOLGATE_BLESS=1");
    }

    #[test]
    fn every_type_is_the_index_of_its_own_row() {
        assert_eq!(TABLE.len(), ErrorType::ALL.len());
        for error_type in ErrorType::ALL {
            assert_eq!(error_type.row().error_type, *error_type);
        }
    }

    #[test]
    fn every_code_reads_back_as_its_type() {
        for error_type in ErrorType::ALL {
            assert_eq!(error_type.as_str().parse(), Ok(*error_type));
        }
    }

    #[test]
    fn a_code_in_lower_case_is_no_code() {
        assert_eq!("internal".parse::<ErrorType>(), Err(ParseErrorTypeError("internal".to_owned())));
    }

    #[test]
    fn the_list_has_the_codes_that_the_interface_names() {
        let codes: Vec<&str> = ErrorType::ALL.iter().map(|error_type| error_type.as_str()).collect();
        let published = "INVALID_REQUEST UNAUTHENTICATED FORBIDDEN NOT_FOUND CONFLICT INVALID_ARGUMENTS INVALID_POLICY \
             INVALID_PLUGIN TOO_LARGE EXPIRED NO_TOOLS TOOL_NOT_FOUND ACCESS_DENIED TOOL_DISABLED INTEGRATION_MISSING \
             CHANNEL_RESTRICTED APPROVAL_DENIED APPROVAL_EXPIRED RATE_LIMITED QUOTA_EXCEEDED ROUNDS_EXCEEDED \
             FUEL_EXHAUSTED MEMORY_EXCEEDED DEADLINE_EXCEEDED RESOURCE_EXCEEDED OUTPUT_TOO_LARGE INVALID_OUTPUT \
             TOOL_CRASHED TOOL_FAILED NETWORK_DENIED API_UNAVAILABLE CREDENTIAL_MISSING OVERLOADED UNAVAILABLE \
             CANCELLED INTERNAL UNKNOWN";
        assert_eq!(codes, published.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn a_status_of_the_world_or_the_sandbox_is_never_read_as_success() {
        assert!(ErrorType::ALL.iter().all(|error_type| (400..600).contains(&error_type.http_status())));
    }

    #[test]
    fn an_error_takes_retryable_from_its_type_until_told_otherwise() {
        let limited = CallError::new(ErrorType::RateLimited, "too many calls", "wait");
        assert!(limited.retryable);
        assert!(!limited.retryable(false).retryable);
        assert!(!CallError::new(ErrorType::TooLarge, "too large", "send less").retryable);
    }
}
