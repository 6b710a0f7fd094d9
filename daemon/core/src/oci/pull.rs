//! Getting a plugin from a registry.

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::text::escape_for_display;
use toolgate_macros::boxed;

use super::Reference;
use super::manifest::{
    BlobDescriptor, COMPONENT_TYPE, COMPONENT_TYPES, CONFIG_TYPE, Index, MANIFEST_OR_INDEX, MANIFEST_TYPE,
    Manifest, SIGNATURE_TYPE, WasmConfig, signature_tag,
};
use super::session::{RegistrySession, registry_error};
use crate::digest::digest_of;

/// The largest manifest, config or signature. Registries take manifests up to 4 MiB; that of a component has some hundred
/// bytes.
const DOCUMENT_BYTES: u64 = 256 << 10;

/// Longest text of a registry in a message, in characters.
const SHOWN_CHARS: usize = 500;

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
    if manifest.config.media_type == CONFIG_TYPE {
        check_config(session, &manifest, layer).await?;
    }
    let file = get_blob(session, layer, limit_bytes).await?;
    let signature = find_signature(session, &digest).await?;
    Ok(Pulled { file, signature, digest })
}

/// The config of the CNCF's layout names the component, and no other layer than those of its manifest. That of another layout says
/// nothing that is used here.
async fn check_config(
    session: &mut RegistrySession,
    manifest: &Manifest,
    component: &BlobDescriptor,
) -> Result<(), CallError> {
    let config = get_blob(session, &manifest.config, DOCUMENT_BYTES).await?;
    let config: WasmConfig =
        serde_json::from_slice(&config).map_err(|_| wrong_layout("its config is not JSON"))?;
    // Other tools may leave the list out.
    let named = &config.layer_digests;
    let is_layer = |digest: &String| manifest.layers.iter().any(|layer| layer.digest == *digest);
    match named.is_empty() || named.contains(&component.digest) && named.iter().all(is_layer) {
        true => Ok(()),
        false => Err(wrong_layout("its config names another component than its manifest")),
    }
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

/// Gets a manifest by tag or digest, with its digest. An index with one manifest stands for that.
async fn find_manifest(
    session: &mut RegistrySession,
    target: &str,
    expected: Option<&Digest>,
) -> Result<Option<(Digest, Manifest)>, CallError> {
    let Some((digest, body)) = find_document(session, target, expected).await? else { return Ok(None) };
    let Ok(index) = serde_json::from_slice::<Index>(&body) else {
        return read_manifest(&body).map(|manifest| Some((digest, manifest)));
    };
    let digests: Vec<&str> = index.manifests.iter().map(|manifest| &*manifest.digest).collect();
    let only = match digests[..] {
        [digest] => Digest::parse(digest).ok(),
        _ => None,
    };
    let only = only.ok_or_else(|| {
        let digests = escape_for_display(&digests.join(", "), SHOWN_CHARS);
        wrong_layout(&format!("it is an index of several manifests; name one as `@DIGEST`: {digests}"))
    })?;
    match find_document(session, only.as_str(), Some(&only)).await? {
        Some((_, body)) => read_manifest(&body).map(|manifest| Some((only, manifest))),
        None => Err(wrong_layout("the registry lacks the manifest that its index names")),
    }
}

fn read_manifest(body: &[u8]) -> Result<Manifest, CallError> {
    let manifest = serde_json::from_slice(body).ok().filter(|manifest: &Manifest| {
        manifest.media_type.as_deref().is_none_or(|media_type| media_type == MANIFEST_TYPE)
    });
    manifest.ok_or_else(|| wrong_layout("the registry's answer is no image manifest"))
}

/// Gets a manifest or an index by tag or digest, with its digest.
async fn find_document(
    session: &mut RegistrySession,
    target: &str,
    expected: Option<&Digest>,
) -> Result<Option<(Digest, Vec<u8>)>, CallError> {
    let limit_bytes = usize::try_from(DOCUMENT_BYTES).unwrap_or(usize::MAX);
    let response = session.get(&format!("manifests/{target}"), Some(MANIFEST_OR_INDEX), limit_bytes).await?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        _ => return Err(session.status_error(&response)),
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|content_type| content_type.starts_with("text/html")) {
        return Err(registry_error("sends a page of HTML: no registry answers at this address"));
    }
    let digest = digest_of(response.body());
    let announced = response.headers().get("Docker-Content-Digest").map(|value| value.as_bytes());
    let is_other = |other: &[u8]| other != digest.as_str().as_bytes();
    if expected.is_some_and(|expected| *expected != digest) || announced.is_some_and(is_other) {
        return Err(wrong_digest("manifest"));
    }
    Ok(Some((digest, response.into_body())))
}

/// The one layer that is a component. Layers of other types, such as files and policies of other hosts, are passed over.
fn component_layer(manifest: &Manifest) -> Result<&BlobDescriptor, CallError> {
    let is_component = |layer: &&BlobDescriptor| COMPONENT_TYPES.contains(&&*layer.media_type);
    let mut components = manifest.layers.iter().filter(is_component);
    if let (Some(component), None) = (components.next(), components.next()) {
        return Ok(component);
    }
    let types: Vec<&str> = manifest.layers.iter().take(10).map(|layer| &*layer.media_type).collect();
    let types = escape_for_display(&types.join("`, `"), SHOWN_CHARS);
    Err(wrong_layout(&format!("it needs one layer of the type `{COMPONENT_TYPE}`, and has `{types}`")))
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
