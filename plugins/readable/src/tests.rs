use super::*;

fn read(html: &str) -> String {
    read_html(html, Format::Text { with_urls: false }, None).text
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
        assert_eq!(read(html), text, "{html}");
    }
}

#[test]
fn hidden_text_is_left_out_however_deep_it_is() {
    for depth in [1, 31, 32, 33, 94, 95, 96, 97, 98, 120] {
        for tag in ["div", "b", "ul><li", "blockquote", "table><tr><td", "a href=x"] {
            let page = format!("{}<p hidden>secret</p><p>open", format!("<{tag}>").repeat(depth));
            for format in [Format::Text { with_urls: true }, Format::Markdown] {
                let text = read_html(&page, format, None).text;
                assert!(text.contains("open") && !text.contains("secret"), "{depth} {tag}: {text}");
            }
        }
    }
}

#[test]
fn hidden_parts_without_an_end_cost_no_more_than_others() {
    for part in ["<b hidden>", "<p hidden>", "<div hidden><i>", "<div hidden></i><b>"] {
        let _ = read(&part.repeat(100_000));
    }
}

#[test]
fn a_page_that_nests_too_deep_is_given_as_far_as_it_goes() {
    let page = read_html(&format!("start{}end", "<div>".repeat(100_000)), Format::Markdown, None);
    assert_eq!((page.text.as_str(), page.is_whole), ("start", false));
}

#[test]
fn a_page_with_too_many_elements_is_given_as_far_as_it_goes() {
    let page = read_html(&"<p>a".repeat(110_000), Format::Markdown, None);
    assert!(!page.is_whole);
    assert!(page.text.starts_with("a\n\na\n\na"));
    assert!(read_html(&"<p>a".repeat(10_000), Format::Markdown, None).is_whole);
}
