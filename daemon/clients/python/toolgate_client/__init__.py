"""Client of the tool daemon Toolgate, blocking (`Toolgate`) and asynchronous (`AsyncToolgate`)."""

from .blocking import Session, Toolgate
from .client import AsyncSession, AsyncToolgate
from .errors import ApprovalPending, ClientToolError, Conflict, Expired, Forbidden, InvalidRequest, Limited, NotFound
from .errors import ToolFailed, ToolgateError, Unauthenticated, Unavailable, Unreachable
from .views import ApprovalStamp, ApprovalView, CallResult, CallResultError, Event, FileView, Format, SessionView, StreamItem

__all__ = [
    "ApprovalPending", "ApprovalStamp", "ApprovalView", "AsyncSession", "AsyncToolgate", "CallResult", "CallResultError", "ClientToolError",
    "Conflict", "Event", "Expired", "FileView", "Forbidden", "Format", "InvalidRequest", "Limited", "NotFound", "Session",
    "SessionView", "StreamItem", "ToolFailed", "Toolgate", "ToolgateError", "Unauthenticated", "Unavailable", "Unreachable",
]  # fmt: skip
