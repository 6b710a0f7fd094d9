//! What every request of calls has around them, and what is asked of every call whatever its form.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;
use toolgate_admission::{ErrorType, nearest, show};

use super::{flat, openai, ours};
use crate::dispatch::RequestedCall;
use crate::http::body::Object;
use crate::http::problem::Problem;
use crate::identifier;

/// Longest id that a caller may give a call, in bytes. Providers give theirs some thirty.
const CALL_ID_BYTES: usize = 128;
/// Longest name of a tool that is kept as it came, in bytes: several times what any tool can be called, so that a name
/// that is merely wrong is told back whole. It stands in the audit log, in events and in answers, which a model that
/// repeats itself must not fill.
const TOOL_NAME_BYTES: usize = 256;
/// Longest name of a turn, in bytes: it is kept with the session, and is an id of the orchestrator's.
const TURN_BYTES: usize = 200;
/// Most items of a list. A request has far fewer calls; a model's text and thoughts stand beside them.
const MOST_ITEMS: usize = 4096;
/// How the message begins where there are more.
const TOO_MANY_ITEMS: &str = "a list of more than";
/// Longest piece of a refused text that a message shows, in characters.
const SHOWN_CHARS: usize = 80;

/// A request, with the one member that carries its calls.
pub struct Envelope<'a> {
    pub turn: Option<String>,
    /// The id of the call in a form that has none of its own.
    pub id: Option<String>,
    pub dialect: Dialect<'a>,
}

/// The calls as they were written.
pub enum Dialect<'a> {
    Ours(Items<Object<ours::Call<'a>>>),
    OpenAi(openai::Message<'a>),
    Responses(Items<&'a RawValue>),
    Anthropic(Items<&'a RawValue>),
    Gemini(Items<&'a RawValue>),
    Flat(flat::Call<'a>),
    Text(String),
}

/// The request as it stands there: each member may be left out, and `null` is the same.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members<'a> {
    turn: Option<String>,
    id: Option<String>,
    #[serde(borrow)]
    calls: Option<Items<Object<ours::Call<'a>>>>,
    #[serde(borrow)]
    openai: Option<Object<openai::Message<'a>>>,
    #[serde(borrow)]
    openai_responses: Option<Items<&'a RawValue>>,
    #[serde(borrow)]
    anthropic: Option<Items<&'a RawValue>>,
    #[serde(borrow)]
    gemini: Option<Items<&'a RawValue>>,
    #[serde(borrow)]
    tool_call: Option<Object<flat::Call<'a>>>,
    text: Option<String>,
}

/// Reads the envelope. What is wrong in it is the whole request's fault, unlike what is wrong in arguments.
pub fn read(body: &[u8]) -> Result<Envelope<'_>, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        invalid(format!("the body is not UTF-8 at byte {at}"), "send JSON in UTF-8")
    })?;
    let Object(mut members) =
        serde_json::from_str::<Object<Members<'_>>>(text).map_err(|error| unfit(&error.to_string()))?;
    let turn = members.turn.take().map(sound_turn).transpose()?;
    let id = members.id.take();
    let dialect = members.only()?;
    if id.is_some() && !matches!(dialect, Dialect::Flat(_) | Dialect::Text(_)) {
        return Err(invalid(
            "`id` stands beside calls that have ids of their own",
            "give each call its id; `id` is for `tool_call` and `text`, whose one call has no place for it",
        ));
    }
    Ok(Envelope { turn, id, dialect })
}

/// More than is read of a list is a batch that is too large, like more calls than are taken; anything else has the wrong
/// form.
fn unfit(error: &str) -> Problem {
    let error_type = match error.starts_with(TOO_MANY_ITEMS) {
        true => ErrorType::TooLarge,
        false => ErrorType::InvalidRequest,
    };
    let message = format!("the body is not what this address takes: {error}");
    Problem::new(error_type, message, "compare it with `/openapi.json`")
}

impl<'a> Members<'a> {
    /// The one member that carries calls.
    fn only(self) -> Result<Dialect<'a>, Problem> {
        let all = [
            ("calls", self.calls.map(Dialect::Ours)),
            ("openai", self.openai.map(|Object(message)| Dialect::OpenAi(message))),
            ("openai_responses", self.openai_responses.map(Dialect::Responses)),
            ("anthropic", self.anthropic.map(Dialect::Anthropic)),
            ("gemini", self.gemini.map(Dialect::Gemini)),
            ("tool_call", self.tool_call.map(|Object(call)| Dialect::Flat(call))),
            ("text", self.text.map(Dialect::Text)),
        ];
        let names = all.each_ref().map(|(name, _)| *name);
        let mut there = all.into_iter().filter_map(|(name, dialect)| Some((name, dialect?)));
        match (there.next(), there.next()) {
            (Some((_, dialect)), None) => Ok(dialect),
            (Some((first, _)), Some((second, _))) => Err(invalid(
                format!("the request has calls under `{first}` and under `{second}`"),
                "send one form a request",
            )),
            (None, _) => Err(invalid(
                "the request has no calls",
                format!("send them under one of `{}`", names.join("`, `")),
            )),
        }
    }
}

/// The calls that a request was found to have.
#[derive(Default)]
pub struct Calls(Vec<RequestedCall>);

impl Calls {
    /// Adds a call; without an id it gets one. Arguments that are not there are an empty object.
    ///
    /// A name that no tool can have is cut, and so is that call's `TOOL_NOT_FOUND` and nobody else's: what a model gave is
    /// posted as it came, and of its calls the others are answered.
    pub fn add(&mut self, id: Option<String>, tool: &str, arguments: Option<&str>) -> Result<(), Problem> {
        let id_is_new = id.is_none();
        let id = match id {
            Some(id) => sound_id(id)?,
            None => identifier::fresh("c"),
        };
        let arguments: Arc<str> = arguments.unwrap_or("{}").into();
        self.0.push(RequestedCall { id, tool: bounded(tool).as_ref().into(), arguments, id_is_new });
        Ok(())
    }

    /// The calls, if there are any, not more than `most`, and no two of one id.
    pub fn at_most(self, most: u64) -> Result<Vec<RequestedCall>, Problem> {
        let count = self.0.len() as u64;
        if count == 0 {
            return Err(invalid(
                "the request has no calls that are run here",
                "post what the model gave where it calls tools of this session; all else is answered by somebody else",
            ));
        }
        if count > most {
            return Err(Problem::new(
                ErrorType::TooLarge,
                format!("the request has {count} calls"),
                format!("send 1 to {most} calls in a request"),
            ));
        }
        let mut ids = HashSet::with_capacity(self.0.len());
        if let Some(twice) = self.0.iter().find(|call| !ids.insert(call.id.as_str())) {
            return Err(invalid(
                format!("two calls of the request have the id `{}`", twice.id),
                "give every call an id of its own",
            ));
        }
        Ok(self.0)
    }
}

/// A name as it is kept; a tool's has no ellipsis in it, so that one that was cut is never another tool's.
pub fn bounded(tool: &str) -> Cow<'_, str> {
    if tool.len() <= TOOL_NAME_BYTES {
        return tool.into();
    }
    let end = tool.floor_char_boundary(TOOL_NAME_BYTES - '…'.len_utf8());
    format!("{}…", &tool[..end]).into()
}

/// What kind of item stands in a list of several kinds; none where it does not say.
pub fn kind<'a>(item: &'a RawValue, place: fmt::Arguments<'_>) -> Result<Option<Cow<'a, str>>, Problem> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow, default)]
        kind: MaybeText<'a>,
    }
    Ok(fitting::<Kind<'_>>(item, place)?.kind.0)
}

/// Whether an item of a list of several kinds, each of which says its kind, is of this one.
pub fn is_a(wanted: &str, item: &RawValue, place: fmt::Arguments<'_>) -> Result<bool, Problem> {
    let kind = kind(item, place)?;
    let kind = kind.ok_or_else(|| {
        invalid(format!("`{place}` does not say its `type`"), "send it as the model gave it").at(&place)
    })?;
    // A misspelt call among others would be passed over, and nobody would answer it.
    if kind != wanted
        && kind.len().abs_diff(wanted.len()) <= 2
        && nearest(&kind, [wanted].into_iter()).is_some()
    {
        return Err(unknown_kind(&kind, wanted, place));
    }
    Ok(kind == wanted)
}

/// An item is of a kind that does not stand there.
pub fn unknown_kind(kind: &str, meant: &str, place: fmt::Arguments<'_>) -> Problem {
    let message = format!("`{place}/type` is `{}`", show(kind, SHOWN_CHARS));
    invalid(message, format!("did you mean `{meant}`?")).at(&place)
}

/// Text that is borrowed where it can be; `null` is the same as none.
#[derive(Default)]
pub struct MaybeText<'a>(pub Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for MaybeText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        Ok(Self(Option::<Text<'de>>::deserialize(deserializer)?.map(|Text(text)| text)))
    }
}

/// An item of a list as the type that it says to be; `place` is its JSON pointer in the request.
pub fn fitting<'a, T: Deserialize<'a>>(item: &'a RawValue, place: fmt::Arguments<'_>) -> Result<T, Problem> {
    let parsed = serde_json::from_str::<Object<T>>(item.get());
    parsed.map(|Object(item)| item).map_err(|error| {
        // The position is one in the item, and would be taken for one in the body.
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&position).unwrap_or(&message);
        invalid(
            format!("`{place}` is not what its published type is: {message}"),
            "send it as the model gave it",
        )
        .at(&place)
    })
}

/// A list that ends: what is written in two bytes must not take hundreds here.
pub struct Items<T>(pub Vec<T>);

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
            if items.len() == MOST_ITEMS {
                return Err(A::Error::custom(format_args!("{TOO_MANY_ITEMS} {MOST_ITEMS} items")));
            }
            items.push(item);
        }
        Ok(Items(items))
    }
}

/// Ids go into paths, logs and the audit, so they are short and plain.
fn sound_id(id: String) -> Result<String, Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if !id.is_empty() && id.len() <= CALL_ID_BYTES && id.bytes().all(plain) {
        return Ok(id);
    }
    Err(invalid(
        "a call's id is empty, too long, or has characters that ids do not have",
        format!("use 1 to {CALL_ID_BYTES} letters, digits, `-`, `_`, `.` and `:`"),
    ))
}

fn sound_turn(turn: String) -> Result<String, Problem> {
    if !turn.is_empty() && turn.len() <= TURN_BYTES && !turn.chars().any(char::is_control) {
        return Ok(turn);
    }
    Err(invalid(
        format!("`turn` is empty, longer than {TURN_BYTES} bytes, or has control characters"),
        "send a short id, or leave the field out",
    ))
}

/// A refusal of the whole request.
pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem::new(ErrorType::InvalidRequest, message, hint)
}

/// A refused text as a message shows it.
pub fn shown(text: &str) -> String {
    show(text, SHOWN_CHARS)
}

impl Problem {
    /// The same refusal with its place in the request.
    pub(super) fn at(self, pointer: &dyn fmt::Display) -> Self {
        Self(self.0.with_details(json!({"pointer": pointer.to_string()})))
    }
}
