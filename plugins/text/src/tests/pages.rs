//! HTML and Markdown.

use toolgate_sdk::serde_json::json;

use super::call;

fn html(html: &str) -> String {
    call("html_to_text", json!({"html": html})).unwrap().as_str().unwrap().to_owned()
}

fn html_markdown(html: &str) -> String {
    call("html_to_markdown", json!({"html": html})).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn html_reads_as_a_page_does() {
    for (page, text) in [
        ("a\n  b<!-- c --> d", "a b d"),
        ("<p>a<p>b<br>c<div><div>d</div></div>e", "a\n\nb\nc\n\nd\n\ne"),
        ("<script>if (a < b) x()</script><style>p{}</style>t<title>no</title>", "t"),
        ("x &lt;b&gt; &eacute;&#x1F600;&nbsp;y &unknown; &", "x <b> é😀 y &unknown; &"),
        ("<ul><li>a<ul><li>b<li>c</ul><li><p>d</p></ul>e", "- a\n  - b\n  - c\n- d\n\ne"),
        ("<ol start=9><li>a</li><li>b</li></ol>", "9.  a\n10. b"),
        ("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc"),
        ("<pre>\n a\n   b\n</pre>c", " a\n   b\n\nc"),
        ("<table><caption>C</caption><tr><td>a<td>b<tr><td>c</table>d", "C\n\na | b\nc\n\nd"),
        ("<noscript><iframe src=x></iframe><img src=y></noscript>a<noscript>b</noscript>", "a"),
        ("<table><tr><td><p>a</p><p>b</p><td><table><tr><td>x<td>y</table></table>", "a\n\nb\n\nx | y"),
        ("<dl><dt>t<dd>d<dt>u<dd>e</dl>", "t\n\nd\n\nu\n\ne"),
        ("</p></li></table>a</ul><b>b</i>c", "abc"),
        ("<p", ""),
        ("a <img src=x alt='cat'> <a href=''>b</a>", "a cat b"),
        ("<p>a<p hidden>b<p>c<div style='display:none'>d<p>e</div><p>f", "a\n\nc\n\nf"),
    ] {
        assert_eq!(html(page), text, "{page}");
    }
}

#[test]
fn t7_each_cell_of_a_table_stays_in_its_column() {
    for (table, text) in [
        ("<tr><td rowspan=2>Mon<td>1<td>Ada<tr><td>2<td>Bob", "Mon | 1 | Ada\n | 2 | Bob"),
        ("<tr><td>a<td rowspan=2>b<tr><td>c<tr><td>d<td>e", "a | b\nc |\nd | e"),
        ("<tr><td colspan=2>both<td>c<tr><td>1<td>2<td>3", "both |  | c\n1 | 2 | 3"),
        ("<tr><td rowspan=2 colspan=2>x<td>1<tr><td>2<tr><td>a<td>b<td>3", "x |  | 1\n |  | 2\na | b | 3"),
        ("<tr><td rowspan=0>a<td colspan=x>b<tr><td>c<td>d", "a | b\nc | d"),
        // One cell spans a column that another reaches into.
        (
            "<tr><td>a<td rowspan=2>b<td>c<tr><td colspan=2>d<td>e<tr><td>f<td>g<td>h",
            "a | b | c\nd |  | e\nf | g | h",
        ),
        (
            "<tr><td>a<td rowspan=3>b<td>c<tr><td colspan=2>d<td>e<tr><td>f<td>g",
            "a | b | c\nd |  | e\nf |  | g",
        ),
    ] {
        assert_eq!(html(&format!("<table>{table}</table>")), text, "{table}");
    }
    let spans = "<tr><td rowspan=65534 colspan=1000>a".repeat(2_000);
    assert!(html(&format!("<table>{spans}</table>")).len() < 10_000);
}

#[test]
fn t7_a_cell_of_several_lines_dissolves_no_table() {
    let page = "<table><caption>Staff</caption><tr><th>Name<th>Address<tr><td>Ada<td>1 Main St<br>London<tr><td>Bob\
                <td><ul><li>Paris<li>Rome</ul></table>";
    assert_eq!(html(page), "Staff\n\nName | Address\nAda | 1 Main St London\nBob | - Paris - Rome");
    assert_eq!(
        html_markdown(page),
        "Staff\n\n| Name | Address |\n| --- | --- |\n| Ada | 1 Main St<br>London |\n| Bob | - Paris<br>- Rome |"
    );
    // The layout of a page is none.
    let column = format!("<td>{}", "<p>words".repeat(20));
    assert!(!html(&format!("<table><tr>{column}{column}</table>")).contains(" | "));
}

#[test]
fn html_becomes_markdown_that_means_the_same() {
    for (page, markdown) in [
        ("<h1> A <em>b</em></h1>c", "# A *b*\n\nc"),
        ("a<b> b </b>c <b></b><i><b>d</b></i>", "a **b** c ***d***"),
        ("1 * 2 _x_ snake_case [y] `z` &lt;b>", "1 \\* 2 \\_x\\_ snake\\_case \\[y\\] \\`z\\` \\<b>"),
        ("<p># a<p>1. b<p>- c", "\\# a\n\n1\\. b\n\n\\- c"),
        ("<a href='/x y(1)'>t</a> <a href='javascript:x'>j</a> <a href=u></a>", "[t](/x%20y%281%29) j"),
        ("<img src=a.png alt='A [b]'> <img src='data:x'>", "![A \\[b\\]](a.png)"),
        ("use <code>a `b`</code><hr>x", "use `` a `b` ``\n\n---\n\nx"),
        ("a<br>b<br><br>c", "a  \nb  \n  \nc"),
        ("<ul><li><pre>x\ny</pre></ul>", "- ```\n  x\n  y\n  ```"),
        (
            "<table><tr><td>a|b<td><td>c<tr><td>d</table>",
            "| a\\|b |  | c |\n| --- | --- | --- |\n| d |  |  |",
        ),
        ("<p><b>open<p>next", "**open**\n\n**next**"),
    ] {
        assert_eq!(html_markdown(page), markdown, "{page}");
    }
}

#[test]
fn t7_a_link_around_blocks_keeps_its_address_and_its_words_apart() {
    for (page, markdown) in [
        ("<a href=u><div>a</div><p>b</p></a>c", "[a b](u)\n\nc"),
        ("<a href=u><div>a</div></a><a href=v><div>b</div></a>", "[a](u)\n\n[b](v)"),
        ("<a href=u><div><h2>a</h2><p>b</p></div></a>", "[a b](u)"),
        ("<h2><a href=u>a</a></h2>", "## [a](u)"),
        ("<a href=u><div><img src=i alt=x></div>b</a>", "[![x](i) b](u)"),
        ("<a href=u><div></div></a><p>a</p>", "a"),
        ("<a href=u></a>a<b><p>b</p></b>", "a\n\n**b**"),
    ] {
        assert_eq!(html_markdown(page), markdown, "{page}");
    }
    let text = call(
        "html_to_text",
        json!({"html": "!<a href=u><div>a</div><p>b</p></a>!<a href=u>c</a>", "keep_urls": true}),
    );
    assert_eq!(text, Ok(json!("!\n\na\n\nb (u)\n\n!c (u)")));
}

#[test]
fn t7_markdown_of_a_page_is_written_as_one_would() {
    for (page, markdown) in [
        ("<b>a</b><b>b</b>", "**ab**"),
        ("<b>a</b><strong>b</strong><i>c</i><em>d</em>", "**ab***cd*"),
        ("<b>a</b> <b>b</b><p><b>c</b><p><b>d</b>", "**a** **b**\n\n**c**\n\n**d**"),
        ("<b>a</b>x<b>b</b> <del>c</del>", "**a**x**b** ~~c~~"),
        ("<img src=a alt=' A\n [b] *c* '>", "![A \\[b\\] \\*c\\*](a)"),
    ] {
        assert_eq!(html_markdown(page), markdown, "{page}");
    }
}

#[test]
fn markdown_loses_its_marks_and_nothing_else() {
    for (markdown, text) in [
        ("---\ntitle: x\n---\n\n# A *b*\n\nc\nd  \ne", "A b\n\nc d\ne"),
        ("- a\n  - b\n- [x] c\n\n3. d\n4. e", "- a\n  - b\n- [x] c\n\n3. d\n4. e"),
        ("- a\n\n  b\n- c", "- a\n\n  b\n\n- c"),
        ("> a\n>\n> b", "> a\n>\n> b"),
        ("`x` and\n\n```rust\nfn a() {\n\n    b\n}\n```\nend", "x and\n\nfn a() {\n\n    b\n}\n\nend"),
        ("| a | b |\n|---|---|\n| 1 | *2* |", "a | b\n1 | 2"),
        ("![cat](c.png) [l](u \"t\") <https://x.y> ~~s~~ &amp; \\*", "cat l https://x.y s & *"),
        ("<div>in <b>html</b></div>\n\na<br>b <i>c</i>", "in html\n\na\nb c"),
        ("a[^1]\n\n[^1]: note", "a[1]\n\n[1] note"),
    ] {
        let found = call("markdown_to_text", json!({"markdown": markdown}));
        assert_eq!(found, Ok(json!(text)), "{markdown}");
    }
}

#[test]
fn pages_made_to_be_slow_are_not() {
    for page in [
        "<div>",
        "<ul><li>",
        "<b>",
        "<table><tr><td>",
        "<blockquote>",
        "<a href=x>",
        "</p>",
        "<",
        "&",
        "<p>a<b>",
        "<!--",
        "<pre>",
        "<svg>",
    ] {
        let page = page.repeat(100_000 / page.len());
        let _ = call("html_to_text", json!({"html": page}));
        let _ = call("html_to_markdown", json!({"html": page}));
    }
    for markdown in ["> ", "- ", "*a ", "[", "![", "`a", "<a", "**_", "|a", "[a](", "&#", "    ", "1. "] {
        let markdown = markdown.repeat(100_000 / markdown.len());
        let _ = call("markdown_to_text", json!({"markdown": markdown}));
    }
}

#[test]
fn markdown_of_a_page_reads_back_as_its_text() {
    for (page, markdown, text) in [
        ("<h2>C# a</h2>", "## C# a", "C# a"),
        ("<p>:_a_ __init__", ":\\_a\\_ \\_\\_init\\_\\_", ":_a_ __init__"),
        ("<p>~~~<p>a", "\\~~~\n\na", "~~~\n\na"),
        ("<p>&gt;*a*", "\\>\\*a\\*", ">*a*"),
        ("a <img alt='b [c]'> d <img alt=e src='data:x'>", "a b \\[c\\] d e", "a b [c] d e"),
        ("a \\* <b>\\</b>", "a \\\\\\* **\\\\**", "a \\* \\"),
    ] {
        assert_eq!(html_markdown(page), markdown, "{page}");
        assert_eq!(call("markdown_to_text", json!({"markdown": markdown})), Ok(json!(text)), "{markdown}");
    }
}

#[test]
fn only_keys_with_values_at_the_beginning_are_front_matter() {
    for (markdown, text) in [
        ("---\nBuy milk\n---\nrest", "Buy milk\n\nrest"),
        ("a\n\n---\nb: c\n---\nd", "a\n\nb: c\n\nd"),
        ("---\nsee: a\nand go on\n---\nb", "see: a and go on\n\nb"),
        ("---\na: b", "a: b"),
        ("---\n---\na", "a"),
        ("\u{feff}---\r\n# c\ntitle: a\ntags:\n- b\n  - c\n\ntext: |\n  d e\n...\nf", "f"),
        ("---\nog:title: a\n---  \nb", "b"),
    ] {
        assert_eq!(call("markdown_to_text", json!({"markdown": markdown})), Ok(json!(text)), "{markdown}");
    }
}

#[test]
fn what_is_raised_or_lowered_becomes_no_other_number() {
    for (page, text) in [
        ("10<sup>6</sup> m<sup>2</sup>", "10^6 m^2"),
        ("10<sup>-3</sup> and 10<sup>\u{2212}3</sup>", "10^-3 and 10^\u{2212}3"),
        ("x<sup>n</sup> 2<sup>n+1</sup> (a+b)<sup>2</sup>y", "x^n 2^(n+1) (a+b)^2y"),
        ("Ca<sup>2+</sup> e<sup><b>2</b></sup> 2<sup>n+1</sup> c", "Ca^2+ e^2 2^(n+1) c"),
        ("10<SUP><i>6</i></SUP>7", "10^67"),
        ("1010<sub>2</sub> is 10<sub>10</sub>", "1010_2 is 10_10"),
        // A word that is raised, a note and an index read as they are.
        ("the 1<sup>st</sup>, M<sup>me</sup>, brand<sup>TM</sup>", "the 1st, Mme, brandTM"),
        ("so.<sup>3</sup> So<sup>[3]</sup> <sup>3</sup>He", "so.3 So[3] 3He"),
        ("H<sub>2</sub>O, x<sub>1</sub>, log<sub>10</sub>", "H2O, x1, log10"),
        ("see<sub> the note</sub>, 5<sup> th</sup>", "see the note, 5 th"),
        ("price<sup>*</sup>, x<sup>,</sup>", "price*, x,"),
        // Raised text comes in parts.
        (
            "2<sup><i>n</i>+1</sup>x e<sup>-<i>x</i>/2</sup> e<sup>n<br></sup>m 2<sup><b>n</b></sup>",
            "2^(n+1)x e^(-x/2) e^n\nm 2^n",
        ),
        ("10<sup></sup>6", "106"),
    ] {
        assert_eq!(html(page), text, "{page}");
    }
    let markdown = |markdown: &str| call("markdown_to_text", json!({"markdown": markdown})).unwrap();
    assert_eq!(markdown("*10*<sup>6</sup>, 2<sup>n+1</sup>x, H<sub>2</sub>O"), json!("10^6, 2^(n+1)x, H2O"));
    assert_eq!(markdown("2<sup>n&minus;*k*</sup>x, a<sup> bc</sup>"), json!("2^(n\u{2212}k)x, a bc"));
    assert_eq!(html_markdown("2<sup><i>n</i>+<i>k</i></sup>x"), "2^(*n*+*k*)x");
    assert_eq!(html_markdown("<b>10</b><sup>6</sup>, 10<sub>2</sub>"), "**10**^6, 10\\_2");
    assert_eq!(html_markdown("m<sup><b>2</b></sup> x<sup><a href=u>2</a></sup>"), "m^**2** x^[2](u)");
}
