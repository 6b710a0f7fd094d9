//! `find`

use std::time::{Duration, SystemTime};

use super::list::keep_root;
use crate::call::Call;
use crate::files::{Kind, Metadata, explain};
use crate::shell::{Outcome, Stop, fail};

/// Folders in folders that a walk follows.
const MAX_DEPTH: u32 = 200;

enum Test {
    Name(String, bool),
    Path(String, bool),
    Kind(Vec<char>),
    /// Less, equal or more than a count of units.
    Size(std::cmp::Ordering, u64, u64),
    Age(std::cmp::Ordering, u64, u64),
    Newer(SystemTime),
    Empty,
    Constant(bool),
    Print(&'static str),
    Format(String),
    Prune,
    Delete,
    Quit,
    /// With one path for each call, or with all.
    Execute(Vec<String>, bool),
    Not(Box<Test>),
    And(Vec<Test>),
    Or(Vec<Test>),
}

struct Found {
    path: String,
    name: String,
    metadata: Metadata,
    depth: u32,
}

impl Found {
    /// The letter of `-type`.
    fn kind(&self) -> char {
        if self.metadata.is_folder() {
            'd'
        } else if self.metadata.kind == Kind::Link {
            'l'
        } else {
            'f'
        }
    }
}

#[derive(Default)]
struct Walk {
    least: u32,
    most: u32,
    is_pruned: bool,
    is_ended: bool,
    passed: usize,
    status: i32,
    /// Paths for `-exec … {} +`.
    collected: Vec<String>,
}

pub fn find(call: &mut Call<'_>) -> Outcome {
    let starts = call
        .arguments
        .iter()
        .take_while(|word| !word.starts_with('-') && *word != "(" && *word != "!")
        .count();
    let mut paths = call.arguments[..starts].to_vec();
    if paths.is_empty() {
        paths.push(".".to_owned());
    }
    let mut walk = Walk { most: MAX_DEPTH, ..Walk::default() };
    let mut parser = Parser { words: &call.arguments[starts..], ..Parser::default() };
    let mut test = parser.or(call, &mut walk)?;
    if let Some(word) = parser.words.get(parser.position) {
        return fail(format!("unexpected `{word}`"));
    }
    let (is_deep, batch) = (parser.is_deep, parser.batch.take());
    if !parser.has_action {
        test = Test::And(vec![test, Test::Print("\n")]);
    }
    for path in &paths {
        match call.place(path).and_then(|place| place.link_metadata()) {
            Ok(metadata) => {
                let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_owned();
                let found = Found { path: path.clone(), name, metadata, depth: 0 };
                visit(call, &mut walk, &test, is_deep, found)?;
            }
            Err(error) => {
                call.complain(&format!("'{path}': {}", explain(&error)))?;
                walk.status = 1;
            }
        }
    }
    if let Some(words) = batch
        && !walk.collected.is_empty()
    {
        execute(call, &mut walk, &words)?;
    }
    Ok(walk.status)
}

/// Runs a command once with all paths in the place of `{}`.
fn execute(call: &mut Call<'_>, walk: &mut Walk, words: &[String]) -> Outcome<()> {
    let arguments: Vec<String> = words
        .iter()
        .flat_map(|word| if word == "{}" { walk.collected.clone() } else { vec![word.clone()] })
        .collect();
    call.flush()?;
    let status = call.shell.call_command(&arguments[0], &arguments[1..], call.io)?;
    walk.status = walk.status.max(i32::from(status != 0));
    Ok(())
}

fn visit(call: &mut Call<'_>, walk: &mut Walk, test: &Test, is_deep: bool, found: Found) -> Outcome<()> {
    walk.passed += 1;
    if walk.passed > call.shell.files.max_paths {
        return fail(call.shell.files.too_many("the search passes"));
    }
    walk.is_pruned = false;
    let counts = found.depth >= walk.least;
    if !is_deep && counts {
        holds(call, walk, test, &found)?;
    }
    if found.metadata.is_folder() && !walk.is_pruned && found.depth < walk.most && !walk.is_ended {
        for name in call.shell.files.list_for_walk(&call.shell.state.current, &found.path)? {
            let path = format!("{}/{name}", found.path.trim_end_matches('/'));
            if let Ok(metadata) = call.place(&path).and_then(|place| place.link_metadata()) {
                visit(call, walk, test, is_deep, Found { path, name, metadata, depth: found.depth + 1 })?;
            }
            if walk.is_ended {
                return Ok(());
            }
        }
    }
    if is_deep && counts {
        holds(call, walk, test, &found)?;
    }
    Ok(())
}

fn matches(call: &mut Call<'_>, pattern: &str, ignores_case: bool, text: &str) -> Outcome<bool> {
    match ignores_case {
        true => call.shell.matches(&pattern.to_lowercase(), &text.to_lowercase()),
        false => call.shell.matches(pattern, text),
    }
}

fn holds(call: &mut Call<'_>, walk: &mut Walk, test: &Test, found: &Found) -> Outcome<bool> {
    Ok(match test {
        Test::Name(pattern, ignores_case) => matches(call, pattern, *ignores_case, &found.name)?,
        Test::Path(pattern, ignores_case) => matches(call, pattern, *ignores_case, &found.path)?,
        Test::Kind(kinds) => kinds.contains(&found.kind()),
        Test::Size(order, count, unit) => found.metadata.bytes.div_ceil(*unit).cmp(count) == *order,
        Test::Age(order, count, unit) => {
            let age = found.metadata.modified.elapsed().unwrap_or(Duration::ZERO).as_secs() / unit;
            age.cmp(count) == *order
        }
        Test::Newer(time) => found.metadata.modified > *time,
        Test::Empty if found.metadata.is_folder() => {
            call.names(&found.path).is_ok_and(|names| names.is_empty())
        }
        Test::Empty => found.metadata.is_file() && found.metadata.bytes == 0,
        Test::Constant(value) => *value,
        Test::Print(end) => call.out(format!("{}{end}", found.path)).map(|()| true)?,
        Test::Format(format) => call.out(write(format, found)).map(|()| true)?,
        Test::Prune => {
            walk.is_pruned = true;
            true
        }
        Test::Quit => {
            walk.is_ended = true;
            true
        }
        Test::Delete => delete(call, walk, found)?,
        Test::Execute(_, true) => {
            walk.collected.push(found.path.clone());
            true
        }
        Test::Execute(words, false) => {
            let arguments: Vec<String> = words.iter().map(|word| word.replace("{}", &found.path)).collect();
            call.flush()?;
            call.shell.call_command(&arguments[0], &arguments[1..], call.io)? == 0
        }
        Test::Not(test) => !holds(call, walk, test, found)?,
        Test::And(tests) => !any(call, walk, tests, found, false)?,
        Test::Or(tests) => any(call, walk, tests, found, true)?,
    })
}

/// Whether a test has this result; those behind it do not run then.
fn any(call: &mut Call<'_>, walk: &mut Walk, tests: &[Test], found: &Found, result: bool) -> Outcome<bool> {
    for test in tests {
        if holds(call, walk, test, found)? == result {
            return Ok(true);
        }
    }
    Ok(false)
}

fn delete(call: &mut Call<'_>, walk: &mut Walk, found: &Found) -> Outcome<bool> {
    if keep_root(call, &found.path).is_err() {
        return Ok(true);
    }
    let place = call.place(&found.path)?;
    let removed = if found.metadata.is_folder() { place.remove_folder() } else { place.remove_file() };
    if let Err(error) = removed {
        call.complain(&format!("cannot delete '{}': {}", found.path, explain(&error)))?;
        walk.status = 1;
        return Ok(false);
    }
    Ok(true)
}

fn write(format: &str, found: &Found) -> String {
    let format = crate::escape::decode(format, crate::escape::Kind::Format).0;
    let mut text = String::new();
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign != '%' {
            text.push(sign);
            continue;
        }
        match signs.next() {
            Some('p') => text.push_str(&found.path),
            Some('f') => text.push_str(&found.name),
            Some('h') => text.push_str(found.path.rsplit_once('/').map_or(".", |(folder, _)| folder)),
            Some('s') => text.push_str(&found.metadata.bytes.to_string()),
            Some('d') => text.push_str(&found.depth.to_string()),
            Some('y') => text.push(if found.metadata.is_folder() { 'd' } else { 'f' }),
            Some('P') => text.push_str(found.path.split('/').skip(1).collect::<Vec<_>>().join("/").as_str()),
            Some('%') => text.push('%'),
            Some(other) => text.extend(['%', other]),
            None => text.push('%'),
        }
    }
    text
}

#[derive(Default)]
struct Parser<'w> {
    words: &'w [String],
    position: usize,
    has_action: bool,
    is_deep: bool,
    depth: u32,
    batch: Option<Vec<String>>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.position).map(String::as_str)
    }

    fn value(&mut self, option: &str) -> Outcome<String> {
        self.position += 1;
        match self.words.get(self.position - 1) {
            Some(word) => Ok(word.clone()),
            None => fail(format!("missing argument to `{option}'")),
        }
    }

    fn or(&mut self, call: &Call<'_>, walk: &mut Walk) -> Outcome<Test> {
        let mut tests = vec![self.and(call, walk)?];
        while matches!(self.peek(), Some("-o" | "-or")) {
            self.position += 1;
            tests.push(self.and(call, walk)?);
        }
        Ok(Test::Or(tests))
    }

    fn and(&mut self, call: &Call<'_>, walk: &mut Walk) -> Outcome<Test> {
        let mut tests = Vec::new();
        while let Some(word) = self.peek() {
            match word {
                "-o" | "-or" | ")" => break,
                "-a" | "-and" => self.position += 1,
                _ => tests.push(self.one(call, walk)?),
            }
        }
        Ok(Test::And(tests))
    }

    fn one(&mut self, call: &Call<'_>, walk: &mut Walk) -> Outcome<Test> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail("the expression is too long");
        }
        let word = self.value("find")?;
        Ok(match word.as_str() {
            "!" | "-not" => Test::Not(Box::new(self.one(call, walk)?)),
            "(" => self.group(call, walk)?,
            "-name" | "-iname" => Test::Name(self.value(&word)?, word == "-iname"),
            "-path" | "-ipath" | "-wholename" => Test::Path(self.value(&word)?, word == "-ipath"),
            "-type" => Test::Kind(self.value(&word)?.chars().filter(|kind| *kind != ',').collect()),
            "-empty" => Test::Empty,
            "-true" => Test::Constant(true),
            "-false" => Test::Constant(false),
            "-size" => size(&self.value(&word)?)?,
            "-mtime" | "-mmin" => {
                let (order, count) = comparison(&self.value(&word)?)?;
                Test::Age(order, count, if word == "-mmin" { 60 } else { 86_400 })
            }
            "-newer" => {
                let path = self.value(&word)?;
                let modified = call.place(&path).and_then(|place| Ok(place.metadata()?.modified));
                Test::Newer(modified.or_else(|error| fail(format!("'{path}': {}", explain(&error))))?)
            }
            "-maxdepth" | "-mindepth" => {
                let text = self.value(&word)?;
                let depth = text.parse().or_else(|_| fail(format!("`{text}` is no depth")))?;
                if word == "-maxdepth" {
                    walk.most = depth;
                } else {
                    walk.least = depth;
                }
                Test::Constant(true)
            }
            "-depth" => {
                self.is_deep = true;
                Test::Constant(true)
            }
            _ => self.action(&word)?,
        })
    }

    fn group(&mut self, call: &Call<'_>, walk: &mut Walk) -> Outcome<Test> {
        let test = self.or(call, walk)?;
        if self.value(")")? == ")" { Ok(test) } else { fail("`)` is missing") }
    }

    /// The command of `-exec`, up to `;` or `+`.
    fn command(&mut self) -> Outcome<Test> {
        let rest = &self.words[self.position..];
        let end = rest.iter().position(|word| word == ";" || word == "+");
        let Some(end) = end.filter(|end| *end > 0) else { return fail("missing argument to `-exec'") };
        let (words, is_batch) = (rest[..end].to_vec(), rest[end] == "+");
        self.position += end + 1;
        if is_batch {
            self.batch = Some(words.clone());
        }
        Ok(Test::Execute(words, is_batch))
    }

    fn action(&mut self, word: &str) -> Outcome<Test> {
        let action = match word {
            "-prune" => return Ok(Test::Prune),
            "-print" => Test::Print("\n"),
            "-print0" => Test::Print("\0"),
            "-printf" => Test::Format(self.value(word)?),
            "-quit" => Test::Quit,
            "-delete" => {
                self.is_deep = true;
                Test::Delete
            }
            "-exec" => self.command()?,
            _ => {
                return Err(Stop::Fail(
                    1,
                    format!(
                        "`{word}` is not supported by this shell: -name -iname -path -type -size -empty -mtime -mmin -newer \
                         -maxdepth -mindepth -depth -prune -print -print0 -printf -delete -exec -quit -not -a -o are"
                    ),
                ));
            }
        };
        self.has_action |= !matches!(action, Test::Quit);
        Ok(action)
    }
}

fn size(text: &str) -> Outcome<Test> {
    let bytes = match text.chars().last() {
        Some('c') => 1,
        Some('k') => 1024,
        Some('M') => 1024 * 1024,
        Some('G') => 1024 * 1024 * 1024,
        _ => 512,
    };
    let (order, count) = comparison(text.trim_end_matches(char::is_alphabetic))?;
    Ok(Test::Size(order, count, bytes))
}

fn comparison(text: &str) -> Outcome<(std::cmp::Ordering, u64)> {
    let order = match text.chars().next() {
        Some('+') => std::cmp::Ordering::Greater,
        Some('-') => std::cmp::Ordering::Less,
        _ => std::cmp::Ordering::Equal,
    };
    match text.trim_start_matches(['+', '-']).parse() {
        Ok(count) => Ok((order, count)),
        Err(_) => fail(format!("invalid argument `{text}'")),
    }
}
