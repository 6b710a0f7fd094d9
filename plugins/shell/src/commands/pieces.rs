//! `join`, `split` and `shuf`

use std::cmp::Ordering;

use super::dump::read_size;
use super::sort::write;
use crate::call::{Call, Options, chomp, lines, text_of};
use crate::shell::{Outcome, Shell, fail};

/// Maximum number of lines that `shuf` writes of a range or with `-r`.
const MAX_LINES: usize = 10_000_000;

struct Join {
    separator: Option<char>,
    /// The fields that are compared, from 0.
    keys: [usize; 2],
    ignores_case: bool,
    empty: String,
    /// Files and fields from 0; none is the key.
    columns: Option<Vec<Option<(usize, usize)>>>,
    shows_pairs: bool,
    shows_single: [bool; 2],
}

type Row = Vec<String>;

impl Join {
    fn read(options: &Options) -> Outcome<Self> {
        let field = |flag| match options.value(flag).or(options.value('j')).map(str::parse::<usize>) {
            None => Ok(0),
            Some(Ok(number)) if number > 0 => Ok(number - 1),
            Some(_) => fail(format!("invalid field number: '{}'", options.value(flag).unwrap_or_default())),
        };
        let column = |text: &str| match text.split_once('.') {
            None if text == "0" => Ok(None),
            Some((file @ ("1" | "2"), number)) if number.parse::<usize>().is_ok_and(|number| number > 0) => {
                Ok(Some((usize::from(file == "2"), number.parse::<usize>().unwrap_or(1) - 1)))
            }
            _ => fail(format!("invalid field specifier: '{text}'")),
        };
        let columns = options
            .value('o')
            .filter(|list| *list != "auto")
            .map(|list| list.split([',', ' ']).map(column).collect::<Outcome<_>>());
        let has = |flag, file| options.values(flag).any(|value| value == file);
        Ok(Self {
            separator: options
                .value('t')
                .and_then(|text| if text == "\\t" { Some('\t') } else { text.chars().next() }),
            keys: [field('1')?, field('2')?],
            ignores_case: options.has('i'),
            empty: options.value('e').unwrap_or_default().to_owned(),
            columns: columns.transpose()?,
            shows_pairs: !options.has('v'),
            shows_single: ["1", "2"].map(|file| has('a', file) || has('v', file)),
        })
    }

    fn rows(&self, bytes: &[u8]) -> Vec<Row> {
        let split = |line: &[u8]| -> Row {
            let line = text_of(chomp(line));
            match self.separator {
                Some(separator) => line.split(separator).map(str::to_owned).collect(),
                None => line.split_whitespace().map(str::to_owned).collect(),
            }
        };
        lines(bytes).map(split).collect()
    }

    fn key(&self, file: usize, row: &Row) -> String {
        let key = row.get(self.keys[file]).cloned().unwrap_or_default();
        if self.ignores_case { key.to_lowercase() } else { key }
    }

    /// A line of output. `widths` has the numbers of fields with `-o auto`.
    fn write(&self, rows: [Option<&Row>; 2], widths: Option<[usize; 2]>) -> String {
        let cell = |file: usize, field: usize| {
            let found = rows[file].and_then(|row| row.get(field)).filter(|cell| !cell.is_empty());
            found.unwrap_or(&self.empty).clone()
        };
        let key = || if rows[0].is_some() { cell(0, self.keys[0]) } else { cell(1, self.keys[1]) };
        let cells: Vec<String> = match &self.columns {
            Some(columns) => columns
                .iter()
                .map(|place| place.map_or_else(key, |(file, field)| cell(file, field)))
                .collect(),
            None => {
                let width =
                    |file: usize| widths.map_or(rows[file].map_or(0, Vec::len), |widths| widths[file]);
                let others =
                    [0, 1].into_iter().flat_map(|file| (0..width(file)).map(move |field| (file, field)));
                let others = others.filter(|(file, field)| *field != self.keys[*file]);
                std::iter::once(key()).chain(others.map(|(file, field)| cell(file, field))).collect()
            }
        };
        cells.join(&self.separator.unwrap_or(' ').to_string())
    }
}

pub fn join(call: &mut Call<'_>) -> Outcome {
    let options = call.options("1:2:j:t:a:v:o:e:iHN", "header=H ignore-case=i nocheck-order=N", false)?;
    let [left, right] = options.rest.as_slice() else { return fail("needs two files") };
    let join = Join::read(&options)?;
    let mut files = [join.rows(&call.read_or_fail(left, 1)?), join.rows(&call.read_or_fail(right, 1)?)];
    let is_auto = options.value('o') == Some("auto");
    let widths = is_auto.then(|| [0, 1].map(|file| files[file].first().map_or(0, Vec::len)));
    if options.has('H') && !files[0].is_empty() && !files[1].is_empty() {
        let heads = [files[0].remove(0), files[1].remove(0)];
        call.line(join.write([Some(&heads[0]), Some(&heads[1])], widths))?;
    }
    if !options.has('N') {
        for (file, path) in [(0, left), (1, right)] {
            let is_unsorted = |pair: &[Row]| join.key(file, &pair[0]) > join.key(file, &pair[1]);
            if let Some(index) = files[file].windows(2).position(is_unsorted) {
                let row = files[file][index + 1].join(" ");
                return fail(format!(
                    "{path}:{}: is not sorted: {row}",
                    index + 2 + usize::from(options.has('H'))
                ));
            }
        }
    }
    merge(call, &join, [&files[0], &files[1]], widths)
}

/// Writes each pair of rows with the same key, and single rows where they are wanted.
fn merge(call: &mut Call<'_>, join: &Join, files: [&[Row]; 2], widths: Option<[usize; 2]>) -> Outcome {
    let [mut left, mut right] = files;
    let group = |file: usize, rows: &[Row]| {
        let key = rows.first().map(|row| join.key(file, row));
        rows.iter().take_while(|row| Some(join.key(file, row)) == key).count()
    };
    while !left.is_empty() || !right.is_empty() {
        let order = match (left.first(), right.first()) {
            (Some(one), Some(other)) => join.key(0, one).cmp(&join.key(1, other)),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let taken_left = if order.is_le() { group(0, left) } else { 0 };
        let taken_right = if order.is_ge() { group(1, right) } else { 0 };
        if order.is_eq() && join.shows_pairs {
            for row in &left[..taken_left] {
                for other in &right[..taken_right] {
                    call.line(join.write([Some(row), Some(other)], widths))?;
                }
            }
        }
        for row in left[..taken_left].iter().filter(|_| order.is_lt() && join.shows_single[0]) {
            call.line(join.write([Some(row), None], widths))?;
        }
        for row in right[..taken_right].iter().filter(|_| order.is_gt() && join.shows_single[1]) {
            call.line(join.write([None, Some(row)], widths))?;
        }
        (left, right) = (&left[taken_left..], &right[taken_right..]);
    }
    Ok(0)
}

pub fn split(call: &mut Call<'_>) -> Outcome {
    let long = "lines=l bytes=b number=n suffix-length=a numeric-suffixes=d additional-suffix=S";
    let options = call.options("l:b:n:a:dS:", long, false)?;
    let path = options.rest.first().map_or("-", String::as_str);
    let bytes = call.read_or_fail(path, 1)?;
    let count = |text, unit| match read_size(text)? {
        0 => fail(format!("invalid number of {unit}: '0'")),
        count => Ok(count),
    };
    let pieces = match (options.value('n'), options.value('b')) {
        (Some(text), _) => chunks(&bytes, text)?,
        (None, Some(text)) => bytes.chunks(count(text, "bytes")?).collect(),
        (None, None) => line_chunks(&bytes, count(options.value('l').unwrap_or("1000"), "lines")?),
    };
    if pieces.len() > call.shell.files.max_paths {
        return fail(call.shell.files.too_many("the pieces would be"));
    }
    let prefix = options.rest.get(1).map_or("x", String::as_str);
    let signs = if options.has('d') { "0123456789" } else { "abcdefghijklmnopqrstuvwxyz" };
    let length = options.value('a').map_or(Ok(2), read_size)?;
    let ends = options.value('S').unwrap_or_default();
    for (index, piece) in pieces.iter().enumerate() {
        let Some(suffix) = suffix(index, signs, length, !options.has('a')) else {
            return fail("output file suffixes exhausted");
        };
        call.create(&format!("{prefix}{suffix}{ends}"), false)?.write(piece)?;
    }
    Ok(0)
}

/// The suffix of a piece. Suffixes that may grow do so after `yz`, with `zaaa`, so that they stay sorted.
fn suffix(index: usize, signs: &str, length: usize, may_grow: bool) -> Option<String> {
    let base = signs.len();
    let (mut rest, mut length, mut prefix) = (index, length, String::new());
    let mut count = (base - 1) * base;
    while may_grow && rest >= count {
        rest -= count;
        prefix.push(signs.chars().last()?);
        length += 1;
        count *= base;
    }
    let mut digits = Vec::new();
    for _ in 0..length {
        digits.push(signs.chars().nth(rest % base)?);
        rest /= base;
    }
    (rest == 0).then(|| prefix + &digits.iter().rev().collect::<String>())
}

fn line_chunks(bytes: &[u8], count: usize) -> Vec<&[u8]> {
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for (index, line) in lines(bytes).enumerate() {
        if index > 0 && index % count == 0 {
            pieces.push(&bytes[start..end]);
            start = end;
        }
        end += line.len();
    }
    pieces.extend((end > start).then(|| &bytes[start..end]));
    pieces
}

/// `N` pieces of the same size, or with `l/N` of whole lines.
fn chunks<'b>(bytes: &'b [u8], text: &str) -> Outcome<Vec<&'b [u8]>> {
    let (number, by_lines) = text.strip_prefix("l/").map_or((text, false), |number| (number, true));
    let Some(count) = number.parse().ok().filter(|count| (1..=100_000).contains(count)) else {
        return fail(format!("invalid number of chunks: '{text}'"));
    };
    let mut pieces = Vec::new();
    let mut start = 0;
    for index in 1..=count {
        let mut end = if index == count { bytes.len() } else { (bytes.len() / count * index).max(start) };
        if by_lines && end > start && end < bytes.len() {
            end += bytes[end - 1..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - end);
        }
        pieces.push(&bytes[start..end]);
        start = end;
    }
    Ok(pieces)
}

pub fn shuf(call: &mut Call<'_>) -> Outcome {
    let long = "echo=e input-range=i head-count=n output=o repeat=r zero-terminated=z";
    let options = call.options("ei:n:o:rz", long, false)?;
    let end = if options.has('z') { b'\0' } else { b'\n' };
    let mut all: Vec<Vec<u8>> = if let Some(range) = options.value('i') {
        range_lines(range)?
    } else if options.has('e') {
        options.rest.iter().map(|word| word.clone().into_bytes()).collect()
    } else {
        let path = options.rest.first().map_or("-", String::as_str);
        let bytes = call.read_or_fail(path, 1)?;
        bytes
            .split_inclusive(|byte| *byte == end)
            .map(|line| line.strip_suffix(&[end]).unwrap_or(line).to_vec())
            .collect()
    };
    let (repeats, most) = (options.has('r'), options.value('n').map_or(Ok(all.len()), read_size)?);
    if repeats && (all.is_empty() || !options.has('n') || most > MAX_LINES) {
        return fail(format!("-r needs lines, and -n with at most {MAX_LINES}"));
    }
    let mut text = Vec::new();
    for index in 0..if repeats { most } else { most.min(all.len()) } {
        let start = if repeats { 0 } else { index };
        let chosen = start + below(call.shell, all.len() - start);
        text.extend_from_slice(&all[chosen]);
        text.push(end);
        all.swap(start, chosen);
    }
    write(call, options.value('o'), &text)?;
    Ok(0)
}

fn range_lines(range: &str) -> Outcome<Vec<Vec<u8>>> {
    let ends = range
        .split_once('-')
        .and_then(|(low, high)| Some((low.parse::<usize>().ok()?, high.parse::<usize>().ok()?)));
    match ends {
        Some((low, high)) if low <= high && high - low < MAX_LINES => {
            Ok((low..=high).map(|number| number.to_string().into_bytes()).collect())
        }
        _ => fail(format!("invalid input range: '{range}'")),
    }
}

/// A random number below another.
fn below(shell: &mut Shell, end: usize) -> usize {
    usize::try_from(shell.next_random() % (end as u64)).unwrap_or(0)
}
