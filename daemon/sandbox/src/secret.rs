//! A secret in memory: wiped when dropped, and readable only through [`Secret::expose`].
//!
//! The type implements no `Debug`, `Display`, `Clone`, `Serialize` or comparison, so it can reach a log line, a response or a
//! copy only through an explicit `expose`. Two modules hold secrets: the credential store, which decrypts them, and
//! outgoing HTTP, which sends them and scans responses for them.
//!
//! ```compile_fail
//! # fn print(secret: toolgate_sandbox::Secret) {
//! println!("{secret:?}");
//! # }
//! ```

use zeroize::Zeroizing;

/// Secret bytes.
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// Copies the bytes and wipes the vector. Copies that the caller made before are the caller's to wipe.
    pub fn new(bytes: Vec<u8>) -> Self {
        // Copied, not shrunk: shrinking could reallocate and leave the old bytes unwiped.
        let mut bytes = Zeroizing::new(bytes);
        Self(Zeroizing::new(bytes.iter_mut().map(std::mem::take).collect()))
    }

    /// The bytes, to send or encrypt them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_gives_back_what_it_took() {
        let mut roomy = Vec::with_capacity(64);
        roomy.extend_from_slice(b"hunter2");
        assert_eq!(Secret::new(roomy).expose(), b"hunter2");
    }
}
