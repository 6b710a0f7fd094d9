"""Client of the tool daemon Toolgate, blocking (`Toolgate`) and asynchronous (`AsyncToolgate`)."""

from .blocking import Session, Toolgate
from .client import AsyncSession, AsyncToolgate
from .errors import ApprovalPending, ClientToolError, Conflict, Expired, Forbidden, InvalidRequest, Limited, NotFound
from .errors import ToolFailed, ToolgateError, Unauthenticated, Unavailable, Unreachable
from .views import Approval, ApprovalStamp, CallError, CallResult, Event, EventData, FileEntry, Format, SessionView

__all__ = [
    "Approval", "ApprovalPending", "ApprovalStamp", "AsyncSession", "AsyncToolgate", "CallError", "CallResult", "ClientToolError",
    "Conflict", "Event", "EventData", "Expired", "FileEntry", "Forbidden", "Format", "InvalidRequest", "Limited", "NotFound",
    "Session", "SessionView", "ToolFailed", "Toolgate", "ToolgateError", "Unauthenticated", "Unavailable", "Unreachable",
]  # fmt: skip
