"""The asynchronous client. `blocking.py` has the same methods without `await`."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from math import inf
from typing import Any, Self, TypedDict, Unpack
from urllib.parse import quote
from uuid import uuid4

import httpx

from . import dialects
from .errors import ApprovalPending, ClientToolError, Conflict, Expired, NotFound, error_of
from .transport import Http, Transport, resolve
from .views import ApprovalState, ApprovalView, CallResult, Choice, DecisionRequest, FileView, Format, SessionView, StreamItem

# A call that outlasts it goes on, and its result is asked for again.
TIMEOUT = httpx.Timeout(10.0, read=60.0)
# The first session of a new daemon waits until the built-in plugins are compiled, and must not be opened twice.
_OPENING = httpx.Timeout(10.0, read=300.0)
# Longest pause between two looks at a call that waits for a person or still runs.
_POLL_SECONDS = 2.0
# Requests of a model before `loop` gives up.
_ROUNDS = 30


class SessionOptions(TypedDict, total=False):
    """Ids of the orchestrator, and how a session waits.

    - `on_client_tool(call)` performs a call of a client tool, described by `call["payload"]`, and returns its output or raises
      `ClientToolError`.
    - `on_approval(calls)` is told once of calls that wait for a person.
    - `deadline_ms` is the time that the daemon gives the calls of a request, if their own limits do not end them earlier.
    - `approval_timeout` is the number of seconds that a request waits for decisions before it raises `ApprovalPending`; by default
      it waits until they expire.
    """

    user: str
    conversation: str
    channel: str
    on_client_tool: Callable[[CallResult], Any]
    on_approval: Callable[[list[CallResult]], Any]
    approval_timeout: float
    deadline_ms: int


class AsyncToolgate:
    """A daemon, with a token. Defaults: `TOOLGATE_SERVER` or `http://127.0.0.1:7300`, and `TOOLGATE_TOKEN`.

    `http` is a client of httpx with other settings: a certificate authority, a proxy, a Unix socket.
    """

    def __init__(self, server: str | None = None, token: str | None = None, *, http: Http | None = None) -> None:
        server = server or os.environ.get("TOOLGATE_SERVER", "http://127.0.0.1:7300")
        http = http or httpx.AsyncClient(timeout=TIMEOUT)
        self._transport = Transport(server, token or os.environ.get("TOOLGATE_TOKEN", ""), http)

    async def close(self) -> None:
        await resolve(getattr(self._transport.http, "aclose" if self._transport.is_async else "close")())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, agent: str, **options: Unpack[SessionOptions]) -> "AsyncSession":
        """Opens a session for an agent, `ORGANIZATION/AGENT`."""
        body = {"agent": agent} | {name: options[name] for name in ("user", "conversation", "channel") if options.get(name)}
        opened = await self._transport.json("POST", "/v1/sessions", json=body, repeatable=False, timeout=_OPENING)
        return AsyncSession(self._transport, opened, options)

    async def session(self, id: str, **options: Unpack[SessionOptions]) -> "AsyncSession":
        """Returns to a session that is open, such as one of before a restart."""
        return AsyncSession(self._transport, await self._transport.json("GET", f"/v1/sessions/{quote(id, '')}"), options)

    async def approvals(self, *, organization: str | None = None, state: ApprovalState | None = "pending") -> list[ApprovalView]:
        """Lists approvals, the oldest first. The role of the token is owner or approver."""
        found: list[ApprovalView] = []
        query = {name: value for name, value in {"organization": organization, "state": state}.items() if value}
        while True:
            page = await self._transport.json("GET", "/v1/approvals", params=query)
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]

    async def approval(self, id: str) -> ApprovalView:
        return await self._transport.json("GET", f"/v1/approvals/{quote(id, '')}")

    async def decide(self, id: str, decision: Choice, **options: Unpack[DecisionRequest]) -> ApprovalView:
        """Decides about a call. The model is told the reason of a denial."""
        return await self._transport.json("POST", f"/v1/approvals/{quote(id, '')}", json={"decision": decision, **options})

    def events(self, organization: str | None = None, *, last_id: str | None = None) -> AsyncIterator[StreamItem]:
        """Follows the events of an organization, or of all, as `AsyncSession.events` does."""
        scope = f"/v1/orgs/{quote(organization, '')}" if organization else "/v1"
        return self._transport.events(f"{scope}/events", last_id)


class AsyncSession:
    """An open session. Leaving `async with` ends it."""

    def __init__(self, transport: Transport, view: SessionView, options: SessionOptions) -> None:
        self._transport, self.view, self._options = transport, view, options
        self.id, self.system_prompt = view["session"], view["system_prompt"]
        self._path = f"/v1/sessions/{quote(self.id, '')}"
        self._format: Format = "openai"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        """Ends the session and deletes its files. An ended session stays ended."""
        with suppress(Expired, NotFound):
            await self._send("DELETE", "")

    async def tools(self, format: Format = "openai", *, strict: bool = False, deferred: bool = False) -> list[Any]:
        """The callable tools, as the provider takes them. `run` and `loop` expect messages of this format from then on."""
        self._format = format
        query = {"format": format, "strict": strict, "deferred": deferred}
        return (await self._json("GET", "/tools", params=query))["tools"]

    async def select(self, message: str, format: Format = "openai") -> list[Any]:
        """The tools that matter for a message of the user, the most relevant first."""
        self._format = format
        return (await self._json("POST", "/tools/select", params={"format": format}, json={"message": message}))["tools"]

    async def run(self, message: Any, format: Format | None = None, *, turn: str | None = None) -> list[Any]:
        """Runs the calls of a provider's message or whole reply. Returns the messages to append, none for a message without calls.

        It waits for calls that still run, for client tools and for approvals. The failure of a call is no exception: the
        model reads it. A turn has a limited number of rounds of calls.
        """
        format = format or self._format
        carrier = dialects.calls_of(format, message)
        if not dialects.has_calls(format, carrier):
            return []
        carrier, ids = dialects.with_ids(carrier) if format == "gemini" else (carrier, set())
        answer = await self._settle({format: carrier, "turn": turn})
        return dialects.results(format, dialects.without_ids(answer[format], ids) if ids else answer[format])

    async def loop(self, ask: Callable[[list[Any], list[Any]], Any], messages: list[Any], format: Format | None = None) -> Any:
        """Calls the model with `ask(messages, tools)` until its reply has no calls, and returns that reply.

        `messages` grows by what the model says and by the results.
        """
        format = format or self._format
        tools, turn = await self.tools(format), f"t-{uuid4().hex}"
        for _ in range(_ROUNDS):
            reply = await resolve(ask(messages, tools))
            messages += dialects.said(format, dialects.calls_of(format, reply))
            results = await self.run(reply, format, turn=turn)
            if not results:
                return reply
            messages += results
        message = f"the model called tools in {_ROUNDS} replies in a row"
        raise error_of({"error_type": "ROUNDS_EXCEEDED", "message": message, "hint": "look at its last messages"})

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, *, id: str | None = None, turn: str | None = None) -> Any:
        """Calls one tool and returns its output. A failed call is raised as a `ToolgateError`."""
        call = {"id": id or f"c-{uuid4().hex}", "tool": tool, "arguments": arguments or {}}
        result: CallResult = (await self._settle({"calls": [call], "turn": turn}))["results"][0]
        if result["status"] != "ok":
            raise error_of({**result.get("error", {"message": "the daemon stopped during the call", "hint": "check its effects"})})
        return result["output"]

    async def get_call(self, id: str) -> CallResult:
        return await self._json("GET", f"/calls/{quote(id, '')}")

    async def cancel(self, id: str) -> None:
        await self._send("DELETE", f"/calls/{quote(id, '')}")

    def events(self, *, last_id: str | None = None) -> AsyncIterator[StreamItem]:
        """Follows the session's events until it ends, from now on or after `last_id`. A lost connection is resumed.

        The first item, of the kind `listening`, says that no later event is missed.
        """
        return self._transport.events(f"{self._path}/events", last_id)

    async def files(self) -> list[FileView]:
        return (await self._json("GET", "/files"))["items"]

    async def read_file(self, path: str) -> bytes:
        return (await self._send("GET", f"/files/{quote(path)}")).content

    async def write_file(self, path: str, content: bytes, *, only_new: bool = False) -> None:
        """Writes a file of the workspace. With `only_new`, a file that exists is kept and an error raised."""
        headers = {"Content-Type": "application/octet-stream"} | ({"If-None-Match": "*"} if only_new else {})
        await self._send("PUT", f"/files/{quote(path)}", content=content, headers=headers, repeatable=not only_new)

    async def delete_file(self, path: str) -> None:
        await self._send("DELETE", f"/files/{quote(path)}")

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        return await self._transport.send(method, self._path + path, **request)

    async def _json(self, method: str, path: str, **request: Any) -> Any:
        return await self._transport.json(method, self._path + path, **request)

    async def _settle(self, body: dict[str, Any]) -> dict[str, Any]:
        """Posts the same calls until the model is next. Calls that have ended answer with their recorded results."""
        body |= {"deadline_ms": self._options.get("deadline_ms")}
        told: set[str] = set()
        end = time.monotonic() + self._options.get("approval_timeout", inf)
        while True:
            answer = await self._json("POST", "/calls", json=body)
            if answer["next"] == "model":
                return answer
            calls = [call for call in answer.get("calls") or answer["results"] if call["status"] not in ("ok", "error")]
            for call in calls:
                if call["status"] == "client_required":
                    await self._perform(await self.get_call(call["id"]))
            pending = [call for call in calls if call["status"] == "approval_required"]
            await self._announce([call["id"] for call in pending if call["approval"]["id"] not in told])
            told |= {call["approval"]["id"] for call in pending}
            for call in calls:
                if not await self._wait(call["id"], end if call in pending else inf):
                    raise ApprovalPending(pending)

    async def _perform(self, call: CallResult) -> None:
        perform = self._options.get("on_client_tool")
        try:
            if perform is None:
                raise ClientToolError(f"this client does not perform {call['tool']}")
            result = {"status": "ok", "output": await resolve(perform(call))}
        except ClientToolError as error:
            result = {"status": "error", "message": str(error) or "the client could not do it"}
        # Another program may have posted a result, or the time may be over: the next answer tells.
        with suppress(Conflict, Expired):
            await self._send("POST", f"/calls/{quote(call['id'], '')}/result", json=result)

    async def _announce(self, ids: list[str]) -> None:
        if announce := self._options.get("on_approval"):
            calls = [await self.get_call(id) for id in ids]
            if pending := [call for call in calls if call["status"] == "approval_required"]:
                await resolve(announce(pending))

    async def _wait(self, id: str, end: float) -> bool:
        """Waits while a call runs or is undecided. Returns whether that was over before `end`, of the monotonic clock."""
        pause = 0.1
        while True:
            call = await self.get_call(id)
            if call["status"] != "running" and call.get("approval", {}).get("state") != "pending":
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            await self._transport.sleep(min(pause, left))
            pause = min(pause * 1.5, _POLL_SECONDS)
