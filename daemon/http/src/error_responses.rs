//! Error responses of an operation in the OpenAPI document: status, code, and condition.
//!
//! Status and code come from the table of error types, so the document gives a code the same status as the daemon.
//! Errors of one operation that share a status become one response, whose `x-toolgate-error-types` lists the codes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;
use toolgate_api::error::ErrorType;
use utoipa::IntoResponses;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Header, Ref, RefOr, Response, Responses};

/// The extension that lists the error codes of a response.
const CODES: &str = "x-toolgate-error-types";

/// An error that an operation can return.
pub(super) struct ErrorResponse {
    status: u16,
    error_type: ErrorType,
    when: String,
}

impl ErrorResponse {
    /// An error with the status of its type.
    pub(super) fn new(error_type: ErrorType, when: impl Into<String>) -> Self {
        Self { status: error_type.http_status(), error_type, when: when.into() }
    }

    /// An error with an HTTP status that differs from the one of its type, such as 412 or 428.
    pub(super) fn with_status(status: u16, error_type: ErrorType, when: &str) -> Self {
        Self { status, error_type, when: when.into() }
    }

    /// Adds the error to the responses of an operation; merges it into an existing response of the same status.
    pub(super) fn add_to(&self, responses: &mut Responses) {
        join(responses, self.status.to_string(), RefOr::T(self.response()));
    }

    fn sentence(&self) -> String {
        format!("- `{}`: {}.", self.error_type.as_str(), self.when)
    }

    fn response(&self) -> Response {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let codes = ExtensionsBuilder::new().add(CODES, vec![self.error_type.as_str()]).build();
        let mut response = Response::new(self.sentence());
        response.content.insert("application/problem+json".into(), RefOr::T(content));
        response.extensions = Some(codes);
        response.headers =
            self.headers().map(|(name, header)| (name.into(), RefOr::T(header))).into_iter().collect();
        response
    }

    /// The response header that the error requires.
    fn headers(&self) -> Option<(&'static str, Header)> {
        match self.error_type {
            ErrorType::Unauthenticated => {
                Some(("WWW-Authenticate", text_header("`Bearer` (RFC 6750, section 3).")))
            }
            _ => None,
        }
    }
}

/// Joins the errors of `responses(…)` that share a status. Each has a key of its own there, since utoipa keeps one response a key.
pub(super) fn join_errors(responses: &mut Responses) {
    for (key, response) in std::mem::take(&mut responses.responses) {
        let status = key.split(' ').next().unwrap_or_default();
        join(responses, status.to_owned(), response);
    }
}

fn join(responses: &mut Responses, status: String, added: RefOr<Response>) {
    let known = match responses.responses.entry(status) {
        Entry::Vacant(place) => {
            place.insert(added);
            return;
        }
        Entry::Occupied(place) => place.into_mut(),
    };
    // The daemon's own responses are never references, and a referenced response is described elsewhere.
    let (RefOr::T(known), RefOr::T(added)) = (known, added) else { return };
    if !known.description.contains(&added.description) {
        known.description = format!("{}\n{}", known.description, added.description);
    }
    let codes = |response: &Response| -> Vec<Value> {
        let found = response.extensions.as_ref().and_then(|extensions| extensions.get(CODES)?.as_array());
        found.cloned().unwrap_or_default()
    };
    let mut joined = codes(known);
    joined.extend(codes(&added).into_iter().filter(|code| !joined.contains(code)).collect::<Vec<_>>());
    if !joined.is_empty() {
        known.extensions.get_or_insert_default().insert(CODES.into(), joined.into());
    }
    known.content.extend(added.content);
    known.headers.extend(added.headers);
}

pub(super) fn text_header(description: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build()
}

/// The errors of every change of a document under an entity tag.
pub(super) struct TagErrors;

impl IntoResponses for TagErrors {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let errors = [
            PreconditionFailed::responses(),
            PreconditionRequired::responses(),
            AuditUnavailable::responses(),
        ];
        errors.into_iter().flatten().collect()
    }
}

/// Declares a type for each error, for `responses(…)` of the handlers.
macro_rules! error_responses {
    ($($name:ident = $error_type:ident $(as $status:literal)?, $when:literal;)*) => {
        $(
            pub(super) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let error = error_responses!(@new $error_type $(as $status)?, $when);
                    // Another key than that of other errors with the status; `join_errors` joins them.
                    let key = format!("{} {}", error.status, stringify!($name));
                    BTreeMap::from([(key, RefOr::T(error.response()))])
                }
            }
        )*
    };
    (@new $error_type:ident, $when:literal) => { ErrorResponse::new(ErrorType::$error_type, $when) };
    (@new $error_type:ident as $status:literal, $when:literal) => {
        ErrorResponse::with_status($status, ErrorType::$error_type, $when)
    };
}

error_responses! {
    NoOrganization = NotFound, "no such organization, or it is not the token's";
    NoPlatformPolicy = NotFound, "the platform has no policy; every loaded tool is allowed";
    NoAssertions = NotFound, "no such organization, it is not the token's, or there are no assertions";
    AssertionBroken = Conflict, "an assertion would be broken; `details` has the agent, the tool and the rules that let the call through";
    NoPolicy = NotFound, "no such organization, it is not the token's, or it has no policy";
    NoAgent = NotFound, "no such agent, or its organization is not the token's";
    NoHistory = NotFound, "no such document was ever written, no such revision is kept, or it is not the token's";
    NoGrant = NotFound, "no such plugin is loaded, or nothing was granted to it";
    NotInCatalogue = NotFound, "the organization may use no such plugin, or it is not the token's";
    NoEnabledDocument = NotFound, "the organization has set nothing for such a plugin, or it is not the token's";
    OtherVersion = Conflict, "the consent is to another version than the one that serves, or an assertion would be broken";
    NoCustomTool = NotFound, "no such tool, or its organization is not the token's";
    NoCustomToolGrant = NotFound, "the organization has no such tool, or nothing was granted to it";
    ToolExists = Conflict as 412, "the organization already has a tool of that namespace";
    PlatformNamespace = Conflict, "a plugin of the platform has the namespace";
    TooManyTools = QuotaExceeded, "the organization has the maximum number of custom tools";
    ServerUnavailable = ApiUnavailable, "the server to be mounted did not respond";
    ServerDenied = NetworkDenied, "the server to be mounted may not be reached";
    ServerProtocolError = ToolFailed, "the server to be mounted does not speak the protocol";
    NoConsentPending = Conflict, "no consent is pending, another one is, or the tool is not mounted";
    TooManySessions = QuotaExceeded, "the organization has the maximum number of open sessions";
    TooManyStreams = QuotaExceeded, "the organization follows the maximum number of event streams";
    NoPlugin = NotFound, "no such plugin is loaded, or its organization is not the token's";
    NoSession = NotFound, "no such session, or the token may not use it";
    NoCall = NotFound, "no such call or session, or the token may not use the session";
    NoTool = NotFound, "no such tool or session, or the token may not use the session";
    UnknownChannel = InvalidRequest, "the channel is not one of the platform's or the organization's";
    NoApproval = NotFound, "no such approval, or it is not of the token's organization";
    OwnSession = Forbidden, "the token opened the session of the call";
    AlreadyDecided = Conflict, "the approval was decided before, or the call's result was posted before";
    ApprovalStale = ApprovalExpired, "the approval expired, or what it was bound to has changed";
    ResultTooLate = Expired, "the result came too late, or the session has ended";
    ResultMismatch = InvalidOutput as 422, "the result does not match the tool's output schema; the call stays open";
    NoCredential = NotFound, "no such credential or organization, or it is not the token's";
    OtherArgumentsInvalid = InvalidArguments, "`arguments_instead` does not match the input schema of the tool";
    NoWebhook = NotFound, "no such webhook or organization, or it is not the token's";
    HostNotGranted = NetworkDenied, "the operator has not granted the host of the URL to webhooks";
    TooManyWebhooks = QuotaExceeded, "the organization has the maximum number of webhooks";
    UnsignedCallback = Unauthenticated, "the callback is not signed by a webhook for this approval, or not in time";
    KeptInVault = Conflict, "the secret is in a vault, and must be changed there";
    Sealed = Unavailable, "the daemon has no root key to seal or open secrets with";
    TooManyCredentials = QuotaExceeded, "the organization has the maximum number of credentials";
    NoUserConsentNeeded = Conflict, "a credential of this kind needs no user's consent";
    TooManyPendingFlows = Overloaded, "too many credentials are being connected";
    TooManyDiscoveries = Overloaded, "too many discoveries are running";
    NoIssuers = NotFound, "the setting `[[oauth.issuers]]` is missing";
    NoClientMetadata = NotFound, "the setting `credentials.public_url` is missing";
    NoPendingFlow = Expired, "no authorization is pending for this response: it is unknown, too late, or already used";
    ConsentDenied = CredentialMissing, "the user denied consent, or the provider rejects the client or the code";
    ProviderUnavailable = ApiUnavailable, "the provider does not respond, or not as OAuth2 specifies";
    NoProvider = NotFound, "the setting `[console.oidc]` is missing";
    SignInRefused = Unauthenticated, "the person or the provider refused, or the ID token is not valid";
    NoRole = Forbidden, "no entry of `[[console.oidc.roles]]` fits the person";
    SignInEnded = Expired, "nobody typed the code in time";
    NoOtherKey = Conflict, "there is no other root key to rotate to, an earlier rotation is not finished, or a stored secret does not open";
    WrongRootKey = InvalidRequest, "that is not the root key of this store";
    NoFile = NotFound, "no such file or session, or the token may not use the session";
    FileExists = Conflict as 412, "the path exists, and `If-None-Match: *` requires that it does not";
    NoPublisherKey = NotFound, "no such key or organization, or it is not the token's";
    InvalidPublisherKey = InvalidRequest, "the document is not valid; `details.pointer` is the position of the error";
    StrictWarnings = InvalidPolicy, "the document has a warning, and `strict` refuses documents with warnings";
    NoWaitingVersion = Conflict, "no version waits for consent, or another one than the digest names";
    NoToken = NotFound, "no such token, or it is not of the caller's organization";
    LastOperator = Conflict, "it is the last token of an operator";
    TooManyTokens = QuotaExceeded, "the organization has the maximum number of tokens";
    SessionEnded = Expired, "the session was not used for too long and has ended";
    PreconditionFailed = Conflict as 412, "the document does not match the header's tag: it was changed, created or deleted since";
    PreconditionRequired = InvalidRequest as 428, "neither `If-Match` nor `If-None-Match` says what the write replaces";
    InvalidDocument = InvalidPolicy, "the document is not valid; `details.pointer` is the position of the error";
    InvalidPlugin = InvalidPlugin, "the file is not a plugin that follows the contract";
    OwnersLoadNothing = Forbidden, "the platform's policy does not let organizations load plugins";
    OwnedNamespaceTaken = Conflict, "a plugin of the platform, a custom tool or another publisher has the namespace";
    TooManyOwnedPlugins = QuotaExceeded, "the organization has as many plugins of its own, or as many bytes of them, as are kept";
    NamespaceTaken = Conflict, "the namespace is held by another publisher or by a built-in plugin";
    NoRegistryPlugin = NotFound, "the registry has no plugin under that reference";
    RegistryLogin = CredentialMissing, "the registry wants a login that the daemon does not have, or refuses it";
    RegistryUnavailable = ApiUnavailable, "the registry does not respond, or not in time";
    CannotRemove = Conflict, "the plugin is built in and can only be disabled, or an assertion would be broken";
    NoPreviousVersion = Conflict, "no earlier version is kept";
    NotEmpty = Conflict, "the folder is not empty";
    NoTools = NoTools, "the agent has no tool that it could call";
    TooManyCalls = TooLarge, "the request has more calls than the operator allows in one";
    WorkspaceFull = TooLarge, "the file does not fit into the space that is left in the workspace";
    AuditUnavailable = Unavailable, "the store or the audit log cannot be reached, so nothing was done";
    ShuttingDown = Unavailable, "the daemon is shutting down, or a component is not ready";
    BackupRuns = Conflict, "another backup is running";
    StoreUnreadable = Unavailable, "the store, the audit log or the workspace cannot be read";
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_of_one_status_become_one_response_with_all_their_codes() {
        let mut responses = Responses::new();
        ErrorResponse::new(ErrorType::Conflict, "taken").add_to(&mut responses);
        ErrorResponse::new(ErrorType::NoTools, "nothing to call").add_to(&mut responses);
        ErrorResponse::new(ErrorType::Conflict, "taken").add_to(&mut responses);
        let document = serde_json::to_value(&responses).expect("responses");
        assert_eq!(document["409"][CODES], json!(["CONFLICT", "NO_TOOLS"]));
        assert_eq!(document["409"]["description"], "- `CONFLICT`: taken.\n- `NO_TOOLS`: nothing to call.");
        assert_eq!(document.as_object().map(serde_json::Map::len), Some(1));
    }

    #[test]
    fn errors_of_an_operation_that_share_a_status_are_all_described() {
        let mut responses = Responses::new();
        for errors in [NoWebhook::responses(), NoSession::responses(), LastOperator::responses()] {
            responses.responses.extend(errors);
        }
        join_errors(&mut responses);
        let document = serde_json::to_value(&responses).expect("responses");
        let missing = document["404"]["description"].as_str().unwrap_or_default();
        assert!(missing.contains("no such webhook") && missing.contains("no such session"), "{document}");
        assert_eq!(document["404"][CODES], json!(["NOT_FOUND"]));
        assert_eq!(document.as_object().map(serde_json::Map::len), Some(2));
    }
}
