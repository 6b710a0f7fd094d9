//! What a page says is not to be seen: the attribute `hidden`, and `display: none` of its own style.
//!
//! Where it ends is not always written: a paragraph ends where the next one begins. Were that missed, the rest of the page
//! would be hidden with it. What style sheets and scripts hide is not known here.

use crate::layout::is_structure;

/// What pages hide until their scripts have run, and every reader sees.
pub const STAYS: [&str; 2] = ["html", "body"];

/// What has no end tag, and so hides nothing but itself.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

/// What is open within a hidden part. What is deeper is taken for closed.
const MAX_OPEN: usize = 64;

/// Whether a style hides what it is written for.
pub fn hides(style: &str) -> bool {
    style.split(';').filter_map(|rule| rule.split_once(':')).any(|(property, value)| {
        let value = value.split('!').next().unwrap_or_default().trim();
        property.trim().eq_ignore_ascii_case("display") && value.eq_ignore_ascii_case("none")
    })
}

/// A hidden part that is open.
pub struct Hidden {
    /// The names of what is open in it, itself first.
    open: Vec<String>,
}

/// What an end tag within a hidden part ends.
pub enum End {
    Inside,
    Itself,
    /// Something that the hidden part is in, and so the hidden part too.
    Around,
}

impl Hidden {
    /// None if the tag has no end.
    pub fn from(name: &str) -> Option<Self> {
        (!VOID.contains(&name)).then(|| Self { open: vec![name.to_owned()] })
    }

    /// Takes a start tag. Whether the hidden part ends before it.
    pub fn ends_at_start(&mut self, name: &str) -> bool {
        while self.open.last().is_some_and(|last| ends_before(last, name)) {
            self.open.pop();
        }
        if !self.open.is_empty() && self.open.len() < MAX_OPEN && !VOID.contains(&name) {
            self.open.push(name.to_owned());
        }
        self.open.is_empty()
    }

    /// Takes an end tag.
    pub fn end(&mut self, name: &str) -> End {
        match self.open.iter().rposition(|open| open == name) {
            Some(0) => End::Itself,
            Some(index) => {
                self.open.truncate(index);
                End::Inside
            }
            // Only what needs no end tag ends with what is around it.
            None if self.open.first().is_some_and(|first| may_lack_end(first)) && is_structure(name) => {
                End::Around
            }
            None => End::Inside,
        }
    }
}

fn may_lack_end(name: &str) -> bool {
    matches!(name, "p" | "li" | "dt" | "dd" | "td" | "th" | "tr" | "option" | "optgroup")
}

/// Whether an element without an end tag ends where another one begins.
fn ends_before(open: &str, next: &str) -> bool {
    match open {
        "p" => is_structure(next),
        "li" => next == "li",
        "dt" | "dd" => matches!(next, "dt" | "dd"),
        "td" | "th" => matches!(next, "td" | "th" | "tr"),
        "tr" => next == "tr",
        "option" => matches!(next, "option" | "optgroup"),
        _ => false,
    }
}
