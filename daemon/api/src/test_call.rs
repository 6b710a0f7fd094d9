//! Test calls and their HTTP exchanges.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::call::CallResult;
use crate::definition::CustomToolDefinition;
use crate::network::NetworkRule;

/// A test call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCallRequest {
    /// The organization whose credentials and tools are used. Default: the organization of the token.
    #[schema(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64)]
    pub organization: Option<String>,
    /// A tool of the organization, by either of its names; with `definition`, the name of one of its actions.
    #[schema(min_length = 1, max_length = 200, example = "weather/current")]
    pub tool: String,
    /// A definition, which need not be saved.
    #[serde(default)]
    #[schema(value_type = Option<CustomToolDefinition>, required = false)]
    pub definition: Option<Box<RawValue>>,
    /// The namespace of `definition`. Default: `tryout`.
    #[schema(pattern = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length = 40)]
    pub namespace: Option<String>,
    /// The arguments. Default: none.
    #[serde(default)]
    #[schema(value_type = Option<Object>, required = false)]
    pub arguments: Option<Box<RawValue>>,
    /// The user of the call: credentials of this user are preferred where they exist.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    pub user: Option<String>,
}

/// The result of a test call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Trial)]
pub struct TestCallView<'a> {
    /// The outcome, as in a call of an agent.
    pub result: CallResult<'a>,
    /// The requests that were sent or refused, in order.
    pub requests: Vec<ExchangeView>,
}

/// One HTTP exchange.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TriedRequest)]
pub struct ExchangeView {
    /// Method and URL as sent, with secrets as `***`.
    pub request: String,
    /// The request headers, with secrets as `***`.
    pub headers: Vec<FieldView>,
    /// The request body.
    pub body: ExcerptView,
    /// The rule of the grant that allowed the request; null if none did.
    #[schema(required, value_type = Option<Object>)]
    pub rule: Option<NetworkRule>,
    /// The name of the credential in the request.
    #[schema(required)]
    pub credential: Option<String>,
    /// The status of the response; null without a response.
    #[schema(required)]
    pub status: Option<u16>,
    /// The response headers.
    pub answer_headers: Vec<FieldView>,
    /// The response body, decoded, without secrets.
    pub answer: ExcerptView,
    /// The reason why the request was not sent, or its response is incomplete.
    #[schema(required)]
    pub failed: Option<String>,
}

/// A header field.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HeaderField)]
pub struct FieldView {
    /// The name, in lower case.
    pub name: String,
    /// The value, with secrets as `***`.
    pub value: String,
}

/// The beginning of a body.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ContentExcerpt)]
pub struct ExcerptView {
    /// At most 256 KiB as UTF-8; invalid bytes are replaced by `�`.
    pub text: String,
    /// The size of the body in bytes, as far as it was read.
    pub bytes: u64,
}
