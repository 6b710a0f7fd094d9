//! Tasks that models get wrong by hand: encodings, hashes, the parts of a URL, and unique identifiers.
//!
//! Each tool is a file here, and a thin function over `data`, where bytes are read from text and written as text. Bytes
//! that are no text are never guessed at: they are refused with the way to have them as hex or base64.

mod data;

mod decode;
mod encode;

mod hash;
mod hmac;

mod url_parse;
mod uuid_new;
mod uuid_parse;

use toolgate_sdk::plugin;

plugin! {
    "codec",
    publisher = "Toolgate",
    category = "Data",
    encode::encode, decode::decode, hash::hash, hmac::hmac, url_parse::url_parse, uuid_new::uuid_new,
    uuid_parse::uuid_parse
}

#[cfg(test)]
mod tests;
