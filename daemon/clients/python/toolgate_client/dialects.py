"""The message formats of model providers: where calls are in a reply, and where results go in a conversation."""

from copy import deepcopy
from typing import Any
from uuid import uuid4

from .views import Format

# The way from a provider's reply to the part that carries calls; steps that a shorter message lacks are skipped.
_STEPS = {
    "openai": ("choices", "message"),
    "openai_responses": ("output",),
    "anthropic": ("content",),
    "gemini": ("candidates", "content", "parts"),
}
# The role of the model, and the member with the parts of a message, where a message has parts.
_MESSAGES = {"anthropic": ("assistant", "content"), "gemini": ("model", "parts")}
_CALLS = {"anthropic": ("tool_use",), "openai_responses": ("function_call", "tool_search_call")}


def plain(value: Any) -> Any:
    """JSON of what a provider's library returned, which is made of pydantic models, or is JSON already."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_unset=True) if dump else value


def calls_of(format: Format, reply: Any) -> Any:
    """The part of a reply or message that `POST …/calls` takes."""
    found = plain(reply)
    for step in _STEPS[format]:
        if isinstance(found, dict) and step in found:
            found = found[step][0] if step in ("choices", "candidates") else found[step]
    return found


def has_calls(format: Format, carrier: Any) -> bool:
    if format == "openai":
        return isinstance(carrier, dict) and bool(carrier.get("tool_calls"))
    is_call = _call_of if format == "gemini" else lambda item: item.get("type") in _CALLS[format]
    return isinstance(carrier, list) and any(map(is_call, carrier))


def said(format: Format, carrier: Any) -> list[Any]:
    """The model's own part of the conversation, as messages to append."""
    if format in _MESSAGES:
        role, member = _MESSAGES[format]
        return [{"role": role, member: carrier}]
    return carrier if isinstance(carrier, list) else [carrier]


def results(format: Format, answer: list[Any]) -> list[Any]:
    """The results as messages to append."""
    return [{"role": "user", _MESSAGES[format][1]: answer}] if format in _MESSAGES else answer


def with_ids(parts: list[Any]) -> tuple[list[Any], set[str]]:
    """Gives ids to the calls of Gemini without one, which would run again when they are posted again."""
    parts, ids = deepcopy(parts), set()
    for call in map(_call_of, parts):
        if call and not call.get("id"):
            call["id"] = f"g-{uuid4().hex}"
            ids.add(call["id"])
    return parts, ids


def without_ids(parts: list[Any], ids: set[str]) -> list[Any]:
    """Removes the ids that the model does not know from the results of its calls."""
    for part in parts:
        if part["functionResponse"].get("id") in ids:
            del part["functionResponse"]["id"]
    return parts


def _call_of(part: dict[str, Any]) -> Any:
    return part.get("functionCall") or part.get("function_call")
