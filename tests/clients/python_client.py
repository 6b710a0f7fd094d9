"""What the Python client promises beside the cookbook: its views fit the OpenAPI document, a lost event stream is resumed,
waits end, and each refusal is an exception of its own.

The argument is the OpenAPI document. The environment has the variables of the cookbook.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import typing
from pathlib import Path

import httpx
from toolgate_client import (
    ApprovalPending,
    AsyncToolgate,
    ClientToolError,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    ToolFailed,
    Toolgate,
    ToolgateError,
    Unauthenticated,
    Unreachable,
    errors,
    views,
)

AGENT = "acme/helper"
SERVER = os.environ["TOOLGATE_SERVER"]


def raised(kind, code, action):
    try:
        action()
    except ToolgateError as error:
        assert type(error) is kind and error.code == code and error.hint, repr(error)
        return error
    raise AssertionError(f"{code} is not raised")


def views_fit_the_openapi_document():
    schemas = json.loads(Path(sys.argv[1]).read_text())["components"]["schemas"]
    found = {name: view for name, view in vars(views).items() if name in schemas}
    assert found.keys() >= {"SessionView", "CallResult", "ApprovalView", "FileView", "Event", "CallStatus"}, found.keys()
    for name, view in found.items():
        schema = schemas[name]
        if literals := typing.get_args(view):
            assert list(literals) == schema["enum"], name
            continue
        assert view.__annotations__.keys() <= schema["properties"].keys(), (name, view.__annotations__.keys())
        assert view.__required_keys__ <= set(schema["required"]), (name, view.__required_keys__)
    codes = set(schemas["ErrorType"]["enum"])
    codes.add("UNREACHABLE")  # Of the client itself.
    assert errors.CLASSES.keys() == codes, errors.CLASSES.keys() ^ codes


class Proxy:
    """Forwards connections to the daemon until it cuts them: all at once, or instead of the next answer."""

    def __init__(self):
        self.loses_answer = False
        self.listener, self.pairs = socket.create_server(("127.0.0.1", 0)), []
        self.server = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        host, _, port = SERVER.removeprefix("http://").rpartition(":")
        while True:
            client, _ = self.listener.accept()
            pair = (client, socket.create_connection((host, int(port))))
            self.pairs.append(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self.forward, args=(source, sink), daemon=True).start()

    def forward(self, source, sink):
        try:
            while some := source.recv(65536):
                if self.loses_answer and (sink, source) in self.pairs:
                    self.loses_answer = False
                    return self.cut()
                sink.sendall(some)
        except OSError:
            pass

    def cut(self):
        # A client may be back before the loop ends, and its connection is not of these.
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def a_lost_stream_is_resumed_without_a_gap():
    proxy = Proxy()
    with Toolgate() as direct, direct.open(AGENT) as session, Toolgate(proxy.server) as lossy:
        events = lossy.session(session.id).events()
        assert next(events).kind == "listening"
        session.call("arithmetic/evaluate", {"expression": "1"}, id="before")
        seen = [next(events) for _ in range(2)]
        proxy.cut()
        session.call("arithmetic/evaluate", {"expression": "2"}, id="during")
        seen += [next(events) for _ in range(2)]
        told = [(event.kind, event.data.get("call")) for event in seen]
        assert told == [(kind, call) for call in ("before", "during") for kind in ("tool_call", "tool_result")], told
        # Another program goes on after an event of the first one, until the session ends.
        again = session.events(last_id=seen[1].id)
        assert [next(again).kind for _ in range(3)] == ["listening", "tool_call", "tool_result"]
        session.end()
        assert not list(again)


async def waits_end_and_messages_can_be_run_again():
    async def no_client(call):
        raise ClientToolError("the user has left")

    message = {"tool_calls": [
        {"id": "w", "type": "function", "function": {"name": "call_files_write", "arguments": '{"path": "a", "content": "x"}'}},
        {"id": "a", "type": "function", "function": {"name": "call_user_ask", "arguments": '{"question": "Which day?"}'}},
    ]}  # fmt: skip
    async with AsyncToolgate() as toolgate, AsyncToolgate(token=os.environ["TOOLGATE_APPROVER_TOKEN"]) as approver:
        async with await toolgate.open(AGENT, approval_timeout=0, on_client_tool=no_client) as session:
            try:
                await session.run(message)
                raise AssertionError("nobody has approved")
            except ApprovalPending as pending:
                (call,) = pending.calls
            listed = await approver.approvals(organization="acme")
            assert call["approval"]["id"] in [approval["id"] for approval in listed], listed
            await approver.decide(call["approval"]["id"], "deny", reason="not today")
            wrote, asked = [result["content"] for result in await session.run(message)]
            assert "APPROVAL_DENIED" in wrote and "not today" in wrote, wrote
            assert "the user has left" in asked, asked
            try:
                await session.call("files/write", {"path": "c", "content": "x"}, id="c")
                raise AssertionError("nobody has approved")
            except ApprovalPending:
                await session.cancel("c")
            assert (await session.get_call("c"))["error"]["error_type"] == "CANCELLED"
            # The next one is approved while it is waited for.
            session = await toolgate.session(session.id, on_approval=lambda calls: decisions.append(approve(calls[0])))

            async def approve(call):
                await approver.decide(call["approval"]["id"], "approve")

            decisions = []
            writing = asyncio.create_task(session.call("files/write", {"path": "b", "content": "x"}))
            # Looks for the decision for two minutes; without one the next line fails.
            for _ in range(2400):
                if decisions:
                    break
                await asyncio.sleep(0.05)
            await decisions[0]
            assert (await writing)["bytes"] == 1
            assert [entry["path"] for entry in await session.files()] == ["b"]


def a_call_whose_answer_is_lost_answers_with_its_recorded_result():
    proxy = Proxy()
    with Toolgate(proxy.server) as toolgate, toolgate.open(AGENT) as session:
        proxy.loses_answer = True
        first = session.call("arithmetic/evaluate", {"expression": "6*7"}, id="c1")
        assert session.call("arithmetic/evaluate", {"expression": "6*7"}, id="c1") == first
        raised(Conflict, "CONFLICT", lambda: session.call("arithmetic/evaluate", {"expression": "1"}, id="c1"))
        assert session.get_call("c1")["output"] == first and not proxy.loses_answer
        # A session would be opened twice.
        proxy.loses_answer = True
        raised(Unreachable, "UNREACHABLE", lambda: toolgate.open(AGENT))


def a_call_that_outlasts_a_request_answers_with_its_result():
    # One of the two requests that follow may find a busy machine.
    hasty = httpx.Client(timeout=httpx.Timeout(10.0, read=3.0))
    with Toolgate() as toolgate, toolgate.open(AGENT) as session, Toolgate(http=hasty) as impatient:
        assert impatient.session(session.id).call("hostile/rest", {"ms": 4000}, id="long") == 4000
        # One call, and not one for each request.
        assert session.get_call("long")["output"] == 4000
        bounded = toolgate.session(session.id, deadline_ms=50)
        raised(ToolFailed, "DEADLINE_EXCEEDED", lambda: bounded.call("hostile/rest", {"ms": 60_000}))


def refusals_are_exceptions_with_code_and_hint():
    with Toolgate() as toolgate, toolgate.open(AGENT) as session:
        assert "call_arithmetic_evaluate" in [tool["name"] for tool in session.select("evaluate an expression", "anthropic")]
        session.write_file("ü/a b.txt", b"1", only_new=True)
        raised(Conflict, "CONFLICT", lambda: session.write_file("ü/a b.txt", b"2", only_new=True))
        assert session.read_file("ü/a b.txt") == b"1"
        raised(InvalidRequest, "INVALID_ARGUMENTS", lambda: session.call("arithmetic/evaluate", {"formula": "1"}))
        raised(NotFound, "TOOL_NOT_FOUND", lambda: session.call("nothing/there"))
        raised(NotFound, "NOT_FOUND", lambda: toolgate.open("acme/nobody"))
        raised(Forbidden, "FORBIDDEN", toolgate.approvals)
        raised(Forbidden, "FORBIDDEN", lambda: next(toolgate.events("acme")))
        assert session.run({"role": "assistant", "content": "no calls"}) == []
        try:
            session.call("user/ask", {"question": "Which day?"})
            raise AssertionError("nobody performs it")
        except ToolgateError as error:
            assert "does not perform" in error.message, error
    raised(Unauthenticated, "UNAUTHENTICATED", lambda: Toolgate(token="tg_none").open(AGENT))
    error = raised(Unreachable, "UNREACHABLE", lambda: Toolgate("http://127.0.0.1:1").open(AGENT))
    assert error.retryable and error.status is None


views_fit_the_openapi_document()
a_lost_stream_is_resumed_without_a_gap()
asyncio.run(waits_end_and_messages_can_be_run_again())
a_call_whose_answer_is_lost_answers_with_its_recorded_result()
a_call_that_outlasts_a_request_answers_with_its_result()
refusals_are_exceptions_with_code_and_hint()
