//! Lays out HTML pages as plain text or as Markdown, for `text` and `http`.
//!
//! html5ever parses a page as browsers do, and `htmd` writes its tree as Markdown. This crate limits the tree and removes what
//! readers do not see ([`page`]), writes tables ([`table`]), and takes the marks out of Markdown for plain text ([`text`]).

mod page;
mod table;
mod text;

use std::rc::Rc;

use htmd::element_handler::Handlers;
use htmd::options::{BulletListMarker, Options};
use htmd::{Element, HtmlToMarkdown, HtmlToMarkdownBuilder};
use markup5ever_rcdom::Node;

/// The form that a page becomes.
#[derive(Clone, Copy, PartialEq)]
pub enum Format {
    Markdown,
    Text {
        /// Whether the address of a link stands behind its text.
        with_urls: bool,
    },
}

/// Makes an address absolute, from the `href` of the page's `<base>` (empty without one) and the address in a tag; `None` if it
/// is not a URL.
pub type Resolve<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// The laid out page.
pub struct Page {
    pub text: String,
    /// Whether the page was read to its end: it ends where it has too many elements, or nests them too deep.
    pub is_whole: bool,
}

/// Lays out a page. Without `resolve`, addresses stay as they are.
pub fn read_html(html: &str, format: Format, resolve: Option<Resolve<'_>>) -> Page {
    let (tree, is_whole) = page::parse(html);
    page::clean(&tree, resolve);
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let builder = HtmlToMarkdown::builder().options(options);
    let text = match format {
        Format::Markdown => markdown(builder).build().tree_to_markdown(&tree),
        Format::Text { with_urls } => text::write(builder, &tree, with_urls),
    };
    Page { text, is_whole }
}

/// Replaces what `htmd` writes otherwise than CommonMark or without need.
fn markdown(builder: HtmlToMarkdownBuilder) -> HtmlToMarkdownBuilder {
    builder
        .add_handler(vec!["table"], |handlers: &dyn Handlers, element: Element| {
            Some(table::write(handlers, element.node, table::markdown).into())
        })
        .add_handler(vec!["pre"], |_: &dyn Handlers, element: Element| Some(code_block(element.node).into()))
        .add_handler(vec!["hr"], |_: &dyn Handlers, _: Element| Some("\n\n---\n\n".into()))
        .add_handler(vec!["del", "s", "strike"], |handlers: &dyn Handlers, element: Element| {
            let text = handlers.walk_children(element.node).content;
            Some(if text.trim().is_empty() { text } else { format!("~~{}~~", text.trim()) }.into())
        })
        .add_handler(vec!["a"], |handlers: &dyn Handlers, element: Element| {
            let text = handlers.walk_children(element.node).content;
            let Some(url) = page::attribute(element.node, "href") else { return Some(text.into()) };
            let line = text.trim_matches(['#', ' ', '\n']);
            if line.is_empty() {
                return Some(text.into());
            }
            let url = page::escape_url(&url);
            // A link is within a line, and words of different blocks stay apart.
            let line = if line.contains('\n') { table::one_line(line) } else { line.to_owned() };
            if text.contains("\n\n") {
                return Some(format!("\n\n[{line}]({url})\n\n").into());
            }
            let (before, after) = (text.starts_with(' '), text.ends_with(' '));
            let space = |is_there: bool| if is_there { " " } else { "" };
            Some(format!("{}[{line}]({url}){}", space(before), space(after)).into())
        })
        .add_handler(vec!["img"], |_: &dyn Handlers, element: Element| {
            let text = page::attribute(element.node, "alt").unwrap_or_default();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let text: String = text.chars().flat_map(page::escape).collect();
            let url = page::attribute(element.node, "src");
            Some(url.map_or(text.clone(), |url| format!("![{text}]({})", page::escape_url(&url))).into())
        })
}

fn code_block(node: &Rc<Node>) -> String {
    let text = page::text_of(node);
    let code = text.strip_prefix('\n').unwrap_or(&text).trim_end();
    let longest_run = code.split(|sign| sign != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest_run + 1).max(3));
    let children = node.children.borrow();
    let class =
        children.iter().chain([node]).find_map(|node| page::attribute(node, "class")).unwrap_or_default();
    let language =
        class.split_whitespace().find_map(|class| class.strip_prefix("language-")).unwrap_or_default();
    format!("\n\n{fence}{language}\n{code}\n{fence}\n\n")
}

#[cfg(test)]
mod tests;
