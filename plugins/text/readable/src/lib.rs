//! Pages as a reader sees them: HTML laid out as plain text or as Markdown.
//!
//! A library and no plugin: `text` converts what a model has, `http` what it fetches, and both mean the same by it.
//!
//! The tokens of the page (as the HTML standard cuts them) go by once, and what they say is laid out at once. There is no
//! tree: pages that nest a million deep cost no more than others, and broken ones are read as far as they make sense.

mod prose;
mod raised;

mod hidden;
mod layout;
mod table;

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use layout::{Layout, Tag};
pub use prose::{Mark, Prose};
pub use raised::Shift;

/// How a page is laid out.
pub struct Settings {
    /// What it becomes: [`Prose::text`] or [`Prose::markdown`].
    pub prose: Prose,
    /// Whether the address of a link stands behind its text. Markdown needs it.
    pub keep_urls: bool,
    /// Makes addresses whole; without it they stand as they are.
    pub resolve: Option<Resolve>,
    /// Where to stop, in bytes of what is laid out: marks of lists and quotes can make it larger than the page.
    pub max_bytes: usize,
}

/// Gives the whole of an address, of what the page says in `<base>` (empty where it has none) and the address in a tag; none
/// where it is no address.
pub type Resolve = Box<dyn Fn(&str, &str) -> Option<String>>;

/// What a page says.
pub struct Page {
    pub text: String,
    /// Whether that is all of it.
    pub is_whole: bool,
}

/// Lays out the text of a page.
pub fn read_html(html: &str, settings: Settings) -> Page {
    let mut layout = Layout::new(settings);
    let mut tag = Tag::default();
    let mut attribute = Vec::new();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        match event {
            CallbackEvent::OpenStartTag { name } => tag = Tag::named(name),
            CallbackEvent::AttributeName { name } => {
                attribute.clear();
                attribute.extend_from_slice(name);
                tag.mention(name);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str, max_bytes: usize) -> Page {
        read_html(html, Settings { prose: Prose::text(), keep_urls: false, resolve: None, max_bytes })
    }

    #[test]
    fn a_page_that_becomes_too_long_is_given_as_far_as_it_goes() {
        let page = read("<p>one<p>two<p>three<p>four", 6);
        assert_eq!((page.text.as_str(), page.is_whole), ("one\n\ntwo", false));
        let page = read("<p>one<p>two", 100);
        assert_eq!((page.text.as_str(), page.is_whole), ("one\n\ntwo", true));
    }

    #[test]
    fn what_a_page_hides_is_left_out_and_nothing_after_it() {
        for (html, text) in [
            ("a<div hidden>b<div>c</div>d</div>e", "ae"),
            ("a<span style='color: red; DISPLAY : None !important'>b</span>c", "ac"),
            ("<p hidden>a<p>b", "b"),
            ("<div><p hidden>a</div>b", "b"),
            ("<ul><li hidden>a<ul><li>x</ul><li>b</ul>c", "- b\n\nc"),
            ("<ul><li>a<li hidden>b</ul>c", "- a\n\nc"),
            ("<table><tr><td hidden>a<td>b<tr hidden><td>c</table>d", "b\n\nd"),
            ("a<img hidden alt=b><br hidden>c<input hidden>d", "acd"),
            ("<div hidden>a</b></section>b</div>c", "c"),
            ("<pre>a<span hidden>b</span>c</pre>", "ac"),
            ("<body style='display:none'>a", "a"),
            ("<p style='display:block'>a<p style='--display:none'>b<p data-hidden>c", "a\n\nb\n\nc"),
        ] {
            assert_eq!(read(html, 1_000).text, text, "{html}");
        }
    }

    #[test]
    fn hidden_parts_without_an_end_cost_no_more_than_others() {
        for part in ["<b hidden>", "<p hidden>", "<div hidden><i>", "<div hidden></i><b>"] {
            let _ = read(&part.repeat(100_000), 1_000_000);
        }
    }
}
