//! Ids that nobody can guess: 128 random bits, in letters and digits.

/// A fresh id: the prefix, `_`, and 26 characters.
///
/// From the generator of this thread (ChaCha, seeded by the system now and then), so that a call costs no system
/// call. Tokens are made elsewhere.
pub fn fresh(prefix: &str) -> String {
    let mut id = String::with_capacity(prefix.len() + 27);
    id.push_str(prefix);
    id.push('_');
    push_digits(&mut id, rand::random(), 26);
    id
}

/// A fresh id that sorts after those that were made in an earlier millisecond; 100 bits of it are random.
pub fn in_order(prefix: &str, now_ms: u64) -> String {
    let mut digits = String::with_capacity(9);
    push_digits(&mut digits, now_ms.into(), 9);
    let mut id = format!("{prefix}_{}", digits.chars().rev().collect::<String>());
    push_digits(&mut id, rand::random(), 20);
    id
}

/// The least digit first.
fn push_digits(id: &mut String, mut number: u128, count: usize) {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    for _ in 0..count {
        let digit = usize::try_from(number & 31).unwrap_or(0);
        id.push(char::from(ALPHABET[digit]));
        number >>= 5;
    }
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

    #[test]
    fn ids_in_order_sort_by_their_time() {
        let ids = [0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001].map(|now_ms| in_order("a", now_ms));
        assert!(ids.is_sorted(), "{ids:?}");
        assert_ne!(in_order("a", 5), in_order("a", 5));
    }
}
