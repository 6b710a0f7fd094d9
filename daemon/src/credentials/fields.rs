//! What of a credential is secret, as one run of bytes: a tag, a length and the bytes of each part that is there.
//!
//! Not JSON: a JSON library leaves copies of what it reads and writes behind, and nobody wipes them.

use toolgate_sandbox::Secret;
use zeroize::Zeroizing;

/// The secret parts of a credential.
#[derive(Default)]
pub struct SecretFields {
    /// The key, token, password or client secret that a person gave.
    pub given: Option<Secret>,
    /// What an OAuth2 provider handed out.
    pub access_token: Option<Secret>,
    /// What gets the next one.
    pub refresh_token: Option<Secret>,
}

impl SecretFields {
    /// What a person gave, and nothing else.
    pub fn given(secret: Secret) -> Self {
        Self { given: Some(secret), ..Self::default() }
    }

    /// All parts as bytes.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let parts = || {
            let fields = [&self.given, &self.access_token, &self.refresh_token];
            (1_u8..).zip(fields).filter_map(|(tag, field)| Some((tag, field.as_ref()?.expose())))
        };
        let length = parts().map(|(_, bytes)| 5 + bytes.len()).sum();
        let mut encoded = Zeroizing::new(Vec::with_capacity(length));
        for (tag, bytes) in parts() {
            encoded.push(tag);
            encoded.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
            encoded.extend_from_slice(bytes);
        }
        encoded
    }

    /// The parts; none where the bytes are something else.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Self::default();
        while let Some((tag, rest)) = bytes.split_first() {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
            let field = match tag {
                1 => &mut fields.given,
                2 => &mut fields.access_token,
                3 => &mut fields.refresh_token,
                _ => return None,
            };
            *field = Some(Secret::new(value.to_vec()));
            bytes = rest;
        }
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Option<Secret> {
        Some(Secret::new(text.as_bytes().to_vec()))
    }

    fn texts(fields: &SecretFields) -> [Option<&[u8]>; 3] {
        [&fields.given, &fields.access_token, &fields.refresh_token]
            .map(|field| field.as_ref().map(Secret::expose))
    }

    #[test]
    fn the_parts_read_back() {
        let all =
            SecretFields { given: secret("given"), access_token: secret(""), refresh_token: secret("r") };
        let some = SecretFields { refresh_token: secret("r"), ..SecretFields::default() };
        for fields in [all, some, SecretFields::default()] {
            let read = SecretFields::decode(&fields.encode()).unwrap();
            assert_eq!(texts(&read), texts(&fields));
        }
    }

    #[test]
    fn what_is_something_else_does_not_read() {
        for bytes in [&[1, 0, 0, 0][..], &[1, 0, 0, 0, 9, 1], &[9, 0, 0, 0, 0], &[1, 255, 255, 255, 255]] {
            assert!(SecretFields::decode(bytes).is_none(), "{bytes:?}");
        }
    }
}
