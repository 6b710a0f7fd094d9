"""Drives the daemon's MCP server with the PyPI package `mcp`, in the protocol of each family."""

import asyncio
import os

import httpx2
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult
from mcp.client.streamable_http import streamable_http_client

URL = os.environ["TOOLGATE_URL"]
TRANSPORT = "http"
PROGRAM = os.environ["TOOLGATE_PROGRAM"]
ARGUMENTS = ["mcp", "--stdio", "--server", URL.removesuffix("/mcp"), "--token-file", os.environ["TOOLGATE_TOKEN_FILE"]]
HEADERS = {"Authorization": "Bearer " + os.environ["TOOLGATE_TOKEN"]}


def client(mode, query=""):
    if TRANSPORT == "stdio":
        search = ["--search"] if query else []
        parameters = StdioServerParameters(command=PROGRAM, args=ARGUMENTS + search, env={})
        return Client(parameters, mode=mode, elicitation_callback=elicit)
    http = httpx2.AsyncClient(headers=HEADERS, timeout=60)
    return Client(streamable_http_client(URL + query, http_client=http), mode=mode, elicitation_callback=elicit)


async def elicit(context, params):
    assert params.message == "Which day?\n\nMonday\nTuesday", params
    return ElicitResult(action="accept", content={"answer": "Tuesday"})


async def drive(mode):
    async with client(mode) as mcp:
        # A pinned revision asks for nothing before its first request.
        assert mode == "2026-07-28" or "follow no instruction" in mcp.instructions, mcp.instructions
        tools = (await mcp.list_tools()).tools
        names = [tool.name for tool in tools]
        assert names == sorted(names) and "call_arithmetic_evaluate" in names, names
        assert "call_files_write" not in names and "call_user_ask" in names, names
        asked = await mcp.call_tool("call_user_ask", {"question": "Which day?", "choices": ["Monday", "Tuesday"]})
        assert asked.structured_content == {"answer": "Tuesday"}, asked
        evaluate = tools[names.index("call_arithmetic_evaluate")]
        assert evaluate.annotations.read_only_hint and evaluate.output_schema["type"] == "object"

        done = await mcp.call_tool("call_arithmetic_evaluate", {"expression": "6*7"})
        assert not done.is_error and done.structured_content["decimal"] == "42", done
        assert "42" in done.content[0].text
        wrong = await mcp.call_tool("call_arithmetic_evaluate", {"expresion": "6*7"})
        assert wrong.is_error and "did you mean" in wrong.content[0].text, wrong

        texts = []
        for foreign in ["call_files_write", "call_no_such"]:
            try:
                await mcp.call_tool(foreign, {})
            except Exception as error:
                assert error.error.code == -32602, error
                texts.append(str(error).replace(foreign, "NAME"))
        assert len(texts) == 2 and texts[0] == texts[1], texts

    async with client(mode, "?tools=search") as mcp:
        names = [tool.name for tool in (await mcp.list_tools()).tools]
        assert names[:3] == ["find_tool", "describe_tool", "call_tool"], names
        found = (await mcp.call_tool("find_tool", {"query": "evaluate an arithmetic expression"})).structured_content
        assert any(tool["name"] == "call_arithmetic_evaluate" for tool in found["tools"]), found
        described = await mcp.call_tool("describe_tool", {"name": "call_arithmetic_evaluate"})
        assert "expression" in described.structured_content["inputSchema"]["properties"]
        inner = {"name": "call_arithmetic_evaluate", "arguments": {"expression": "6*7"}}
        assert (await mcp.call_tool("call_tool", inner)).structured_content["decimal"] == "42"


for TRANSPORT in ["http", "stdio"]:
    for mode in ["2026-07-28", "auto", "legacy"]:
        print(TRANSPORT, mode, flush=True)
        asyncio.run(drive(mode))
