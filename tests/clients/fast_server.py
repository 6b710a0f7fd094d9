"""FastMCP server (PyPI `fastmcp`) for the tests of plugins/mcp, at `/mcp`.

    python fast_server.py

It selects a free port. The line `listening on PORT` means that it is ready.
"""

import asyncio
import datetime
import socket

import pydantic
import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("toolgate-tests", version="1.2.3")


class Event(pydantic.BaseModel):
    at: datetime.datetime
    link: pydantic.AnyUrl | None = None


@server.tool
def event() -> Event:
    """Tells when the next event begins, in local time."""
    return Event(at=datetime.datetime(2024, 1, 1, 10))


@server.tool
def greet(name: str) -> str:
    """Greets a person."""
    return f"hello, {name}"


@server.tool
def fail(why: str) -> str:
    """Fails."""
    raise ToolError(f"cannot be done: {why}")


class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"listening on {sockets[0].getsockname()[1]}", flush=True)


listener = socket.create_server(("127.0.0.1", 0))
config = uvicorn.Config(server.http_app(path="/mcp"), log_level="error")
asyncio.run(Announcing(config).serve(sockets=[listener]))
