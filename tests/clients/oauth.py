"""Drives the OAuth flow of the PyPI package `mcp`: from the 401 over both metadata to the access token and a call."""

import asyncio
import os

import httpx2
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client

URL = os.environ["TOOLGATE_URL"]


class Storage:
    tokens = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return None

    async def set_client_info(self, info):
        pass


async def drive(mode):
    storage = Storage()
    auth = ClientCredentialsOAuthProvider(
        server_url=URL, storage=storage, client_id="bot", client_secret="secret", issuer=os.environ["ISSUER"]
    )
    http = httpx2.AsyncClient(auth=auth, timeout=60)
    async with Client(streamable_http_client(URL, http_client=http), mode=mode) as mcp:
        done = await mcp.call_tool("call_arithmetic_evaluate", {"expression": "6*7"})
        assert done.structured_content["decimal"] == "42", done
    assert storage.tokens.access_token.count(".") == 2 and storage.tokens.scope == "tools", storage.tokens


for mode in ["2026-07-28", "auto", "legacy"]:
    asyncio.run(drive(mode))
