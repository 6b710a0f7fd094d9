//! How a misfit is told: the place, what was expected, what came (R2).
//!
//! A sentence names what the model wrote, by the words of the call and not of JSON Schema, and ends so that
//! the tool's name can follow it: "Missing required argument 'path'" + " for tool 'call_files_write'". What came is
//! shown as its type and a short excerpt, with hidden characters written out; where the plugin asked for
//! redaction, as its type alone.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use toolgate_api::nearest;
use toolgate_api::text::{escape_for_display, json_start, list};

use super::SchemaRole;
use super::hint::{distinct, either, kind, value};

/// Longest excerpt of what came, in characters.
const EXCERPT_CHARS: usize = 80;
/// Longest name or pointer in a sentence, in characters.
const PLACE_CHARS: usize = 120;
/// Alternatives that a sentence names.
const OPTIONS: usize = 12;
/// Longest list of what is expected, in characters.
const EXPECTED_CHARS: usize = 1_000;
/// Longest JSON pointer that is told.
const POINTER_BYTES: usize = 1_024;
/// Alternatives whose kinds are looked at, and fields by which they may tell themselves apart.
const LOOKED_AT: usize = 256;
/// How far into nested alternatives the misfit is followed.
const DEPTH: usize = 8;

/// One place where a value does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer of the place; of what is missing, where it belongs.
    pub pointer: String,
    /// What fits there.
    pub expected: String,
    /// What came: its type, and a short excerpt.
    pub found: String,
    /// The sentence, so that the tool's name can follow it.
    pub message: String,
}

impl Violation {
    /// The sentence where nothing follows it.
    pub fn sentence(&self) -> &str {
        self.message.trim_end_matches(',')
    }

    /// A value that was not checked at all, since that would take too much.
    pub(super) fn beyond_checking(role: SchemaRole, what: &str) -> Self {
        let words = Words::of(role);
        Self {
            pointer: String::new(),
            expected: "a smaller or flatter value".to_owned(),
            found: format!("a value {what}"),
            message: format!("{} {} {what} to be checked against the schema,", words.whole, words.be),
        }
    }

    /// With a pointer that can be told: where it is too long, to the deepest place around whose pointer is not.
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

/// Tells the misfits of one check.
pub(super) struct Teller<'a> {
    pub(super) schema: &'a Value,
    pub(super) role: SchemaRole,
    /// JSON pointers whose values are not shown.
    pub(super) hidden: &'a [String],
}

impl Teller<'_> {
    /// One violation for each name in question, and one for any other misfit.
    pub(super) fn tell(&self, error: &ValidationError<'_>) -> Vec<Violation> {
        self.tell_within(error, DEPTH)
    }

    /// A value that does not fit, where finding out why would take too much.
    pub(super) fn untold(&self, instance: &Value) -> Violation {
        let words = Words::of(self.role);
        Violation {
            pointer: String::new(),
            expected: kind(self.schema, self.schema),
            found: self.found("", instance),
            message: format!("{} {} unfit, and too large to be told where,", words.whole, words.be),
        }
    }

    fn tell_within(&self, error: &ValidationError<'_>, depth: usize) -> Vec<Violation> {
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
                let meant = match self.variant(error) {
                    Some(Variant::At(index)) => context.get(index).map(Vec::as_slice),
                    Some(Variant::Untold(violation)) => return vec![violation],
                    None => closest(context),
                };
                match meant.filter(|inner| depth > 0 && !inner.is_empty()) {
                    Some(inner) => {
                        let told = inner.iter().flat_map(|error| self.tell_within(error, depth - 1));
                        told.take(super::VIOLATIONS).collect()
                    }
                    None => vec![self.unfit(error, pointer, self.alternatives(error, context))],
                }
            }
            kind => vec![self.unfit(error, pointer, expected(kind))],
        }
    }

    fn missing(&self, error: &ValidationError<'_>, pointer: &str, name: &str) -> Violation {
        let expected = self.beside(error).and_then(|schema| schema.get("properties")?.get(name));
        let pointer = join(pointer, name);
        Violation {
            expected: expected.map_or_else(|| "a value".to_owned(), |schema| kind(self.schema, schema)),
            found: "nothing".to_owned(),
            message: format!("Missing required {} '{}'", Words::of(self.role).part_inside, place(&pointer)),
            pointer,
        }
    }

    fn unknown(&self, error: &ValidationError<'_>, pointer: &str, name: &str) -> Violation {
        let known = self.beside(error).and_then(|schema| schema.get("properties")?.as_object());
        let names = || known.into_iter().flat_map(|known| known.keys()).map(String::as_str);
        let pointer = join(pointer, name);
        let meant = nearest(name, names())
            .map(|name| format!(" (did you mean '{}'?)", escape_for_display(name, PLACE_CHARS)));
        let part = Words::of(self.role).part_inside;
        Violation {
            expected: match known.is_some_and(|known| !known.is_empty()) {
                true => format!("only {}", list(names(), OPTIONS)),
                false => format!("no {part}"),
            },
            found: format!("{part} `{}`", escape_for_display(name, EXCERPT_CHARS)),
            message: format!("Unknown {part} '{}'{}", place(&pointer), meant.unwrap_or_default()),
            pointer,
        }
    }

    /// Of alternatives that are objects and tell themselves apart, the one that the value says it is.
    fn variant(&self, error: &ValidationError<'_>) -> Option<Variant> {
        let found = error.instance().as_object()?;
        let pointer = error.instance_path().as_str();
        match Tag::of(self.schema, self.branches(error)?)? {
            Tag::Field { name, values } => {
                let Some(said) = found.get(name) else {
                    let missing = self.missing(error, pointer, name);
                    let expected = one_of(&values);
                    let message = format!("{} ({expected})", missing.message);
                    return Some(Variant::Untold(Violation { expected, message, ..missing }));
                };
                let fits = values.iter().find(|(_, value)| *value == said);
                Some(match fits {
                    Some((index, _)) => Variant::At(*index),
                    None => Variant::Untold(self.unfit_value(&join(pointer, name), said, one_of(&values))),
                })
            }
            Tag::Key(names) => {
                let mut fits = names.iter().filter(|(_, name)| found.contains_key(*name));
                if let (Some((index, _)), None) = (fits.next(), fits.next()) {
                    return Some(Variant::At(*index));
                }
                let names = list(names.iter().map(|(_, name)| *name), OPTIONS);
                Some(Variant::Untold(self.unfit(error, pointer, format!("an object with one of {names}"))))
            }
        }
    }

    fn branches(&self, error: &ValidationError<'_>) -> Option<&Vec<Value>> {
        self.beside(error)?.get(error.kind().keyword())?.as_array()
    }

    fn unfit(&self, error: &ValidationError<'_>, pointer: &str, expected: String) -> Violation {
        self.unfit_value(pointer, error.instance(), expected)
    }

    fn unfit_value(&self, pointer: &str, instance: &Value, expected: String) -> Violation {
        let found = self.found(pointer, instance);
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
        // That an object is no object says nothing, but what it has does.
        let kind_of = |branch: &Value| match (kind(self.schema, branch), required(self.schema, branch)) {
            (kind, names) if kind == "object" && error.instance().is_object() && !names.is_empty() => {
                format!("an object with {}", list(names.into_iter(), OPTIONS))
            }
            (kind, _) => with_article(&kind),
        };
        match self.branches(error) {
            Some(branches) => either(branches.iter().take(LOOKED_AT).map(kind_of), OPTIONS),
            None => format!("one of {} forms", context.len()),
        }
    }

    /// The schema in which the keyword stands that did not fit.
    fn beside(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(parent)
    }

    fn found(&self, pointer: &str, instance: &Value) -> String {
        let covers = |above: &str, below: &str| {
            below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_hidden = self.hidden.iter().any(|hidden| covers(hidden, pointer) || covers(pointer, hidden));
        match is_hidden {
            true => type_name(instance).to_owned(),
            false => shown(instance),
        }
    }
}

/// What is known of the alternative that was meant.
enum Variant {
    At(usize),
    /// The value does not say, or says one that there is not.
    Untold(Violation),
}

/// How alternatives that are objects tell themselves apart, as those of an enum with data.
enum Tag<'s> {
    /// By the value of a field. Each value with the place of its alternative.
    Field { name: &'s str, values: Vec<(usize, &'s Value)> },
    /// By the one field that each of them has.
    Key(Vec<(usize, &'s str)>),
}

impl<'s> Tag<'s> {
    fn of(root: &'s Value, branches: &'s [Value]) -> Option<Self> {
        let objects: Vec<_> =
            branches.iter().enumerate().filter(|(_, branch)| kind(root, branch) == "object").collect();
        let (_, first) = objects.first().filter(|_| objects.len() > 1)?;
        let names = properties(root, first).flat_map(|properties| properties.keys());
        let by_field = names.take(LOOKED_AT).map(String::as_str).find_map(|name| {
            let values = objects.iter().map(|(index, branch)| Some((*index, constant(root, branch, name)?)));
            Some(Self::Field { name, values: values.collect::<Option<_>>()? })
        });
        let by_key = || {
            let names = objects.iter().map(|(index, branch)| {
                let is_only = properties(root, branch).map(serde_json::Map::len).sum::<usize>() == 1;
                match required(root, branch)[..] {
                    [name] if is_only => Some((*index, name)),
                    _ => None,
                }
            });
            Some(Self::Key(names.collect::<Option<_>>()?))
        };
        by_field.or_else(by_key)
    }
}

/// A schema and the one that it refers to.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> impl Iterator<Item = &'s Value> {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    std::iter::once(schema).chain(target.and_then(|target| root.pointer(target)))
}

fn properties<'s>(
    root: &'s Value,
    schema: &'s Value,
) -> impl Iterator<Item = &'s serde_json::Map<String, Value>> {
    resolved(root, schema).filter_map(|schema| schema.get("properties")?.as_object())
}

/// The one value that a field of an object may have.
fn constant<'s>(root: &'s Value, schema: &'s Value, name: &str) -> Option<&'s Value> {
    properties(root, schema).find_map(|properties| {
        let field = properties.get(name)?;
        let only = || field.get("enum")?.as_array().filter(|options| options.len() == 1)?.first();
        field.get("const").or_else(only)
    })
}

/// The names that an object must have.
fn required<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s str> {
    let names = resolved(root, schema).filter_map(|schema| schema.get("required")?.as_array());
    names.flatten().filter_map(Value::as_str).collect()
}

fn one_of(values: &[(usize, &Value)]) -> String {
    format!("one of {}", distinct(values.iter().map(|(_, option)| value(option)), OPTIONS).join(", "))
}

/// Of several alternatives the one that was meant, if that can be told: the only one that did not
/// already fail at the type of the value itself.
fn closest<'a, 'b>(context: &'a [Vec<ValidationError<'b>>]) -> Option<&'a [ValidationError<'b>]> {
    let shallowest = |errors: &[ValidationError<'_>]| {
        errors.iter().map(|error| error.instance_path().segments().count()).min().unwrap_or_default()
    };
    let here = context.iter().map(|errors| shallowest(errors)).min()?;
    let mut meant = context.iter().filter(|errors| {
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
    let first = meant.next()?;
    meant.next().is_none().then_some(first.as_slice())
}

/// What a keyword expects, so that "must be …" reads well.
fn expected(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as Kind;
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
        Kind::Pattern { pattern } => {
            format!("a string that matches `{}`", escape_for_display(pattern, PLACE_CHARS))
        }
        Kind::Format { format } => {
            format!("a string in the format `{}`", escape_for_display(format, PLACE_CHARS))
        }
        Kind::ContentEncoding { content_encoding } => {
            format!("a string encoded as `{}`", escape_for_display(content_encoding, PLACE_CHARS))
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("text of type `{}`", escape_for_display(content_media_type, PLACE_CHARS))
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
            format!("an object with other keys: each must be {}", expected(error.kind()))
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

/// A kind as a sentence has it: `an array of integer`, and values as they are.
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

/// The type of a value and the beginning of its text.
fn shown(instance: &Value) -> String {
    if instance.is_null() {
        return "null".to_owned();
    }
    format!("{} {}", type_name(instance), json_start(instance, EXCERPT_CHARS))
}

fn join(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A place in words: the bare name at the top, the JSON pointer further down.
fn place(pointer: &str) -> String {
    let name = pointer.strip_prefix('/').filter(|name| !name.contains('/'));
    match name {
        Some(name) => escape_for_display(&name.replace("~1", "/").replace("~0", "~"), PLACE_CHARS),
        None => escape_for_display(pointer, PLACE_CHARS),
    }
}
