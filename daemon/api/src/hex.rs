//! Bytes as hexadecimal digits.

/// Formats bytes as lower-case hexadecimal digits.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
        text.extend(digits.into_iter().flatten());
    }
    text
}

/// Parses hexadecimal digits in either case. `None` for any other character, and for half a byte.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    // Allocated once, so that a key leaves no copy behind.
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    rest.is_empty().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        assert!(encode(&bytes).starts_with("000102") && encode(&bytes).ends_with("fdfeff"));
        assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        assert_eq!(decode(b"0aFf"), Some(vec![10, 255]));
        for text in ["0", "0g", "+1", " 1", "000", "é"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
