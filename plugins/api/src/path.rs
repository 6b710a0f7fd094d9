//! Percent-encoding, and validation of the paths of definitions and requests.
//!
//! A value is encoded so that it cannot contain a slash or end the path. A server may decode more than once and then read
//! `..`, so the finished path is validated at every level of decoding. The host applies the same rule; the check here
//! gives the model an answer that names the argument.

use std::fmt::Write;

use toolgate_api::network::validate_path;

/// Appends text with everything but letters, digits and `-._~` encoded (RFC 3986, 2.3).
pub fn encode_into(encoded: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
}

/// Validates a path, which may be empty.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() { Ok(()) } else { validate_path(path) }
}
