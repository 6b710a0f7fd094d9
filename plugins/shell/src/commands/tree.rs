//! `du` and `tree`

use super::inspect::BLOCK_BYTES;
use super::list::size;
use crate::call::{Call, Options};
use crate::files::{Metadata, explain};
use crate::shell::{Outcome, fail};

/// Folders in folders that are shown.
const MAX_DEPTH: usize = 64;

/// How `du` counts and writes sizes.
struct Du {
    is_apparent: bool,
    unit: u64,
    is_human: bool,
    shows_files: bool,
    most: usize,
    passed: usize,
}

impl Du {
    fn of(&self, found: &Metadata) -> u64 {
        match (found.is_folder(), self.is_apparent) {
            (true, _) => BLOCK_BYTES,
            (false, true) => found.bytes,
            (false, false) => found.bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES,
        }
    }

    fn write(&self, call: &mut Call<'_>, bytes: u64, path: &str) -> Outcome<()> {
        let shown = if self.is_human { size(bytes, true) } else { bytes.div_ceil(self.unit).to_string() };
        call.line(format!("{shown}\t{path}"))
    }
}

/// `du`, on a disk with blocks of 4 KiB, where a folder takes one.
pub fn du(call: &mut Call<'_>) -> Outcome {
    let long = "summarize=s human-readable=h all=a total=c bytes=b max-depth=d apparent-size=A";
    let options = call.options("shacbkmd:A", long, false)?;
    let depth = options
        .value('d')
        .map(|text| text.parse().or_else(|_| fail(format!("invalid maximum depth '{text}'"))));
    let unit = if options.has('m') { 1024 * 1024 } else { 1024 };
    let mut du = Du {
        is_apparent: options.has('b') || options.has('A'),
        unit: if options.has('b') { 1 } else { unit },
        is_human: options.has('h'),
        shows_files: options.has('a'),
        most: if options.has('s') { 0 } else { depth.transpose()?.unwrap_or(usize::MAX) },
        passed: 0,
    };
    let here = [".".to_owned()];
    let paths = if options.rest.is_empty() { &here[..] } else { &options.rest };
    let (mut total, mut status) = (0, 0);
    for path in paths {
        match call.place(path).and_then(|place| place.link_metadata()) {
            Ok(found) => total += measure(call, &mut du, path, &found, 0)?,
            Err(error) => {
                call.complain(&format!("cannot access '{path}': {}", explain(&error)))?;
                status = 1;
            }
        }
    }
    if options.has('c') {
        du.write(call, total, "total")?;
    }
    Ok(status)
}

fn measure(call: &mut Call<'_>, du: &mut Du, path: &str, found: &Metadata, depth: usize) -> Outcome<u64> {
    du.passed += 1;
    if du.passed > call.shell.files.max_paths || depth > MAX_DEPTH {
        return fail(call.shell.files.too_many("there are"));
    }
    let mut bytes = du.of(found);
    if found.is_folder() {
        for name in call.shell.files.list_for_walk(&call.shell.state.current, path)? {
            let path = format!("{}/{name}", path.trim_end_matches('/'));
            if let Ok(found) = call.place(&path).and_then(|place| place.link_metadata()) {
                bytes += measure(call, du, &path, &found, depth + 1)?;
            }
        }
    }
    if depth == 0 || depth <= du.most && (found.is_folder() || du.shows_files) {
        du.write(call, bytes, path)?;
    }
    Ok(bytes)
}

struct Tree {
    options: Options,
    most: usize,
    excluded: Vec<String>,
    wanted: Vec<String>,
    folders: usize,
    files: usize,
}

pub fn tree(call: &mut Call<'_>) -> Outcome {
    let options = call.options("aL:dfI:P:FDNsh", "noreport=N dirsfirst=D", false)?;
    let most = options.value('L').map_or(Ok(MAX_DEPTH), |text| match text.parse() {
        Ok(most) if most > 0 => Ok(most),
        _ => fail(format!("invalid level '{text}', must be greater than 0")),
    })?;
    let patterns = |flag| options.values(flag).flat_map(|list| list.split('|')).map(str::to_owned).collect();
    let (excluded, wanted) = (patterns('I'), patterns('P'));
    let mut tree = Tree { options, most, excluded, wanted, folders: 0, files: 0 };
    let here = [".".to_owned()];
    let paths = if tree.options.rest.is_empty() { here.to_vec() } else { tree.options.rest.clone() };
    let mut status = 0;
    for path in &paths {
        if !call.place(path).is_ok_and(|place| place.is_folder()) {
            call.line(format!("{path}  [error opening dir]"))?;
            status = 2;
            continue;
        }
        call.line(path)?;
        tree.folders += 1;
        branch(call, &mut tree, path, "", 1)?;
    }
    if !tree.options.has('N') {
        let plural =
            |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let folders = plural(tree.folders, "directory", "directories");
        let files = format!(", {}", plural(tree.files, "file", "files"));
        call.line(format!("\n{folders}{}", if tree.options.has('d') { "" } else { &files }))?;
    }
    Ok(status)
}

fn branch(call: &mut Call<'_>, tree: &mut Tree, folder: &str, indent: &str, depth: usize) -> Outcome<()> {
    let entries = entries(call, tree, folder)?;
    let count = entries.len();
    for (index, (name, found)) in entries.into_iter().enumerate() {
        let is_last = index + 1 == count;
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        let shown = if tree.options.has('f') { &path } else { &name };
        let mark = if tree.options.has('F') && found.is_folder() { "/" } else { "" };
        let bytes = match (tree.options.has('h'), tree.options.has('s')) {
            (true, _) => format!("[{:>4}]  ", size(found.bytes, true)),
            (_, true) => format!("[{:>11}]  ", found.bytes),
            _ => String::new(),
        };
        call.line(format!("{indent}{}{bytes}{shown}{mark}", if is_last { "└── " } else { "├── " }))?;
        let counter = if found.is_folder() { &mut tree.folders } else { &mut tree.files };
        *counter += 1;
        if tree.folders + tree.files > call.shell.files.max_paths {
            return fail(call.shell.files.too_many("the tree has"));
        }
        if found.is_folder() && depth < tree.most {
            let indent = format!("{indent}{}", if is_last { "    " } else { "│   " });
            branch(call, tree, &path, &indent, depth + 1)?;
        }
    }
    Ok(())
}

/// The entries of a folder that are shown.
fn entries(call: &mut Call<'_>, tree: &Tree, folder: &str) -> Outcome<Vec<(String, Metadata)>> {
    let mut entries = Vec::new();
    let place = call.place(folder)?;
    for name in call.shell.files.list_for_walk(&call.shell.state.current, folder)? {
        let Ok(found) = place.join(&name).link_metadata() else { continue };
        let is_file = !found.is_folder();
        let is_hidden = name.starts_with('.') && !tree.options.has('a') || is_file && tree.options.has('d');
        let is_unwanted =
            is_file && !tree.wanted.is_empty() && !call.shell.matches_any(&tree.wanted, &name)?;
        if !is_hidden && !is_unwanted && !call.shell.matches_any(&tree.excluded, &name)? {
            entries.push((name, found));
        }
    }
    if tree.options.has('D') {
        entries.sort_by_key(|(_, found)| !found.is_folder());
    }
    Ok(entries)
}
