"""The bench of PyPI `openai-agents`, with the API of its argument: `responses` or `chat`."""

import asyncio
import contextlib
import importlib.metadata
import sys

import agents
from agents.mcp import MCPServerStreamableHttp

import bench
from bench_framework import Framework

agents.set_default_openai_api("chat_completions" if sys.argv[1] == "chat" else "responses")


@contextlib.asynccontextmanager
async def connect(token):
    server = {"url": bench.URL, "headers": bench.headers(token)}
    async with MCPServerStreamableHttp(params=server, client_session_timeout_seconds=bench.PATIENCE) as toolgate:
        agent = agents.Agent(name="helper", model="scripted", mcp_servers=[toolgate])
        yield Framework(lambda text: agents.Runner.run(agent, text))


async def main():
    server = {"url": bench.URL, "headers": bench.headers(bench.TOKEN)}
    async with MCPServerStreamableHttp(params=server) as toolgate:
        # The newer revision has no sessions.
        revision = "2025-11-25" if toolgate.session_id else "2026-07-28"
    await bench.run("openai-agents", importlib.metadata.version("openai-agents"), revision, connect, {"progress"})


asyncio.run(main())
