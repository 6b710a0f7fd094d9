"""Orchestrators with the clients of OpenAI and Anthropic and Toolgate's tools. A scripted model requests tools and checks
the results as strictly as the provider.

`TOOLGATE_ADDRESS` (`http://127.0.0.1:7300`), `TOOLGATE_TOKEN` and `TOOLGATE_AGENT` (`ORGANIZATION/AGENT`) configure it. The
agent may call the tools of the built-in plugin `arithmetic`.
"""

import json
import os
import re
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai

TOOL = "call_arithmetic_evaluate"
NO_TOOL = "call_nothing_there"
SOUND = {"expression": "6*7"}
UNSOUND = {"formula": "6*7"}
QUESTION = "What is six times seven?"
# Function names that every provider accepts.
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
# Keywords at the root of a schema for which OpenAI and Anthropic refuse the whole request.
NOT_AT_THE_ROOT = {"oneOf", "anyOf", "allOf", "enum", "not"}


class Toolgate:
    """A session."""

    def __init__(self):
        session = self.send("POST", "/v1/sessions", {"agent": os.environ["TOOLGATE_AGENT"]})["session"]
        self.path = f"/v1/sessions/{session}"

    def tools(self, form):
        return self.send("GET", f"{self.path}/tools?format={form}")["tools"]

    def call(self, **request):
        return self.send("POST", f"{self.path}/calls", request)

    def send(self, method, path, body=None):
        request = urllib.request.Request(
            os.environ["TOOLGATE_ADDRESS"] + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {os.environ['TOOLGATE_TOKEN']}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


class Model:
    """HTTP server that responds to consecutive requests with the results of its turns."""

    def __init__(self, *turns):
        model = self
        self.turns = list(turns)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    status, answer = 200, model.turns.pop(0)(body)
                except Exception as error:  # Sent to the client, which then fails.
                    status, answer = 400, {"error": {"type": "invalid_request_error", "message": repr(error)}}
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind, *_):
        self.server.shutdown()
        assert kind or not self.turns, "the conversation ended early"


def check_tool(name, description, schema):
    assert NAME.fullmatch(name) and description, name
    assert schema["type"] == "object" and not NOT_AT_THE_ROOT & schema.keys(), schema


def check_contents(contents):
    """Checks the results of a valid call, a call with invalid arguments, and a call of an unknown tool."""
    sound, unsound, none = contents
    assert '"decimal":"42"' in sound, sound
    assert "INVALID_ARGUMENTS: Validation Error: " in unsound, unsound
    assert "TOOL_NOT_FOUND: " in none, none


def chat_completions():
    def message(content, tool_calls=None):
        told = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
        if tool_calls:
            told["tool_calls"] = tool_calls
        choice = {"index": 0, "message": told, "finish_reason": "tool_calls" if tool_calls else "stop", "logprobs": None}
        return {"id": "x", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}

    def call(at, name, arguments):
        return {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}

    def ask_for_tools(request):
        functions = [tool["function"] for tool in request["tools"] if tool["type"] == "function"]
        for function in functions:
            check_tool(function["name"], function["description"], function["parameters"])
        assert TOOL in [function["name"] for function in functions]
        calls = [(TOOL, json.dumps(SOUND)), (TOOL, json.dumps(UNSOUND)), (NO_TOOL, ""), (TOOL, '{"expression": ')]
        return message(None, [call(at, *asked) for at, asked in enumerate(calls)])

    def look(request):
        asked, told = request["messages"][1], request["messages"][2:]
        assert all(message["role"] == "tool" for message in told), told
        ids = [call["id"] for call in asked["tool_calls"]]
        assert ids == [message["tool_call_id"] for message in told], told
        check_contents([message["content"] for message in told[:3]])
        assert "INVALID_ARGUMENTS: Validation Error: malformed JSON" in told[3]["content"], told
        return message("42")

    toolgate = Toolgate()
    with Model(ask_for_tools, look) as model:
        client = openai.OpenAI(base_url=f"{model.address}/v1", api_key="none", max_retries=0)
        messages = [{"role": "user", "content": QUESTION}]
        tools = toolgate.tools("openai")
        while True:
            answer = client.chat.completions.create(model="scripted", messages=messages, tools=tools).choices[0].message
            if not answer.tool_calls:
                break
            # As the library serializes it, with null for unset fields.
            called = toolgate.call(turn="t1", openai=answer.model_dump())
            assert called["next"] == "model" and called["turn"] == "t1", called
            messages += [answer, *called["openai"]]
        assert answer.content == "42"


def responses():
    def response(*output):
        return {
            "id": "resp_1", "object": "response", "created_at": 1, "model": "scripted", "status": "completed",
            "output": list(output), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        }  # fmt: skip

    def call(at, name, arguments):
        return {
            "type": "function_call", "id": f"fc_{at}", "call_id": f"item_{at}", "name": name,
            "arguments": arguments, "status": "completed",
        }  # fmt: skip

    def ask_for_tools(request):
        for tool in request["tools"]:
            assert tool["type"] == "function" and tool["strict"] is False, tool
            check_tool(tool["name"], tool["description"], tool["parameters"])
        thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA"}
        calls = [(TOOL, json.dumps(SOUND)), (TOOL, json.dumps(UNSOUND)), (NO_TOOL, "")]
        return response(thought, *(call(at, *asked) for at, asked in enumerate(calls)))

    def look(request):
        asked = [item["call_id"] for item in request["input"] if item.get("type") == "function_call"]
        told = [item for item in request["input"] if item.get("type") == "function_call_output"]
        assert asked == [item["call_id"] for item in told], told
        check_contents([item["output"] for item in told])
        text = {"type": "output_text", "text": "42", "annotations": []}
        said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        return response(said)

    toolgate = Toolgate()
    with Model(ask_for_tools, look) as model:
        client = openai.OpenAI(base_url=f"{model.address}/v1", api_key="none", max_retries=0)
        conversation = [{"role": "user", "content": QUESTION}]
        tools = toolgate.tools("openai_responses")
        asked = client.responses.create(model="scripted", input=conversation, tools=tools)
        called = toolgate.call(openai_responses=[item.model_dump() for item in asked.output])
        conversation += [item.to_dict() for item in asked.output] + called["openai_responses"]
        answer = client.responses.create(model="scripted", input=conversation, tools=tools)
        assert answer.output_text == "42"


def messages():
    def message(reason, *content):
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": list(content),
            "stop_reason": reason, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip

    def call(at, name, arguments):
        return {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": arguments, "caller": {"type": "direct"}}

    def ask_for_tools(request):
        for tool in request["tools"]:
            check_tool(tool["name"], tool["description"], tool["input_schema"])
        calls = [(TOOL, SOUND), (TOOL, UNSOUND), (NO_TOOL, {})]
        thought = {"type": "thinking", "thinking": "Six times seven…", "signature": "AAAA"}
        said = {"type": "text", "text": "Let me compute that.", "citations": None}
        return message("tool_use", thought, said, *(call(at, *asked) for at, asked in enumerate(calls)))

    def look(request):
        asked, told = (message["content"] for message in request["messages"][1:])
        asked = [block["id"] for block in asked if block["type"] == "tool_use"]
        assert asked == [block["tool_use_id"] for block in told], told
        check_contents([block["content"] for block in told])
        assert [block.get("is_error", False) for block in told] == [False, True, True], told
        return message("end_turn", {"type": "text", "text": "42", "citations": None})

    toolgate = Toolgate()
    with Model(ask_for_tools, look) as model:
        client = anthropic.Anthropic(base_url=model.address, api_key="none", max_retries=0)
        conversation = [{"role": "user", "content": QUESTION}]
        asked = {"model": "scripted", "max_tokens": 100, "tools": toolgate.tools("anthropic")}
        answer = client.messages.create(messages=conversation, **asked)
        called = toolgate.call(anthropic=[block.model_dump() for block in answer.content])
        conversation += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": called["anthropic"]}]
        answer = client.messages.create(messages=conversation, **asked)
        assert answer.content[0].text == "42"


for conversation in [chat_completions, responses, messages]:
    conversation()
    print(f"{conversation.__name__}: two turns with tools")
