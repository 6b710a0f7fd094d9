//! `markdown_to_text`.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};
use readable::{Mark, Prose, Shift};
use toolgate_sdk::{Error, tool};

use crate::html;
use crate::size;

/// Gives the text of a Markdown document, without its marks.
///
/// Use it before a text is spoken, counted, indexed or sent where Markdown is not shown. Paragraphs, lists and quotes keep
/// their form, code is kept as it is, tables become lines of cells, and pictures their description. Front matter, which is
/// keys with values between `---` at the very beginning, is left out. Reads CommonMark, and the tables, footnotes, task lists
/// and strikethrough of GitHub.
#[tool(
    read_only,
    tags("markdown", "strip", "plain text", "convert"),
    examples(
        {"markdown": "# Title\n\nSome *text* with a [link](https://example.com).\n\n1. one\n2. two"} => "Title\n\nSome text with a link.\n\n1. one\n2. two",
        {"markdown": "See [this](https://example.com).", "keep_urls": true} => "See this (https://example.com).",
    )
)]
pub fn markdown_to_text(
    /// The Markdown
    markdown: String,
    /// Whether to write the address of a link behind its text
    #[default]
    keep_urls: bool,
) -> Result<String, Error> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS;
    let mut reader = Reader { prose: Prose::text(), keep_urls, ..Reader::default() };
    for event in Parser::new_ext(without_front_matter(&markdown), options) {
        reader.read(event)?;
        // The marks of lists and quotes can make a text larger than the document was.
        size::check(reader.prose.written_bytes())?;
    }
    size::whole(reader.prose.finish())
}

/// The document behind its front matter: keys with values at its beginning, between lines of `---`. Anything else there is
/// a rule and a text, as in CommonMark, which `pulldown_cmark` would leave out too, and anywhere.
fn without_front_matter(markdown: &str) -> &str {
    let whole = markdown.strip_prefix('\u{feff}').unwrap_or(markdown);
    let mut lines = whole.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else { return whole };
    let mut length = first.len();
    let mut has_keys = false;
    for line in lines {
        length += line.len();
        match line.trim_end() {
            "---" | "..." if has_keys => return &whole[length..],
            "" => {}
            comment if comment.starts_with('#') => {}
            entry if is_key(entry) => has_keys = true,
            // A value may have many lines.
            value if has_keys && value.starts_with([' ', '\t', '-', ']', '}']) => {}
            _ => return whole,
        }
    }
    whole
}

/// Whether a line of front matter begins with a key.
fn is_key(line: &str) -> bool {
    let key = line.split_once(": ").map(|(key, _)| key).or_else(|| line.strip_suffix(':'));
    key.is_some_and(|key| !key.is_empty() && !key.starts_with('-') && !key.contains(char::is_whitespace))
}

/// The document while its parts go by.
#[derive(Default)]
struct Reader {
    prose: Prose,
    keep_urls: bool,
    /// The next number of each list that is open, if it has numbers.
    lists: Vec<Option<u64>>,
    /// Code or HTML that is taken as a whole.
    verbatim: Option<String>,
    is_first_cell: bool,
}

impl Reader {
    fn read(&mut self, event: Event<'_>) -> Result<(), Error> {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(tag) => self.close(tag)?,
            Event::Text(text) | Event::Html(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => self.prose.raw(&text),
            Event::InlineHtml(tag) if is_line_break(&tag) => self.prose.break_line(),
            Event::InlineHtml(tag) => self.shift(&tag),
            Event::FootnoteReference(name) => self.prose.raw(&format!("[{name}]")),
            Event::SoftBreak => self.prose.space(),
            Event::HardBreak => self.prose.break_line(),
            Event::Rule => self.prose.end_block(),
            Event::TaskListMarker(is_done) => {
                self.prose.raw(if is_done { "[x]" } else { "[ ]" });
                self.prose.space();
            }
        }
        Ok(())
    }

    /// Of other tags within a line nothing is left.
    fn shift(&mut self, tag: &str) {
        let name = tag.trim_start_matches('<').trim_end_matches('>').trim().to_ascii_lowercase();
        if let Some(shift) = Shift::of_tag(&name) {
            self.prose.shift(shift);
        } else if name.strip_prefix('/').and_then(Shift::of_tag).is_some() {
            self.prose.end_shift();
        }
    }

    fn text(&mut self, text: &CowStr<'_>) {
        match &mut self.verbatim {
            Some(verbatim) => verbatim.push_str(text),
            None => self.prose.words(text),
        }
    }

    fn open(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::Heading { .. } | Tag::Table(_) => self.prose.end_block(),
            Tag::CodeBlock(_) | Tag::HtmlBlock => self.verbatim = Some(String::new()),
            Tag::BlockQuote(_) => {
                self.prose.end_block();
                self.prose.open_container("> ", "> ");
            }
            Tag::List(start) => {
                if self.lists.is_empty() {
                    self.prose.end_block()
                } else {
                    self.prose.end_line()
                }
                self.lists.push(start);
            }
            Tag::Item => self.open_item(),
            Tag::FootnoteDefinition(name) => {
                self.prose.end_block();
                self.prose.open_container(&format!("[{name}] "), "");
            }
            Tag::TableHead | Tag::TableRow => {
                self.prose.end_line();
                self.is_first_cell = true;
            }
            Tag::TableCell => {
                if !self.is_first_cell {
                    self.prose.space();
                    self.prose.raw("|");
                    self.prose.space();
                }
                self.is_first_cell = false;
            }
            Tag::Link { dest_url, .. } if self.keep_urls && !dest_url.starts_with('#') => {
                self.prose.open_mark(Mark { name: "a", start: String::new(), end: format!(" ({dest_url})") });
            }
            _ => {}
        }
    }

    fn open_item(&mut self) {
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "- ".to_owned(),
        };
        self.prose.open_container(&mark, &" ".repeat(mark.len()));
    }

    fn close(&mut self, tag: TagEnd) -> Result<(), Error> {
        match tag {
            TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Table => self.prose.end_block(),
            TagEnd::CodeBlock => {
                let code = self.verbatim.take().unwrap_or_default();
                self.prose.block(code.trim_end());
            }
            TagEnd::HtmlBlock => {
                let html = self.verbatim.take().unwrap_or_default();
                self.prose.block(&html::convert(&html, Prose::text(), self.keep_urls)?);
            }
            TagEnd::BlockQuote(_) | TagEnd::FootnoteDefinition => {
                self.prose.close_container();
                self.prose.end_block();
            }
            TagEnd::Item => self.prose.close_container(),
            TagEnd::List(_) => {
                self.lists.pop();
                if self.lists.is_empty() { self.prose.end_block() } else { self.prose.end_line() }
            }
            TagEnd::Link => self.prose.close_mark("a"),
            _ => {}
        }
        Ok(())
    }
}

fn is_line_break(tag: &str) -> bool {
    let name = tag.trim_start_matches('<').trim_end_matches(['>', '/', ' ']);
    name.eq_ignore_ascii_case("br")
}
