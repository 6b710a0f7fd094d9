//! The common name of a certificate's subject (X.501 `Name` in DER), for clients without a subject alternative name.

/// DER tags.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// `UTF8String`, `PrintableString` and `IA5String`.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Returns the common name of a subject, without the tag and length of its sequence. None if there is not exactly one, or if
/// the subject is malformed.
pub(super) fn common_name(subject: &[u8]) -> Option<&str> {
    let mut found = None;
    let mut names = subject;
    while !names.is_empty() {
        let (tag, mut attributes, rest) = element(names)?;
        names = rest;
        if tag != SET {
            return None;
        }
        while !attributes.is_empty() {
            let (SEQUENCE, attribute, rest) = element(attributes)? else { return None };
            attributes = rest;
            let (OBJECT_IDENTIFIER, kind, value) = element(attribute)? else { return None };
            if kind != COMMON_NAME {
                continue;
            }
            let (tag, text, []) = element(value)? else { return None };
            let text = TEXTS.contains(&tag).then(|| std::str::from_utf8(text).ok())??;
            if found.replace(text).is_some() {
                return None;
            }
        }
    }
    found
}

/// Splits the first element off: its tag, its content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(&length, rest)| (usize::from(length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        let long: &[u8] = if length > 127 { &[0x81] } else { &[] };
        [&[tag], long, &[length], content].concat()
    }

    fn attribute(kind: u8, tag: u8, text: &[u8]) -> Vec<u8> {
        der(SEQUENCE, &[der(OBJECT_IDENTIFIER, &[0x55, 0x04, kind]), der(tag, text)].concat())
    }

    #[test]
    fn the_one_common_name_is_found_beside_other_attributes() {
        let (common, long) = (attribute(3, 0x0c, "wörker".as_bytes()), "w".repeat(100));
        let organization = der(SET, &attribute(10, 0x13, b"Acme"));
        assert_eq!(common_name(&[organization.clone(), der(SET, &common)].concat()), Some("wörker"));
        let multivalued = der(SET, &[attribute(10, 0x13, b"Acme"), common.clone()].concat());
        assert_eq!(common_name(&multivalued), Some("wörker"));
        assert_eq!(common_name(&der(SET, &attribute(3, 0x16, long.as_bytes()))), Some(&*long));
        assert_eq!(common_name(&organization), None);
        assert_eq!(common_name(&[der(SET, &common), der(SET, &common)].concat()), None, "which of two");
    }

    #[test]
    fn a_malformed_subject_has_no_common_name() {
        let sound = der(SET, &attribute(3, 0x0c, b"worker"));
        assert_eq!(common_name(&sound), Some("worker"));
        for end in 1..sound.len() {
            assert_eq!(common_name(&sound[..end]), None, "{end}");
        }
        assert_eq!(common_name(&der(SET, &attribute(3, 0x1e, b"worker"))), None, "another kind of text");
        assert_eq!(common_name(&der(SET, &attribute(3, 0x0c, b"\xff"))), None);
        assert_eq!(common_name(&[SET, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(common_name(b""), None);
    }
}
