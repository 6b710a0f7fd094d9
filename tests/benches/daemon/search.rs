//! `files/search` beside ripgrep.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use toolgate_tests::Daemon;

use super::{PROGRAM, argument, median_of, ms};

const FILES: usize = 10_000;
const FOLDERS: usize = 100;
const ROUNDS: usize = 7;

/// Enough for the files and their folders.
const SETTINGS: &str = "[limits]\nworkspace_files = 20_000\n";

pub fn search() {
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["files/*"]}));
    let session = operator.open_session("acme/bot");
    let folder = daemon.data().join("workspaces").join(&session.id);
    create_files(&folder);
    let query = json!({"pattern": "needle [0-9]+", "max_results": 1000});
    let found = session.call("files/search", query.clone());
    assert_eq!(found.output()["results"].as_array().unwrap().len(), FILES / 100, "{found:?}");
    let ours = median_of(ROUNDS, || session.call("files/search", query.clone()));
    println!("files/search over {FILES} files of 1.6 KB: {:.0} ms", ms(ours));
    let Some(rg) = ripgrep() else {
        return println!("no ripgrep: put `rg` on the path, or say where it is with `rg=PATH`");
    };
    let theirs = median_of(ROUNDS, || {
        let mut rg = Command::new(&rg);
        rg.args(["-j1", "--no-ignore", "--hidden", "-n", "needle [0-9]+"]).current_dir(&folder);
        assert!(rg.stdout(Stdio::null()).status().unwrap().success());
    });
    println!(
        "ripgrep -j1, its start included: {:.0} ms; ratio {:.2}",
        ms(theirs),
        ours.div_duration_f64(theirs)
    );
}

/// Creates files of a few lines; one in a hundred matches.
fn create_files(folder: &Path) {
    for at in 0..FOLDERS {
        fs::create_dir_all(folder.join(format!("folder-{at:03}"))).unwrap();
    }
    let line = "The quick brown fox jumps over the lazy dog, and then it does so again.\n";
    for at in 0..FILES {
        let mut text = line.repeat(22);
        if at % 100 == 0 {
            text.push_str(&format!("needle {at}\n"));
        }
        fs::write(folder.join(format!("folder-{:03}/file-{at:05}.txt", at % FOLDERS)), text).unwrap();
    }
}

fn ripgrep() -> Option<String> {
    let rg = argument("rg").unwrap_or_else(|| "rg".into());
    Command::new(&rg).arg("--version").stdout(Stdio::null()).status().ok().map(|_| rg)
}
