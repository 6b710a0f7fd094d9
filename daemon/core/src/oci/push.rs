//! Putting a plugin into a registry.

use http::header::LOCATION;
use http::{Method, Response, StatusCode};
use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_macros::boxed;
use url::Url;

use super::Reference;
use super::manifest::{
    BlobDescriptor, COMPONENT_TYPE, CONFIG_TYPE, EMPTY, EMPTY_TYPE, MANIFEST_TYPE, Manifest, SIGNATURE_TYPE,
    WasmConfig, signature_tag,
};
use super::session::{RegistryRequest, RegistrySession, registry_error};
use crate::digest::digest_of;

/// The largest response to an upload; only an error has a body.
const RESPONSE_BYTES: usize = 64 << 10;

/// Puts a component, and its DSSE envelope if there is one, under the tag of the reference. Returns the digest of the manifest.
/// The same file always has the same digest.
#[boxed]
pub async fn push(
    session: &mut RegistrySession,
    reference: &Reference,
    file: &[u8],
    signature: Option<&[u8]>,
) -> Result<Digest, CallError> {
    let Some(tag) = &reference.tag else {
        return Err(CallError::new(
            ErrorType::InvalidRequest,
            "a push needs a tag, not a digest",
            "write it like `oci://registry.example.org/tools/weather:1.2.0`",
        ));
    };
    let layer = BlobDescriptor::new(COMPONENT_TYPE, file);
    let config = json(&WasmConfig {
        // A real time would give the same file another digest at each push.
        created: Some("1970-01-01T00:00:00Z".into()),
        architecture: "wasm".into(),
        os: "wasip2".into(),
        layer_digests: vec![layer.digest.clone()],
    })?;
    put_blob(session, file).await?;
    put_blob(session, &config).await?;
    let manifest = json(&Manifest::new(None, BlobDescriptor::new(CONFIG_TYPE, &config), layer))?;
    let digest = digest_of(&manifest);
    // First, so that the component is never there without its signature.
    if let Some(signature) = signature {
        put_blob(session, signature).await?;
        put_blob(session, EMPTY).await?;
        let config = BlobDescriptor::new(EMPTY_TYPE, EMPTY);
        let layer = BlobDescriptor::new(SIGNATURE_TYPE, signature);
        let manifest = json(&Manifest::new(Some(SIGNATURE_TYPE), config, layer))?;
        put_manifest(session, &signature_tag(&digest), &manifest).await?;
    }
    put_manifest(session, tag, &manifest).await?;
    Ok(digest)
}

async fn put_manifest(session: &mut RegistrySession, tag: &str, manifest: &[u8]) -> Result<(), CallError> {
    let url = session.url(&format!("manifests/{tag}"))?;
    let response = send(session, Method::PUT, url, Some(MANIFEST_TYPE), manifest).await?;
    match response.status() {
        StatusCode::CREATED => Ok(()),
        _ => Err(session.status_error(&response)),
    }
}

/// Uploads a blob that the registry does not have.
async fn put_blob(session: &mut RegistrySession, blob: &[u8]) -> Result<(), CallError> {
    let digest = digest_of(blob);
    let url = session.url(&format!("blobs/{digest}"))?;
    if send(session, Method::HEAD, url, None, &[]).await?.status() == StatusCode::OK {
        return Ok(());
    }
    let url = session.url("blobs/uploads/")?;
    let begun = send(session, Method::POST, url, None, &[]).await?;
    if begun.status() != StatusCode::ACCEPTED {
        return Err(session.status_error(&begun));
    }
    let location = begun.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let mut url = session.own_url(location.ok_or_else(|| registry_error("gives no URL for an upload"))?)?;
    url.query_pairs_mut().append_pair("digest", digest.as_str());
    let done = send(session, Method::PUT, url, Some("application/octet-stream"), blob).await?;
    match done.status() {
        StatusCode::CREATED => Ok(()),
        _ => Err(session.status_error(&done)),
    }
}

async fn send(
    session: &mut RegistrySession,
    method: Method,
    url: Url,
    content_type: Option<&'static str>,
    body: &[u8],
) -> Result<Response<Vec<u8>>, CallError> {
    let request =
        RegistryRequest { method, url, accept: None, content_type, body, response_bytes: RESPONSE_BYTES };
    session.send(&request).await
}

fn json(document: &impl serde::Serialize) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(document).map_err(|error| registry_error(&format!("gets no manifest: {error}")))
}
