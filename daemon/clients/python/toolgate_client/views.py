"""Typed views of the daemon's JSON: the fields that orchestrators use. Responses can have more.

They are named as the schemas of the OpenAPI document, with which a test compares them.
"""

from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

CallStatus = Literal["ok", "error", "client_required", "approval_required", "running", "unknown"]
ApprovalState = Literal["pending", "approved", "denied", "used", "expired", "void"]
Choice = Literal["approve", "deny"]
Format = Literal["openai", "openai_responses", "anthropic", "gemini"]


class SessionView(TypedDict):
    session: str
    agent: str
    tools: list[dict[str, Any]]
    system_prompt: str
    expires_at: int


class ApprovalStamp(TypedDict):
    id: str
    state: ApprovalState
    expires_at: int


class CallResultError(TypedDict):
    error_type: str
    message: str
    hint: str
    retryable: bool
    details: NotRequired[dict[str, Any]]


class CallResult(TypedDict):
    session: NotRequired[str]
    conversation: NotRequired[str]
    id: str
    tool: str
    status: CallStatus
    executed: str
    text: str
    output: NotRequired[Any]
    error: NotRequired[CallResultError]
    approval: NotRequired[ApprovalStamp]
    payload: NotRequired[Any]
    expires_at: NotRequired[int]


class ApprovalView(TypedDict):
    id: str
    state: ApprovalState
    organization: str
    agent: str
    session: str
    call: str
    user: str | None
    tool: str
    arguments: dict[str, Any]
    created_at: int
    expires_at: int
    reason: NotRequired[str]
    decided_by: NotRequired[str]


class DecisionRequest(TypedDict, total=False):
    reason: str
    uses: int
    arguments: dict[str, Any]
    arguments_instead: dict[str, Any]


class FileView(TypedDict):
    path: str
    kind: str
    bytes: int


class Event(TypedDict):
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


class StreamItem(NamedTuple):
    """An item of a stream. `data` is an `Event`; of the kind `dropped`, the number of missed events; of `listening`, None."""

    id: str | None
    kind: str
    data: Any
