"""The bench of PyPI `pydantic-ai`."""

import asyncio
import contextlib
import importlib.metadata

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

import bench
from bench_framework import Framework


@contextlib.asynccontextmanager
async def connect(token):
    toolgate = MCPToolset(bench.URL, headers=bench.headers(token))
    agent = Agent("openai-chat:scripted", toolsets=[toolgate])
    yield Framework(agent.run)


async def main():
    async with MCPToolset(bench.URL, headers=bench.headers(bench.TOKEN)) as toolgate:
        revision = toolgate.client.protocol_version
    await bench.run("pydantic-ai", importlib.metadata.version("pydantic-ai-slim"), revision, connect, {"progress"})


asyncio.run(main())
