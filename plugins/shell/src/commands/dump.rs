//! `od` and `xxd`

use super::sort::write;
use crate::call::{Call, Options};
use crate::shell::{Outcome, fail};

/// Bytes in one line of `xxd -p`.
const PLAIN_COLUMNS: usize = 30;

/// Reads a size such as `16`, `0x10`, `4K` or `1M`.
pub fn read_size(text: &str) -> Outcome<usize> {
    let decimal = text.trim_end_matches(['b', 'B', 'k', 'K', 'm', 'M', 'G']);
    let (digits, suffix, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, "", 16),
        None => (decimal, &text[decimal.len()..], 10),
    };
    let unit = match suffix {
        "" | "B" => 1,
        "b" => 512,
        "kB" | "KB" => 1000,
        "k" | "K" => 1024,
        "MB" => 1_000_000,
        "m" | "M" => 1024 * 1024,
        "G" => 1024 * 1024 * 1024,
        _ => return fail(format!("invalid number '{text}'")),
    };
    let size = usize::from_str_radix(digits, radix).ok().and_then(|value| value.checked_mul(unit));
    size.map_or_else(|| fail(format!("invalid number '{text}'")), Ok)
}

/// How `od` writes items of one size.
struct Format {
    /// `c`, `d`, `o`, `u` or `x`
    kind: char,
    bytes: usize,
    shows_text: bool,
}

impl Format {
    fn parse(text: &str) -> Outcome<Vec<Self>> {
        let mut formats = Vec::new();
        let mut signs = text.chars().peekable();
        while let Some(kind) = signs.next() {
            let size = signs.next_if(|sign| matches!(sign, '1' | '2' | '4' | '8' | 'C' | 'S' | 'I' | 'L'));
            let bytes = match (kind, size) {
                ('c', None) | (_, Some('1' | 'C')) => 1,
                (_, Some('2' | 'S')) => 2,
                (_, Some('8' | 'L')) => 8,
                _ => 4,
            };
            if !matches!(kind, 'c' | 'd' | 'o' | 'u' | 'x') {
                return fail(format!("`{kind}` in `{text}` is not supported by this shell: c d o u x are"));
            }
            let shows_text = signs.next_if_eq(&'z').is_some();
            formats.push(Self { kind, bytes, shows_text });
        }
        Ok(formats)
    }

    /// The widest item, with the blank before it.
    fn width(&self) -> usize {
        1 + match (self.kind, self.bytes) {
            ('c', _) => 3,
            ('x', bytes) => 2 * bytes,
            ('o', bytes) => (8 * bytes).div_ceil(3),
            (kind, bytes) => [3, 5, 10, 20][bytes.ilog2() as usize] + usize::from(kind == 'd' && bytes < 8),
        }
    }

    fn write(&self, item: &[u8]) -> String {
        let mut bytes = [0; 8];
        bytes[..item.len()].copy_from_slice(item);
        let value = u64::from_le_bytes(bytes);
        let digits = self.width() - 1;
        match self.kind {
            'c' => write_sign(item[0]),
            'x' => format!("{value:0digits$x}"),
            'o' => format!("{value:0digits$o}"),
            'u' => value.to_string(),
            _ => {
                let unused_bits = 64 - 8 * self.bytes;
                (value.cast_signed() << unused_bits >> unused_bits).to_string()
            }
        }
    }
}

fn write_sign(byte: u8) -> String {
    match byte {
        0 => "\\0".to_owned(),
        7..=13 => format!("\\{}", char::from(b"abtnvfr"[usize::from(byte - 7)])),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("{byte:03o}"),
    }
}

/// Bytes as text, in which a dot stands for what cannot be seen.
fn write_text(bytes: &[u8]) -> String {
    let signs = bytes.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' });
    signs.collect()
}

pub fn od(call: &mut Call<'_>) -> Outcome {
    let long = "address-radix=A format=t skip-bytes=j read-bytes=N width=w output-duplicates=v";
    let options = call.options("A:t:j:N:w:vcbxdo", long, false)?;
    let formats = read_formats(&options)?;
    let size = |flag, default| options.value(flag).map_or(Ok(default), read_size);
    let (skipped, most, columns) = (size('j', 0)?, size('N', usize::MAX)?, size('w', 16)?);
    if columns == 0 || columns > 4096 || formats.iter().any(|format| !columns.is_multiple_of(format.bytes)) {
        return fail(format!("invalid width `{columns}` for these formats"));
    }
    let address = address(options.value('A').unwrap_or("o"))?;
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    let total: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
    if inputs.is_empty() || skipped > total {
        return if is_complete { fail("cannot skip past end of combined input") } else { Ok(1) };
    }
    let all: Vec<u8> = inputs.into_iter().flat_map(|(_, bytes)| bytes).skip(skipped).take(most).collect();
    let mut last: Option<&[u8]> = None;
    let mut is_repeated = false;
    for (index, line) in all.chunks(columns).enumerate() {
        if last != Some(line) || options.has('v') {
            write_line(call, &formats, line, columns, &address(skipped + index * columns))?;
            is_repeated = false;
        } else if !std::mem::replace(&mut is_repeated, true) {
            call.line("*")?;
        }
        last = Some(line);
    }
    let end = address(skipped + all.len());
    if !end.is_empty() {
        call.line(end)?;
    }
    Ok(i32::from(!is_complete))
}

/// The formats that options name, or words in octal.
fn read_formats(options: &Options) -> Outcome<Vec<Format>> {
    let mut formats = Vec::new();
    for (flag, value) in &options.flags {
        let named = match flag {
            't' => value.as_str(),
            'c' => "c",
            'b' => "o1",
            'x' => "x2",
            'd' => "u2",
            'o' => "o2",
            _ => continue,
        };
        formats.extend(Format::parse(named)?);
    }
    if formats.is_empty() { Format::parse("o2") } else { Ok(formats) }
}

/// Writes a place in the file in a radix of `-A`.
fn address(radix: &str) -> Outcome<fn(usize) -> String> {
    Ok(match radix {
        "o" => |place| format!("{place:07o}"),
        "d" => |place| format!("{place:07}"),
        "x" => |place| format!("{place:06x}"),
        "n" => |_| String::new(),
        other => return fail(format!("invalid output address radix '{other}': write d, o, x or n")),
    })
}

fn write_line(
    call: &mut Call<'_>,
    formats: &[Format],
    line: &[u8],
    columns: usize,
    address: &str,
) -> Outcome<()> {
    // Items of the same bytes stand below each other.
    let widest = formats.iter().map(|format| format.width() * (columns / format.bytes)).max().unwrap_or(0);
    for (index, format) in formats.iter().enumerate() {
        let width = widest / (columns / format.bytes);
        let mut text = if index == 0 { address.to_owned() } else { " ".repeat(address.len()) };
        for item in line.chunks(format.bytes) {
            text.push_str(&format!("{:>width$}", format.write(item)));
        }
        if format.shows_text {
            let missing = columns / format.bytes - line.len().div_ceil(format.bytes);
            text.push_str(&format!("{}  >{}<", " ".repeat(missing * width), write_text(line)));
        }
        call.line(text)?;
    }
    Ok(())
}

pub fn xxd(call: &mut Call<'_>) -> Outcome {
    let plain = |word: &String| matches!(word.as_str(), "-ps" | "-plain" | "-postscript");
    let arguments: Vec<String> =
        call.arguments.iter().map(|word| if plain(word) { "-p".to_owned() } else { word.clone() }).collect();
    let options = Call::new(call.shell, "xxd", &arguments, call.io).options("pruibl:s:c:g:", "", false)?;
    let path = options.rest.first().map_or("-", String::as_str);
    let bytes = call.read_or_fail(path, 2)?;
    let changed =
        if options.has('r') { revert(&bytes, options.has('p')) } else { dump(&options, path, &bytes)? };
    write(call, options.rest.get(1).map(String::as_str), &changed).map(|()| 0)
}

fn dump(options: &Options, path: &str, bytes: &[u8]) -> Outcome<Vec<u8>> {
    let size = |flag, default| options.value(flag).map_or(Ok(default), read_size);
    let (skipped, most) = (size('s', 0)?, size('l', usize::MAX)?);
    let is_binary = options.has('b');
    let kinds = [('p', PLAIN_COLUMNS), ('b', 6), ('i', 12)];
    let default = kinds.into_iter().find(|(flag, _)| options.has(*flag)).map_or(16, |(_, columns)| columns);
    let columns = match size('c', default)? {
        0 => usize::MAX,
        columns => columns.min(256),
    };
    let shown = &bytes[skipped.min(bytes.len())..];
    let shown = &shown[..most.min(shown.len())];
    let digits = |byte: &u8| match (is_binary, options.has('u')) {
        (true, _) => format!("{byte:08b}"),
        (false, true) => format!("{byte:02X}"),
        (false, false) => format!("{byte:02x}"),
    };
    if options.has('i') {
        return Ok(write_array(shown, if path == "-" { "" } else { path }, columns));
    }
    if options.has('p') {
        let lines = shown.chunks(columns).map(|line| line.iter().map(digits).collect::<String>() + "\n");
        return Ok(lines.collect::<String>().into_bytes());
    }
    let columns = columns.min(shown.len().max(16));
    let group = match size('g', if is_binary { 1 } else { 2 })? {
        0 => columns,
        group => group,
    };
    let groups = |line: &[u8]| -> String {
        line.chunks(group).map(|group| group.iter().map(digits).collect::<String>() + " ").collect()
    };
    let width = groups(&vec![0; columns]).len();
    let mut text = String::new();
    for (index, line) in shown.chunks(columns).enumerate() {
        let (place, hex) = (skipped + index * columns, groups(line));
        text.push_str(&format!("{place:08x}: {hex:width$} {}\n", write_text(line)));
    }
    Ok(text.into_bytes())
}

/// An array of C, with a name where the bytes are of a file.
fn write_array(bytes: &[u8], path: &str, columns: usize) -> Vec<u8> {
    let lines: Vec<String> = bytes
        .chunks(columns)
        .map(|line| {
            "  ".to_owned() + &line.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>().join(", ")
        })
        .collect();
    let name: String =
        path.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' }).collect();
    let body = lines.join(",\n");
    if name.is_empty() {
        return (body + "\n").into_bytes();
    }
    format!("unsigned char {name}[] = {{\n{body}\n}};\nunsigned int {name}_len = {};\n", bytes.len())
        .into_bytes()
}

/// The bytes of a dump: of its digits between the address and two blanks, or of all where it is plain.
fn revert(dump: &[u8], is_plain: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut digits = String::new();
    for line in String::from_utf8_lossy(dump).lines() {
        let shown = match line.split_once(": ") {
            Some((_, rest)) if !is_plain => rest.split_once("  ").map_or(rest, |(digits, _)| digits),
            _ if !is_plain => continue,
            _ => line,
        };
        digits.extend(shown.chars().filter(char::is_ascii_hexdigit));
        let even = digits.len() / 2 * 2;
        bytes.extend(hex::decode(&digits[..even]).unwrap_or_default());
        digits.drain(..even);
    }
    bytes
}
