//! What each tag means for the layout of the text.

use std::borrow::Cow;

use crate::hidden::{self, End, Hidden};
use crate::prose::{Mark, Place, Prose, escape};
use crate::raised::Shift;
use crate::table::{self, Span, Table};
use crate::{Page, Resolve, Settings};

/// Lists, quotes and tables that are open. Deeper ones are read as if they were not there.
const MAX_OPEN: usize = 64;

/// Longest `<base>`. It is read for each link, of which a page can have many thousands.
const MAX_BASE_BYTES: usize = 1_000;

/// What is not for readers. What stands in for scripts is seen by nobody whose browser runs them.
const SKIPPED: [&str; 9] =
    ["script", "style", "template", "title", "svg", "iframe", "object", "noembed", "noscript"];

/// What begins and ends a paragraph.
const BLOCKS: [&str; 28] = [
    "address",
    "article",
    "aside",
    "body",
    "center",
    "details",
    "dialog",
    "div",
    "dl",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "hr",
    "legend",
    "main",
    "menu",
    "nav",
    "optgroup",
    "p",
    "search",
    "section",
    "summary",
    "caption",
    "dt",
];

/// A start tag, with the attributes that matter here.
#[derive(Default)]
pub struct Tag {
    name: String,
    href: String,
    src: String,
    alt: String,
    class: String,
    start: String,
    span: Span,
    is_hidden: bool,
}

impl Tag {
    pub fn named(name: &[u8]) -> Self {
        Self { name: String::from_utf8_lossy(name).into_owned(), ..Self::default() }
    }

    /// An attribute that stands for something without a value too.
    pub fn mention(&mut self, attribute: &[u8]) {
        self.is_hidden |= attribute == b"hidden";
    }

    pub fn set(&mut self, attribute: &[u8], value: &[u8]) {
        let place = match attribute {
            b"href" => &mut self.href,
            b"src" => &mut self.src,
            b"alt" => &mut self.alt,
            b"class" => &mut self.class,
            b"start" => &mut self.start,
            b"rowspan" => return self.span.rows = table::span(value),
            b"colspan" => return self.span.columns = table::span(value),
            b"style" => {
                self.is_hidden |= hidden::hides(&String::from_utf8_lossy(value));
                return;
            }
            _ => return,
        };
        *place = String::from_utf8_lossy(value).trim().to_owned();
    }

    fn language(&self) -> Option<&str> {
        self.class.split_whitespace().find_map(|class| class.strip_prefix("language-"))
    }
}

/// Something that contains others and must be closed in order.
enum Open {
    List { next_number: Option<u64> },
    Entry,
    Quote,
    Table(Box<Table>),
}

impl Open {
    fn is(&self, name: &str) -> bool {
        matches!(
            (self, name),
            (Self::List { .. }, "ul" | "ol")
                | (Self::Entry, "li" | "dd")
                | (Self::Quote, "blockquote")
                | (Self::Table(_), "table")
        )
    }
}

/// Text whose white space or signs are kept as they are.
struct Verbatim {
    name: &'static str,
    language: String,
    text: String,
}

/// The page while its tags go by.
pub struct Layout {
    prose: Prose,
    keep_urls: bool,
    resolve: Option<Resolve>,
    /// What the page says that its addresses go out from.
    base: Option<String>,
    open: Vec<Open>,
    /// What is being skipped, and how many of it are open.
    skipped: Option<(&'static str, usize)>,
    hidden: Option<Hidden>,
    verbatim: Option<Verbatim>,
    max_bytes: usize,
    is_full: bool,
}

impl Layout {
    pub fn new(settings: Settings) -> Self {
        let Settings { prose, keep_urls, resolve, max_bytes } = settings;
        Self {
            prose,
            keep_urls,
            resolve,
            base: None,
            open: Vec::new(),
            skipped: None,
            hidden: None,
            verbatim: None,
            max_bytes,
            is_full: false,
        }
    }

    pub fn text(&mut self, text: &str) {
        if self.skipped.is_some() || self.hidden.is_some() || self.is_full {
            return;
        }
        match &mut self.verbatim {
            Some(verbatim) => verbatim.text.push_str(text),
            None => self.prose.words(text),
        }
        self.is_full = self.prose.written_bytes() > self.max_bytes;
    }

    pub fn open(&mut self, tag: &Tag) {
        let name = tag.name.as_str();
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth += usize::from(*skipped == name);
            return;
        }
        if let Some(hidden) = &mut self.hidden {
            if !hidden.ends_at_start(name) {
                return;
            }
            self.hidden = None;
        }
        if tag.is_hidden && !hidden::STAYS.contains(&name) {
            self.hidden = Hidden::from(name);
            return;
        }
        if self.verbatim.is_some() && self.open_in_verbatim(tag) {
            return;
        }
        if let Some(skipped) = SKIPPED.iter().find(|skipped| **skipped == name) {
            self.skipped = Some((skipped, 1));
            return;
        }
        match name {
            "br" => self.prose.break_line(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.open_heading(name),
            "ul" | "ol" => self.open_list(tag),
            "li" | "dd" => self.open_entry(name),
            "blockquote" => self.open_quote(),
            "table" => self.open_table(),
            "tr" => self.in_table(Table::begin_row),
            "td" | "th" => self.in_table(|table, prose| table.begin_cell(prose, tag.span)),
            "pre" => self.open_verbatim("pre", tag),
            "code" | "kbd" | "samp" | "tt" if self.prose.is_markdown() => self.open_verbatim("code", tag),
            "a" => self.open_link(tag),
            "img" => self.image(tag),
            "base" => self.set_base(&tag.href),
            "sup" | "sub" => Shift::of_tag(name).into_iter().for_each(|shift| self.prose.shift(shift)),
            "option" | "button" => self.prose.end_line(),
            "input" | "wbr" => {}
            _ if BLOCKS.contains(&name) => self.open_block(name),
            _ => self.open_emphasis(name),
        }
    }

    pub fn close(&mut self, name: &str) {
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth -= usize::from(*skipped == name);
            if *depth == 0 {
                self.skipped = None;
            }
            return;
        }
        if let Some(hidden) = &mut self.hidden {
            match hidden.end(name) {
                End::Inside => return,
                End::Itself => return self.hidden = None,
                End::Around => self.hidden = None,
            }
        }
        if self.verbatim.is_some() {
            return self.close_in_verbatim(name);
        }
        match name {
            "ul" | "ol" | "li" | "dd" | "blockquote" | "table" => self.close_open(name),
            "tr" | "td" | "th" | "caption" => self.in_table(Table::end_cell),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.prose.end_block(),
            "a" => self.prose.close_mark("a"),
            "sup" | "sub" => self.prose.end_shift(),
            _ if BLOCKS.contains(&name) => self.close_block(name),
            _ => {
                if let Some((name, _)) = emphasis(name) {
                    self.prose.close_mark(name);
                }
            }
        }
    }

    pub fn finish(mut self) -> Page {
        self.end_verbatim();
        self.close_to(0);
        Page { text: self.prose.finish(), is_whole: !self.is_full }
    }

    fn open_block(&mut self, name: &str) {
        match name {
            "dt" => {
                // A term ends the explanation of the one before.
                self.end_entry();
                self.prose.end_line();
            }
            _ => self.prose.end_block(),
        }
        if name == "hr" && self.prose.is_markdown() {
            self.prose.block("---");
        }
    }

    fn close_block(&mut self, name: &str) {
        match name {
            "dt" => self.prose.end_line(),
            _ => self.prose.end_block(),
        }
    }

    fn open_heading(&mut self, name: &str) {
        if !self.prose.is_markdown() {
            return self.prose.end_block();
        }
        let level = name.bytes().last().map_or(1, |digit| usize::from(digit.saturating_sub(b'0')));
        self.prose.open_heading(format!("{} ", "#".repeat(level)));
    }

    fn open_list(&mut self, tag: &Tag) {
        let is_nested = self.open.iter().any(|open| matches!(open, Open::Entry));
        if is_nested {
            self.prose.end_line()
        } else {
            self.prose.end_block()
        }
        let next_number = (tag.name == "ol").then(|| tag.start.parse().unwrap_or(1));
        self.push(Open::List { next_number });
    }

    fn open_entry(&mut self, name: &str) {
        self.end_entry();
        let mark = match self.open.last_mut() {
            _ if name == "dd" => "  ".to_owned(),
            Some(Open::List { next_number: Some(number) }) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "- ".to_owned(),
        };
        if self.push(Open::Entry) {
            self.prose.open_container(&mark, &" ".repeat(mark.len()));
        }
    }

    /// An entry ends where the next one begins, even if nobody says so.
    fn end_entry(&mut self) {
        if let Some(Open::Entry) = self.open.last() {
            self.close_to(self.open.len() - 1);
        }
    }

    fn open_quote(&mut self) {
        self.prose.end_block();
        if self.push(Open::Quote) {
            self.prose.open_container("> ", "> ");
        }
    }

    fn open_table(&mut self) {
        if self.open.len() < MAX_OPEN {
            if let Some(Open::Table(around)) =
                self.open.iter_mut().rfind(|open| matches!(open, Open::Table(_)))
            {
                around.holds_table = true;
            }
            let table = Table::begin(&mut self.prose);
            self.push(Open::Table(Box::new(table)));
        }
    }

    /// Does something to the innermost table, after all that is open in its cell is closed.
    fn in_table(&mut self, act: impl FnOnce(&mut Table, &mut Prose)) {
        let Some(index) = self.open.iter().rposition(|open| matches!(open, Open::Table(_))) else {
            return self.prose.end_line();
        };
        self.close_to(index + 1);
        if let Some(Open::Table(table)) = self.open.last_mut() {
            act(table, &mut self.prose);
        }
    }

    fn open_link(&mut self, tag: &Tag) {
        self.prose.close_mark("a");
        let leads_nowhere = tag.href.is_empty()
            || tag.href.starts_with('#')
            || tag.href.to_ascii_lowercase().starts_with("javascript:");
        if leads_nowhere || !self.keep_urls {
            return;
        }
        let url = self.resolved(&tag.href);
        let mark = if self.prose.is_markdown() {
            Mark { name: "a", start: "[".to_owned(), end: format!("]({})", escape_url(&url)) }
        } else {
            Mark { name: "a", start: String::new(), end: format!(" ({url})") }
        };
        self.prose.open_mark(mark);
    }

    /// The first one with an address holds (HTML, 4.2.3).
    fn set_base(&mut self, url: &str) {
        if self.base.is_none() && (1..=MAX_BASE_BYTES).contains(&url.len()) {
            self.base = Some(url.to_owned());
        }
    }

    fn resolved<'a>(&self, url: &'a str) -> Cow<'a, str> {
        let base = self.base.as_deref().unwrap_or_default();
        self.resolve.as_ref().and_then(|resolve| resolve(base, url)).map_or(url.into(), Cow::Owned)
    }

    fn image(&mut self, tag: &Tag) {
        // A picture within the page itself is no text, and larger than all of it.
        let has_address = !tag.src.is_empty() && !tag.src.starts_with("data:");
        if !self.prose.is_markdown() || !has_address {
            return self.prose.words(&tag.alt);
        }
        let words: Vec<String> = tag.alt.split_whitespace().map(|word| escape(word, Place::Word)).collect();
        self.prose.raw(&format!("![{}]({})", words.join(" "), escape_url(&self.resolved(&tag.src))));
    }

    fn open_emphasis(&mut self, name: &str) {
        if let Some((name, mark)) = emphasis(name).filter(|_| self.prose.is_markdown()) {
            self.prose.open_mark(Mark { name, start: mark.to_owned(), end: mark.to_owned() });
        }
    }

    fn push(&mut self, open: Open) -> bool {
        let fits = self.open.len() < MAX_OPEN;
        if fits {
            self.open.push(open);
        }
        fits
    }

    fn close_open(&mut self, name: &str) {
        // What is in a cell cannot end what is around its table.
        let from = match name {
            "table" => 0,
            _ => {
                self.open.iter().rposition(|open| matches!(open, Open::Table(_))).map_or(0, |table| table + 1)
            }
        };
        if let Some(index) = self.open[from..].iter().rposition(|open| open.is(name)) {
            self.close_to(from + index);
        }
    }

    fn close_to(&mut self, length: usize) {
        while self.open.len() > length {
            match self.open.pop() {
                Some(Open::List { .. }) if self.open.iter().any(|open| matches!(open, Open::Entry)) => {
                    self.prose.end_line()
                }
                Some(Open::List { .. }) | None => self.prose.end_block(),
                Some(Open::Entry) => self.prose.close_container(),
                Some(Open::Quote) => {
                    self.prose.close_container();
                    self.prose.end_block();
                }
                Some(Open::Table(table)) => table.end(&mut self.prose),
            }
        }
    }

    fn open_verbatim(&mut self, name: &'static str, tag: &Tag) {
        let language = tag.language().unwrap_or_default().to_owned();
        self.verbatim = Some(Verbatim { name, language, text: String::new() });
    }

    /// Whether the tag belongs to the verbatim text. If not, the text ends before it.
    fn open_in_verbatim(&mut self, tag: &Tag) -> bool {
        let Some(verbatim) = &mut self.verbatim else { return false };
        if tag.name == "br" {
            verbatim.text.push('\n');
            return true;
        }
        let is_within = verbatim.name == "pre" || !is_structure(&tag.name);
        if !is_within {
            self.end_verbatim();
        } else if let Some(language) = tag.language() {
            verbatim.language = language.to_owned();
        }
        is_within
    }

    fn close_in_verbatim(&mut self, name: &str) {
        let Some(verbatim) = &self.verbatim else { return };
        if verbatim.name == name || (verbatim.name == "code" && matches!(name, "kbd" | "samp" | "tt")) {
            self.end_verbatim();
        } else if verbatim.name == "code" && is_structure(name) {
            self.end_verbatim();
            self.close(name);
        }
    }

    fn end_verbatim(&mut self) {
        let Some(Verbatim { name, language, text }) = self.verbatim.take() else { return };
        if name == "code" {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            return self.prose.raw(&code_span(&text));
        }
        let text = text.strip_prefix('\n').unwrap_or(&text).trim_end();
        if text.is_empty() {
            return;
        }
        if self.prose.is_markdown() {
            let fence = "`".repeat((longest_run(text) + 1).max(3));
            self.prose.block(&format!("{fence}{language}\n{text}\n{fence}"));
        } else {
            self.prose.block(text);
        }
    }
}

pub fn is_structure(name: &str) -> bool {
    BLOCKS.contains(&name)
        || matches!(name, "table" | "tr" | "td" | "th" | "ul" | "ol" | "li" | "dd" | "blockquote" | "pre")
        || matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

fn emphasis(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "b" | "strong" => Some(("b", "**")),
        "i" | "em" | "cite" | "dfn" | "var" => Some(("i", "*")),
        "del" | "s" | "strike" => Some(("s", "~~")),
        _ => None,
    }
}

fn code_span(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|sign| sign != '`').map(str::len).max().unwrap_or(0)
}

/// An address with spaces or parentheses would end a link too early.
fn escape_url(url: &str) -> String {
    url.replace(' ', "%20").replace('(', "%28").replace(')', "%29").replace(['\n', '\r', '\t'], "")
}
