//! Tests of the behaviour that a model relies on. Hashes are compared with the examples of their standards.

use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::{Error, Tool, testing};
use uuid::Uuid;

use crate::ThisPlugin;
use crate::data::MAX_BYTES;
use crate::uuid_new::Version;
use crate::{decode, encode, hash, hmac, url_parse, uuid_new, uuid_parse};

fn call<T: Tool>(arguments: Value) -> Result<Value, Error> {
    testing::call::<T>(&testing::context().build(), arguments)
}

fn refusal<T: Tool>(arguments: Value) -> String {
    call::<T>(arguments.clone()).expect_err(&arguments.to_string()).message().to_owned()
}

#[test]
fn the_examples_are_true() {
    let context = testing::context().build();
    assert_eq!(testing::wrong_examples::<encode::encode>(&context), []);
    assert_eq!(testing::wrong_examples::<decode::decode>(&context), []);
    assert_eq!(testing::wrong_examples::<hash::hash>(&context), []);
    assert_eq!(testing::wrong_examples::<hmac::hmac>(&context), []);
    assert_eq!(testing::wrong_examples::<url_parse::url_parse>(&context), []);
    assert_eq!(testing::wrong_examples::<uuid_new::uuid_new>(&context), []);
    assert_eq!(testing::wrong_examples::<uuid_parse::uuid_parse>(&context), []);
}

#[test]
fn t1_every_tool_has_examples_that_can_be_called() {
    let description = testing::describe::<ThisPlugin>();
    assert_eq!(description["name"], "codec");
    assert_eq!(description["capabilities"], json!({"filesystem": "none"}));
    let context = testing::context().build();
    for tool in description["tools"].as_array().unwrap() {
        assert_eq!(tool["hints"]["read_only"], true, "{}", tool["name"]);
        let examples = tool["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{}", tool["name"]);
        for example in examples {
            let name = tool["name"].as_str().unwrap();
            let answer = testing::call_by_name::<ThisPlugin>(&context, name, example["input"].clone());
            assert!(answer.unwrap().is_ok(), "{name} {example}");
        }
    }
}

#[test]
fn what_is_encoded_is_decoded_again() {
    for data in ["", "f", "fo", "foo", "foob", "a b&c=ü/?#[]@!$'()*+,;:", "\0\n\u{7f}", "😀%41"] {
        for (to, from) in [
            ("base64", "base64"),
            ("base64url", "base64"),
            ("hex", "hex"),
            ("percent", "percent"),
            ("form", "form"),
        ] {
            for padding in [true, false] {
                let encoded =
                    call::<encode::encode>(json!({"data": data, "to": to, "padding": padding})).unwrap();
                let decoded =
                    call::<decode::decode>(json!({"encoded": encoded["encoded"], "from": from})).unwrap();
                assert_eq!(decoded, json!({"data": data, "bytes": data.len()}), "{data} {to}");
            }
        }
    }
}

#[test]
fn encodings_are_those_of_their_standards() {
    for (data, to, expected) in [
        ("foobar", "base64", "Zm9vYmFy"),
        ("f", "base64", "Zg=="),
        ("???>", "base64", "Pz8/Pg=="),
        ("???>", "base64url", "Pz8_Pg=="),
        ("foo\n", "hex", "666f6f0a"),
        ("-._~/ ", "percent", "-._~%2F%20"),
        ("a b+c~", "form", "a+b%2Bc%7E"),
    ] {
        let encoded = call::<encode::encode>(json!({"data": data, "to": to})).unwrap();
        assert_eq!(encoded["encoded"], expected, "{data} {to}");
    }
}

#[test]
fn decoding_takes_what_people_paste() {
    for (encoded, from, expected) in [
        ("Zm9v\r\n YmFy", "base64", "foobar"),
        ("Zg", "base64", "f"),
        ("Zg==", "base64", "f"),
        ("Pz8_Pg", "base64", "???>"),
        (" 0x66:6F-6f ", "hex", "foo"),
        ("a+b%2bc", "percent", "a+b+c"),
        ("a+b%2bc", "form", "a b+c"),
        ("ü", "percent", "ü"),
    ] {
        let decoded = call::<decode::decode>(json!({"encoded": encoded, "from": from})).unwrap();
        assert_eq!(decoded["data"], expected, "{encoded} {from}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_with_the_way_out() {
    let refused = call::<decode::decode>(json!({"encoded": "616263ff00", "from": "hex"})).unwrap_err();
    assert_eq!(
        refused.message(),
        "the 5 bytes are not text in UTF-8 (byte 4, 0xff, is wrong there): call again with `to` as `hex` or `base64`"
    );
    // Cut in the middle of a character.
    assert!(refusal::<decode::decode>(json!({"encoded": "61c3", "from": "hex"})).contains("byte 2, 0xc3"));

    let decoded =
        call::<decode::decode>(json!({"encoded": "616263ff00", "from": "hex", "to": "base64"})).unwrap();
    assert_eq!(decoded, json!({"data": "YWJj/wA=", "bytes": 5}));
}

#[test]
fn wrong_encodings_are_refused_with_the_place() {
    for (encoded, from, expected) in [
        ("Zm9v!", "base64", "`!` at character 5 does not belong to it"),
        ("Zmü9v", "base64", "`ü` at character 3"),
        ("Zm9vY", "base64", "5 characters are no whole number of bytes"),
        ("Zh==", "base64", "bits that no byte takes"),
        ("Zg==Zg==", "base64", "only the end may have it"),
        ("Zg===", "base64", "`encoded` is no base64"),
        ("+-", "base64", "the standard alphabet and"),
        ("abc", "hex", "3 hexadecimal digits, an odd number"),
        (" 0x12g4", "hex", "`g` at character 6"),
        ("100% ü", "percent", "`%` at character 4"),
        ("ü%4", "percent", "`%` at character 2"),
    ] {
        let refused = refusal::<decode::decode>(json!({"encoded": encoded, "from": from}));
        assert!(refused.contains(expected), "{encoded}: {refused}");
    }
    let huge = "a".repeat(MAX_BYTES + 1);
    assert!(refusal::<decode::decode>(json!({"encoded": huge, "from": "hex"})).contains("128 KiB"));
    assert!(refusal::<encode::encode>(json!({"data": huge, "to": "hex"})).contains("128 KiB"));
    assert!(refusal::<hash::hash>(json!({"data": "a".repeat(1024 * 1024 + 1)})).contains("1 MiB"));
}

#[test]
fn results_stay_under_the_cap_also_where_all_is_escaped() {
    let zeros = "%00".repeat(MAX_BYTES / 3);
    let control = "\u{1}".repeat(MAX_BYTES);
    for (text, from) in [(&zeros, "percent"), (&control, "percent")] {
        let decoded = call::<decode::decode>(json!({"encoded": text, "from": from})).unwrap();
        assert!(decoded.to_string().len() < 1024 * 1024);
    }
    let encoded = call::<encode::encode>(json!({"data": control, "to": "percent"})).unwrap();
    assert!(encoded.to_string().len() < 1024 * 1024);
}

#[test]
fn no_text_makes_it_panic() {
    for text in [
        "",
        " ",
        "=",
        "====",
        "%",
        "%%",
        "0x",
        "0X",
        "é",
        "\0",
        "-",
        ":",
        "://",
        "http://",
        "http://[",
        "http://é",
        "{",
        "urn:uuid:",
        "٣",
        "data:,",
    ] {
        for from in ["base64", "hex", "percent", "form"] {
            let _ = call::<decode::decode>(json!({"encoded": text, "from": from, "to": "hex"}));
        }
        let _ = call::<hash::hash>(json!({"data": text, "data_form": "base64", "expected": text}));
        let _ = call::<hmac::hmac>(json!({"data": text, "key": text, "key_form": "hex"}));
        let _ = call::<url_parse::url_parse>(json!({"url": text}));
        let _ = call::<url_parse::url_parse>(json!({"url": text, "base": "mailto:a@example.com"}));
        let _ = call::<uuid_parse::uuid_parse>(json!({"uuid": text}));
    }
}

#[test]
fn hashes_are_those_of_their_standards() {
    for (algorithm, expected) in [
        ("md5", "d41d8cd98f00b204e9800998ecf8427e"),
        ("sha1", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (
            "sha384",
            "38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b",
        ),
        (
            "sha512",
            "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
        ),
        ("blake3", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        ("crc32", "00000000"),
    ] {
        assert_eq!(
            call::<hash::hash>(json!({"data": "", "algorithm": algorithm})).unwrap()["hash"],
            expected,
            "{algorithm}"
        );
    }
    let as_base64 = call::<hash::hash>(json!({"data": "abc", "to": "base64"})).unwrap();
    assert_eq!(as_base64["hash"], "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

#[test]
fn an_expected_hash_is_compared_in_either_form() {
    let matches = |expected: &str| {
        call::<hash::hash>(json!({"data": "abc", "expected": expected})).map(|hash| hash["matches"].clone())
    };

    assert_eq!(matches("ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0").unwrap(), true);
    assert_eq!(matches(&"00".repeat(32)).unwrap(), false);
    assert!(
        matches("abc")
            .unwrap_err()
            .message()
            .contains("`expected` is no hash of this algorithm, which has 32 bytes")
    );
}

#[test]
fn t7_an_expected_hash_is_read_as_others_write_it() {
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let matches = |expected: &str| {
        call::<hash::hash>(json!({"data": "abc", "expected": expected})).map(|hash| hash["matches"].clone())
    };
    for expected in [
        format!("sha256={hex}"),
        format!("SHA-256: {}", hex.to_uppercase()),
        "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=".to_owned(),
        format!("{hex}  abc.txt\n"),
        format!("{hex} *a b.txt"),
        format!("{} {}", &hex[..32], &hex[32..]),
    ] {
        assert_eq!(matches(&expected), Ok(json!(true)), "{expected}");
        assert_eq!(matches(&expected.replace(['b', 'B', 'u'], "0")), Ok(json!(false)), "{expected}");
    }
    let other = matches("sha1=a9993e364706816aba3e25717850c26c9cd0d89d").unwrap_err();
    assert!(other.message().contains("set `algorithm` to `sha1`"), "{other}");
    let signed = json!({
        "data": "Hi There", "key": "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "key_form": "hex", "algorithm": "sha1",
        "expected": "sha1=b617318655057264e28bc0b6fb378c8ef146be00",
    });
    assert_eq!(call::<hmac::hmac>(signed).unwrap()["matches"], true);
}

#[test]
fn hmacs_are_those_of_their_standards() {
    // RFC 4231, case 6: a key longer than a block.
    let arguments = json!({"data": "Test Using Larger Than Block-Size Key - Hash Key First", "key": "aa".repeat(131), "key_form": "hex", "algorithm": "sha512"});
    let hash = call::<hmac::hmac>(arguments).unwrap()["hash"].clone();
    assert_eq!(
        hash,
        "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"
    );
    let md5 = call::<hmac::hmac>(
        json!({"data": "what do ya want for nothing?", "key": "Jefe", "algorithm": "md5"}),
    )
    .unwrap();
    assert_eq!(md5["hash"], "750c783e6ab0b503eaa86e310a5db738");
    assert!(call::<hmac::hmac>(json!({"data": "", "key": ""})).is_ok());
}

#[test]
fn urls_are_taken_apart() {
    let parts = |url: &str| call::<url_parse::url_parse>(json!({"url": url})).unwrap();

    let full = parts("ftp://us%40er:p%3Aw@münchen.de/a/%ff/b/");
    assert_eq!(full["username"], "us@er");
    assert_eq!(full["password"], "p:w");
    assert_eq!(full["host"], "xn--mnchen-3ya.de");
    assert_eq!(full["port"], 21);
    assert_eq!(full["segments"], json!(["a", "%ff", "b"]));
    assert_eq!(parts("mailto:ada@example.com")["path"], "ada@example.com");
    assert_eq!(
        parts("http://[::1]:80/?a&b=")["query"],
        json!([{"name": "a", "value": ""}, {"name": "b", "value": ""}])
    );
    assert_eq!(parts("http://127.1/")["host"], "127.0.0.1");
}

#[test]
fn what_is_no_url_is_refused_with_the_reason() {
    for (url, expected) in [
        ("example.com/a", "write it with its scheme"),
        ("http://a:99999/", "invalid port"),
        ("http://", "empty host"),
        ("", "write it with its scheme"),
    ] {
        let refused = refusal::<url_parse::url_parse>(json!({"url": url}));
        assert!(refused.contains(expected), "{url}: {refused}");
    }
    assert!(refusal::<url_parse::url_parse>(json!({"url": "a".repeat(40_000)})).contains("at most 32 KiB"));
}

#[test]
fn new_uuids_differ_and_those_of_time_are_sorted() {
    let made = |version: &str| -> Vec<Uuid> {
        let made = call::<uuid_new::uuid_new>(json!({"version": version, "count": 100})).unwrap();
        made["uuids"].as_array().unwrap().iter().map(|uuid| uuid.as_str().unwrap().parse().unwrap()).collect()
    };

    let random = made("v4");
    assert!(random.iter().all(|uuid| uuid.get_version_num() == 4));
    assert_eq!(random.iter().collect::<std::collections::BTreeSet<_>>().len(), 100);
    let timed = made("v7");
    assert!(timed.is_sorted() && timed.iter().all(|uuid| uuid.get_version_num() == 7));
    assert!(refusal::<uuid_new::uuid_new>(json!({"count": 0})).contains("make 1 to 100"));

    let known = uuid_new::make(Version::V7, 1_645_557_742_000).unwrap().to_string();
    assert_eq!(
        call::<uuid_parse::uuid_parse>(json!({"uuid": known})).unwrap()["unix_milliseconds"],
        1_645_557_742_000_u64
    );
}

#[test]
fn t7_uuids_are_read_in_every_form() {
    let parse = |uuid: &str| call::<uuid_parse::uuid_parse>(json!({"uuid": uuid}));

    let expected = parse("c232ab00-9414-11ec-b3c8-9f6bdeced846").unwrap();
    assert_eq!(expected["unix_milliseconds"], 1_645_557_742_000_u64);
    assert_eq!(parse(" urn:uuid:C232AB00-9414-11EC-B3C8-9F6BDECED846\n").unwrap(), expected);
    assert_eq!(parse("URN:UUID:c232ab00941411ecb3c89f6bdeced846").unwrap(), expected);
    assert!(parse("urn:uuid:").is_err() && parse("urn:uuid:c232").is_err());
    assert_eq!(parse("00000000-0000-0000-0000-000000000000").unwrap()["kind"], "nil, which stands for none");
    assert!(parse("c232ab00-9414-11ec-b3c8-9f6bdeced84g").unwrap_err().message().contains("is no UUID"));
    assert!(parse(&"0".repeat(1_000)).unwrap_err().message().contains("too long"));
}
