//! `stat` and `file`

use std::time::UNIX_EPOCH;

use super::date::format_seconds;
use crate::call::Call;
use crate::escape;
use crate::files::{Kind, Metadata, explain};
use crate::shell::{Outcome, fail};

/// The bytes of a block, in which a disk gives room to files.
pub const BLOCK_BYTES: u64 = 4096;

/// First bytes of kinds of files that the library does not know, with their descriptions and media types.
const MARKS: [(&[u8], &str, &str); 4] = [
    (b"#!/usr/bin/env python", "Python script, ASCII text executable", "text/x-script.python"),
    (b"#!/usr/bin/env bash", "Bourne-Again shell script, ASCII text executable", "text/x-shellscript"),
    (b"#!/bin/bash", "Bourne-Again shell script, ASCII text executable", "text/x-shellscript"),
    (b"#!/bin/sh", "POSIX shell script, ASCII text executable", "text/x-shellscript"),
];

/// Descriptions of media types.
const DESCRIPTIONS: [(&str, &str); 12] = [
    ("application/gzip", "gzip compressed data"),
    ("application/pdf", "PDF document"),
    ("application/vnd.sqlite3", "SQLite 3.x database"),
    ("application/wasm", "WebAssembly (wasm) binary module"),
    ("application/x-executable", "ELF executable"),
    ("application/x-tar", "POSIX tar archive"),
    ("application/zip", "Zip archive data"),
    ("image/gif", "GIF image data"),
    ("image/jpeg", "JPEG image data"),
    ("image/png", "PNG image data"),
    ("image/webp", "Web/P image"),
    ("text/xml", "XML 1.0 document text"),
];

fn kind_name(found: &Metadata) -> &'static str {
    match found.kind {
        Kind::File if found.bytes == 0 => "regular empty file",
        Kind::File => "regular file",
        Kind::Folder => "directory",
        Kind::Link => "symbolic link",
        Kind::Other => "special file",
    }
}

/// `stat`. Files have no modes and owners, so those of most files stand there.
pub fn stat(call: &mut Call<'_>) -> Outcome {
    let options = call.options("c:p:L", "format=c printf=p dereference=L", false)?;
    if options.rest.is_empty() {
        return fail("missing operand");
    }
    let verbose = "  File: %n\n  Size: %s\tBlocks: %b\tIO Block: 4096   %F\nAccess: (0%a/%A)  Uid: ( 1000/   agent)   \
        Gid: ( 1000/   agent)\nModify: %y";
    let (format, ends_line) = match (options.value('p'), options.value('c')) {
        (Some(format), _) => (escape::decode(format, escape::Kind::Format).0, false),
        (None, format) => (format.unwrap_or(verbose).to_owned(), true),
    };
    let mut status = 0;
    for path in &options.rest {
        match call.place(path).and_then(|place| place.link_metadata()) {
            Ok(found) => {
                let mut text = write_stat(&format, path, &found)?;
                text.extend(ends_line.then_some('\n'));
                call.out(text)?;
            }
            Err(error) => {
                call.complain(&format!("cannot stat '{path}': {}", explain(&error)))?;
                status = 1;
            }
        }
    }
    Ok(status)
}

fn write_stat(format: &str, path: &str, found: &Metadata) -> Outcome<String> {
    let since = found.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut text = String::new();
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign != '%' {
            text.push(sign);
            continue;
        }
        let is_folder = found.is_folder();
        text.push_str(&match signs.next() {
            Some('n') => path.to_owned(),
            Some('N') => format!("'{path}'"),
            Some('s') => found.bytes.to_string(),
            Some('F') => kind_name(found).to_owned(),
            Some('a') => if is_folder { "755" } else { "644" }.to_owned(),
            Some('A') => if is_folder { "drwxr-xr-x" } else { "-rw-r--r--" }.to_owned(),
            Some('h') => "1".to_owned(),
            Some('U' | 'G') => "agent".to_owned(),
            Some('u' | 'g') => "1000".to_owned(),
            Some('b') => (found.bytes.div_ceil(BLOCK_BYTES) * 8).to_string(),
            Some('B') => "512".to_owned(),
            Some('o') => BLOCK_BYTES.to_string(),
            Some('X' | 'Y' | 'Z') => since.as_secs().to_string(),
            Some('x' | 'y' | 'z') => {
                let time = format_seconds("%Y-%m-%d %H:%M:%S", &since.as_secs().to_string())?;
                format!("{time}.{:09} +0000", since.subsec_nanos())
            }
            Some('W') => "0".to_owned(),
            Some('w') => "-".to_owned(),
            Some('%') => "%".to_owned(),
            other => {
                let other = other.unwrap_or_default();
                return fail(format!("`%{other}` is not supported by this shell: %n %N %s %F %a %A %b %B %o %h %u %U %g %G %x %y %z %X %Y %Z %w %W are"));
            }
        });
    }
    Ok(text)
}

pub fn file(call: &mut Call<'_>) -> Outcome {
    let options = call.options("biTL", "brief=b mime=i mime-type=T dereference=L", false)?;
    if options.rest.is_empty() {
        return fail("needs the path of a file");
    }
    let width = options.rest.iter().map(|path| path.chars().count() + 1).max().unwrap_or(0);
    for path in &options.rest {
        let place = call.place(path);
        let found =
            place.and_then(|place| if place.is_folder() { Ok(None) } else { call.read(path).map(Some) });
        let (description, media, charset) = match found {
            Ok(None) => ("directory".to_owned(), "inode/directory", "binary"),
            Ok(Some(bytes)) => describe(&bytes),
            Err(error) => (format!("cannot open `{path}' ({})", explain(&error)), "", ""),
        };
        let shown = match (options.has('T'), options.has('i')) {
            _ if media.is_empty() => description,
            (true, _) => media.to_owned(),
            (_, true) => format!("{media}; charset={charset}"),
            _ => description,
        };
        let label = format!("{:width$} ", format!("{path}:"));
        call.line(if options.has('b') { shown } else { label + &shown })?;
    }
    Ok(0)
}

/// The description, the media type and the character set of a file.
fn describe(bytes: &[u8]) -> (String, &'static str, &'static str) {
    if bytes.is_empty() {
        return ("empty".to_owned(), "inode/x-empty", "binary");
    }
    let Some((encoding, charset)) = encoding(bytes) else {
        let media = infer::get(bytes).map_or("application/octet-stream", |kind| kind.mime_type());
        return (description(media, bytes), media, "binary");
    };
    if let Some((_, description, media)) = MARKS.iter().find(|(mark, ..)| bytes.starts_with(mark)) {
        return ((*description).replace("ASCII text", encoding), media, charset);
    }
    let text = String::from_utf8_lossy(bytes);
    let begins = text.trim_start();
    if begins.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(begins).is_ok() {
        return ("JSON text data".to_owned(), "application/json", charset);
    }
    let ends = match (text.contains("\r\n"), text.contains('\n')) {
        (true, _) => ", with CRLF line terminators",
        (false, false) => ", with no line terminators",
        (false, true) => "",
    };
    match infer::get(bytes).map(|kind| kind.mime_type()) {
        Some("text/html") => (format!("HTML document, {encoding}{ends}"), "text/html", charset),
        Some(media) if !media.starts_with("text/") || media == "text/xml" => {
            (description(media, bytes), media, charset)
        }
        _ => (format!("{encoding}{ends}"), "text/plain", charset),
    }
}

/// How a text is encoded, and its character set. None is no text.
fn encoding(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let is_text = |byte: &u8| matches!(byte, 7..=13 | 27 | 32..=126 | 128..);
    if !bytes.iter().all(is_text) {
        return None;
    }
    Some(match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => ("ASCII text", "us-ascii"),
        Ok(_) => ("Unicode text, UTF-8 text", "utf-8"),
        Err(_) if bytes.iter().any(|byte| (128..160).contains(byte)) => {
            ("Non-ISO extended-ASCII text", "unknown-8bit")
        }
        Err(_) => ("ISO-8859 text", "iso-8859-1"),
    })
}

fn description(media: &str, bytes: &[u8]) -> String {
    let number = |start: usize| {
        bytes.get(start..start + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes)
    };
    if let ("image/png", Some(width), Some(height)) = (media, number(16), number(20)) {
        return format!("PNG image data, {width} x {height}");
    }
    match DESCRIPTIONS.iter().find(|(known, _)| *known == media) {
        Some((_, description)) => (*description).to_owned(),
        None if media == "application/octet-stream" => "data".to_owned(),
        None => format!("{media} data"),
    }
}
