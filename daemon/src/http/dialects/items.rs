//! Parsing of calls and of the items of a request that all dialects share.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use toolgate_api::error::ErrorType;
use toolgate_api::nearest;
use toolgate_api::read::Object;
use toolgate_api::text::escape_for_display;

use crate::call::RequestedCall;
use crate::http::problem::Problem;
use crate::identifier;

/// Longest id of a call, in bytes. Providers' ids have about thirty bytes.
const CALL_ID_BYTES: usize = 128;
/// Longest tool name that is kept, in bytes: several times the longest valid name, so that most invalid names are
/// repeated whole. The name is written to the audit log, to events and to responses; a model that repeats itself must
/// not fill them.
const TOOL_NAME_BYTES: usize = 256;
/// Most items of a list. A request has far fewer calls, even with a model's text and thoughts.
const ITEMS_MAX: usize = 4096;
/// Longest excerpt of refused text in an error message, in characters.
const SHOWN_CHARS: usize = 80;

/// The calls of a request, while they are parsed.
#[derive(Default)]
pub struct Calls(Vec<RequestedCall>);

impl Calls {
    /// Adds a call, with a new id if it has none. Absent arguments equal an empty object.
    ///
    /// A name that is too long for any tool is truncated, so that the call gets `TOOL_NOT_FOUND` and the other calls
    /// run.
    pub fn add(&mut self, id: Option<String>, tool: &str, arguments: Option<&str>) -> Result<(), Problem> {
        let id_is_new = id.is_none();
        let id = match id {
            Some(id) => checked_id(id)?,
            None => identifier::fresh("c"),
        };
        let arguments: Arc<str> = arguments.unwrap_or("{}").into();
        self.0.push(RequestedCall { id, tool: truncate_name(tool).as_ref().into(), arguments, id_is_new });
        Ok(())
    }

    /// Returns the calls: at least one, at most `calls_max`, with distinct ids.
    pub fn into_list(self, calls_max: u64) -> Result<Vec<RequestedCall>, Problem> {
        let count = self.0.len() as u64;
        if count == 0 {
            return Err(invalid(
                "the request has no calls that are run here",
                "post the model's calls of tools of this session; other calls are not for Toolgate",
            ));
        }
        if count > calls_max {
            return Err(Problem::new(
                ErrorType::TooLarge,
                format!("the request has {count} calls"),
                format!("send 1 to {calls_max} calls in a request"),
            ));
        }
        let mut ids = HashSet::with_capacity(self.0.len());
        if let Some(duplicate) = self.0.iter().find(|call| !ids.insert(call.id.as_str())) {
            return Err(invalid(
                format!("two calls of the request have the id `{}`", duplicate.id),
                "give every call an id of its own",
            ));
        }
        Ok(self.0)
    }
}

/// Truncates a tool name to the limit. No tool name has an ellipsis, so a truncated name never matches a tool.
pub fn truncate_name(tool: &str) -> Cow<'_, str> {
    if tool.len() <= TOOL_NAME_BYTES {
        return tool.into();
    }
    let end = tool.floor_char_boundary(TOOL_NAME_BYTES - '…'.len_utf8());
    format!("{}…", &tool[..end]).into()
}

/// Returns the `type` of an item, if it has one.
pub fn kind<'a>(item: &'a RawValue, place: fmt::Arguments<'_>) -> Result<Option<Cow<'a, str>>, Problem> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow, default)]
        kind: MaybeText<'a>,
    }
    Ok(fitting::<Kind<'_>>(item, place)?.kind.0)
}

/// Returns true if the item has the `type` `wanted`.
pub fn is_a(wanted: &str, item: &RawValue, place: fmt::Arguments<'_>) -> Result<bool, Problem> {
    let kind = kind(item, place)?;
    let kind = kind.ok_or_else(|| {
        invalid(format!("`{place}` has no `type`"), "send it as the model gave it").at(&place)
    })?;
    // An item with a misspelled type would be skipped, and its call would get no response.
    if kind != wanted
        && kind.len().abs_diff(wanted.len()) <= 2
        && nearest(&kind, [wanted].into_iter()).is_some()
    {
        return Err(unknown_kind(&kind, wanted, place));
    }
    Ok(kind == wanted)
}

/// Returns the error of an item with an unknown `type`.
pub fn unknown_kind(kind: &str, meant: &str, place: fmt::Arguments<'_>) -> Problem {
    let message = format!("`{place}/type` is `{}`", escape_for_display(kind, SHOWN_CHARS));
    invalid(message, format!("did you mean `{meant}`?")).at(&place)
}

/// Text that is borrowed where possible; `null` equals an absent string.
#[derive(Default)]
pub struct MaybeText<'a>(pub Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for MaybeText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        Ok(Self(Option::<Text<'de>>::deserialize(deserializer)?.map(|Text(text)| text)))
    }
}

/// Parses an item of a list; `place` is its JSON pointer in the request.
pub fn fitting<'a, T: Deserialize<'a>>(item: &'a RawValue, place: fmt::Arguments<'_>) -> Result<T, Problem> {
    let parsed = serde_json::from_str::<Object<T>>(item.get());
    parsed.map(|Object(item)| item).map_err(|error| {
        // The position counts from the start of the item and would be misread as a position in the body.
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&position).unwrap_or(&message);
        invalid(
            format!("`{place}` does not match its published type: {message}"),
            "send it as the model gave it",
        )
        .at(&place)
    })
}

/// A list with a limited number of items, since an item of two bytes takes hundreds of bytes in memory; `None` if it
/// had more.
pub struct Items<T>(Option<Vec<T>>);

impl<T> Items<T> {
    /// Returns the items. Too many items are `TOO_LARGE`, like too many calls.
    pub fn into_vec(self) -> Result<Vec<T>, Problem> {
        self.0.ok_or_else(|| {
            let message = format!("the body has a list of more than {ITEMS_MAX} items");
            Problem::new(ErrorType::TooLarge, message, "send only the calls of one response of the model")
        })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor(PhantomData))
    }
}

struct ItemsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
    type Value = Items<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() == ITEMS_MAX {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Items(None));
            }
            items.push(item);
        }
        Ok(Items(Some(items)))
    }
}

/// Validates a call id. Ids are part of paths, logs and the audit log, so they are short and plain ASCII.
fn checked_id(id: String) -> Result<String, Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if !id.is_empty() && id.len() <= CALL_ID_BYTES && id.bytes().all(plain) {
        return Ok(id);
    }
    Err(invalid(
        "a call's id is empty, too long, or has a character that is not allowed",
        format!("use 1 to {CALL_ID_BYTES} letters, digits, `-`, `_`, `.` and `:`"),
    ))
}

/// Returns the error of a whole request.
pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem::new(ErrorType::InvalidRequest, message, hint)
}

/// Returns an excerpt of refused text for an error message.
pub fn excerpt(text: &str) -> String {
    escape_for_display(text, SHOWN_CHARS)
}

impl Problem {
    /// Adds the JSON pointer of the error in the request.
    pub(super) fn at(self, pointer: &dyn fmt::Display) -> Self {
        Self(self.0.with_pointer(pointer.to_string()))
    }
}
