//! A secret in memory: wiped when dropped, and with no way out but [`Secret::expose`].
//!
//! There is no `Debug`, `Display`, `Clone`, `Serialize` or comparison, so that a secret reaches a log line, an answer or a
//! copy only where somebody wrote `expose`. It lives in two places: the credential store, which decrypts it, and
//! outgoing HTTP, which sends it and looks for it in what comes back.
//!
//! ```compile_fail
//! # fn print(secret: toolgate_sandbox::Secret) {
//! println!("{secret:?}");
//! # }
//! ```

use zeroize::Zeroizing;

/// Bytes that nobody may see.
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// Takes the bytes; what they were in is the caller's to wipe, where it is not wiped by being moved here.
    pub fn new(bytes: Vec<u8>) -> Self {
        // Shrinking could copy and leave the old allocation as it was.
        let mut bytes = Zeroizing::new(bytes);
        Self(Zeroizing::new(bytes.iter_mut().map(std::mem::take).collect()))
    }

    /// The bytes, for the one who sends or encrypts them.
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
