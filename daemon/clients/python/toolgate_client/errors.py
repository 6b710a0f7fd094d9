"""Errors of the daemon as exceptions. The closed list of codes is in the daemon's `docs/errors.md`."""

from typing import Any

# The class of each code.
CLASSES: dict[str, Any] = {}


class ToolgateError(Exception):
    """A refused request, or a failed call: `code`, `message`, `hint` and `details` as the daemon gives them.

    `status` is the HTTP status of a refused request. `retry_after` is in seconds, None if the daemon names no time.
    """

    def __init_subclass__(cls, codes: str = "") -> None:
        CLASSES.update(dict.fromkeys(codes.split(), cls))

    def __init__(self, body: dict[str, Any], status: int | None = None, retry_after: float | None = None) -> None:
        self.code = body.get("error_type", "UNKNOWN")
        self.message = body.get("detail") or body.get("message") or f"HTTP status {status}"
        self.hint, self.retryable, self.details = body.get("hint", ""), body.get("retryable", False), body.get("details", {})
        self.status, milliseconds = status, self.details.get("retry_after_ms")
        self.retry_after = retry_after if milliseconds is None else milliseconds / 1000
        super().__init__(f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else ""))


class InvalidRequest(ToolgateError, codes="INVALID_REQUEST INVALID_ARGUMENTS INVALID_POLICY INVALID_PLUGIN TOO_LARGE"):
    """The request, its arguments or a document is invalid; nothing was done."""


class Unauthenticated(ToolgateError, codes="UNAUTHENTICATED"):
    """The token is missing, unknown, expired or revoked."""


class Forbidden(ToolgateError, codes="FORBIDDEN ACCESS_DENIED TOOL_DISABLED CHANNEL_RESTRICTED APPROVAL_DENIED NETWORK_DENIED"):
    """The token's role, the gate or a person does not allow it."""


class NotFound(ToolgateError, codes="NOT_FOUND TOOL_NOT_FOUND"):
    """The object does not exist, or belongs to another organization."""


class Conflict(ToolgateError, codes="CONFLICT NO_TOOLS INTEGRATION_MISSING CREDENTIAL_MISSING CANCELLED"):
    """The state does not fit: an id in use, a decision that was made already, an agent without tools."""


class Expired(ToolgateError, codes="EXPIRED APPROVAL_EXPIRED"):
    """The session, approval, result or deadline is over."""


class Limited(ToolgateError, codes="RATE_LIMITED QUOTA_EXCEEDED ROUNDS_EXCEEDED"):
    """A rate, a quota or the number of rounds is used up."""


class Unavailable(ToolgateError, codes="OVERLOADED UNAVAILABLE API_UNAVAILABLE INTERNAL UNKNOWN"):
    """The daemon is overloaded or stopping, or the service behind a tool does not answer."""


_OF_TOOLS = "FUEL_EXHAUSTED MEMORY_EXCEEDED DEADLINE_EXCEEDED RESOURCE_EXCEEDED OUTPUT_TOO_LARGE INVALID_OUTPUT TOOL_CRASHED TOOL_FAILED"


class ToolFailed(ToolgateError, codes=_OF_TOOLS):
    """The tool ran and failed: a limit, a crash, or an error that it returned."""


class Unreachable(ToolgateError, codes="UNREACHABLE"):
    """No answer from the daemon. Code `UNREACHABLE`."""


class ApprovalPending(ToolgateError):
    """A person has not decided in time about `calls`. The same message can be run again. Code `APPROVAL_PENDING`."""

    def __init__(self, calls: list[Any]) -> None:
        waiting = ", ".join(call["approval"]["id"] for call in calls)
        hint = {"hint": "run the same message again later", "retryable": True}
        super().__init__({"error_type": "APPROVAL_PENDING", "message": f"no decision yet about {waiting}", **hint})
        self.calls = calls


class ClientToolError(Exception):
    """Raised by an `on_client_tool` function: the call fails, and the model reads the message."""


def error_of(body: dict[str, Any], status: int | None = None, retry_after: float | None = None) -> ToolgateError:
    """The exception for a problem document, or for the error of a call."""
    return CLASSES.get(body.get("error_type", ""), ToolgateError)(body, status, retry_after)
