"""The blocking client: the coroutines of `client.py`, run to their end at once, since a blocking transport never suspends them."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from .client import TIMEOUT, AsyncSession, AsyncToolgate
from .views import StreamItem

P = ParamSpec("P")
R = TypeVar("R")


def _finish(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise TypeError("an asynchronous function needs `AsyncToolgate`")


def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    def run(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        return _finish(method(self._core, *args, **kwargs))

    return update_wrapper(run, method)  # type: ignore[return-value]


def _opening(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncSession]]) -> Callable[Concatenate[Any, P], "Session"]:
    def run(self: Any, *args: P.args, **kwargs: P.kwargs) -> "Session":
        return Session(_finish(method(self._core, *args, **kwargs)))

    return update_wrapper(run, method)  # type: ignore[return-value]


def _iterating(method: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[Any, P], Iterator[StreamItem]]:
    def run(self: Any, *args: P.args, **kwargs: P.kwargs) -> Iterator[StreamItem]:
        events: Any = method(self._core, *args, **kwargs)
        try:
            with suppress(StopAsyncIteration):
                while True:
                    yield _finish(events.__anext__())
        finally:
            _finish(events.aclose())

    return update_wrapper(run, method)  # type: ignore[return-value]


class _Closing:
    """Ends with its block, as its asynchronous core does."""

    _core: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _finish(self._core.__aexit__())


class Toolgate(_Closing):
    __doc__ = AsyncToolgate.__doc__

    def __init__(self, server: str | None = None, token: str | None = None, *, http: httpx.Client | None = None) -> None:
        self._core = AsyncToolgate(server, token, http=http or httpx.Client(timeout=TIMEOUT))

    open = _opening(AsyncToolgate.open)
    session = _opening(AsyncToolgate.session)
    approvals = _blocking(AsyncToolgate.approvals)
    approval = _blocking(AsyncToolgate.approval)
    decide = _blocking(AsyncToolgate.decide)
    events = _iterating(AsyncToolgate.events)
    close = _blocking(AsyncToolgate.close)


class Session(_Closing):
    __doc__ = AsyncSession.__doc__

    def __init__(self, core: AsyncSession) -> None:
        self._core, self.view, self.id, self.system_prompt = core, core.view, core.id, core.system_prompt

    tools = _blocking(AsyncSession.tools)
    select = _blocking(AsyncSession.select)
    run = _blocking(AsyncSession.run)
    loop = _blocking(AsyncSession.loop)
    call = _blocking(AsyncSession.call)
    get_call = _blocking(AsyncSession.get_call)
    cancel = _blocking(AsyncSession.cancel)
    events = _iterating(AsyncSession.events)
    files = _blocking(AsyncSession.files)
    read_file = _blocking(AsyncSession.read_file)
    write_file = _blocking(AsyncSession.write_file)
    delete_file = _blocking(AsyncSession.delete_file)
    end = _blocking(AsyncSession.end)
