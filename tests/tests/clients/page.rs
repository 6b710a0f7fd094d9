//! The table of `daemon/docs/clients.md`, whose rows the bench compares with its run. `TOOLGATE_BLESS=1` rewrites a row.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use toolgate_tests::Value;

/// Cells of a row after the client, its version and the revision.
const CELLS: &[&str] = &[
    "list",
    "call",
    "refusal",
    "wrong arguments",
    "approval",
    "records of the wait",
    "denial",
    "image",
    "500 KB",
    "1.5 MB",
    "cancel",
    "progress",
    "20 at once",
    "SIGTERM",
    "restart",
];

/// What a driver printed.
#[derive(Debug, Default)]
pub struct Row {
    version: String,
    revision: String,
    cells: BTreeMap<String, String>,
}

impl Row {
    pub fn add(&mut self, line: &Value) {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        if line["cell"].is_string() {
            assert!(CELLS.contains(&&*text("cell")), "not a cell of the page: {line}");
            self.cells.insert(text("cell"), text("outcome"));
        } else {
            (self.version, self.revision) = (text("version"), text("revision"));
        }
    }

    /// Compares the row with the one of the page, or replaces that.
    #[track_caller]
    pub fn compare_with_page(&self, name: &str) {
        static WRITING: Mutex<()> = Mutex::new(());
        let _lock = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let page = fs::read_to_string(page()).expect("the page");
        let begin = format!("| {name} |");
        let line = page.lines().find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("the page has no row `{begin}`"));
        let row = self.line(name);
        if std::env::var_os("TOOLGATE_BLESS").is_some() {
            fs::write(self::page(), page.replace(line, &row)).expect("the page is written");
        } else {
            assert_eq!(row, line, "the run (left) differs from the page: run this with TOOLGATE_BLESS=1");
        }
    }

    fn line(&self, name: &str) -> String {
        let cells = CELLS.iter().map(|cell| self.cells.get(*cell).map_or("–", String::as_str));
        let cells: Vec<&str> = [name, &self.version, &self.revision].into_iter().chain(cells).collect();
        format!("| {} |", cells.join(" | "))
    }
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/docs/clients.md")
}

/// Names in the rows of the page, after its head.
pub fn names() -> Vec<String> {
    let page = fs::read_to_string(page()).expect("the page");
    let head = format!("| client | version | revision | {} |", CELLS.join(" | "));
    let rows = page.lines().skip_while(|line| **line != *head).skip(2);
    let rows = rows.take_while(|line| line.starts_with("| "));
    rows.filter_map(|line| line.split(" | ").next()).map(|cell| cell[2..].to_owned()).collect()
}
