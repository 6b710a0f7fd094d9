//! Path parameters, and the headers of writes as the OpenAPI document describes them.

use serde::Deserialize;
use toolgate_api::name::{Name, Namespace};
use toolgate_core::admin::CredentialKey;
use toolgate_state::documents::ToolKey;
use utoipa::IntoParams;

/// Declares the path parameters of routes. A route's extractor and its description are the same type.
macro_rules! paths {
    ($($(#[$about:meta])* $path:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* })*) => { $(
        $(#[$about])*
        #[derive(Deserialize, IntoParams)]
        #[into_params(parameter_in = Path)]
        pub struct $path {
            $($(#[$of_field])* pub $field: $type,)*
        }
    )* };
}

paths! {
    /// Path of an organization.
    OrgPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, example = "acme")]
        organization: Name,
    }

    /// Path of a document of the platform, or of an organization.
    OwnerPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, value_type = Name, example = "acme")]
        organization: Option<Name>,
    }

    /// Path of an agent.
    AgentPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, example = "acme")]
        organization: Name,
        /// The agent's name.
        #[param(inline, example = "support")]
        agent: Name,
    }

    /// Path of a credential.
    CredentialPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, example = "acme")]
        organization: Name,
        /// The credential's name.
        #[param(inline, example = "stripe")]
        name: Name,
    }

    /// Path of a publisher's key of the platform, or of an organization.
    PublisherKeyPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, value_type = Name, example = "acme")]
        organization: Option<Name>,
        /// The key's name.
        #[param(inline, example = "acme-2026")]
        name: Name,
    }

    /// Path of a webhook.
    WebhookPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, example = "acme")]
        organization: Name,
        /// The webhook's name.
        #[param(inline, example = "chat")]
        name: Name,
    }

    /// Path of a plugin.
    PluginPath {
        /// The plugin's namespace: lower-case words joined by hyphens.
        #[param(inline, example = "arithmetic")]
        namespace: Namespace,
    }

    /// Path of a plugin of the platform, or of one that an organization loaded for itself.
    OwnedPluginPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, value_type = Name, example = "acme")]
        organization: Option<Name>,
        /// The plugin's namespace: lower-case words joined by hyphens.
        #[param(inline, example = "arithmetic")]
        namespace: Namespace,
    }

    /// Path of a plugin as an organization has it.
    EnabledPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, example = "acme")]
        organization: Name,
        /// The plugin's namespace: lower-case words joined by hyphens.
        #[param(inline, example = "arithmetic")]
        namespace: Namespace,
    }

    /// Path of a custom tool.
    CustomToolPath {
        /// The organization's name.
        #[serde(rename = "org")]
        #[param(inline, example = "acme")]
        organization: Name,
        /// The namespace of the tool's actions: lower-case words joined by hyphens.
        #[param(inline, example = "weather")]
        namespace: Namespace,
    }

    /// Path of a token.
    TokenPath {
        /// The token's id; it is not the token's secret text.
        #[param(min_length = 1, example = "2eee2cedbf97cb68")]
        id: String,
    }

    /// Path of a session.
    SessionPath {
        /// The session's id.
        #[param(min_length = 1)]
        id: String,
    }

    /// Path of a tool in a session.
    ToolPath {
        /// The session's id.
        #[param(min_length = 1)]
        id: String,
        /// `call_NAMESPACE_TOOL`, or `NAMESPACE/TOOL` with the slash encoded as `%2F`.
        #[param(min_length = 1, example = "call_arithmetic_evaluate")]
        tool: String,
    }

    /// Path of an approval.
    ApprovalPath {
        /// The approval's id.
        #[param(min_length = 1)]
        id: String,
    }

    /// Path of a call in a session.
    CallPath {
        /// The session's id.
        #[param(min_length = 1)]
        id: String,
        /// The call's id.
        #[param(min_length = 1, example = "c1")]
        call: String,
    }

    /// Path of a file in a session's workspace.
    FilePath {
        /// The session's id.
        #[param(min_length = 1)]
        id: String,
        /// The path relative to the workspace's root. Segments are separated by `/`, sent literally or encoded as `%2F`.
        /// A segment can be neither `.` nor `..`.
        #[param(min_length = 1, example = "notes.txt")]
        path: String,
    }
}

impl From<CredentialPath> for CredentialKey {
    fn from(CredentialPath { organization, name }: CredentialPath) -> Self {
        Self { organization, name }
    }
}

impl From<CustomToolPath> for ToolKey {
    fn from(CustomToolPath { organization, namespace }: CustomToolPath) -> Self {
        Self { organization, namespace }
    }
}

impl From<EnabledPath> for ToolKey {
    fn from(EnabledPath { organization, namespace }: EnabledPath) -> Self {
        Self { organization, namespace }
    }
}

/// Declares headers that handlers read from the request, and the OpenAPI document alone takes from here.
macro_rules! headers {
    ($($(#[$about:meta])* $headers:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* })*) => { $(
        $(#[$about])*
        #[derive(IntoParams)]
        #[into_params(parameter_in = Header)]
        #[allow(dead_code, reason = "the derive alone reads the fields")]
        pub(super) struct $headers {
            $($(#[$of_field])* $field: $type,)*
        }
    )* };
}

headers! {
    /// Headers of a signed callback.
    CallbackHeaders {
        /// The present time in seconds since 1970, within five minutes of the daemon's clock.
        #[param(rename = "Toolgate-Timestamp", required = false, example = "1700000000")]
        timestamp: String,
        /// `v1=` and the HMAC-SHA256, in hexadecimal digits, of timestamp, dot and body under the secret of the webhook.
        #[param(rename = "Toolgate-Signature", required = false)]
        signature: String,
    }

    /// Header of an event stream.
    LastEventId {
        /// The `id` of the last event that was received. The stream begins with the events after it, as far as the daemon
        /// still has them: 1,024 of an organization, for five minutes after its last stream ended. Otherwise an event
        /// `dropped` comes first.
        #[param(rename = "Last-Event-ID", required = false)]
        last_event_id: String,
    }

    /// Precondition header of a file write.
    FileHeaders {
        /// `*`: the file must not exist yet. Files have no `ETag`, so no other value is accepted.
        #[param(rename = "If-None-Match", pattern = r"^\*$", required = false)]
        if_none_match: String,
    }

    /// Precondition headers of a document write.
    WriteHeaders {
        /// The `ETag` of the document to replace, a comma-separated list of tags, or `*` for any existing document.
        /// Either this header or `If-None-Match` is required.
        #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"), required = false)]
        if_match: String,
        /// `*`: the document must not exist yet.
        #[param(rename = "If-None-Match", pattern = r"^\*$", required = false)]
        if_none_match: String,
    }

    /// Optional precondition headers of a write or a delete.
    OptionalTags {
        /// The `ETag` of the resource to replace or delete, a comma-separated list of tags, or `*` for any existing
        /// resource.
        #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"), required = false)]
        if_match: String,
        /// `*`: the resource must not exist yet.
        #[param(rename = "If-None-Match", pattern = r"^\*$", required = false)]
        if_none_match: String,
    }

    /// Precondition header of a document's deletion.
    DeleteHeaders {
        /// The `ETag` of the document to delete, a comma-separated list of tags, or `*` for any existing document.
        #[param(rename = "If-Match", pattern = r#"^(\*|[ ,]*((W/)?"[!#-+\x2d-~]*"( *,[ ,]*(W/)?"[!#-+\x2d-~]*")*[ ,]*)?)$"#, example = json!("*"))]
        if_match: String,
    }
}
