//! `sort`, `uniq`, `comm` and `paste`.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::call::{Call, Options, chomp, lines, text_of};
use crate::shell::{Outcome, fail};

/// How keys are compared.
#[derive(Clone, Copy, Default)]
struct Rules {
    numeric: bool,
    general: bool,
    human: bool,
    version: bool,
    folds: bool,
    dictionary: bool,
    skips_blanks: bool,
    reverse: bool,
    random: bool,
    /// For the order of `-R`, which is another one in each call.
    seed: u64,
}

impl Rules {
    fn add(&mut self, letter: char) -> bool {
        match letter {
            'n' => self.numeric = true,
            'g' => self.general = true,
            'h' => self.human = true,
            'V' => self.version = true,
            'f' => self.folds = true,
            'd' => self.dictionary = true,
            'b' => self.skips_blanks = true,
            'r' => self.reverse = true,
            'R' => self.random = true,
            _ => return false,
        }
        true
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let order = if self.numeric {
            number(left, false).total_cmp(&number(right, false))
        } else if self.human {
            number(left, true).total_cmp(&number(right, true))
        } else if self.general {
            let parse = |text: &[u8]| text_of(text).trim().parse::<f64>().unwrap_or(f64::NEG_INFINITY);
            parse(left).total_cmp(&parse(right))
        } else if self.version {
            version(left, right)
        } else if self.random {
            shuffle_key(left, self.seed).cmp(&shuffle_key(right, self.seed))
        } else {
            let key = |text: &[u8]| -> Vec<u8> {
                let kept = text.iter().copied().filter(|byte| {
                    !self.dictionary
                        || byte.is_ascii_alphanumeric()
                        || byte.is_ascii_whitespace()
                        || *byte > 127
                });
                kept.map(|byte| if self.folds { byte.to_ascii_uppercase() } else { byte }).collect()
            };
            if self.folds || self.dictionary { key(left).cmp(&key(right)) } else { left.cmp(right) }
        };
        if self.reverse { order.reverse() } else { order }
    }
}

/// A hash of a key, by which equal keys stay together in a random order.
fn shuffle_key(key: &[u8], seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, key).hash(&mut hasher);
    hasher.finish()
}

fn number(text: &[u8], is_human: bool) -> f64 {
    let text = text_of(text);
    let text = text.trim_start();
    let mut has_point = false;
    let end = text
        .char_indices()
        .find(|(index, sign)| {
            let is_point = *sign == '.' && !has_point;
            has_point |= is_point;
            !(sign.is_ascii_digit() || is_point || (*index == 0 && *sign == '-'))
        })
        .map_or(text.len(), |(index, _)| index);
    let value: f64 = text[..end].parse().unwrap_or(0.0);
    let power = "KMGTPE"
        .find(|unit| is_human && text[end..].to_uppercase().starts_with(unit))
        .map_or(0, |index| index + 1);
    // Zero has one sign only.
    value * 1024_f64.powi(i32::try_from(power).unwrap_or(0)) + 0.0
}

/// Compares runs of digits as numbers.
fn version(left: &[u8], right: &[u8]) -> Ordering {
    let (mut left, mut right) = (left, right);
    loop {
        match (left.first(), right.first()) {
            (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                let run = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (a, b) = (&left[..run(left)], &right[..run(right)]);
                (left, right) = (&left[a.len()..], &right[b.len()..]);
                let trim = |text: &[u8]| text_of(text).trim_start_matches('0').to_owned();
                let (a, b) = (trim(a), trim(b));
                let order = a.len().cmp(&b.len()).then_with(|| a.cmp(&b));
                if order.is_ne() {
                    return order;
                }
            }
            (Some(a), Some(b)) if a == b => (left, right) = (&left[1..], &right[1..]),
            (a, b) => return a.cmp(&b),
        }
    }
}

/// A key: fields and characters from 1; a character 0 at the end is the end of the field.
struct Key {
    start: (usize, usize),
    end: Option<(usize, usize)>,
    rules: Rules,
}

impl Key {
    /// Parses a key, which has the given rules if it names none.
    fn parse(text: &str, otherwise: Rules) -> Outcome<Self> {
        let mut rules = Rules { seed: otherwise.seed, ..Rules::default() };
        let mut has_rules = false;
        let mut place = |text: &str| -> Outcome<(usize, usize)> {
            let digits = text.trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
            for letter in text[digits.len()..].chars() {
                has_rules = true;
                if !rules.add(letter) {
                    return fail(format!(
                        "`{letter}` is no option of a key of this shell: b d f g h n r R V are"
                    ));
                }
            }
            let (field, sign) = digits.split_once('.').unwrap_or((digits, "0"));
            match (field.parse(), sign.parse()) {
                (Ok(field), Ok(sign)) if field > 0 => Ok((field, sign)),
                _ => fail(format!("invalid key `{text}`: write as `2,3`")),
            }
        };
        let (start, end) = text.split_once(',').map_or((text, None), |(start, end)| (start, Some(end)));
        let start = place(start)?;
        let end = end.map(&mut place).transpose()?;
        Ok(Self { start, end, rules: if has_rules { rules } else { otherwise } })
    }

    fn of<'l>(&self, line: &'l [u8], separator: Option<u8>) -> &'l [u8] {
        let fields = fields(line, separator);
        let begin = |field: usize, sign: usize| match fields.get(field - 1) {
            Some((start, end)) => {
                let blanks = if self.rules.skips_blanks {
                    line[*start..*end].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
                } else {
                    0
                };
                (start + blanks + sign.saturating_sub(1)).min(line.len())
            }
            None => line.len(),
        };
        let start = begin(self.start.0, self.start.1);
        let end = match self.end {
            None => line.len(),
            Some((field, 0)) => fields.get(field - 1).map_or(line.len(), |(_, end)| *end),
            Some((field, sign)) => (begin(field, sign) + 1).min(line.len()),
        };
        &line[start..end.max(start)]
    }
}

/// The places of fields. Without a separator, a field has the blanks before it.
fn fields(line: &[u8], separator: Option<u8>) -> Vec<(usize, usize)> {
    let mut fields = Vec::new();
    let mut start = 0;
    match separator {
        Some(separator) => {
            for field in line.split(|byte| *byte == separator) {
                fields.push((start, start + field.len()));
                start += field.len() + 1;
            }
        }
        None => {
            while start < line.len() {
                let blanks = line[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                let length =
                    line[start + blanks..].iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
                fields.push((start, start + blanks + length));
                start += blanks + length;
            }
        }
    }
    fields
}

const SORT_LONG: &str = "numeric-sort=n reverse=r unique=u key=k field-separator=t output=o version-sort=V \
    human-numeric-sort=h random-sort=R ignore-case=f stable=s check=c";

/// The order of lines: by their keys, or as a whole where there are none.
struct LineOrder {
    rules: Rules,
    separator: Option<u8>,
    keys: Vec<Key>,
}

impl LineOrder {
    fn read(options: &Options, seed: u64) -> Outcome<Self> {
        let mut rules = Rules { seed, ..Rules::default() };
        for (flag, _) in &options.flags {
            rules.add(*flag);
        }
        let separator = options
            .value('t')
            .map(|text| if text == "\\t" { b'\t' } else { text.bytes().next().unwrap_or(b'\0') });
        let keys = options.values('k').map(|key| Key::parse(key, rules)).collect::<Outcome<_>>()?;
        Ok(Self { rules, separator, keys })
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        if self.keys.is_empty() {
            return self.rules.compare(left, right);
        }
        let by_key =
            |key: &Key| key.rules.compare(key.of(left, self.separator), key.of(right, self.separator));
        self.keys.iter().map(by_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

pub fn sort(call: &mut Call<'_>) -> Outcome {
    let options = call.options("nghVRfdbruszck:t:o:", SORT_LONG, false)?;
    let order = LineOrder::read(&options, call.shell.next_random())?;
    let whole_order = Rules { reverse: order.rules.reverse, ..Rules::default() };
    let end = if options.has('z') { b'\0' } else { b'\n' };
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    if !is_complete {
        return Ok(2);
    }
    let lines = inputs.iter().flat_map(|(_, bytes)| bytes.split_inclusive(|byte| *byte == end));
    let mut all: Vec<Vec<u8>> =
        lines.map(|line| line.strip_suffix(&[end]).unwrap_or(line).to_vec()).collect();
    if options.has('c') {
        let is_sorted = all.windows(2).all(|pair| order.compare(&pair[0], &pair[1]).is_le());
        return Ok(i32::from(!is_sorted));
    }
    let is_stable = options.has('s') || options.has('u');
    all.sort_by(|left, right| {
        order
            .compare(left, right)
            .then_with(|| if is_stable { Ordering::Equal } else { whole_order.compare(left, right) })
    });
    if options.has('u') {
        all.dedup_by(|later, earlier| order.compare(later, earlier).is_eq());
    }
    let mut text = Vec::new();
    for line in all {
        text.extend(line);
        text.push(end);
    }
    write(call, options.value('o'), &text)?;
    Ok(0)
}

/// Writes a text into a file, or to the output where none is named.
pub fn write(call: &mut Call<'_>, path: Option<&str>, text: &[u8]) -> Outcome<()> {
    match path {
        Some(path) => Ok(call.create(path, false)?.write(text)?),
        None => call.out(text),
    }
}

pub fn uniq(call: &mut Call<'_>) -> Outcome {
    let long = "count=c repeated=d unique=u ignore-case=i skip-fields=f";
    let options = call.options("cdui f:s:w:", long, false)?;
    let skipped = |flag| options.value(flag).and_then(|count| count.parse::<usize>().ok());
    let (skipped_fields, skipped_signs, width) =
        (skipped('f').unwrap_or(0), skipped('s').unwrap_or(0), skipped('w').unwrap_or(usize::MAX));
    let key = |line: &[u8]| {
        let line = text_of(line);
        let mut rest = line.as_str();
        for _ in 0..skipped_fields {
            rest = rest.trim_start();
            rest = &rest[rest.find(char::is_whitespace).unwrap_or(rest.len())..];
        }
        let key: String = rest.chars().skip(skipped_signs).take(width).collect();
        if options.has('i') { key.to_lowercase() } else { key }
    };
    let (inputs, is_complete) = call.read_inputs(&options.rest[..options.rest.len().min(1)])?;
    let mut text = Vec::new();
    for (_, bytes) in &inputs {
        let mut groups: Vec<(&[u8], String, usize)> = Vec::new();
        for line in lines(bytes).map(chomp) {
            let key = key(line);
            match groups.last_mut() {
                Some((_, last, count)) if *last == key => *count += 1,
                _ => groups.push((line, key, 1)),
            }
        }
        for (line, _, count) in groups {
            if (options.has('d') && count == 1) || (options.has('u') && count > 1) {
                continue;
            }
            if options.has('c') {
                text.extend(format!("{count:7} ").bytes());
            }
            text.extend_from_slice(line);
            text.push(b'\n');
        }
    }
    write(call, options.rest.get(1).map(String::as_str), &text)?;
    Ok(i32::from(!is_complete))
}

pub fn comm(call: &mut Call<'_>) -> Outcome {
    let options = call.options("123", "", false)?;
    let [left, right] = options.rest.as_slice() else { return fail("needs two files") };
    let (left, right) = (call.read_or_fail(left, 1)?, call.read_or_fail(right, 1)?);
    let mut left = lines(&left).map(chomp).peekable();
    let mut right = lines(&right).map(chomp).peekable();
    let indent = |column: usize| {
        "\t".repeat(['1', '2'].iter().take(column).filter(|flag| !options.has(**flag)).count())
    };
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return Ok(0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.cmp(right),
        };
        let (flag, column, line) = match order {
            Ordering::Less => ('1', 0, left.next()),
            Ordering::Greater => ('2', 1, right.next()),
            Ordering::Equal => {
                right.next();
                ('3', 2, left.next())
            }
        };
        if !options.has(flag) {
            call.out(indent(column))?;
            call.line(line.unwrap_or_default())?;
        }
    }
}

pub fn paste(call: &mut Call<'_>) -> Outcome {
    let options = call.options("d:s", "delimiters=d serial=s", false)?;
    let delimiters = crate::escape::decode(options.value('d').unwrap_or("\t"), crate::escape::Kind::Shell).0;
    let mut columns = columns(call, &options.paths())?;
    if !options.has('s') {
        let rows = 0..columns.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |column: &Vec<String>, row: usize| column.get(row).cloned().unwrap_or_default();
        columns = rows.map(|row| columns.iter().map(|column| cell(column, row)).collect()).collect();
    }
    for row in columns {
        call.line(join(&row, &delimiters))?;
    }
    Ok(0)
}

/// The lines of each file. Each of several `-` has the next line of the input in turn.
fn columns(call: &mut Call<'_>, paths: &[String]) -> Outcome<Vec<Vec<String>>> {
    let mut read = |path: &str| -> Outcome<Vec<String>> {
        let bytes = call.read_or_fail(path, 1)?;
        Ok(lines(&bytes).map(|line| text_of(chomp(line))).collect())
    };
    let from_input = paths.iter().filter(|path| *path == "-").count();
    if from_input > 1 {
        let all = read("-")?;
        let column = |first| all.iter().skip(first).step_by(from_input).cloned().collect();
        return Ok((0..from_input).map(column).collect());
    }
    paths.iter().map(|path| read(path)).collect()
}

/// Joins texts by the delimiters in turn.
fn join(texts: &[String], delimiters: &str) -> String {
    let mut delimiters = delimiters.chars().cycle();
    let mut row = String::new();
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            row.extend(delimiters.next());
        }
        row.push_str(text);
    }
    row
}
