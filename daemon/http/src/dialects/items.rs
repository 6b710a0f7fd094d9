//! Parsing of calls and of the items of a request that all dialects share.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::hex;
use toolgate_api::nearest;
use toolgate_api::read::Object;
use toolgate_api::text::{escape_for_display, hidden_character};
use toolgate_audit as audit;
use toolgate_core::call::{CallOutcome, RequestedCall};
use toolgate_state::identifier;

use crate::problem::Problem;

/// Longest id that is kept as it is, in bytes. Providers' ids have about thirty bytes.
const CALL_ID_BYTES: usize = 128;
/// Longest tool name that is kept, in bytes: several times the longest valid name, so that most invalid names are
/// repeated whole. The name is written to the audit log, to events and to responses; a model that repeats itself must
/// not fill them.
const TOOL_NAME_BYTES: usize = 256;
/// Most items of a list. A request has far fewer calls, even with a model's text and thoughts.
const ITEMS_MAX: usize = 4096;
/// A model's message may have so many times the calls that run at once.
const MESSAGE_CALLS_FACTOR: usize = 8;
/// Longest excerpt of refused text in an error message, in characters.
const SHOWN_CHARS: usize = 80;

/// Longest id of a call as it is sent, in bytes: gateways add a thought signature of a kilobyte.
const GIVEN_ID_BYTES: usize = 2048;

/// The calls of a request, while they are parsed.
#[derive(Default)]
pub(super) struct Calls {
    list: Vec<RequestedCall>,
    /// The ids of the calls so far.
    ids: HashSet<String>,
    /// The number of calls at the end that do not run, since there are too many.
    left_out: usize,
}

/// A call of a provider's list. Providers and gateways leave out or add anything, so nothing but its place is certain.
#[derive(Default)]
pub(super) struct GivenCall<'a> {
    pub id: LooseText<'a>,
    pub name: LooseText<'a>,
    pub arguments: Option<&'a RawValue>,
}

/// The id of a call as it was sent, where the daemon has another one for it.
#[derive(Debug)]
pub(crate) struct GivenId(Option<Box<str>>);

impl GivenId {
    /// The id that the answer repeats.
    pub(crate) fn or_id_of<'a>(&'a self, outcome: &'a CallOutcome) -> &'a str {
        self.0.as_deref().unwrap_or(&outcome.id)
    }
}

impl Calls {
    /// Adds a call of Toolgate's own dialects at `place`, with a new id if it has none. Absent arguments equal an empty object.
    ///
    /// A wrong or repeated id is the call's own error. A name that is too long for any tool is truncated, so that the call
    /// gets `TOOL_NOT_FOUND` and the other calls run.
    pub(super) fn add(
        &mut self,
        id: Option<String>,
        tool: &str,
        arguments: Option<&str>,
        place: fmt::Arguments<'_>,
    ) -> GivenId {
        let given = id.filter(|id| !id.is_empty());
        let fault = given.as_deref().and_then(|id| match is_given_id(id) {
            false => Some(wrong_id(place)),
            true if self.ids.contains(&*kept_id(id)) => Some(repeated_id(place)),
            true => None,
        });
        let tool = truncate_name(tool).as_ref().into();
        self.push(given, tool, arguments.unwrap_or("{}").into(), fault)
    }

    /// Adds a call that does not run, with the id that its answer repeats.
    pub(super) fn add_faulty(&mut self, id: Option<String>, tool: &str, fault: Problem) -> GivenId {
        let tool = truncate_name(tool).as_ref().into();
        self.push(id.filter(|id| !id.is_empty()), tool, "{}".into(), Some(fault))
    }

    /// Adds a call of a provider's list at `place`. A defect is its own error, so that the other calls run (M6).
    pub(super) fn add_given(
        &mut self,
        given: GivenCall<'_>,
        fault: Option<Problem>,
        place: fmt::Arguments<'_>,
    ) -> GivenId {
        let GivenCall { id: LooseText(id), name: LooseText(name), arguments } = given;
        let given = id.map(Cow::into_owned).filter(|id| !id.is_empty());
        let fault = fault
            .or_else(|| given.as_deref().filter(|id| !is_given_id(id)).map(|_| wrong_id(place)))
            .or_else(|| name.is_none().then(|| no_tool(place)));
        let tool = truncate_name(name.as_deref().unwrap_or_default()).as_ref().into();
        self.push(given, tool, given_arguments(arguments).as_ref().into(), fault)
    }

    fn push(
        &mut self,
        given: Option<String>,
        tool: Arc<str>,
        arguments: Arc<str>,
        fault: Option<Problem>,
    ) -> GivenId {
        let id_is_new = given.is_none();
        let id = match &given {
            None => identifier::fresh("c"),
            Some(id) => self.unique_id(id),
        };
        self.ids.insert(id.clone());
        let shown = given.filter(|given| *given != id).map(String::into_boxed_str);
        let fault = fault.map(|Problem(error)| Box::new(error));
        let (outlives_request, deadline_ms) = (!id_is_new, None);
        self.list.push(RequestedCall {
            id,
            tool,
            arguments,
            id_is_new,
            outlives_request,
            deadline_ms,
            fault,
        });
        GivenId(shown)
    }

    /// An id for a call: its own where that is short and plain, otherwise one that is derived from it. A repeated
    /// request gives the same ids.
    fn unique_id(&self, given: &str) -> String {
        let kept = kept_id(given);
        if !self.ids.contains(&*kept) {
            return kept.into_owned();
        }
        let mut derived = (0..).map(|number: usize| derived_id(given, number));
        derived.find(|id| !self.ids.contains(id)).unwrap_or_else(|| identifier::fresh("c"))
    }

    /// Ends the calls with their request, also those whose caller knows the id.
    pub(super) fn end_with_request(&mut self) {
        self.list.iter_mut().for_each(|call| call.outlives_request = false);
    }

    /// Limits the duration of every call.
    pub(super) fn end_within(&mut self, deadline_ms: Option<u64>) {
        self.list.iter_mut().for_each(|call| call.deadline_ms = deadline_ms);
    }

    /// Answers calls of a model's message beyond `calls_max` with an error, so that the model reads it and the others run. A message with
    /// many times as many is refused.
    pub(super) fn leave_out_after(&mut self, calls_max: u64) {
        let most = usize::try_from(calls_max).unwrap_or(usize::MAX);
        if self.list.len() > most.saturating_mul(MESSAGE_CALLS_FACTOR) {
            return;
        }
        for call in self.list.iter_mut().skip(most) {
            let message = format!("this message has more calls than the {calls_max} that run at once");
            let hint = "call it again in your next message";
            call.fault.get_or_insert_with(|| Box::new(CallError::new(ErrorType::TooLarge, message, hint)));
        }
        self.left_out = self.list.len().saturating_sub(most);
    }

    /// Returns the calls: at least one, at most `calls_max` that can run.
    pub(super) fn into_list(self, calls_max: u64) -> Result<Vec<RequestedCall>, Problem> {
        let count = self.list.len().saturating_sub(self.left_out) as u64;
        if count == 0 {
            return Err(invalid(
                "the message contains no tool calls",
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
        Ok(self.list)
    }
}

/// The arguments of a provider's call: an object, or the text that the model wrote. White space and `null` are none.
fn given_arguments(arguments: Option<&RawValue>) -> Cow<'_, str> {
    let text = arguments.map_or("null", RawValue::get);
    let text: Cow<'_, str> = match text.starts_with('"') {
        // A text that is no JSON string, such as half of a surrogate pair, is no object either.
        true => serde_json::from_str::<String>(text).map_or(text.into(), Cow::Owned),
        false => text.into(),
    };
    if matches!(text.trim(), "" | "null") { "{}".into() } else { text }
}

/// Truncates a tool name to the limit. No tool name has an ellipsis, so a truncated name never matches a tool.
pub(crate) fn truncate_name(tool: &str) -> Cow<'_, str> {
    if tool.len() <= TOOL_NAME_BYTES {
        return tool.into();
    }
    let end = tool.floor_char_boundary(TOOL_NAME_BYTES - '…'.len_utf8());
    format!("{}…", &tool[..end]).into()
}

/// Returns the `type` of an item, if it has one.
pub(super) fn kind<'a>(
    item: &'a RawValue,
    place: fmt::Arguments<'_>,
) -> Result<Option<Cow<'a, str>>, Problem> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow, default)]
        kind: MaybeText<'a>,
    }
    Ok(fitting::<Kind<'_>>(item, place)?.kind.0)
}

/// Returns true if the item has the `type` `wanted`. An item that may be such a call is an error: that of the call.
pub(super) fn is_a(wanted: &str, item: &RawValue, place: fmt::Arguments<'_>) -> Result<bool, Problem> {
    #[derive(Deserialize)]
    struct Named {
        name: Option<IgnoredAny>,
    }
    let Some(kind) = kind(item, place)? else {
        return match fitting::<Named>(item, place)?.name {
            None => Ok(false),
            Some(IgnoredAny) => {
                let message = format!("`{place}` has no `type`");
                Err(invalid(message, "send it as the model gave it").at(&place))
            }
        };
    };
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
pub(super) fn unknown_kind(kind: &str, meant: &str, place: fmt::Arguments<'_>) -> Problem {
    let message = format!("`{place}/type` is `{}`", escape_for_display(kind, SHOWN_CHARS));
    invalid(message, format!("did you mean `{meant}`?")).at(&place)
}

/// Text that is borrowed where possible; `null` equals an absent string.
#[derive(Default)]
pub(super) struct MaybeText<'a>(pub Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for MaybeText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        Ok(Self(Option::<Text<'de>>::deserialize(deserializer)?.map(|Text(text)| text)))
    }
}

/// Text that may have been sent as a number; `null` and other values count as absent.
#[derive(Default)]
pub(super) struct LooseText<'a>(pub Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for LooseText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(raw) = Option::<&'de RawValue>::deserialize(deserializer)? else { return Ok(Self(None)) };
        Ok(Self(match raw.get().as_bytes().first() {
            Some(b'"') => serde_json::from_str::<String>(raw.get()).ok().map(Cow::Owned),
            Some(b'0'..=b'9' | b'-') => Some(raw.get().into()),
            _ => None,
        }))
    }
}

/// Parses an item of a list; `place` is its JSON pointer in the request.
pub(super) fn fitting<'a, T: Deserialize<'a>>(
    item: &'a RawValue,
    place: fmt::Arguments<'_>,
) -> Result<T, Problem> {
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
pub(super) struct Items<T>(Option<Vec<T>>);

impl<T> Items<T> {
    /// Returns the items. Too many items are `TOO_LARGE`, like too many calls.
    pub(super) fn into_vec(self) -> Result<Vec<T>, Problem> {
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

fn wrong_id(place: fmt::Arguments<'_>) -> Problem {
    let message =
        format!("the id of `{place}` is longer than {GIVEN_ID_BYTES} bytes or has hidden characters");
    invalid(message, "send the id as the provider gave it").at(&place)
}

/// Returns the error of a call without the name of a tool.
pub(super) fn no_tool(place: fmt::Arguments<'_>) -> Problem {
    invalid(format!("`{place}` names no tool"), "name a tool of the list").at(&place)
}

fn repeated_id(place: fmt::Arguments<'_>) -> Problem {
    Problem::new(
        ErrorType::Conflict,
        format!("the id of `{place}` is that of another call of the request"),
        "give every call an id of its own",
    )
    .at(&place)
}

/// The id under which the first call with the id `given` of a request is kept. Ids are part of paths, logs and the audit log,
/// so one that is long or has other characters is replaced by its hash.
pub(crate) fn kept_id(given: &str) -> Cow<'_, str> {
    if is_plain_id(given) { given.into() } else { derived_id(given, 0).into() }
}

fn derived_id(given: &str, number: usize) -> String {
    let hash = audit::sha256(format!("{number} {given}").as_bytes()).0;
    format!("h_{}", hex::encode(&hash[..16]))
}

fn is_plain_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    !id.is_empty() && id.len() <= CALL_ID_BYTES && id.bytes().all(plain)
}

fn is_given_id(id: &str) -> bool {
    id.len() <= GIVEN_ID_BYTES && !id.contains(char::is_control) && hidden_character(id).is_none()
}

/// Returns the error of a whole request.
pub(super) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem::new(ErrorType::InvalidRequest, message, hint)
}

/// Returns an excerpt of refused text for an error message.
pub(super) fn excerpt(text: &str) -> String {
    escape_for_display(text, SHOWN_CHARS)
}

impl Problem {
    /// Adds the JSON pointer of the error in the request.
    pub(super) fn at(self, pointer: &dyn fmt::Display) -> Self {
        Self(self.0.with_pointer(pointer.to_string()))
    }
}
