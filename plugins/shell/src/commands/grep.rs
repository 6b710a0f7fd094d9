//! `grep`

use crate::call::{Call, Options, chomp, is_binary, lines, text_of};
use crate::regular::{Flavor, Regular};
use crate::shell::{Outcome, Stop, fail};

/// Options without a letter.
const INCLUDE: char = '\u{e000}';
const EXCLUDE: char = '\u{e001}';
const EXCLUDE_FOLDER: char = '\u{e002}';

const LONG: &str = "ignore-case=i invert-match=v count=c line-number=n files-with-matches=l only-matching=o quiet=q \
    silent=q recursive=r word-regexp=w line-regexp=x extended-regexp=E fixed-strings=F perl-regexp=P \
    regexp=e file=f max-count=m after-context=A before-context=B context=C no-filename=h \
    with-filename=H no-messages=s include=\u{e000} exclude=\u{e001} exclude-dir=\u{e002} \
    files-without-match=L color=Y text=a";

struct Search {
    patterns: Vec<Regular>,
    options: Options,
    shows_names: bool,
    before: usize,
    after: usize,
    most: usize,
}

pub fn grep(call: &mut Call<'_>) -> Outcome {
    let mut options =
        call.options("ivcnloqrRwxEFGPe:f:m:A:B:C:hHsaLIY\u{e000}:\u{e001}:\u{e002}:", LONG, false)?;
    let flavor = flavor(call.name, &options);
    let patterns = patterns(call, &mut options, flavor)?;
    let is_recursive = options.has('r') || options.has('R');
    let files = if is_recursive {
        // The status 1 would say that there is no match.
        walk(call, &options).map_err(|stop| stop.with_status(2))?
    } else {
        options.paths()
    };
    let number = |flag: char| options.value(flag).and_then(|count| count.parse().ok());
    let context = number('C').unwrap_or(0);
    let search = Search {
        shows_names: (files.len() > 1 || is_recursive || options.has('H')) && !options.has('h'),
        before: number('B').unwrap_or(context),
        after: number('A').unwrap_or(context),
        most: number('m').unwrap_or(usize::MAX),
        patterns,
        options,
    };
    let (mut has_match, mut has_group, mut has_failed) = (false, false, false);
    for path in &files {
        match call.read(path) {
            Ok(bytes) => {
                has_match |= search.file(call, path, &bytes, &mut has_group)?;
                if has_match && search.options.has('q') {
                    return Ok(0);
                }
            }
            Err(error) => {
                if !search.options.has('s') {
                    call.complain_of(path, &error)?;
                }
                has_failed = true;
            }
        }
    }
    Ok(if has_failed { 2 } else { i32::from(!has_match) })
}

/// The kind of the patterns: the last option for it counts.
fn flavor(name: &str, options: &Options) -> Flavor {
    let chosen = options.flags.iter().rev().find_map(|(flag, _)| match flag {
        'E' => Some(Flavor::Extended),
        'F' => Some(Flavor::Fixed),
        'P' => Some(Flavor::Perl),
        'G' => Some(Flavor::Basic),
        _ => None,
    });
    match name {
        "egrep" => Flavor::Extended,
        "fgrep" => Flavor::Fixed,
        _ => chosen.unwrap_or(Flavor::Basic),
    }
}

fn patterns(call: &mut Call<'_>, options: &mut Options, flavor: Flavor) -> Outcome<Vec<Regular>> {
    let mut sources: Vec<String> = options
        .values('e')
        .flat_map(|text| text.split('\n').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let files: Vec<String> = options.values('f').map(str::to_owned).collect();
    for path in &files {
        let bytes = call.read_or_fail(path, 2)?;
        sources.extend(lines(&bytes).map(|line| text_of(chomp(line))));
    }
    if sources.is_empty() && files.is_empty() {
        if options.rest.is_empty() {
            return Err(Stop::Fail(2, "usage: grep [options] pattern [file…]".to_owned()));
        }
        sources = options.rest.remove(0).split('\n').map(str::to_owned).collect();
    }
    sources.iter().map(|source| Regular::new(source, flavor, options.has('i'))).collect()
}

/// The files below the paths of the options, or below the current folder, in the order of their names.
fn walk(call: &mut Call<'_>, options: &Options) -> Outcome<Vec<String>> {
    let mut files = Vec::new();
    let mut waiting: Vec<String> = options.rest.iter().rev().cloned().collect();
    let from_here = waiting.is_empty();
    if from_here {
        waiting.push(".".to_owned());
    }
    while let Some(path) = waiting.pop() {
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        let is_folder = call.place(&path).is_ok_and(|place| place.is_folder());
        let mut is_met = |flag: char| -> Outcome<bool> {
            for pattern in options.values(flag) {
                if call.shell.matches(pattern, &name)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if !is_folder {
            if (!options.has(INCLUDE) || is_met(INCLUDE)?) && !is_met(EXCLUDE)? {
                files.push(path);
            }
            continue;
        }
        if name != "." && is_met(EXCLUDE_FOLDER)? {
            continue;
        }
        let names = call.shell.files.list_for_walk(&call.shell.state.current, &path)?;
        if files.len() + waiting.len() + names.len() > call.shell.files.max_paths {
            return fail(call.shell.files.too_many("the search has"));
        }
        let prefix =
            if from_here && path == "." { String::new() } else { format!("{}/", path.trim_end_matches('/')) };
        waiting.extend(names.iter().rev().map(|name| format!("{prefix}{name}")));
    }
    Ok(files)
}

impl Search {
    /// The first match in a line from a place on.
    fn find(&self, line: &[u8], start: usize) -> Option<(usize, usize)> {
        let by_word = self.options.has('w');
        let by_line = self.options.has('x');
        let mut best: Option<(usize, usize)> = None;
        for pattern in &self.patterns {
            let mut from = start;
            while let Some((begin, end)) = pattern.find(line, from) {
                let is_sign = |index: usize| {
                    line.get(index).is_some_and(|byte| *byte == b'_' || byte.is_ascii_alphanumeric())
                };
                let fits = (!by_word || !((begin > 0 && is_sign(begin - 1)) || is_sign(end)))
                    && (!by_line || (begin == 0 && end == line.len()));
                if fits {
                    if best.is_none_or(|(found, length)| begin < found || (begin == found && end > length)) {
                        best = Some((begin, end));
                    }
                    break;
                }
                from = begin + 1;
                if from > line.len() {
                    break;
                }
            }
        }
        best
    }

    fn file(&self, call: &mut Call<'_>, path: &str, bytes: &[u8], has_group: &mut bool) -> Outcome<bool> {
        let is_binary = !self.options.has('a') && is_binary(bytes);
        if is_binary && self.options.has('I') {
            return Ok(false);
        }
        let shown = if path == "-" { "(standard input)" } else { path };
        let quiet = ['c', 'l', 'L', 'q'].iter().any(|flag| self.options.has(*flag));
        let all: Vec<&[u8]> = lines(bytes).map(chomp).collect();
        let count = if quiet || is_binary {
            let most = if self.options.has('c') { self.most } else { self.most.min(1) };
            all.iter().filter(|line| self.is_match(line)).take(most).count()
        } else {
            self.write_matches(call, shown, &all, has_group)?
        };
        if is_binary && !quiet && count > 0 {
            call.line(format!("Binary file {shown} matches"))?;
        }
        self.summarize(call, shown, count)
    }

    fn is_match(&self, line: &[u8]) -> bool {
        self.find(line, 0).is_some() != self.options.has('v')
    }

    /// Writes the lines that match, with those around them. Returns the count of matches.
    fn write_matches(
        &self,
        call: &mut Call<'_>,
        shown: &str,
        all: &[&[u8]],
        has_group: &mut bool,
    ) -> Outcome<usize> {
        let (mut count, mut written_to, mut after_left) = (0, 0, 0);
        for (index, line) in all.iter().enumerate() {
            let is_match = self.is_match(line);
            if count >= self.most && (is_match || after_left == 0) {
                break;
            }
            if !is_match {
                if after_left > 0 {
                    after_left -= 1;
                    self.line(call, shown, index, line, '-')?;
                    written_to = index + 1;
                }
                continue;
            }
            count += 1;
            let first = index.saturating_sub(self.before).max(written_to);
            if (self.before > 0 || self.after > 0) && *has_group && (first > written_to || written_to == 0) {
                call.line("--")?;
            }
            *has_group = true;
            for (before, text) in all.iter().enumerate().take(index).skip(first) {
                self.line(call, shown, before, text, '-')?;
            }
            self.line(call, shown, index, line, ':')?;
            written_to = index + 1;
            after_left = self.after;
        }
        Ok(count)
    }

    /// Writes what `-c`, `-l` and `-L` ask for. Returns whether the file counts as found.
    fn summarize(&self, call: &mut Call<'_>, shown: &str, count: usize) -> Outcome<bool> {
        let name = if self.shows_names { format!("{shown}:") } else { String::new() };
        if self.options.has('c') {
            call.line(format!("{name}{count}"))?;
        } else if self.options.has(if count > 0 { 'l' } else { 'L' }) {
            call.line(shown)?;
        }
        Ok((count > 0) != self.options.has('L'))
    }

    fn line(&self, call: &mut Call<'_>, shown: &str, index: usize, line: &[u8], sign: char) -> Outcome<()> {
        let mut prefix = String::new();
        if self.shows_names {
            prefix.push_str(&format!("{shown}{sign}"));
        }
        if self.options.has('n') {
            prefix.push_str(&format!("{}{sign}", index + 1));
        }
        if !self.options.has('o') {
            call.out(prefix)?;
            return call.line(line);
        }
        if self.options.has('v') || sign == '-' {
            return Ok(());
        }
        let mut start = 0;
        while let Some((begin, end)) = self.find(line, start) {
            if end > begin {
                call.out(&prefix)?;
                call.line(&line[begin..end])?;
            }
            start = if end > begin { end } else { end + 1 };
            if start > line.len() {
                break;
            }
        }
        Ok(())
    }
}
