//! Unguessable ids: 128 random bits in base32 (Crockford's alphabet, lower case).

/// Returns a random id: the prefix, `_`, and 26 characters.
///
/// Uses the thread's generator (ChaCha, reseeded by the system), which needs no system call. Not for tokens.
pub fn fresh(prefix: &str) -> String {
    let mut id = String::with_capacity(prefix.len() + 27);
    id.push_str(prefix);
    id.push('_');
    push_digits(&mut id, rand::random(), 26);
    id
}

/// Returns an id that sorts after those of earlier milliseconds; 100 of its bits are random.
pub fn time_ordered(prefix: &str, now_ms: u64) -> String {
    let mut digits = String::with_capacity(9);
    push_digits(&mut digits, now_ms.into(), 9);
    let mut id = format!("{prefix}_{}", digits.chars().rev().collect::<String>());
    push_digits(&mut id, rand::random(), 20);
    id
}

/// Appends base32 digits, least significant first.
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
        let ids =
            [0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001].map(|now_ms| time_ordered("a", now_ms));
        assert!(ids.is_sorted(), "{ids:?}");
        assert_ne!(time_ordered("a", 5), time_ordered("a", 5));
    }
}
