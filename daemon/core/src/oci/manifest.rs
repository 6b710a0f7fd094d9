//! The documents of the CNCF Wasm layout: an image manifest whose config describes the component, and whose one layer is it.

use serde::{Deserialize, Serialize};
use toolgate_admission::Digest;

use crate::digest::digest_of;

pub(super) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
pub(super) const COMPONENT_TYPE: &str = "application/wasm";
/// The types of a layer that is a component, in the layouts of the CNCF and of older tools, which Wassette and Spin use.
pub(super) const COMPONENT_TYPES: [&str; 2] = [COMPONENT_TYPE, "application/vnd.wasm.content.layer.v1+wasm"];
/// The types of the documents that a reference can name: a manifest, or an index of manifests.
pub(super) const MANIFEST_OR_INDEX: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
/// The config of an artifact without one, and its content.
pub(super) const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";
pub(super) const EMPTY: &[u8] = b"{}";
/// The layer of a signature.
pub(super) const SIGNATURE_TYPE: &str = "application/vnd.dsse.envelope.v1+json";

/// An image manifest (OCI image specification 1.1). Unknown members are ignored, as the specification asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub config: BlobDescriptor,
    pub layers: Vec<BlobDescriptor>,
}

/// An index: manifests, of which a reference must name one.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    pub manifests: Vec<BlobDescriptor>,
}

/// The type, digest and size of a blob.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlobDescriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
}

/// The config of a component. It lists the digests of the layers, so that no two components share a config.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WasmConfig {
    #[serde(default)]
    pub created: Option<String>,
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub layer_digests: Vec<String>,
}

impl BlobDescriptor {
    pub(super) fn new(media_type: &str, blob: &[u8]) -> Self {
        let digest = digest_of(blob).to_string();
        Self { media_type: media_type.to_owned(), digest, size: blob.len() as u64 }
    }
}

impl Manifest {
    pub(super) fn new(artifact_type: Option<&str>, config: BlobDescriptor, layer: BlobDescriptor) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST_TYPE.to_owned()),
            artifact_type: artifact_type.map(str::to_owned),
            config,
            layers: vec![layer],
        }
    }
}

/// The tag of the signature of a manifest. Registries before version 1.1 of the specification have no referrers.
pub(super) fn signature_tag(manifest: &Digest) -> String {
    format!("sha256-{}.sig", manifest.hex())
}
