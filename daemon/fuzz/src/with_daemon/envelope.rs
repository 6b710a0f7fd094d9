//! Signatures of plugin files (O2), compared with a second reader of DSSE.

use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Map, Value};
use toolgate_core::signing::{Envelope, PublicKey};

use crate::error_format::assert_error_text;
use crate::strict;

/// The seed of the key that signs the seeds.
const KEY_SEED: [u8; 32] = [7; 32];

const ENVELOPE_BYTES: usize = 8 * 1024;
const SIGNATURES: usize = 8;
/// Deepest nesting of an envelope.
const LEVELS: u64 = 16;
const PAYLOAD_TYPE: &str = "application/vnd.toolgate.plugin+json";

/// Input: an envelope.
///
/// An envelope is accepted exactly if it is strict JSON of the form that DSSE v1 gives it. A key has signed it exactly if one of
/// its signatures verifies over the pre-authentication encoding; the key that it claims plays no part. Its statement has four
/// texts and nothing else. Each error is one visible line with a hint.
pub fn envelope(data: &[u8]) {
    let expected = read_envelope(data);
    let envelope = match Envelope::parse(data) {
        Ok(envelope) => envelope,
        Err(error) => {
            assert!(expected.is_none(), "an envelope is refused: {error}");
            return assert_error_text(&error.message, error.hint);
        }
    };
    let Some(SecondReading { payload, signatures }) = expected else { panic!("no envelope, and accepted") };
    let pair = Ed25519KeyPair::from_seed_unchecked(&KEY_SEED).expect("a key");
    let raw: &[u8] = pair.public_key().as_ref();
    let key = PublicKey::parse(&format!("ed25519:{}", encode_base64(raw))).expect("a public key");
    let header = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    let signed = [header.as_bytes(), &payload].concat();
    let verifier = UnparsedPublicKey::new(&ED25519, raw);
    let verifies = signatures.iter().any(|(_, bytes)| verifier.verify(&signed, bytes).is_ok());
    assert_eq!(envelope.is_signed_by(&key), verifies);
    let sum = digest(&SHA256, raw);
    let id: String = sum.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(key.id(), id);
    assert_eq!(envelope.claims(&key), signatures.iter().any(|(claim, _)| claim.as_deref() == Some(&id)));
    match (envelope.statement(), read_statement(&payload)) {
        (Ok(statement), Some([namespace, version, publisher, digest])) => {
            assert_eq!(
                [statement.namespace, statement.version, statement.publisher, statement.digest],
                [namespace, version, publisher, digest]
            );
        }
        (Err(error), None) => assert_error_text(&error.message, error.hint),
        (read, _) => panic!("a statement is read in two ways: {read:?}"),
    }
}

/// An envelope as the second reader sees it: signatures with the ids that they claim.
struct SecondReading {
    payload: Vec<u8>,
    signatures: Vec<(Option<String>, Vec<u8>)>,
}

fn read_envelope(data: &[u8]) -> Option<SecondReading> {
    let text = str::from_utf8(data).ok().filter(|text| text.len() <= ENVELOPE_BYTES)?;
    let envelope = strict::read(text, LEVELS)?;
    (envelope.get("payloadType")?.as_str()? == PAYLOAD_TYPE).then_some(())?;
    let payload = decode_base64(envelope.get("payload")?.as_str()?)?;
    let signatures = envelope.get("signatures")?.as_array()?;
    (1..=SIGNATURES).contains(&signatures.len()).then_some(())?;
    let signature = |signature: &Value| {
        let id = match signature.get("keyid") {
            None | Some(Value::Null) => None,
            Some(id) => Some(id.as_str()?.to_owned()),
        };
        Some((id, decode_base64(signature.get("sig")?.as_str()?)?))
    };
    let signatures = signatures.iter().map(signature).collect::<Option<_>>()?;
    Some(SecondReading { payload, signatures })
}

fn read_statement(payload: &[u8]) -> Option<[String; 4]> {
    let Value::Object(members) = strict::read(str::from_utf8(payload).ok()?, LEVELS)? else { return None };
    let text = |members: &Map<String, Value>, name: &str| Some(members.get(name)?.as_str()?.to_owned());
    let [namespace, version, publisher, digest] =
        ["namespace", "version", "publisher", "digest"].map(|name| text(&members, name));
    (members.len() == 4).then_some([namespace?, version?, publisher?, digest?])
}

/// Base64 with padding, in one of both alphabets (RFC 4648, 4 and 5), with zeros in the bits that no byte takes.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    ["+/", "-_"].into_iter().find_map(|specials| decode_in(text, specials))
}

fn decode_in(text: &str, specials: &str) -> Option<Vec<u8>> {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let has_whole_groups =
        text.len().is_multiple_of(4) && (text.len() - body.len() < 2 || body.len() % 4 == 2);
    has_whole_groups.then_some(())?;
    let (mut bytes, mut buffer, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in body.chars() {
        buffer = (buffer << 6) | value_of(letter, specials)?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(buffer >> bits).ok()?);
            buffer &= (1 << bits) - 1;
        }
    }
    (buffer == 0).then_some(bytes)
}

fn value_of(letter: char, specials: &str) -> Option<u32> {
    let code = u32::from(letter);
    match letter {
        'A'..='Z' => Some(code - u32::from('A')),
        'a'..='z' => Some(code - u32::from('a') + 26),
        '0'..='9' => Some(code - u32::from('0') + 52),
        _ => Some(62 + u32::try_from(specials.find(letter)?).ok()?),
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let whole =
            (0..3).fold(0_usize, |whole, at| (whole << 8) | usize::from(*group.get(at).unwrap_or(&0)));
        let letter = |at: usize| match at <= group.len() {
            true => char::from(LETTERS[(whole >> (18 - 6 * at)) & 63]),
            false => '=',
        };
        (0..4).map(letter).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// Seeds, each with a name for its content. Signatures are by the key of [`KEY_SEED`].
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("another-key", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"oKDAbyDJxzp/ZKdeRlktLSWv0bYX5fnTFHv+pwFFNZ3QrF8IxVNWfQjZR+d1wmH8GpcQ2In1aU1TdWnvaG8vDA=="}]}"#),
    ("another-type", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"z1OV+oxP5dXM5H8yT1IPQokCKyFxfp1dNjc6eM4YGSKYK7CZOBQAq0N028XLBriGTx8aijUWkn1C71w4yW0UCw=="}]}"#),
    ("array-for-envelope", r#"["eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","application/vnd.toolgate.plugin+json",[["fe812c12f3ab4ce6","hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="]]]"#),
    ("array-for-signature", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[["fe812c12f3ab4ce6","hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="]]}"#),
    ("base64-with-trailing-bits", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"sig":"AB=="}]}"#),
    ("base64-without-padding", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"sig":"AA"}]}"#),
    ("both-alphabets", r#"{"payload":"+_8=","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"sig":""}]}"#),
    ("changed-payload", r#"{"payload":"eyJuYW1lc3BhY2UiOiJlcnAiLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}]}"#),
    ("cut", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoi"#),
    ("empty-payload", r#"{"payload":"","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"Zr+pIUc0os2/sv9HagSqhWCov4JA+lw+oq6hRkeHUClzJwEScAFFLJiXRBrXtB/H9W242Ez16/LaOch7YMczAw=="}]}"#),
    ("empty-signature", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"sig":""}]}"#),
    ("hidden-key-id", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"a\u202eb","sig":""}]}"#),
    ("nine-signatures", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"sig":""},{"sig":""},{"sig":""},{"sig":""},{"sig":""},{"sig":""},{"sig":""},{"sig":""},{"sig":""}]}"#),
    ("no-key-id", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}]}"#),
    ("no-signatures", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[]}"#),
    ("not-an-object", r#""signature""#),
    ("nothing", r#""#),
    ("null-key-id", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":null,"sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}]}"#),
    ("payload-twice", r#"{"payload":"AAAA","payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}]}"#),
    ("signed-under-another-type", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"OxjQzWWvxuO+qq5n7VpHPrENYLOuV6n/frTWs6dibWQunkPXLQPE+j5s6kR8k9fA5/oTf9BkulIkYDUvo1nOBA=="}]}"#),
    ("signed-without-its-type", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"ZSeEu3eO0eA+fKsrW8P0iHttS2v4ykiSupU1efE8EOkGTk7GJz/1A4nrXdjKMsb+OoLgZxBI2wm+jW1xNVdxCQ=="}]}"#),
    ("statement-as-array", r#"{"payload":"WyJjcm0iLCIxLjAuMCIsImFjbWUiLCJzaGEyNTY6MDAiXQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"j6EOuTiFOVl+EEhL2Qs4EnmBq3Vq01XIRXhIlk6VeTPBvDqlQQXtnmwm8HoWXDmfxrrP+dOObVGKq0RVPEaCDQ=="}]}"#),
    ("statement-not-utf8", r#"{"payload":"//4=","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"8Y4nuU/xquYZ1TaAXAdf8sPoo/5UuMXAG4nCshiBQQL00OVsjIx49HE/udKFjqrPcWpv8OUauCxdwKQlldGUAA=="}]}"#),
    ("statement-twice", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEiLCJuYW1lc3BhY2UiOiJlcnAifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"vhVA3LTCmZ8u6Jd2G6HH0JrEiJ8r/v603TFMePH6bToSMP2rS3PE3NYS4zg2UDv6SAO+LCJYrmJ7SVT2MIIEDQ=="}]}"#),
    ("statement-with-hidden-field", r#"{"payload":"eyJuYeKAi21lc3BhY2UiOiJjcm0ifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"gHngwV6dYrSM31ltlpiXiO/+p7GCSeUONah+nfWLER6I68QwhT3HNzZPn2f52dO1dKKKiHX9jiJmE/pkhar5Dw=="}]}"#),
    ("statement-with-more", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEiLCJtb3JlIjoxfQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"3YAwqXNtWvDS1DKoOuOKpMPgGAMd9iKeMvFYAuyByRygtvtxg71vXar8NPdpSP444Rrx6vlPijDEMZWAuQYdCQ=="}]}"#),
    ("two-signatures", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"5c29b78f10a35a49","sig":"oKDAbyDJxzp/ZKdeRlktLSWv0bYX5fnTFHv+pwFFNZ3QrF8IxVNWfQjZR+d1wmH8GpcQ2In1aU1TdWnvaG8vDA=="},{"keyid":"fe812c12f3ab4ce6","sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}]}"#),
    ("unknown-field", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}],"more":{"a":[1,{"b":null}]}}"#),
    ("unknown-field-twice", r#"{"x":1,"x":2,"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}]}"#),
    ("url-safe-base64", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifSA=","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"sig":"HQI8mlQhHGpthp1PSHxafrK6_B2xiZeLtKFrPNKFSIIC9zeim4sJWdKbClB7DQPLKidkks0K2EKYJl_21PShBw=="}]}"#),
    ("usual", r#"{"payload":"eyJuYW1lc3BhY2UiOiJjcm0iLCJ2ZXJzaW9uIjoiMS4wLjAiLCJwdWJsaXNoZXIiOiJhY21lIiwiZGlnZXN0Ijoic2hhMjU2OmFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWEifQ==","payloadType":"application/vnd.toolgate.plugin+json","signatures":[{"keyid":"fe812c12f3ab4ce6","sig":"hbVSQcRwkBcAU9Msm1AnkEhNFoNbcL6H1Nm5zuIXSu7i/Gq6FWpnTLoh4JAb2LY4CZcdW0t0wPBuSpe9axdMAQ=="}]}"#),
];
