//! Ids that nobody can guess: 128 random bits, in letters and digits.

use ring::rand::{SecureRandom, SystemRandom};

/// A fresh id: the prefix, `_`, and 26 characters.
///
/// Where the machine gives no random numbers the process cannot do anything safely, and says so by
/// ending.
pub fn fresh(prefix: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bits = [0; 16];
    if SystemRandom::new().fill(&mut bits).is_err() {
        tracing::error!("the machine gives no random numbers");
        std::process::abort();
    }
    let mut number = u128::from_be_bytes(bits);
    let mut id = String::with_capacity(prefix.len() + 27);
    id.push_str(prefix);
    id.push('_');
    for _ in 0..26 {
        let digit = usize::try_from(number & 31).unwrap_or(0);
        id.push(char::from(ALPHABET[digit]));
        number >>= 5;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_differ() {
        let (one, other) = (fresh("s"), fresh("s"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 28);
        assert!(one.starts_with("s_") && one[2..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
