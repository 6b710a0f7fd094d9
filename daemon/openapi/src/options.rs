//! The options of an import.

use toolgate_api::limits::PLUGIN_TOOLS;

use crate::document::DOCUMENT_BYTES;
use crate::select::Selector;

/// Options of an import.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions<'a> {
    /// The namespace of the plugin: limits the length of tool names, and names the credential provider.
    pub namespace: &'a str,
    /// The URL of the API; overrides the document, and is required if the document names no host.
    pub base_url: Option<&'a str>,
    /// Longest document, in bytes; it bounds the number of values too.
    pub max_bytes: usize,
    /// Which operations to take; empty for all.
    pub select: &'a [Selector],
    /// Most actions to take, at most 1,000.
    pub limit: usize,
    /// Takes deprecated operations too.
    pub deprecated: bool,
    /// The security scheme to use, by its name in the document; without it, the most used one.
    pub scheme: Option<&'a str>,
    /// States in the definition that `GET`, `HEAD` and `OPTIONS` change nothing (RFC 9110, 9.2.1).
    pub safe_methods: bool,
    /// Writes output schemas. Documents are often wrong about responses, and a response that does not match is refused.
    pub output_schemas: bool,
}

impl<'a> ImportOptions<'a> {
    /// Takes all operations that are not deprecated, at the server that the document names.
    pub fn new(namespace: &'a str) -> Self {
        Self {
            namespace,
            base_url: None,
            max_bytes: DOCUMENT_BYTES,
            select: &[],
            limit: PLUGIN_TOOLS,
            deprecated: false,
            scheme: None,
            safe_methods: false,
            output_schemas: false,
        }
    }
}
