"""A plugin for `tests/languages.rs`: what an SDK gives, and what a hostile plugin tries."""

import asyncio
import os
import random
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from toolgate import Plugin, ToolError, context, http, log, tool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: Annotated[int, "Up", {"minimum": 0}] = 0


@tool
def types(point: Point, colours: list[Colour], mode: Literal["a", "b"] = "a", more: dict[str, Point] | None = None) -> list:
    """Probes types."""
    return [point, point.x + point.y, colours, colours[0] is Colour.RED, mode, more]


@tool
async def tasks() -> dict:
    """Probes tasks."""
    order = []

    async def task(name, seconds):
        await asyncio.sleep(seconds)
        order.append(name)
        return name

    names = await asyncio.gather(task("slow", 0.02), task("fast", 0.001))
    return {"order": order, "names": names}


@tool
def facts() -> dict:
    """Probes facts."""
    return {"call": context.call_id(), "agent": context.get("agent"), "settings": context.settings(), "user": context.get("user")}


@tool
def chance() -> list:
    """Probes chance."""
    return [random.random(), time.time()]


@tool
def note(text: str) -> dict:
    """Probes files."""
    os.makedirs("/workspace/notes", exist_ok=True)
    with open("/workspace/notes/a.txt", "w") as file:
        file.write(text)
    log("info", "written", "a note", bytes=len(text))
    with open("/workspace/notes/a.txt") as file:
        return {"text": file.read(), "entries": os.listdir("/workspace/notes")}


@tool
def lazy() -> list:
    """Probes what CPython loads when it is used."""
    with open("/workspace/table.csv", "w", encoding="utf-8-sig") as file:
        file.write("é")
    with open("/workspace/table.csv", encoding="utf-8-sig") as file:
        texts = [file.read()]
    texts += [b"\x80".decode("cp1252"), "bücher.example".encode("idna").decode(), b"\x82\xa0".decode("shift_jis")]
    summer = datetime.strptime("2025-07-01", "%Y-%m-%d").replace(tzinfo=ZoneInfo("Europe/Oslo"))
    return [*texts, summer.isoformat()]


@tool
def zone(text: str) -> str:
    """Probes a time zone that does not exist."""
    return str(ZoneInfo(text))


@tool
def outside() -> str:
    """Probes files outside the workspace."""
    with open("/workspace/../etc/passwd") as file:
        return file.read()


@tool
async def fetch(text: str) -> list:
    """Probes requests."""
    pages = await asyncio.gather(*(http.send(f"{text}/echo?page={page}", method="POST", json={"page": page}) for page in (1, 2)))
    last = http.request(f"{text}/echo?page=3")
    return [[page.status, page.text()] for page in [*pages, last]]


@tool
def fail(text: str) -> None:
    """Probes a failure."""
    raise ToolError(text, retryable=True, details={"asked": text})


@tool(name="raise")
def raises() -> None:
    """Probes an exception."""
    {}["missing"]


@tool
async def never() -> None:
    """Probes a wait that nothing ends."""
    await asyncio.get_running_loop().create_future()


@tool
def loop() -> None:
    """Probes a loop."""
    while True:
        pass


@tool
def recurse() -> int:
    """Probes recursion."""

    def deeper(depth):
        return deeper(depth + 1) + 1

    sys.setrecursionlimit(10**9)
    return deeper(0)


@tool
def exhaust() -> None:
    """Probes memory."""
    everything = []
    while True:
        everything.append(bytearray(1 << 20))


@tool
def flood() -> str:
    """Probes output."""
    for _ in range(2_000):
        print("flood " * 10)
    return "done"


@tool(content=True, output_schema={"type": "integer"})
def show() -> dict:
    """Probes content blocks."""
    return {"output": 7, "content": [{"type": "text", "text": "see it"}]}


@tool
def sockets(text: Literal["connect", "resolve", "system", "subprocess", "exit"]) -> str:
    """Probes ways out."""
    if text == "connect":
        socket.socket().connect(("127.0.0.1", 80))
    elif text == "resolve":
        socket.getaddrinfo(b"example.com", 80)
    elif text == "system":
        os.system("true")
    elif text == "subprocess":
        subprocess.run(["true"])
    else:
        os._exit(0)
    return "out"


plugin = Plugin(
    "probe",
    version="0.1.0",
    capabilities={"filesystem": "workspace", "network": [{"scheme": "http", "host": "api.upstream.test", "port": 8080}]},
    tools=[types, tasks, facts, chance, note, lazy, zone, outside, fetch, fail, raises, never, loop, recurse, exhaust, flood, show, sockets],
)
