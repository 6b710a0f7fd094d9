"""Requests and event streams over httpx. With a blocking client no `await` in here suspends (see `blocking.py`)."""

import asyncio
import inspect
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import httpx

from .errors import ToolgateError, error_of
from .views import StreamItem

Http = httpx.Client | httpx.AsyncClient
# Pauses in seconds before a request is repeated: together they outlast a restart of the daemon. A request that it refuses for now is
# repeated twice.
_PAUSES = (0.25, 1.0, 2.0, 3.0, 4.0)
_REFUSALS = 2
# The longest pause that a daemon may ask for.
_LONGEST_PAUSE = 30.0
# Silence after which a stream counts as lost: the daemon sends a keep-alive every 15 seconds.
_SILENCE = httpx.Timeout(10.0, read=45.0)
# The kind of an item without an event: the beginning of a stream, and keep-alives.
LISTENING = "listening"
# Attempts to resume a stream, with pauses that double up to the longest.
_ATTEMPTS = 10


async def resolve(value: Any) -> Any:
    """The value, or the result of the awaitable that it is."""
    return await value if inspect.isawaitable(value) else value


class Transport:
    def __init__(self, server: str, token: str, http: Http) -> None:
        self.server, self.http = server.rstrip("/"), http
        self.is_async = isinstance(http, httpx.AsyncClient)
        self.headers = {"Authorization": f"Bearer {token}"}

    async def sleep(self, seconds: float) -> None:
        await resolve((asyncio.sleep if self.is_async else time.sleep)(seconds))

    async def send(self, method: str, path: str, *, repeatable: bool = True, **request: Any) -> httpx.Response:
        """Sends a request, again after a lost connection or a refusal that passes. Raises `ToolgateError`."""
        headers = self.headers | request.pop("headers", {})
        for attempt, pause in enumerate((*_PAUSES, None)):
            was_sent = True
            try:
                response: httpx.Response = await resolve(self.http.request(method, self.server + path, headers=headers, **request))
                if response.is_success:
                    return response
                failure = _failure(response)
            except httpx.TransportError as error:
                failure, was_sent = self._unreachable(error), not isinstance(error, httpx.ConnectError)
            wait = max(pause or 0, failure.retry_after or 0)
            is_refused = failure.status in (429, 503) and attempt < _REFUSALS
            may_pass = is_refused or failure.status is None and (repeatable or not was_sent)
            if pause is None or not failure.retryable or not may_pass or wait > _LONGEST_PAUSE:
                raise failure
            await self.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def json(self, method: str, path: str, **request: Any) -> Any:
        return (await self.send(method, path, **request)).json()

    async def events(self, path: str, last_id: str | None = None) -> AsyncGenerator[StreamItem, None]:
        """Follows a stream, and resumes it where it was lost, until the daemon refuses that: its session has ended."""
        failures, was_open = 0, False
        while not self.http.is_closed:
            try:
                async with aclosing(self._stream(path, last_id)) as events:
                    async for event in events:
                        last_id = event.id or last_id
                        if event.kind != LISTENING or not was_open:
                            yield event
                        failures, was_open = 0, True
            except ToolgateError as error:
                failures += 1
                if was_open and not error.retryable:
                    return
                if not was_open or failures > _ATTEMPTS:
                    raise
            if last_id is None:
                return  # A daemon that sends no positions cannot resume.
            await self.sleep(min(0.25 * 2**failures, 8.0))

    async def _stream(self, path: str, last_id: str | None) -> AsyncGenerator[StreamItem, None]:
        headers = self.headers | {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        request = self.http.build_request("GET", self.server + path, headers=headers, timeout=_SILENCE)
        response = None
        try:
            response = await resolve(self.http.send(request, stream=True))
            if not response.is_success:
                await resolve(response.aread() if self.is_async else response.read())
                raise _failure(response)
            fields: dict[str, str] = {}
            async for line in response.aiter_lines() if self.is_async else _asynchronous(response.iter_lines()):
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                    continue
                data = fields.get("data")
                yield StreamItem(fields.get("id"), fields.get("event", LISTENING), json.loads(data) if data else None)
                fields = {}
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            if response is not None:
                await resolve(response.aclose() if self.is_async else response.close())

    def _unreachable(self, error: Exception) -> ToolgateError:
        message = f"no answer from {self.server}: {str(error) or type(error).__name__}"
        return error_of({"error_type": "UNREACHABLE", "message": message, "hint": "check that the daemon runs", "retryable": True})


async def _asynchronous(lines: Iterator[str]) -> AsyncIterator[str]:
    for line in lines:
        yield line


def _failure(response: httpx.Response) -> ToolgateError:
    body = response.json() if "json" in response.headers.get("Content-Type", "") else {}
    seconds = response.headers.get("Retry-After", "")
    return error_of(body, response.status_code, float(seconds) if seconds.isdigit() else None)
