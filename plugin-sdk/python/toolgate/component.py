"""The component: exports the contract for the module `plugin`, and gives the SDK its host."""

# A call has no folder with modules, and CPython loads these only when they are used.
import _strptime
import asyncio
import encodings
import importlib
import importlib.resources
import json
import linecache
import os
import pkgutil
import random
import sys
import traceback
import zoneinfo
from io import BytesIO
from urllib.parse import urlsplit

import toolgate
import wit_world.exports
from componentize_py_types import Err
from plugin import plugin
from wit_world.imports import config, context, log, monotonic_clock, outgoing_handler, poll, progress
from wit_world.imports import toolgate_plugin_types as contract
from wit_world.imports import wasi_http_types as wasi
from wit_world.imports.streams import StreamError_Closed

CHUNK_BYTES = 65_536
# An output stream takes at most 4,096 bytes in one blocking write.
WRITE_BYTES = 4_096
METHODS = {name.upper(): getattr(wasi, f"Method_{name}") for name in ("Get", "Head", "Post", "Put", "Delete", "Options", "Patch")}
DESCRIPTION = json.dumps(plugin.description, ensure_ascii=False)


def load_codecs():
    for module in pkgutil.iter_modules(encodings.__path__):
        try:
            importlib.import_module(f"encodings.{module.name}")
        except ImportError:
            # A codec of Windows alone.
            pass


def load_zones():
    """Keeps the time zones of the package `tzdata` in memory, if the plugin has it: `ZoneInfo` reads files, which a call does not have."""
    try:
        folder = importlib.resources.files("tzdata.zoneinfo")
    except ModuleNotFoundError:
        return
    names = importlib.resources.files("tzdata").joinpath("zones").read_text().split()
    zones = {name: folder.joinpath(name).read_bytes() for name in names}

    def load_tzdata(key):
        if key not in zones:
            raise zoneinfo.ZoneInfoNotFoundError(f"no time zone found with key {key}")
        return BytesIO(zones[key])

    zoneinfo._common.load_tzdata = load_tzdata
    zoneinfo.available_timezones = lambda: set(zones)


def load_sources():
    """Keeps the lines of the plugin's own modules for tracebacks: a call has no folder with them."""
    library = os.path.dirname(os.__file__)
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        if path.endswith(".py") and not path.startswith(library):
            lines = linecache.getlines(path)
            # Without a time of change, the lines are never compared with a file.
            linecache.cache[path] = (sum(map(len, lines)), None, lines, path)


load_codecs()
load_zones()
load_sources()


class Tools(wit_world.exports.Tools):
    def describe(self) -> str:
        return DESCRIPTION

    def call(self, tool: str, arguments: str) -> contract.Outcome:
        # The state of the module was made when the component was built.
        random.seed()
        try:
            result = plugin.call_json(tool, arguments)
        except toolgate.ToolError as error:
            details = None if error.details is None else json.dumps(error.details, default=str)
            raise Err(contract.Failure(error.code, str(error), error.retryable, details))
        except Exception as error:
            host.log("error", "exception", traceback.format_exc(), {})
            raise Err(contract.Failure("TOOL_FAILED", traceback.format_exception_only(error)[-1].strip(), False, None))
        is_client = plugin.tools[tool].tool.get("mode") == "client"
        return contract.Outcome_Client(result) if is_client else contract.Outcome_Output(result)


class Selector:
    """Waits for pollables of WASI, in the place of a selector for sockets."""

    def __init__(self):
        self.waiting = []

    def select(self, timeout):
        timer = [] if timeout is None else [monotonic_clock.subscribe_duration(int(timeout * 1e9))]
        waiting, self.waiting = self.waiting, []
        if not timer and not waiting:
            raise toolgate.ToolError("the tool waits for something that never happens")
        if timeout == 0 and not waiting:
            return []
        ready = set(poll.poll([pollable for pollable, _ in waiting] + timer))
        for index, (pollable, future) in enumerate(waiting):
            if index not in ready:
                self.waiting.append((pollable, future))
            elif not future.done():
                future.set_result(None)
        return []

    def close(self):
        pass


class Loop(asyncio.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = Selector()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass

    async def shutdown_default_executor(self, timeout=None):
        pass


def exchange(asked):
    """Sends a request; yields each pollable that it waits for, and returns the response."""
    url = urlsplit(asked["url"])
    if url.scheme not in ("http", "https") or not url.netloc:
        raise toolgate.ToolError(f"`{asked['url']}` is not a URL of http or https")
    fields = wasi.Fields.from_list([(name, str(value).encode()) for name, value in asked["headers"].items()])
    request = wasi.OutgoingRequest(fields)
    method = METHODS.get(asked["method"].upper())
    request.set_method(method() if method else wasi.Method_Other(asked["method"]))
    request.set_scheme(wasi.Scheme_Https() if url.scheme == "https" else wasi.Scheme_Http())
    request.set_authority(url.netloc)
    request.set_path_with_query((url.path or "/") + (f"?{url.query}" if url.query else ""))
    body = request.body() if asked["body"] else None
    pending = outgoing_handler.handle(request, None)
    if body:
        send_body(body, asked["body"])
    yield pending.subscribe()
    response = unwrap(unwrap(pending.get()))
    headers = {}
    for name, value in response.headers().entries():
        text = value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    content = yield from receive(response)
    return toolgate.Response(response.status(), headers, content)


def send_body(body, content):
    with body.write() as stream:
        for at in range(0, len(content), WRITE_BYTES):
            stream.blocking_write_and_flush(content[at : at + WRITE_BYTES])
    wasi.OutgoingBody.finish(body, None)


def receive(response):
    chunks = []
    with response.consume() as body, body.stream() as stream:
        while True:
            yield stream.subscribe()
            try:
                chunks.append(stream.read(CHUNK_BYTES))
            except Err as error:
                if isinstance(error.value, StreamError_Closed):
                    return b"".join(chunks)
                raise


def unwrap(result):
    """The value of a nested `result`."""
    if isinstance(result, Err):
        raise result
    return result.value


def failed(asked, error):
    reason = type(error.value).__name__.removeprefix("ErrorCode_") if error.value else "it is refused"
    return toolgate.ToolError(f"request to `{asked['url']}`: {reason}")


class Host:
    """The functions that the SDK calls. A test replaces those that its tools need."""

    call_id = staticmethod(context.call_id)
    deadline_ms = staticmethod(context.deadline_ms)
    get = staticmethod(context.get)
    settings = staticmethod(config.settings)
    progress = staticmethod(progress.report)

    def log(self, level, event, message, fields):
        log.write(log.Level[level.upper()], event, message, [(name, str(value)) for name, value in fields.items()])

    def run(self, coroutine):
        return Loop().run_until_complete(coroutine)

    def request(self, asked):
        steps = exchange(asked)
        try:
            while True:
                next(steps).block()
        except StopIteration as end:
            return end.value
        except Err as error:
            raise failed(asked, error)

    async def send(self, asked):
        steps = exchange(asked)
        loop = asyncio.get_running_loop()
        try:
            while True:
                future = loop.create_future()
                loop._selector.waiting.append((next(steps), future))
                await future
        except StopIteration as end:
            return end.value
        except Err as error:
            raise failed(asked, error)


host = Host()
toolgate.use_host(host)
