//! `html_to_text` and `html_to_markdown`. How a page is laid out is in `readable`, which `http` reads pages with too.

use readable::{Format, read_html};
use toolgate_sdk::{Error, tool};

use crate::size;

/// Gives the text of an HTML page or fragment, as a reader sees it.
///
/// Paragraphs, lists, tables and line breaks are kept; scripts, styles, the title and what the page itself hides (`hidden`,
/// `display:none`) are left out; style sheets are not read. `html_to_markdown` keeps headings, emphasis and links too.
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
    convert(&html, Format::Text { with_urls: keep_urls })
}

/// Converts an HTML page or fragment to Markdown.
///
/// Headings, emphasis, links, images, lists, quotes, code and tables are kept; scripts, styles, the title and what the page
/// itself hides (`hidden`, `display:none`) are left out.
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
    convert(&html, Format::Markdown)
}

/// Lays out a page, if the result fits into an answer.
pub fn convert(html: &str, format: Format) -> Result<String, Error> {
    let page = read_html(html, format, None);
    if !page.is_whole {
        return Err(Error::new("the page has too many elements, or nests them too deep: give a part of it"));
    }
    size::whole(page.text)
}
