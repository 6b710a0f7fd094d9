//! `sed`

mod parse;

use std::collections::VecDeque;

use crate::call::{Call, NamedInput, chomp, lines};
use crate::regular::Regular;
use crate::shell::{Outcome, fail};

/// Commands that run for one line; a loop of branches may have no end.
const MAX_STEPS: u32 = 1_000_000;

/// The largest pattern or hold space.
const MAX_SPACE_BYTES: usize = 16 * 1024 * 1024;

enum Address {
    Line(usize),
    Last,
    /// None is the last expression that was used.
    Match(Option<Regular>),
    Step(usize, usize),
    /// `+N`, as an end.
    More(usize),
    /// `~N`, as an end.
    Multiple(usize),
}

struct Command {
    start: Option<Address>,
    end: Option<Address>,
    is_negated: bool,
    /// The last line of the range that is active; the largest number is a range whose end is not known.
    until: Option<usize>,
    action: Action,
}

enum Action {
    Block(usize),
    EndBlock,
    Substitute(Box<Substitution>),
    Transliterate(Vec<char>, Vec<char>),
    Append(String),
    /// `$a\`: the last line ends with a newline.
    EndLine,
    Insert(String),
    Change(String),
    Branch(char, usize),
    Quit(i32, bool),
    Read(String),
    Write(String),
    /// `d D p P n N h H g G x = l`
    Letter(char),
}

#[derive(Default)]
struct Substitution {
    regular: Option<Regular>,
    replacement: Vec<Piece>,
    is_global: bool,
    number: usize,
    prints: bool,
    file: Option<String>,
}

enum Piece {
    Text(String),
    Group(usize),
    /// `U`, `L`, `u`, `l` or `E`
    Case(char),
}

struct Machine<'c, 's> {
    call: &'c mut Call<'s>,
    lines: VecDeque<Vec<u8>>,
    space: Vec<u8>,
    hold: Vec<u8>,
    number: usize,
    quiet: bool,
    /// Whether the last line had a newline.
    ends_line: bool,
    appended: Vec<Vec<u8>>,
    last_regular: Option<Regular>,
    /// The output, where it is a file that is replaced.
    file: Option<Vec<u8>>,
    /// Files of `w`, which are written at the end.
    written: Vec<(String, Vec<u8>)>,
}

const LONG: &str = "quiet=n silent=n expression=e file=f regexp-extended=E separate=s";

pub fn sed(call: &mut Call<'_>) -> Outcome {
    let (in_place, arguments) = take_in_place(call.arguments)?;
    let options = Call::new(call.shell, "sed", &arguments, call.io).options("nErse:f:u", LONG, false)?;
    let mut scripts = Vec::new();
    for (flag, value) in &options.flags {
        match flag {
            'e' => scripts.push(value.clone()),
            'f' => scripts.push(String::from_utf8_lossy(&call.read_or_fail(value, 1)?).into_owned()),
            _ => {}
        }
    }
    let mut paths = options.rest.clone();
    if scripts.is_empty() {
        if paths.is_empty() {
            return fail("usage: sed [-n] [-E] [-i] script [file…]");
        }
        scripts.push(paths.remove(0));
    }
    let mut commands = parse::parse(&scripts.join("\n"), options.has('E') || options.has('r'))?;
    let (inputs, is_complete) = call.read_inputs(&paths)?;
    let groups: Vec<Vec<NamedInput>> = if in_place.is_some() || options.has('s') {
        inputs.into_iter().map(|input| vec![input]).collect()
    } else {
        vec![inputs]
    };
    for group in groups {
        if let Some(code) = edit(call, &mut commands, &group, options.has('n'), in_place.as_deref())? {
            return Ok(code);
        }
    }
    Ok(if is_complete { 0 } else { 2 })
}

/// The ending of the backups of `-i`, and the other arguments. `-i.bak` has its value in the same word, which letters before it
/// cannot have.
fn take_in_place(arguments: &[String]) -> Outcome<(Option<String>, Vec<String>)> {
    let mut in_place = None;
    let mut others = Vec::new();
    for argument in arguments {
        let suffix = argument
            .strip_prefix("--in-place")
            .map(|rest| rest.trim_start_matches('='))
            .or_else(|| argument.strip_prefix("-i"));
        match suffix {
            Some("n" | "E" | "r") => {
                return fail("`-i` takes the rest of its word as the ending of a backup: write `-n -i`");
            }
            Some(suffix) => in_place = Some(suffix.to_owned()),
            None => others.push(argument.clone()),
        }
    }
    Ok((in_place, others))
}

/// Runs the commands over inputs as one text. Returns the exit status if a command ends the script.
fn edit(
    call: &mut Call<'_>,
    commands: &mut [Command],
    inputs: &[NamedInput],
    quiet: bool,
    in_place: Option<&str>,
) -> Outcome<Option<i32>> {
    let mut all = VecDeque::new();
    for (_, bytes) in inputs {
        if let Some(last) = all.back_mut().filter(|last: &&mut Vec<u8>| last.last() != Some(&b'\n')) {
            last.push(b'\n');
        }
        all.extend(lines(bytes).map(<[u8]>::to_vec));
    }
    commands.iter_mut().for_each(|command| command.until = None);
    let mut machine = Machine {
        call,
        lines: all,
        space: Vec::new(),
        hold: Vec::new(),
        number: 0,
        quiet,
        ends_line: true,
        appended: Vec::new(),
        last_regular: None,
        file: in_place.is_some().then(Vec::new),
        written: Vec::new(),
    };
    let quit = machine.run(commands)?;
    let (rest, file, written) = (machine.lines, machine.file, machine.written);
    for (path, text) in written {
        call.create(&path, false)?.write(&text)?;
    }
    if let (Some(mut text), Some(suffix)) = (file, in_place) {
        let name = inputs.first().map(|(name, _)| name.as_str()).unwrap_or_default();
        rest.iter().for_each(|line| text.extend_from_slice(line));
        let place = call.place(name)?;
        if !suffix.is_empty() {
            place.copy_file(&call.place(&format!("{name}{suffix}"))?)?;
        }
        place.write(text)?;
    }
    Ok(quit)
}

/// The next step after a command.
enum Next {
    Command(usize),
    /// The end of the script: the pattern space is printed.
    End,
    /// The next cycle, without printing.
    Cycle,
    /// The script again, with what is in the pattern space.
    Again,
    Quit(i32, bool),
}

impl Machine<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        match &mut self.file {
            Some(text) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
            None => self.call.out(bytes),
        }
    }

    fn print(&mut self, text: &[u8], ends_line: bool) -> Outcome<()> {
        self.write(text)?;
        if ends_line { self.write(b"\n") } else { Ok(()) }
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let line = self.lines.pop_front()?;
        self.ends_line = line.ends_with(b"\n");
        self.number += 1;
        Some(chomp(&line).to_vec())
    }

    /// Runs the script for each line. Returns the exit code of `q`.
    fn run(&mut self, commands: &mut [Command]) -> Outcome<Option<i32>> {
        let mut keeps_space = false;
        loop {
            if !keeps_space {
                let Some(line) = self.next_line() else { return Ok(None) };
                self.space = line;
            }
            keeps_space = false;
            match self.cycle(commands)? {
                Next::Again => keeps_space = true,
                Next::Quit(code, prints) => {
                    if prints {
                        self.finish()?;
                    }
                    return Ok(Some(code));
                }
                Next::Cycle => self.flush_appended()?,
                _ => self.finish()?,
            }
        }
    }

    fn finish(&mut self) -> Outcome<()> {
        if !self.quiet {
            let space = self.space.clone();
            self.print(&space, self.ends_line)?;
        }
        self.flush_appended()
    }

    fn flush_appended(&mut self) -> Outcome<()> {
        if !self.appended.is_empty() && !self.ends_line && !self.quiet {
            self.ends_line = true;
            self.write(b"\n")?;
        }
        for text in std::mem::take(&mut self.appended) {
            self.write(&text)?;
        }
        Ok(())
    }

    fn cycle(&mut self, commands: &mut [Command]) -> Outcome<Next> {
        let (mut index, mut steps, mut was_replaced) = (0, 0, false);
        while index < commands.len() {
            steps += 1;
            if steps > MAX_STEPS || self.space.len() + self.hold.len() > MAX_SPACE_BYTES {
                return fail("the script runs without end");
            }
            if self.selects(&mut commands[index])? == commands[index].is_negated {
                index = match commands[index].action {
                    Action::Block(end) => end,
                    _ => index + 1,
                };
                continue;
            }
            match self.step(&mut commands[index], index, &mut was_replaced)? {
                Next::Command(next) => index = next,
                next => return Ok(next),
            }
        }
        Ok(Next::End)
    }

    fn is_at(&mut self, address: &Address) -> Outcome<bool> {
        Ok(match address {
            Address::Line(number) => self.number == *number,
            Address::Last => self.lines.is_empty(),
            Address::Match(regular) => {
                let regular = self.regular(regular.as_ref())?;
                regular.is_match(&self.space)
            }
            Address::Step(first, 0) => self.number == *first,
            Address::Step(first, step) => {
                self.number >= *first && (self.number - first).is_multiple_of(*step)
            }
            Address::More(_) | Address::Multiple(_) => false,
        })
    }

    fn regular(&mut self, regular: Option<&Regular>) -> Outcome<Regular> {
        match regular.or(self.last_regular.as_ref()).cloned() {
            Some(regular) => {
                self.last_regular = Some(regular.clone());
                Ok(regular)
            }
            None => fail("no previous regular expression"),
        }
    }

    fn selects(&mut self, command: &mut Command) -> Outcome<bool> {
        let Some(start) = &command.start else { return Ok(true) };
        let Some(end) = &command.end else { return self.is_at(start) };
        // `0,/x/` looks for its end in the first line too.
        let from_zero = matches!(start, Address::Line(0)) && self.number == 1 && command.until.is_none();
        if from_zero {
            command.until = Some(usize::MAX);
        }
        if let Some(until) = command.until {
            let is_end = match end {
                Address::Match(_) | Address::Last => self.is_at(end)?,
                _ => self.number >= until,
            };
            if is_end {
                command.until = None;
            }
            // A range by lines that is over selects no line after it.
            return Ok(matches!(end, Address::Match(_) | Address::Last) || self.number <= until);
        }
        if !self.is_at(start)? {
            return Ok(false);
        }
        let until = match end {
            Address::Line(number) => *number,
            Address::More(count) => self.number + count,
            Address::Multiple(count) => self.number.next_multiple_of((*count).max(1)),
            Address::Last if self.lines.is_empty() => self.number,
            _ => usize::MAX,
        };
        if until > self.number {
            command.until = Some(until);
        }
        Ok(true)
    }

    fn step(&mut self, command: &mut Command, index: usize, was_replaced: &mut bool) -> Outcome<Next> {
        let in_range = command.end.is_some() && command.until.is_some();
        match &command.action {
            Action::Block(_) | Action::EndBlock => {}
            Action::Substitute(substitution) => *was_replaced |= self.substitute(substitution)?,
            Action::Transliterate(from, to) => {
                let text = String::from_utf8_lossy(&self.space).into_owned();
                let map = |sign| from.iter().position(|known| *known == sign).map_or(sign, |index| to[index]);
                self.space = text.chars().map(map).collect::<String>().into_bytes();
            }
            Action::EndLine => self.appended.push(Vec::new()),
            Action::Append(text) => self.appended.push(format!("{text}\n").into_bytes()),
            Action::Insert(text) => self.print(text.as_bytes(), true)?,
            Action::Change(text) => {
                if !in_range || command.is_negated {
                    self.print(text.as_bytes(), true)?;
                }
                return Ok(Next::Cycle);
            }
            Action::Branch(kind, target) => {
                let goes = match kind {
                    't' => std::mem::take(was_replaced),
                    'T' => !std::mem::take(was_replaced),
                    _ => true,
                };
                if goes {
                    return Ok(Next::Command(*target));
                }
            }
            Action::Quit(code, prints) => return Ok(Next::Quit(*code, *prints)),
            Action::Read(path) => {
                if let Ok(bytes) = self.call.read(path) {
                    self.appended.push(bytes);
                }
            }
            Action::Write(path) => self.write_file(path)?,
            Action::Letter(letter) => return self.letter(*letter, index),
        }
        Ok(Next::Command(index + 1))
    }

    fn write_file(&mut self, path: &str) -> Outcome<()> {
        let line = [self.space.as_slice(), b"\n"].concat();
        if path == "/dev/stdout" {
            return self.write(&line);
        }
        match self.written.iter_mut().find(|(known, _)| known == path) {
            Some((_, text)) => text.extend(line),
            None => self.written.push((path.to_owned(), line)),
        }
        Ok(())
    }

    fn letter(&mut self, letter: char, index: usize) -> Outcome<Next> {
        let first_line = |space: &[u8]| space.iter().position(|byte| *byte == b'\n');
        match letter {
            'd' => return Ok(Next::Cycle),
            'D' => {
                let Some(end) = first_line(&self.space) else { return Ok(Next::Cycle) };
                self.space.drain(..=end);
                self.flush_appended()?;
                return Ok(Next::Again);
            }
            'p' => {
                let space = self.space.clone();
                self.print(&space, true)?;
            }
            'P' => {
                let end = first_line(&self.space).unwrap_or(self.space.len());
                let line = self.space[..end].to_vec();
                self.print(&line, true)?;
            }
            'n' | 'N' if self.lines.is_empty() => return Ok(Next::Quit(0, true)),
            'n' => {
                self.finish()?;
                self.space = self.next_line().unwrap_or_default();
            }
            'N' => {
                let line = self.next_line().unwrap_or_default();
                append_line(&mut self.space, &line);
            }
            'h' => self.hold = self.space.clone(),
            'H' => append_line(&mut self.hold, &self.space),
            'g' => self.space = self.hold.clone(),
            'G' => append_line(&mut self.space, &self.hold),
            'x' => std::mem::swap(&mut self.space, &mut self.hold),
            _ => self.print(self.number.to_string().as_bytes(), true)?,
        }
        Ok(Next::Command(index + 1))
    }

    fn substitute(&mut self, substitution: &Substitution) -> Outcome<bool> {
        let regular = self.regular(substitution.regular.as_ref())?;
        let (mut result, mut start, mut copied, mut count) = (Vec::new(), 0, 0, 0);
        let mut last_end = None;
        let mut is_replaced = false;
        while start <= self.space.len() {
            let Some(groups) = regular.groups(&self.space, start) else { break };
            let Some((begin, end)) = groups.first().copied().flatten() else { break };
            // An empty match right after a match is none.
            if begin == end && last_end == Some(begin) {
                start = end + 1;
                continue;
            }
            count += 1;
            last_end = Some(end);
            if count >= substitution.number {
                result.extend_from_slice(&self.space[copied..begin]);
                replace(&mut result, &substitution.replacement, &groups, &self.space);
                copied = end;
                is_replaced = true;
                if !substitution.is_global {
                    break;
                }
            }
            start = if end > begin { end } else { end + 1 };
        }
        if !is_replaced {
            return Ok(false);
        }
        result.extend_from_slice(&self.space[copied..]);
        self.space = result;
        if substitution.prints {
            let space = self.space.clone();
            self.print(&space, true)?;
        }
        if let Some(path) = &substitution.file {
            self.write_file(path)?;
        }
        Ok(true)
    }
}

fn append_line(text: &mut Vec<u8>, line: &[u8]) {
    text.push(b'\n');
    text.extend_from_slice(line);
}

fn replace(result: &mut Vec<u8>, replacement: &[Piece], groups: &[Option<(usize, usize)>], space: &[u8]) {
    let (mut mode, mut once) = ('E', None);
    for piece in replacement {
        let text = match piece {
            Piece::Text(text) => text.as_bytes(),
            Piece::Group(number) => {
                groups.get(*number).copied().flatten().map_or(&[][..], |(start, end)| &space[start..end])
            }
            Piece::Case(letter @ ('u' | 'l')) => {
                once = Some(*letter);
                continue;
            }
            Piece::Case(letter) => {
                mode = *letter;
                continue;
            }
        };
        if mode == 'E' && once.is_none() {
            result.extend_from_slice(text);
            continue;
        }
        for sign in String::from_utf8_lossy(text).chars() {
            let case = once.take().unwrap_or(mode);
            let changed: String = match case.to_ascii_uppercase() {
                'U' => sign.to_uppercase().collect(),
                'L' => sign.to_lowercase().collect(),
                _ => sign.to_string(),
            };
            result.extend(changed.bytes());
        }
    }
}
