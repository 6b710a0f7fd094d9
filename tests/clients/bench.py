"""The cells of the bench of real clients, and how a driver talks to the test that started it.

A driver prints one line of JSON for the client, and one for each cell: `{"cell", "outcome", "detail"}`. With `{"want": …}` it asks the
test for what a person, an operator or the machine does, and reads one line of JSON as the answer.
"""

import asyncio
import dataclasses
import json
import os
import sys
import traceback

SERVER = os.environ["TOOLGATE_SERVER"]
URL = f"{SERVER}/mcp"
# Tokens for an autonomous agent, and for one whose writes wait for a person.
TOKEN = os.environ["TOOLGATE_TOKEN"]
CAREFUL_TOKEN = os.environ["TOOLGATE_CAREFUL_TOKEN"]
EVALUATE = "call_arithmetic_evaluate"
# Longer than any cell takes on a loaded machine.
PATIENCE = 100
PARALLEL = 20


@dataclasses.dataclass
class Told:
    """What the client gives its program, or the model, for a call."""

    text: str
    is_error: bool = False
    kinds: tuple = ("text",)
    # What a client makes of a result with `isError`.
    form: str = "result"

    @classmethod
    def of(cls, content, is_error):
        """From content blocks of MCP."""
        text = "".join(block.text for block in content if block.type == "text")
        return cls(text, is_error, tuple(block.type for block in content))


def headers(token):
    return {"Authorization": f"Bearer {token}"}


def say(**line):
    print(json.dumps(line), flush=True)


async def want(what, **more):
    say(want=what, **more)
    return json.loads(await asyncio.to_thread(sys.stdin.readline))


def failure(error):
    """Names an exception by its JSON-RPC code where it has one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    code = getattr(getattr(error, "error", error), "code", None)
    return f"exception {code if isinstance(code, int) else type(error).__name__}"


async def evaluates(client):
    told = await client.call(EVALUATE, {"expression": "6*7"})
    return ("works" if "42" in told.text and not told.is_error else "fails"), told


async def lists(client):
    names = await client.names()
    return ("works" if any(name.endswith(EVALUATE) for name in names) else "lacks a tool"), names


async def refuses(client):
    told = await client.call("call_no_such", {})
    return (told.form if told.is_error else "text for the model"), told


async def corrects(client):
    told = await client.call(EVALUATE, {"expresion": "6*7"})
    return (told.form if "did you mean" in told.text else "text of its own"), told


async def draws(client):
    told = await client.call("call_wiki_picture", {})
    return " + ".join(told.kinds), told.text


def carries(size):
    async def act(client):
        told = await client.call("call_wiki_pages", {"bytes": size})
        if "/workspace/.results/" in told.text:
            return "file", told.text[-300:]
        return ("works" if len(told.text) >= size else "cut at 64 KiB"), f"{len(told.text)} {told.text[-300:]}"

    return act


async def cancels(client):
    call = asyncio.create_task(client.call("call_hostile_doze", {}))
    running = await want("running", tool="hostile/doze")
    if hasattr(client, "cancel"):
        await client.cancel(running["call"])
    else:
        call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    status = (await want("ended", tool="hostile/doze"))["status"]
    return ("works" if status == "cancelled" else "runs on" if status == "running" else status), status


async def reports(client):
    steps, is_told = [], asyncio.Event()

    def note(step):
        steps.append(step)
        is_told.set()

    call = asyncio.create_task(client.call("call_wiki_hold", {}, note))
    telling = asyncio.create_task(is_told.wait())
    await asyncio.wait([call, telling], return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()
    await want("release")
    await call
    return ("works" if steps else "none"), steps


async def runs_in_parallel(client):
    calls = [("call_wiki_meet", {"parties": PARALLEL})] * PARALLEL
    told = await (client.call_all(calls) if hasattr(client, "call_all") else asyncio.gather(*(client.call(*call) for call in calls)))
    return ("works" if all("met" in one.text for one in told) else "one after another"), told


async def survives_a_stop(client):
    await client.call("call_files_write", {"path": "kept.txt", "content": "kept"})
    call = asyncio.create_task(client.call("call_hostile_rest", {"ms": 2000}))
    await want("terminate", tool="hostile/rest")
    try:
        told = await call
    except Exception as error:
        # Its name depends on when the connection closes.
        return "result lost", repr(error)
    return ("works" if "2000" in told.text and not told.is_error else "cancelled"), told


async def survives_a_restart(client):
    await want("restart")
    told = await client.call("call_files_read", {"path": "kept.txt"})
    if "there is no" in told.text:
        return "files lost", told
    return ("works" if "kept" in told.text and not told.is_error else "fails"), told


def decided(decision):
    async def act(client):
        call = asyncio.create_task(client.call("call_files_write", {"path": f"{decision}.txt", "content": "hello"}))
        waited = await want(decision)
        told = await call
        if decision == "deny":
            return ("told" if "a person denied this call" in told.text else "not told"), told
        say(cell="records of the wait", outcome=str(waited["records"]))
        return ("works" if "5" in told.text and not told.is_error else "fails"), told

    return act


# Each has the client of the careful agent.
CAREFUL = {"approval": decided("approve"), "denial": decided("deny")}
CELLS = {
    "list": lists,
    "call": evaluates,
    "refusal": refuses,
    "wrong arguments": corrects,
    "image": draws,
    "500 KB": carries(500_000),
    "1.5 MB": carries(1_500_000),
    "cancel": cancels,
    "progress": reports,
    "20 at once": runs_in_parallel,
    "SIGTERM": survives_a_stop,
    "restart": survives_a_restart,
}


async def fill(name, act, client):
    try:
        async with asyncio.timeout(PATIENCE):
            outcome, detail = await act(client)
    except Exception as error:
        outcome, detail = failure(error), repr(error)
        traceback.print_exc()
    say(cell=name, outcome=outcome, detail=str(detail)[:1000])


async def run(client, version, revision, connect, lacks=()):
    """Fills all cells but those that the client lacks. `connect(token)` opens a client with `names()` and `call(…)`."""
    say(client=client, version=version, revision=revision)
    for token, cells in [(CAREFUL_TOKEN, CAREFUL), (TOKEN, CELLS)]:
        async with connect(token) as opened:
            for name, act in cells.items():
                if name not in lacks:
                    await fill(name, act, opened)
