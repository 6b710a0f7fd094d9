"""The bench of Toolgate's Python client with the library of a provider, which its argument names."""

import asyncio
import contextlib
import importlib
import importlib.metadata
import os
import sys

from toolgate_client import AsyncToolgate

import bench
from bench_framework import MODELS, Framework

library = sys.argv[1]


def ask_openai():
    client = importlib.import_module("openai").AsyncOpenAI()
    return lambda messages, tools: client.chat.completions.create(model="scripted", messages=messages, tools=tools)


def ask_anthropic():
    client = importlib.import_module("anthropic").AsyncAnthropic()
    return lambda messages, tools: client.messages.create(model="scripted", max_tokens=100, messages=messages, tools=tools)


def ask_gemini():
    client = importlib.import_module("google.genai").Client()
    ask = client.aio.models.generate_content
    return lambda contents, tools: ask(model="scripted", contents=contents, config={"tools": tools})


def ask_litellm():
    litellm = importlib.import_module("litellm")
    options = {"model": "openai/scripted", "api_base": os.environ["OPENAI_BASE_URL"]}
    return lambda messages, tools: litellm.acompletion(messages=messages, tools=tools, **options)


# How a library asks its model, and the format of its messages.
LIBRARIES = {
    "openai": (ask_openai, "openai"),
    "anthropic": (ask_anthropic, "anthropic"),
    "google-genai": (ask_gemini, "gemini"),
    "litellm": (ask_litellm, "openai"),
}


class Session(Framework):
    def __init__(self, session):
        make, self.format = LIBRARIES[library]
        self.session, self.ask = session, make()
        super().__init__(self.answer)

    async def answer(self, text):
        question = {"role": "user", "parts": [{"text": text}]} if self.format == "gemini" else {"role": "user", "content": text}
        await self.session.loop(self.ask, [question], self.format)

    async def call(self, tool, arguments, on_progress=None):
        if not on_progress:
            return await super().call(tool, arguments)
        events = self.session.events()
        await anext(events)
        calling = asyncio.create_task(super().call(tool, arguments))
        async for event in events:
            if event.kind == "progress":
                on_progress(event.data)
            if event.kind == "tool_result":
                return await calling

    async def cancel(self, id):
        await self.session.cancel(id)


@contextlib.asynccontextmanager
async def connect(token):
    agent = "acme/careful" if token == bench.CAREFUL_TOKEN else "acme/bot"
    async with AsyncToolgate(token=os.environ["TOOLGATE_ORCHESTRATOR_TOKEN"]) as toolgate, await toolgate.open(agent) as session:
        yield Session(session)


asyncio.run(bench.run(library, importlib.metadata.version(library), "HTTP", connect))
