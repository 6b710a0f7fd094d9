// The cells of the bench of real clients, as in bench.py, for drivers in Node.
import { createInterface } from "node:readline";

export const { TOOLGATE_SERVER: SERVER, TOOLGATE_TOKEN: TOKEN, TOOLGATE_CAREFUL_TOKEN: CAREFUL_TOKEN } = process.env;
export const URL_OF_MCP = `${SERVER}/mcp`;
const EVALUATE = "call_arithmetic_evaluate";
// Longer than any cell takes on a loaded machine.
export const PATIENCE_MS = 100_000;
const PARALLEL = 20;

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

function say(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

async function want(what, more) {
  say({ want: what, ...more });
  return JSON.parse((await answers.next()).value);
}

export function headers(token) {
  return { Authorization: `Bearer ${token}` };
}

// What the client gives its program for content blocks of MCP.
export function told(content, isError) {
  const text = content.map((block) => block.text ?? "").join("");
  return { text, isError: isError ?? false, kinds: content.map((block) => block.type) };
}

// Names an exception by its JSON-RPC code where it has one.
function failure(error) {
  if (error.outcome) return error.outcome;
  return `exception ${Number.isInteger(error.code) ? error.code : error.name}`;
}

function carries(size) {
  return async (client) => {
    const { text } = await client.call("call_wiki_pages", { bytes: size });
    if (text.includes("/workspace/.results/")) return ["file", text.slice(-300)];
    return [text.length >= size ? "works" : "cut at 64 KiB", text.slice(0, 300)];
  };
}

function decided(decision) {
  return async (client) => {
    const call = client.call("call_files_write", { path: `${decision}.txt`, content: "hello" });
    call.catch(() => {});
    const waited = await want(decision);
    const { text, isError } = await call;
    if (decision === "deny") return [text.includes("a person denied this call") ? "told" : "not told", text];
    say({ cell: "records of the wait", outcome: String(waited.records) });
    return [text.includes("5") && !isError ? "works" : "fails", text];
  };
}

// Each has the client of the careful agent.
const CAREFUL_CELLS = { approval: decided("approve"), denial: decided("deny") };
const CELLS = {
  async list(client) {
    const names = await client.names();
    return [names.some((name) => name.endsWith(EVALUATE)) ? "works" : "lacks a tool", names];
  },
  async call(client) {
    const { text, isError } = await client.call(EVALUATE, { expression: "6*7" });
    return [text.includes("42") && !isError ? "works" : "fails", text];
  },
  async refusal(client) {
    const { text, isError, form } = await client.call("call_no_such", {});
    return [isError ? (form ?? "result") : "text for the model", text];
  },
  async "wrong arguments"(client) {
    const { text, form } = await client.call(EVALUATE, { expresion: "6*7" });
    return [text.includes("did you mean") ? (form ?? "result") : "text of its own", text];
  },
  async image(client) {
    const { kinds, text } = await client.call("call_wiki_picture", {});
    return [kinds.join(" + "), text];
  },
  "500 KB": carries(500_000),
  "1.5 MB": carries(1_500_000),
  async cancel(client) {
    const stop = new AbortController();
    const call = client.call("call_hostile_doze", {}, { signal: stop.signal });
    call.catch(() => {});
    await want("running", { tool: "hostile/doze" });
    stop.abort();
    await call.catch(() => {});
    const { status } = await want("ended", { tool: "hostile/doze" });
    return [status === "cancelled" ? "works" : status === "running" ? "runs on" : status, status];
  },
  async progress(client) {
    const steps = [];
    let tell;
    const isTold = new Promise((resolve) => (tell = resolve));
    function onProgress(step) {
      steps.push(step);
      tell();
    }
    const call = client.call("call_wiki_hold", {}, { onProgress });
    call.catch(() => {});
    await Promise.race([call, isTold]);
    await want("release");
    await call;
    return [steps.length ? "works" : "none", steps];
  },
  async "20 at once"(client) {
    const calls = Array(PARALLEL).fill(["call_wiki_meet", { parties: PARALLEL }]);
    const all = await (client.callAll?.(calls) ?? Promise.all(calls.map((call) => client.call(...call))));
    const met = all.length === PARALLEL && all.every(({ text }) => text.includes("met"));
    return [met ? "works" : "one after another", all.map(({ text }) => text)];
  },
  async SIGTERM(client) {
    await client.call("call_files_write", { path: "kept.txt", content: "kept" });
    const call = client.call("call_hostile_rest", { ms: 2000 });
    call.catch(() => {});
    await want("terminate", { tool: "hostile/rest" });
    const done = await call.catch(() => null);
    if (!done) return ["result lost"];
    const { text, isError } = done;
    return [text.includes("2000") && !isError ? "works" : "cancelled", text];
  },
  async restart(client) {
    await want("restart");
    const { text, isError } = await client.call("call_files_read", { path: "kept.txt" });
    if (text.includes("there is no")) return ["files lost", text];
    return [text.includes("kept") && !isError ? "works" : "fails", text];
  },
};

async function fill(name, act, client) {
  let late;
  const patience = new Promise((_, reject) => {
    late = setTimeout(() => reject(new Error("no answer")), PATIENCE_MS);
  });
  let outcome, detail;
  try {
    [outcome, detail] = await Promise.race([act(client), patience]);
  } catch (error) {
    [outcome, detail] = [failure(error), String(error)];
  }
  clearTimeout(late);
  say({ cell: name, outcome, detail: (JSON.stringify(detail) ?? "").slice(0, 1000) });
}

// Fills all cells but those that the client lacks. `connect(token)` opens a client with `names()`, `call(…)` and `close()`.
export async function run(version, revision, connect, lacks = []) {
  say({ version, revision });
  for (const [token, cells] of [[CAREFUL_TOKEN, CAREFUL_CELLS], [TOKEN, CELLS]]) {
    const client = await connect(token);
    for (const [name, act] of Object.entries(cells)) {
      if (!lacks.includes(name)) await fill(name, act, client);
    }
    await client.close().catch(() => {});
  }
  process.exit(0);
}
