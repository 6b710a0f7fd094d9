//! Parses a page within limits, and removes what its readers do not see.

use std::rc::Rc;

use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Node, NodeData, RcDom};

use crate::Resolve;

/// Tags of one page. Their tree takes some 20 MiB of the 64 MiB that a call has.
const MAX_TAGS: usize = 100_000;

/// Depth of elements that are open. html5ever searches all of them for many tags. Browsers have a similar limit.
const MAX_OPEN: usize = 512;

/// Bytes between two checks of the depth.
const CHUNK_BYTES: usize = 1024;

/// Depth of elements that are laid out; those below are only text. Layout is recursive, and a guest has 512 KiB of stack.
const MAX_DEPTH: usize = 96;

/// Bytes of a `<base>`, which is read for each link.
const MAX_BASE_BYTES: usize = 1_000;

/// Bytes of an exponent. More is text.
const MAX_EXPONENT_BYTES: usize = 100;

/// Returns the tree of a page, and whether the page was read to its end.
pub fn parse(html: &str) -> (Rc<Node>, bool) {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let (mut rest, mut tags) = (html, 0);
    while !rest.is_empty() {
        let last = |node: &Rc<Node>| node.children.borrow().last().cloned();
        let document = parser.tokenizer.sink.sink.document.clone();
        parser.tokenizer.sink.sink.errors.borrow_mut().clear();
        if tags > MAX_TAGS || std::iter::successors(Some(document), last).count() > MAX_OPEN {
            break;
        }
        let (chunk, behind) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
        tags += chunk.matches('<').count();
        parser.process(chunk.into());
        rest = behind;
    }
    (parser.finish().document, rest.is_empty())
}

/// The state of the visit of a tree.
struct Cleaning<'a> {
    resolve: Option<Resolve<'a>>,
    base: Option<String>,
    /// The last character before, in the same block.
    before: Option<char>,
}

/// Removes what is unseen, resolves addresses, marks exponents and limits the depth.
pub fn clean(tree: &Rc<Node>, resolve: Option<Resolve<'_>>) {
    let mut cleaning = Cleaning { resolve, base: None, before: None };
    let mut nodes = vec![(tree.clone(), 0)];
    while let Some((node, depth)) = nodes.pop() {
        cleaning.visit(&node);
        node.children.borrow_mut().retain(is_seen);
        // Text right in a table is in no cell.
        let is_table = matches!(name(&node), Some("table" | "thead" | "tbody" | "tfoot" | "tr"));
        if depth >= MAX_DEPTH && !is_table && name(&node).is_some() {
            let text = text_of(&node);
            *node.children.borrow_mut() = vec![new_text(&text)];
        }
        trim_after_breaks(&node);
        nodes.extend(node.children.borrow().iter().rev().map(|child| (child.clone(), depth + 1)));
    }
}

/// `htmd` keeps white space at the beginning of a line.
fn trim_after_breaks(node: &Rc<Node>) {
    if matches!(name(node), Some("pre" | "code")) {
        return;
    }
    for pair in node.children.borrow().windows(2) {
        if let (Some("br"), NodeData::Text { contents }) = (name(&pair[0]), &pair[1].data) {
            let text = contents.borrow().trim_start().to_owned();
            contents.replace(text.into());
        }
    }
}

impl Cleaning<'_> {
    fn visit(&mut self, node: &Rc<Node>) {
        match name(node) {
            None => {
                if let NodeData::Text { contents } = &node.data {
                    let mut text = contents.borrow_mut();
                    self.before = text.chars().next_back().or(self.before);
                    if text.contains('\u{a0}') {
                        *text = text.replace('\u{a0}', " ").into();
                    }
                }
            }
            // The first one with an address holds (HTML, 4.2.3).
            Some("base") if self.base.is_none() => {
                self.base = attribute(node, "href").filter(|url| (1..=MAX_BASE_BYTES).contains(&url.len()));
            }
            Some("a") => self.resolve(node, "href", |url| {
                let is_script =
                    url.get(..11).is_some_and(|scheme| scheme.eq_ignore_ascii_case("javascript:"));
                !url.starts_with('#') && !is_script
            }),
            Some("img") => self.resolve(node, "src", |url| !url.starts_with("data:")),
            Some("sup" | "sub") => mark_shift(node, self.before.unwrap_or(' ')),
            Some("p" | "div" | "li" | "td" | "th" | "br") => self.before = None,
            Some(_) => {}
        }
    }

    /// Makes the address of a link or image absolute, and removes it if it leads to no page.
    fn resolve(&self, node: &Rc<Node>, attribute: &str, leads: impl Fn(&str) -> bool) {
        let NodeData::Element { attrs, .. } = &node.data else { return };
        let base = self.base.as_deref().unwrap_or_default();
        attrs.borrow_mut().retain_mut(|attr| {
            if &*attr.name.local != attribute {
                return &*attr.name.local == "alt";
            }
            let url = attr.value.trim().replace(['\n', '\r', '\t'], "");
            let resolved = self.resolve.and_then(|resolve| resolve(base, &url));
            let is_kept = !url.is_empty() && leads(&url);
            attr.value = resolved.unwrap_or(url).into();
            is_kept
        });
    }
}

/// Whether browsers show it: no scripts and the like, no attribute `hidden`, and no `display: none` in its own style. Style
/// sheets are not read.
fn is_seen(node: &Rc<Node>) -> bool {
    match name(node) {
        None => matches!(node.data, NodeData::Text { .. }),
        Some(
            "script" | "style" | "template" | "title" | "svg" | "iframe" | "object" | "noembed" | "noscript",
        ) => false,
        Some("html" | "body") => true,
        Some(_) => {
            attribute(node, "hidden").is_none()
                && !attribute(node, "style").is_some_and(|style| hides(&style))
        }
    }
}

fn hides(style: &str) -> bool {
    style.split(';').filter_map(|rule| rule.split_once(':')).any(|(property, value)| {
        let value = value.split('!').next().unwrap_or_default().trim();
        property.trim().eq_ignore_ascii_case("display") && value.eq_ignore_ascii_case("none")
    })
}

/// Marks a raised or lowered number: without a mark, `10<sup>6</sup>` would read as 106. Ordinals, notes and indices (`1st`,
/// `H2O`) need none.
fn mark_shift(node: &Rc<Node>, before: char) {
    let text = text_of(node);
    let text = text.trim();
    let (start, end) = if name(node) == Some("sub") {
        let is_base = before.is_ascii_digit() && text.starts_with(|first: char| first.is_ascii_digit());
        (if is_base { "_" } else { "" }, "")
    } else if (before.is_alphanumeric() || before == ')') && is_exponent(text) {
        let is_one_value =
            text.trim_matches(is_plus_or_minus).chars().all(|sign| sign.is_alphanumeric() || sign == '.');
        if is_one_value { ("^", "") } else { ("^(", ")") }
    } else {
        ("", "")
    };
    let mut children = node.children.borrow_mut();
    children.insert(0, new_text(start));
    children.push(new_text(end));
}

/// Whether it is something to calculate with or a single letter, and neither the end of a word nor a note in brackets.
fn is_exponent(text: &str) -> bool {
    let is_part = |sign: char| sign.is_alphanumeric() || " +-\u{2212}*/·().,".contains(sign);
    let counts = |sign: char| sign.is_ascii_digit() || is_plus_or_minus(sign);
    let is_letter = text.chars().count() == 1 && text.starts_with(char::is_alphabetic);
    text.len() <= MAX_EXPONENT_BYTES && text.chars().all(is_part) && (text.contains(counts) || is_letter)
}

fn is_plus_or_minus(sign: char) -> bool {
    matches!(sign, '+' | '-' | '\u{2212}')
}

/// The name of an element.
pub fn name(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

pub fn attribute(node: &Node, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    attrs.borrow().iter().find(|attr| &*attr.name.local == name).map(|attr| attr.value.to_string())
}

/// An address that ends no link.
pub fn escape_url(url: &str) -> String {
    url.replace(' ', "%20").replace('(', "%28").replace(')', "%29")
}

/// A sign, with a backslash if Markdown could take it for a mark.
pub fn escape(sign: char) -> impl Iterator<Item = char> {
    "\\*_`[]<".contains(sign).then_some('\\').into_iter().chain([sign])
}

/// All seen text in a node.
pub fn text_of(node: &Rc<Node>) -> String {
    let mut text = String::new();
    let mut nodes = vec![node.clone()];
    while let Some(node) = nodes.pop() {
        match &node.data {
            NodeData::Text { contents } => text.push_str(&contents.borrow()),
            _ if name(&node) == Some("br") => text.push('\n'),
            _ => nodes.extend(node.children.borrow().iter().filter(|child| is_seen(child)).rev().cloned()),
        }
    }
    text
}

fn new_text(text: &str) -> Rc<Node> {
    Node::new(NodeData::Text { contents: StrTendril::from(text).into() })
}
