//! `markdown_to_text`.

use pulldown_cmark::html::push_html;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use readable::Format;
use toolgate_sdk::{Error, tool};

use crate::html;

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
    let format = Format::Text { with_urls: keep_urls };
    let mut events = Vec::new();
    let mut block = None;
    let mut note = None;
    for event in Parser::new_ext(without_front_matter(&markdown), options) {
        match event {
            Event::Start(Tag::HtmlBlock) => block = Some(String::new()),
            Event::Html(html) => block.get_or_insert_default().push_str(&html),
            // On its own, so that an element without an end does not take in what follows.
            Event::End(TagEnd::HtmlBlock) => {
                let text = html::convert(&block.take().unwrap_or_default(), format)?;
                let code = CodeBlockKind::Indented;
                events.extend([
                    Event::Start(Tag::CodeBlock(code)),
                    Event::Text(text.into()),
                    Event::End(TagEnd::CodeBlock),
                ]);
            }
            Event::InlineHtml(tag) if !is_kept(&tag) => {}
            // Nothing of these is in the text, and each element costs fuel.
            Event::Start(Tag::Emphasis | Tag::Strong | Tag::Strikethrough)
            | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => {}
            Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link) if !keep_urls => {}
            Event::FootnoteReference(name) => events.push(Event::Text(format!("[{name}]").into())),
            Event::Start(Tag::FootnoteDefinition(name)) => note = Some(name),
            Event::End(TagEnd::FootnoteDefinition) => note = None,
            event => {
                let is_paragraph = matches!(event, Event::Start(Tag::Paragraph));
                events.push(event);
                if let Some(name) = note.take_if(|_| is_paragraph) {
                    events.push(Event::Text(format!("[{name}] ").into()));
                }
            }
        }
    }
    let mut page = String::new();
    push_html(&mut page, events.into_iter());
    html::convert(&page, format)
}

/// Whether a tag within a line changes what the text says.
fn is_kept(tag: &str) -> bool {
    let name = tag.trim_matches(['<', '/', '>', ' ']);
    ["br", "sup", "sub"].iter().any(|kept| name.eq_ignore_ascii_case(kept))
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
