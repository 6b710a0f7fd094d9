//! Formats the violations of a schema: the place, the expected and the found value (R2).
//!
//! A message uses the words of the call, not of JSON Schema, and ends so that the tool's name can follow it: "Missing
//! required argument 'path'" + " for tool 'call_files_write'". The found value is shown as its type and a short excerpt with
//! hidden characters escaped, and as its type alone if the plugin asks for redaction.

use std::collections::BTreeSet;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use toolgate_api::nearest;
use toolgate_api::read::pointer as child_pointer;
use toolgate_api::text::{escape_for_display, json_start, list};

use super::SchemaRole;
use super::hint::{ANY_VALUE, distinct, either, kind, value};

/// Longest excerpt of a value, in characters.
const EXCERPT_CHARS: usize = 80;
/// Longest name or pointer in a message, in characters.
const PLACE_CHARS: usize = 120;
/// Alternatives that a message lists.
const OPTIONS: usize = 12;
/// Longest text of `expected`, in characters.
const EXPECTED_CHARS: usize = 1_000;
/// Longest JSON pointer of a violation.
const POINTER_BYTES: usize = 1_024;
/// Alternatives whose types are described, and properties that are tried as the tag of alternatives.
const INSPECTED: usize = 256;
/// Levels of nested alternatives that a violation is followed into.
const DEPTH: usize = 8;

/// One place where a value is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer of the place, or of the missing property.
    pub pointer: String,
    /// The expected value.
    pub expected: String,
    /// The found value: its type and a short excerpt.
    pub found: String,
    /// The message, which the tool's name can follow.
    pub message: String,
}

impl Violation {
    /// The message, if nothing follows it.
    pub fn sentence(&self) -> &str {
        self.message.trim_end_matches(',')
    }

    /// The value was not validated, since its cost exceeds the limits.
    pub(super) fn not_validated(role: SchemaRole, what: &str) -> Self {
        let words = Words::of(role);
        Self {
            pointer: String::new(),
            expected: "a smaller or flatter value".to_owned(),
            found: format!("a value {what}"),
            message: format!("{} {} {what} to be checked against the schema,", words.whole, words.be),
        }
    }

    /// Shortens a pointer that is too long to the nearest parent that is not.
    pub(super) fn within_bounds(mut self) -> Self {
        if self.pointer.len() > POINTER_BYTES {
            let parts = self.pointer.match_indices('/').map(|(end, _)| end);
            let end = parts.take_while(|end| *end <= POINTER_BYTES).last().unwrap_or_default();
            self.pointer.truncate(end);
        }
        self
    }
}

/// The words for arguments and for results.
struct Words {
    whole: &'static str,
    be: &'static str,
    part: &'static str,
    part_inside: &'static str,
}

impl Words {
    fn of(role: SchemaRole) -> Self {
        match role {
            SchemaRole::Input => {
                Self { whole: "The arguments", be: "are", part: "Argument", part_inside: "argument" }
            }
            SchemaRole::Output => Self { whole: "The result", be: "is", part: "Field", part_inside: "field" },
        }
    }
}

/// Formats the errors of one validation.
pub(super) struct ViolationFormatter<'a> {
    pub(super) schema: &'a Value,
    pub(super) role: SchemaRole,
    /// JSON pointers whose values are not shown.
    pub(super) redacted: &'a [String],
}

impl ViolationFormatter<'_> {
    /// Returns one violation for each unknown name, and one for any other error.
    pub(super) fn violations(&self, error: &ValidationError<'_>) -> Vec<Violation> {
        self.violations_within(error, DEPTH)
    }

    /// The value is invalid, and listing its errors exceeds the limits.
    pub(super) fn without_place(&self, instance: &Value) -> Violation {
        let words = Words::of(self.role);
        Violation {
            pointer: String::new(),
            expected: kind(self.schema, self.schema),
            found: self.describe_found("", instance),
            message: format!("{} {} invalid, and too large to say where,", words.whole, words.be),
        }
    }

    fn violations_within(&self, error: &ValidationError<'_>, depth: usize) -> Vec<Violation> {
        let pointer = error.instance_path().as_str();
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                vec![self.missing(error, pointer, property.as_str().unwrap_or_default())]
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected
                .iter()
                .take(super::VIOLATIONS)
                .map(|name| self.unknown(error, pointer, name))
                .collect(),
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                let variant = match self.variant(error) {
                    Some(Variant::At(index)) => context.get(index).map(Vec::as_slice),
                    Some(Variant::Violation(violation)) => return vec![violation],
                    None => closest(context),
                };
                match variant.filter(|inner| depth > 0 && !inner.is_empty()) {
                    Some(inner) => {
                        let violations =
                            inner.iter().flat_map(|error| self.violations_within(error, depth - 1));
                        violations.take(super::VIOLATIONS).collect()
                    }
                    None => vec![self.mismatch(error, pointer, self.alternatives(error, context))],
                }
            }
            ValidationErrorKind::OneOfMultipleValid { .. } => {
                vec![self.mismatch(error, pointer, self.only_one(error))]
            }
            kind => vec![self.mismatch(error, pointer, describe_expected(kind))],
        }
    }

    /// Describes alternatives of which several fit.
    fn only_one(&self, error: &ValidationError<'_>) -> String {
        match self.branches(error).and_then(|branches| Tag::of(self.schema, branches)) {
            Some(Tag::Key(names)) => {
                format!("an object with only one of {}", list(names.iter().map(|(_, name)| *name), OPTIONS))
            }
            _ => match self.alternatives(error, &[]) {
                forms if forms == ANY_VALUE => describe_expected(error.kind()),
                forms => format!("of only one of these forms: {forms}"),
            },
        }
    }

    fn missing(&self, error: &ValidationError<'_>, pointer: &str, name: &str) -> Violation {
        let expected = self.parent_schema(error).and_then(|schema| schema.get("properties")?.get(name));
        let pointer = child_pointer(pointer, name);
        Violation {
            expected: expected.map_or_else(|| "a value".to_owned(), |schema| kind(self.schema, schema)),
            found: "nothing".to_owned(),
            message: format!("Missing required {} '{}'", Words::of(self.role).part_inside, place(&pointer)),
            pointer,
        }
    }

    fn unknown(&self, error: &ValidationError<'_>, pointer: &str, name: &str) -> Violation {
        let known = self.parent_schema(error).and_then(|schema| schema.get("properties")?.as_object());
        let names = || known.into_iter().flat_map(|known| known.keys()).map(String::as_str);
        let pointer = child_pointer(pointer, name);
        let nearest = nearest(name, names())
            .map(|name| format!(" (did you mean '{}'?)", escape_for_display(name, PLACE_CHARS)));
        let part = Words::of(self.role).part_inside;
        Violation {
            expected: match known.is_some_and(|known| !known.is_empty()) {
                true => format!("only {}", list(names(), OPTIONS)),
                false => format!("no {part}"),
            },
            found: format!("{part} `{}`", escape_for_display(name, EXCERPT_CHARS)),
            message: format!("Unknown {part} '{}'{}", place(&pointer), nearest.unwrap_or_default()),
            pointer,
        }
    }

    /// Finds the alternative that the value selects, if the alternatives are objects with a tag.
    fn variant(&self, error: &ValidationError<'_>) -> Option<Variant> {
        let found = error.instance().as_object()?;
        let pointer = error.instance_path().as_str();
        match Tag::of(self.schema, self.branches(error)?)? {
            Tag::Field { name, values } => {
                let Some(tag) = found.get(name) else {
                    let missing = self.missing(error, pointer, name);
                    let expected = one_of(&values);
                    let message = format!("{} ({expected})", missing.message);
                    return Some(Variant::Violation(Violation { expected, message, ..missing }));
                };
                let selected = values.iter().find(|(_, value)| *value == tag);
                Some(match selected {
                    Some((index, _)) => Variant::At(*index),
                    None => Variant::Violation(self.mismatch_at(
                        &child_pointer(pointer, name),
                        tag,
                        one_of(&values),
                    )),
                })
            }
            Tag::Key(names) => {
                let mut selected = names.iter().filter(|(_, name)| found.contains_key(*name));
                if let (Some((index, _)), None) = (selected.next(), selected.next()) {
                    return Some(Variant::At(*index));
                }
                let names = list(names.iter().map(|(_, name)| *name), OPTIONS);
                Some(Variant::Violation(self.mismatch(
                    error,
                    pointer,
                    format!("an object with one of {names}"),
                )))
            }
        }
    }

    fn branches(&self, error: &ValidationError<'_>) -> Option<&Vec<Value>> {
        self.parent_schema(error)?.get(error.kind().keyword())?.as_array()
    }

    fn mismatch(&self, error: &ValidationError<'_>, pointer: &str, expected: String) -> Violation {
        self.mismatch_at(pointer, error.instance(), expected)
    }

    fn mismatch_at(&self, pointer: &str, instance: &Value, expected: String) -> Violation {
        let found = self.describe_found(pointer, instance);
        let expected = escape_for_display(&expected, EXPECTED_CHARS);
        let words = Words::of(self.role);
        let subject = match pointer {
            "" => words.whole.to_owned(),
            pointer => format!("{} '{}'", words.part, place(pointer)),
        };
        let message = format!("{subject} must be {expected}, not {found},");
        Violation { pointer: pointer.to_owned(), expected, found, message }
    }

    fn alternatives(&self, error: &ValidationError<'_>, context: &[Vec<ValidationError<'_>>]) -> String {
        // If the value is an object, "object" would not help, but its required properties do.
        let kind_of = |(index, branch): (usize, &Value)| {
            let names = required_names(self.schema, branch);
            let lacks_one =
                context.is_empty() || names.iter().any(|name| error.instance().get(name).is_none());
            match kind(self.schema, branch) {
                kind if kind == "object"
                    && error.instance().is_object()
                    && !names.is_empty()
                    && lacks_one =>
                {
                    format!("an object with {}", list(names.into_iter(), OPTIONS))
                }
                // Neither "any value" nor "an object" tells what is wrong with the object that was found.
                kind if kind == ANY_VALUE || kind == "object" && error.instance().is_object() => {
                    let first = context.get(index).and_then(|errors| errors.first());
                    let here = error.instance_path().as_str();
                    first.map_or(with_article(&kind), |first| condition(first, here))
                }
                kind => with_article(&kind),
            }
        };
        match self.branches(error) {
            Some(branches) => either(branches.iter().enumerate().take(INSPECTED).map(kind_of), OPTIONS),
            None => format!("one of {} forms", context.len()),
        }
    }

    /// Returns the schema that has the failed keyword.
    fn parent_schema(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(parent)
    }

    fn describe_found(&self, pointer: &str, instance: &Value) -> String {
        let contains = |above: &str, below: &str| {
            below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_hidden =
            self.redacted.iter().any(|redacted| contains(redacted, pointer) || contains(pointer, redacted));
        match is_hidden {
            true => type_name(instance).to_owned(),
            false => excerpt(instance),
        }
    }
}

/// The alternative that a value selects by its tag.
enum Variant {
    At(usize),
    /// The tag is missing, or matches no alternative.
    Violation(Violation),
}

/// The tag of alternatives that are objects, like a serialized Rust enum.
enum Tag<'s> {
    /// The value of a property (internally tagged): each value with the index of its alternative.
    Field { name: &'s str, values: Vec<(usize, &'s Value)> },
    /// The only property of each alternative (externally tagged).
    Key(Vec<(usize, &'s str)>),
}

impl<'s> Tag<'s> {
    fn of(root: &'s Value, branches: &'s [Value]) -> Option<Self> {
        let objects: Vec<_> =
            branches.iter().enumerate().filter(|(_, branch)| kind(root, branch) == "object").collect();
        let (_, first) = objects.first().filter(|_| objects.len() > 1)?;
        let names = properties(root, first).flat_map(|properties| properties.keys());
        let by_field = names.take(INSPECTED).map(String::as_str).find_map(|name| {
            let values = objects.iter().map(|(index, branch)| Some((*index, constant(root, branch, name)?)));
            Some(Self::Field { name, values: values.collect::<Option<_>>()? })
        });
        let by_key = || {
            let names = objects.iter().map(|(index, branch)| {
                // The property may be described beside the alternatives.
                let is_only = properties(root, branch).map(serde_json::Map::len).sum::<usize>() <= 1;
                match required_names(root, branch)[..] {
                    [name] if is_only => Some((*index, name)),
                    _ => None,
                }
            });
            let names: Vec<(usize, &str)> = names.collect::<Option<_>>()?;
            let are_distinct =
                names.iter().map(|(_, name)| name).collect::<BTreeSet<_>>().len() == names.len();
            are_distinct.then_some(Self::Key(names))
        };
        by_field.or_else(by_key)
    }
}

/// Returns a schema and the target of its `$ref`.
fn with_target<'s>(root: &'s Value, schema: &'s Value) -> impl Iterator<Item = &'s Value> {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    std::iter::once(schema).chain(target.and_then(|target| root.pointer(target)))
}

fn properties<'s>(
    root: &'s Value,
    schema: &'s Value,
) -> impl Iterator<Item = &'s serde_json::Map<String, Value>> {
    with_target(root, schema).filter_map(|schema| schema.get("properties")?.as_object())
}

/// Returns the only value that a property may have.
fn constant<'s>(root: &'s Value, schema: &'s Value, name: &str) -> Option<&'s Value> {
    properties(root, schema).find_map(|properties| {
        let field = properties.get(name)?;
        let only = || field.get("enum")?.as_array().filter(|options| options.len() == 1)?.first();
        field.get("const").or_else(only)
    })
}

/// Returns the required properties of an object.
fn required_names<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s str> {
    let names = with_target(root, schema).filter_map(|schema| schema.get("required")?.as_array());
    names.flatten().filter_map(Value::as_str).collect()
}

fn one_of(values: &[(usize, &Value)]) -> String {
    format!("one of {}", distinct(values.iter().map(|(_, option)| value(option)), OPTIONS).join(", "))
}

/// Returns the only alternative that did not fail at the type of the value itself, if there is exactly one.
fn closest<'a, 'b>(context: &'a [Vec<ValidationError<'b>>]) -> Option<&'a [ValidationError<'b>]> {
    let shallowest = |errors: &[ValidationError<'_>]| {
        errors.iter().map(|error| error.instance_path().segments().count()).min().unwrap_or_default()
    };
    let here = context.iter().map(|errors| shallowest(errors)).min()?;
    let mut candidates = context.iter().filter(|errors| {
        !errors.iter().any(|error| {
            let at_value = error.instance_path().segments().count() == here;
            let decides = matches!(
                error.kind(),
                ValidationErrorKind::Type { .. }
                    | ValidationErrorKind::Constant { .. }
                    | ValidationErrorKind::Enum { .. }
            );
            at_value && decides
        })
    });
    let first = candidates.next()?;
    candidates.next().is_none().then_some(first.as_slice())
}

/// Describes what one alternative demands of the value at `here`, to follow "must be …".
fn condition(error: &ValidationError<'_>, here: &str) -> String {
    let expected = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = escape_for_display(property.as_str().unwrap_or_default(), PLACE_CHARS);
            format!("an object with `{name}`")
        }
        kind => describe_expected(kind),
    };
    match error.instance_path().as_str().strip_prefix(here).and_then(|inner| inner.strip_prefix('/')) {
        Some(inner) => format!("a value whose '{}' is {expected}", escape_for_display(inner, PLACE_CHARS)),
        None => expected,
    }
}

/// Describes what a keyword expects, to follow "must be …".
fn describe_expected(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as Kind;
    let shown = |text: &str| escape_for_display(text, PLACE_CHARS);
    match kind {
        Kind::Type { kind: TypeKind::Single(kind) } => with_article(kind.as_str()),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            either(kinds.into_iter().map(|kind| with_article(kind.as_str())), OPTIONS)
        }
        Kind::Enum { options } => match options.as_array() {
            Some(options) => format!("one of {}", distinct(options.iter().map(value), OPTIONS).join(", ")),
            None => "one of the allowed values".to_owned(),
        },
        Kind::Constant { expected_value } => value(expected_value),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("a string of at least {limit} characters"),
        Kind::MaxLength { limit } => format!("a string of at most {limit} characters"),
        Kind::Pattern { pattern } => format!("a string that matches `{}`", shown(pattern)),
        Kind::Format { format } => format!("a string in the format `{}`", shown(format)),
        Kind::ContentEncoding { content_encoding } => {
            format!("a string encoded as `{}`", shown(content_encoding))
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("text of type `{}`", shown(content_media_type))
        }
        Kind::FromUtf8 { .. } => "a string that decodes to UTF-8".to_owned(),
        Kind::MinItems { limit } => format!("an array of at least {limit} items"),
        Kind::MaxItems { limit } => format!("an array of at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("an array of at most {limit} items"),
        Kind::UnevaluatedItems { .. } => "an array without further items".to_owned(),
        Kind::UniqueItems => "an array without equal items".to_owned(),
        Kind::Contains => "an array that contains the items it must".to_owned(),
        Kind::MinProperties { limit } => format!("an object of at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("an object of at most {limit} properties"),
        Kind::PropertyNames { error } => {
            format!("an object with other keys: each must be {}", describe_expected(error.kind()))
        }
        Kind::OneOfMultipleValid { .. } => "of exactly one of the allowed forms".to_owned(),
        Kind::FalseSchema => "left out".to_owned(),
        Kind::Not { schema } => format!("other than what `{}` describes", value(schema)),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => "of one of the allowed forms".to_owned(),
        Kind::Required { .. } | Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            "an object with the properties that the schema names".to_owned()
        }
        Kind::BacktrackLimitExceeded { .. }
        | Kind::RegexEngineFailure { .. }
        | Kind::Custom { .. }
        | Kind::Referencing(_) => "a value that can be checked".to_owned(),
    }
}

/// Adds an article to a type, as in `an array of integer`; a value stays as it is.
fn with_article(kind: &str) -> String {
    match kind.split(' ').next() {
        Some("array" | "integer" | "object") => format!("an {kind}"),
        Some("boolean" | "number" | "string") => format!("a {kind}"),
        _ => kind.to_owned(),
    }
}

fn type_name(instance: &Value) -> &'static str {
    match instance {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Formats the type of a value and the beginning of its JSON text.
fn excerpt(instance: &Value) -> String {
    if instance.is_null() {
        return "null".to_owned();
    }
    format!("{} {}", type_name(instance), json_start(instance, EXCERPT_CHARS))
}

/// Formats a place: a name at the top level, a JSON pointer below.
fn place(pointer: &str) -> String {
    let name = pointer.strip_prefix('/').filter(|name| !name.contains('/'));
    match name {
        Some(name) => escape_for_display(&name.replace("~1", "/").replace("~0", "~"), PLACE_CHARS),
        None => escape_for_display(pointer, PLACE_CHARS),
    }
}
