// An orchestrator for Gemini with Google's client library and Toolgate's tools. A scripted model requests tools and checks
// the results.
//
// Run it in the folder with the installed package.json. toolgate.mjs describes the settings.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { NO_TOOL, SOUND, TOOL, UNSOUND, check, checkContents, openSession } from "./toolgate.mjs";

const installed = createRequire(join(process.cwd(), "package.json"));
const { GoogleGenAI } = await import(pathToFileURL(installed.resolve("@google/genai")));

// The model's turns: from a request to the parts of the response.
const turns = [
  ({ tools }) => {
    const declared = tools.flatMap((tool) => tool.functionDeclarations);
    const wanted = declared.find((declaration) => declaration.name === TOOL);
    check(wanted?.description && wanted.parametersJsonSchema.type === "object", "the tool is not declared");
    return [
      { text: "Let me compute that.", thought: true },
      { functionCall: { name: TOOL, args: SOUND }, thoughtSignature: "c2lnbmF0dXJl" },
      { functionCall: { id: "with-an-id", name: TOOL, args: UNSOUND } },
      { functionCall: { name: NO_TOOL, args: {} } },
    ];
  },
  ({ contents }) => {
    const calls = contents.at(-2).parts.flatMap((part) => part.functionCall ?? []);
    const responses = contents.at(-1).parts.map((part) => part.functionResponse);
    check(contents.at(-1).role === "user" && calls.length === responses.length, "not every call is answered");
    calls.forEach(({ id, name }, at) => {
      check(responses[at].id === id && responses[at].name === name, `${name} is answered as ${responses[at].name}`);
    });
    checkContents(responses.map(({ response }) => response.output ?? response.error));
    check(responses[0].response.output && responses[1].response.error, "results and errors are not told apart");
    return [{ text: "42" }];
  },
];

const model = createServer(async (request, response) => {
  const body = JSON.parse((await request.toArray()).join(""));
  try {
    const parts = turns.shift()(body);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }] }));
  } catch (error) {
    response.statusCode = 400;
    response.end(JSON.stringify({ error: { code: 400, message: error.message, status: "INVALID_ARGUMENT" } }));
  }
});
await new Promise((listening) => model.listen(0, "127.0.0.1", listening));

try {
  const session = await openSession();
  const baseUrl = `http://127.0.0.1:${model.address().port}`;
  const client = new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl } });
  const contents = [{ role: "user", parts: [{ text: "What is six times seven?" }] }];
  const ask = async () => {
    const tools = await session.tools("gemini");
    const answer = await client.models.generateContent({ model: "scripted", contents, config: { tools } });
    contents.push(answer.candidates[0].content);
    return answer;
  };
  const { candidates } = await ask();
  const answer = await session.call({ turn: "t1", gemini: candidates[0].content.parts });
  contents.push({ role: "user", parts: answer.gemini });
  const { text } = await ask();
  check(text === "42" && turns.length === 0, `the model ended with: ${text}`);
  console.log("gemini: two turns with tools");
} finally {
  model.close();
}
