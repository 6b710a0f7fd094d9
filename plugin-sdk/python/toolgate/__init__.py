"""The SDK for plugins in Python: tools from typed functions, the call's context, HTTP and errors.

Files need no module: with the capability `filesystem`, `open("/workspace/notes.txt")` opens a file of the session.
"""

import asyncio
import dataclasses
import enum
import inspect
import json as _json
import types
import typing
from typing import Any

# Functions of the host: `component.py` sets them in a component, and `use_host` in a test.
_host: Any = None


def use_host(host: Any) -> None:
    """Replaces the host, for a test: an object with the functions that the tools under test need (see `component.Host`)."""
    global _host
    _host = host


class ToolError(Exception):
    """A failure that the model reads: what went wrong, and what to do next. Any other exception becomes one, by its message."""

    def __init__(self, message: str, *, code: str = "TOOL_FAILED", retryable: bool = False, details: Any = None):
        super().__init__(message)
        self.code, self.retryable, self.details = code, retryable, details

    @classmethod
    def invalid(cls, message: str) -> "ToolError":
        """Arguments that match their schema and are not valid."""
        return cls(message, code="INVALID_ARGUMENTS")


# --- Schemas -------------------------------------------------------------------------------------------------------------

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema(kind: Any) -> dict:
    """Returns the JSON Schema of a type.

    `Annotated[int, "The page", {"minimum": 1}]` adds a description and keywords.
    """
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        made = schema(inside[0])
        for note in inside[1:]:
            made.update(note if isinstance(note, dict) else {"description": str(note)})
        return made
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is typing.Literal:
        return {"enum": list(inside)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema(one) for one in inside]}
    if kind is list or origin is list:
        return {"type": "array", **({"items": schema(inside[0])} if inside else {})}
    if kind is dict or origin is dict:
        return {"type": "object", **({"additionalProperties": schema(inside[1])} if inside else {})}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return _object({name: schema(hint) for name, hint in hints.items()}, sorted(kind.__required_keys__))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = dataclasses.fields(kind)
        required = [field.name for field in fields if _has_no_default(field)]
        return _object({field.name: schema(hints[field.name]) for field in fields}, required)
    raise TypeError(f"the type {kind!r} has no schema: use str, int, float, bool, list, dict, Literal, an Enum, a dataclass or a TypedDict")


def _has_no_default(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _object(properties: dict, required: list) -> dict:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _from_json(kind: Any, value: Any) -> Any:
    """Makes a value of a type from JSON that matches the type's schema."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _from_json(inside[0], value)
    if origin in (typing.Union, types.UnionType):
        return _from_json(_chosen(inside, value), value)
    if origin is list:
        return [_from_json(inside[0], item) for item in value]
    if origin is dict:
        return {name: _from_json(inside[1], item) for name, item in value.items()}
    if kind is int or kind is float:
        return kind(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return kind(**{name: _from_json(hints[name], item) for name, item in value.items()})
    return value


def _chosen(kinds: tuple, value: Any) -> Any:
    """The type of a union that a value is made of: a dataclass for an object, and `Any` where the value stays as it is."""
    others = [kind for kind in kinds if kind is not type(None)]
    if value is None or len(others) == 1:
        return type(None) if value is None else others[0]
    return next((kind for kind in others if isinstance(value, dict) and dataclasses.is_dataclass(kind)), Any)


def _to_json(value: Any) -> str:
    def other(value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, enum.Enum):
            return value.value
        raise TypeError(f"a result of type {type(value).__name__} is not JSON")

    return _json.dumps(value, default=other, ensure_ascii=False, allow_nan=False)


# --- Tools ---------------------------------------------------------------------------------------------------------------


def tool(function: Any = None, *, name: str | None = None, **more: Any) -> Any:
    """Makes a tool of a function, which may be `async`.

    The first paragraph of the docstring is the description, the rest tells how to use the tool. The types of the parameters
    and of the result are the schemas. `more` holds further fields as in `wit/describe.schema.json`: `hints`, `examples`, `tags`.
    With `content=True` the function returns `{"output": ..., "content": [...]}`, and `output_schema` is the schema of the output.
    """
    if function is None:
        return lambda function: tool(function, name=name, **more)
    first, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    if not first:
        raise TypeError(f"the tool `{function.__name__}` has no docstring, which tells a model what it does")
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    if faults := [fault for parameter in parameters if (fault := _fault_of(parameter, hints))]:
        raise TypeError(f"the tool `{function.__name__}`: {'; '.join(faults)}")
    described = {
        "name": name or function.__name__,
        "description": " ".join(first.split()),
        "usage": rest.strip() or first,
        "input_schema": _object(
            {parameter.name: schema(hints[parameter.name]) for parameter in parameters},
            [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty],
        ),
        **more,
    }
    if "return" in hints and not more.get("content"):
        described["output_schema"] = schema(hints["return"])
    function.tool, function.hints = described, hints
    return function


def _fault_of(parameter: inspect.Parameter, hints: dict) -> str | None:
    """Returns the reason why a parameter cannot be an argument, which has a name and a type."""
    if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        return f"the parameter `{parameter}` cannot be described: give each argument a parameter of its own"
    if parameter.name not in hints:
        return f'the parameter `{parameter.name}` has no type: write `{parameter.name}: Annotated[str, "What it is"]`'
    return None


class Plugin:
    """A plugin: the description that a host reads, and `call` for a component and for tests.

    `settings` is the type of the organization's settings, which `context.settings` returns. `more` holds further fields as in
    `wit/describe.schema.json`: `publisher`, `purpose`, `limits`.
    """

    def __init__(
        self, name: str, *, version: str, tools: list, capabilities: dict | None = None, settings: Any = None, **more: Any
    ):
        if settings is not None:
            more["config_schema"] = schema(settings)
        asked = dict(capabilities or {})
        # The runtime imports files and the SDK imports HTTP, used or not.
        unused = [kind for kind in ("filesystem", "network") if asked.get(kind, "none") in ("none", [])]
        if unused:
            asked["unused"] = unused
        self.name = name
        self.tools = {function.tool["name"]: function for function in tools}
        described = [function.tool for function in tools]
        self.description = {"name": name, "version": version, "capabilities": asked, **more, "tools": described}

    def call(self, tool: str, arguments: dict | None = None) -> Any:
        """Calls a tool with arguments as JSON has them, and returns its result."""
        if tool not in self.tools:
            raise ToolError(f"plugin `{self.name}` has no tool `{tool}`")
        function = self.tools[tool]
        given = {name: _from_json(function.hints.get(name, Any), value) for name, value in (arguments or {}).items()}
        result = function(**given)
        return (_host.run if hasattr(_host, "run") else asyncio.run)(result) if inspect.iscoroutine(result) else result

    def call_json(self, tool: str, arguments: str) -> str:
        """Calls a tool with JSON text, and returns its result as JSON text."""
        return _to_json(self.call(tool, _json.loads(arguments)))


# --- The call ------------------------------------------------------------------------------------------------------------


class context:
    """Facts about the call."""

    @staticmethod
    def call_id() -> str:
        return _host.call_id()

    @staticmethod
    def deadline_ms() -> int:
        """Milliseconds until the host stops the call."""
        return _host.deadline_ms()

    @staticmethod
    def get(key: str) -> str | None:
        """One of `session`, `conversation`, `organization`, `agent`, `user`, `channel`; None where it has no value."""
        return _host.get(key)

    @staticmethod
    def settings(kind: Any = Any) -> Any:
        """The organization's settings: a dict, or a value of this type."""
        return _from_json(kind, _json.loads(_host.settings()))

    @staticmethod
    def progress(done: int, total: int | None = None, message: str | None = None) -> None:
        """Reports progress to a person who waits."""
        _host.progress(done, total, message)


def log(level: str, event: str, message: str = "", **fields: Any) -> None:
    """Writes an event of level `debug`, `info`, `warn` or `error`; `print` writes plain lines."""
    _host.log(level, event, message, fields)


@dataclasses.dataclass
class Response:
    """The response to a request. A status of 400 or more is a response, not an error."""

    status: int
    headers: dict[str, str]
    body: bytes

    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return _json.loads(self.body)


def _request(url: str, method: str, headers: dict | None, body: Any, json: Any) -> dict:
    headers = dict(headers or {})
    if json is not None:
        body = _json.dumps(json)
        headers.setdefault("content-type", "application/json")
    return {"url": url, "method": method, "headers": headers, "body": body.encode() if isinstance(body, str) else body}


class http:
    """Outgoing HTTP, to the hosts of the capability `network` that the operator granted. Sockets are denied."""

    @staticmethod
    def request(url: str, *, method: str = "GET", headers: dict | None = None, body: Any = None, json: Any = None) -> Response:
        """Sends a request and waits for its response."""
        return _host.request(_request(url, method, headers, body, json))

    @staticmethod
    async def send(url: str, *, method: str = "GET", headers: dict | None = None, body: Any = None, json: Any = None) -> Response:
        """The same in an `async` tool, where other tasks run meanwhile."""
        return await _host.send(_request(url, method, headers, body, json))
