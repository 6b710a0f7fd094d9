"""The bench of PyPI `langchain-mcp-adapters` with an agent of LangGraph."""

import asyncio
import contextlib
import importlib.metadata

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import LATEST_PROTOCOL_VERSION

import bench
from bench_framework import Framework


@contextlib.asynccontextmanager
async def connect(token):
    address = {"transport": "streamable_http", "url": f"{bench.URL}?conversation=c-42", "headers": bench.headers(token)}
    tools = await MultiServerMCPClient({"toolgate": address}).get_tools()
    agent = create_agent(init_chat_model("scripted", model_provider="openai"), tools)
    yield Framework(lambda text: agent.ainvoke({"messages": [{"role": "user", "content": text}]}))


version = importlib.metadata.version("langchain-mcp-adapters")
asyncio.run(bench.run("langchain-mcp-adapters", version, LATEST_PROTOCOL_VERSION, connect, {"progress"}))
