"""Typed views of the daemon's JSON: the fields that orchestrators use. Responses can have more.

A test compares each view with the schema of the OpenAPI document that `SCHEMAS` names.
"""

from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

CallStatus = Literal["ok", "error", "client_required", "approval_required", "running", "unknown"]
ApprovalState = Literal["pending", "approved", "denied", "used", "expired", "void"]
Choice = Literal["approve", "deny"]
Format = Literal["openai", "openai_responses", "anthropic", "gemini"]


class SessionView(TypedDict):
    session: str
    agent: str
    user: str | None
    conversation: str | None
    channel: str | None
    tools: list[dict[str, Any]]
    system_prompt: str
    expires_at: int


class ApprovalStamp(TypedDict):
    id: str
    state: ApprovalState
    expires_at: int


class CallError(TypedDict):
    error_type: str
    message: str
    hint: str
    retryable: bool
    details: NotRequired[dict[str, Any]]


class CallResult(TypedDict):
    id: str
    tool: str
    status: CallStatus
    executed: str
    text: str
    output: NotRequired[Any]
    error: NotRequired[CallError]
    approval: NotRequired[ApprovalStamp]
    payload: NotRequired[Any]
    expires_at: NotRequired[int]


class Approval(TypedDict):
    id: str
    state: ApprovalState
    organization: str
    agent: str
    session: str
    call: str
    user: str | None
    conversation: str | None
    channel: str | None
    tool: str
    arguments: dict[str, Any]
    created_at: int
    expires_at: int
    uses_left: int
    reason: NotRequired[str]
    decided_by: NotRequired[str]


class DecisionOptions(TypedDict, total=False):
    reason: str
    uses: int
    arguments: dict[str, Any]
    arguments_instead: dict[str, Any]
    expires_at: int


class FileEntry(TypedDict):
    path: str
    kind: str
    bytes: int


class EventData(TypedDict):
    event: str
    at_ms: int
    organization: str
    agent: str
    session: str
    call: str
    tool: str
    status: NotRequired[str]
    error_type: NotRequired[str]
    message: NotRequired[str]
    approval: NotRequired[dict[str, Any]]
    progress: NotRequired[dict[str, Any]]


class Event(NamedTuple):
    """An item of a stream. `data` is `EventData`, or of the kind `dropped` the number of missed events."""

    id: str | None
    kind: str
    data: Any


# The names of the schemas.
SCHEMAS: dict[str, Any] = {
    "SessionView": SessionView, "ApprovalStamp": ApprovalStamp, "CallResultError": CallError, "CallResult": CallResult,
    "ApprovalView": Approval, "DecisionRequest": DecisionOptions, "FileView": FileEntry, "Event": EventData,
    "CallStatus": CallStatus, "ApprovalState": ApprovalState, "Choice": Choice,
}  # fmt: skip
