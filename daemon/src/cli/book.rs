//! Tests of the book in `daemon/docs`: contents, links, commands, snippets, and the generated pages of the reference.

mod commands;
mod reference;
mod snippets;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Pages by file name.
type Pages = BTreeMap<String, String>;

const CONTENTS: &str = "SUMMARY.md";

/// Folders with the tests that pages name.
const SOURCES: [&str; 6] = ["daemon", "tests/src", "tests/tests", "plugin-sdk", "plugins", "packaging"];

/// Parts of the tree that pages name in code spans.
const TREE: [&str; 8] =
    ["daemon/", "tests/", "packaging/", "plugin-sdk/", "plugins/", "wit/", ".ci/", "docs/"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// Reads every page, the table of contents included.
fn pages() -> Pages {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let pages = files.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    pages.map(|file| (name(&file), fs::read_to_string(&file).unwrap())).collect()
}

/// The readme of the repository, which shows commands too.
fn readme() -> (String, String) {
    ("README.md".to_owned(), fs::read_to_string(workspace().join("README.md")).unwrap())
}

fn name(file: &Path) -> String {
    file.file_name().unwrap().to_string_lossy().into_owned()
}

/// A fenced block: its language, and its text.
struct Block<'a> {
    language: &'a str,
    text: String,
}

/// Splits a page into its lines outside of fences, and its fenced blocks.
fn split(page: &str) -> (Vec<&str>, Vec<Block<'_>>) {
    let (mut prose, mut blocks, mut open) = (Vec::new(), Vec::new(), None::<Block<'_>>);
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            match open.take() {
                None => open = Some(Block { language: language.trim(), text: String::new() }),
                Some(block) => blocks.push(block),
            }
        } else if let Some(block) = &mut open {
            block.text += line;
            block.text.push('\n');
        } else {
            prose.push(line);
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    (prose, blocks)
}

/// The code spans of a line.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of the links of a page, those of pictures included.
fn links(page: &str) -> Vec<String> {
    let (prose, _) = split(page);
    let target = |rest: &str| rest.split(')').next().unwrap_or_default().to_owned();
    let of_line = |line: &str| without_code(line).split("](").skip(1).map(target).collect::<Vec<_>>();
    prose.into_iter().flat_map(of_line).collect()
}

/// The anchors of the headings of a page, as mdBook and code hosts make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let (prose, _) = split(page);
    let headings = prose.into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn o6_every_page_is_in_the_table_of_contents_once() {
    let mut pages = pages();
    let contents = links(&pages.remove(CONTENTS).expect(CONTENTS));
    let listed: BTreeSet<String> = contents.iter().cloned().collect();
    assert_eq!(listed.len(), contents.len(), "a page is listed twice: {contents:?}");
    let present: BTreeSet<String> = pages.into_keys().collect();
    assert_eq!(listed, present, "listed (left), pages (right)");
}

#[test]
fn o6_every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    for (page, text) in &pages {
        for target in links(text).iter().filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.as_str() } else { file };
            assert!(folder().join(file).exists(), "`{page}`: no file `{target}`");
            let has_heading = |text: &String| anchors(text).contains(heading);
            assert!(heading.is_empty() || pages.get(file).is_some_and(has_heading), "`{page}`: `{target}`");
        }
    }
}

#[test]
fn o6_every_link_of_the_readme_leads_to_a_file() {
    let (_, text) = readme();
    for target in links(&text).iter().filter(|target| !target.contains("://")) {
        assert!(workspace().join(target).exists(), "no file `{target}`");
    }
}

#[test]
fn o6_every_file_of_the_tree_that_a_page_names_exists() {
    for (page, text) in pages() {
        for span in split(&text).0.into_iter().flat_map(code_spans) {
            let is_path =
                TREE.iter().any(|part| span.starts_with(*part)) && !span.contains(['*', '{', '…', ' ']);
            let exists =
                |path: &str| workspace().join(path).exists() || folder().join("..").join(path).exists();
            assert!(!is_path || exists(span), "`{page}` names `{span}`");
        }
    }
}

/// Names of tests are in the last column of the tables of the page on security.
#[test]
fn o6_every_promise_about_security_names_tests_that_exist() {
    let sources: String = SOURCES.iter().map(|part| read_sources(&workspace().join(part))).collect();
    let pages = pages();
    let rows = pages["security.md"].lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let named: BTreeSet<&str> = rows
        .filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next())
        .flat_map(code_spans)
        .filter(|span| {
            span.contains('_') && span.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
        })
        .collect();
    assert!(named.len() > 30, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|test| !sources.contains(&format!("fn {test}("))).collect();
    assert!(missing.is_empty(), "`security.md` names tests that do not exist: {missing:?}");
}

/// The text of all sources of a folder.
fn read_sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &read_sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(&path).unwrap();
        }
    }
    text
}

#[test]
fn a_page_is_split_into_prose_blocks_links_and_anchors() {
    let page = "# A `b`-c: d\n[x](y.md#z) `[no](link)`\n```sh\n[no](link)\n```\n";
    let (prose, blocks) = split(page);
    assert_eq!((prose.len(), blocks.len(), blocks[0].language), (2, 1, "sh"));
    assert_eq!(links(page), ["y.md#z"]);
    assert_eq!(anchors(page), BTreeSet::from(["a-b-c-d".to_owned()]));
}
