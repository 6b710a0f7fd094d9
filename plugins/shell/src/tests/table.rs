//! The scripts of `scripts.txt` here and in a real bash: the same output, exit code and files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::run_in;

const TABLE: &str = include_str!("scripts.txt");

/// Processes that run the scripts in bash.
const PROCESSES: usize = 2;

/// Programs that some machines lack. A script that names a missing one is passed over, except in CI.
const TOOLS: [&str; 12] =
    ["jq", "patch", "diff", "tar", "gzip", "xargs", "bc", "column", "file", "xxd", "zip", "unzip"];

struct Case {
    name: &'static str,
    script: &'static str,
}

/// The files that every script finds, and the scripts. `=== FILE name` begins a file, `=== name` a script.
fn read_table() -> (Vec<(&'static str, &'static str)>, Vec<Case>) {
    let (mut files, mut cases) = (Vec::new(), Vec::new());
    for block in TABLE.split("=== ").skip(1) {
        let (head, text) = block.split_once('\n').unwrap();
        match head.strip_prefix("FILE ") {
            Some(name) => files.push((name, text)),
            None => cases.push(Case { name: head, script: text }),
        }
    }
    (files, cases)
}

fn write_files(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// All files below a folder, with their text.
fn read_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                found.insert(format!("{name}/"), Vec::new());
                waiting.push(path);
            } else {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn scripts_do_what_they_do_in_bash() {
    let (files, mut cases) = read_table();
    assert!(cases.len() >= 150, "{} scripts", cases.len());
    let is_missing = |tool: &&str| Command::new(tool).arg("--version").output().is_err();
    let missing: Vec<&str> = TOOLS.into_iter().filter(is_missing).collect();
    assert!(
        missing.is_empty() || std::env::var_os("TOOLGATE_TEST_TOOLS").is_none(),
        "{missing:?} are not installed"
    );
    let is_word = |sign: char| sign.is_ascii_alphanumeric();
    let names = |case: &Case, tool| case.script.split(|sign| !is_word(sign)).any(|word| word == tool);
    cases.retain(|case| !missing.iter().any(|tool| names(case, *tool)));
    let root = tempfile::tempdir().unwrap();
    let mut drivers = vec![
        String::from(
            "export LC_ALL=C.UTF-8 HOME=/workspace\nwhich gawk >/dev/null && { mkdir -p bin; ln -sf \"$(which gawk)\" bin/awk; export PATH=$PWD/bin:$PATH; }\n"
        );
        PROCESSES
    ];
    for (index, case) in cases.iter().enumerate() {
        let folder = root.path().join(format!("bash/{index}"));
        fs::create_dir_all(&folder).unwrap();
        write_files(&folder, &files);
        fs::write(root.path().join(format!("{index}.sh")), case.script).unwrap();
        drivers[index % PROCESSES].push_str(&format!("(cd bash/{index} && exec bash ../../{index}.sh </dev/null >../../{index}.out 2>../../{index}.err); echo $? >{index}.code\n"));
    }
    let mut processes = Vec::new();
    for driver in &drivers {
        let mut command = Command::new("bash");
        processes.push(command.arg("-c").arg(driver).current_dir(root.path()).spawn().unwrap());
    }
    let mut faults = Vec::new();
    for mut process in processes {
        process.wait().unwrap();
    }
    for (index, case) in cases.iter().enumerate() {
        let folder = root.path().join(format!("own/{index}"));
        fs::create_dir_all(&folder).unwrap();
        write_files(&folder, &files);
        let ended = run_in(&folder, case.script);
        let read = |kind: &str| {
            String::from_utf8_lossy(&fs::read(root.path().join(format!("{index}.{kind}"))).unwrap())
                .into_owned()
        };
        let (output, code) = (read("out"), read("code"));
        if ended.stdout != output || ended.exit_code.to_string() != code.trim() {
            faults.push(format!(
                "--- {}\n{}bash, {}:\n{output}{}here, {}:\n{}{}{}",
                case.name,
                case.script,
                code.trim(),
                read("err"),
                ended.exit_code,
                ended.stdout,
                ended.stderr,
                ended.notes.join("\n")
            ));
        } else if read_files(&folder) != read_files(&root.path().join(format!("bash/{index}"))) {
            faults.push(format!("--- {}\n{}leaves other files", case.name, case.script));
        }
    }
    assert!(faults.is_empty(), "{} of {} scripts differ:\n{}", faults.len(), cases.len(), faults.join("\n"));
}
