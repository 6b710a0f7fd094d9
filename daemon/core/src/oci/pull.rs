//! Getting a plugin from a registry.

use bytes::Bytes;
use http::StatusCode;
use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_macros::boxed;

use super::Reference;
use super::manifest::{
    BlobDescriptor, COMPONENT_TYPE, CONFIG_TYPE, MANIFEST_TYPE, Manifest, SIGNATURE_TYPE, WasmConfig,
    signature_tag,
};
use super::session::RegistrySession;
use crate::digest::digest_of;

/// The largest manifest, config or signature. Registries take manifests up to 4 MiB; that of a component has some hundred
/// bytes.
const DOCUMENT_BYTES: u64 = 256 << 10;

/// Room for the body of a redirect or an error, which may be larger than a blob.
const OTHER_BODY_BYTES: usize = 64 << 10;

/// A plugin from a registry. Every part is verified against its digest.
#[derive(Debug)]
pub struct Pulled {
    /// The component.
    pub file: Bytes,
    /// The DSSE envelope, if the registry has one.
    pub signature: Option<Bytes>,
    /// The digest of the manifest that the reference named.
    pub digest: Digest,
}

/// Gets the component that a reference names, at most `limit_bytes`, with its signature.
#[boxed]
pub async fn pull(
    session: &mut RegistrySession,
    reference: &Reference,
    limit_bytes: u64,
) -> Result<Pulled, CallError> {
    let found = find_manifest(session, reference.target(), reference.digest.as_ref()).await?;
    let (digest, manifest) = found.ok_or_else(|| {
        CallError::new(
            ErrorType::NotFound,
            format!(
                "the registry `{}` has no `{}` in `{}`",
                reference.host,
                reference.target(),
                reference.repository
            ),
            "check the reference; a private registry may also hide what the login may not read",
        )
    })?;
    let layer = component_layer(&manifest)?;
    let config = get_blob(session, &manifest.config, DOCUMENT_BYTES).await?;
    let config: WasmConfig =
        serde_json::from_slice(&config).map_err(|_| wrong_layout("its config is not JSON"))?;
    // Other tools may leave the list out.
    if !config.layer_digests.is_empty() && config.layer_digests != [layer.digest.as_str()] {
        return Err(wrong_layout("its config names another component than its manifest"));
    }
    let file = get_blob(session, layer, limit_bytes).await?;
    let signature = find_signature(session, &digest).await?;
    Ok(Pulled { file, signature, digest })
}

async fn find_signature(session: &mut RegistrySession, digest: &Digest) -> Result<Option<Bytes>, CallError> {
    let Some((_, manifest)) = find_manifest(session, &signature_tag(digest), None).await? else {
        return Ok(None);
    };
    match &manifest.layers[..] {
        [layer] if layer.media_type == SIGNATURE_TYPE => {
            get_blob(session, layer, DOCUMENT_BYTES).await.map(Some)
        }
        // Another kind of signature, such as that of cosign.
        _ => Ok(None),
    }
}

/// Gets a manifest by tag or digest, with its digest.
async fn find_manifest(
    session: &mut RegistrySession,
    target: &str,
    expected: Option<&Digest>,
) -> Result<Option<(Digest, Manifest)>, CallError> {
    let limit_bytes = usize::try_from(DOCUMENT_BYTES).unwrap_or(usize::MAX);
    let response = session.get(&format!("manifests/{target}"), Some(MANIFEST_TYPE), limit_bytes).await?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        _ => return Err(session.status_error(&response)),
    }
    let digest = digest_of(response.body());
    let announced = response.headers().get("Docker-Content-Digest").map(|value| value.as_bytes());
    let is_other = |other: &[u8]| other != digest.as_str().as_bytes();
    if expected.is_some_and(|expected| *expected != digest) || announced.is_some_and(is_other) {
        return Err(wrong_digest("manifest"));
    }
    let manifest: Manifest = serde_json::from_slice(response.body())
        .map_err(|_| wrong_layout("it is no image manifest; name one of an index by its digest"))?;
    Ok(Some((digest, manifest)))
}

fn component_layer(manifest: &Manifest) -> Result<&BlobDescriptor, CallError> {
    if manifest.media_type.as_deref().is_some_and(|media_type| media_type != MANIFEST_TYPE) {
        return Err(wrong_layout("it is no image manifest"));
    }
    match &manifest.layers[..] {
        [layer] if layer.media_type == COMPONENT_TYPE && manifest.config.media_type == CONFIG_TYPE => {
            Ok(layer)
        }
        _ => Err(wrong_layout(
            "it needs one layer of type `application/wasm` and a config of type `application/vnd.wasm.config.v0+json`",
        )),
    }
}

async fn get_blob(
    session: &mut RegistrySession,
    blob: &BlobDescriptor,
    limit_bytes: u64,
) -> Result<Bytes, CallError> {
    let Ok(digest) = Digest::parse(&blob.digest) else {
        return Err(wrong_layout("its manifest has a digest that is not SHA-256"));
    };
    let size = usize::try_from(blob.size).ok().filter(|_| blob.size <= limit_bytes);
    let size = size.ok_or_else(|| {
        CallError::new(
            ErrorType::TooLarge,
            format!("the registry's file is larger than {limit_bytes} bytes"),
            "make it smaller, or ask the operator to raise `http.plugin_bytes`",
        )
    })?;
    let response = session.get(&format!("blobs/{digest}"), None, size.max(OTHER_BODY_BYTES)).await?;
    if response.status() != StatusCode::OK {
        return Err(session.status_error(&response));
    }
    let content = response.into_body();
    if content.len() != size || digest_of(&content) != digest {
        return Err(wrong_digest("file"));
    }
    Ok(content.into())
}

fn wrong_digest(what: &str) -> CallError {
    CallError::new(
        ErrorType::InvalidPlugin,
        format!("the registry sent another {what} than the one with this digest"),
        "push the plugin again; if that does not help, do not trust this registry",
    )
}

fn wrong_layout(why: &str) -> CallError {
    CallError::new(
        ErrorType::InvalidPlugin,
        format!("the reference names no plugin: {why}"),
        "push the plugin with `toolgate plugin push`, or another tool that uses the CNCF Wasm layout",
    )
}
