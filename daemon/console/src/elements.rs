//! Elements of pages: texts of tenants and models, times, amounts, tables and filters.
//!
//! INVARIANT: each text that a tenant, a plugin, an upstream or a model can bring passes [`short`], [`whole`] or [`block`], which write
//! hidden characters out; maud escapes the markup.

use std::fmt::Write as _;
use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use maud::{Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use toolgate_api::document::DocumentWarning;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::explain::ToolVerdict;
use toolgate_api::text::{escape_for_display, is_hidden};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::text::sentence;
pub(super) use super::text::time;
use super::text::visible_text;

/// Longest text in a cell of a table, in characters.
const CELL_CHARS: usize = 200;
/// Longest reason, in characters.
const MARKED_CHARS: usize = 1_000;
/// Longest text on a page of a list, in bytes.
pub(crate) const LIST_BYTES: usize = 4 * 1024;
/// Longest text on a page of one thing, in bytes.
pub(crate) const PAGE_BYTES: usize = 64 * 1024;
/// How long a page waits for plugins that are being compiled.
const COMPILING_PATIENCE: Duration = Duration::from_secs(5);
/// Rows of a page.
pub(crate) const ROWS: u32 = 100;

/// Characters of a path segment or a query value that stay as they are.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text on one line, with hidden characters written out.
pub(crate) fn short(text: &str) -> String {
    escape_for_display(text, CELL_CHARS)
}

/// A text on one line, with what stands between backticks as code.
pub(crate) fn with_code(text: &str) -> Markup {
    let text = escape_for_display(text, MARKED_CHARS);
    // Without a last one that closes, backticks are text.
    let is_paired = text.matches('`').count().is_multiple_of(2);
    html! {
        @if is_paired {
            @for (at, part) in text.split('`').enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } }
        } @else { (text) }
    }
}

/// Who asked or decided: the label of a token, or the name of a person, before the id, which alone is certain and whole on demand.
pub(crate) fn token(id: &str, label: Option<&str>) -> Markup {
    // People who sign in and webhooks have ids that tell who they are.
    let kind = if id.contains(':') { "" } else { "token " };
    html! {
        @match label {
            Some(label) => {
                (short(label)) " " code.quiet title={ (kind) (short(id)) } { (short(&start_of(id))) }
            },
            None => { (kind) code { (short(id)) } },
        }
    }
}

/// The first characters of an id of a token, and the last ones of a person's, which tell people of one provider apart.
fn start_of(id: &str) -> String {
    match id.rsplit_once('#') {
        Some((_, subject)) => subject.to_owned(),
        None => id.chars().take(8).collect(),
    }
}

/// A text on one line that is never cut, with hidden characters written out: what a person accepts is shown whole.
pub(crate) fn whole(text: &str) -> String {
    escape_for_display(text, usize::MAX)
}

/// A text of many lines, cut to `most_bytes`.
pub(crate) fn block(text: &str, most_bytes: usize) -> Markup {
    let kept = &text[..text.floor_char_boundary(most_bytes)];
    html! {
        pre tabindex="0" { (visible_text(kept)) }
        @if kept.len() < text.len() {
            p.quiet { "The text is cut: " (text.len() - kept.len()) " bytes more." }
        }
    }
}

/// A JSON value with indented lines.
pub(crate) fn json(value: &RawValue, most_bytes: usize) -> Markup {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(value.get());
    let text = parsed.and_then(|value| serde_json::to_string_pretty(&value));
    block(text.as_deref().unwrap_or(value.get()), most_bytes)
}

/// JSON text in a field. Hidden characters are written as escapes, which mean the same in a string.
pub(crate) fn editable(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter == '\r' || !is_hidden(letter) {
            text.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // A String takes all that is written.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

/// A path segment or query value, percent-encoded.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// A point in time, or a word in its place.
pub(crate) fn time_or(at_ms: Option<u64>, word: &str) -> Markup {
    at_ms.map_or_else(|| html! { (word) }, time)
}

/// A number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An amount of bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(|| format!("{bytes} B"), |(size, unit)| tenths(bytes, *size, unit))
}

/// A duration of microseconds.
pub(crate) fn duration(us: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(60_000_000, "min"), (1_000_000, "s"), (1_000, "ms")];
    let unit = UNITS.iter().find(|(size, _)| us >= *size);
    unit.map_or_else(|| format!("{us} µs"), |(size, unit)| tenths(us, *size, unit))
}

fn tenths(amount: u64, unit: u64, name: &str) -> String {
    format!("{}.{} {name}", amount / unit, amount % unit * 10 / unit)
}

/// The first digits of a digest, with all of them as the title.
pub(crate) fn digest(digest: &str) -> Markup {
    let start: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
    html! { code title=(short(digest)) { (short(&start)) } }
}

/// A table that scrolls by itself on narrow screens. `label` names it for screen readers. `#` before a heading says that its
/// column has numbers, in cells `td.number`, which it is aligned with.
pub(crate) fn table(label: &str, headings: &[&str], rows: &Markup) -> Markup {
    html! {
        div.table role="region" aria-label=(label) tabindex="0" {
            table {
                thead {
                    tr {
                        @for heading in headings {
                            @match heading.strip_prefix('#') {
                                Some(heading) => { th.number scope="col" { (heading) } },
                                None => { th scope="col" { (heading) } },
                            }
                        }
                    }
                }
                tbody { (label_cells(headings, rows)) }
            }
        }
    }
}

/// Rows whose cells name their headings, for narrow screens, which show each row as a card. Cells have no tables.
pub(crate) fn label_cells(headings: &[&str], rows: &Markup) -> Markup {
    let mut text = String::with_capacity(rows.0.len() + rows.0.len() / 8);
    for row in rows.0.split_inclusive("</tr>") {
        let mut headings = headings.iter().map(|heading| heading.trim_start_matches('#'));
        let mut rest = row;
        // The markup of texts is escaped, so that a tag is a tag.
        while let Some(at) = rest.find("<t") {
            let (before, tag) = rest.split_at(at);
            text.push_str(before);
            let (name, behind) = tag.split_at(tag.len().min(3));
            text.push_str(name);
            rest = behind;
            if !matches!(name, "<td" | "<th") || !behind.starts_with(['>', ' ']) {
                continue;
            }
            let heading = headings.next().unwrap_or_default();
            // The first cell heads the card.
            if name == "<td" && !heading.is_empty() && !behind.starts_with(" data-label") {
                let label = html! { span data-label=(heading) {} }.0;
                text.push_str(label.trim_start_matches("<span").trim_end_matches("></span>"));
            }
        }
        text.push_str(rest);
    }
    PreEscaped(text)
}

/// Pairs of a term and its value.
pub(crate) fn facts(pairs: &[(&str, Markup)]) -> Markup {
    html! { dl { @for (term, value) in pairs { dt { (term) } dd { (value) } } } }
}

/// A word with a colour: `good`, `warn`, `bad`, or none.
pub(crate) fn badge(tone: &str, word: &str) -> Markup {
    html! { span class=(format!("state {tone}")) { (short(word)) } }
}

/// The verdict on a tool in words.
pub(crate) fn verdict(verdict: ToolVerdict) -> Markup {
    match verdict {
        ToolVerdict::Allowed => badge("good", "allowed"),
        ToolVerdict::NeedsApproval => badge("warn", "asks a person"),
        ToolVerdict::Refused => badge("bad", "refused"),
    }
}

/// Waits for plugins that are being compiled, as long as a person waits for a page. Returns which are left, in words.
pub(crate) async fn wait_for_compiling(app: &App) -> Option<String> {
    let registry = &app.services().registry;
    match tokio::time::timeout(COMPILING_PATIENCE, registry.wait_for_all_tools()).await {
        Ok(()) => None,
        Err(_) => registry.snapshot().compiling_text(),
    }
}

/// The note of a page that lacks plugins.
pub(crate) fn compiling_note(compiling: Option<&str>) -> Markup {
    html! {
        @if let Some(compiling) = compiling {
            div.notice.warn role="status" { p { "The daemon is " (compiling) ". This page lacks them: open it again later." } }
        }
    }
}

/// Why a form was refused, with the way out.
pub(crate) fn notice(error: &CallError) -> Markup {
    html! {
        div.notice.error role="alert" {
            p { strong { (sentence(&short(&error.message))) "." } }
            @if !error.hint.is_empty() { p { (sentence(&short(&error.hint))) "." } }
            p.quiet { "Code " code { (error.error_type) } }
        }
    }
}

/// The note of a list without entries, which says what to do first.
pub(crate) fn empty(what: &str, first: &str, command: Option<&str>) -> Markup {
    html! {
        div.empty {
            p { (what) " " (first) }
            @if let Some(command) = command { pre tabindex="0" { code { (command) } } }
        }
    }
}

/// The link to the next page: the same address with another cursor.
pub(crate) fn next_page(uri: &Uri, cursor: Option<&str>) -> Markup {
    let Some(cursor) = cursor else { return html! {} };
    let mut address = format!("{}?", uri.path());
    for pair in pairs(uri).filter(|pair| !pair.starts_with("cursor=")) {
        address.push_str(pair);
        address.push('&');
    }
    // A String takes all that is written.
    let _ = write!(address, "cursor={}", percent_encode(cursor));
    html! { nav aria-label="More" { a.button rel="next" href=(address) { "Next page" } } }
}

/// A field of a filter form.
pub(crate) fn filter(name: &str, label: &str, value: Option<&str>) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input id=(name) name=(name) value=(short(value.unwrap_or_default())) autocomplete="off";
        }
    }
}

/// A choice of a filter form. The first is any.
pub(crate) fn choice(name: &str, label: &str, value: Option<&str>, options: &[&str]) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { "any" }
                @for option in options { option value=(option) selected[Some(*option) == value] { (option) } }
            }
        }
    }
}

/// The value of a query parameter, if there is one that is not empty.
pub(crate) fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let pair = pairs(uri).find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name))?;
    let text = pair.1.replace('+', " ");
    percent_encoding::percent_decode_str(&text).decode_utf8().ok().map(|text| text.into_owned())
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty() && !pair.ends_with('='))
}

/// The query parameters without the empty ones, which a form sends for its empty fields.
pub(crate) struct Filters<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Filters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        filters(&parts.uri)
    }
}

fn filters<T: DeserializeOwned>(uri: &Uri) -> Result<Filters<T>, Problem> {
    let query: Vec<&str> = pairs(uri).collect();
    let refusal = |why: String| {
        Problem::new(
            ErrorType::InvalidRequest,
            format!("a filter cannot be used: {}", short(&why)),
            "correct the filter, or open the page without it",
        )
    };
    let uri = Uri::try_from(format!("/?{}", query.join("&"))).map_err(|error| refusal(error.to_string()))?;
    let Query(value) = Query::try_from_uri(&uri).map_err(|error| refusal(error.body_text()))?;
    Ok(Filters(value))
}

/// Warnings with their places in a document.
pub(super) fn warnings_list(warnings: &[DocumentWarning]) -> Markup {
    html! {
        ul {
            @for warning in warnings.iter().take(ROWS as usize) {
                li {
                    (badge("warn", &warning.code)) " "
                    @if !warning.path.is_empty() { code { (short(&warning.path)) } ": " }
                    (super::text::cut(&warning.message, LIST_BYTES))
                    @if let Some(nearest) = &warning.nearest { " Did you mean " code { (short(nearest)) } "?" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_amounts_are_written_short() {
        assert_eq!(number(0), "0");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!((bytes(1_023), bytes(1_536)), ("1023 B".to_owned(), "1.5 KiB".to_owned()));
        assert_eq!((duration(999), duration(1_250)), ("999 µs".to_owned(), "1.2 ms".to_owned()));
    }

    #[test]
    fn o6_the_heading_of_numbers_is_aligned_as_they_are() {
        let shown = table("Things", &["Thing", "#Calls"], &html! {}).into_string();
        let headings = "<th scope=\"col\">Thing</th><th class=\"number\" scope=\"col\">Calls</th>";
        assert!(shown.contains(headings), "{shown}");
    }

    #[test]
    fn o6_cells_name_their_headings_for_narrow_screens() {
        let rows = html! { tr { th scope="row" { "<td>" } td { time { "1" } } td.number { "2" } } };
        let shown = label_cells(&["Thing", "When", "#Calls"], &rows).into_string();
        let expected = "<tr><th scope=\"row\">&lt;td&gt;</th><td data-label=\"When\"><time>1</time></td>\
                        <td data-label=\"Calls\" class=\"number\">2</td></tr>";
        assert_eq!(shown, expected);
    }

    #[test]
    fn o6_backticks_mark_code() {
        assert_eq!(
            with_code("the `<a>` of `b`").into_string(),
            "the <code>&lt;a&gt;</code> of <code>b</code>"
        );
        assert_eq!(with_code("a ` b").into_string(), "a ` b");
    }

    #[test]
    fn o6_texts_of_others_are_data_and_cut() {
        let shown = block("<script>\u{202e}x", LIST_BYTES).into_string();
        assert!(shown.contains("&lt;script&gt;\\u{202e}x"), "{shown}");
        let shown = block(&"é".repeat(LIST_BYTES), LIST_BYTES).into_string();
        assert!(shown.contains("The text is cut: 4096 bytes more."), "{}", shown.len());
        assert_eq!(percent_encode("a/b?c=d&é"), "a%2Fb%3Fc%3Dd%26%C3%A9");
    }

    #[test]
    fn o6_json_in_a_field_shows_hidden_characters_and_means_the_same() {
        let json = "{\"a\": \"x\u{202e}\u{e0041}é\"}";
        let shown = editable(json);
        assert_eq!(shown, "{\"a\": \"x\\u202e\\udb40\\udc41é\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(json));
    }

    #[test]
    fn o6_empty_filters_are_left_out_and_kept_ones_stay_on_the_next_page() {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Known {
            agent: Option<String>,
            limit: Option<u32>,
        }
        let uri = Uri::from_static("/console/calls?agent=&limit=5&cursor=9");
        assert!(filters::<Known>(&uri).is_err(), "an unknown filter");
        let known: Filters<Known> = filters(&Uri::from_static("/console/calls?agent=&limit=5")).unwrap();
        assert_eq!((known.0.agent, known.0.limit), (None, Some(5)));
        let link = next_page(&uri, Some("1 2")).into_string();
        assert!(link.contains("/console/calls?limit=5&amp;cursor=1%202\""), "{link}");
    }
}
