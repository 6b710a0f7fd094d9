//! Style sheet, script and icon of the console, compiled in. Their addresses have a hash, so browsers keep them for ever.

use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use toolgate_api::hex;
use toolgate_http::extract::Path;
use toolgate_http::problem::Problem;

const CSS: &str = include_str!("console.css");
const SCRIPT: &str = include_str!("console.js");
const ICON: &str = include_str!("icon.svg");

/// Bytes of the hash in addresses.
const HASH_BYTES: usize = 8;

static CSS_PATH: LazyLock<String> = LazyLock::new(|| address(CSS, "console.css"));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| address(SCRIPT, "console.js"));
static ICON_PATH: LazyLock<String> = LazyLock::new(|| address(ICON, "icon.svg"));

pub(super) fn css_path() -> &'static str {
    &CSS_PATH
}

pub(super) fn script_path() -> &'static str {
    &SCRIPT_PATH
}

pub(super) fn icon_path() -> &'static str {
    &ICON_PATH
}

/// Serves an asset at the address with its hash.
pub(super) async fn get(Path((hash, file)): Path<(String, String)>) -> Result<Response, Problem> {
    let (path, text, kind) = match file.as_str() {
        "console.css" => (css_path(), CSS, "text/css; charset=utf-8"),
        "console.js" => (script_path(), SCRIPT, "text/javascript; charset=utf-8"),
        "icon.svg" => (icon_path(), ICON, "image/svg+xml"),
        _ => return Err(Problem::not_found("asset")),
    };
    // An older page may ask for an older asset; nothing else may be kept under that address.
    let keep = if path == folder(&hash) + &file { "public, max-age=31536000, immutable" } else { "no-store" };
    Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, keep)], text).into_response())
}

fn address(text: &str, file: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    folder(&hex::encode(&hash.as_ref()[..HASH_BYTES])) + file
}

fn folder(hash: &str) -> String {
    format!("/console/assets/{hash}/")
}
