//! Labelled fields of forms.

use maud::{Markup, Render, html};

/// A label_cells text field with its hint, which `aria-describedby` names.
pub(super) struct Field<'a> {
    name: &'a str,
    id: &'a str,
    label: &'a str,
    value: String,
    hint: Option<Markup>,
    kind: &'a str,
    is_required: bool,
    /// The least and the greatest number.
    bounds: Option<(u32, Option<u32>)>,
    max_chars: Option<u32>,
    /// Lines of a text area.
    lines: Option<u32>,
}

impl<'a> Field<'a> {
    /// A field of one line, whose id is its name.
    pub(super) fn new(name: &'a str, label: &'a str) -> Self {
        Self {
            name,
            id: name,
            label,
            value: String::new(),
            hint: None,
            kind: "text",
            is_required: false,
            bounds: None,
            max_chars: None,
            lines: None,
        }
    }

    /// The text that the field has at first.
    pub(super) fn value(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    /// What to write, below the field.
    pub(super) fn hint(self, hint: impl Render) -> Self {
        Self { hint: Some(hint.render()), ..self }
    }

    /// Another id, for a page with two fields of the name.
    pub(super) fn id(self, id: &'a str) -> Self {
        Self { id, ..self }
    }

    pub(super) fn required(self, is_required: bool) -> Self {
        Self { is_required, ..self }
    }

    pub(super) fn max_chars(self, most: u32) -> Self {
        Self { max_chars: Some(most), ..self }
    }

    /// A number from `least` on.
    pub(super) fn number(self, least: u32, most: Option<u32>) -> Self {
        Self { kind: "number", bounds: Some((least, most)), ..self }
    }

    /// A field of another type of HTML.
    pub(super) fn kind(self, kind: &'a str) -> Self {
        Self { kind, ..self }
    }

    /// A text area.
    pub(super) fn lines(self, lines: u32) -> Self {
        Self { lines: Some(lines), ..self }
    }
}

impl Render for Field<'_> {
    fn render(&self) -> Markup {
        let hint_id = self.hint.as_ref().map(|_| format!("{}-hint", self.id));
        let (min, max) = (self.bounds.map(|(least, _)| least), self.bounds.and_then(|(_, most)| most));
        let size = self.lines.map(|lines| if lines > 8 { "tall" } else { "short" });
        html! {
            label for=(self.id) { (self.label) }
            @if let Some(lines) = self.lines {
                // A browser leaves out the first line feed.
                textarea class=[size] id=(self.id) name=(self.name) rows=(lines) required[self.is_required] maxlength=[self.max_chars]
                    spellcheck="false" aria-describedby=[hint_id.as_deref()] { "\n" (self.value) }
            } @else {
                input type=(self.kind) id=(self.id) name=(self.name) value=(self.value) required[self.is_required] min=[min] max=[max]
                    maxlength=[self.max_chars] autocomplete="off" spellcheck="false" aria-describedby=[hint_id.as_deref()];
            }
            @if let Some(hint) = &self.hint { p.hint id=[hint_id.as_deref()] { (hint) } }
        }
    }
}
