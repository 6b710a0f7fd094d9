//! Plain text of a page: its Markdown, without marks.

use std::rc::Rc;

use htmd::element_handler::Handlers;
use htmd::{Element, HtmlToMarkdownBuilder};
use markup5ever_rcdom::Node;

use crate::{page, table};

/// Writes the text of a cleaned page.
pub fn write(builder: HtmlToMarkdownBuilder, tree: &Rc<Node>, with_urls: bool) -> String {
    let inline = |handlers: &dyn Handlers, element: Element| Some(handlers.walk_children(element.node));
    let block = |handlers: &dyn Handlers, element: Element| {
        let text = handlers.walk_children(element.node).content;
        Some(format!("\n\n{}\n\n", text.trim_matches('\n')).into())
    };
    let converter = builder
        .add_handler(vec!["b", "strong", "i", "em", "code"], inline)
        .add_handler(vec!["h1", "h2", "h3", "h4", "h5", "h6"], block)
        .add_handler(vec!["hr"], |_: &dyn Handlers, _: Element| Some("\n\n".into()))
        .add_handler(vec!["table"], |handlers: &dyn Handlers, element: Element| {
            Some(table::write(handlers, element.node, table::text).into())
        })
        .add_handler(vec!["pre"], |_: &dyn Handlers, element: Element| {
            let text = page::text_of(element.node);
            Some(format!("\n\n{}\n\n", escape(text.trim_start_matches('\n').trim_end())).into())
        })
        .add_handler(vec!["img"], |_: &dyn Handlers, element: Element| {
            Some(escape(&page::attribute(element.node, "alt").unwrap_or_default()).into())
        })
        .add_handler(vec!["input"], |_: &dyn Handlers, element: Element| {
            let is_box = page::attribute(element.node, "type").is_some_and(|kind| kind == "checkbox");
            let is_checked = page::attribute(element.node, "checked").is_some();
            is_box.then(|| if is_checked { "[x] " } else { "[ ] " }.into())
        })
        .add_handler(vec!["a"], move |handlers: &dyn Handlers, element: Element| {
            let text = handlers.walk_children(element.node).content;
            let url = page::attribute(element.node, "href").filter(|_| with_urls && !text.trim().is_empty());
            let Some(url) = url else { return Some(text.into()) };
            let end = &text[text.trim_end().len()..];
            Some(format!("{} ({}){end}", text.trim_end(), escape(&url)).into())
        })
        .build();
    let markdown = converter.tree_to_markdown(tree);
    let lines: Vec<String> = markdown.lines().map(|line| unescape(line.trim_end())).collect();
    lines.join("\n")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
}

/// Takes out the backslashes before signs that Markdown would take for marks.
fn unescape(line: &str) -> String {
    let mut signs = line.chars();
    let next = || signs.next().and_then(|sign| if sign == '\\' { signs.next() } else { Some(sign) });
    std::iter::from_fn(next).collect()
}
