// Drives the daemon's MCP server with the npm package `@modelcontextprotocol/sdk`, and follows a changing list.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import assert from "node:assert";
import { setTimeout as sleep } from "node:timers/promises";

const headers = { Authorization: "Bearer " + process.env.TOOLGATE_TOKEN };
const transport = new StreamableHTTPClientTransport(new URL(process.env.TOOLGATE_URL), { requestInit: { headers } });
const client = new Client({ name: "test", version: "1" });
const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
await client.connect(transport);

const before = (await client.listTools()).tools.map((tool) => tool.name);
assert(before.includes("call_arithmetic_evaluate") && !before.some((name) => name.startsWith("call_text_")));
const done = await client.callTool({ name: "call_arithmetic_evaluate", arguments: { expression: "2^10" } });
assert.equal(done.structuredContent.decimal, "1024");

// The operator gives the agent more tools.
const address = new URL(process.env.TOOLGATE_URL).origin + "/v1/orgs/acme/agents/bot";
const operator = { Authorization: "Bearer " + process.env.TOOLGATE_OPERATOR };
async function enable(patterns) {
  const stored = await fetch(address, { headers: operator });
  const put = await fetch(address, {
    method: "PUT",
    headers: { ...operator, "Content-Type": "application/json", "If-Match": stored.headers.get("etag") },
    body: JSON.stringify({ enabled: patterns }),
  });
  assert.equal(put.status, 200, await put.text());
}
await enable(["arithmetic/*", "text/*"]);
// The SDK does not tell when its stream is open, and a change before that is not notified. So more changes follow.
const isNotified = changed.then(() => true);
for (let tries = 0; !(await Promise.race([isNotified, sleep(1000, false)])); tries += 1) {
  assert(tries < 120, "no change is notified");
  await enable(tries % 2 === 0 ? ["arithmetic/*", "text/*", "time/*"] : ["arithmetic/*", "text/*"]);
}
const after = (await client.listTools()).tools.map((tool) => tool.name);
assert(after.includes("call_text_csv_parse"));
await transport.terminateSession();
await client.close();
