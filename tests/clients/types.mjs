// Tool lists and results conform to the providers' published types, and requests cover all fields of these types. The
// TypeScript compiler checks the posted and the returned values.
//
// Run it in the folder with the installed package.json. toolgate.mjs describes the settings.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { NO_TOOL, SOUND, TOOL, UNSOUND, check, checkContents, openSession } from "./toolgate.mjs";

const calls = [[TOOL, SOUND], [TOOL, UNSOUND], [NO_TOOL, {}]];
// Ids differ by dialect, since equal ids would be the same calls.
const each = (form, write) => calls.map(([name, input], at) => write(`${form}_${at}`, name, input));

// Each value has every field of its type, which the compiler checks below.
const openai = {
  role: "assistant", content: null, refusal: null, annotations: [], audio: null, function_call: null,
  tool_calls: each("call", (id, name, input) => ({
    id, type: "function", function: { name, arguments: JSON.stringify(input) },
  })),
};
const responses = each("item", (call_id, name, input) => ({
  type: "function_call", id: `fc_${call_id}`, call_id, name, arguments: JSON.stringify(input), status: "completed",
  async: false, caller: { type: "direct" }, namespace: "toolgate", created_by: "model",
}));
const anthropic = each("toolu", (id, name, input) => ({
  type: "tool_use", id, name, input, caller: { type: "direct" }, toolset_name: null,
}));
const anthropicAgain = each("again", (id, name, input) => ({
  type: "tool_use", id, name, input, caller: { type: "direct" }, toolset_name: null, cache_control: { type: "ephemeral" },
}));
const gemini = each("part", (id, name, args) => ({
  functionCall: { id, name, args, partialArgs: [], willContinue: false },
  audioTranscription: null, codeExecutionResult: null, executableCode: null, fileData: null, functionResponse: null,
  inlineData: null, mediaProcessing: null, mediaResolution: null, partMetadata: null, speechMetadata: null, text: null,
  thought: null, thoughtSignature: "c2lnbmF0dXJl", toolCall: null, toolResponse: null, videoMetadata: null,
}));

const session = await openSession();
const answers = {
  openai: await session.call({ openai }),
  responses: await session.call({ openai_responses: responses }),
  anthropic: await session.call({ anthropic }),
  anthropicAgain: await session.call({ anthropic: anthropicAgain }),
  gemini: await session.call({ gemini }),
};
checkContents(answers.openai.openai.map((message) => message.content));
checkContents(answers.responses.openai_responses.map((item) => item.output));
checkContents(answers.anthropic.anthropic.map((block) => block.content));
checkContents(answers.gemini.gemini.map(({ functionResponse: { response } }) => response.output ?? response.error));
for (const [form, { calls, next }] of Object.entries(answers)) {
  const states = calls.map(({ status }) => status).join();
  check(states === "ok,error,error" && next === "model", `${form}: ${states}, ${next}`);
}

const parts = [
  'import type OpenAI from "openai";',
  'import type Anthropic from "@anthropic-ai/sdk";',
  'import type { FunctionCall, Part, Tool } from "@google/genai";',
  "type Chat = OpenAI.Chat.Completions.ChatCompletionMessage;",
  "type ChatCall = OpenAI.Chat.Completions.ChatCompletionMessageFunctionToolCall;",
  "type PartOfACall = Record<Exclude<keyof Part, 'functionCall'>, unknown> & { functionCall: Required<FunctionCall> };",
];
const typed = (type, value) => parts.push(`export const value${parts.length}: ${type} = ${JSON.stringify(value)};`);
// `@ts-expect-error` applies to the next line.
const refused = (type, value) => parts.push("// @ts-expect-error") && typed(type, value);

typed("Required<Chat> & { tool_calls: Required<ChatCall>[] }", openai);
typed("Required<OpenAI.Responses.ResponseFunctionToolCallItem>[]", responses);
typed("Required<Anthropic.Messages.ToolUseBlock>[]", anthropic);
typed("Required<Anthropic.Messages.ToolUseBlockParam>[]", anthropicAgain);
typed("PartOfACall[]", gemini);

typed("OpenAI.Chat.Completions.ChatCompletionToolMessageParam[]", answers.openai.openai);
typed("OpenAI.Responses.ResponseInputItem.FunctionCallOutput[]", answers.responses.openai_responses);
typed("Anthropic.Messages.ToolResultBlockParam[]", answers.anthropic.anthropic);
typed("Part[]", answers.gemini.gemini);

typed("OpenAI.Chat.Completions.ChatCompletionFunctionTool[]", await session.tools("openai"));
typed("OpenAI.Responses.FunctionTool[]", await session.tools("openai_responses"));
typed("Anthropic.Messages.Tool[]", await session.tools("anthropic"));
typed("Tool[]", await session.tools("gemini"));

// Negative twins: values of other types are errors.
refused("OpenAI.Chat.Completions.ChatCompletionToolMessageParam[]", [{ role: "tool", content: "no id" }]);
refused("OpenAI.Responses.FunctionTool[]", await session.tools("openai"));
refused("Anthropic.Messages.Tool[]", [{ name: "a", input_schema: { anyOf: [] } }]);
refused("Part[]", [{ functionResponse: { name: "a", output: "outside of the response" } }]);

const folder = mkdtempSync(join(process.cwd(), "types-"));
try {
  const file = join(folder, "values.ts");
  writeFileSync(file, parts.join("\n"));
  const compiler = join(process.cwd(), "node_modules/typescript/bin/tsc");
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--pretty", "false"];
  const done = spawnSync(process.execPath, [compiler, ...options, file], { encoding: "utf8" });
  check(done.status === 0, `${done.stdout}${done.stderr}`);
} finally {
  rmSync(folder, { recursive: true });
}
console.log("every list and every result has its published type");
