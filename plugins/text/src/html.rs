//! `html_to_text` and `html_to_markdown`.
//!
//! The tokens of the page (as the HTML standard cuts them) go by once, and what they say is laid out at once. There is no
//! tree: pages that nest a million deep cost no more than others, and broken ones are read as far as they make sense.

mod layout;
mod table;

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use toolgate_sdk::{Error, tool};

use crate::prose::Prose;
use crate::size;
use layout::{Layout, Tag};

/// Gives the text of an HTML page or fragment, as a reader sees it.
///
/// Paragraphs, lists, tables and line breaks are kept; scripts, styles and the title are left out. `html_to_markdown`
/// keeps headings, emphasis and links too.
#[tool(
    read_only,
    tags("html", "web", "page", "strip", "plain text", "convert"),
    examples(
        {"html": "<h1>Hi &amp; welcome</h1><p>See <a href='https://example.com'>here</a>.</p><ul><li>one<li>two</ul>"} => "Hi & welcome\n\nSee here.\n\n- one\n- two",
        {"html": "<p>See <a href='https://example.com'>here</a>.</p>", "keep_urls": true} => "See here (https://example.com).",
    )
)]
pub fn html_to_text(
    /// The HTML
    html: String,
    /// Whether to write the address of a link behind its text
    #[default]
    keep_urls: bool,
) -> Result<String, Error> {
    size::whole(convert(&html, Prose::text(), keep_urls)?)
}

/// Converts an HTML page or fragment to Markdown.
///
/// Headings, emphasis, links, images, lists, quotes, code and tables are kept; scripts, styles and the title are left out.
#[tool(
    read_only,
    tags("html", "markdown", "web", "page", "convert"),
    examples(
        {"html": "<h2>News</h2><p>A <b>bold</b> <a href='https://example.com'>link</a></p><pre><code class='language-sh'>ls -l\n</code></pre>"} => "## News\n\nA **bold** [link](https://example.com)\n\n```sh\nls -l\n```",
        "a table": {"html": "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"} => "| a | b |\n| --- | --- |\n| 1 | 2 |",
    )
)]
pub fn html_to_markdown(
    /// The HTML
    html: String,
) -> Result<String, Error> {
    size::whole(convert(&html, Prose::markdown(), true)?)
}

/// Lays out the text of a page.
pub fn convert(html: &str, prose: Prose, keep_urls: bool) -> Result<String, Error> {
    let mut layout = Layout::new(prose, keep_urls);
    let mut tag = Tag::default();
    let mut attribute = Vec::new();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        match event {
            CallbackEvent::OpenStartTag { name } => tag = Tag::named(name),
            CallbackEvent::AttributeName { name } => {
                attribute.clear();
                attribute.extend_from_slice(name);
            }
            CallbackEvent::AttributeValue { value } => tag.set(&attribute, value),
            CallbackEvent::CloseStartTag { .. } => layout.open(&tag),
            CallbackEvent::EndTag { name } => layout.close(&String::from_utf8_lossy(name)),
            CallbackEvent::String { value } => layout.text(&String::from_utf8_lossy(value)),
            _ => {}
        }
        None
    });
    // What is in a script or a style is no markup.
    emitter.naively_switch_states(true);
    let Ok(()) = Tokenizer::new_with_emitter(html, emitter).finish();
    layout.finish()
}
