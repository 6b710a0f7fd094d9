//! A short excerpt of an error response, for a message.

use super::headers::media_type;

/// Bytes read of a response: a page may have styles before its title.
pub(super) const EXCERPT_BYTES: usize = 8 * 1024;

/// Most characters of an excerpt: a server's error message has one or two sentences.
const EXCERPT_CHARS: usize = 300;
/// Most characters of a page's title or first words.
const PAGE_CHARS: usize = 100;

/// Elements without text for a reader, with their ends.
const SKIPPED: [(&str, &str); 3] = [("<script", "</script"), ("<style", "</style"), ("<!--", "-->")];

/// Returns the start of a text on one line, the title or the first words of an HTML page, nothing of other types. An empty
/// `content_type` means text.
pub fn excerpt(content_type: &str, bytes: &[u8]) -> String {
    let (media_type, _) = media_type(if content_type.is_empty() { "text/plain" } else { content_type });
    let is_text =
        media_type.starts_with("text/") || media_type.ends_with("json") || media_type.ends_with("xml");
    let text = String::from_utf8_lossy(bytes);
    match media_type.as_str() {
        "text/html" | "application/xhtml+xml" => page(&text),
        _ if is_text => line(&text, EXCERPT_CHARS),
        _ => String::new(),
    }
}

fn page(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let title = title(html, &lower).map(|title| line(title, PAGE_CHARS));
    title.filter(|title| !title.is_empty()).unwrap_or_else(|| line(&words(html, &lower), PAGE_CHARS))
}

/// The content of the first element `title`. `lower` is the page in lower case.
fn title<'a>(html: &'a str, lower: &str) -> Option<&'a str> {
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    Some(&html[start..end])
}

/// The text between the tags.
fn words(html: &str, lower: &str) -> String {
    let mut words = String::new();
    let mut at = 0;
    while let Some(tag) = lower[at..].find('<').map(|found| at + found) {
        words.push_str(&html[at..tag]);
        words.push(' ');
        let is_here = |(start, _): &&(&str, &str)| lower[tag..].starts_with(start);
        let end = SKIPPED.iter().find(is_here).map_or("", |(_, end)| end);
        let end = lower[tag..].find(end).map(|found| tag + found);
        match end.and_then(|end| Some(end + lower[end..].find('>')? + 1)) {
            Some(end) => at = end,
            // The excerpt ends inside a tag.
            None => return words,
        }
    }
    words.push_str(&html[at..]);
    words
}

fn line(text: &str, most_chars: usize) -> String {
    let words =
        text.split(|sign: char| sign.is_whitespace() || sign.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
