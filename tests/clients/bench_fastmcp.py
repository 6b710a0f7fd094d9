"""The bench of PyPI `fastmcp`."""

import asyncio
import contextlib
import importlib.metadata
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError

import bench


class FastMcp:
    def __init__(self, client):
        self.client = client

    async def names(self):
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, tool, arguments, on_progress=None):
        async def report(*step):
            on_progress(step)

        try:
            done = await self.client.call_tool(tool, arguments, progress_handler=report if on_progress else None)
        except ToolError as error:
            return bench.Told(str(error), True, form="ToolError")
        return bench.Told.of(done.content, done.is_error)


@contextlib.asynccontextmanager
async def connect(token):
    transport = StreamableHttpTransport(bench.URL, headers=bench.headers(token))
    async with Client(transport, mode=sys.argv[1], timeout=bench.PATIENCE) as client:
        yield FastMcp(client)


async def main():
    async with connect(bench.TOKEN) as fast:
        revision = fast.client.protocol_version
    await bench.run("fastmcp", importlib.metadata.version("fastmcp"), revision, connect)


asyncio.run(main())
