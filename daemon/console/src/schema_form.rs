//! Form fields made from a JSON Schema, for objects whose members are texts, numbers, choices or yes and no.

use maud::{Markup, html};
use serde_json::{Map, Value};
use toolgate_api::error::ErrorType;
use toolgate_api::text::hidden_character;
use toolgate_audit::sha256;
use toolgate_http::problem::Problem;

use super::elements::short;
use super::form::FormFields;

/// Most fields of a form. A greater schema is filled in as JSON.
const FIELDS: usize = 50;

/// The fields of an object.
pub(super) struct SchemaForm {
    fields: Vec<Field>,
    /// The hash of the schema, since fields by position mean nothing under another one.
    schema: String,
}

struct Field {
    name: String,
    title: Option<String>,
    description: Option<String>,
    is_required: bool,
    kind: FieldKind,
}

enum FieldKind {
    Text,
    Number,
    YesNo,
    Choice(Vec<String>),
}

impl SchemaForm {
    /// The form of a schema; none where a member has a shape that a field cannot have.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let properties = schema.get("properties")?.as_object().filter(|members| members.len() <= FIELDS)?;
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let field = |(name, member): (&String, &Value)| {
            let text = |key: &str| member.get(key).and_then(Value::as_str).map(str::to_owned);
            Some(Field {
                name: name.clone(),
                title: text("title"),
                description: text("description"),
                is_required: required.contains(&name.as_str()),
                kind: kind(member)?,
            })
        };
        let fields = properties.iter().map(field).collect::<Option<Vec<_>>>()?;
        Some(Self { fields, schema: sha256(schema.to_string().as_bytes()).to_string() })
    }

    /// Whether each of these values can stand in a field. A text with hidden characters or lines cannot.
    pub(super) fn takes(&self, values: &Map<String, Value>) -> bool {
        let is_plain = |value: &Value| match value {
            Value::String(text) => hidden_character(text).is_none() && !text.contains('\n'),
            value => value.is_number() || value.is_boolean(),
        };
        values
            .iter()
            .all(|(name, value)| is_plain(value) && self.fields.iter().any(|field| field.name == *name))
    }

    /// The fields with their values.
    pub(super) fn fields(&self, values: &Map<String, Value>) -> Markup {
        html! {
            input type="hidden" name="fields" value="1";
            input type="hidden" name="schema" value=(self.schema);
            @for (at, field) in self.fields.iter().enumerate() { (field.to_markup(at, values.get(&field.name))) }
        }
    }

    /// The values of a form that was shown for this schema; none of a form without its fields.
    ///
    /// # Errors
    ///
    /// `CONFLICT` where the fields are those of another schema.
    pub(super) fn read_shown(
        schema: Option<&Value>,
        form: &FormFields,
    ) -> Result<Option<Map<String, Value>>, Problem> {
        if !form.is_checked("fields") {
            return Ok(None);
        }
        let fields = schema.and_then(Self::of).filter(|fields| fields.schema == form.text("schema"));
        fields.map(|fields| Some(fields.read(form))).ok_or_else(|| {
            let hint = "fill in the fields of the present schema; the browser's way back has what you wrote";
            Problem::new(ErrorType::Conflict, "the schema changed after the form was shown", hint)
        })
    }

    /// The values that were filled in. Text that is no number stays text, so that the schema refuses it and the
    /// person sees it again.
    fn read(&self, form: &FormFields) -> Map<String, Value> {
        let filled = self.fields.iter().enumerate().filter_map(|(at, field)| {
            let text = form.text(&input_name(at));
            let value = match field.kind {
                _ if text.is_empty() => return None,
                FieldKind::Text | FieldKind::Choice(_) => text.into(),
                FieldKind::YesNo => (text == "true").into(),
                FieldKind::Number => number(text).unwrap_or_else(|| text.into()),
            };
            Some((field.name.clone(), value))
        });
        filled.collect()
    }
}

fn number(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim()).ok().filter(Value::is_number)
}

/// Names by position, since a member may have any name.
fn input_name(at: usize) -> String {
    format!("field-{at}")
}

fn kind(member: &Value) -> Option<FieldKind> {
    if let Some(choices) = member.get("enum") {
        let choices: Option<Vec<String>> =
            choices.as_array()?.iter().map(|choice| choice.as_str().map(str::to_owned)).collect();
        return choices.filter(|choices| choices.len() <= FIELDS).map(FieldKind::Choice);
    }
    match member.get("type")?.as_str()? {
        "string" => Some(FieldKind::Text),
        "integer" | "number" => Some(FieldKind::Number),
        "boolean" => Some(FieldKind::YesNo),
        _ => None,
    }
}

impl Field {
    fn to_markup(&self, at: usize, value: Option<&Value>) -> Markup {
        let text = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let text = text.unwrap_or_default();
        let (id, hint) = (input_name(at), format!("hint-{at}"));
        let describes = self.description.as_ref().map(|_| hint.as_str());
        html! {
            label for=(id) {
                (short(self.title.as_deref().unwrap_or(&self.name)))
                @if self.is_required { " (needed)" }
            }
            @match &self.kind {
                FieldKind::Text => { input id=(id) name=(id) value=(text) aria-describedby=[describes] autocomplete="off"; }
                FieldKind::Number => { input id=(id) name=(id) value=(text) aria-describedby=[describes] inputmode="decimal" autocomplete="off"; }
                FieldKind::YesNo => (choices(&id, describes, &text, &[("true", "yes"), ("false", "no")])),
                FieldKind::Choice(words) => {
                    @let pairs: Vec<(&str, &str)> = words.iter().map(|word| (word.as_str(), word.as_str())).collect();
                    (choices(&id, describes, &text, &pairs))
                }
            }
            @if let Some(description) = &self.description { p.hint id=(hint) { (short(description)) } }
        }
    }
}

fn choices(id: &str, describes: Option<&str>, chosen: &str, pairs: &[(&str, &str)]) -> Markup {
    html! {
        select id=(id) name=(id) aria-describedby=[describes] {
            option value="" { "not set" }
            @for (value, word) in pairs { option value=(value) selected[*value == chosen] { (short(word)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn o6_a_schema_of_plain_members_has_fields_and_others_have_none() {
        let schema = json!({"type": "object", "required": ["unit"], "properties": {
            "unit": {"enum": ["celsius", "kelvin"], "description": "<b>"},
            "days": {"type": "integer"}, "night": {"type": "boolean"}, "place": {"type": "string", "title": "Place"},
        }});
        let form = SchemaForm::of(&schema).unwrap();
        let values = json!({"unit": "kelvin", "days": 3, "night": false, "place": "\"><script>"});
        let shown = form.fields(values.as_object().unwrap()).into_string();
        assert!(form.takes(values.as_object().unwrap()));
        assert!(!form.takes(json!({"other": 1}).as_object().unwrap()));
        assert!(
            shown.contains("<option value=\"kelvin\" selected>") && shown.contains("value=\"3\""),
            "{shown}"
        );
        assert!(!shown.contains("<script>") && shown.contains("&lt;b&gt;"), "{shown}");
        let nested = json!({"properties": {"list": {"type": "array"}}});
        assert!(SchemaForm::of(&nested).is_none() && SchemaForm::of(&json!({})).is_none());
    }

    #[test]
    fn o6_fields_are_read_under_the_schema_that_was_shown() {
        let schema = |names: [&str; 2]| {
            let members = names.map(|name| (name.to_owned(), json!({"type": "string"})));
            json!({"properties": Map::from_iter(members)})
        };
        let (shown, other) = (schema(["from", "to"]), schema(["a", "to"]));
        let hash = SchemaForm::of(&shown).unwrap().schema;
        let form =
            FormFields::of(&[("fields", "1"), ("schema", &hash), ("field-0", "ann"), ("field-1", "bea")]);
        let read = |schema: Option<&Value>, form: &FormFields| {
            SchemaForm::read_shown(schema, form).map_err(|Problem(error)| error.error_type)
        };
        let values = json!({"from": "ann", "to": "bea"}).as_object().cloned();
        assert_eq!(read(Some(&shown), &form), Ok(values));
        assert_eq!(read(Some(&other), &form), Err(ErrorType::Conflict));
        assert_eq!(read(None, &form), Err(ErrorType::Conflict));
        assert_eq!(read(Some(&shown), &FormFields::of(&[("fields", "1")])), Err(ErrorType::Conflict));
        assert_eq!(read(Some(&shown), &FormFields::default()), Ok(None));
    }

    #[test]
    fn o6_a_number_is_a_number_and_other_text_stays() {
        assert_eq!(number(" 2.5 "), Some(json!(2.5)));
        assert_eq!((number("two"), number("true")), (None, None));
    }
}
