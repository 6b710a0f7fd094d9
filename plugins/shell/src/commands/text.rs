//! Commands over lines of text.

use std::ops::Range;

use super::dump::read_size;
use crate::call::{Call, Options, chomp, lines, text_of};
use crate::shell::{Outcome, Stop, fail};
use crate::stream::Output;

pub fn cat(call: &mut Call<'_>) -> Outcome {
    let long =
        "number=n number-nonblank=b squeeze-blank=s show-all=A show-ends=E show-tabs=T show-nonprinting=v";
    let options = call.options("nbsAETvetu", long, false)?;
    let any = |flags: &str| flags.chars().any(|flag| options.has(flag));
    let (marks_ends, marks_tabs, marks_signs) = (any("AEe"), any("ATt"), any("Avet"));
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    let (mut number, mut was_blank) = (0, false);
    for (_, bytes) in inputs {
        if !any("nbsAETvet") {
            call.out(bytes)?;
            continue;
        }
        for line in lines(&bytes) {
            let is_blank = line == b"\n";
            if is_blank && was_blank && options.has('s') {
                continue;
            }
            was_blank = is_blank;
            if if options.has('b') { !is_blank } else { options.has('n') } {
                number += 1;
                call.out(format!("{number:6}\t"))?;
            }
            let text = chomp(line);
            call.out(mark(text, marks_tabs, marks_signs))?;
            if text.len() < line.len() {
                call.out(if marks_ends { "$\n" } else { "\n" })?;
            }
        }
    }
    Ok(i32::from(!is_complete))
}

/// A line with its tabs, and its signs that cannot be seen, as `cat` shows them.
fn mark(line: &[u8], tabs: bool, signs: bool) -> Vec<u8> {
    let mut marked = Vec::with_capacity(line.len());
    for byte in line {
        let low = byte & 0x7f;
        match byte {
            b'\t' if tabs => marked.extend(b"^I"),
            b'\t' => marked.push(b'\t'),
            _ if !signs => marked.push(*byte),
            _ => {
                marked.extend(if *byte == low { "" } else { "M-" }.bytes());
                match low {
                    0..32 => marked.extend([b'^', low + 64]),
                    127 => marked.extend(b"^?"),
                    _ => marked.push(low),
                }
            }
        }
    }
    marked
}

/// `-5` as `-n 5`.
fn with_count(arguments: &[String]) -> Vec<String> {
    let is_count = |text: &str| {
        text.strip_prefix('-')
            .is_some_and(|digits| digits.bytes().next().is_some_and(|byte| byte.is_ascii_digit()))
    };
    match arguments.split_first() {
        Some((first, rest)) if is_count(first) => {
            let mut all = vec!["-n".to_owned(), first[1..].to_owned()];
            all.extend_from_slice(rest);
            all
        }
        _ => arguments.to_vec(),
    }
}

/// A count with a suffix such as `K`.
fn count_of(text: &str) -> Outcome<usize> {
    read_size(text.trim_start_matches(['+', '-']))
}

/// What `head` or `tail` takes of each input.
struct Part {
    options: Options,
    by_bytes: bool,
    count: usize,
    /// The sign before the count, if there is one.
    sign: Option<char>,
}

impl Part {
    fn read(call: &mut Call<'_>, known: &str) -> Outcome<Self> {
        let arguments = with_count(call.arguments);
        let options =
            Call::new(call.shell, call.name, &arguments, call.io).options(known, "lines=n bytes=c", false)?;
        let by_bytes = options.has('c');
        let text = options.value(if by_bytes { 'c' } else { 'n' }).unwrap_or("10");
        let (count, sign) = (count_of(text)?, text.chars().next().filter(|sign| "+-".contains(*sign)));
        Ok(Self { options, by_bytes, count, sign })
    }

    /// How many bytes the first `count` lines or bytes have, or all but the last ones.
    fn length(&self, bytes: &[u8], count: usize, from_end: bool) -> usize {
        let all = || if self.by_bytes { bytes.len() } else { lines(bytes).count() };
        let count = if from_end { all().saturating_sub(count) } else { count };
        if self.by_bytes { count.min(bytes.len()) } else { lines(bytes).take(count).map(<[u8]>::len).sum() }
    }

    /// Writes a part of each input, under its name where there are several.
    fn write(&self, call: &mut Call<'_>, part: impl Fn(&[u8]) -> Range<usize>) -> Outcome {
        let (inputs, is_complete) = call.read_inputs(&self.options.rest)?;
        let shows_names = (inputs.len() > 1 || self.options.has('v')) && !self.options.has('q');
        for (index, (path, bytes)) in inputs.iter().enumerate() {
            if shows_names {
                call.out(format!("{}==> {path} <==\n", if index > 0 { "\n" } else { "" }))?;
            }
            call.out(&bytes[part(bytes)])?;
        }
        Ok(i32::from(!is_complete))
    }
}

pub fn head(call: &mut Call<'_>) -> Outcome {
    let head = Part::read(call, "n:c:qv")?;
    let leaves = head.sign == Some('-');
    if !head.options.rest.is_empty() || leaves {
        return head.write(call, |bytes| 0..head.length(bytes, head.count, leaves));
    }
    // Leaves what it does not need to the next reader.
    if head.by_bytes {
        let bytes = call.io.input.read(head.count);
        return call.out(bytes).map(|()| 0);
    }
    for _ in 0..head.count {
        let line = call.io.input.read_until(b'\n');
        if line.is_empty() {
            break;
        }
        call.out(line)?;
    }
    Ok(0)
}

pub fn tail(call: &mut Call<'_>) -> Outcome {
    let tail = Part::read(call, "n:c:qvf")?;
    if tail.options.has('f') {
        return fail("option `-f` is not supported by this shell: -n -c -q -v are");
    }
    let from_start = tail.sign == Some('+');
    let count = if from_start { tail.count.saturating_sub(1) } else { tail.count };
    tail.write(call, |bytes| tail.length(bytes, count, !from_start)..bytes.len())
}

/// `wc`
pub fn count(call: &mut Call<'_>) -> Outcome {
    let long = "lines=l words=w bytes=c chars=m max-line-length=L";
    let options = call.options("lwcmL", long, false)?;
    let kinds: Vec<char> = "lwmcL".chars().filter(|kind| options.has(*kind)).collect();
    let kinds = if kinds.is_empty() { vec!['l', 'w', 'c'] } else { kinds };
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    let mut rows: Vec<(Vec<usize>, &str)> = Vec::new();
    let mut total = vec![0; kinds.len()];
    let mut bytes_total = 0;
    for (path, bytes) in &inputs {
        bytes_total += bytes.len();
        let counts: Vec<usize> = kinds.iter().map(|kind| count_kind(bytes, *kind)).collect();
        for (index, count) in counts.iter().enumerate() {
            total[index] = if kinds[index] == 'L' { total[index].max(*count) } else { total[index] + count };
        }
        rows.push((counts, if options.rest.is_empty() { "" } else { path }));
    }
    if options.rest.len() > 1 {
        rows.push((total, "total"));
    }
    let is_single = rows.len() == 1 && kinds.len() == 1;
    // As wide as the size of all files, and as 7 digits where the size of an input is not known.
    let is_input = options.rest.is_empty() || options.rest.iter().any(|path| path == "-");
    let width = if is_single {
        1
    } else if is_input {
        7
    } else {
        bytes_total.to_string().len()
    };
    for (counts, name) in rows {
        let counts: Vec<String> = counts.iter().map(|count| format!("{count:width$}")).collect();
        let space = if name.is_empty() { "" } else { " " };
        call.line(format!("{}{space}{name}", counts.join(" ")))?;
    }
    Ok(i32::from(!is_complete))
}

fn count_kind(bytes: &[u8], kind: char) -> usize {
    match kind {
        'l' => bytes.iter().filter(|byte| **byte == b'\n').count(),
        'w' => bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count(),
        'm' => text_of(bytes).chars().count(),
        'L' => lines(bytes).map(|line| text_of(chomp(line)).chars().count()).max().unwrap_or(0),
        _ => bytes.len(),
    }
}

/// A list such as `1,3-5,7-`, as ranges from 1.
fn ranges(list: &str) -> Outcome<Vec<(usize, usize)>> {
    let mut ranges = Vec::new();
    for part in list.split([',', ' ']) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let bound = |text: &str, default| if text.is_empty() { Some(default) } else { text.parse().ok() };
        match (bound(from, 1), bound(to, usize::MAX)) {
            (Some(from), Some(to)) if from > 0 && part != "-" && !part.is_empty() => ranges.push((from, to)),
            _ => return fail(format!("invalid field list `{list}`: write as `1,3-5`")),
        }
    }
    Ok(ranges)
}

pub fn cut(call: &mut Call<'_>) -> Outcome {
    let long = "fields=f delimiter=d characters=c bytes=b only-delimited=s output-delimiter=o complement=C";
    let options = call.options("f:d:c:b:so:C", long, false)?;
    let list = options.value('f').or(options.value('c')).or(options.value('b'));
    let Some(list) = list else {
        return fail("you must specify a list of bytes, characters, or fields: -b, -c or -f");
    };
    let ranges = ranges(list)?;
    let keeps =
        |index: usize| ranges.iter().any(|(from, to)| (*from..=*to).contains(&index)) != options.has('C');
    let delimiter = options.value('d').unwrap_or("\t").to_owned();
    let joiner = options.value('o').map_or(delimiter.clone(), str::to_owned);
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    for (_, bytes) in inputs {
        for line in lines(&bytes) {
            let line = text_of(chomp(line));
            if !options.has('f') {
                let kept = line.chars().enumerate().filter(|(index, _)| keeps(index + 1));
                call.line(kept.map(|(_, sign)| sign).collect::<String>())?;
            } else if !line.contains(&delimiter) {
                if !options.has('s') {
                    call.line(line)?;
                }
            } else {
                let kept = line.split(&delimiter).enumerate().filter(|(index, _)| keeps(index + 1));
                call.line(kept.map(|(_, field)| field).collect::<Vec<_>>().join(&joiner))?;
            }
        }
    }
    Ok(i32::from(!is_complete))
}

pub fn tee(call: &mut Call<'_>) -> Outcome {
    let options = call.options("a", "append=a", false)?;
    let bytes = call.io.input.read_all();
    let mut status = 0;
    for path in &options.rest {
        let written = match path.as_str() {
            "/dev/stderr" => call.io.errors.write(&bytes),
            "/dev/stdout" | "-" => call.io.output.write(&bytes),
            _ => call.create(path, options.has('a')).and_then(|output| output.write(&bytes)),
        };
        if let Err(error) = written {
            call.complain_of(path, &error)?;
            status = 1;
        }
    }
    call.out(bytes)?;
    Ok(status)
}

/// `seq`
pub fn sequence(call: &mut Call<'_>) -> Outcome {
    let mut separator = "\n".to_owned();
    let (mut pads, mut format) = (false, None);
    let mut numbers = Vec::new();
    let mut arguments = call.arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-s" => separator = arguments.next().cloned().unwrap_or_default(),
            "-w" => pads = true,
            "-f" => format = arguments.next().cloned(),
            text if text.starts_with("-s") => separator = text[2..].to_owned(),
            text => numbers.push(text.to_owned()),
        }
    }
    let (first, step, last) = bounds(&numbers)?;
    let decimals = |text: &String| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let decimals = numbers[..(numbers.len() - 1).max(1)].iter().map(decimals).max().unwrap_or(0);
    let length = |value| write_number(value, decimals).len();
    let width = if pads { length(first).max(length(last)) } else { 0 };
    let mut index = 0.0;
    loop {
        let value = first + index * step;
        if (step > 0.0 && value > last + step * 1e-9) || (step < 0.0 && value < last + step * 1e-9) {
            break;
        }
        if index > 0.0 {
            call.out(&separator)?;
        }
        let text = match &format {
            Some(format) => format_number(format, value)?,
            None if pads => format!("{value:0width$.decimals$}"),
            None => write_number(value, decimals),
        };
        call.out(text)?;
        index += 1.0;
    }
    if index > 0.0 {
        call.out("\n")?;
    }
    Ok(0)
}

/// The first number, the step and the last number of `seq`.
fn bounds(numbers: &[String]) -> Outcome<(f64, f64, f64)> {
    let parse = |text: &String| {
        text.parse::<f64>().or_else(|_| fail(format!("invalid floating point argument: '{text}'")))
    };
    match *numbers.iter().map(parse).collect::<Outcome<Vec<_>>>()? {
        [last] => Ok((1.0, 1.0, last)),
        [first, last] => Ok((first, 1.0, last)),
        [_, 0.0, _] => fail("invalid Zero increment value: '0'"),
        [first, step, last] => Ok((first, step, last)),
        _ => fail("needs one to three numbers"),
    }
}

/// A number with so many decimals. Integers need no search for digits, which takes many times as long.
#[expect(clippy::cast_possible_truncation, reason = "an integer in the range")]
fn write_number(value: f64, decimals: usize) -> String {
    match decimals == 0 && value.abs() < 1e15 {
        true => (value.round() as i64).to_string(),
        false => format!("{value:.decimals$}"),
    }
}

/// A number in a format of `printf` with one directive, as `seq -f` takes it.
fn format_number(format: &str, value: f64) -> Outcome<String> {
    let start = format.find('%').unwrap_or(0);
    let Some((spec, length)) = super::printf::Spec::parse(&format[start..], || 0) else {
        return fail(format!("format '{format}' is not valid"));
    };
    Ok(format!("{}{}{}", &format[..start], spec.float(value), &format[start + length..]))
}

pub fn basename(call: &mut Call<'_>) -> Outcome {
    let options = call.options("as:", "multiple=a suffix=s", false)?;
    let is_many = options.has('a') || options.has('s');
    let Some(first) = options.rest.first() else { return fail("missing operand") };
    let suffix = options
        .value('s')
        .or(options.rest.get(1).filter(|_| !is_many).map(String::as_str))
        .unwrap_or_default()
        .to_owned();
    let paths = if is_many { options.rest.as_slice() } else { std::slice::from_ref(first) };
    for path in paths {
        let trimmed = path.trim_end_matches('/');
        let name = if trimmed.is_empty() && !path.is_empty() {
            "/"
        } else {
            trimmed.rsplit('/').next().unwrap_or_default()
        };
        let name = name.strip_suffix(&suffix).filter(|rest| !rest.is_empty()).unwrap_or(name);
        call.line(name)?;
    }
    Ok(0)
}

pub fn dirname(call: &mut Call<'_>) -> Outcome {
    if call.arguments.is_empty() {
        return fail("missing operand");
    }
    for path in call.arguments {
        let trimmed = path.trim_end_matches('/');
        let folder = match trimmed.rsplit_once('/') {
            _ if trimmed.is_empty() && path.starts_with('/') => "/",
            Some((folder, _)) if folder.trim_end_matches('/').is_empty() => "/",
            Some((folder, _)) => folder.trim_end_matches('/'),
            None => ".",
        };
        call.line(folder)?;
    }
    Ok(0)
}

/// `realpath`, and `readlink`, which without an option prints the target of a link: there are none.
pub fn realpath(call: &mut Call<'_>) -> Outcome {
    let options = call.options("emsf", "", false)?;
    if call.name == "readlink" && options.flags.is_empty() {
        return Ok(1);
    }
    for path in &options.rest {
        call.line(call.shell.files.absolute(&call.shell.state.current, path))?;
    }
    Ok(0)
}

/// `rev`
pub fn reverse_signs(call: &mut Call<'_>) -> Outcome {
    let (inputs, is_complete) = call.read_inputs(call.arguments)?;
    for (_, bytes) in inputs {
        for line in lines(&bytes) {
            call.line(text_of(chomp(line)).chars().rev().collect::<String>())?;
        }
    }
    Ok(i32::from(!is_complete))
}

/// `tac`
pub fn reverse_lines(call: &mut Call<'_>) -> Outcome {
    let (inputs, is_complete) = call.read_inputs(call.arguments)?;
    for (_, bytes) in inputs {
        let all: Vec<&[u8]> = lines(&bytes).collect();
        for line in all.into_iter().rev() {
            call.out(line)?;
        }
    }
    Ok(i32::from(!is_complete))
}

/// `nl`
pub fn number(call: &mut Call<'_>) -> Outcome {
    let options = call.options("b:w:s:n:", "", false)?;
    let all = options.value('b') == Some("a");
    let width: usize = options.value('w').and_then(|width| width.parse().ok()).unwrap_or(6).min(100);
    let separator = options.value('s').unwrap_or("\t").to_owned();
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    let mut number = 0;
    for (_, bytes) in inputs {
        for line in lines(&bytes) {
            if chomp(line).is_empty() && !all {
                call.line(" ".repeat(width + separator.len()))?;
                continue;
            }
            number += 1;
            match options.value('n') {
                Some("ln") => call.out(format!("{number:<width$}{separator}"))?,
                Some("rz") => call.out(format!("{number:0width$}{separator}"))?,
                _ => call.out(format!("{number:width$}{separator}"))?,
            }
            call.line(chomp(line))?;
        }
    }
    Ok(i32::from(!is_complete))
}

/// `yes`
pub fn repeat(call: &mut Call<'_>) -> Outcome {
    let text = if call.arguments.is_empty() { "y".to_owned() } else { call.arguments.join(" ") };
    let block = format!("{text}\n").repeat(1 + 4096 / (text.len() + 1));
    loop {
        match call.out(&block) {
            Err(Stop::Pipe) => return Err(Stop::Pipe),
            other => other?,
        }
        // Nothing ends a command that writes into nothing.
        if matches!(call.io.output, Output::Null | Output::File(_)) {
            return fail("writes without end: pipe it into `head`");
        }
    }
}
