//! Issuers' private keys, for tests.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

use super::*;

/// A private key for tests, in PKCS #8. `ring` cannot make one.
const RSA: &[&str] = &[
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDtCsybcnG1IKOOurl6lgtujAJaz3GnS11RY1DhHIZDmoslrfgV",
    "iJiTzy/+5X5sdKaU8jcd6BaekjqZvZAHXKQCu5fg/ZNW3ANTBJPgxcZKHUI8fH/zgGcsPHFkPDkTxIa3EAU2cQm4PZ4vGoxp1hxu",
    "h5CSrzVb6ApAiHo9CH+oLA7jD0l5Rn5MPYXqkn4uMVAlj+AC/gVTDGZc0SvxYw2HSkPrQR2ihNRlsbK2Add1FDXBDfs0uWmiPk5r",
    "ABevF4CusMO6hJfu5Kofu0szO+fSHID54Po3SBGW0jCIVzs7OFyvm2LExi27DWQnE+IKgaTlE9chq/DacQoWDF4rp/9NAgMBAAEC",
    "ggEAF1cJ4IB7S79j+2jNXJGrnH3yuWhVo4hbLuldjFzXp45vBw3DMLObempbKnkEYr91q5LR9ILmv0Rcusichu0LRS2dfczaFiJh",
    "vWnk+avfo2qQHA6SNrK89fEZpSn84MJoFVxhdwPYVijTC4ZMrxsi/4sfpCHWWi9V2xbVGm9cyn0jjYyzlN+Ur3p66IXbEVjeYCG/",
    "B0WMj8nbRKeDCyJCoQQS0OqUTa7su62S8LHOWj2gQpw0lFTp996rV0MLBDyf+yaHXvtAxybDah6U8LhTthJvC6pi8GqVfC1hV5gK",
    "kOnXuC+34vQiuDnouwGMIniJ1iVhmNMlgwovUmxK476TTQKBgQD93h4OoOwFgaflA0K7OMcwMSsaFcZltMBDRdL2/hzcKYJ+aEB+",
    "dwjv3BNBYSlDKiFpLVxlOpD7bZhUrGRYBZ2qTDHG0fzCDpqJE9VrfnfyoR4R7kKZqISlS3GDf3MjavrFe3N6+zBO1FbH/Pvf8Un4",
    "imD1E+4sHgUAZebJ80WvvwKBgQDvCICtPB7nHYftMRH4OrkfKUVY1FIC+2PHba8TAWzDToTF6KorPUmSobob3lFWXR5q+coijTNU",
    "B/P2GPb7ZWn10D8s7iOihnOuraOASMTkjZ76w61ZWGSIZC16pyo50E3AYa5tsRFNNpYzPJv9VlMS9Q1Dy8ceG8O8s4i+yUkT8wKB",
    "gChUH7w9LiFVzoEf+nrZczMhrHIxYVoI074cGn5oMdd7tKI2F4C/kijgciKht7dWuwYFUbc3DY8Tgu54kFw3UCucfQ/Tje6Z+Uyr",
    "XOz9ozplA+zfR683SRMlH/w+w+CtfvbePKMdwjfTnZGZi72wjAqymOJ17xENF8hPZ9FPFxPrAoGARHan/HZS15mCvDIo1nNjYIR+",
    "o1G057u/OXi2A3iOAWa06saYLuhP8Vq3JpJHs7faJYPEHJ9ayz+35Y4C98B1V/28io7uz/c4nRiI0w6Ern3Nwj9XoFaL/PDMgevt",
    "UT/TdT3FKw/jR71Ryf0bJLWb97sOgJOWRY5oQt0dVp/qeXcCgYEA64tWT38X0+dJwaABjIanvY4nHsU7yInnEK3oFOeoilRUhp7g",
    "9yUXQGCa0LPRk+aYfvj2InAo+HV3rjkFbuCqDr4dEkkLQZU0dJBJOqqQSNRNt3/pAV+sVYukFvXf2W0ifzCiSslecdeFFsbhJRs8",
    "1HBZTk1Tk0afvGHTAlKN3kk=",
];

/// A private key with its id.
pub(crate) struct Signer {
    id: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn rs256(id: &'static str) -> Self {
        let key = base64::engine::general_purpose::STANDARD.decode(RSA.concat()).expect("base64");
        Self { id, pair: Pair::Rsa(RsaKeyPair::from_pkcs8(&key).expect("a key")) }
    }

    /// A new key of P-256.
    pub(crate) fn es256(id: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key");
        Self { id, pair: Pair::Ec(pair) }
    }

    /// A new key of Ed25519.
    pub(crate) fn eddsa(id: &'static str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self { id, pair: Pair::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("a key")) }
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// The public key.
    pub(crate) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.pair {
            Pair::Rsa(pair) => {
                let key = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "kid": self.id, "use": "sig", "n": text(&key.n), "e": text(&key.e)})
            }
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (text(&point[1..33]), text(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": self.id, "alg": "ES256", "x": x, "y": y})
            }
            Pair::Ed(pair) => {
                let x = text(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "key_ops": ["verify"], "x": x})
            }
        }
    }

    /// A token with the header that issuers send.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": self.algorithm(), "typ": "at+jwt", "kid": self.id}), claims)
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        self.sign_text(&format!("{}.{}", text(header), text(claims)))
    }

    pub(crate) fn sign_text(&self, message: &str) -> String {
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).expect("signed");
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, message.as_bytes()).expect("signed").as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// A JWK set.
pub(crate) fn set(keys: &[Value]) -> Map<String, Value> {
    Map::from_iter([("keys".to_owned(), Value::from(keys))])
}
