//! `base64`, and `md5sum` and the like

use formats::base64;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use crate::call::{Call, Options, lines, text_of};
use crate::shell::{Outcome, fail};

pub fn base64(call: &mut Call<'_>) -> Outcome {
    let options = call.options("dDiw:", "decode=d wrap=w ignore-garbage=i", false)?;
    let path = options.rest.first().map_or("-", String::as_str);
    let bytes = call.read_or_fail(path, 1)?;
    if options.has('d') || options.has('D') {
        let kept: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return match base64::decode(kept) {
            Ok(decoded) => call.out(decoded).map(|()| 0),
            Err(_) => fail("invalid input"),
        };
    }
    let width = options
        .value('w')
        .map_or(Ok(76), |text| text.parse().or_else(|_| fail(format!("invalid wrap size: '{text}'"))))?;
    let encoded = base64::encode(&bytes);
    if width == 0 {
        return call.out(encoded).map(|()| 0);
    }
    for line in encoded.as_bytes().chunks(width) {
        call.line(line)?;
    }
    Ok(0)
}

/// `md5sum`, `sha1sum`, `sha256sum` and `sha512sum`
pub fn checksum(call: &mut Call<'_>) -> Outcome {
    let options = call.options("cbt", "check=c quiet=q status=s", false)?;
    let mut status = 0;
    for path in options.paths() {
        status = status.max(match call.read(&path) {
            Ok(bytes) if options.has('c') => check(call, &options, &path, &bytes)?,
            Ok(bytes) => call.line(format!("{}  {path}", digest(call.name, &bytes))).map(|()| 0)?,
            Err(error) => call.complain_of(&path, &error).map(|()| 1)?,
        });
    }
    Ok(status)
}

/// Compares files with a list of digests.
fn check(call: &mut Call<'_>, options: &Options, path: &str, list: &[u8]) -> Outcome {
    let (mut checked, mut status) = (0, 0);
    for line in lines(list) {
        let line = text_of(line);
        let line = line.trim_end();
        let Some((expected, name)) = line.split_once("  ").or_else(|| line.split_once(" *")) else {
            continue;
        };
        checked += 1;
        let verdict = match call.read(name) {
            Ok(bytes) if digest(call.name, &bytes).eq_ignore_ascii_case(expected) => "OK",
            Ok(_) => "FAILED",
            Err(error) => call.complain_of(name, &error).map(|()| "FAILED open or read")?,
        };
        if !(options.has('s') || options.has('q') && verdict == "OK") {
            call.line(format!("{name}: {verdict}"))?;
        }
        status = status.max(i32::from(verdict != "OK"));
    }
    if checked > 0 {
        return Ok(status);
    }
    call.complain(&format!("{path}: no properly formatted checksum lines found")).map(|()| 1)
}

fn digest(name: &str, bytes: &[u8]) -> String {
    match name {
        "md5sum" => hex::encode(Md5::digest(bytes)),
        "sha1sum" => hex::encode(Sha1::digest(bytes)),
        "sha512sum" => hex::encode(Sha512::digest(bytes)),
        _ => hex::encode(Sha256::digest(bytes)),
    }
}
