"""A small server that plays the models: it answers as the API that a request is for."""

import itertools
import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


CONVERSATIONS = itertools.count()


class Model:
    """The replies of a model in one conversation, in the format that the path of the request names."""

    def __init__(self, turns, final):
        self.turns, self.final, self.replies, self.id = list(turns), final, 0, next(CONVERSATIONS)
        # The results of all calls and the names of all tools in the latest request, and that request.
        self.texts, self.names, self.request = [], [], {}

    def reply(self, path, request):
        read, write = FORMATS[path_of(path)]
        self.texts, self.names = read(request)
        self.request = request
        self.replies += 1
        self.check()
        calls = []
        for at, (tool, arguments) in enumerate(self.turns.pop(0) if self.turns else []):
            # The name of a tool has a prefix, which depends on the format.
            name = next((name for name in self.names if re.search(rf"(^|_|/){tool}$", name)), tool)
            calls.append((f"call_{self.id}_{self.replies}_{at}", name, arguments))
        return write(calls, self.final)

    def check(self):
        """Raises an error for a request that the conversation does not have."""


def path_of(path):
    """The key of `FORMATS`: a path without its version, or the method behind its colon."""
    return re.sub(r"^.*/", "", path).partition(":")[2] or re.sub(r"^/(v1/)?", "", path)


def read_chat(request):
    names = [tool["function"]["name"] for tool in request["tools"]]
    texts = [text_of(message["content"]) for message in request["messages"] if message["role"] == "tool"]
    return texts, names


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def write_chat(calls, final):
    message = {"role": "assistant", "content": None if calls else final}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice], "usage": usage}


def read_responses(request):
    results = [item for item in request["input"] if isinstance(item, dict) and item.get("type") == "function_call_output"]
    return [text_of(item["output"]) for item in results], [tool["name"] for tool in request["tools"]]


def write_responses(calls, final):
    text = {"type": "output_text", "text": final, "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    output = [
        {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": json.dumps(arguments), "status": "completed"}
        for id, name, arguments in calls
    ]
    usage = {
        "input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "scripted", "status": "completed", "output": output or [said],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage,
    }  # fmt: skip


def read_messages(request):
    blocks = [block for message in request["messages"] for block in message["content"] if isinstance(block, dict)]
    texts = [text_of(block["content"]) for block in blocks if block["type"] == "tool_result"]
    return texts, [tool["name"] for tool in request["tools"]]


def write_messages(calls, final):
    content = [{"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name, arguments in calls]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
        "content": content or [{"type": "text", "text": final}], "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def read_contents(request):
    names = [function["name"] for tool in request["tools"] for function in tool["functionDeclarations"]]
    parts = [part for content in request["contents"] for part in content["parts"]]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    # The model gave its call no id, so it knows none.
    assert not any("id" in result for result in results), results
    return [str(result["response"].get("output", result["response"].get("error"))) for result in results], names


def write_contents(calls, final):
    parts = [{"functionCall": {"name": name, "args": arguments}} for _, name, arguments in calls]
    return {"candidates": [{"content": {"role": "model", "parts": parts or [{"text": final}]}, "finishReason": "STOP"}]}


# How the requests of an API are read, and its replies written.
FORMATS = {
    "chat/completions": (read_chat, write_chat),
    "responses": (read_responses, write_responses),
    "messages": (read_messages, write_messages),
    "generateContent": (read_contents, write_contents),
}


class Server(ThreadingHTTPServer):
    model = None


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, answer = 200, self.server.model.reply(self.path, body)
        except Exception as error:  # Sent to the client, which then fails.
            status, answer = 400, {"error": {"type": "invalid_request_error", "message": repr(error)}}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


def start():
    """Starts the server, and leads the libraries to it by their variables."""
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    os.environ |= {
        "MODEL": "scripted", "OPENAI_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": "none", "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_API_KEY": "none",
        # These send traces to their makers.
        "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false",
        # This asks the network for a list of prices.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }  # fmt: skip
    return server
