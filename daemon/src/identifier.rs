//! Ids that nobody can guess: 128 random bits, in letters and digits.

/// A fresh id: the prefix, `_`, and 26 characters.
///
/// From the generator of this thread (ChaCha, seeded by the system now and then), so that a call costs no system
/// call. Tokens are made elsewhere.
pub fn fresh(prefix: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut number: u128 = rand::random();
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
