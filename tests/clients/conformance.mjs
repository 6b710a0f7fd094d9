// Runs the conformance suites of MCP against the daemon, and prints each check as a line of JSON.
//
// Between them is a proxy, which adds the token, and translates names: the suites call `test_simple_text` where the daemon
// lists `call_conformance_test_simple_text`, and the tools that ask a person are `user/ask`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import readline from "node:readline";

const NEWEST = "@modelcontextprotocol/conformance";
const STATELESS = [NEWEST, "2026-07-28", "--suite", "all"];
const OTHERS = [
  ["conformance-stable", "2025-11-25", "--suite", "all"],
  [NEWEST, "2025-11-25", "--suite", "all"],
];
// The scenarios of the extension for tasks are in no suite.
const TASKS = ["lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input", "request-headers"];
TASKS.push("dispatch-and-envelope", "status-notifications", "required-task-error", "mrtr-composition");
for (const name of TASKS) OTHERS.push([NEWEST, "2026-07-28", "--force", "--scenario", "tasks-" + name]);
const PREFIX = "call_conformance_";
const ASK = ["test_elicitation", "test_streaming_elicitation", "test_input_required_result_elicitation"];
// The suite names the question itself, and the daemon calls it `ask`.
const QUESTION = '"user_name"';
const daemon = new URL(process.env.TOOLGATE_URL);
const operator = { Authorization: "Bearer " + process.env.TOOLGATE_OPERATOR, "Content-Type": "application/json" };

// Tools that change nothing here, since the daemon neither closes a stream early nor changes the list by a call.
const STAND_INS = ["test_reconnection", "test_trigger_tool_change"];

function daemonName(name) {
  if (ASK.includes(name)) return "call_user_ask";
  if (STAND_INS.includes(name)) return PREFIX + "test_simple_text";
  return name.startsWith("call_") ? name : PREFIX + name;
}

// The suite expects that a call changes the list, which only an operator can do here.
async function changeList() {
  const address = daemon.origin + "/v1/orgs/acme/agents/bot";
  const stored = await fetch(address, { headers: operator });
  const document = await stored.json();
  const without = document.enabled.filter((tool) => tool !== "codec/*");
  const enabled = without.length < document.enabled.length ? without : [...without, "codec/*"];
  const body = JSON.stringify({ ...document, enabled });
  await fetch(address, { method: "PUT", headers: { ...operator, "If-Match": stored.headers.get("etag") }, body });
}

// Tasks are calls that wait for an approval. The suite expects their end, but of those that take long.
async function approveWith(owner) {
  const { items } = await (await fetch(daemon.origin + "/v1/approvals", { headers: owner })).json();
  for (const { id, arguments: { seconds } } of items.filter((item) => item.state === "pending")) {
    if (seconds > 10) continue;
    const decision = { method: "POST", headers: owner, body: JSON.stringify({ decision: "approve" }) };
    await fetch(`${daemon.origin}/v1/approvals/${id}`, decision);
  }
}

let calls = 0;

async function translate(text, headers) {
  const message = text && JSON.parse(text);
  const { name } = message?.params ?? {};
  if (message?.method !== "tools/call" || typeof name !== "string") return text;
  if (name === "test_trigger_tool_change") await changeList();
  message.params.name = daemonName(name);
  if (headers["mcp-name"]) headers["mcp-name"] = daemonName(headers["mcp-name"].trim());
  // An approval is for equal calls of the agent, also of another scenario that runs meanwhile.
  if (["slow_compute", "failing_job"].includes(name)) message.params.arguments.label = "call " + ++calls;
  if (ASK.includes(name)) message.params.arguments = { question: "What is your name?" };
  return JSON.stringify(message).replaceAll(QUESTION, '"ask"');
}

const proxy = http.createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const headers = { ...request.headers, authorization: "Bearer " + process.env.TOOLGATE_TOKEN };
  const body = await translate(Buffer.concat(chunks).toString(), headers);
  delete headers["transfer-encoding"];
  if (body) headers["content-length"] = Buffer.byteLength(body);
  const { hostname, port } = daemon;
  const forwarded = http.request({ hostname, port, path: request.url, method: request.method, headers });
  response.on("close", () => forwarded.destroy());
  forwarded.on("error", () => response.destroy());
  forwarded.on("response", (answer) => {
    delete answer.headers["content-length"];
    response.writeHead(answer.statusCode, answer.headers).flushHeaders();
    // A client may leave before the end. An event of a stream ends with a line.
    const lines = readline.createInterface({ input: answer }).on("error", () => response.destroy());
    lines.on("line", (line) => response.write(line.replaceAll(PREFIX, "").replaceAll('"ask"', QUESTION) + "\n"));
    lines.on("close", () => response.end());
  });
  forwarded.end(body);
});
proxy.listen(0, "127.0.0.1");
await once(proxy, "listening");
const url = `http://127.0.0.1:${proxy.address().port}/mcp`;

// The suites import a function of Node 22, which they need only for other commands.
const shim = `import { register } from "node:module";
register("data:text/javascript," + encodeURIComponent(\`export function resolve(name, context, next) {
  if (name !== "fs" || !context.parentURL?.includes("/conformance")) return next(name, context);
  return { url: "data:text/javascript,export * from 'node:fs'; export const globSync = () => [];", shortCircuit: true };
}\`));`;

async function run([suite, revision, ...scenarios]) {
  const folder = mkdtempSync(path.join(process.env.TOOLGATE_RESULTS, "suite-"));
  const program = path.resolve("node_modules", suite, "dist/index.js");
  const options = ["server", "--url", url, ...scenarios, "--spec-version", revision, "--output-dir", folder];
  const child = spawn("node", ["--import", "data:text/javascript," + encodeURIComponent(shim), program, ...options]);
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (log += text));
  await once(child, "close");
  const results = readdirSync(folder);
  if (results.length === 0) throw new Error(`${suite} ran no scenario: ${log}`);
  for (const scenario of results) {
    const name = /^server-(.*)-\d{4}-\d\d-\d\dT/.exec(scenario)[1];
    for (const { id, status, errorMessage } of JSON.parse(readFileSync(path.join(folder, scenario, "checks.json")))) {
      console.log(JSON.stringify({ suite, revision, scenario: name, check: id, status, message: errorMessage }));
    }
  }
}
const role = JSON.stringify({ role: "owner", organization: "acme" });
const made = await fetch(daemon.origin + "/v1/tokens", { method: "POST", headers: operator, body: role });
const owner = { ...operator, Authorization: "Bearer " + (await made.json()).token };
const approving = setInterval(approveWith, 300, owner);
await Promise.all(OTHERS.map(run));
// By itself, since some of its checks give the daemon less than a second.
await run(STATELESS);
clearInterval(approving);
proxy.close();
proxy.closeAllConnections();
