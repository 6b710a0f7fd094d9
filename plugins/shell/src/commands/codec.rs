//! `base64` and `sha256sum`

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest, Sha256};

use crate::call::{Call, lines, text_of};
use crate::shell::{Outcome, fail};

pub fn base64(call: &mut Call<'_>) -> Outcome {
    let options = call.options("dDiw:", "decode=d wrap=w ignore-garbage=i", false)?;
    let path = options.rest.first().map_or("-", String::as_str);
    let bytes = call.read_or_fail(path, 1)?;
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&STANDARD, config);
    if options.has('d') || options.has('D') {
        let kept: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return match engine.decode(kept) {
            Ok(decoded) => call.out(decoded).map(|()| 0),
            Err(_) => fail("invalid input"),
        };
    }
    let width = options
        .value('w')
        .map_or(Ok(76), |text| text.parse().or_else(|_| fail(format!("invalid wrap size: '{text}'"))))?;
    let encoded = engine.encode(bytes);
    if width == 0 {
        return call.out(encoded).map(|()| 0);
    }
    for line in encoded.as_bytes().chunks(width) {
        call.line(line)?;
    }
    Ok(0)
}

pub fn sha256(call: &mut Call<'_>) -> Outcome {
    let options = call.options("cbt", "check=c quiet=q status=s", false)?;
    let stdin = ["-".to_owned()];
    let paths = if options.rest.is_empty() { &stdin[..] } else { &options.rest };
    let mut status = 0;
    for path in paths {
        let bytes = match call.read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                call.complain_of(path, &error)?;
                status = 1;
                continue;
            }
        };
        if !options.has('c') {
            call.line(format!("{}  {path}", digest(&bytes)))?;
            continue;
        }
        let mut checked = 0;
        for line in lines(&bytes) {
            let line = text_of(line);
            let line = line.trim_end();
            let Some((expected, name)) = line.split_once("  ").or_else(|| line.split_once(" *")) else {
                continue;
            };
            checked += 1;
            let verdict = match call.read(name) {
                Ok(bytes) if digest(&bytes).eq_ignore_ascii_case(expected) => "OK",
                Ok(_) => "FAILED",
                Err(error) => {
                    call.complain_of(name, &error)?;
                    "FAILED open or read"
                }
            };
            let is_told = !(options.has('s') || options.has('q') && verdict == "OK");
            if is_told {
                call.line(format!("{name}: {verdict}"))?;
            }
            status = status.max(i32::from(verdict != "OK"));
        }
        if checked == 0 {
            call.complain(&format!("{path}: no properly formatted checksum lines found"))?;
            status = 1;
        }
    }
    Ok(status)
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
