//! Signatures of requests to webhooks and of their callbacks: HMAC-SHA256 over timestamp, dot and body.

use ring::hmac;
use toolgate_api::hex;
use toolgate_sandbox::Secret;

/// Header of the time of a request, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "toolgate-timestamp";
/// Header of the signature: `v1=` and 64 hexadecimal digits.
pub const SIGNATURE_HEADER: &str = "toolgate-signature";

const PREFIX: &str = "v1=";

/// Signs a body for its header.
pub(super) fn sign(secret: &Secret, timestamp: &str, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&key(secret));
    update(&mut context, timestamp, body);
    format!("{PREFIX}{}", hex::encode(context.sign().as_ref()))
}

/// Verifies the header of a signature, in constant time.
pub(super) fn verify(secret: &Secret, timestamp: &str, body: &[u8], header: &str) -> bool {
    let Some(tag) = header.strip_prefix(PREFIX).and_then(|digits| hex::decode(digits.as_bytes())) else {
        return false;
    };
    let message = [timestamp.as_bytes(), b".", body].concat();
    hmac::verify(&key(secret), &message, &tag).is_ok()
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose())
}

fn update(context: &mut hmac::Context, timestamp: &str, body: &[u8]) {
    for part in [timestamp.as_bytes(), b".", body] {
        context.update(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes().to_vec())
    }

    /// `printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'whsec_0123456789abcdef'`
    #[test]
    fn g18_a_signature_is_that_of_other_implementations() {
        let signed = sign(&secret("whsec_0123456789abcdef"), "1700000000", b"{\"a\":1}");
        assert_eq!(signed, "v1=9f5e37cdc7ea587c7c02062d93283cad000d66a831b2a1676418696db47ed6c2");
    }

    #[test]
    fn g18_a_signature_is_of_one_secret_time_and_body() {
        let signed = sign(&secret("one"), "5", b"body");
        assert!(verify(&secret("one"), "5", b"body", &signed));
        assert!(!verify(&secret("two"), "5", b"body", &signed));
        assert!(!verify(&secret("one"), "6", b"body", &signed));
        assert!(!verify(&secret("one"), "5", b"bod", &signed));
        for header in ["", "v1=", "v1=0", &signed[3..], &signed[..signed.len() - 2], &format!("{signed}00")] {
            assert!(!verify(&secret("one"), "5", b"body", header), "{header}");
        }
    }
}
