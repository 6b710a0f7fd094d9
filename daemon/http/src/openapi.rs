//! The OpenAPI document: general description, tags and security scheme. Guards and handlers add the operations.

use bytes::Bytes;
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{RefOr, Required};

use super::guard::SCHEME;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Toolgate",
        description = "Runs the tools of AI agents: gated, validated, sandboxed, recorded.\n\n\
            An **operator** loads plugins and makes organizations. The **owner** of an organization makes its \
            agents and says what they may call. An **orchestrator**, the program around a language model, opens \
            a session for an agent and posts its tool calls there. An **auditor** reads the log of all that.\n\n\
            - Send `Authorization: Bearer TOKEN`. `x-toolgate-roles` of an operation lists the roles that may \
            use it; an operation without it needs no token.\n\
            - What belongs to another organization is answered as what does not exist.\n\
            - A refused request is answered with `application/problem+json` (RFC 9457). Its `error_type` is one \
            of a closed list; `x-toolgate-error-types` of a response lists those that it can have. What becomes \
            of a *call* is in a 200, whatever it is.\n\
            - Fields and query parameters that are not described here are refused. Answers may get new members.\n\
            - Another method than those described gets 405 with `Allow`, another address 404; both with a problem. `HEAD` is answered as \
            `GET`, without the body.\n\
            - Bodies are taken as they are: one with a `Content-Encoding` is refused.\n\
            - Times are in milliseconds since 1970, in UTC. Lists are paged by `cursor`.\n\
            - A secret is taken and never shown again; what it is for, where it may go and how it stands is.\n\
            - Documents (organizations, policies, agents) are replaced whole, under their `ETag`: a write without \
            `If-Match` or `If-None-Match` gets 428, one that comes too late 412.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/", description = "This daemon.")),
    tags(
        (name = "health", description = "Liveness, readiness, and this document."),
        (name = "custom tools", description = "Tools of an organization without code: of an HTTP API, an MCP server or shell commands."),
        (name = "plugins", description = "Components with tools, loaded while the daemon serves."),
        (name = "catalogue", description = "Plugins that an organization may use, has enabled and has accepted."),
        (name = "publishers", description = "Keys that prove who published a plugin file."),
        (name = "organizations", description = "Tenants, and the documents of each."),
        (name = "policies", description = "Policies and assertions of the platform and of organizations."),
        (name = "agents", description = "Agents, for which calls are made, and the tools of each."),
        (name = "credentials", description = "Secrets that the daemon adds to outgoing requests; no response has them."),
        (name = "tokens", description = "Tokens of programs and people, each with a role."),
        (name = "sessions", description = "One conversation of one agent, with a workspace of its own."),
        (name = "calls", description = "Calls of tools, their state and their results."),
        (name = "approvals", description = "Calls that wait for a person, and the decisions."),
        (name = "webhooks", description = "Where approvals are announced, and decisions that come back."),
        (name = "events", description = "Streams of the events of calls."),
        (name = "files", description = "The workspace of a session, which a tool sees as `/workspace`."),
        (name = "backup", description = "A copy of all that the daemon has, to restore it elsewhere."),
        (name = "audit", description = "The log of every call and every act of administration, chained so that tampering shows."),
    ),
    components(schemas(toolgate_api::document::DocumentAccepted, toolgate_api::catalogue::EnabledView, toolgate_api::custom_tool::CustomToolAccepted, toolgate_api::problem::Problem)),
    modifiers(&BearerToken),
)]
struct Outline;

struct BearerToken;

impl utoipa::Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "A token from `POST /v1/tokens`, or the first operator's, which the first start of the daemon writes \
             to `operator.token` in its data folder.",
        ));
        let scheme = SecurityScheme::Http(bearer.build());
        document.components.get_or_insert_default().add_security_scheme(SCHEME, scheme);
    }
}

/// Returns the document without operations.
pub(super) fn outline() -> utoipa::openapi::OpenApi {
    Outline::openapi()
}

/// Serializes the complete document as JSON.
pub(super) fn to_json(mut document: utoipa::openapi::OpenApi) -> Bytes {
    // The router writes a parameter that may contain slashes as `{*path}`, a syntax that OpenAPI does not have.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    document.paths.paths.values_mut().filter_map(|item| item.put.as_mut()).for_each(allow_no_bytes);
    // The document has only strings, numbers and maps with string keys, so serialization cannot fail.
    document.to_json().unwrap_or_default().into()
}

/// Marks the body of a file upload as optional: an empty file is a request without a body. The derive marks every
/// body as required.
fn allow_no_bytes(operation: &mut Operation) {
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && body.content.contains_key("application/octet-stream")
    {
        body.required = Some(Required::False);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document has most of a megabyte, and a client without a token may hold thousands of responses.
    #[test]
    fn responses_share_the_bytes_of_the_document() {
        let document = to_json(outline());
        assert!(document.starts_with(b"{\"openapi\":"));
        assert_eq!(document.clone().as_ptr(), document.as_ptr());
    }
}
