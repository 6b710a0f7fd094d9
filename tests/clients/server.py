"""MCP server (PyPI `mcp`) for the tests of plugins/mcp. It serves both revisions, 2025-11-25 and 2026-07-28, at `/mcp`.

    python server.py PORT [--describe FILE] [--token WORD] [--sse]

Port 0 selects a free port. The line `listening on PORT` means that it is ready. `--describe` names a file with the description
of the tool `note`, read for each listing, so that a test can change it. `--token` requires `Authorization: Bearer WORD`.
`--sse` serves the transport of 2024-11-05 at `/sse` instead.
`GET /seen` returns the method and `Mcp-Method` of each request.
"""

import argparse
import asyncio
import contextlib
import datetime
import json
import pathlib
import socket
import typing

import mcp_types
import pydantic
import uvicorn
from mcp.server.mcpserver import Context, Elicit, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError

arguments = argparse.ArgumentParser()
arguments.add_argument("port", type=int)
arguments.add_argument("--describe", type=pathlib.Path)
arguments.add_argument("--token")
arguments.add_argument("--sse", action="store_true")
arguments = arguments.parse_args()


class Server(MCPServer):
    async def list_tools(self):
        tools = await super().list_tools()
        if arguments.describe and arguments.describe.exists():
            told = arguments.describe.read_text().strip()
            tools = [tool.model_copy(update={"description": told}) if tool.name == "note" else tool for tool in tools]
        return tools


server = Server("toolgate-tests", version="1.2.3", instructions="Ask for the forecast first.", log_level="ERROR")
READS = mcp_types.ToolAnnotations(read_only_hint=True, open_world_hint=False)


class Forecast(pydantic.BaseModel):
    city: str
    celsius: float


@server.tool(name="getForecast", title="Forecast", annotations=READS)
def get_forecast(city: str) -> Forecast:
    """Tells the weather of tomorrow in a city."""
    return Forecast(city=city, celsius=21.5)


class Event(pydantic.BaseModel):
    at: datetime.datetime


@server.tool(annotations=READS)
def event() -> Event:
    """Tells when the next event begins, in local time."""
    return Event(at=datetime.datetime(2024, 1, 1, 10))


@server.tool(annotations=READS, structured_output=False)
def echo(text: str) -> str:
    """Gives a text back."""
    return text


@server.tool(structured_output=False)
def note(text: str) -> str:
    """Writes a note down."""
    return f"noted: {text}"


@server.tool(name="notes.forget-all", annotations=mcp_types.ToolAnnotations(destructive_hint=True, idempotent_hint=True))
def forget() -> bool:
    """Forgets all notes."""
    return True


@server.tool(structured_output=False)
def fail(why: str) -> str:
    """Fails."""
    raise ToolError(f"cannot be done: {why}")


Region = typing.Annotated[str, pydantic.Field(json_schema_extra={"x-mcp-header": "Region"})]


@server.tool(name="Regional/Query", annotations=READS, structured_output=False)
def regional(region: Region, query: str) -> str:
    """Asks the database of a region, which is told to the proxies on the way too."""
    return f"{region}: {query}"


@server.tool(annotations=READS, structured_output=False)
async def count(context: Context, to: int) -> str:
    """Counts, and tells how far it is."""
    for done in range(to):
        await context.report_progress(done + 1, to)
        await context.info(f"at {done + 1}")
    return f"counted to {to}"


@server.tool(annotations=READS)
def picture() -> Image:
    """Draws one pixel."""
    pixel = "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    return Image(data=bytes.fromhex(pixel), format="png")


@server.tool(annotations=READS, structured_output=False)
def pages(bytes: int) -> str:
    """Gives a text of that length."""
    return "x" * bytes


meeting = {"arrived": 0, "is_over": asyncio.Event()}


@server.tool(annotations=READS, structured_output=False)
async def meet(parties: int) -> str:
    """Waits until as many calls as that run. The first that waits in vain tells so to all."""
    meeting["arrived"] += 1
    if meeting["arrived"] < parties:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(meeting["is_over"].wait(), 10)
    met = meeting["arrived"] >= parties
    meeting["is_over"].set()
    return "met" if met else "alone"


released = asyncio.Event()


@server.tool(annotations=READS, structured_output=False)
async def hold(context: Context) -> str:
    """Tells a step, and goes on when it is released."""
    await context.report_progress(1, 2)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(released.wait(), 10)
    return "done"


@server.tool(annotations=READS, structured_output=False)
async def release() -> str:
    """Lets `hold` go on."""
    released.set()
    return "released"


class Name(pydantic.BaseModel):
    name: str


@server.tool(structured_output=False)
async def ask(context: Context) -> str:
    """Asks the person at the client for a name."""
    answer = await context.elicit("Who are you?", Name)
    return f"{answer.action}"


async def who() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool(structured_output=False)
def confirm(name: typing.Annotated[Name, Resolve(who)]) -> str:
    """Asks the person at the client for a name before it begins."""
    return f"hello, {name.name}"


seen = []


def watched(app):
    """Records requests and checks the token."""

    async def answer(scope, receive, send):
        if scope["type"] != "http":
            return await app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["path"] == "/seen":
            return await reply(send, 200, seen)
        seen.append([scope["method"], headers.get("mcp-method")])
        if arguments.token and headers.get("authorization") != f"Bearer {arguments.token}":
            return await reply(send, 401, {"error": "a token is needed"})
        await app(scope, receive, send)

    return answer


async def reply(send, status, value):
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"listening on {sockets[0].getsockname()[1]}", flush=True)


listener = socket.create_server(("127.0.0.1", arguments.port))
app = server.sse_app() if arguments.sse else server.streamable_http_app()
config = uvicorn.Config(watched(app), log_level="error")
asyncio.run(Announcing(config).serve(sockets=[listener]))
