// The bench of npm `ai` and its client of MCP, with a scripted model. The argument is its major version.
import { readFileSync } from "node:fs";

import { URL_OF_MCP, headers, run } from "./bench.mjs";

const PACKAGES = { 6: ["ai-6", "ai-sdk-mcp-1"], 7: ["ai", "@ai-sdk/mcp"] };
const [ai, mcp] = PACKAGES[process.argv[2]];
const { generateText, stepCountIs, isStepCount } = await import(ai);
const { createMCPClient } = await import(mcp);
const { MockLanguageModelV3: Mock } = await import(`${ai}/test`);

const USAGE = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
let conversations = 0;

// A model that makes the calls, and then ends.
function script(calls) {
  const prompts = [];
  const id = conversations++;
  async function doGenerate({ prompt }) {
    prompts.push(prompt);
    const content =
      prompts.length > 1 || !calls.length
        ? [{ type: "text", text: "done" }]
        : calls.map(([toolName, input], at) => ({ type: "tool-call", toolCallId: `${id}-${at}`, toolName, input: JSON.stringify(input) }));
    const reason = content[0].type === "text" ? "stop" : "tool-calls";
    return { content, finishReason: { unified: reason, raw: reason }, usage: USAGE, warnings: [] };
  }
  return { model: new Mock({ doGenerate }), prompts };
}

// What the model is told of a call: a text, JSON, or parts, of which images are named `image-data` or `file-data`.
function read({ output: { type, value } }) {
  const parts = Array.isArray(value) ? value : [{ type: "text", text: typeof value === "string" ? value : JSON.stringify(value) }];
  const kinds = parts.map((part) => (part.mediaType?.startsWith("image/") ? "image" : part.type));
  const text = parts.map((part) => part.text ?? "").join("");
  return { text, isError: type.startsWith("error"), kinds, form: "text for the model" };
}

async function connect(token) {
  const client = await createMCPClient({ transport: { type: "http", url: URL_OF_MCP, headers: headers(token) } });
  const tools = await client.tools();
  async function callAll(calls, { signal } = {}) {
    const { model, prompts } = script(calls);
    await generateText({ model, tools, prompt: "Use the tools.", stopWhen: (isStepCount ?? stepCountIs)(5), abortSignal: signal, maxRetries: 0 });
    return prompts.at(-1).filter(({ role }) => role === "tool").flatMap(({ content }) => content).map(read);
  }
  return {
    names: async () => Object.keys(tools),
    call: async (name, args, options) => (await callAll([[name, args]], options))[0],
    callAll,
    close: () => client.close(),
  };
}

const version = JSON.parse(readFileSync(`node_modules/${ai}/package.json`)).version;
await run(version, process.argv[2] === "7" ? "2026-07-28" : "2025-11-25", connect, ["progress"]);
