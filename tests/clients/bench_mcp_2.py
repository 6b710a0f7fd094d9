"""The bench of PyPI `mcp` 2.x, with its choice of revisions (`auto`) or the older ones (`legacy`)."""

import asyncio
import contextlib
import importlib.metadata
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import bench


class Mcp:
    def __init__(self, client):
        self.client = client

    async def names(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, arguments, on_progress=None):
        async def report(*step):
            on_progress(step)

        done = await self.client.call_tool(tool, arguments, progress_callback=report if on_progress else None)
        return bench.Told.of(done.content, done.is_error)


@contextlib.asynccontextmanager
async def connect(token):
    http = httpx2.AsyncClient(headers=bench.headers(token), timeout=bench.PATIENCE)
    async with Client(streamable_http_client(bench.URL, http_client=http), mode=sys.argv[1]) as client:
        yield Mcp(client)


async def main():
    async with connect(bench.TOKEN) as mcp:
        revision = mcp.client.protocol_version
    await bench.run("mcp", importlib.metadata.version("mcp"), revision, connect)


if __name__ == "__main__":
    asyncio.run(main())
