"""The bench of PyPI `mcp` 1.x."""

import asyncio
import contextlib
import importlib.metadata

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import LATEST_PROTOCOL_VERSION

import bench


class Mcp:
    def __init__(self, session):
        self.session = session

    async def names(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, arguments, on_progress=None):
        async def report(*step):
            on_progress(step)

        done = await self.session.call_tool(tool, arguments, progress_callback=report if on_progress else None)
        return bench.Told.of(done.content, done.isError)


@contextlib.asynccontextmanager
async def connect(token):
    async with httpx.AsyncClient(headers=bench.headers(token), timeout=bench.PATIENCE) as http:
        async with streamable_http_client(bench.URL, http_client=http) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                yield Mcp(session)


asyncio.run(bench.run("mcp", importlib.metadata.version("mcp"), LATEST_PROTOCOL_VERSION, connect))
