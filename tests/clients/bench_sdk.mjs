// The bench of npm `@modelcontextprotocol/sdk`: over HTTP, or over one of two bridges from standard input and output.
import { readFileSync } from "node:fs";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { LATEST_PROTOCOL_VERSION } from "@modelcontextprotocol/sdk/types.js";

import { PATIENCE_MS, SERVER, TOKEN, URL_OF_MCP, headers, run, told } from "./bench.mjs";

const bridge = process.argv[2];
const { PATH, HOME, TOOLGATE_PROGRAM } = process.env;

function transport(token) {
  if (bridge === "mcp-remote") {
    const args = ["node_modules/mcp-remote/dist/proxy.js", URL_OF_MCP, "--allow-http", "--header", `Authorization:\${AUTH}`];
    return new StdioClientTransport({ command: "node", args, env: { PATH, HOME, AUTH: `Bearer ${token}` }, stderr: "inherit" });
  }
  if (bridge === "toolgate") {
    const args = ["mcp", "--stdio", "--server", SERVER];
    return new StdioClientTransport({ command: TOOLGATE_PROGRAM, args, env: { TOOLGATE_TOKEN: token }, stderr: "inherit" });
  }
  return new StreamableHTTPClientTransport(new URL(URL_OF_MCP), { requestInit: { headers: headers(token) } });
}

async function connect(token) {
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(transport(token));
  return {
    names: async () => (await client.listTools()).tools.map((tool) => tool.name),
    async call(name, args, { signal, onProgress } = {}) {
      const options = { signal, onprogress: onProgress, timeout: PATIENCE_MS };
      const done = await client.callTool({ name, arguments: args }, undefined, options);
      return told(done.content, done.isError);
    },
    close: () => client.close(),
  };
}

const packages = { "mcp-remote": "mcp-remote", "": "@modelcontextprotocol/sdk" };
const version = bridge === "toolgate" ? "–" : JSON.parse(readFileSync(`node_modules/${packages[bridge]}/package.json`)).version;
await run(version, LATEST_PROTOCOL_VERSION, connect);
