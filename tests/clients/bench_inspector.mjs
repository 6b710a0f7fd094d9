// The bench of the command line of npm `@modelcontextprotocol/inspector`: a process for each request.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";

import { URL_OF_MCP, run, told } from "./bench.mjs";

const PACKAGE = "node_modules/@modelcontextprotocol/inspector";

async function connect(token) {
  const target = ["--transport", "http", "--server-url", URL_OF_MCP, "--header", `Authorization: Bearer ${token}`];
  async function inspect(...method) {
    const args = [`${PACKAGE}/clients/launcher/build/index.js`, "--cli", "--method", ...method, ...target];
    const child = spawn("node", args, { stdio: ["ignore", "pipe", "pipe"] });
    const [output, log, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
    return { output, log, status };
  }
  return {
    names: async () => JSON.parse((await inspect("tools/list")).output).tools.map((tool) => tool.name),
    async call(name, args) {
      const given = Object.entries(args).flatMap(([key, value]) => ["--tool-arg", `${key}=${value}`]);
      const { output, log, status } = await inspect("tools/call", "--tool-name", name, ...given);
      const form = status ? `exit ${status}` : "result";
      try {
        const done = JSON.parse(output);
        return { ...told(done.content, done.isError), form };
      } catch {
        throw Object.assign(new Error(log), { outcome: form });
      }
    },
    close: async () => {},
  };
}

const version = JSON.parse(readFileSync(`${PACKAGE}/package.json`)).version;
await run(version, "2025-11-25", connect, ["cancel", "progress", "20 at once", "SIGTERM", "restart"]);
